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
from typing import NamedTuple

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


class _FrameHeader(NamedTuple):
    length: int  # of the header itself, magic included
    window: int
    dictionary: int
    checksum_bytes: int


def zstd_text(raw: RawBytes, max_window: int) -> Iterator[bytes]:
    """Yield the text of all frames; skippable frames have none."""
    low, high = _LIBRARY_WINDOWS
    decompressor = zstandard.ZstdDecompressor(max_window_size=min(max(max_window, low), high))
    while raw.need(1):
        magic = raw.peek(4)
        if magic == _FRAME_MAGIC:
            yield from _frame_text(raw, decompressor, min(max_window, high))
        elif 0x50 <= magic[0] <= 0x5F and magic[1:] == _SKIPPABLE_TAIL:
            _skip_frame(raw)
        elif _FRAME_MAGIC.startswith(magic) or (0x50 <= magic[0] <= 0x5F and _SKIPPABLE_TAIL.startswith(magic[1:])):
            raise raw.truncated("ends inside a zstd frame's magic number")
        else:
            raise raw.corrupt("is not zstd where a new frame should begin")


def _skip_frame(raw: RawBytes) -> None:
    """Skip a skippable frame: magic number, length, and that many bytes."""
    start = raw.offset
    length = raw.peek(4, ahead=4)
    if len(length) < 4 or not raw.skip(8 + int.from_bytes(length, "little")):
        raise raw.truncated(f"ends inside the skippable zstd frame that starts at byte {start:,}")


def _frame_text(raw: RawBytes, decompressor: zstandard.ZstdDecompressor, max_window: int) -> Iterator[bytes]:
    """Yield the text of one frame: the walk over its blocks that the module docstring describes."""
    start = raw.offset
    broken_off = f"ends inside the zstd frame that starts at byte {start:,}"
    header = _frame_header(raw, broken_off)
    _refuse_what_cannot_be_read(raw, header, max_window)
    decompress = (frame := decompressor.decompressobj()).decompress
    ahead = header.length  # bytes of whole blocks so far
    blocks = 0
    last = 0
    while not last:
        if not raw.need(ahead + 3):
            raise raw.truncated(broken_off)
        block = int.from_bytes(raw.peek(3, ahead), "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        if kind == _RESERVED or size > BLOCK_LIMIT:
            raise raw.corrupt(
                f"has an impossible block in the zstd frame that starts at byte {start:,}", raw.offset + ahead
            )
        ahead += 3 + (1 if kind == _RLE else size) + last * header.checksum_bytes
        if not raw.need(ahead):
            raise raw.truncated(broken_off)
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
        raise raw.corrupt(f"the zstd frame that starts at byte {start:,} does not end with its last block")


def _frame_header(raw: RawBytes, broken_off: str) -> _FrameHeader:
    """Parse the header of a frame (RFC 8878, 3.1.1.1) without consuming it."""
    head = raw.peek(HEADER_LIMIT)
    if len(head) < 6:
        raise raw.truncated(broken_off)
    descriptor = head[4]
    single_segment = descriptor >> 5 & 1
    dictionary_at = 6 - single_segment
    content_size_at = dictionary_at + _DICTIONARY_BYTES[descriptor & 3]
    # A single segment always has a content size, in one byte if the flag is 0, which is also the window.
    length = content_size_at + (_CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment)
    if len(head) < length:
        raise raw.truncated(broken_off)
    if single_segment:
        window = int.from_bytes(head[content_size_at:length], "little") + (256 if descriptor >> 6 == 1 else 0)
    else:
        base = 1 << 10 + (head[5] >> 3)
        window = base + (base >> 3) * (head[5] & 7)
    dictionary = int.from_bytes(head[dictionary_at:content_size_at], "little")
    return _FrameHeader(length, window, dictionary, 4 if descriptor & 4 else 0)


def _refuse_what_cannot_be_read(raw: RawBytes, header: _FrameHeader, max_window: int) -> None:
    if header.window > max_window:
        reason = (
            f"needs a zstd window of {header.window:,} bytes and the limit is {max_window:,}: "
            "raise it with --max-window"
        )
        if header.window > _LIBRARY_WINDOWS[1]:
            reason = f"needs a zstd window of {header.window:,} bytes, which --max-window cannot allow"
        raise ShardLimitError(raw.path, reason, raw.offset)
    if header.dictionary:
        reason = f"was compressed with a zstd dictionary ({header.dictionary}): compress it again without one"
        raise ShardError(raw.path, reason, raw.offset)
