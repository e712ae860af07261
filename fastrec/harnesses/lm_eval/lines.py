"""Read the samples of a file as text: one per line, or items of one array. Damage becomes a LogError with its place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Final

import msgspec
from stringzilla import count

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.detect import head_of
from fastrec.harnesses.json_array import ArrayReader
from fastrec.harnesses.lm_eval.json_text import encode, plain
from fastrec.harnesses.text_window import TextWindow
from fastrec.harnesses.values import REFUSALS
from fastrec.sources.lines import Chunk, LongLine
from fastrec.sources.shard import Shard, Slice, shard_at

__all__ = ["array_items", "chunks_of", "count_rows", "damaged_line", "is_array", "rows_in"]

_CHUNK: Final = 64 << 10  # text decoded at a time: its samples fit into the processor's cache
_LONGEST: Final = 64 << 20  # bytes of a line: two jobs hold it several times

_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


@contextlib.contextmanager
def _as_log_error(path: str) -> Iterator[None]:
    try:
        yield
    except ShardError as exc:
        raise LogError(path, exc.reason) from exc


def is_array(path: str) -> bool:
    """Return whether the samples of a file are one JSON array."""
    return head_of(path).lstrip()[:1] == b"["


def chunks_of(piece: Slice) -> Iterator[Chunk]:
    """Read the lines of a slice in chunks."""
    path = piece.shard.path
    with _as_log_error(path):
        for chunk in piece.shard.read(piece.start, piece.end, chunk_bytes=_CHUNK, max_line_bytes=_LONGEST):
            if isinstance(chunk, LongLine):
                raise LogError(path, f"line {_number(piece, chunk.line)} is longer than {_LONGEST >> 20} MiB")
            yield chunk


def damaged_line(piece: Slice, chunk: Chunk, number: int, reason: str) -> LogError:
    """Return the error for a line of a chunk that is no sample; `number` counts its lines that are not empty."""
    lines = chunk.data.split(b"\n")
    position = [index for index, line in enumerate(lines) if line and not line.isspace()][number]
    place = _number(piece, chunk.line + position)
    if position == len(lines) - 1:  # no newline follows, which only happens at the end of the file
        return LogError(piece.shard.path, f"ends in the middle of line {place}: it is cut off ({reason})")
    return LogError(piece.shard.path, f"line {place} is not a sample of lm-eval: {reason}")


def _number(piece: Slice, line: int) -> str:
    """Return the number of a line in its file, from its number in a slice."""
    before = 0
    if piece.start:
        with _as_log_error(piece.shard.path):
            before = sum(chunk.data.count(b"\n") for chunk in chunks_of(Slice(piece.shard, 0, piece.start)))
    return f"{before + line:,}"


def array_items(path: str) -> Iterator[bytes]:
    """Read the items of a file that is one JSON array, each as JSON."""
    blocks = _text_of(shard_at(path))
    held = b""

    def read(size: int) -> bytes:
        nonlocal held
        if not held:
            held = next(blocks, b"")
        block, held = held[:size], held[size:]
        return block

    for group in ArrayReader(path, TextWindow(path, read, max_held=_LONGEST), None):
        yield from map(bytes, _items(group.text))


def _items(text: bytes) -> list[msgspec.Raw]:
    try:
        return _decode_items(text)
    except REFUSALS:  # a bare NaN, or a lone surrogate
        return _decode_items(encode(plain(json.loads(text))))


def _text_of(shard: Shard) -> Iterator[bytes]:
    with _as_log_error(shard.path):
        yield from shard.read_text()


def rows_in(path: str) -> Iterator[bytes]:
    """Read all samples of a file, each as JSON."""
    if is_array(path):
        yield from array_items(path)
    else:
        for chunk in chunks_of(Slice(shard_at(path))):
            yield from (line for line in chunk.data.split(b"\n") if line and not line.isspace())


def count_rows(path: str) -> int:
    """Count the samples of a file with one per line."""
    lines, last = 0, b"\n"
    for block in _text_of(shard_at(path)):
        lines += count(block, b"\n")
        last = block[-1:]
    return lines + (last != b"\n")
