r"""Decompress zstd (RFC 8878): every frame of a shard, a few megabytes of text at a time.

The readers of the library ignore truncation. So this module walks the frames itself and passes them
on in pieces of whole blocks, which is cheap: the header of a block has 3 bytes and gives the
position of the next block.

    magic, header | block block block block | block block … last block | checksum    the next frame
    \______________ one piece _____________/ \____________ the next ____________/

1. Read the frame header. Refuse a dictionary, and a window over the limit.
2. Walk the block headers, and pass on a piece after every BLOCKS_PER_PIECE blocks.
3. The library asks for pieces until it has filled a buffer of TEXT_BYTES, which bounds its output
   for any input. It checks content size and checksum after the last block of a frame.
4. Yield the buffer in slices, which are small enough to stay in the cache, and end with a newline
   where possible.

The walk detects a truncation at its exact offset, and a corruption to within a few blocks.

The buffer is far larger than a chunk of lines: decompressing and judging push each other's data out
of the processor's cache. With 4 MiB instead of 512 KiB, pass 1 takes 4 % less processor time.
"""

from collections.abc import Iterator
from typing import IO, cast

import zstandard

from fastrec.errors import ShardError, ShardLimitError, is_out_of_memory, out_of_memory
from fastrec.sources.members import RawBytes

_BLOCK_LIMIT = 128 << 10  # Block_Maximum_Size, RFC 8878, 3.1.1.2.4
BLOCKS_PER_PIECE = 4
BLOCKS_PER_CALL = 32
TEXT_BYTES = BLOCKS_PER_CALL * _BLOCK_LIMIT
SLICE_BYTES = 256 << 10
_HEADER_LIMIT = 18  # magic 4, descriptor 1, window 1, dictionary 4, content size 8

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_TAIL = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5F
_LIBRARY_WINDOWS = (1 << 10, 1 << 31)  # the smallest and the largest limit that the library accepts
_RLE = 1
_RESERVED = 3
_NOTHING = memoryview(b"")

# A buffer that no reader uses. It is reused because new memory has to be touched page by page. Text
# that was allocated 4 MiB at a time instead of copied from here made reading parts 16 % slower, and
# `normalize` 3 %.
_idle: list[bytearray] = []


def zstd_text(raw: RawBytes, max_window: int, text_bytes: int = TEXT_BYTES) -> Iterator[bytes]:
    """Yield the text of all frames, decompressing `text_bytes` at a time.

    Skippable frames have none.
    """
    low, high = _LIBRARY_WINDOWS
    decompressor = zstandard.ZstdDecompressor(max_window_size=min(max(max_window, low), high))
    pieces = _Pieces(raw, min(max_window, high))
    readinto = decompressor.stream_reader(
        cast("IO[bytes]", pieces), read_across_frames=True
    ).readinto
    is_usual = text_bytes == TEXT_BYTES
    buffer = _idle.pop() if is_usual and _idle else bytearray(text_bytes)
    view = memoryview(buffer)
    try:
        while size := readinto(view):
            start = 0
            while start < size:
                end = min(start + SLICE_BYTES, size)
                if end < size:  # a slice of whole lines is a chunk, and is not copied again
                    end = buffer.rfind(b"\n", start, end) + 1 or end
                yield bytes(view[start:end])
                start = end
    except zstandard.ZstdError as exc:
        if is_out_of_memory(exc):
            raise out_of_memory(raw.path, "decompressing it") from exc
        raise raw.corrupt(f"zstd frame is corrupt: {exc}", pieces.offset) from exc
    finally:
        if is_usual:
            _idle[:] = [buffer]


class _Pieces:
    """The pieces of all frames, as a file for the library."""

    def __init__(self, raw: RawBytes, max_window: int) -> None:
        # of the last piece: the library asks for one after it has decompressed the one before
        self.offset = 0
        self._raw = raw
        # a function: a method would be a cycle, which nobody collects
        self._pieces = _pieces(raw, max_window)

    def read(self, _size: int) -> memoryview:
        piece = next(self._pieces, _NOTHING)
        self.offset = self._raw.offset - len(piece)
        return piece


def _pieces(raw: RawBytes, max_window: int) -> Iterator[memoryview]:
    """Yield the pieces of all frames; skip skippable ones."""
    while raw.need(1):
        magic = raw.peek(4)
        skippable = 0x50 <= magic[0] <= 0x5F and _SKIPPABLE_TAIL.startswith(magic[1:])
        if not skippable and not _FRAME_MAGIC.startswith(magic):
            raise raw.corrupt("is not zstd where a new frame should begin")
        raw.require(4, "a zstd frame's magic number")
        if not skippable:
            yield from _pieces_of_frame(raw, max_window)
            continue
        name = f"the skippable zstd frame that starts at byte {raw.offset:,}"
        raw.require(8, name)
        if not raw.skip(8 + int.from_bytes(raw.peek(4, 4), "little")):
            raise raw.truncated(name)


def _pieces_of_frame(raw: RawBytes, max_window: int) -> Iterator[memoryview]:
    """Yield the pieces of one frame, as the module docstring describes."""
    name = f"the zstd frame that starts at byte {raw.offset:,}"
    # `ahead` is the length of whole blocks
    ahead, checksum_bytes = _frame_header(raw, name, max_window)
    blocks = 0
    last = 0
    while not last:
        raw.require(ahead + 3, name)
        block = int.from_bytes(raw.peek(3, ahead), "little")
        last = block & 1
        kind = block >> 1 & 3
        size = block >> 3
        if kind == _RESERVED or size > _BLOCK_LIMIT:
            raise raw.corrupt(f"has an impossible block in {name}", raw.offset + ahead)
        ahead += 3 + (1 if kind == _RLE else size) + last * checksum_bytes
        raw.require(ahead, name)
        blocks += 1
        if last or blocks == BLOCKS_PER_PIECE:
            yield raw.take(ahead)
            ahead = blocks = 0


def _frame_header(raw: RawBytes, name: str, max_window: int) -> tuple[int, int]:
    """Check the header of a frame (RFC 8878, 3.1.1.1).

    Return its length, and that of the checksum.
    """
    raw.require(5, name)
    head = raw.peek(_HEADER_LIMIT)
    length = zstandard.frame_header_size(head)
    raw.require(length, name)
    try:
        frame = zstandard.get_frame_parameters(head)
    except zstandard.ZstdError as exc:  # a window that no limit allows, or a reserved bit
        reason = f"has a zstd frame that --max-window cannot allow: {exc}"
        raise ShardLimitError(raw.path, reason, raw.offset) from exc
    if frame.window_size > max_window:
        reason = (
            f"needs a zstd window of {frame.window_size:,} bytes and the limit is "
            f"{max_window:,}: raise it with --max-window, to at most {_LIBRARY_WINDOWS[1]:,}"
        )
        raise ShardLimitError(raw.path, reason, raw.offset)
    if frame.dict_id:
        reason = (
            f"was compressed with a zstd dictionary ({frame.dict_id}): compress it again "
            "without one"
        )
        raise ShardError(raw.path, reason, raw.offset)
    return length, 4 if frame.has_checksum else 0
