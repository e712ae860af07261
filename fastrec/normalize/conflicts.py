"""Resolve conflicts within a part: leave out records that share their identity with another, as `--conflicts` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

import msgspec

from fastrec.corpus.rejects import RejectedLine, rejected_record
from fastrec.judge.findings import Finding
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.gather import Window
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.rows import Column

__all__ = ["ConflictResolver", "PieceLocation", "write_locations"]


class PieceLocation(msgspec.Struct, frozen=True, array_like=True):
    """Where a piece lies: the name of its source, and the number of lines before it."""

    source: str
    line_base: int


def write_locations(path: str, locations: dict[int, PieceLocation]) -> None:
    """Write the locations of all pieces."""
    write_blocks(path, [list(locations.items())])


def _read_locations(path: str) -> dict[int, PieceLocation]:
    return {number: PieceLocation(*location) for number, location in next(read_blocks(path))}


class ConflictResolver:
    """Leaves out records of a part, and collects them.

    Records with equal keys are adjacent. Records of one identity with different hashes have different keys and may be
    in different parts; the census finds them, and their keys are given here.
    """

    def __init__(self, mode: Literal["first", "reject"], losers: frozenset[bytes], locations: str) -> None:
        self._mode = mode
        self._losers = losers
        self._locations_path = locations
        self._locations: dict[int, PieceLocation] = {}
        self._left_out: list[RejectedLine] = []
        self.by_piece: Counter[int] = Counter()
        """Records left out, by piece."""

    @property
    def by_code(self) -> Counter[str]:
        """Records left out, by code."""
        return Counter(record.code for record in self._left_out)

    def resolve(self, window: Window) -> Window:
        """Return the records to keep."""
        kept = Window([], [], [], window.copies)
        records = zip(window.keys, window.rows, window.texts, strict=True)
        for key, group in groupby(records, key=lambda record: record[0]):
            same = list(group)
            stay = 1 if len(same) == 1 or self._mode == "first" else 0
            if key in self._losers:
                stay = 0
            for _, row, text in same[:stay]:
                kept.keys.append(key)
                kept.rows.append(row)
                kept.texts.append(text)
            for _, row, text in same[stay:]:
                self._leave_out(row, bytes(text))
        return kept

    def _leave_out(self, row: Sequence[Any], text: bytes) -> None:
        self._locations = self._locations or _read_locations(self._locations_path)
        location = self._locations[row[Column.SOURCE]]
        self.by_piece[row[Column.SOURCE]] += 1
        code = "conflict.not_first" if self._mode == "first" else "conflict.rejected"
        finding = Finding(code, "$", "expected one record of this identity, found others that differ")
        self._left_out.append(rejected_record(location.source, row[Column.LINE] + location.line_base, finding, text))

    def write(self, path: str) -> FileDigest:
        """Write the records left out, sorted by source and line."""
        self._left_out.sort(key=lambda record: (record.source, record.line))
        with storage_of(path).create(path, for_work=True) as file:
            for record in self._left_out:
                file.write(record.to_json())
        return digest_of(path)
