r"""Borders between questions: the places where the corpus may be cut into parts.

A question is an `evaluation_name` and a `sample_hash`. Its *prefix* is the beginning of its records' keys up to the end
of the later one of these fields. A *border* is such a prefix and the size of the records that have it. In the default
sort order, these are all records of the question; if other fields come first, a question has several borders.

The records of a border are adjacent, and their keys are exactly those from `prefix` up to `prefix + FF`:

- A key in this range begins with the prefix, and the next byte, if any, is not FF. So the prefix ends with an end mark
  in this key, too, and not with the first half of an escaped NUL. The fields up to there are the same.
- Conversely, no field begins with FF, so a key with these fields is in the range.

A longer string may have the same prefix in bytes: `b\0…` is encoded as `b 00 FF …`. It sorts after the range.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.keys import field_end
from fastrec.storage.digests import FileDigest

__all__ = ["END", "Border", "BorderSizes", "prefix_maker", "read_borders", "write_borders"]

Border = tuple[bytes, int]
"""A prefix, and the size of all records that have it."""

END: Final = b"\xff"
"""A prefix followed by this is greater than all keys with the prefix, and not greater than any key after those."""

_STRING: Final = rb"[^\0]*(?:\0\xff[^\0]*)*\0"  # a field besides sample_id
_BLOCK: Final = 4_096  # borders per block of a file


def prefix_maker(fields: Sequence[str]) -> Callable[[bytes], bytes]:
    """Return a function that cuts off what comes after some leading fields of a key."""
    if "sample_id" not in fields:
        match = re.compile(b"(?:%s){%d}" % (_STRING, len(fields))).match
        return lambda key: match(key)[0]  # type: ignore[index]  # every key has these fields

    def prefix(key: bytes) -> bytes:
        end = 0
        for field in fields:
            end = field_end(key, end, field)
        return key[:end]

    return prefix


class BorderSizes:
    """Adds up the sizes of records by border."""

    def __init__(self, sort_fields: Sequence[str]) -> None:
        order = list(sort_fields)
        last = max(order.index("evaluation_name"), order.index("sample_hash"))
        self._prefix = prefix_maker(order[: last + 1])
        self._borders: list[Border] = []
        self._current = b""
        self._end = b""  # no key is less than this, so the first one begins a border
        self._size = 0

    def add(self, keys: Sequence[bytes], sizes: Sequence[int]) -> None:
        """Add records in order of their keys, which are not less than those added before."""
        first = 0
        while first < len(keys):
            if keys[first] >= self._end:
                self._close()
                self._current = self._prefix(keys[first])
                self._end = self._current + END
            end = bisect_left(keys, self._end, first)
            self._size += sum(sizes[first:end])
            first = end

    def finish(self) -> list[Border]:
        """Return all borders in order."""
        self._close()
        self._end, self._size = b"", 0
        borders, self._borders = self._borders, []
        return borders

    def _close(self) -> None:
        if self._end:
            self._borders.append((self._current, self._size))
        self._size = 0


def write_borders(path: str, borders: Iterable[Border]) -> FileDigest:
    """Write borders to a file of the work directory."""
    return FileDigest(path, *write_blocks(path, _blocks(borders), compressed=True))


def _blocks(borders: Iterable[Border]) -> Iterator[tuple[list[bytes], list[int]]]:
    left = iter(borders)
    while block := list(islice(left, _BLOCK)):
        yield [prefix for prefix, _ in block], [size for _, size in block]


def read_borders(path: str) -> Iterator[Border]:
    """Read what `write_borders` wrote."""
    for prefixes, sizes in read_blocks(path):
        yield from zip(prefixes, sizes, strict=True)
