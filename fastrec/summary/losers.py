"""Losers: keys whose records are left out of a part because of records of other keys, on disk.

Losers may be as many as records, so they are sorted runs, from which each part reads its range of keys. The text of a
loser says which records of the key lose; with an empty text, all of them do.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastrec.sorting.gather import RunSlice, gather, slice_run
from fastrec.sorting.spill import Run, spill

__all__ = ["Losers", "losers_in", "slices_of"]

_MOST_HELD: Final = 1 << 17
_WINDOW_BYTES: Final = 1 << 20
_ROW: Final[Sequence[Any]] = (0, 0)  # losers have no piece and no line


class Losers:
    """Collects losers, and writes them as runs of bounded size."""

    def __init__(self, path: str, most_held: int = _MOST_HELD) -> None:
        # The random suffix keeps two workers apart if one was wrongly taken for dead.
        self._path = f"{path}-{secrets.token_hex(4)}"
        self._most_held = most_held
        self._keys: list[bytes] = []
        self._ends: list[int] = []
        self._text = bytearray()
        self._runs: list[Run] = []

    def add(self, key: bytes, text: bytes = b"") -> None:
        """Add a loser."""
        self._keys.append(key)
        self._text += text
        self._ends.append(len(self._text))
        if len(self._keys) >= self._most_held:
            self._spill()

    def finish(self) -> list[Run]:
        """Return the runs."""
        if self._keys:
            self._spill()
        return self._runs

    def _spill(self) -> None:
        path, rows = f"{self._path}-{len(self._runs):04d}", [_ROW] * len(self._keys)
        self._runs.append(spill(path, self._text, self._ends, self._keys, rows))
        self._keys, self._ends, self._text = [], [], bytearray()


def slices_of(runs: Sequence[Run], low: bytes | None, high: bytes | None) -> list[RunSlice]:
    """Find the losers in a range of keys; empty if there are none."""
    slices = [piece for run in runs if (piece := slice_run(run, low, high))]
    # The blocks at the ends of a range may have no key in it.
    return slices if next(losers_in(slices, low, high), None) else []


def losers_in(slices: Sequence[RunSlice], low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the losers in a range, as key and text."""
    for window in gather(slices, low, high, _WINDOW_BYTES):
        yield from zip(window.keys, map(bytes, window.texts), strict=True)
