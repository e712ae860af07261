"""Skimming parts: every line is complete and seen once, whatever the buffer size, and damage is
reported.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from fastrec.corpus import scan
from fastrec.corpus.manifest import KeyEntry, PartEntry, SideFileEntry
from fastrec.corpus.scan import PartFile, skim_lines
from fastrec.errors import CorpusError, FastrecError, ShardError
from fastrec.limits import LIMITS, Limits, use_limits

LINES = [b"", b"a", b"bc" * 40, b"line three", b"x" * 999]
TEXT = b"".join(line + b"\n" for line in LINES * 3)


def zstd(*frames: bytes) -> bytes:
    """Compress each argument into a frame with a checksum."""
    return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, frames))


def part_of(path: Path, file_bytes: int) -> PartFile:
    """A part with `TEXT`, as the manifest describes it."""
    key = KeyEntry(evaluation_name="", sample_hash="", model_id="", evaluation_id="", sample_id=0)
    entry = PartEntry(
        file=path.name,
        records=0,
        bytes=file_bytes,
        sha256="",
        text_bytes=len(TEXT),
        text_xxh3_128=xxh3_128_hexdigest(TEXT),
        first=key,
        last=key,
        columns=SideFileEntry(file="", bytes=0, sha256=""),
    )
    return PartFile(str(path), entry)


def skimmed(
    data: bytes, folder: Path, file_bytes: int | None = None, limits: Limits = LIMITS
) -> list[bytes]:
    """Write a file with these bytes, and return copies of the buffers."""
    path = folder / "part"
    path.write_bytes(data)
    with use_limits(limits):
        lines = skim_lines(part_of(path, len(data) if file_bytes is None else file_bytes))
        return [bytes(buffer[:size]) for buffer, size in lines]


@given(st.integers(1, 1_200), st.integers(0, len(TEXT)), st.sampled_from(["zstd", "gzip", "plain"]))
def test_every_line_is_seen_once(size: int, cut: int, kind: str) -> None:
    """Buffers have whole lines and together are the text, wherever frames and buffers end."""
    data = {"zstd": zstd(TEXT[:cut], TEXT[cut:]), "gzip": gzip.compress(TEXT), "plain": TEXT}[kind]
    with tempfile.TemporaryDirectory() as folder:
        blocks = skimmed(data, Path(folder), limits=Limits(skim_bytes=size))
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks) == TEXT


def test_another_text_of_the_same_size_is_an_error(tmp_path: Path) -> None:
    """Such as that of a corpus which replaced this one meanwhile."""
    with pytest.raises(CorpusError, match="is not the file that the manifest describes"):
        skimmed(TEXT.replace(b"three", b"eerht"), tmp_path)


def test_a_truncated_part_is_an_error(tmp_path: Path) -> None:
    """At any byte, even within the checksum at the end, which the library does not need."""
    data = zstd(TEXT)
    for end in range(len(data)):
        with pytest.raises(FastrecError, match="part: "):
            skimmed(data[:end], tmp_path, len(data))


def test_a_changed_byte_is_an_error(tmp_path: Path) -> None:
    """zstd or its checksum reports it, unless the byte has no influence on the text."""
    data = zstd(TEXT)
    reported = 0
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x55
        try:
            assert b"".join(skimmed(bytes(damaged), tmp_path)) == TEXT
        except (ShardError, CorpusError):
            reported += 1
    assert reported > len(data) * 0.9


def test_decompressors_are_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a part was left early or could not be read."""
    limits = Limits(skim_bytes=64)
    monkeypatch.setattr(scan, "_idle", [])
    data = zstd(TEXT)
    path = tmp_path / "left"
    path.write_bytes(data)
    left = skim_lines(part_of(path, len(data)))
    use_limits(limits)(next)(left)
    left.close()
    with pytest.raises(ShardError):
        skimmed(data[:-4] + bytes(4), tmp_path, limits=limits)
    assert b"".join(skimmed(data, tmp_path, limits=limits)) == TEXT
    assert len(scan._idle) == 1


@pytest.mark.parametrize(
    ("data", "file_bytes", "message"),
    [
        (
            zstd(TEXT + b"more\n"),
            None,
            r"has [\d,]+ bytes of text, but the manifest says [\d,]+; `fastrec verify`",
        ),
        (zstd(TEXT[:-1] + b"x"), None, "does not end with a newline"),
        (zstd(TEXT), 7, "is not the file that the manifest describes"),
        (zstd(bytes(1 << 24)), None, r"has 16,777,216 bytes of text"),
    ],
)
def test_the_part_must_be_what_the_manifest_says(
    tmp_path: Path, data: bytes, file_bytes: int | None, message: str
) -> None:
    """Both sizes must agree, and the last line must have a newline."""
    with pytest.raises(CorpusError, match=message):
        skimmed(data, tmp_path, file_bytes)


def test_a_long_line_is_not_moved_on_every_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take quadratic time. Text moves to the front only after a complete line."""
    moved = []

    class Buffer(bytearray):
        def __setitem__(self, index, value):
            moved.append(bytes(value))
            super().__setitem__(index, value)

    monkeypatch.setattr(scan, "bytearray", Buffer, raising=False)
    bits = iter([b"a long ", b"line ", b"in bits\nand", b" another", b"\n", b""])

    def readinto(view):
        block = next(bits)
        view[: len(block)] = block
        return len(block)

    blocks = scan._lines(readinto, 99, 1 << 10)
    assert [bytes(buffer[:size]) for buffer, size in blocks] == [
        b"a long line in bits\n",
        b"and another\n",
    ]
    assert moved == [b"and", b""]


def test_a_huge_line_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No buffer grows much beyond the text that the manifest says."""
    sizes = []
    real = scan._lines

    def watched(readinto, longest, buffer_bytes):
        def counted(view):
            sizes.append(len(view))
            return readinto(view)

        return real(counted, longest, buffer_bytes)

    monkeypatch.setattr(scan, "_lines", watched)
    with pytest.raises(CorpusError, match="has 16,777,216 bytes"):
        skimmed(zstd(bytes(1 << 24)), tmp_path, limits=Limits(skim_bytes=64))
    assert max(sizes) <= 2 * len(TEXT)
