r"""Decompress zstd (RFC 8878): every frame of a shard, a few blocks at a time.

The readers of the library either ignore truncation or drop later frames. Its `decompressobj` is correct but does not
limit its output: 4 bytes of input can expand to 128 KiB of text. So this module walks the frames itself, which is
cheap: the header of a block has 3 bytes and gives the position of the next block.

    magic, header | block block block block | block block … last block | checksum      then the next frame
                   \_____ one call ________/

1. Read the frame header. Refuse a dictionary, and a window over the limit.
2. Walk the block headers, and pass at most BLOCKS_PER_CALL whole blocks to the library in one call. A block holds at
   most 128 KiB of text, which bounds the output of a call for any input.
3. After the last block, the library must agree that the frame has ended. It has checked content size and checksum.

The walk detects a truncation at its exact offset, and a corruption to within a few blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from fastrec.errors import ShardError, ShardLimitError
from fastrec.sources.raw import RawBytes

__all__ = ["BLOCKS_PER_CALL", "zstd_text"]

BLOCKS_PER_CALL = 4
BLOCK_LIMIT = 128 << 10  # Block_Maximum_Size, RFC 8878, 3.1.1.2.4
HEADER_LIMIT = 18  # magic 4, descriptor 1, window 1, dictionary 4, content size 8

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_TAIL = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5F
_LIBRARY_WINDOWS = (1 << 10, 1 << 31)  # the smallest and the largest limit that the library accepts
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3


def zstd_text(raw: RawBytes, max_window: int) -> Iterator[bytes]:
    """Yield the text of all frames; skippable frames have none."""
    low, high = _LIBRARY_WINDOWS
    decompressor = zstandard.ZstdDecompressor(max_window_size=min(max(max_window, low), high))
    while raw.need(1):
        magic = raw.peek(4)
        skippable = 0x50 <= magic[0] <= 0x5F and _SKIPPABLE_TAIL.startswith(magic[1:])
        if not skippable and not _FRAME_MAGIC.startswith(magic):
            raise raw.corrupt("is not zstd where a new frame should begin")
        raw.require(4, "a zstd frame's magic number")
        if skippable:
            _skip_frame(raw)
        else:
            yield from _frame_text(raw, decompressor, min(max_window, high))


def _skip_frame(raw: RawBytes) -> None:
    """Skip a skippable frame: magic number, length, and that many bytes."""
    name = f"the skippable zstd frame that starts at byte {raw.offset:,}"
    raw.require(8, name)
    if not raw.skip(8 + int.from_bytes(raw.peek(4, 4), "little")):
        raise raw.truncated(name)


def _frame_text(raw: RawBytes, decompressor: zstandard.ZstdDecompressor, max_window: int) -> Iterator[bytes]:
    """Yield the text of one frame: the walk over its blocks that the module docstring describes."""
    name = f"the zstd frame that starts at byte {raw.offset:,}"
    ahead, checksum_bytes = _frame_header(raw, name, max_window)  # `ahead` is the length of whole blocks so far
    decompress = (frame := decompressor.decompressobj()).decompress
    blocks = 0
    last = 0
    while not last:
        raw.require(ahead + 3, name)
        block = int.from_bytes(raw.peek(3, ahead), "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == _RESERVED or size > BLOCK_LIMIT:
            raise raw.corrupt(f"has an impossible block in {name}", raw.offset + ahead)
        ahead += 3 + (1 if kind == _RLE else size) + last * checksum_bytes
        raw.require(ahead, name)
        blocks += 1
        if last or blocks == BLOCKS_PER_CALL:
            offset = raw.offset
            try:
                text = decompress(raw.take(ahead))
            except zstandard.ZstdError as exc:
                raise raw.corrupt(f"zstd frame is corrupt: {exc}", offset) from exc
            if text:
                yield text
            ahead = blocks = 0
    if not frame.eof or frame.unused_data:
        raise raw.corrupt(f"{name} does not end with its last block")


def _frame_header(raw: RawBytes, name: str, max_window: int) -> tuple[int, int]:
    """Check the header of a frame (RFC 8878, 3.1.1.1); return its length and that of the checksum after the blocks."""
    raw.require(6, name)
    head = raw.peek(HEADER_LIMIT)
    descriptor = head[4]
    single_segment = descriptor >> 5 & 1
    dictionary_at = 6 - single_segment
    content_size_at = dictionary_at + _DICTIONARY_BYTES[descriptor & 3]
    # A single segment always has a content size, in one byte if the flag is 0, which is also the window.
    length = content_size_at + (_CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment)
    raw.require(length, name)
    if single_segment:
        window = int.from_bytes(head[content_size_at:length], "little") + (256 if descriptor >> 6 == 1 else 0)
    else:
        window = 8 + (head[5] & 7) << 7 + (head[5] >> 3)
    if window > max_window:
        reason = f"needs a zstd window of {window:,} bytes"
        if window > _LIBRARY_WINDOWS[1]:
            raise ShardLimitError(raw.path, f"{reason}, which --max-window cannot allow", raw.offset)
        reason += f" and the limit is {max_window:,}: raise it with --max-window"
        raise ShardLimitError(raw.path, reason, raw.offset)
    if dictionary := int.from_bytes(head[dictionary_at:content_size_at], "little"):
        reason = f"was compressed with a zstd dictionary ({dictionary}): compress it again without one"
        raise ShardError(raw.path, reason, raw.offset)
    return length, 4 if descriptor & 4 else 0
