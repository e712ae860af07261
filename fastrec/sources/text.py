"""From the raw bytes of an input file to its text: count and hash the bytes, detect the compression, decompress.

    format     text of all of         checked by
    zstd       frames, skippable too  the walk over blocks; content size and checksum if the frame has them
    gzip       members, zero padding  CRC-32 and length of each member
    bz2        streams                CRC-32 of each block and stream
    xz         streams, padding       the check of each block (CRC-32, CRC-64, SHA-256), the index

Text comes in blocks of at most half a megabyte, however well it is compressed. Input that does not end after a whole
frame or member raises ShardTruncatedError; bytes that violate the format or a checksum raise ShardCorruptError. Both
come after the text before them, so nothing may be used before the iterator is exhausted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from xxhash import xxh3_128

from fastrec.errors import ShardCorruptError, ShardError
from fastrec.sources.formats import MAGIC_BYTES, Format, detect, format_of_name, is_text
from fastrec.sources.lines import ReadStats
from fastrec.sources.members import bz2_text, gzip_text, xz_text
from fastrec.sources.raw import RawBytes
from fastrec.sources.zstd_frames import zstd_text

__all__ = ["MAX_WINDOW", "decompress", "raw_blocks", "reason_of", "text_of"]

MAX_WINDOW: Final = 128 << 20  # the default limit of the zstd library
_READ_BYTES: Final = 1 << 20
_TEXT_SAMPLE: Final = 1 << 12


def raw_blocks(read: Callable[[int], bytes], path: str, size: int | None, stats: ReadStats) -> Iterator[bytes]:
    """Read `size` bytes, or up to the end, and count and hash them in `stats`."""
    digest = xxh3_128()
    while size is None or size > 0:
        try:
            block = read(_READ_BYTES if size is None else min(size, _READ_BYTES))
        except OSError as exc:
            raise ShardError(path, reason_of("cannot be read", exc), stats.raw_bytes) from exc
        if not block:
            break
        stats.raw_bytes += len(block)
        digest.update(block)
        if size is not None:
            size -= len(block)
        yield block
    stats.raw_hash = digest.hexdigest()


def text_of(raw: Iterator[bytes], path: str, max_window: int) -> Iterator[bytes]:
    """Detect the compression by the first bytes, and decompress."""
    head = b""
    while len(head) < MAGIC_BYTES and (block := next(raw, b"")):  # a pipe may give one byte at a time
        head = head + block if head else block
    format_ = detect(head)
    if format_ is Format.PLAIN and head:
        _refuse_broken_magic(path, head)
    return decompress(format_, chain((head,), raw), path=path, max_window=max_window)


def _refuse_broken_magic(path: str, head: bytes) -> None:
    """Refuse a file that is neither compressed, as its name says, nor text: its first bytes are damaged."""
    promised = format_of_name(path)
    if promised not in (None, Format.PLAIN) and not is_text(head[:_TEXT_SAMPLE]):
        assert promised is not None
        raise ShardCorruptError(path, f"is neither {promised.value}, as its name says, nor text", 0)


def decompress(format_: Format, blocks: Iterable[bytes], *, path: str, max_window: int = MAX_WINDOW) -> Iterator[bytes]:
    """Decompress raw blocks of any size; `max_window` limits the memory of a zstd window or an xz dictionary."""
    if format_ is Format.PLAIN:
        return iter(blocks)
    raw = RawBytes(iter(blocks), path)
    if format_ is Format.ZSTD:
        return zstd_text(raw, max_window)
    if format_ is Format.GZIP:
        return gzip_text(raw)
    return bz2_text(raw) if format_ is Format.BZ2 else xz_text(raw, max_window)


def reason_of(what: str, exc: Exception) -> str:
    """Describe why something failed, without the path."""
    return f"{what}: {exc.strerror if isinstance(exc, OSError) and exc.strerror else exc}"
