"""Leave out records of a part: what `--same-run`, `--conflicts` and `--repeats` do, in this order.

    records of a window ──▶ equal but for the run: duplicates ──▶ contradictions ──▶ repeats ──▶ kept

Records with equal keys are adjacent, so a part resolves them by itself. What depends on other keys, which may be in
other parts, is known only after all parts were counted. Then the parts with losers are made again (`parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from fastrec.corpus.rejects import RejectedLine, rejected_line
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.options import Choice
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import Window
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.contradictions import Contradictions
from fastrec.summary.rows import Column
from fastrec.summary.same_run import body_digest

__all__ = ["Resolver", "SameRunFilter"]

_MESSAGES = {
    "conflict": "expected one verdict on this output, found others",
    "repeat": "expected one record of this identity, found others that differ",
}


class SameRunFilter:
    """Drops records of a part that are equal to others but for their run and their label.

    `losers` are the keys and digests of records that lose against records of other keys.
    """

    def __init__(self, losers: Iterable[tuple[bytes, bytes]]) -> None:
        self._losers = frozenset(losers)
        self.bodies: list[tuple[bytes, bytes]] = []  # the digest of each record's body, and its key

    def filter(self, window: Window, copies: Counter[int]) -> Window:
        """Return the records of a window that stay, and count the others as duplicates of their piece of input."""
        kept = Window([], [], [], [], [])
        last, seen = b"", set[bytes]()
        for key, row, text in zip(window.keys, window.rows, window.texts, strict=True):
            digest = body_digest(text)
            self.bodies.append((digest, key))
            if key != last:
                last, seen = key, set()
            if digest in seen or (key, digest) in self._losers:
                copies[row[Column.SOURCE]] += 1
                continue
            seen.add(digest)
            kept.keys.append(key)
            kept.rows.append(row)
            kept.texts.append(text)
        if window.groups:
            ends = [*accumulate(len(list(group)) for _, group in groupby(kept.keys))]
            kept.groups = [(first, end) for first, end in pairwise([0, *ends]) if end - first > 1]
        return kept


class Resolver:
    """Leaves out contradictions and repeats of a part, and collects them.

    `losers` are the keys whose records are left out because another key has the same identity. The file `locations` has
    the name of the source of each piece, and the number of lines before it.
    """

    def __init__(self, conflicts: Choice, repeats: Choice, losers: Iterable[bytes], locations: str) -> None:
        self._conflicts = conflicts
        self._repeats = repeats
        self._losers = frozenset(losers)
        self._locations_path = locations
        self._locations: dict[int, tuple[str, int]] = {}
        self._left_out: list[RejectedLine] = []
        self.by_piece: Counter[int] = Counter()  # records left out, by piece

    @property
    def by_code(self) -> Counter[str]:
        """Records left out, by code."""
        return Counter(record.code for record in self._left_out)

    def resolve(self, window: Window, contradictions: Contradictions) -> Window:
        """Return the records of a window to keep."""
        keys, rows, texts = window.keys, window.rows, window.texts
        kept: list[int] = []
        if not window.groups and self._losers.isdisjoint(keys):
            return window
        for key, group in groupby(range(len(keys)), key=keys.__getitem__):
            records = list(group)
            if len(records) == 1 and key not in self._losers:
                kept += records
                continue
            numbers = contradictions.get(key) or [None] * len(records)
            units = self._units(records, numbers, window)
            if self._repeats == "keep":
                stay = len(units)
            elif key in self._losers:
                stay = 0
            else:
                stay = int(self._repeats == "first" or len(units) == 1)
            kept += sorted(index for unit in units[:stay] for index in unit)
            self._leave_out("repeat", self._repeats, [index for unit in units[stay:] for index in unit], window)
        if len(kept) == len(keys):
            return window
        return Window(
            [keys[index] for index in kept],
            [rows[index] for index in kept],
            [texts[index] for index in kept],
            window.copies,
            [],
        )

    def _units(self, records: Sequence[int], numbers: Sequence[int | None], window: Window) -> list[list[int]]:
        """Resolve the contradictions of a key, and return what are repeats of each other.

        A record that contradicts no other is a unit. A contradiction is one too, unless it is left out.
        """
        units: list[list[int]] = []
        unit_of: dict[int, list[int]] = {}
        left_out = []
        for index, number in zip(records, numbers, strict=True):
            if number is None:
                units.append([index])
            elif number not in unit_of and self._conflicts != "reject":
                unit_of[number] = [index]
                units.append(unit_of[number])
            elif self._conflicts == "keep":
                unit_of[number].append(index)
            else:
                left_out.append(index)
        self._leave_out("conflict", self._conflicts, left_out, window)
        return units

    def _leave_out(self, kind: str, choice: Choice, records: Iterable[int], window: Window) -> None:
        code = f"{kind}.not_first" if choice == "first" else f"{kind}.rejected"
        for index in records:
            row: Sequence[Any] = window.rows[index]
            self._locations = self._locations or next(read_blocks(self._locations_path))
            source, base = self._locations[row[Column.SOURCE]]
            self.by_piece[row[Column.SOURCE]] += 1
            raw = bytes(window.texts[index]).removesuffix(b"\n")
            finding = Finding(code, "$", _MESSAGES[kind])
            self._left_out.append(rejected_line(source, InvalidLine(row[Column.LINE] + base, None, (finding,), raw)))

    def write(self, path: str) -> FileDigest:
        """Write the records left out, sorted by source and line."""
        self._left_out.sort(key=lambda record: (record.source, record.line))
        with storage_of(path).create(path, for_work=True) as file:
            for record in self._left_out:
                file.write(record.to_json())
        return digest_of(path)
