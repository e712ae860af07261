"""Digests of bytes and of files."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from xxhash import xxh3_64_intdigest, xxh3_128

from fastrec.errors import naming
from fastrec.storage import open_reader

__all__ = ["fingerprint", "hash_of_file", "sha256_of_file"]

_BLOCK: Final = 1 << 20


def fingerprint(data: bytes | bytearray | memoryview) -> int:
    """Return a 64-bit xxh3 of some bytes: fast, the same everywhere, and not a proof of equality."""
    return xxh3_64_intdigest(data)


def hash_of_file(path: str, start: int = 0, size: int | None = None) -> tuple[int, str]:
    """Return how many bytes a file holds from `start` on, at most `size`, and their 128-bit xxh3."""
    return _digest_of_file(path, xxh3_128(), start, size)


def sha256_of_file(path: str) -> tuple[int, str]:
    """Return the size of a file, and its SHA-256."""
    return _digest_of_file(path, sha256(), 0, None)


def _digest_of_file(path: str, digest: Any, start: int, size: int | None) -> tuple[int, str]:
    count = 0
    with naming(path), open_reader(path) as file:
        file.seek(start, size)
        while block := file.read(_BLOCK if size is None else min(_BLOCK, size - count)):
            digest.update(block)
            count += len(block)
    return count, digest.hexdigest()
