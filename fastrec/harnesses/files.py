"""Read files of logs: what several harnesses need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastrec.errors import LogError
from fastrec.sources.formats import MAGIC_BYTES, Format, detect
from fastrec.storage import storage_of
from fastrec.storage.base import Reader

__all__ = ["check_is_plain", "read_at", "read_document"]

_T = TypeVar("_T")


def read_at(reader: Reader, size: int, offset: int) -> bytes:
    """Read `size` bytes from `offset`, or fewer if the file ends: a single `pread` may return fewer at any time."""
    if offset >= reader.size:  # it may be too large for the system to seek to
        return b""
    data = reader.pread(size, offset)
    while len(data) < size and (more := reader.pread(size - len(data), offset + len(data))):
        data += more
    return data


def read_document(path: str, decode: Callable[[bytes], _T], problem: str) -> _T:
    """Read a small JSON document. If it does not decode, raise LogError with `problem` and the reason."""
    try:
        return decode(storage_of(path).read_all(path))
    except ValueError as exc:
        raise LogError(path, f"{problem}: {exc}") from exc


def check_is_plain(path: str) -> None:
    """Raise LogError if a file is compressed: a log that is read by byte ranges must not be."""
    with storage_of(path).open_reader(path) as reader:
        if detect(reader.pread(MAGIC_BYTES, 0)) is not Format.PLAIN:
            raise LogError(path, "is compressed: decompress it first")
