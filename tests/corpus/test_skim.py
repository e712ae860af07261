"""Skimming parts: every line once and whole, whatever the size of the buffer, and nothing that is damaged."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fastrec.corpus import skim
from fastrec.corpus.skim import skim_lines
from fastrec.errors import CorpusError, FastrecError, ShardError
from fastrec.sources.reader import shard_at

LINES = [b"", b"a", b"bc" * 40, b"line three", b"x" * 999]
TEXT = b"".join(line + b"\n" for line in LINES * 3)


def zstd(*frames: bytes) -> bytes:
    """Several frames, each with a checksum."""
    return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, frames))


def skimmed(data: bytes, folder: Path, file_bytes: int | None = None, text_bytes: int = len(TEXT)) -> list[bytes]:
    """What is given of a file with these bytes."""
    path = folder / "part"
    path.write_bytes(data)
    lines = skim_lines(shard_at(str(path)), len(data) if file_bytes is None else file_bytes, text_bytes)
    return [bytes(buffer[:size]) for buffer, size in lines]


@given(st.integers(1, 1_200), st.integers(0, len(TEXT)), st.sampled_from(["zstd", "gzip", "plain"]))
def test_every_line_is_given_once(size: int, cut: int, kind: str) -> None:
    """Buffers are whole lines, and all of them are the text, wherever it is cut into frames and buffers."""
    data = {"zstd": zstd(TEXT[:cut], TEXT[cut:]), "gzip": gzip.compress(TEXT), "plain": TEXT}[kind]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(skim, "SKIM_BYTES", size)
        blocks = skimmed(data, Path(folder))
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks) == TEXT


def test_a_part_that_is_cut_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    """At any byte, the last ones of the checksum included, which the library does not miss."""
    data = zstd(TEXT)
    for end in range(len(data)):
        with pytest.raises(FastrecError, match="part: "):
            skimmed(data[:end], tmp_path, len(data))


def test_a_byte_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    """By zstd or by its checksum: an error of ours, or the very text where the byte says nothing."""
    data = zstd(TEXT)
    noticed = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        try:
            assert b"".join(skimmed(bytes(damaged), tmp_path)) == TEXT
        except (ShardError, CorpusError):
            noticed += 1
    assert noticed > len(data) * 0.9


def test_who_leaves_early_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decompressor is used again for the next part, wherever the last one was left, or broke off."""
    monkeypatch.setattr(skim, "SKIM_BYTES", 64)
    monkeypatch.setattr(skim, "_idle", [])
    data = zstd(TEXT)
    path = tmp_path / "left"
    path.write_bytes(data)
    left = skim_lines(shard_at(str(path)), len(data), len(TEXT))
    next(left)
    left.close()
    with pytest.raises(ShardError):
        skimmed(data[:-4] + bytes(4), tmp_path)
    assert b"".join(skimmed(data, tmp_path)) == TEXT
    assert len(skim._idle) == 1


@pytest.mark.parametrize(
    ("data", "file_bytes", "said"),
    [
        (zstd(TEXT + b"more\n"), None, r"holds [\d,]+ bytes of text, and its manifest says [\d,]+: `fastrec verify`"),
        (zstd(TEXT[:-1] + b"x"), None, "does not end with a newline"),
        (zstd(TEXT), 7, "is not the file that its manifest names"),
        (zstd(bytes(1 << 24)), None, r"holds 16,777,216 bytes of text"),
    ],
)
def test_what_the_manifest_says_is_held_against_the_part(
    tmp_path: Path, data: bytes, file_bytes: int | None, said: str
) -> None:
    """Both sizes, and that the last line has an end."""
    with pytest.raises(CorpusError, match=said):
        skimmed(data, tmp_path, file_bytes)


def test_a_long_line_that_comes_in_bits_is_not_moved_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take quadratic time; only behind a whole line, what follows moves to the front."""
    moved = []

    class Buffer(bytearray):
        def __setitem__(self, place, value):
            moved.append(bytes(value))
            super().__setitem__(place, value)

    monkeypatch.setattr(skim, "bytearray", Buffer, raising=False)
    bits = [b"a long ", b"line ", b"in bits\nand", b" another", b"\n", b""]
    blocks = skim._lines(skim._into(iter(bits)), 99)
    assert [bytes(buffer[:size]) for buffer, size in blocks] == [b"a long line in bits\n", b"and another\n"]
    assert moved == [b"and", b""]


def test_a_bomb_without_newlines_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No buffer grows much beyond all the text there should be."""
    sizes = []
    monkeypatch.setattr(skim, "SKIM_BYTES", 64)
    real = skim._lines

    def watched(readinto, longest):
        def counted(view):
            sizes.append(len(view))
            return readinto(view)

        return real(counted, longest)

    monkeypatch.setattr(skim, "_lines", watched)
    with pytest.raises(CorpusError, match="holds 16,777,216 bytes"):
        skimmed(zstd(bytes(1 << 24)), tmp_path)
    assert max(sizes) <= 2 * len(TEXT)
