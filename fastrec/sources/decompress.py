"""From the raw bytes of a shard to its text, one function for all formats.

    format_    all of                 checked by
    zstd       frames, skippable too  the walk over blocks; content size and checksum if the frame has them
    gzip       members, zero padding  CRC-32 and length of each member
    bz2        streams                CRC-32 of each block and stream
    xz         streams, padding       the check of each block (CRC-32, CRC-64, SHA-256), the index

Text comes in blocks of at most half a megabyte, however well it was compressed. Input that ends anywhere
but behind a whole frame or member raises ShardTruncatedError, bytes that break the format or a checksum
ShardCorruptError, both after the text before them: nobody should use any of it before the iterator is
exhausted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastrec.sources.formats import Format
from fastrec.sources.members import bz2_text, gzip_text, xz_text
from fastrec.sources.raw import RawBytes
from fastrec.sources.zstd_frames import zstd_text

__all__ = ["MAX_WINDOW", "decompress"]

MAX_WINDOW = 128 << 20  # what the zstd library reads unless it is told otherwise


def decompress(format_: Format, blocks: Iterable[bytes], *, path: str, max_window: int = MAX_WINDOW) -> Iterator[bytes]:
    """The text in raw `blocks` of any size; `path` is for errors, `max_window` caps a window's memory."""
    if format_ is Format.PLAIN:
        return iter(blocks)
    raw = RawBytes(iter(blocks), path)
    if format_ is Format.ZSTD:
        return zstd_text(raw, max_window)
    if format_ is Format.GZIP:
        return gzip_text(raw)
    if format_ is Format.BZ2:
        return bz2_text(raw)
    return xz_text(raw, max_window)
