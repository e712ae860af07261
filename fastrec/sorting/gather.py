"""Gather the records of a key range from runs and parts: merged, without duplicates, window by window.

1. `slice_run` and its kind find the blocks of a run or part that may have keys of the range.
2. A cursor reads a slice from front to back, its index ahead of its texts, so memory stays bounded
   however many duplicates the runs hold. A run is not compressed, and is open only during a read. A
   part is compressed as a whole, so it is decompressed from the front, by the reader that checks
   everything. Its columns are its index.
3. A window ends where it has enough text, or at the lowest key for which some cursor may have
   further records. What each cursor contributes to a window is already sorted, and Python's sort is
   fast on sorted stretches.

`gather_keys` does the same with keys and sizes alone, and does not read texts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, Final, Protocol, Self

import msgspec

from fastrec.errors import DamagedFileError, ShardCorruptError, ShardError
from fastrec.sorting.files import BlockReader, read_exactly
from fastrec.sorting.runs import (
    Fence,
    Origins,
    OriginsByPosition,
    Run,
    SharedOrigins,
    decode_fingerprints,
    decode_rows,
    in_order,
    index_of,
    index_reader,
    without,
)
from fastrec.sources.shard import shard_at
from fastrec.storage import fingerprint, storage_of

_NOTHING = memoryview(b"")


class _RunData:
    """The texts of a slice of a run, read from front to back."""

    def __init__(self, path: str, start: int, end: int, stretch: int, *, turns: int) -> None:
        self._path = path
        self._position = start
        self._end = end
        self._stretch = stretch
        self._turns = turns
        self._size = 0  # of what was read
        self._ahead = _NOTHING  # data from the position on that was read

    def take(self, sizes: Sequence[int], known: int | None) -> list[memoryview]:
        """Take the next texts.

        Read a whole stretch if that is more, but no more than is `known` to be needed.
        """
        size = sum(sizes)
        missing = size - len(self._ahead)
        if missing > 0:
            start = self._position + len(self._ahead)
            left = self._end - start if known is None else known - len(self._ahead)
            data = read_exactly(self._path, max(missing, min(self._stretch, left)), start)
            self._size += len(data)
            if self._turns:
                storage_of(self._path).advise(self._path, len(data), start, needed=False)
            self._ahead = memoryview(bytes(self._ahead) + data if self._ahead else data)
        ahead = self._ahead
        self.skip(size)
        return [ahead[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]

    def skip(self, size: int) -> None:
        self._position += size
        self._ahead = self._ahead[size:]

    def close(self) -> None:
        """Have what this worker needs next read in the meantime: as much, after as much for each of the others."""
        self._ahead = _NOTHING
        if self._turns and self._size:
            start = self._position + (self._turns - 1) * self._size
            storage_of(self._path).advise(self._path, self._size, start, needed=True)

    finish = close  # other records may follow after a slice


class PartTexts:
    """The texts of a part, like `_RunData`."""

    def __init__(self, path: str, text_bytes: int, gaps: Iterator[int] | None = None) -> None:
        """`gaps` are the bytes to skip before each text that is taken; none by default."""
        self._path = path
        self._text_bytes = text_bytes
        self._gaps = gaps or repeat(0)
        self._position = 0
        self._blocks: Iterator[bytes] | None = None  # opened by the first read
        self._ahead = _NOTHING

    def take(self, sizes: Sequence[int], _known: int | None = None) -> list[memoryview]:
        """Take the next texts.

        Only a text that lies in several blocks is copied: blocks mostly end with a line.
        """
        texts = list[memoryview]()
        ahead = self._ahead
        start = 0
        for size, gap in zip(sizes, self._gaps):  # noqa: B905 - there are gaps of later texts, too
            if gap:
                self._position += gap
                start += gap
                while start > len(ahead):
                    start -= len(ahead)
                    ahead = memoryview(self._next_block())
            end = start + size
            if end > len(ahead):
                joined = [ahead[start:]]
                while (missing := end - len(ahead)) > 0:
                    ahead = memoryview(self._next_block())
                    start = 0
                    end = missing
                    joined.append(ahead[:missing])
                texts.append(memoryview(b"".join(joined)))
            else:
                texts.append(ahead[start:end])
            start = end
        self._ahead = ahead[start:]
        self._position += sum(sizes)
        return texts

    def skip(self, size: int) -> None:
        """Move on; text that was not read is decompressed and dropped, block by block."""
        self._position += size
        while size > len(self._ahead):
            size -= len(self._ahead)
            self._ahead = memoryview(self._next_block())
        self._ahead = self._ahead[size:]

    def finish(self) -> None:
        """Check that the text ends here, and that the file was read to its end."""
        if self._position != self._text_bytes or self._ahead or self._next_block(at_end=True):
            raise DamagedFileError(self._path, f"it should have {self._text_bytes:,} bytes of text")
        self.close()

    def close(self) -> None:
        self._blocks = None
        self._ahead = _NOTHING

    def _next_block(self, *, at_end: bool = False) -> bytes:
        try:
            if self._blocks is None:
                self._blocks = shard_at(self._path).read_text()
            block = next(filter(None, self._blocks), b"")
        except (
            ShardCorruptError
        ) as exc:  # its cause may be an OSError, which some libraries raise for corrupt data
            raise DamagedFileError(self._path, exc.reason) from exc
        except ShardError as exc:
            cause = exc.__cause__
            if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
                # the file may be intact: a connection broke, or there were too many open files
                raise cause from None
            raise DamagedFileError(self._path, exc.reason) from exc
        if not block and not at_end:
            raise DamagedFileError(self._path, "its text ends too early")
        return block


_ORIGIN_BYTES: Final = 128  # memory of an origin, about
_KEY_BYTES: Final = 160  # memory of a key besides its bytes, with size and fingerprint, about


class RunSlice(msgspec.Struct, frozen=True, array_like=True):
    """The blocks of a run that may hold keys of a range, or a whole part."""

    path: str
    index_start: int
    index_end: int
    data_start: int
    data_end: int
    index: str = ""  # path of the index; that of the run if empty
    is_part: bool = False  # whether the path is that of a published part, compressed as a whole
    removed: tuple[int, ...] = ()  # pieces whose copies do not count any more
    # whether the part is one of a trusted corpus, which may have more text, and not of the base
    is_input: bool = False
    # path of the columns of a part, which are its index; the other index says what they lack
    columns: str = ""
    has_repeats: bool = False  # whether records of a part of a trusted corpus have equal keys


class PartReader(Protocol):
    """Reads the records of a part in a range of keys from its columns, as `BlockReader` those of an index."""

    gaps: Iterator[int]  # bytes of text between the records
    is_whole: bool  # whether all records of the part are in the range

    @property
    def at_end(self) -> bool: ...

    def read(
        self,
    ) -> Iterator[
        tuple[list[bytes], list[int], list[int], list[Any], list[tuple[int, Origins]]]
    ]: ...

    def stop(self) -> None: ...


OpenPart = Callable[[RunSlice, bytes | None, bytes | None, bool], PartReader]
"""Makes the reader of a part, given a range of keys, and whether rows are needed."""


class _Taken(msgspec.Struct):
    keys: list[bytes]
    sizes: list[int]
    fingerprints: list[int]
    rows: list[Any]
    origins: OriginsByPosition
    texts: list[memoryview]

    def __iadd__(self, other: Self) -> Self:
        if other.origins:
            self.origins |= {
                len(self.keys) + position: each for position, each in other.origins.items()
            }
        self.keys += other.keys
        self.sizes += other.sizes
        self.fingerprints += other.fingerprints
        self.rows += other.rows
        self.texts += other.texts
        return self

    def leave_out(self, removed: frozenset[int]) -> None:
        """Leave out the copies of removed pieces, and records that have no others."""
        pieces = {row[0] for row in self.rows}
        pieces.update(origin[0] for several in self.origins.values() for origin in several)
        if removed.isdisjoint(pieces):
            return
        kept, self.rows, self.origins = without(removed, self.rows, self.origins)
        self.keys = [self.keys[index] for index in kept]
        self.sizes = [self.sizes[index] for index in kept]
        self.fingerprints = [self.fingerprints[index] for index in kept]
        self.texts = [self.texts[index] for index in kept] if self.texts else []


class _Cursor:
    """The next records of a slice: those whose index was read and that were not taken yet."""

    def __init__(
        self,
        run_slice: RunSlice,
        low: bytes | None,
        high: bytes | None,
        stretch: int,
        shared_origins: SharedOrigins,
        *,
        with_texts: bool,
        with_rows: bool,
        turns: int,
        open_part: OpenPart | None,
    ) -> None:
        """Without texts and rows, only keys, sizes and fingerprints are read; and rows, if pieces are removed."""
        index_stretch = stretch
        self._path = run_slice.path
        self._is_part = run_slice.is_part
        self._data: PartTexts | _RunData | None = None
        # the row of a record with one copy has its piece
        self._with_rows = with_rows or bool(run_slice.removed)
        part = None
        if run_slice.columns:
            assert open_part
            part = open_part(run_slice, low, high, self._with_rows)
        if with_texts:
            start, end = run_slice.data_start, run_slice.data_end
            index_bytes = run_slice.index_end - run_slice.index_start
            # an index of 100 KB is then read at once, and not in ten steps
            least_index = max(stretch // 4, 64)
            index_stretch = max(
                min(stretch * index_bytes // max(end - start, 1), stretch), least_index
            )
            if run_slice.is_part:
                self._data = PartTexts(run_slice.path, end, part.gaps if part else None)
            else:
                self._data = _RunData(run_slice.path, start, end, stretch, turns=turns)
        self._decode_rows: Callable[[Any], Iterable[Any]] = decode_rows
        self._decode_fingerprints: Callable[[Any], Iterable[int]] = decode_fingerprints
        if part:
            self.index: BlockReader | PartReader = part
            self._decode_rows = self._decode_fingerprints = list  # they are not encoded
        else:
            index = run_slice.index or index_of(run_slice.path)
            self.index = index_reader(
                index, run_slice.index_start, run_slice.index_end, index_stretch
            )
        self._removed = frozenset(run_slice.removed)
        self._share = shared_origins.share
        self._low, self._high = low, high
        # Or if the slice has records beyond the range.
        self._is_cut = run_slice.is_input or (part is not None and not part.is_whole)
        self._stretch = stretch
        self._held = 0  # bytes of these records
        self._held_origins = 0
        self._number = 0  # of the first of these records
        self.keys: list[bytes] = []
        self._sizes: list[int] = []
        self._fingerprints: list[int] = []
        self._rows: list[Any] = []
        self._origins: list[tuple[int, Origins]] = []  # by number of the record

    def read_ahead(self) -> None:
        """Read the index until enough is held, and on until it has two keys: all below the last are complete."""
        while not self.index.at_end and (not self._has_enough() or self.keys[0] == self.keys[-1]):
            for keys, sizes, fingerprints, rows, origins in self.index.read():
                # with many records, there are blocks without fences
                if self._low is not None and keys[-1] < self._low:
                    if self._data:
                        self._data.skip(sum(sizes))
                    continue
                if self._with_rows:
                    self._rows += self._decode_rows(rows)
                    if origins:
                        base = self._number + len(self.keys)
                        self._origins += [
                            (base + position, self._share(each)) for position, each in origins
                        ]
                        self._held_origins += sum(len(each) for _, each in origins)
                self.keys += keys
                self._sizes += sizes
                self._fingerprints += self._decode_fingerprints(fingerprints)
                self._held += self._bytes_of(keys, sizes)
                if self._has_enough() or (self._high is not None and keys[-1] >= self._high):
                    break  # the other blocks are decoded later, or not at all
            if self._low is not None and self.keys and self.keys[0] < self._low:
                skipped = self._pop(bisect_left(self.keys, self._low))
                if self._data:
                    self._data.skip(sum(skipped.sizes))
            if self._high is not None and self.keys and self.keys[-1] >= self._high:
                self._end_at(bisect_left(self.keys, self._high))

    def below(self, limit: bytes | None) -> Iterator[tuple[bytes, int]]:
        """The keys and sizes of the records that `take` would take."""
        count = len(self.keys) if limit is None else bisect_left(self.keys, limit)
        return zip(self.keys[:count], self._sizes[:count], strict=True)

    def take(self, limit: bytes | None) -> _Taken:
        """Take the records of all keys below `limit`, or all that are left."""
        known = self._held if self.index.at_end else None
        taken = self._pop(len(self.keys) if limit is None else bisect_left(self.keys, limit))
        if self._data:
            taken.texts = self._data.take(taken.sizes, known)
            if self._is_part and list(map(fingerprint, taken.texts)) != taken.fingerprints:
                raise DamagedFileError(self._path, "a record does not match its fingerprint")
        if self._removed:
            taken.leave_out(self._removed)
        return taken

    def is_finished(self) -> bool:
        """When all records were taken, check that a part has no others."""
        if self.keys or not self.index.at_end:
            return False
        if self._data and self._is_cut:
            self._data.close()
        elif self._data:
            self._data.finish()
        return True

    def _has_enough(self) -> bool:
        return self._held + self._held_origins * _ORIGIN_BYTES >= self._stretch

    def _bytes_of(self, keys: list[bytes], sizes: list[int]) -> int:
        return sum(sizes) if self._data else sum(map(len, keys)) + _KEY_BYTES * len(keys)

    def _end_at(self, count: int) -> None:
        """Forget the records beyond the range, and read no more."""
        self._is_cut = True
        self.index.stop()
        self._held -= self._bytes_of(self.keys[count:], self._sizes[count:])
        del self.keys[count:], self._sizes[count:], self._fingerprints[count:], self._rows[count:]
        first = bisect_left(self._origins, (self._number + count,))
        self._held_origins -= sum(len(each) for _, each in self._origins[first:])
        del self._origins[first:]

    def _pop(self, count: int) -> _Taken:
        keys = self.keys[:count]
        sizes = self._sizes[:count]
        taken = _Taken(keys, sizes, self._fingerprints[:count], self._rows[:count], {}, [])
        del self.keys[:count], self._sizes[:count], self._fingerprints[:count], self._rows[:count]
        self._held -= self._bytes_of(keys, sizes)
        if self._origins:
            end = bisect_left(self._origins, (self._number + count,))
            taken.origins = {number - self._number: each for number, each in self._origins[:end]}
            self._held_origins -= sum(map(len, taken.origins.values()))
            del self._origins[:end]
        self._number += count
        return taken


class Window(msgspec.Struct):
    """The records of consecutive keys, sorted, without duplicates."""

    keys: list[bytes]
    rows: list[Any]
    """The piece and line of a record with several copies are those of the origin with the lowest piece number."""
    texts: list[memoryview]
    fingerprints: list[int]
    origins: OriginsByPosition
    groups: list[tuple[int, int]]
    """Where records with equal keys begin and end; a key of one record has no entry."""


def whole_run(run: Run) -> RunSlice:
    index = index_of(run.path) if run.part else ""
    is_part = bool(run.part)
    return RunSlice(
        path=run.part or run.path,
        index_start=0,
        index_end=run.index_bytes,
        data_start=0,
        data_end=run.data_bytes,
        index=index,
        is_part=is_part,
        is_input=is_part,
        columns=run.columns,
        has_repeats=run.has_repeats,
    )


def part_slice(
    path: str,
    text_bytes: int,
    index: str,
    index_bytes: int,
    removed: Iterable[int] = (),
    *,
    columns: str = "",
) -> RunSlice:
    """Take a published part without the records that come from removed pieces alone."""
    pieces = tuple(sorted(removed))
    return RunSlice(
        path, 0, index_bytes, 0, text_bytes, index, is_part=True, removed=pieces, columns=columns
    )


class Fences:
    """Finds fences of runs by keys.

    It remembers the last ones, because most ranges begin where another one ended.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._keys = [[fence.key for fence in run.fences] for run in runs]
        self._last, self._found = b"", [0] * len(runs)

    def places(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[int, int]]:
        """By run, the numbers of the first fences at or above two keys."""
        return zip(
            self._find(low or b""),
            map(len, self._keys) if high is None else self._find(high),
            strict=True,
        )

    def _find(self, key: bytes) -> list[int]:
        if key != self._last:
            starts = self._found if key > self._last else [0] * len(self._found)
            self._found = [
                at if at == len(keys) or key <= keys[at] else bisect_left(keys, key, at)
                for keys, at in zip(self._keys, starts, strict=True)
            ]
            self._last = key
        return self._found


def slice_run(
    run: Run, low: bytes | None, high: bytes | None, found: tuple[int, int] | None = None
) -> RunSlice | None:
    """Find the blocks of a run that may hold keys in `[low, high)` by its fences; None if there are none.

    A caller with many runs and ranges gives the numbers of the first fences at or above `low` and
    `high`.
    """
    fences = run.fences
    if run.part:
        return (
            whole_run(run)
            if (low is None or low <= run.last) and (not high or fences[0].key < high)
            else None
        )
    at, beyond = found or next(Fences([run]).places(low, high))
    # the block before the first fence at or above `low` may reach into the range
    first = max(at - 1, 0)
    if first >= beyond:
        return None
    start = fences[first]
    end = fences[beyond] if beyond < len(fences) else Fence(b"", run.index_bytes, run.data_bytes)
    return RunSlice(
        run.path, start.index_offset, end.index_offset, start.data_offset, end.data_offset
    )


def slice_merged(run: Run, first_region: int, last_region: int) -> RunSlice | None:
    """Find the blocks of a merged run that hold some consecutive regions.

    None if there are none.
    """
    bounds = memoryview(run.bounds).cast("Q")
    index_start, data_start = bounds[2 * first_region : 2 * first_region + 2]
    index_end, data_end = bounds[2 * last_region + 2 : 2 * last_region + 4]
    return (
        None
        if index_start == index_end
        else RunSlice(run.path, index_start, index_end, data_start, data_end)
    )


def gather(
    slices: Sequence[RunSlice],
    low: bytes | None,
    high: bytes | None,
    window_bytes: int,
    *,
    with_texts: bool = True,
    turns: int = 0,
    open_part: OpenPart | None = None,
) -> Iterator[Window]:
    """Yield the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`.

    A DamagedFileError may come after all windows, so nothing may be used before. `with_texts` can
    be false for a single slice of a trusted part, which has every key only once. With `turns`, runs
    only pass through the page cache. `open_part` is needed for parts with columns.
    """
    shared_origins = SharedOrigins()
    for found in _windows(
        slices,
        low,
        high,
        window_bytes,
        shared_origins,
        with_texts=with_texts,
        with_rows=True,
        turns=turns,
        open_part=open_part,
    ):
        yield _merged(found, shared_origins)


def _merged(found: _Taken, shared_origins: SharedOrigins) -> Window:
    keys = found.keys
    rows = found.rows
    texts = found.texts
    order, origins, groups = in_order(
        keys, rows, lambda index: bytes(texts[index]), found.origins, shared_origins
    )
    return Window(
        [keys[index] for index in order],
        [rows[index] for index in order],
        [texts[index] for index in order] if texts else [],
        [found.fingerprints[index] for index in order],
        origins,
        groups,
    )


def gather_keys(
    slices: Sequence[RunSlice],
    low: bytes | None,
    high: bytes | None,
    window_bytes: int,
    open_part: OpenPart | None = None,
) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield keys and sizes of the records that `gather` yields, in windows that take about `window_bytes` of memory.

    Records with equal keys are in no certain order. Those of equal size and fingerprint are
    duplicates.
    """
    shared_origins = SharedOrigins()
    for found in _windows(
        slices,
        low,
        high,
        window_bytes,
        shared_origins,
        with_texts=False,
        with_rows=False,
        open_part=open_part,
    ):
        keys = found.keys
        sizes = found.sizes
        size_of = dict(zip(keys, sizes, strict=True))
        if len(size_of) == len(keys):
            keys.sort()
            yield keys, [size_of[key] for key in keys]
        else:
            distinct = sorted(set(zip(keys, sizes, found.fingerprints, strict=True)))
            yield [key for key, _, _ in distinct], [size for _, size, _ in distinct]


def _windows(
    slices: Sequence[RunSlice],
    low: bytes | None,
    high: bytes | None,
    window_bytes: int,
    shared_origins: SharedOrigins,
    *,
    with_texts: bool,
    with_rows: bool,
    turns: int = 0,
    open_part: OpenPart | None = None,
) -> Iterator[_Taken]:
    """Yield the records of all slices in windows: those of one slice after those of the other."""
    # A cursor holds a stretch, and at most a block more.
    stretch = max(window_bytes // max(len(slices), 1), 1)
    cursors = [
        _Cursor(
            one,
            low,
            high,
            stretch,
            shared_origins,
            with_texts=with_texts,
            with_rows=with_rows,
            turns=turns,
            open_part=open_part,
        )
        for one in slices
    ]
    while cursors:
        for cursor in cursors:
            cursor.read_ahead()
        # The lowest key that may have further records; None if there are no others.
        last = min((cursor.keys[-1] for cursor in cursors if not cursor.index.at_end), default=None)
        for limit in [*(_cuts(cursors, last, window_bytes) if with_texts else ()), last]:
            found = _Taken([], [], [], [], {}, [])
            for cursor in cursors:
                found += cursor.take(limit)
            if found.keys:
                yield found
        cursors = [cursor for cursor in cursors if not cursor.is_finished()]


def _cuts(cursors: Sequence[_Cursor], last: bytes | None, window_bytes: int) -> Iterator[bytes]:
    """The keys where new windows begin, if records below `last` have too much text for one: those of many runs do."""
    records = [record for cursor in cursors for record in cursor.below(last)]
    if sum(map(itemgetter(1), records)) > 2 * window_bytes:
        size = 0
        for key, same in groupby(sorted(records), key=itemgetter(0)):
            if size >= window_bytes:
                yield key
                size = 0
            size += sum(map(itemgetter(1), same))
