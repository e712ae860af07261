"""One of the two corpora in the merge: its lines of a range of places, read part by part, a stretch at a time.

A stretch is whole lines in a buffer, which is overwritten when the reader reads on.

A reader stands at a line. It shows the line's key or place when asked, since lines that are the same in both corpora
are passed over without a look. What the manifest says of a part is held against what is found there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from fastrec.commands.diff.places import Head, Place, read_head, read_key
from fastrec.corpus.skim import skim_lines
from fastrec.errors import CorpusError
from fastrec.sources.reader import shard_at

__all__ = ["ADVICE", "PartFile", "Reader"]

ADVICE: Final = "`fastrec verify` names all that is wrong with a corpus"


class PartFile(msgspec.Struct, frozen=True):
    """A part, and what the manifest says of it."""

    path: str
    bytes: int
    text_bytes: int


class Reader:
    """Reads the lines of some parts whose places are in `[low, high)`."""

    def __init__(
        self, parts: Sequence[PartFile], low: Place | None, high: Place | None, place_of: Callable[[Head], Place]
    ) -> None:
        self._low = low
        self._high = high
        self._place_of = place_of
        self.path = ""
        """Of the part that is read."""
        self._offset = 0  # of `data` in the text of the part
        self._last: Place | None = None
        self._stretches = self._read(parts)
        self.data = bytearray()
        """Whole lines, of which those from `start` to `end` are still to come."""
        self.view = memoryview(self.data)
        """The same, of which parts can be had without copying them."""
        self.start = self.end = 0
        self._key: bytes | None = None  # of the line at `start`, if it was looked at

    def has_line(self) -> bool:
        """Whether there is a line; reads on if need be."""
        if self.start == self.end:
            stretch = next(self._stretches, None)
            if stretch is None:
                return False
            self.data, self.start, self.end = stretch
            self.view = memoryview(self.data)
        return True

    def key(self) -> bytes | None:
        """Return the key of the line at `start`; None if there is none."""
        if self._key is None and self.has_line():
            self._key = read_key(self.data, self.start)
        return self._key

    def place(self) -> Place | None:
        """Return the place of the line at `start`; None if there is none."""
        return self._look(self.data, self.start) if self.has_line() else None

    def take(self) -> bytes:
        """Take the line at `start`, without its newline."""
        start, end = self.start, self.data.find(b"\n", self.start)
        self.skip_to(end + 1)
        return bytes(self.view[start:end])

    def skip_to(self, start: int) -> None:
        """Pass over lines."""
        self.start = start
        self._key = None

    def _look(self, data: bytearray, start: int) -> Place:
        """Return the place of the line that starts there."""
        try:
            return self._place_of(read_head(data, start))
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise self._broken("holds a line that is not a record in normal form", start) from exc

    def _read(self, parts: Sequence[PartFile]) -> Iterator[tuple[bytearray, int, int]]:
        """Give the stretches of the range: some text, where its lines begin and where they end."""
        for part in parts:
            self.path, self._offset = part.path, 0
            for data, size in skim_lines(shard_at(part.path), part.bytes, part.text_bytes):
                begin, end, done = self._own(data, size)
                if begin < end:
                    yield data, begin, end
                if done:
                    return
                self._offset += size

    def _own(self, data: bytearray, end: int) -> tuple[int, int, bool]:
        """Return which lines of a stretch belong to the range, and whether the range ends in it."""
        before, low, high = self._last, self._low, self._high
        self._last = last = self._look(data, data.rfind(b"\n", 0, end - 1) + 1)
        first = self._look(data, 0) if before is None or not self._offset else before
        if last < first or (before is not None and first < before):
            raise self._broken("is not sorted as its manifest says", 0)
        begin, done = 0, high is not None and last >= high
        if low is not None and first < low:
            begin = end if last < low else self._find(data, low, end)
        if high is not None and done:
            end = self._find(data, high, end)
        return begin, end, done

    def _find(self, data: bytearray, place: Place, end: int) -> int:
        """Return where the first line stands that is not before a place."""
        starts = _starts(data, end)
        found = bisect_left(starts, place, key=lambda start: self._look(data, start))
        return starts[found] if found < len(starts) else end

    def _broken(self, reason: str, start: int) -> CorpusError:
        return CorpusError(self.path, f"{reason}, at byte {self._offset + start:,} of its text: {ADVICE}")


def _starts(data: bytearray, end: int) -> list[int]:
    """Return where the lines of a stretch begin."""
    starts = [0]
    while (start := data.find(b"\n", starts[-1]) + 1) < end:
        starts.append(start)
    return starts
