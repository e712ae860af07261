"""Reading files of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastrec.errors import LogError
from fastrec.harnesses.values import check_is_plain, read_at


class ShortReader:
    """A reader that returns at most three bytes at a time, as a store may."""

    size = 10

    def pread(self, size: int, offset: int) -> bytes:
        return b"0123456789"[offset : offset + min(size, 3)]


def test_short_reads_are_continued() -> None:
    """All bytes are read, up to the end of the file."""
    reader = ShortReader()
    assert read_at(reader, 8, 1) == b"12345678"  # type: ignore[arg-type]
    assert read_at(reader, 8, 5) == b"56789"  # type: ignore[arg-type]
    assert read_at(reader, 8, 1 << 70) == b""  # type: ignore[arg-type]


def test_compressed_documents_are_refused(tmp_path: Path) -> None:
    """A document that is read by byte ranges must be plain."""
    path = str(tmp_path / "log.json")
    Path(path).write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(LogError, match="decompress it first"):
        check_is_plain(path)
