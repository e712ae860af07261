"""Leave out records of a part: what `--same-run`, `--conflicts` and `--repeats` do, in this order.

    records of a window ──▶ equal but for the run: duplicates ──▶ contradictions ──▶ repeats ──▶ kept

Records with equal keys are adjacent, so a part resolves them by itself. What depends on other keys, which may be in
other parts, is known only after all parts were counted. Then the parts with losers are made again (`parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise

from fastrec.corpus.rejects import RejectedLine, RejectsWriter, rejected_line
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.locations import Locations, names_hash, read_locations
from fastrec.normalize.options import Choice
from fastrec.sorting.gather import Window
from fastrec.sorting.spill import Sources
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.contradictions import Contradictions
from fastrec.summary.rows import Column
from fastrec.summary.same_run import body_digest

__all__ = ["Resolver", "SameRunFilter", "select", "sources_of"]

_MESSAGES = {
    "conflict": "expected one verdict on this output, found others",
    "repeat": "expected one record of this identity, found others that differ",
}


def select(window: Window, records: Sequence[int]) -> Window:
    """Return some records of a window, given by position in ascending order."""
    if len(records) == len(window.keys):
        return window
    keys, copies = [window.keys[index] for index in records], window.copies
    groups: list[tuple[int, int]] = []
    if window.groups:
        ends = [*accumulate(len(list(group)) for _, group in groupby(keys))]
        groups = [(first, end) for first, end in pairwise([0, *ends]) if end - first > 1]
    return Window(
        keys=keys,
        rows=[window.rows[index] for index in records],
        texts=[window.texts[index] for index in records],
        prints=[window.prints[index] for index in records],
        copies={new: copies[index] for new, index in enumerate(records) if index in copies} if copies else {},
        groups=groups,
    )


def sources_of(window: Window, index: int) -> Sources:
    """Return where a record of a window and its copies come from."""
    row = window.rows[index]
    return window.copies.get(index) or ((row[Column.SOURCE], row[Column.LINE], 1),)


class SameRunFilter:
    """Drops records of a part that are equal to others but for their run and their label.

    `losers` are the keys and digests of records that lose against records of other keys.
    """

    def __init__(self, losers: Iterable[tuple[bytes, bytes]]) -> None:
        self._losers = frozenset(losers)
        self.bodies: list[tuple[bytes, bytes]] = []  # the digest of each record's body, and its key

    def filter(self, window: Window) -> list[int]:
        """Return the positions of the records of a window that stay; the others are duplicates."""
        kept: list[int] = []
        last, seen = b"", set[bytes]()
        for index, (key, text) in enumerate(zip(window.keys, window.texts, strict=True)):
            digest = body_digest(text)
            self.bodies.append((digest, key))
            if key != last:
                last, seen = key, set()
            if digest not in seen and (key, digest) not in self._losers:
                seen.add(digest)
                kept.append(index)
        return kept


class Resolver:
    """Leaves out contradictions and repeats of a part, and collects them.

    `losers` are the keys whose records are left out because another key has the same identity. The file `locations` has
    by number of a piece its position in the order of all pieces, the name of its source, and the number of lines before
    it.
    """

    def __init__(self, conflicts: Choice, repeats: Choice, losers: Iterable[bytes], locations: str) -> None:
        self._conflicts = conflicts
        self._repeats = repeats
        self._losers = frozenset(losers)
        self._locations_path = locations
        self._locations: Locations = {}
        self._left_out: list[RejectedLine] = []
        self.by_piece: Counter[int] = Counter()  # records left out, by piece
        self.duplicates: Counter[int] = Counter()  # copies of these records, by piece

    @property
    def by_code(self) -> Counter[str]:
        """Records left out, by code."""
        return Counter(record.code for record in self._left_out)

    def resolve(self, window: Window, contradictions: Contradictions) -> list[int]:
        """Return the positions of the records of a window to keep."""
        keys = window.keys
        kept: list[int] = []
        if not window.groups and self._losers.isdisjoint(keys):
            return list(range(len(keys)))
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
        return kept

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
            self._locations = self._locations or read_locations(self._locations_path)
            sources = sources_of(window, index)
            for number, _, count in sources:
                self.duplicates[number] += count
            number, line, _ = min(sources, key=lambda source: self._locations[source[0]][0])
            self.duplicates[number] -= 1
            self.by_piece[number] += 1
            _, name, base = self._locations[number]
            raw = bytes(window.texts[index]).removesuffix(b"\n")
            finding = Finding(code, "$", _MESSAGES[kind])
            self._left_out.append(rejected_line(name, InvalidLine(line + base, None, (finding,), raw)))

    def names_hash(self, pieces: Iterable[int]) -> str:
        """Return a fingerprint of where the pieces of the part are, if records were left out."""
        return names_hash(self._locations, pieces) if self._left_out else ""

    def write(self, path: str) -> FileDigest:
        """Write the records left out, sorted by source and line."""
        self._left_out.sort(key=lambda record: (record.source, record.line))
        with RejectsWriter(path) as file:
            for record in self._left_out:
                file.write(record.to_json())
            file.end_range()
        return digest_of(path)
