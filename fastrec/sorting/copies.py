"""Sources of records: where each copy of a record comes from.

A record with one copy has its piece and line in its row. If there are several, it also has an entry in `copies`:

    copies   {position of the record: ((piece, first line in it, copies in it), …)}

Nothing is forgotten when duplicates are merged, so a record stays when one of its shards goes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

__all__ = ["Copies", "SharedSources", "Sources", "union", "without"]

Sources = tuple[tuple[int, int, int], ...]
"""Sorted by piece number: the piece, the first line with the record in it, and the number of copies in it."""

Copies = dict[int, Sources]
"""The sources of records with several copies, by position among other records."""

_MOST_SHARED: Final = 1 << 14


class SharedSources:
    """Keeps one object of equal sources, because thousands of records may have the same hundreds of sources."""

    def __init__(self) -> None:
        self._known: dict[Sources, Sources] = {}

    def share(self, sources: Sources) -> Sources:
        """Return the first of equal sources."""
        if len(self._known) >= _MOST_SHARED:
            self._known.clear()
        return self._known.setdefault(sources, sources)


def union(several: Iterable[Sources]) -> Sources:
    """Unite the sources of duplicates: of each piece the lowest line, and all its copies."""
    by_piece: dict[int, tuple[int, int, int]] = {}
    for sources in several:
        for source in sources:
            piece, line, count = source
            if known := by_piece.get(piece):
                by_piece[piece] = (piece, min(line, known[1]), count + known[2])
            else:
                by_piece[piece] = source
    return tuple(sorted(by_piece.values()))


def without(removed: Container[int], rows: Sequence[Any], copies: Copies) -> tuple[list[int], list[Any], Copies]:
    """Leave out the copies of removed pieces.

    Return the positions of the records that have other copies, their rows, and their sources by their new positions.
    """
    kept: list[int] = []
    new_rows: list[Any] = []
    new_copies: Copies = {}
    for position, row in enumerate(rows):
        sources = copies.get(position)
        if sources is None:
            if row[0] in removed:
                continue
        else:
            sources = tuple(source for source in sources if source[0] not in removed)
            if not sources:
                continue
            piece, line, count = sources[0]
            if len(sources) > 1 or count > 1:
                new_copies[len(kept)] = sources
            if row[0] != piece:
                row = [piece, line, *row[2:]]
        kept.append(position)
        new_rows.append(row)
    return kept, new_rows, new_copies
