"""Objects in stores, through fsspec: found, read, removed; written so that they appear as a whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from fastrec.storage.base import Log, NewFile, Reader, ends_early
from fastrec.storage.object_client import FoundObject, ObjectClient, found_object
from fastrec.storage.object_files import NewObject, ObjectLog, ObjectReader

__all__ = ["OBJECT_STORE", "ObjectStore"]


class ObjectStore(ObjectClient):
    """All stores that fsspec knows; see `Storage` for the methods without a docstring."""

    def canonical(self, path: str) -> str:
        with self.asking(path) as (fs, name):
            return str(fs.unstrip_protocol(name))

    def exists(self, path: str) -> bool:
        with self.asking(path) as (fs, name):
            return bool(fs.exists(name))

    def is_directory(self, path: str) -> bool:
        with self.asking(path) as (fs, name):
            return bool(fs.isdir(name))

    def size_of(self, path: str) -> int:
        return self.look_at(path).size

    def signature(self, path: str) -> str:
        found = self.look_at(path)
        return f"{found.size}-{found.version}"

    def files_in(self, directory: str) -> list[str]:
        return [found.path for found in self.find(directory)]

    def find(self, directory: str) -> list[FoundObject]:
        """List the objects below a directory, sorted; none if there is no such directory."""
        with self.asking(directory) as (fs, name):
            details = fs.find(name, detail=True)
            start, before = len(name.rstrip("/")), directory.rstrip("/")
            return [
                self._listed(before + path[start:], details[path]) for path in sorted(details) if not _is_marker(path)
            ]

    def glob(self, pattern: str) -> list[tuple[str, FoundObject | None]]:
        """List what matches, sorted: paths with their objects, None for directories; only those if it ends with `/`."""
        with self.asking(pattern) as (fs, name):
            before = pattern.rstrip("/").removesuffix(name.rstrip("/"))  # the protocol, and a host if there is one
            matches = sorted(fs.glob(name, detail=True).items())
            directories = {path for path, details in matches if details["type"] == "directory"}
            return [
                (before + path, None if path in directories else self._listed(before + path, details))
                for path, details in matches
                if path in directories or not (pattern.endswith("/") or _is_marker(path))
            ]

    def _listed(self, path: str, details: dict[str, Any]) -> FoundObject:
        """Describe an object of a listing; a web server lists no sizes, so it is looked up."""
        return self.look_at(path) if details.get("size") is None else found_object(path, details)

    def heads(self, paths: list[str], size: int) -> list[bytes | Exception]:
        """Read the first bytes of many objects concurrently; an exception for each that cannot be read."""
        if not paths:
            return []
        with self.asking(paths[0]) as (fs, _):
            return list(fs.cat_ranges(_names(fs, paths), 0, size, on_error="return"))

    def open_reader(self, path: str) -> Reader:
        return ObjectReader(self, path)

    def read_all(self, path: str) -> bytes:
        with self.asking(path) as (fs, name):
            return bytes(fs.cat_file(name))

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        data = self.read_some(path, size, offset)
        if len(data) < size:
            raise ends_early(path, offset + len(data), offset + size)
        return data

    def create(self, path: str, *, for_work: bool = False, synced: bool = True) -> NewFile:  # noqa: ARG002 - all alike
        return NewObject(self, path)

    def sync(self, path: str) -> None:
        """Do nothing: the store has it."""

    def write_all(self, path: str, data: bytes) -> None:
        with self.asking(path) as (fs, name):
            fs.pipe_file(name, data, **self.time_limit(fs))

    def open_log(self, path: str) -> Log:
        return ObjectLog(self, path)

    def make_directory(self, directory: str) -> None:
        """Do nothing: stores have no directories."""

    def copy(self, path: str, new_path: str) -> None:
        """Copy an object within a store; its bytes do not pass this machine."""
        with self.asking(path) as (fs, name):
            fs.cp_file(name, *_names(fs, [new_path]))

    def link_or_copy(self, path: str, new_path: str) -> bool:
        """Copy an object within a store, which has no links."""
        self.copy(path, new_path)
        return False

    def move(self, path: str, new_path: str) -> None:
        """Rename an object; the store copies it."""
        with self.asking(path) as (fs, name):
            fs.cp_file(name, *_names(fs, [new_path]))
            fs.rm_file(name)

    def remove(self, *paths: str) -> None:
        """Remove objects; it is no error if one is gone already."""
        if not paths:
            return
        with self.asking(paths[0]) as (fs, _):
            names = _names(fs, paths)
            # A request for many removes what they match as globs, which may belong to somebody else.
            plain = [name for name in names if not any(char in name for char in "*?[")]
            if plain:
                with contextlib.suppress(FileNotFoundError):
                    fs.rm(plain)
            for name in set(names).difference(plain):
                with contextlib.suppress(FileNotFoundError):
                    fs.rm_file(name)

    def remove_all(self, directory: str) -> None:
        with contextlib.suppress(OSError):
            self.remove(*self.files_in(directory))
            self.abort_uploads(directory)

    def abort_uploads(self, directory: str, having: str = "") -> None:
        """Abort uploads below a directory that a killed process left behind: they are invisible, and cost money.

        `having` restricts them to names that contain it.

        Listing them needs a permission that not everyone has. What cannot be done here is left to the store's own
        lifecycle rules.
        """
        with contextlib.suppress(OSError), self.asking(directory) as (fs, name):
            if not hasattr(fs, "call_s3"):
                return
            bucket, _, prefix = name.partition("/")
            found = {"Bucket": bucket, "Prefix": f"{prefix}/"}
            answer = fs.call_s3("list_multipart_uploads", **found, **self.time_limit(fs))  # the first page
            for upload in answer.get("Uploads", ()):
                if having not in upload["Key"]:
                    continue
                fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])


OBJECT_STORE: Final = ObjectStore()


def _names(fs: Any, paths: Iterable[str]) -> list[str]:
    """Return the names that a file system has for URLs."""
    return [fs._strip_protocol(path) for path in paths]  # noqa: SLF001 - there is no public way


def _is_marker(path: str) -> bool:
    """Return whether an object stands for a directory: some tools create an empty one to show a folder."""
    return path.endswith("/")
