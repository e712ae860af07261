"""The sample of keys that decides where the corpus is cut into parts. It depends on the set of keys alone.

A key is sampled if its hash is below a threshold. When the sample holds too many distinct keys, the threshold is halved
and all keys above it are dropped. So the final sample does not depend on where, when or how often a key was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fastrec.limits import LIMITS, Limits
from fastrec.sorting.files import read_blocks
from fastrec.storage.digests import fingerprint

__all__ = ["KeySample", "SampledKey", "cut_keys", "sample_index", "sample_of"]


class SampledKey(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The key of a sampled record, and the size of the record."""

    key: bytes
    size: int


class KeySample:
    """The sample of all runs."""

    def __init__(self, limits: Limits) -> None:
        self.one_in = limits.sample_one_in
        """The current sampling rate: one key in this many."""
        self.keys: set[SampledKey] = set()
        self._most = limits.sampled_keys

    def add(self, sampled: Iterable[SampledKey]) -> None:
        """Add the sample of a run, taken at this or an earlier, higher rate."""
        self.keys.update(_below(sampled, self.one_in))
        while len(self.keys) > self._most:
            self.one_in *= 2
            self.keys = set(_below(self.keys, self.one_in))


def _below(sampled: Iterable[SampledKey], one_in: int) -> Iterable[SampledKey]:
    threshold = 2**64 // one_in
    return (one for one in sampled if fingerprint(one.key) < threshold)


def sample_of(keys: Sequence[bytes], sizes: Iterable[int], one_in: int) -> list[SampledKey]:
    """Sample some records."""
    threshold = 2**64 // one_in
    return [SampledKey(key, size) for key, size in zip(keys, sizes, strict=True) if fingerprint(key) < threshold]


def sample_index(path: str, index_bytes: int, one_in: int) -> list[SampledKey]:
    """Sample the records of a run on disk, given the path of its index."""
    blocks = read_blocks(path, index_bytes)
    return [sampled for keys, sizes, _ in blocks for sampled in sample_of(keys, sizes, one_in)]


def cut_keys(
    sample: Iterable[SampledKey], one_in: int, part_bytes: int, most_parts: int = LIMITS.most_parts
) -> list[bytes]:
    """Cut the corpus into parts of about `part_bytes`: return the first key of each part but the first.

    Equal keys of equal size are duplicates and count once. Parts are larger if there would be more than `most_parts`.
    """
    distinct = sorted(set(sample))
    total = sum(sampled.size for sampled in distinct) * one_in
    parts = min(-(-total // part_bytes), most_parts)  # rounded up: two workers share what is too large for one part
    cuts: list[bytes] = []
    seen, part = 0, 0
    for sampled in distinct:
        reached = min(seen * one_in * parts // total, parts - 1)
        if reached > part:
            cuts.append(sampled.key)
            part = reached
        seen += sampled.size
    return list(dict.fromkeys(cuts))
