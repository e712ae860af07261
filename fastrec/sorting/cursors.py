"""Cursors: the next records of a slice of a run or of a part, whose index is read ahead of the data."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec

from fastrec.errors import DamagedFileError
from fastrec.sorting.copies import Copies, SharedSources, Sources, without
from fastrec.sorting.data import DataReader, PartData, RunData
from fastrec.sorting.index import decode_prints, decode_rows, index_reader
from fastrec.sorting.spill import index_of
from fastrec.storage.digests import fingerprint

__all__ = ["KeyCursor", "RunSlice", "Taken", "TextCursor"]

_SOURCE_BYTES: Final = 128  # memory of a source, about
_KEY_BYTES: Final = 160  # memory of a key besides its bytes, with size and print, about


class RunSlice(msgspec.Struct, frozen=True, array_like=True):
    """The blocks of a run that may hold keys of a range, or a whole part."""

    path: str
    index_start: int
    index_end: int
    data_start: int
    data_end: int
    index: str = ""
    """Path of the index; that of the run if empty."""
    is_part: bool = False
    """Whether the path is that of a published part, compressed as a whole."""
    removed: tuple[int, ...] = ()
    """Pieces whose copies do not count any more."""


class Taken(msgspec.Struct):
    """Records of a slice."""

    keys: list[bytes]
    sizes: list[int]
    prints: list[int]
    rows: list[Any]
    copies: Copies
    texts: list[memoryview]

    def leave_out(self, removed: frozenset[int]) -> None:
        """Leave out the copies of removed pieces, and records that have no others."""
        pieces = {row[0] for row in self.rows}
        pieces.update(source[0] for sources in self.copies.values() for source in sources)
        if removed.isdisjoint(pieces):
            return
        kept, self.rows, self.copies = without(removed, self.rows, self.copies)
        self.keys = [self.keys[index] for index in kept]
        self.sizes = [self.sizes[index] for index in kept]
        self.prints = [self.prints[index] for index in kept]
        self.texts = [self.texts[index] for index in kept] if self.texts else []


class KeyCursor:
    """The next keys of a slice: those whose index was read and that were not taken yet."""

    def __init__(
        self,
        piece: RunSlice,
        low: bytes | None,
        high: bytes | None,
        stretch: int,
        *,
        index_stretch: int | None = None,
        with_rows: bool = False,
        shared: SharedSources | None = None,
    ) -> None:
        index = piece.index or index_of(piece.path)
        self.index = index_reader(index, piece.index_start, piece.index_end, index_stretch or stretch)
        self._removed = frozenset(piece.removed)
        self._with_rows = with_rows or bool(piece.removed)  # the row of a record with one copy has its piece
        self._share = (shared or SharedSources()).share
        self._low, self._high = low, high
        self._is_cut = False  # whether the slice has records beyond the range
        self._stretch = stretch
        self._held = 0  # bytes of these records
        self._held_sources = 0
        self._number = 0  # of the first of these records
        self.keys: list[bytes] = []
        self._sizes: list[int] = []
        self._prints: list[int] = []
        self._rows: list[Any] = []
        self._copies: list[tuple[int, Sources]] = []  # numbers of records, and sources

    def read_ahead(self) -> None:
        """Read the index until enough is held, and on until it has two keys: all below the last are complete."""
        while not self.index.at_end and (not self._has_enough() or self.keys[0] == self.keys[-1]):
            for keys, sizes, prints, rows, copies in self.index.read():
                if self._with_rows:
                    self._rows += decode_rows(rows)
                    if copies:
                        base = self._number + len(self.keys)
                        self._copies += [(base + position, self._share(sources)) for position, sources in copies]
                        self._held_sources += sum(len(sources) for _, sources in copies)
                self.keys += keys
                self._sizes += sizes
                self._prints += decode_prints(prints)
                self._held += self._bytes_of(keys, sizes)
                if self._has_enough():  # the other blocks are decoded later
                    break
            if self._low is not None and self.keys and self.keys[0] < self._low:
                self._skip(bisect_left(self.keys, self._low))
            if self._high is not None and self.keys and self.keys[-1] >= self._high:
                self._end_at(bisect_left(self.keys, self._high))

    def take(self, limit: bytes | None) -> Taken:
        """Take the records of all keys below `limit`, or all that are left."""
        taken = self._pop(len(self.keys) if limit is None else bisect_left(self.keys, limit))
        if self._removed:
            taken.leave_out(self._removed)
        return taken

    def is_finished(self) -> bool:
        """Return whether all records were taken."""
        return not self.keys and self.index.at_end

    def _has_enough(self) -> bool:
        return self._held + self._held_sources * _SOURCE_BYTES >= self._stretch

    def _bytes_of(self, keys: list[bytes], _sizes: list[int]) -> int:
        return sum(map(len, keys)) + _KEY_BYTES * len(keys)

    def _skip(self, count: int) -> None:
        self._pop(count)

    def _end_at(self, count: int) -> None:
        """Forget the records beyond the range, and read no more."""
        self._is_cut = True
        self.index.stop()
        self._held -= self._bytes_of(self.keys[count:], self._sizes[count:])
        del self.keys[count:], self._sizes[count:], self._prints[count:], self._rows[count:]
        first = bisect_left(self._copies, (self._number + count,))
        self._held_sources -= sum(len(sources) for _, sources in self._copies[first:])
        del self._copies[first:]

    def _pop(self, count: int) -> Taken:
        keys, sizes = self.keys[:count], self._sizes[:count]
        taken = Taken(keys, sizes, self._prints[:count], self._rows[:count], {}, [])
        del self.keys[:count], self._sizes[:count], self._prints[:count], self._rows[:count]
        self._held -= self._bytes_of(keys, sizes)
        if self._copies:
            end = bisect_left(self._copies, (self._number + count,))
            taken.copies = {number - self._number: sources for number, sources in self._copies[:end]}
            self._held_sources -= sum(map(len, taken.copies.values()))
            del self._copies[:end]
        self._number += count
        return taken


class TextCursor(KeyCursor):
    """The next records of a slice, with rows, sources and texts."""

    def __init__(
        self,
        piece: RunSlice,
        low: bytes | None,
        high: bytes | None,
        stretch: int,
        *,
        least_index: int,
        shared: SharedSources,
    ) -> None:
        index_bytes, data_bytes = piece.index_end - piece.index_start, piece.data_end - piece.data_start
        index_stretch = max(min(stretch * index_bytes // max(data_bytes, 1), stretch), least_index)
        super().__init__(piece, low, high, stretch, index_stretch=index_stretch, with_rows=True, shared=shared)
        self._path, self._is_part = piece.path, piece.is_part
        self._data: DataReader
        if piece.is_part:
            self._data = PartData(piece.path, piece.data_end)
        else:
            self._data = RunData(piece.path, piece.data_start, piece.data_end, stretch)

    def take(self, limit: bytes | None) -> Taken:
        """Take the records of all keys below `limit`, or all that are left."""
        known = self._held if self.index.at_end else None
        taken = self._pop(len(self.keys) if limit is None else bisect_left(self.keys, limit))
        size = sum(taken.sizes)
        data = self._data.read(size, known)
        self._data.skip(size)
        taken.texts = [data[start:end] for start, end in pairwise(accumulate(taken.sizes, initial=0))]
        if self._is_part and list(map(fingerprint, taken.texts)) != taken.prints:
            raise DamagedFileError(self._path, "a record does not match its fingerprint")
        if self._removed:
            taken.leave_out(self._removed)
        return taken

    def is_finished(self) -> bool:
        """Return whether all records were taken; then check that a part has no others."""
        if not super().is_finished():
            return False
        if self._is_cut:
            self._data.close()
        else:
            self._data.finish()
        return True

    def _bytes_of(self, _keys: list[bytes], sizes: list[int]) -> int:
        return sum(sizes)

    def _skip(self, count: int) -> None:
        self._data.skip(sum(self._pop(count).sizes))
