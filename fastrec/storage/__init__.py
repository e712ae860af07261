"""Access to files on this machine, or in an object store by its URL, through fsspec.

A path is a string; one with `://` in it is a URL. An object store has no directories and no rename:
an object appears as a whole when its writer is finished, or not at all.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from xxhash import xxh3_64_intdigest, xxh3_128

from fastrec.errors import CorpusError, UsageError, naming, shown
from fastrec.storage.local import LOCAL, LocalStorage

if TYPE_CHECKING:
    from fastrec.storage.base import Reader
    from fastrec.storage.object_store import ObjectStore


def storage_of(path: str) -> LocalStorage | ObjectStore:
    if not is_url(path):
        return LOCAL
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

    return OBJECT_STORE


def open_reader(path: str) -> Reader:
    return storage_of(path).open_reader(path)


def is_url(path: str) -> bool:
    return "://" in path


def check_local(path: str, what: str) -> None:
    """Refuse a URL for output that is only written to this machine."""
    if is_url(path):
        raise UsageError(
            f"{what} must be written to a local directory, not to {shown(path)}: copy them there"
        )


def without_file_protocol(path: str | os.PathLike[str]) -> str:
    return os.fspath(path).removeprefix("file://")


def is_private(path: str) -> bool:
    """Whether only this process can see the files at a path."""
    return path.startswith("memory://")


def join(directory: str, name: str) -> str:
    """Join a directory, which may be empty, and a name.

    >>> join("s3://bucket/runs/", "a.jsonl"), join("runs", "a.jsonl"), join("", "a.jsonl")
    ('s3://bucket/runs/a.jsonl', 'runs/a.jsonl', 'a.jsonl')
    """
    return f"{directory.rstrip('/')}/{name}" if directory else name


def last_name(path: str) -> str:
    """The name of a file or directory without the folders it is in."""
    return base_name(path) if is_url(path) else base_name(os.path.realpath(path))


def parent_and_name(path: str) -> tuple[str, str]:
    """Split a path into its directory and its name.

    >>> parent_and_name("s3://bucket/nightly/corpus/"), parent_and_name("/corpus")
    (('s3://bucket/nightly', 'corpus'), ('/', 'corpus'))
    """
    parent, slash, name = path.rstrip("/").rpartition("/")
    return parent or slash, name


def parent_of(path: str) -> str:
    return parent_and_name(path)[0]


def base_name(path: str) -> str:
    return parent_and_name(path)[1]


def file_in(corpus: str, name: str, listing: str) -> str:
    """Return the path of a file of a corpus.

    CorpusError if it is not directly in it, or a link that leads out of it.

    `listing` is the path of the document that names the file.
    """
    path = join(corpus, name)
    if not is_plain(name):
        raise CorpusError(listing, f"names a file outside the corpus: {name!r}")
    if storage_of(path).leaves(corpus, path):
        raise CorpusError(
            path, "is a link to a file outside the corpus: replace it by a copy of that file"
        )
    return path


def is_plain(name: str) -> bool:
    """Whether a name is that of a file directly in a directory."""
    return PurePath(name).name == name and "\0" not in name


_BLOCK = 1 << 20
_XXH3_DIGITS = 32  # of a 128-bit xxh3

# The 64-bit xxh3 of some bytes: fast, and the same everywhere, but not a proof of equality.
fingerprint = xxh3_64_intdigest


class FileDigest(Struct, frozen=True, array_like=True):
    """A file, and a checksum of its content."""

    path: str
    size: int
    hash: str  # 128-bit xxh3 of a file of the work directory, SHA-256 of a published one


def digest_of(path: str) -> FileDigest:
    return FileDigest(path, *hash_of_file(path))


def is_unchanged(file: FileDigest) -> bool:
    digest = xxh3_128() if len(file.hash) == _XXH3_DIGITS else sha256()
    try:
        return hash_of_file(file.path, digest=digest) == (file.size, file.hash)
    except OSError:
        return False


def sha256_of_file(path: str) -> tuple[int, str]:
    return hash_of_file(path, digest=sha256())


def hash_of_file(
    path: str, start: int = 0, size: int | None = None, *, digest: Any = None
) -> tuple[int, str]:
    """Count and hash the bytes of a file from `start` on, at most `size`.

    By default with 128-bit xxh3.
    """
    digest = digest or xxh3_128()
    count = 0
    with naming(path), open_reader(path) as file:
        file.seek(start, size)
        while block := file.read(_BLOCK if size is None else min(_BLOCK, size - count)):
            digest.update(block)
            count += len(block)
    return count, digest.hexdigest()
