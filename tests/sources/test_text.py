"""Decompression: all frames and members are read, and every truncation, bit flip and bomb is
handled.
"""

import lzma
import random
import tracemalloc
from itertools import zip_longest

import pytest
import zstandard
from isal import isal_zlib

from fastrec.errors import ShardCorruptError, ShardError, ShardLimitError, ShardTruncatedError
from fastrec.sources.formats import Format, decompress
from fastrec.sources.zstd_frames import BLOCKS_PER_CALL, BLOCKS_PER_PIECE
from tests.sources.compressing import (
    FORMATS,
    compressed,
    gzip_member,
    skippable,
    text_of,
    zstd_frame,
)

FIRST = b'{"a": 1}\n{"b": "two"}\n' * 3
SECOND = b'{"c": [3, 3, 3]}\n'
MIB = 1 << 20
BOMB = 128 * MIB  # of text, ten times the memory that it may take


@pytest.mark.each_value
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("slice_bytes", [1, 2, 3, 7, 64, 1 << 16])
def test_all_frames_are_read_from_blocks_of_any_size(format_, slice_bytes):
    """The text of all frames, even empty ones, is complete for any size of raw blocks."""
    data = b"".join(compressed(format_, text) for text in (FIRST, b"", SECOND, FIRST))
    assert text_of(format_, data, slice_bytes=slice_bytes) == FIRST + SECOND + FIRST


@pytest.mark.parametrize("format_", FORMATS)
def test_text_of_many_blocks_is_complete(format_):
    """Text of many internal blocks comes in bounded blocks, unchanged."""
    text = b"".join(b'{"n": %d, "square": %d}\n' % (n, n * n) for n in range(60_000))
    data = compressed(format_, text)
    pieces = list(
        decompress(format_, (data[i : i + 5000] for i in range(0, len(data), 5000)), path="shard")
    )
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= BLOCKS_PER_CALL * (128 << 10)


@pytest.mark.each_value
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("slice_bytes", [1, 1 << 16])
def test_a_truncation_at_any_byte_is_detected(format_, slice_bytes):
    """A shard cut between frames has the frames before the cut.

    Cut anywhere else, it is truncated.
    """
    first = compressed(format_, FIRST)
    second = compressed(format_, SECOND)
    whole = first + second
    for length in range(1, len(whole)):
        if length == len(first):
            assert text_of(format_, whole[:length], slice_bytes=slice_bytes) == FIRST
            continue
        with pytest.raises(ShardTruncatedError) as caught:
            text_of(format_, whole[:length], slice_bytes=slice_bytes)
        assert (caught.value.path, caught.value.offset) == ("shard", length)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_flipped_bit_is_an_error_or_harmless(format_):
    """With a checksum, no bit flip changes the text without an error."""
    whole = compressed(format_, FIRST) + compressed(format_, SECOND)
    offsets = []
    for index in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << bit
            try:
                text = text_of(format_, bytes(damaged))
            except ShardError as exc:
                offsets.append(exc.offset)
            else:
                assert text == FIRST + SECOND, f"bit {bit} of byte {index}"
    assert all(0 <= offset <= len(whole) for offset in offsets)


@pytest.mark.each_value
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("garbage", [b"x", b"garbage behind the last frame", b"\n", b"{}\n"])
def test_garbage_after_the_last_frame_is_corrupt(format_, garbage):
    """Only a frame may follow a frame; the error has the offset of the garbage."""
    whole = compressed(format_, FIRST)
    with pytest.raises(ShardCorruptError) as caught:
        text_of(format_, whole + garbage)
    assert caught.value.offset == len(whole)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("format_", "zeros", "fine"),
    [
        (Format.GZIP, 1, True),
        (Format.GZIP, 100_000, True),
        (Format.XZ, 4, True),
        (Format.XZ, 100_000, True),
        (Format.XZ, 3, False),
        (Format.XZ, 6, False),
        (Format.ZSTD, 4, False),
        (Format.BZ2, 4, False),
    ],
)
@pytest.mark.parametrize("behind", [b"", SECOND])
def test_each_format_allows_its_own_padding(format_, zeros, fine, behind):
    """gzip allows any number of zero bytes after a member, xz a multiple of four, the others none."""
    data = (
        compressed(format_, FIRST) + bytes(zeros) + (compressed(format_, behind) if behind else b"")
    )
    if fine:
        assert text_of(format_, data) == FIRST + behind
    else:
        with pytest.raises(ShardCorruptError):
            text_of(format_, data)


def _zstd_bomb():
    block = (1, 128 << 10, b"\0")  # run-length: 4 bytes for 128 KiB
    return zstd_frame(*[block] * (BOMB >> 17))


def _gzip_bomb():
    deflate = isal_zlib.compressobj(3, isal_zlib.DEFLATED, 31)
    return deflate.compress(bytes(BOMB)) + deflate.flush()


@pytest.mark.parametrize(
    ("format_", "bomb"), [(Format.ZSTD, _zstd_bomb), (Format.GZIP, _gzip_bomb)]
)
def test_a_bomb_does_not_exhaust_memory(format_, bomb):
    """A small shard with much text, all zeros, needs only a few megabytes of memory."""
    data = bomb()
    assert len(data) < MIB
    tracemalloc.start()
    try:
        size = sum(map(len, decompress(format_, iter([data]), path="shard")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == BOMB
    assert peak < 12 * MIB


class TestZstd:
    def test_skippable_frames_have_no_text(self):
        """Skippable frames are skipped before, between and after other frames, and on their own."""
        odd = skippable(b"\x28\xb5\x2f\xfd not a frame", 7)
        frames = (
            odd + compressed(Format.ZSTD, FIRST) + odd + odd + compressed(Format.ZSTD, SECOND) + odd
        )
        assert text_of(Format.ZSTD, frames, slice_bytes=5) == FIRST + SECOND
        assert text_of(Format.ZSTD, odd) == b""

    def test_a_truncated_skippable_frame_is_detected(self):
        """A skippable frame must be as long as its header says."""
        odd = skippable(b"payload")
        for length in range(1, len(odd)):
            with pytest.raises(ShardTruncatedError):
                text_of(Format.ZSTD, odd[:length])

    def test_frames_with_and_without_content_size_and_checksum_are_read(self):
        """The walk understands every kind of frame header that the library writes."""
        for size in (0, 1, 255, 256, 257, 65_791, 65_792, 300_000):
            text = b"0123456789abcde\n" * (size // 16) + b"x" * (size % 16)
            for options in ({}, {"write_checksum": True}, {"write_content_size": False}):
                data = zstandard.ZstdCompressor(**options).compress(text)
                streaming = zstandard.ZstdCompressor(**options).compressobj()
                data += streaming.compress(text) + streaming.flush()
                assert text_of(Format.ZSTD, data, slice_bytes=1000) == text * 2

    @pytest.mark.parametrize(
        ("descriptor", "window"),
        [(0x88, 128 * MIB), (0x89, 144 * MIB), (0x90, 256 * MIB), (0xF8, 1 << 41)],
    )
    def test_windows_over_the_limit_need_an_option(self, descriptor, window):
        """The error for a window over the limit names the option that raises the limit."""
        data = zstd_frame((0, 5, b"text\n"), window_descriptor=descriptor)
        with pytest.raises(ShardLimitError, match="--max-window") as caught:
            text_of(Format.ZSTD, data, max_window=window - 1)
        assert caught.value.offset == 0
        if window <= 1 << 31:
            assert text_of(Format.ZSTD, data, max_window=window) == b"text\n"
        else:
            with pytest.raises(ShardLimitError, match="cannot allow"):
                text_of(Format.ZSTD, data, max_window=window)

    def test_the_default_limit_is_128_mib(self):
        """The default is that of zstd(1) without --long."""
        assert text_of(Format.ZSTD, zstd_frame((0, 2, b"x\n"), window_descriptor=0x88)) == b"x\n"
        with pytest.raises(ShardLimitError):
            text_of(Format.ZSTD, zstd_frame((0, 2, b"x\n"), window_descriptor=0x89))

    def test_a_frame_with_a_dictionary_is_refused(self):
        """The error says that the frame needs a dictionary, not that it is corrupt."""
        dictionary = zstandard.train_dictionary(
            2048, [b'{"key": "value %d"}' % n * 5 for n in range(500)]
        )
        data = zstandard.ZstdCompressor(dict_data=dictionary).compress(FIRST)
        with pytest.raises(ShardError, match="dictionary") as caught:
            text_of(Format.ZSTD, data)
        assert type(caught.value) is ShardError

    def test_readers_that_take_turns_do_not_mix_their_texts(self):
        """Readers at the same time have buffers of their own, also after one was abandoned."""
        texts = [b"".join(b"%d %d\n" % (reader, n) for n in range(150_000)) for reader in range(3)]
        shards = [zstandard.ZstdCompressor().compress(text) for text in texts]
        next(decompress(Format.ZSTD, iter([shards[0]]), path="shard"))
        readers = [decompress(Format.ZSTD, iter([data]), path="shard") for data in shards]
        turns = list(zip_longest(*readers, fillvalue=b""))
        assert len(turns) > 1
        assert [b"".join(turn) for turn in zip(*turns, strict=True)] == texts

    @pytest.mark.parametrize("sized", [False, True])
    def test_a_corruption_is_found_to_within_a_few_blocks(self, sized):
        """The error has the offset of at most BLOCKS_PER_PIECE blocks before it, however much text
        a call gives.
        """
        text = random.Random(1).randbytes(
            3 * MIB
        )  # it cannot be compressed, so that an offset in it is one in the file
        data = zstandard.ZstdCompressor(write_content_size=sized).compress(text)
        spoilt = 2 * MIB
        block_at = 6 if not sized else zstandard.frame_header_size(data)
        blocks = []
        while block_at < len(data):
            blocks.append(block_at)
            header = int.from_bytes(data[block_at : block_at + 3], "little")
            assert header >> 1 & 3 == 0
            block_at += 3 + (header >> 3)
        number = next(number for number, begin in enumerate(blocks) if begin > spoilt)
        damaged = bytearray(data)
        damaged[blocks[number]] |= 4  # a compressed block instead of a raw one
        with pytest.raises(ShardCorruptError, match="corrupt:") as caught:
            text_of(Format.ZSTD, bytes(damaged))
        starts = [0, *blocks[BLOCKS_PER_PIECE::BLOCKS_PER_PIECE]]
        assert caught.value.offset == max(start for start in starts if start <= blocks[number])

    @pytest.mark.parametrize("block", [(3, 1, b"x"), (0, (128 << 10) + 1, bytes((128 << 10) + 1))])
    def test_impossible_blocks_are_corrupt_at_their_offset(self, block):
        """A reserved kind or a size over 128 KiB is refused at its exact offset."""
        with pytest.raises(ShardCorruptError) as caught:
            text_of(Format.ZSTD, zstd_frame((0, 1, b"x"), block))
        assert caught.value.offset == 6 + 4


class TestGzip:
    FIELDS = (
        {},
        {"name": b"shard.jsonl"},
        {"extra": b"extra" * 30, "name": b"shard.jsonl"},
        {"name": b"n" * 1000, "comment": b"why"},
        {"extra": b"", "name": b"", "comment": b"", "header_checksum": True},
        {"header_checksum": True},
    )

    @pytest.mark.each_value
    @pytest.mark.parametrize("fields", FIELDS)
    @pytest.mark.parametrize("slice_bytes", [1, 7, 16, 1 << 16])
    def test_any_header_is_read_from_any_slices(self, fields, slice_bytes):
        """Names, comments, extra fields and header checksums are read correctly, wherever a slice
        ends.
        """
        data = gzip_member(FIRST, **fields) + gzip_member(SECOND, **fields)
        assert text_of(Format.GZIP, data, slice_bytes=slice_bytes) == FIRST + SECOND

    @pytest.mark.parametrize("fields", FIELDS)
    def test_a_truncated_header_is_detected(self, fields):
        """A member that ends inside its header is truncated."""
        data = gzip_member(b"", **fields)
        for length in range(1, len(data)):
            with pytest.raises(ShardTruncatedError) as caught:
                text_of(Format.GZIP, data[:length])
            assert caught.value.offset == length

    @pytest.mark.parametrize("lie", [{"crc": 1}, {"length": len(FIRST) + 1}, {"length": 0}])
    def test_trailers_are_checked(self, lie):
        """A wrong CRC-32 or length is corrupt."""
        with pytest.raises(ShardCorruptError, match="gzip member"):
            text_of(Format.GZIP, gzip_member(FIRST, **lie))

    def test_a_long_name_is_skipped(self):
        """A name of several megabytes is not held."""
        data = gzip_member(FIRST, name=b"n" * (3 << 20))
        assert text_of(Format.GZIP, data) == FIRST


class TestXz:
    def test_a_dictionary_over_the_limit_needs_an_option(self):
        """The limit of the zstd window also applies to the xz dictionary."""
        data = lzma.compress(FIRST, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 64 * MIB}])
        assert text_of(Format.XZ, data, max_window=64 * MIB) == FIRST
        with pytest.raises(ShardLimitError, match="--max-window"):
            text_of(Format.XZ, data, max_window=32 * MIB)
