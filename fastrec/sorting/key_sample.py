"""The sample of keys that cuts the corpus into parts: a set chosen by the keys' own hashes, and never larger than so.

A record is sampled if the hash of its key is low enough. When more distinct ones come than are to be kept, the bar is
halved and all above it are dropped. So what is left in the end is all that is below the highest bar under which no more
than `SAMPLE_LIMIT` lie: it depends on what came, not on when, where or how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fastrec.sorting.files import read_index
from fastrec.storage.digests import fingerprint

__all__ = ["SAMPLE_LIMIT", "SAMPLE_ONE_IN", "KeySample", "SampledKey", "sample_again", "sample_of"]

SAMPLE_ONE_IN: Final = 32
"""Of the keys, this fraction is sampled to begin with."""
SAMPLE_LIMIT: Final = 1 << 19
"""So many are kept at most, in 160 MB: at least 4 to a part, if there are as many parts as may be."""


class SampledKey(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A record that was sampled: its key and its size."""

    key: bytes
    size: int


class KeySample:
    """What is sampled of all runs."""

    def __init__(self) -> None:
        self.one_in = SAMPLE_ONE_IN
        """The fraction of keys that is sampled by now."""
        self.kept: set[SampledKey] = set()

    def add(self, sampled: Iterable[SampledKey]) -> None:
        """Take what a run was sampled for, with this or an earlier, larger fraction."""
        bar = 2**64 // self.one_in
        self.kept.update(one for one in sampled if fingerprint(one.key) < bar)
        while len(self.kept) > SAMPLE_LIMIT:
            self.one_in *= 2
            bar = 2**64 // self.one_in
            self.kept = {one for one in self.kept if fingerprint(one.key) < bar}


def sample_of(keys: Sequence[bytes], sizes: Iterable[int], one_in: int) -> list[SampledKey]:
    """Sample some records."""
    bar = 2**64 // one_in
    return [SampledKey(key, size) for key, size in zip(keys, sizes, strict=True) if fingerprint(key) < bar]


def sample_again(path: str, index_bytes: int, one_in: int) -> list[SampledKey]:
    """Sample a run that is on disk."""
    sampled: list[SampledKey] = []
    for keys, sizes, _ in read_index(path, 0, index_bytes):
        sampled += sample_of(keys, sizes, one_in)
    return sampled
