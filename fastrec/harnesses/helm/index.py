"""Where the requests and scores of each sample are in their files, in few bytes per sample.

    scenario_state.json        r0 r1 r2 r3 …                 one or more requests per sample
    per_instance_stats.json    e0 e1 e2 … e0' e1' e2' …      an entry per sample and metric object of HELM

    slice 0:  requests r0…r1, entries e0…e1 and e0'…e1'      byte ranges of whole items
    slice 1:  requests r2…r3, …

Both files have the samples in the same order, as a rule. Then a slice has one range of requests, and one range of
entries per metric object. Any other order works, too: it only gives more ranges.
"""

from __future__ import annotations

from array import array
from typing import Final

import msgspec

__all__ = ["SLICE_BYTES", "FileIndex", "LogSlice", "SampleTable", "cut"]

SLICE_BYTES: Final = 8 << 20
"""Text of both files per slice."""

_NONE: Final = 0xFFFFFFFF


class LogSlice(msgspec.Struct, frozen=True):
    """A slice: byte ranges of whole items, as pairs of start and end."""

    requests: list[tuple[int, int]]
    entries: list[tuple[int, int]]
    labels: dict[str, str]
    """What to call each perturbation of the run, by its canonical description."""
    empty_metrics: frozenset[str]
    """Metrics that have no value in the whole run."""


class SampleTable:
    """Numbers samples by the hash of their key, in the order in which they come: 20 bytes per sample.

    A dict would need 120. The slots of a hash table hold the number of a sample plus one; 0 is a free slot.
    """

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._slots = array("I", bytes(4 << 10))

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, key: int) -> int | None:
        """Return the number of a sample, or None if it is unknown."""
        number = self._slots[self._slot(key)]
        return number - 1 if number else None

    def add(self, key: int) -> int:
        """Return the number of a sample; a new one if it is unknown."""
        slot = self._slot(key)
        if number := self._slots[slot]:
            return number - 1
        self._hashes.append(key)
        self._slots[slot] = len(self._hashes)
        if 2 * len(self._hashes) > len(self._slots):
            self._grow()
        return len(self._hashes) - 1

    def _slot(self, key: int) -> int:
        hashes, slots = self._hashes, self._slots
        mask = len(slots) - 1
        slot = key & mask
        while (number := slots[slot]) and hashes[number - 1] != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._slots = array("I", bytes(8 * len(self._slots)))
        for number, key in enumerate(self._hashes, 1):
            self._slots[self._slot(key)] = number


class FileIndex:
    """The items of a file in order: their byte ranges, and the samples that they belong to."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.sizes = array("I")
        self.samples = array("I")

    def add(self, start: int, size: int, sample: int | None) -> None:
        """Add an item, of a sample or of none."""
        self.starts.append(start)
        self.sizes.append(size)
        self.samples.append(_NONE if sample is None else sample)

    def ranges(self, slice_of: array[int], slices: int) -> list[list[tuple[int, int]]]:
        """Return the byte ranges of each slice; adjacent items share one."""
        ranges: list[list[tuple[int, int]]] = [[] for _ in range(slices)]
        before = _NONE
        for start, size, sample in zip(self.starts, self.sizes, self.samples, strict=True):
            number = _NONE if sample == _NONE else slice_of[sample]
            if number != _NONE:
                some = ranges[number]
                if number == before:
                    some[-1] = (some[-1][0], start + size)
                else:
                    some.append((start, start + size))
            before = number
        return ranges


def cut(
    samples: int, requests: FileIndex, entries: FileIndex, slice_bytes: int
) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    """Cut the samples into slices of about `slice_bytes`; return the ranges of each in both files."""
    weights = array("Q", bytes(8 * samples))
    for index in (requests, entries):
        for size, sample in zip(index.sizes, index.samples, strict=True):
            if sample != _NONE:
                weights[sample] += size
    slice_of = array("I")
    number = held = 0
    for weight in weights:
        if held and held + weight > slice_bytes:
            number, held = number + 1, 0
        held += weight
        slice_of.append(number)
    count = number + 1 if samples else 0
    return list(zip(requests.ranges(slice_of, count), entries.ranges(slice_of, count), strict=True))
