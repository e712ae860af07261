"""Codes: numbers that stand for values, in arrays with a code of each record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
Array = np.ndarray[Any, Any]
NO_NUMBERS = np.array([], dtype=np.int64)
_LARGEST_CODE = 1 << 62
_SPARSE = 8  # codes of so many more values than records are sorted to be numbered


def look_up(codes: Mapping[Any, int], values: Iterable[Any]) -> Array:
    """The code of each of some values; `new_codes` gives new ones the next codes."""
    return np.array(list(map(codes.__getitem__, values)), dtype=np.int64)


def joint_codes(first: Array, *others: Array) -> Array:
    """One code for each combination of codes; codes are in the order of the combinations."""
    joint = first.astype(np.int64)
    bound = _size_of(joint)
    for codes in others:
        size = _size_of(codes)
        if size > 1:
            if bound * size > _LARGEST_CODE:
                joint = _numbered(joint)
                bound = _size_of(joint)
            joint = joint * size + codes
            bound *= size
    return joint


class CodedColumn(NamedTuple):
    """A column of values that repeat: each record has the code of its value."""

    codes: Array  # Of each record, the position of its value in `values`.
    # All values of these records, each once; None stands for records that have none.
    values: list[Any]

    def value(self, record: int) -> Any:
        return self.values[int(self.codes[record])]

    def decoded(self) -> Array:
        """The value of each record."""
        values = np.empty(len(self.values), dtype=object)
        values[:] = self.values
        return values[self.codes]


class Distinct(NamedTuple):
    """The distinct combinations of some codes."""

    first: Array  # by combination: the first record that has it
    place: Array  # by record: its combination

    @property
    def counts(self) -> Array:
        """By combination: how many records have it."""
        return count_of(self.place, len(self.first))

    def count_of(self, records: Array) -> Array:
        """By combination: how many of some records have it."""
        return count_of(self.place[records], len(self.first))

    def reduce(self, function: np.ufunc, values: Array) -> Array:
        """By combination: what `np.minimum`, `np.bitwise_or` or the like makes of its values."""
        reduced = values[self.first]
        function.at(reduced, self.place, values)
        return reduced


def distinct_of(*columns: Array) -> Distinct:
    """Find the distinct combinations of codes, in order."""
    place = _numbered(joint_codes(*columns))
    first = np.empty(_size_of(place), dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]  # the first record is the last to be set
    return Distinct(first, place)


def _numbered(codes: Array) -> Array:
    """Number the distinct codes from 0 on, in order."""
    size = _size_of(codes)
    if size > _SPARSE * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    # Unless codes are sparse, this takes a tenth of the time of sorting them.
    used = np.flatnonzero(is_there(codes, size))
    numbers = np.empty(size, dtype=np.int64)
    numbers[used] = np.arange(len(used))
    return numbers[codes]


def _size_of(codes: Array) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def distinct_within(keys: Distinct, *others: Array) -> Array:
    """How many distinct combinations of other codes the records of each combination have."""
    return keys.count_of(distinct_of(keys.place, *others).first)


def split_records(keys: Distinct, samples: Array, *runs: Array) -> Array:
    """By record: whether a run has several samples of its key."""
    several = distinct_within(keys, *runs, samples) > distinct_within(keys, *runs)
    return np.asarray(several[keys.place])


def count_of(places: Array, count: int) -> Array:
    """How many records are at each of some places."""
    return np.bincount(places, minlength=count)


def by_code(codes: Array, values: Array) -> Iterator[tuple[int, list[Any]]]:
    """Yield each code with its values, in their order."""
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    listed = values[order].tolist()
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    for begin, end in pairwise([*starts, len(listed)]):
        yield int(codes[begin]), listed[begin:end]


def rows_of(*columns: Array) -> Iterator[tuple[Any, ...]]:
    """Yield the values of columns, row by row."""
    return zip(*map(np.ndarray.tolist, columns), strict=True)


def used_codes(codes: Array) -> Array:
    """The codes that occur, in ascending order."""
    return np.flatnonzero(np.bincount(codes))


def is_there(places: Array, count: int) -> Array:
    """Whether any record is at each of some places."""
    present = np.zeros(count, dtype=np.bool_)
    present[places] = True
    return present


def order_of(values: Sequence[Any]) -> tuple[list[int], Array]:
    """The positions of values in ascending order, and by position the rank of each value."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return order, ranks_of(order)


def ranks_of(order: Sequence[int] | Array) -> Array:
    """The rank of each position, given the positions in order."""
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def none_if_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def by_key(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """The values of each key, in their order."""
    values_of = defaultdict(list)
    for key, value in pairs:
        values_of[key].append(value)
    return values_of
