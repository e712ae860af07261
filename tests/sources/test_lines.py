"""Chunks of lines: no byte is lost, and offsets and line numbers are right, at every boundary."""

import re
import tracemalloc
from functools import partial
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.sources.lines import Chunk, LongLine, ReadStats, chunks, line_start

TRICKY = b'\xef\xbb\xbf{"a": 1}\r\n\n\n\xe2\x80\xa8\xc2\x85\xc3\xa9\n\r\xef\xbb\xbf{"b"}\nend'
BOM = b"\xef\xbb\xbf"


def cut(text, size):
    return [text[i : i + size] for i in range(0, len(text), size)]


def cut_after_lines(text, size):
    """Cut a text as the reader of zstd does: after the last newline of each piece, if there is one."""
    blocks = []
    while text:
        end = text.rfind(b"\n", 0, size) + 1 or size
        blocks.append(text[:end])
        text = text[end:]
    return blocks


def lines_of(text):
    """Split a text into lines the simple way: (offset, number, bytes)."""
    body = text.removeprefix(BOM)
    offset = len(text) - len(body)
    found = []
    for number, line in enumerate(body.split(b"\n"), 1):
        found.append((offset, number, line))
        offset += len(line) + 1
    if found[-1][2] == b"":
        found.pop()
    return found


def lines_in(items):
    """Split chunks into lines: (offset, number, bytes)."""
    found = []
    for item in items:
        if isinstance(item, LongLine):
            found.append((item.offset, item.line, item.length))
            continue
        assert item.data
        offset = item.offset
        pieces = item.data.split(b"\n")
        if pieces[-1] == b"":
            pieces.pop()
        for number, piece in enumerate(pieces, item.line):
            found.append((offset, number, piece))
            offset += len(piece) + 1
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 2, 5, 16, 1000])
def test_every_prefix_of_a_tricky_text_is_cut_correctly(chunk_bytes):
    """Lines, offsets and numbers are right, wherever the text and its blocks end."""
    for length in range(len(TRICKY) + 1):
        text = TRICKY[:length]
        for block_bytes in (1, 2, 3, 7, 100):
            stats = ReadStats()
            items = list(chunks(cut(text, block_bytes), chunk_bytes=chunk_bytes, stats=stats))
            assert b"".join(item.data for item in items) == text.removeprefix(BOM)
            assert lines_in(items) == lines_of(text)
            assert all(item.data.endswith(b"\n") for item in items[:-1])
            assert (stats.bom, stats.lines, stats.text_bytes) == (
                text[:3] == BOM,
                len(lines_of(text)),
                length,
            )


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    ended=st.booleans(),
    cut_into=st.builds(partial, st.sampled_from([cut, cut_after_lines]), size=st.integers(1, 40)),
    chunk_bytes=st.integers(1, 40),
    max_line_bytes=st.integers(1, 14),
)
def test_any_text_is_split_into_its_lines(lines, ended, cut_into, chunk_bytes, max_line_bytes):
    """Every line is in a chunk, or reported as too long with its exact length, in order."""
    text = b"\n".join(lines) + (b"\n" if ended else b"")
    items = list(chunks(cut_into(text), chunk_bytes=chunk_bytes, max_line_bytes=max_line_bytes))
    expected = [
        (offset, number, line if len(line) <= max_line_bytes else len(line))
        for offset, number, line in lines_of(text)
    ]
    assert lines_in(items) == expected


def test_a_block_of_whole_lines_is_not_copied():
    """It is a chunk as it is, and what came before it is a chunk of its own."""
    blocks = [b"1\n2\n", b"3\n4", b"\n5\n", b"6\n7\n"]
    items = list(chunks(blocks, chunk_bytes=4))
    assert items[0].data is blocks[0]
    assert items[-1].data is blocks[-1]
    assert lines_in(items) == lines_of(b"".join(blocks))


@pytest.mark.parametrize("chunk_bytes", [1, 4, 10, 64])
def test_chunks_have_about_the_wanted_size(chunk_bytes):
    """A chunk has at least one line, and exceeds the wanted size by less than a line."""
    items = list(chunks([b"12345\n" * 100], chunk_bytes=chunk_bytes))
    assert all(len(item.data) <= chunk_bytes + 6 for item in items)
    assert sum(len(item.data) for item in items) == 600
    assert len(items) <= 600 // max(1, chunk_bytes - 6) + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (BOM, []),
        (BOM + b"a", [Chunk(b"a", 3, 1)]),
        (BOM[:2], [Chunk(BOM[:2], 0, 1)]),
        (b"\n", [Chunk(b"\n", 0, 1)]),
        (b"a\r\nb", [Chunk(b"a\r\n", 0, 1), Chunk(b"b", 3, 2)]),
        (b"\n" + BOM, [Chunk(b"\n", 0, 1), Chunk(BOM, 1, 2)]),
        (BOM + BOM, [Chunk(BOM, 3, 1)]),
    ],
)
def test_marks_and_endings(text, expected):
    """A byte order mark is dropped only at byte 0.

    Carriage returns and a missing last newline stay.
    """
    assert list(chunks(cut(text, 1))) == expected


def test_a_range_keeps_its_byte_order_mark():
    """A byte order mark at the start of a range is not at byte 0 of the file, so it stays."""
    assert list(chunks([BOM + b"x\n"], offset=10)) == [Chunk(BOM + b"x\n", 10, 1)]


def test_long_lines_have_position_length_and_head():
    """A line over the limit is reported in order with its offset, number, exact length and first
    kilobyte.
    """
    text = b"one\n" + b"abcdefgh" * 1000 + b"\n" + b"x" * 100 + b"\n" + b"three"
    for block_bytes in (1, 17, 4096, 100_000):
        assert list(chunks(cut(text, block_bytes), max_line_bytes=100)) == [
            Chunk(b"one\n", 0, 1),
            LongLine(4, 2, 8000, b"abcdefgh" * 128),
            Chunk(b"x" * 100 + b"\n", 8005, 3),
            Chunk(b"three", 8106, 4),
        ]


def test_a_long_last_line_needs_no_newline():
    """A line over the limit is also reported at the end of the text, with or without a newline."""
    assert list(chunks([b"a\n", b"b" * 50], max_line_bytes=49)) == [
        Chunk(b"a\n", 0, 1),
        LongLine(2, 2, 50, b"b" * 50),
    ]
    assert list(chunks([b"b" * 50], max_line_bytes=49)) == [LongLine(0, 1, 50, b"b" * 50)]


def test_a_long_line_is_never_held():
    """Memory stays far below the length of a line over the limit, even if it comes in tiny blocks."""
    tracemalloc.start()
    try:
        big = bytes(1 << 20)
        (item,) = chunks((big for _ in range(64)), max_line_bytes=4 << 20)
        (tiny,) = chunks((b"xyz" for _ in range(20_000)), max_line_bytes=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert item.length == 64 << 20
    assert tiny.length == 60_000
    assert peak < 8 << 20


@given(
    text=st.lists(st.sampled_from([b"", b"a", b"bb", b"ccccccc", BOM, b"\r"])).map(b"\n".join),
    ended=st.booleans(),
    cuts=st.lists(st.integers(0, 60)),
    scan_bytes=st.integers(1, 8),
)
def test_any_cut_into_ranges_gives_every_line_once(text, ended, cuts, scan_bytes):
    """Ranges own the lines that start in them: together all lines, each once."""
    text = text + (b"\n" if ended else b"")
    ends = sorted({0, len(text), *(position for position in cuts if position <= len(text))})
    starts = [
        line_start(lambda size, offset: text[offset : offset + size], end, scan_bytes)
        for end in ends
    ]
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    offsets = list(accumulate(map(len, lines), initial=0))[:-1]
    for (begin, end), (first, beyond) in zip(pairwise(ends), pairwise(starts), strict=True):
        own = [line for offset, line in zip(offsets, lines, strict=True) if begin <= offset < end]
        assert text[first:beyond] == b"".join(own)
