"""From the raw bytes of an input file to its text: count and hash the bytes, detect the compression, decompress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from xxhash import xxh3_128

from fastrec.errors import ShardCorruptError, ShardError
from fastrec.sources.decompress import decompress
from fastrec.sources.formats import MAGIC_BYTES, Format, detect, format_of_name, is_text
from fastrec.sources.lines import ReadStats

__all__ = ["raw_blocks", "reason_of", "text_of"]

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


def reason_of(what: str, exc: Exception) -> str:
    """Describe why something failed, without the path."""
    return f"{what}: {exc.strerror if isinstance(exc, OSError) and exc.strerror else exc}"
