"""Reading shards from files, pipes and standard input."""

import contextlib
import io
import os
import pickle
import sys
import threading
import tracemalloc
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from fastrec.errors import ShardCorruptError, ShardError, ShardMissingError, ShardTruncatedError
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Slice, shard_at
from tests.sources.compressing import FORMATS, compressed, zstd_frame

TEXT = b"".join(b'{"line": %d, "text": "%s"}\r\n' % (n, b"x" * (n % 50)) for n in range(1, 500))
ALL_FORMATS = (Format.PLAIN, *FORMATS)


def written(directory, data, name="shard.jsonl"):
    path = directory / name
    path.write_bytes(data)
    return shard_at(str(path))


def text_in(items):
    return b"".join(item.data for item in items)


@pytest.mark.parametrize("format_", ALL_FORMATS)
def test_a_file_of_any_format_is_read_whole(tmp_path, format_):
    """Text, line numbers and statistics are the same for all formats, whatever the suffix."""
    shard = written(tmp_path, compressed(format_, b"\xef\xbb\xbf" + TEXT))
    stats = ReadStats()
    items = list(shard.read(chunk_bytes=1000, stats=stats))
    assert shard.format is format_
    assert text_in(items) == TEXT
    assert [item.line for item in items] == [
        TEXT[: item.offset - 3].count(b"\n") + 1 for item in items
    ]
    raw_hash = xxh3_128_hexdigest(Path(shard.path).read_bytes())
    assert stats == ReadStats(
        bom=True, lines=499, text_bytes=len(TEXT) + 3, raw_bytes=shard.size, raw_hash=raw_hash
    )


@pytest.mark.parametrize("format_", ALL_FORMATS)
def test_standard_input_is_read_without_seeking(monkeypatch, format_):
    """`-` reads standard input, and detects its format by the first bytes."""
    raw = io.BytesIO(compressed(format_, TEXT))
    raw.seek = raw.tell = None
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
    shard = shard_at("-")
    assert (shard.stream, shard.format, shard.splittable) == (True, None, False)
    assert text_in(shard.read()) == TEXT


@pytest.mark.parametrize("format_", ALL_FORMATS)
def test_a_pipe_is_read_as_it_comes(tmp_path, format_):
    """A named pipe works, even if its first bytes come one at a time."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = compressed(format_, TEXT)

    def write():
        with path.open("wb", buffering=0) as pipe:
            for piece in (data[:1], data[1:2], data[2:]):
                pipe.write(piece)

    with pytest.raises(ShardMissingError, match="is a FIFO, not a regular file"):
        shard_at(str(path))
    shard = shard_at(str(path), may_be_stream=True)
    assert (shard.stream, shard.size) == (True, 0)
    writer = threading.Thread(target=write)
    writer.start()
    assert text_in(shard.read()) == TEXT
    writer.join()


def test_an_empty_file_has_no_lines(tmp_path):
    """An empty file is a plain shard without lines, whatever its name."""
    shard = written(tmp_path, b"", "empty.jsonl.zst")
    assert shard.format is Format.PLAIN
    assert list(shard.read()) == []


@pytest.mark.parametrize("data", [b"(", b"P*M", b"\x1f", b"BZh", b"\xfd7z", b"B"])
def test_a_file_that_ends_in_a_magic_number_is_truncated(tmp_path, data):
    """A prefix of a magic number is not text, even if its bytes are letters: no record begins like
    that.
    """
    with pytest.raises(ShardTruncatedError):
        list(written(tmp_path, data).read())


@pytest.mark.parametrize(
    ("format_", "suffix"), [*zip(FORMATS, (".zst", ".gz", ".bz2", ".xz"), strict=True)]
)
def test_a_damaged_magic_number_is_detected_by_the_name(tmp_path, format_, suffix):
    """A file named as compressed must be compressed or text, so every flip in its magic number is
    found.
    """
    whole = compressed(format_, TEXT)
    for index in range(6):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << bit
            shard = written(tmp_path, bytes(damaged), f"shard.jsonl{suffix}")
            with contextlib.suppress(ShardError):
                assert text_in(shard.read()) == TEXT


def test_a_damaged_magic_number_is_detected_in_a_range_too(tmp_path):
    """A damaged file that looks plain may be cut into ranges; reading the first range fails."""
    shard = written(tmp_path, b"\x29" + compressed(Format.ZSTD, TEXT)[1:], "shard.jsonl.zst")
    assert shard.splittable
    with pytest.raises(ShardCorruptError, match="neither zstd"):
        list(shard.read(start=0, end=10))


def test_text_with_the_suffix_of_a_compression_is_read_as_text(tmp_path):
    """Some clients decompress a download and keep its name."""
    assert text_in(written(tmp_path, TEXT, "shard.jsonl.gz").read()) == TEXT


def test_errors_come_after_the_text_before_them_with_path_and_offset(tmp_path):
    """A truncated shard yields its text first, and then raises an error with path and offset."""
    shard = written(tmp_path, compressed(Format.GZIP, TEXT)[:-1])
    items = []
    with pytest.raises(ShardTruncatedError) as caught:
        items.extend(shard.read(chunk_bytes=100))
    assert (caught.value.path, caught.value.offset) == (shard.path, shard.size)
    with pytest.raises(ShardCorruptError):
        list(written(tmp_path, compressed(Format.GZIP, TEXT) + b"x").read())


def test_a_missing_file_is_missing(tmp_path):
    """A missing file and a directory raise ShardMissingError, on discovery and on reading."""
    gone = str(tmp_path / "gone.jsonl")
    for path in (gone, str(tmp_path), "nul\0byte"):
        with pytest.raises(ShardMissingError):
            shard_at(path)
    with pytest.raises(ShardMissingError, match="No such file"):
        list(Shard(gone, 10, Format.PLAIN).read())


def test_a_file_without_read_permission_is_found_but_not_read(tmp_path, monkeypatch):
    """The shard is found without a format; reading it raises ShardMissingError with the reason."""
    shard = written(tmp_path, TEXT)

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("os.open", refuse)
    assert shard_at(shard.path).format is None
    with pytest.raises(ShardMissingError, match="Permission denied"):
        list(shard.read())


def test_a_read_that_fails_is_a_shard_error(tmp_path, monkeypatch):
    """A disk error becomes a ShardError with the path, the reason and the offset."""
    shard = written(tmp_path, TEXT)

    def fail(*_args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.read", fail)
    with pytest.raises(ShardError, match="Input/output error") as caught:
        list(shard.read())
    assert caught.value.offset == 0


@pytest.mark.parametrize("format_", [Format.PLAIN, Format.ZSTD])
@pytest.mark.parametrize("change", ["grow", "touch"])
def test_a_file_that_changes_while_it_is_read_is_detected(tmp_path, format_, change):
    """The shard is bad if its size or modification time changes between the first and the last
    byte.
    """
    shard = written(tmp_path, compressed(format_, TEXT * 100))
    items = shard.read(chunk_bytes=1000)
    next(items)
    if change == "grow":
        with open(shard.path, "ab") as file:
            file.write(compressed(format_, b"{}\n"))
    os.utime(shard.path, ns=(1, 1))
    with pytest.raises(ShardError, match="changed while"):
        list(items)


def test_a_file_that_changed_since_discovery_is_detected(tmp_path):
    """Ranges of a file are read at different times, so each read checks that the file is the one
    that was found.
    """
    shard = written(tmp_path, TEXT)
    os.utime(shard.path, ns=(1, 1))
    with pytest.raises(ShardError, match="changed after"):
        list(shard.read(start=10, end=20))


def test_only_plain_files_are_read_in_ranges(tmp_path):
    """Slices of a compressed shard are whole shards, so nobody reads a range of one."""
    shard = written(tmp_path, compressed(Format.ZSTD, TEXT))
    assert list(shard.slices(100)) == [Slice(shard)]
    with pytest.raises(AssertionError):
        list(shard.read(start=1))


@given(data=st.data())
def test_any_cut_of_a_file_into_ranges_gives_every_line_once(tmp_path_factory, data):
    """Ranges can end anywhere. Together they give the file, and each numbers its lines from 1."""
    lines = data.draw(st.lists(st.sampled_from([b"", b"a", b"bb\r", b"c" * 9]), max_size=12))
    text = (
        data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
        + b"\n".join(lines)
        + data.draw(st.sampled_from([b"", b"\n"]))
    )
    shard = written(tmp_path_factory.mktemp("ranges", numbered=True), text)
    inner = data.draw(st.lists(st.integers(0, len(text) + 5), max_size=6))
    ends = [0, *sorted(inner), len(text) + 1]
    total = ReadStats()
    got = []
    for start, end in pairwise(ends):
        stats = ReadStats()
        items = list(shard.read(start=start, end=end, chunk_bytes=4, stats=stats))
        if items:
            assert items[0].line == 1
            assert (
                start <= items[0].offset < max(end, 4)
            )  # after a byte order mark, the first line starts at byte 3
        got += [(item.offset, item.data, item.line + total.lines) for item in items]
        total.lines += stats.lines
        total.raw_bytes += stats.raw_bytes
    body = text.removeprefix(b"\xef\xbb\xbf")
    assert b"".join(piece for _, piece, _ in got) == body
    assert all(text[offset : offset + len(piece)] == piece for offset, piece, _ in got)
    assert [line for _, _, line in got] == [text[:offset].count(b"\n") + 1 for offset, _, _ in got]
    assert total.lines == body.count(b"\n") + (not body.endswith(b"\n") and body != b"")
    assert total.raw_bytes == len(text)


def test_a_range_to_the_end_needs_no_end(tmp_path):
    """A range without an end extends to the end of the file."""
    shard = written(tmp_path, b"one\ntwo\nthree")
    assert list(shard.read(start=1)) == [Chunk(b"two\n", 4, 1), Chunk(b"three", 8, 2)]
    assert list(shard.read(start=9)) == []


def test_a_bomb_without_newlines_is_one_long_line(tmp_path):
    """A line of a gigabyte is measured and reported in little memory."""
    shard = written(tmp_path, zstd_frame(*[(1, 128 << 10, b"\0")] * 8192))
    tracemalloc.start()
    try:
        items = list(shard.read(max_line_bytes=1 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert items == [LongLine(0, 1, 1 << 30, bytes(1024))]
    assert peak < 12 << 20


def test_shards_pickle(tmp_path):
    """A shard can be sent to a worker."""
    shard = written(tmp_path, TEXT)
    assert pickle.loads(pickle.dumps(shard)) == shard
    assert hash(shard) == hash(pickle.loads(pickle.dumps(shard)))


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="open files can be counted on Linux alone"
)
def test_an_abandoned_reader_closes_its_file(tmp_path):
    """A shard that is not read to its end leaves no file open."""
    shard = written(tmp_path, TEXT)
    before = sorted(Path("/proc/self/fd").iterdir())
    items = shard.read(chunk_bytes=100)
    next(items)
    items.close()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
