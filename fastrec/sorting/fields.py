"""The fields of many keys, as columns: what statistics are grouped by.

All answers to a question are adjacent. Their keys have the same beginning, nearly always the same sample_id, and
in the middle the model and the evaluation_id, which come again with the next question:

    evaluation_name 00 sample_hash 00 | model_id 00 evaluation_id 00 | 03 sample_id 00
    prefix                              middle                         suffix

So all keys of a question are joined and compared with those of the question before, or split at `suffix + prefix`.
This takes a fifth of the time of splitting each key, and equal fields are one object, which is hashed once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise
from operator import ne
from typing import Final, Self

import msgspec

from fastrec.sorting.cuts import END
from fastrec.sorting.keys import FIELDS, METRIC_FIELDS, key_splitter

_FEW: Final = 8  # keys of a question that are not worth it
_MOST_KNOWN: Final = 1 << 14


class KeyColumns(msgspec.Struct):
    """The encoded fields of several keys, as `key_splitter` returns them."""

    scopes: list[bytes] = msgspec.field(default_factory=list)
    hashes: list[bytes] = msgspec.field(default_factory=list)
    models: list[bytes] = msgspec.field(default_factory=list)
    evaluation_ids: list[bytes] = msgspec.field(default_factory=list)
    sample_ids: list[bytes] = msgspec.field(default_factory=list)
    ends: list[int] = msgspec.field(default_factory=list)
    """Where each group ends: keys in a row with the same scope, sample_hash and sample_id."""

    @classmethod
    def of(cls, fields: Iterable[Sequence[bytes]]) -> Self:
        columns = list(map(list, zip(*fields, strict=True)))
        return cls.grouped(*columns) if columns else cls()

    @classmethod
    def grouped(
        cls,
        scopes: list[bytes],
        hashes: list[bytes],
        models: list[bytes],
        evaluation_ids: list[bytes],
        sample_ids: list[bytes],
    ) -> Self:
        groups = list(zip(hashes, sample_ids, scopes, strict=True))
        ends = compress(range(1, len(groups)), map(ne, groups, islice(groups, 1, None)))
        return cls(scopes, hashes, models, evaluation_ids, sample_ids, [*ends, len(groups)])

    def add_group(
        self, scope: bytes, sample_hash: bytes, models: Sequence[bytes], evaluation_ids: Sequence[bytes], id_: bytes
    ) -> None:
        count = len(models)
        self.scopes += [scope] * count
        self.hashes += [sample_hash] * count
        self.models += models
        self.evaluation_ids += evaluation_ids
        self.sample_ids += [id_] * count
        self.ends.append(len(self.scopes))

    def __len__(self) -> int:
        return len(self.scopes)

    def __iadd__(self, other: Self) -> Self:
        before = len(self.scopes)
        self.scopes += other.scopes
        self.hashes += other.hashes
        self.models += other.models
        self.evaluation_ids += other.evaluation_ids
        self.sample_ids += other.sample_ids
        self.ends += [before + end for end in other.ends]
        return self

    def groups(self) -> Iterator[tuple[int, int]]:
        return pairwise([0, *self.ends])


def column_splitter(order: Sequence[str] = FIELDS) -> Callable[[Sequence[bytes]], KeyColumns]:
    split = key_splitter(order)
    if tuple(order) in {FIELDS, METRIC_FIELDS}:
        return _Splitter(split, len(order)).split
    return lambda keys: KeyColumns.of(map(split, keys))


class _Splitter:
    """Splits sorted keys that begin with evaluation_name, sample_hash, model_id and evaluation_id."""

    def __init__(self, split: Callable[[bytes], Sequence[bytes]], width: int) -> None:
        self._split = split
        self._width = width  # fields of a key
        self._known: dict[bytes, tuple[bytes, bytes]] = {}  # by middle of a key: model_id and evaluation_id
        self._last: list[bytes] = []  # the middles of the last question
        self._models: Sequence[bytes] = ()
        self._evaluation_ids: Sequence[bytes] = ()

    def split(self, keys: Sequence[bytes]) -> KeyColumns:
        columns = KeyColumns()
        plain = 0  # where the keys begin that were not split yet
        first, count = 0, len(keys)
        while first + _FEW < count:
            name, sample_hash, _ = keys[first].split(b"\0", 2)
            if sample_hash in keys[first + _FEW] and b"\0\xff" not in keys[first]:
                size = len(name) + len(sample_hash) + 2
                end = bisect_left(keys, keys[first][:size] + END, first)
                fields = self._split(keys[first])
                if self._find_runs(keys[first:end], size, fields):
                    if plain < first:
                        columns += self._split_plainly(keys[plain:first])
                    columns.add_group(fields[0], fields[1], self._models, self._evaluation_ids, fields[4])
                    plain = end
                first = end
            else:
                first += _FEW
        if plain < count:
            columns += self._split_plainly(keys[plain:])
        return columns

    def _split_plainly(self, keys: Sequence[bytes]) -> KeyColumns:
        """Split keys at all NULs at once, if these are end marks; else one by one."""
        joined, width = b"".join(keys), self._width
        fields = joined.split(b"\0")
        sample_ids = fields[4::width]
        # All but integers and escaped NULs: up to the first key with one of those, every field is where it should be.
        if b"\0\xff" in joined or len(fields) != width * len(keys) + 1 or min(sample_ids) < b"\3":
            return KeyColumns.of(map(self._split, keys))
        scopes, hashes, models, evaluation_ids = (fields[at:-1:width] for at in range(4))
        if width > len(FIELDS):
            metrics = fields[5::width]
            scopes = [b"%b\0%b" % both if both[1] else both[0] for both in zip(scopes, metrics, strict=True)]
        return KeyColumns.grouped(scopes, hashes, models, evaluation_ids, [id_ + b"\0" for id_ in sample_ids])

    def _find_runs(self, keys: Sequence[bytes], size: int, fields: Sequence[bytes]) -> bool:
        """Find model_id and evaluation_id of all keys of a question; return whether they have the same suffix.

        `size` is that of the prefix that they share, and `fields` are those of the first key.
        """
        middle_end = size + len(fields[2]) + len(fields[3]) + 2
        prefix, suffix = keys[0][:size], keys[0][middle_end:]
        if keys[1:2] and keys[1].startswith(keys[0][:middle_end]):  # several metrics or several sample_ids
            return False
        joined = b"".join(keys)
        # Fields are self-delimiting, so joined keys can be read in one way only: if these are the bytes, these are the
        # keys. Usually the same models have answered all questions. This takes a sixth of the time of what follows.
        if len(keys) == len(self._last) and joined == prefix + (suffix + prefix).join(self._last) + suffix:
            return True
        middles = joined[size : -len(suffix)].split(suffix + prefix)
        if len(middles) != len(keys) or not joined.endswith(suffix) or not self._learn(middles):
            return False
        self._last = middles
        self._models, self._evaluation_ids = zip(*[self._known[middle] for middle in middles], strict=True)
        return True

    def _learn(self, middles: Sequence[bytes]) -> bool:
        """Make sure that all middles are known; return whether each of them is two fields."""
        known = self._known
        if len(known) > _MOST_KNOWN:
            known.clear()
        for middle in middles:
            if middle not in known:
                fields = middle.split(b"\0")
                if len(fields) != 3 or fields[2] or b"\0\xff" in middle:
                    return False
                known[middle] = fields[0], fields[1]
        return True
