"""Reading files of logs."""

from __future__ import annotations

import gzip
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastrec.errors import LogError
from fastrec.harnesses.files import open_plain
from fastrec.harnesses.values import decoder
from fastrec.storage.base import read_at


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


def test_compressed_documents_are_read_by_byte_ranges(tmp_path: Path) -> None:
    """They are decompressed once; a file that has changed is decompressed again."""
    path = tmp_path / "log.json"
    for text in (b"0123456789", b"abc"):
        path.write_bytes(gzip.compress(text))
        for _ in range(2):
            with open_plain(str(path)) as reader:
                assert (reader.size, read_at(reader, 2, 1)) == (len(text), text[1:3])
    path.write_bytes(gzip.compress(b"0" * 5000)[:-9])
    with pytest.raises(LogError):
        open_plain(str(path))


class Timed(msgspec.Struct):
    seconds: float
    rest: msgspec.Raw
    other: Any = None


@pytest.mark.parametrize("rest", [b'{"a": NaN}', b"[NaN]", b'["\\ud800"]'])
def test_numbers_beyond_json_are_numbers_where_a_field_is_one(rest: bytes) -> None:
    """Elsewhere they are texts, whatever the decoder has to do to read the others."""
    found = decoder(Timed)(b'{"seconds": Infinity, "other": -Infinity, "rest": %b}' % rest)
    assert found.seconds == inf
    assert found.other == "-Infinity"
    assert msgspec.json.decode(found.rest) in ({"a": "NaN"}, ["NaN"], ["\ufffd"])


@pytest.mark.parametrize(
    "text", [b'{"seconds": "1", "rest": 0}', b'{"seconds": NaN, "rest":', b"7"]
)
def test_what_is_not_of_a_type_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expected|malformed"):
        decoder(Timed)(text)
