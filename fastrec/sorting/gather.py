"""Gather the records of a key range from runs and parts, window by window.

They are merged, without duplicates.

1. `slices` finds the blocks of a run or part that may have keys of the range.
2. A cursor reads a slice from front to back, its index ahead of its texts (`texts`), so memory
   stays bounded however many duplicates the runs hold. The columns of a part are its index. They
   are in memory as a whole, so a part is opened when the merge comes to its first key.
3. A window ends where it has enough text, or at the lowest key for which some cursor may have
   further records. What each cursor contributes to a window is already sorted, and Python's sort is
   fast on sorted stretches.

`gather_keys` does the same with keys and sizes alone, and does not read texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Self

from msgspec import Struct

from fastrec.errors import DamagedFileError
from fastrec.sorting.runs import (
    Origins,
    decode_fingerprints,
    decode_rows,
    in_order,
    index_blocks,
    index_of,
    origins_sharer,
)
from fastrec.sorting.slices import Bound, RunSlice
from fastrec.sorting.texts import PartTexts, RunTexts
from fastrec.storage import fingerprint

_first_of = attrgetter("first")  # of a slice
_ORIGIN_BYTES = 128  # memory of an origin, about
_KEY_BYTES = 160  # memory of a key besides its bytes, with size and fingerprint, about


class OpenedPart(NamedTuple):
    """Records of a part, read from its columns."""

    blocks: Iterator[Any]  # as those of an index
    gaps: Iterator[int]  # bytes of text between the records
    is_whole: bool  # whether these are all records of the part


# Opens a part, given a range of keys, and whether rows are needed.
OpenPart = Callable[[RunSlice, Bound, Bound, bool], OpenedPart]


class _Records(Struct):
    """Records in order of their keys, as columns.

    Rows, texts and origins are there only if they are needed.
    """

    keys: list[bytes] = []
    sizes: list[int] = []
    fingerprints: list[int] = []
    rows: list[Any] = []
    texts: list[memoryview] = []
    origins: list[Origins | None] = []  # None of a record with one copy, whose row has its origin

    def columns(self) -> tuple[list[Any], ...]:
        return self.keys, self.sizes, self.fingerprints, self.rows, self.texts, self.origins

    def __iadd__(self, other: Self) -> Self:
        for column, more in zip(self.columns(), other.columns(), strict=True):
            column.extend(more)
        return self

    def pop(self, count: int) -> _Records:
        """Remove and return the first records."""
        first = _Records(*[column[:count] for column in self.columns()])
        for column in self.columns():
            del column[:count]
        return first

    def pick(self, positions: Sequence[int]) -> list[list[Any]]:
        """The columns of some records."""
        return [
            [column[index] for index in positions] if column else [] for column in self.columns()
        ]

    def leave_out(self, removed: frozenset[int]) -> None:
        """Leave out the copies of removed pieces, and records that have no others."""
        pieces = {row[0] for row in self.rows}
        for several in filter(None, self.origins):
            pieces.update(piece for piece, _, _ in several)
        if removed.isdisjoint(pieces):
            return
        kept = []
        for position, (row, origins) in enumerate(zip(self.rows, self.origins, strict=True)):
            all_copies = origins or ((row[0], row[1], 1),)
            copies = tuple(origin for origin in all_copies if origin[0] not in removed)
            if not copies:
                continue
            piece, line, count = copies[0]
            self.origins[position] = copies if len(copies) > 1 or count > 1 else None
            if row[0] != piece:
                self.rows[position] = [piece, line, *row[2:]]
            kept.append(position)
        for column, left in zip(self.columns(), self.pick(kept), strict=True):
            column[:] = left


class _Cursor:
    """Reads a slice from front to back.

    `waiting` are the next records: their index was read, and they were not taken yet.
    """

    def __init__(
        self,
        run_slice: RunSlice,
        low: Bound,
        high: Bound,
        stretch: int,
        share_origins: Callable[[Origins], Origins],
        *,
        with_texts: bool = False,
        with_rows: bool = False,
        turns: int = 0,
        open_part: OpenPart | None,
    ) -> None:
        """Read keys, sizes and fingerprints, and texts and rows if they are needed.

        Rows are needed if pieces are removed, too.
        """
        self._slice = run_slice
        self._removed = frozenset(run_slice.removed)
        self._share = share_origins
        self._low = low
        self._high = high
        stretch = max(stretch, 1)
        self._stretch = stretch  # a cursor holds this much, and at most a block more
        self.waiting = _Records()
        self._held = 0  # memory of the waiting records
        # The row of a record with one copy has its piece.
        self._with_rows = with_rows or bool(run_slice.removed)
        part = None
        if run_slice.columns:
            assert open_part
            part = open_part(run_slice, low, high, self._with_rows)
        # Whether there are other records than those of the slice and the range.
        self._is_cut = part is not None and not part.is_whole
        self._data: PartTexts | RunTexts | None = None
        index_stretch = stretch
        if with_texts:
            start, end = run_slice.data_start, run_slice.data_end
            index_bytes = run_slice.index_end - run_slice.index_start
            index_stretch = min(stretch * index_bytes // max(end - start, 1), stretch)
            # An index of 100 KB is then read at once, and not in ten steps.
            index_stretch = max(index_stretch, stretch // 4, 64)
            if run_slice.is_part:
                self._data = PartTexts(run_slice.path, end, part.gaps if part else None)
            else:
                self._data = RunTexts(run_slice.path, start, end, stretch, turns)
        if part:
            self._blocks = part.blocks
            # The columns of a part are not encoded.
            self._decode_rows = self._decode_fingerprints = list
        else:
            self._decode_rows = decode_rows
            self._decode_fingerprints = decode_fingerprints
            path = run_slice.index or index_of(run_slice.path)
            self._blocks = index_blocks(
                path, run_slice.index_start, run_slice.index_end, index_stretch
            )

    _blocks: Iterator[Any]
    at_end = False  # whether there are no other records than those that wait
    _decode_rows: Callable[[Any], Iterable[Any]]
    _decode_fingerprints: Callable[[Any], Iterable[int]]

    def read_ahead(self) -> None:
        """Read the index until enough is held, and at least two keys.

        The records of all keys below the last one are complete.
        """
        while not self.at_end and (
            self._held < self._stretch or self.waiting.keys[0] == self.waiting.keys[-1]
        ):
            block = next(self._blocks, None)
            if block is None:
                self.at_end = True
                return
            keys, sizes, fingerprints, rows, origins = block
            # With many records, there are blocks without fences.
            if self._low is not None and keys[-1] < self._low:
                self._skip(sizes)
                continue
            records = _Records(keys, sizes, list(self._decode_fingerprints(fingerprints)))
            if self._with_rows:
                records.rows = list(self._decode_rows(rows))
                records.origins = [None] * len(keys)
                for position, several in origins:
                    records.origins[position] = self._share(several)
            self.waiting += records
            self._held += self._memory_of(records)
            self._stay_in_range()

    def _stay_in_range(self) -> None:
        """Forget waiting records below the range, and read no more after those beyond it."""
        keys = self.waiting.keys
        if self._low is not None and keys and keys[0] < self._low:
            self._skip(self._pop(bisect_left(keys, self._low)).sizes)
        if self._high is not None and keys and keys[-1] >= self._high:
            self.waiting = self._pop(bisect_left(keys, self._high))
            self._held = self._memory_of(self.waiting)
            self._is_cut = True
            self.at_end = True

    def _skip(self, sizes: Sequence[int]) -> None:
        if self._data:
            self._data.skip(sum(sizes))

    def below(self, limit: Bound) -> Iterator[tuple[bytes, int]]:
        """The keys and sizes of the records that `take` would take."""
        return islice(zip(self.waiting.keys, self.waiting.sizes, strict=True), self._count(limit))

    def take(self, limit: Bound) -> _Records:
        """Take the records of all keys below `limit`, or all that are left."""
        known = sum(self.waiting.sizes) if self.at_end else None
        taken = self._pop(self._count(limit))
        if self._data:
            taken.texts = self._data.take(taken.sizes, known)
            if self._slice.is_part and list(map(fingerprint, taken.texts)) != taken.fingerprints:
                raise DamagedFileError(self._slice.path, "a record does not match its fingerprint")
        if self._removed:
            taken.leave_out(self._removed)
        return taken

    def is_finished(self) -> bool:
        """When all records were taken, check that a part has no others."""
        if self.waiting.keys or not self.at_end:
            return False
        if self._data and self._is_cut:
            self._data.close()
        elif self._data:
            self._data.finish()
        return True

    def _count(self, limit: Bound) -> int:
        keys = self.waiting.keys
        return len(keys) if limit is None else bisect_left(keys, limit)

    def _pop(self, count: int) -> _Records:
        records = self.waiting.pop(count)
        self._held -= self._memory_of(records)
        return records

    def _memory_of(self, records: _Records) -> int:
        origins = _ORIGIN_BYTES * sum(map(len, filter(None, records.origins)))
        if self._data:
            return sum(records.sizes) + origins
        return sum(map(len, records.keys)) + _KEY_BYTES * len(records.keys) + origins


class Window(_Records):
    """The records of consecutive keys, sorted, without duplicates.

    The piece and line in the row of a record with several copies are those of the origin with the
    lowest piece number.
    """

    # Where records with equal keys begin and end; a key of one record has no entry.
    groups: list[tuple[int, int]] = []


def gather(
    slices: Sequence[RunSlice],
    low: Bound,
    high: Bound,
    window_bytes: int,
    *,
    with_texts: bool = True,
    turns: int = 0,
    open_part: OpenPart | None = None,
) -> Iterator[Window]:
    """Yield the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`.

    A DamagedFileError may come after the last window, so use none of them before the end. A single
    slice of a trusted part has every key only once, and needs no texts (`with_texts`). `turns` is
    the number of workers that read the runs in turns: what one has read leaves the page cache, and
    what it needs next is read ahead; 0 leaves the cache alone. Parts with columns need `open_part`.
    """
    share = origins_sharer()
    open_cursor = partial(
        _Cursor,
        low=low,
        high=high,
        stretch=window_bytes // max(len(slices), 1),
        share_origins=share,
        with_texts=with_texts,
        with_rows=True,
        turns=turns,
        open_part=open_part,
    )
    for records in _windows(slices, open_cursor, window_bytes if with_texts else None):
        texts = records.texts
        order, groups = in_order(
            records.keys,
            records.rows,
            lambda index, texts=texts: bytes(texts[index]),  # type: ignore[misc]
            records.origins,
            share,
        )
        yield Window(*records.pick(order), groups)  # type: ignore[call-arg]


def gather_keys(
    slices: Sequence[RunSlice],
    low: Bound,
    high: Bound,
    window_bytes: int,
    open_part: OpenPart | None = None,
) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield keys and sizes of the records that `gather` yields.

    A window takes about `window_bytes` of memory.

    Records with equal keys are in no certain order. Those of equal size and fingerprint are
    duplicates.
    """
    open_cursor = partial(
        _Cursor,
        low=low,
        high=high,
        stretch=window_bytes // max(len(slices), 1),
        share_origins=origins_sharer(),
        open_part=open_part,
    )
    for records in _windows(slices, open_cursor):
        keys = records.keys
        sizes = records.sizes
        size_of = dict(zip(keys, sizes, strict=True))
        if len(size_of) == len(keys):
            keys.sort()
            yield keys, [size_of[key] for key in keys]
        else:
            distinct = sorted(set(zip(keys, sizes, records.fingerprints, strict=True)))
            yield [key for key, _, _ in distinct], [size for _, size, _ in distinct]


def _windows(
    slices: Iterable[RunSlice],
    open_cursor: Callable[[RunSlice], _Cursor],
    window_bytes: int | None = None,
) -> Iterator[_Records]:
    """Yield the records of all slices in windows: those of one slice after those of the other.

    A slice is opened when its first key is next, and let go after its last record. A window has
    about `window_bytes` of text, if that is limited.
    """
    closed = sorted(slices, key=_first_of, reverse=True)
    cursors: list[_Cursor] = []
    while cursors or closed:
        next_key = min([cursor.waiting.keys[0] for cursor in cursors] or [closed[-1].first])
        while closed and closed[-1].first <= next_key:
            cursors.append(open_cursor(closed.pop()))
        for cursor in cursors:
            cursor.read_ahead()
        # The lowest key that may have further records; None if there are no others.
        unread = [cursor.waiting.keys[-1] for cursor in cursors if not cursor.at_end]
        last = min([*unread, *map(_first_of, closed[-1:])], default=None)
        for limit in [*(_cuts(cursors, last, window_bytes) if window_bytes else ()), last]:
            window = _Records()
            for cursor in cursors:
                window += cursor.take(limit)
            if window.keys:
                yield window
        cursors = [cursor for cursor in cursors if not cursor.is_finished()]


def _cuts(cursors: Sequence[_Cursor], last: Bound, window_bytes: int) -> Iterator[bytes]:
    """The keys where new windows begin.

    Records below `last` may have too much text for one window: those of many runs do.
    """
    records = [record for cursor in cursors for record in cursor.below(last)]
    if sum(size for _, size in records) <= 2 * window_bytes:
        return
    records.sort()
    window_size = 0
    before = b""
    for key, size in records:
        if window_size >= window_bytes and key != before:
            yield key
            window_size = 0
        window_size += size
        before = key
