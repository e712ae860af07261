"""Checksums of bytes and of files."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128

from fastrec.errors import naming
from fastrec.storage import storage_of

__all__ = ["FileDigest", "digest_of", "fingerprint", "hash_of_file", "is_unchanged", "sha256_of_file"]

_BLOCK: Final = 1 << 20

fingerprint = xxh3_64_intdigest
"""The 64-bit xxh3 of some bytes: fast, and the same everywhere, but not a proof of equality."""


class FileDigest(msgspec.Struct, frozen=True, array_like=True):
    """A file of the work directory, and a checksum of its content."""

    path: str
    size: int
    hash: str  # 128-bit xxh3


def digest_of(path: str) -> FileDigest:
    """Read a file, and compute its digest."""
    return FileDigest(path, *hash_of_file(path))


def is_unchanged(file: FileDigest) -> bool:
    """Return whether a file still exists with the same content."""
    try:
        return hash_of_file(file.path) == (file.size, file.hash)
    except OSError:
        return False


def sha256_of_file(path: str) -> tuple[int, str]:
    """Return the size of a file and its SHA-256."""
    return hash_of_file(path, digest=sha256())


def hash_of_file(path: str, start: int = 0, size: int | None = None, *, digest: Any = None) -> tuple[int, str]:
    """Return how many bytes a file holds from `start` on, at most `size`, and their hash: by default 128-bit xxh3."""
    digest = digest or xxh3_128()
    count = 0
    with naming(path), storage_of(path).open_reader(path) as file:
        file.seek(start, size)
        while block := file.read(_BLOCK if size is None else min(_BLOCK, size - count)):
            digest.update(block)
            count += len(block)
    return count, digest.hexdigest()
