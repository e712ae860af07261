"""Find questions whose texts are nearly the same: most of their runs of three words are.

A signature stands for the set of hashes of these runs (MinHash): the share of places where two
signatures agree is about the share of runs that both texts have. Only texts that agree in a whole
band of places are compared in full.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

SIMILAR = 0.8  # the least share of common runs of words
_RUN = 3  # words
_BANDS = 16
_PLACES = 4  # of a band
_MOST_ALIKE = 50  # texts of a band that are all compared; others only with those next to them
_WORD = re.compile(r"\w+")

Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def near_duplicates(texts: Sequence[str]) -> dict[int, list[int]]:
    """For each text with near duplicates, their positions, in ascending order."""
    random = np.random.default_rng(0)
    factors = random.integers(1, 1 << 62, _BANDS * _PLACES, dtype=np.uint64) | np.uint64(1)
    runs = [_runs(text) for text in texts]
    bands = defaultdict(list)
    for number, hashes in enumerate(runs):
        if not len(hashes):
            continue
        signature = np.multiply.outer(factors, hashes).min(axis=1)
        for band, places in enumerate(signature.reshape(_BANDS, _PLACES)):
            bands[band, places.tobytes()].append(number)
    pairs = set[tuple[int, int]]()
    for alike in bands.values():
        pairs.update(combinations(alike[:_MOST_ALIKE], 2))
        pairs.update(pairwise(alike))
    duplicates = defaultdict(list)
    for first, second in sorted(pairs):
        if _similarity(runs[first], runs[second]) >= SIMILAR:
            duplicates[first].append(second)
            duplicates[second].append(first)
    return {number: sorted(others) for number, others in duplicates.items()}


def _runs(text: str) -> Hashes:
    """The distinct hashes of all runs of words; of a short text, that of all its words."""
    words = _WORD.findall(text.casefold())
    count = max(len(words) - _RUN + 1, bool(words))
    spelled = (" ".join(words[at : at + _RUN]) for at in range(count))
    hashes = {xxh3_64_intdigest(run.encode(errors="surrogatepass")) for run in spelled}
    return np.array(sorted(hashes), dtype=np.uint64)


def _similarity(first: Hashes, second: Hashes) -> float:
    """The share of common elements among all (Jaccard)."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    return common / (len(first) + len(second) - common)
