r"""One of the two corpora in the merge: its lines of a range of places, read part by part, a stretch at a time.

    blocks       {"a": 1}\n{"a": 2}\n{"a" | : 3}\n{"a": 4}\n{"a": 5}\n{
    stretches    {"a": 1}\n{"a": 2}\n  {"a": 3}\n  {"a": 4}\n{"a": 5}\n

A stretch is a part of a block as it was decompressed, so that text is not copied; a line that two blocks share is put
together and is a stretch of its own.

A reader stands at a line. It shows the line's place when asked, since lines that are the same in both corpora are
passed over without a look. What the manifest says of a part is held against what is found there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from fastrec.errors import CorpusError
from fastrec.jobs.diff.places import Head, Place, read_head
from fastrec.stages.shards import read_text, shard_at

__all__ = ["ADVICE", "PartFile", "Reader"]

ADVICE: Final = "`fastrec verify` names all that is wrong with a corpus"


class PartFile(msgspec.Struct, frozen=True):
    """A part, and what the manifest says of it."""

    path: str
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
        self.data = b""
        """Whole lines, of which those from `start` to `end` are still to come."""
        self.start = self.end = 0
        self._head: Head | None = None  # of the line at `start`, if it was looked at
        self._place: Place = ()

    def has_line(self) -> bool:
        """Whether there is a line; reads on if need be."""
        if self.start == self.end:
            stretch = next(self._stretches, None)
            if stretch is None:
                return False
            self.data, self.start, self.end = stretch
            self._head = None
        return True

    def place(self) -> Place | None:
        """Return the place of the line at `start`; None if there is none."""
        if self._head is None:
            if not self.has_line():
                return None
            self._head, self._place = self._look(self.data, self.start)
        return self._place

    def take(self) -> tuple[Head, bytes]:
        """Take the line at `start`, without its newline, after a look at its place."""
        head, start = self._head, self.start
        assert head is not None
        end = self.data.find(b"\n", start)
        self.start = end + 1
        self._head = None
        return head, self.data[start:end]

    def skip_to(self, start: int) -> None:
        """Pass over lines."""
        self.start = start
        self._head = None

    def _look(self, data: bytes, start: int) -> tuple[Head, Place]:
        try:
            head = read_head(data, start)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise self._broken("holds a line that is not a record in normal form", start) from exc
        return head, self._place_of(head)

    def _read(self, parts: Sequence[PartFile]) -> Iterator[tuple[bytes, int, int]]:
        """Give the stretches of the range: some text, where its lines begin and where they end."""
        for part in parts:
            self.path, size = part.path, 0
            for data, begin, end in _stretches(part.path):
                self._offset = size - begin
                size += end - begin
                begin, end, done = self._own(data, begin, end)
                if begin < end:
                    yield data, begin, end
                if done:
                    return
            if size != part.text_bytes:
                reason = f"holds {size:,} bytes of text, and its manifest says {part.text_bytes:,}: {ADVICE}"
                raise CorpusError(part.path, reason)

    def _own(self, data: bytes, begin: int, end: int) -> tuple[int, int, bool]:
        """Return which lines of a stretch belong to the range, and whether the range ends in it."""
        first = self._look(data, begin)[1]
        last = self._look(data, max(data.rfind(b"\n", begin, end - 1) + 1, begin))[1]
        if last < first or (self._last is not None and first < self._last):
            raise self._broken("is not sorted as its manifest says", begin)
        self._last = last
        low, high = self._low, self._high
        done = high is not None and last >= high
        starts = []
        if (low is not None and first < low) or done:
            starts = _starts(data, begin, end)
        if low is not None and first < low:
            begin = self._find(data, starts, low, end)
        if high is not None and done:
            end = self._find(data, starts, high, end)
        return begin, end, done

    def _find(self, data: bytes, starts: list[int], place: Place, end: int) -> int:
        """Return where the first line stands that is not before a place."""
        found = bisect_left(starts, place, key=lambda start: self._look(data, start)[1])
        return starts[found] if found < len(starts) else end

    def _broken(self, reason: str, start: int) -> CorpusError:
        return CorpusError(self.path, f"{reason}, at byte {self._offset + start:,} of its text: {ADVICE}")


def _starts(data: bytes, begin: int, end: int) -> list[int]:
    """Return where the lines of a stretch begin."""
    starts = [begin]
    while (start := data.find(b"\n", starts[-1]) + 1) < end:
        starts.append(start)
    return starts


def _stretches(path: str) -> Iterator[tuple[bytes, int, int]]:
    """Give the lines of a part as stretches."""
    begun: list[bytes] = []  # of the line that goes on in the next block
    for block in read_text(shard_at(path)):
        begin, end = 0, block.rfind(b"\n") + 1
        if begun and end:
            begin = block.find(b"\n") + 1
            line = b"".join([*begun, block[:begin]])
            begun = []
            yield line, 0, len(line)
        if begin < end:
            yield block, begin, end
        if end < len(block):
            begun.append(block[end:])
    if begun:
        raise CorpusError(path, f"does not end with a newline: {ADVICE}")
