"""Files that must still be what they were, if what an earlier run made is to be used."""

from __future__ import annotations

import msgspec

from fastrec.storage.digests import hash_of_file

__all__ = ["Kept", "is_kept", "keep"]


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A file of the work directory, and what was in it."""

    path: str
    size: int
    hash: str
    """128-bit xxh3."""


def keep(path: str) -> Kept:
    """Note what is in a file."""
    return Kept(path, *hash_of_file(path))


def is_kept(file: Kept) -> bool:
    """Tell whether a file is still there, byte for byte."""
    try:
        return hash_of_file(file.path) == (file.size, file.hash)
    except OSError:
        return False
