"""Reading one of the two corpora in the merge: the lines of a range of positions, one buffer of whole lines at a time.

The key or the position of the current line is read only on request, because most lines are the same in both corpora and
are skipped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fastrec.corpus.line_head import Position, PositionOf, key_of, read_head
from fastrec.corpus.scan import VERIFY_HINT, PartFile, skim_lines
from fastrec.errors import CorpusError, FastrecError
from fastrec.limits import Limits

__all__ = ["Bounds", "HeldLines", "Reader", "equal_bytes"]

_SHORTEST: Final = 1 << 9  # bytes: the search for the first difference stops here

Bounds = tuple[Position | None, Position | None]
"""The positions of a range: the first, and the first after it; None is no bound."""


class Reader:
    """Reads the lines of some parts whose positions are in a range."""

    def __init__(self, parts: Sequence[PartFile], bounds: Bounds, position_of: PositionOf, limits: Limits) -> None:
        self._position_of = position_of
        self._buffers = self._read(parts, bounds, limits)
        self.path = ""
        """The part that is being read."""
        self._offset = 0  # of the buffer in the text of the part
        self.data = bytearray()
        """Whole lines; those from `start` to `end` are still to be read."""
        self.view = memoryview(self.data)
        """The same, to slice without copying."""
        self.start = self.end = 0
        self._key: bytes | None = None  # of the line at `start`, once it was read

    def _read(self, parts: Sequence[PartFile], bounds: Bounds, limits: Limits) -> Iterator[bool]:
        """Read the next buffer with lines of the range at each step."""
        low, high = bounds
        before: Position | None = None
        for part in parts:
            self.path, self._offset = part.path, 0
            for data, size in skim_lines(part, limits):
                self.data, self.view, self.start, self.end = data, memoryview(data), 0, size
                last = self.position(data.rfind(b"\n", 0, size - 1) + 1)
                first = before if before is not None and self._offset else self.position(0)
                if last < first or (before is not None and first < before):
                    raise self._error("is not sorted as the manifest says", 0)
                if low is not None and first < low:
                    self.start = size if last < low else self._find(low, size)
                if high is not None and last >= high:
                    self.end = self._find(high, size)
                if self.start < self.end:
                    yield True
                if self.end < size:
                    return
                before = last
                self._offset += size

    def _find(self, position: Position, end: int) -> int:
        """Return the start of the first line that is at a position or after it."""
        starts = [0]
        while (start := self.data.find(b"\n", starts[-1]) + 1) < end:
            starts.append(start)
        found = bisect_left(starts, position, key=self.position)
        return starts[found] if found < len(starts) else end

    def _error(self, reason: str, start: int) -> CorpusError:
        return CorpusError(self.path, f"{reason}, at byte {self._offset + start:,} of its text; {VERIFY_HINT}")

    def has_line(self) -> bool:
        """Return whether there is a line at `start`; reads the next buffer if necessary."""
        return self.start < self.end or next(self._buffers, False)

    def key(self) -> bytes | None:
        """Return the key of the line at `start`; None at the end."""
        if self._key is None and self.has_line():
            self._key = key_of(self.data, self.start)
        return self._key

    def position(self, start: int) -> Position:
        """Return the position of the line that begins at `start`."""
        try:
            return self._position_of(read_head(self.data, start))
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise self._error("has a line that is not a record in normal form", start) from exc

    def take(self) -> bytes:
        """Return the line at `start` without its newline, and go to the next one."""
        start, end = self.start, self.data.find(b"\n", self.start)
        self.skip_to(end + 1)
        return bytes(self.view[start:end])

    def skip_to(self, start: int) -> None:
        """Go to a later line of the buffer."""
        self.start = start
        self._key = None

    def take_position(self, position: Position, lines: list[bytes], most_bytes: int) -> None:
        """Take all lines at a position."""
        size = sum(map(len, lines))
        while self.has_line() and self.position(self.start) == position:
            lines.append(self.take())
            size += len(lines[-1])
            if size > most_bytes:
                raise _too_much(lines[0], most_bytes)


class HeldLines:
    """The last lines that were skipped: those of one question, because more of its records may follow."""

    def __init__(self, reader: Reader, most_bytes: int) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._lines: list[bytes] = []
        self._size = 0
        self._position: Position | None = None
        self.key = b""
        """The key of the last line."""

    def hold(self, start: int, end: int) -> None:
        """Keep the lines of the last question between two offsets of the buffer."""
        data, view, position_at = self._reader.data, self._reader.view, self._reader.position
        begin = data.rfind(b"\n", start, end - 1) + 1 or start
        position = position_at(begin)
        lines = [bytes(view[begin : end - 1])]
        while begin > start:
            before = data.rfind(b"\n", start, begin - 1) + 1 or start
            if position_at(before) != position:
                break
            lines.append(bytes(view[before : begin - 1]))
            begin = before
        if begin > start or position != self._position:
            self._lines, self._size, self._position = [], 0, position
        self._size += sum(map(len, lines))
        self.key = key_of(lines[0])
        if self._size <= self._most_bytes or not self._lines:
            self._lines += reversed(lines)

    def at(self, position: Position) -> list[bytes]:
        """Return the lines, if they are at a position."""
        if position != self._position:
            return []
        if self._size > self._most_bytes:
            raise _too_much(self._lines[0], self._most_bytes)
        return self._lines


def _too_much(line: bytes, most_bytes: int) -> FastrecError:
    head = read_head(line)
    return FastrecError(
        f"more than {most_bytes >> 20} MiB of records answer one question of {head.evaluation_name!r} by "
        f"{head.model_id!r}, too many to compare: make both corpora with `fastrec normalize "
        "--sort-by evaluation_name,model_id,sample_id`, and compare those"
    )


def equal_bytes(old: Reader, new: Reader) -> int:
    """Return a number of bytes that are equal in both buffers: all, or found by halving, since comparing runs in C."""
    begin, other = old.start, new.start
    size = min(old.end - begin, new.end - other)
    view, startswith = old.view, new.data.startswith
    if startswith(view[begin : begin + size], other):
        return size
    start = begin
    while size > _SHORTEST:
        size //= 2
        if startswith(view[start : start + size], other):
            start += size
            other += size
    return start - begin
