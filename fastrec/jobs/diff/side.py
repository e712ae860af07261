"""One of the two corpora in the merge: its lines of a range of places, read part by part, a chunk at a time.

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
from fastrec.stages.shards import Chunk, ReadStats, read_shard, shard_at

__all__ = ["PartFile", "Reader"]

_CHUNK_BYTES: Final = 1 << 18  # two chunks stay in the processor's cache
_ADVICE: Final = "`fastrec verify` names all that is wrong with a corpus"


class PartFile(msgspec.Struct, frozen=True):
    """A part, and what the manifest says of it."""

    path: str
    records: int
    text_bytes: int


class Reader:
    """Reads the lines of some parts whose places are in `[low, high)`."""

    def __init__(
        self, parts: Sequence[PartFile], low: Place | None, high: Place | None, place_of: Callable[[Head], Place]
    ) -> None:
        self._low = low
        self._high = high
        self._place_of = place_of
        self._path = ""
        self._line = 1  # number of the first line of `data`
        self._last: Place | None = None
        self._chunks = self._read(parts)
        self.data = b""
        """Whole lines, of which those from `start` on are still to come."""
        self.start = 0
        self.head: Head | None = None
        """Of the line at `start`, once `place` was called."""
        self._place: Place = ()

    def has_line(self) -> bool:
        """Whether there is a line; reads on if need be."""
        while self.start == len(self.data):
            data = next(self._chunks, None)
            if data is None:
                return False
            self.data, self.start, self.head = data, 0, None
        return True

    def place(self) -> Place:
        """Return the place of the line at `start`."""
        if self.head is None:
            self.head, self._place = self._look(self.data, self.start)
        return self._place

    def take(self) -> tuple[Head, bytes]:
        """Take the line at `start`, without its newline, after a look at its place."""
        head, start = self.head, self.start
        assert head is not None
        end = self.data.find(b"\n", start)
        self.start = end + 1
        self.head = None
        return head, self.data[start:end]

    def skip_to(self, start: int) -> None:
        """Pass over lines."""
        self.start = start
        self.head = None

    def _look(self, data: bytes, start: int) -> tuple[Head, Place]:
        try:
            head = read_head(data, start)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise self._broken("is not a record in normal form", data, start) from exc
        return head, self._place_of(head)

    def _read(self, parts: Sequence[PartFile]) -> Iterator[bytes]:
        """Give the chunks of the range, each cut to it."""
        for part in parts:
            self._path = part.path
            stats = ReadStats()
            for chunk in read_shard(shard_at(part.path), chunk_bytes=_CHUNK_BYTES, stats=stats):
                if not isinstance(chunk, Chunk) or not chunk.data.endswith(b"\n"):
                    raise CorpusError(part.path, f"holds a line that fastrec would not write: {_ADVICE}", chunk.line)
                self._line = chunk.line
                begin, end, done = self._own(chunk.data)
                if begin < end:
                    self._line += chunk.data.count(b"\n", 0, begin)
                    yield chunk.data if end - begin == len(chunk.data) else chunk.data[begin:end]
                if done:
                    return
            found, said = (stats.lines, stats.text_bytes), (part.records, part.text_bytes)
            if found != said:
                raise CorpusError(
                    part.path,
                    f"holds {found[0]:,} lines of {found[1]:,} bytes, and its manifest says {said[0]:,} of "
                    f"{said[1]:,}: {_ADVICE}",
                )

    def _own(self, data: bytes) -> tuple[int, int, bool]:
        """Return which stretch of a chunk belongs to the range, and whether the range ends in it."""
        first = self._look(data, 0)[1]
        last = self._look(data, data.rfind(b"\n", 0, -1) + 1)[1]
        if last < first or (self._last is not None and first < self._last):
            raise self._broken("is not in the order of its manifest", data, 0)
        self._last = last
        begin, end = 0, len(data)
        if self._low is not None and first < self._low:
            begin = end if last < self._low else self._find(data, self._low)
        done = self._high is not None and last >= self._high
        if done:
            assert self._high is not None
            end = self._find(data, self._high)
        return begin, end, done

    def _find(self, data: bytes, place: Place) -> int:
        """Return where in a chunk the first line stands that is not before a place."""
        starts = [0]
        while (end := data.find(b"\n", starts[-1]) + 1) < len(data):
            starts.append(end)
        found = bisect_left(starts, place, key=lambda start: self._look(data, start)[1])
        return starts[found] if found < len(starts) else len(data)

    def _broken(self, reason: str, data: bytes, start: int) -> CorpusError:
        line = self._line + data.count(b"\n", 0, start)
        return CorpusError(self._path, f"{reason}: {_ADVICE}", line)
