"""Files in a store, through fsspec: found, read, removed; written so that they appear whole or not at all.

`requests` is the way to the file systems, `reading` what is read from front to back.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fastrec.storage.digests import fingerprint
from fastrec.storage.requests import asking, translated, within_the_limit

__all__ = [
    "Found",
    "NewObject",
    "abort_uploads",
    "exists",
    "find",
    "glob",
    "heads",
    "is_directory",
    "look_at",
    "move",
    "only_name",
    "read_all",
    "read_range",
    "remove",
    "remove_all",
    "write_all",
    "write_new",
]

_UPLOAD: Final = 16 << 20  # bytes of a part of an upload; what is smaller is put in one request
_VERSIONS: Final = ("ETag", "etag", "blob_id", "md5Hash", "crc32c", "LastModified", "last_modified", "updated", "mtime")


class Found(NamedTuple):
    """An object that was found."""

    path: str
    size: int
    version: int


def only_name(path: str) -> str:
    """Give the one URL that all names of an object have in common."""
    with asking(path) as (fs, name):
        return str(fs.unstrip_protocol(name))


def exists(path: str) -> bool:
    """Tell whether there is an object, or any below that name."""
    with asking(path) as (fs, name):
        return bool(fs.exists(name))


def is_directory(path: str) -> bool:
    """Tell whether there are objects below that name."""
    with asking(path) as (fs, name):
        return bool(fs.isdir(name))


def look_at(path: str) -> Found:
    """Look an object up; FileNotFoundError if there is none."""
    with asking(path) as (fs, name):
        # What a web server lists is a page, which it calls a file.
        if name.endswith("/") or (details := fs.info(name))["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return _found(path.rstrip("/"), details)


def find(directory: str) -> list[Found]:
    """List the objects below a directory, sorted; none if there is no such directory."""
    with asking(directory) as (fs, name):
        details = fs.find(name, detail=True)
        start, before = len(name.rstrip("/")), directory.rstrip("/")
        return [_listed(before + path[start:], details[path]) for path in sorted(details) if not _is_marker(path)]


def glob(pattern: str) -> list[tuple[str, Found | None]]:
    """List what matches, sorted: names with objects, or with None for directories; those alone if it ends with `/`."""
    with asking(pattern) as (fs, name):
        before = pattern.rstrip("/").removesuffix(name.rstrip("/"))  # the protocol, and a host if there is one
        matches = sorted(fs.glob(name, detail=True).items())
        directories = {path for path, details in matches if details["type"] == "directory"}
        return [
            (before + path, None if path in directories else _listed(before + path, details))
            for path, details in matches
            if path in directories or not (pattern.endswith("/") or _is_marker(path))
        ]


def _is_marker(path: str) -> bool:
    """Tell whether an object stands for a directory: some tools put one, of no bytes, where they show a folder."""
    return path.endswith("/")


def heads(paths: list[str], size: int) -> list[bytes | Exception]:
    """Read the first bytes of many objects at the same time; what cannot be read is an exception."""
    if not paths:
        return []
    with asking(paths[0]) as (fs, _):
        names = [fs._strip_protocol(path) for path in paths]  # noqa: SLF001 - the only way there is
        found: list[bytes | Exception] = fs.cat_ranges(names, 0, size, on_error="return")
        return found


def read_all(path: str) -> bytes:
    """Read an object whole."""
    with asking(path) as (fs, name):
        data: bytes = fs.cat_file(name)
        return data


def read_range(path: str, size: int, offset: int) -> bytes:
    """Read a stretch of an object."""
    if not size:
        return b""
    with asking(path) as (fs, name):
        data: bytes = fs.cat_file(name, start=offset, end=offset + size)
        return data


def write_all(path: str, data: bytes) -> None:
    """Put a small object in one request."""
    with asking(path) as (fs, name):
        fs.pipe_file(name, data, **within_the_limit(fs))


def write_new(path: str, data: bytes) -> None:
    """Put a small object unless there is one of that name: of two that do, where the store can tell, one does."""
    with asking(path) as (fs, name):
        try:
            fs.pipe_file(name, data, mode="create", **within_the_limit(fs))
        except FileExistsError:
            pass
        except TimeoutError:
            raise
        except Exception:  # noqa: BLE001 - not every store knows how: if it fails for another reason, this does too
            fs.pipe_file(name, data, **within_the_limit(fs))


class NewObject:
    """An object that is uploaded in parts; it is there when it is finished."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = 0
        with asking(path) as (fs, name):
            self._file = fs.open(name, "wb", block_size=_UPLOAD)

    def write(self, data: Any, /) -> int:
        """Append some bytes: a part is uploaded when it is full."""
        with translated(self._path):
            self._file.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Tell how many bytes were written."""
        return self._size

    def writev(self, views: list[memoryview], /) -> None:
        """Append some buffers."""
        self.write(b"".join(views))

    def finish(self) -> None:
        """Complete the upload."""
        file = self._file
        with translated(self._path):
            file.close()
        self._file = None

    def give_up(self) -> None:
        """Leave nothing of the upload behind; closing the file would complete it, also when it is collected."""
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.discard()
            with contextlib.suppress(Exception):
                self._file.closed = True
            self._file = None


def move(path: str, new_path: str) -> None:
    """Give an object another name; the store copies it."""
    with asking(path) as (fs, name):
        fs.cp_file(name, fs._strip_protocol(new_path))  # noqa: SLF001 - the only way there is
        fs.rm_file(name)


def remove(paths: Iterable[str]) -> None:
    """Remove objects; one that is gone already is no error."""
    names = list(paths)
    if not names:
        return
    with asking(names[0]) as (fs, _):
        objects = [fs._strip_protocol(name) for name in names]  # noqa: SLF001 - the only way there is
        # Where many can be removed at once they are taken for globs, which would match what is somebody else's.
        plain = [name for name in objects if not any(char in name for char in "*?[")]
        if plain:
            with contextlib.suppress(FileNotFoundError):
                fs.rm(plain)
        for name in set(objects).difference(plain):
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(name)


def remove_all(directory: str) -> None:
    """Remove all objects below a directory, and uploads to it that were never completed."""
    remove(found.path for found in find(directory))
    abort_uploads(directory)


def abort_uploads(directory: str) -> None:
    """Give up uploads below a directory that a killed process has left: nobody sees them, and they cost money.

    Not everyone may list them: what cannot be done is left to the rules of the store, which should have one for this.
    """
    with contextlib.suppress(OSError), asking(directory) as (fs, name):
        if not hasattr(fs, "call_s3"):
            return
        bucket, _, prefix = name.partition("/")
        answer = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/")  # of all, a page is told
        for upload in answer.get("Uploads", ()):
            fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])


def _listed(path: str, details: dict[str, Any]) -> Found:
    """Tell what a list says of an object; a web server's says no sizes."""
    return look_at(path) if details.get("size") is None else _found(path, details)


def _found(path: str, details: dict[str, Any]) -> Found:
    if details.get("size") is None:  # without it, nobody would notice that some of the object is missing
        raise OSError(errno.ENOTSUP, "the server does not tell its size: fetch it first", path)
    version = next((details[name] for name in _VERSIONS if details.get(name)), "")
    return Found(path, details["size"], fingerprint(str(version).encode()) >> 1 if version else 0)
