"""Steps of a part that leave out records, as `--same-run`, `--conflicts` and `--repeats` say.

    records of a window ──▶ equal but for the run: duplicates ──▶ contradictions ──▶ repeats ──▶
    kept

Records with equal keys are adjacent, so a part resolves them by itself. What depends on other keys,
which may be in other parts, is known only after all parts were counted. Then the parts with
superseded records are made again (`parts`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, groupby

from msgspec.structs import replace

from fastrec.corpus.rejects import RejectedLine, RejectsWriter, rejected_line
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.part_sources import Locations, names_hash, read_locations
from fastrec.normalize.part_steps import PartFacts, PartTask, Selection, Step, with_file
from fastrec.normalize.results import Part
from fastrec.normalize.task_settings import Choice
from fastrec.sorting.gather import Window
from fastrec.sorting.keys import KeyColumns, column_splitter, key_splitter
from fastrec.sorting.runs import Origins
from fastrec.storage import digest_of
from fastrec.summary.rows import Column
from fastrec.summary.same_run import (
    body_digest,
    find_contradictions,
    superseded_in,
    write_bodies,
)

_MESSAGES = {
    "conflict": "expected one verdict on this output, found others",
    "repeat": "expected one record of this identity, found others that differ",
}


class SameRunFilter(Step):
    """Drops records of a part that are equal to others but for their run and their label."""

    def __init__(self, task: PartTask, facts: PartFacts) -> None:
        self._task = task
        self._superseded = frozenset(superseded_in(task.superseded.runs, task.low, task.high))
        self._bodies: list[tuple[bytes, bytes]] = []  # the digest of each body, and its key
        self._duplicates = facts.lines.duplicates

    def add(self, records: Selection) -> None:
        window = records.window
        kept = []
        last = b""
        seen = set[bytes]()
        for index, (key, text) in enumerate(zip(window.keys, window.texts, strict=True)):
            digest = body_digest(text)
            self._bodies.append((digest, key))
            if key != last:
                last = key
                seen = set()
            if digest not in seen and (key, digest) not in self._superseded:
                seen.add(digest)
                kept.append(index)
        records.keep(kept)
        for index in records.others():
            for number, _, count in origins_of(window, index):
                self._duplicates[number] += count

    def complete(self, part: Part) -> Part:
        prefix = self._task.statistics_prefix
        compressed = self._task.settings.incremental
        return with_file(part, write_bodies(prefix, self._bodies, compressed=compressed))


class ContradictionFinder(Step):
    """Finds contradictions in each window, and collects them."""

    def __init__(self, task: PartTask, facts: PartFacts) -> None:
        self._split = key_splitter(task.sort_fields)
        self._facts = facts

    def add(self, records: Selection) -> None:
        window = records.window
        records.contradictions = find_contradictions(window.keys, window.texts, window.groups)
        for key, numbers in records.contradictions.items():
            self._facts.contradictions[tuple(self._split(key))] = numbers


class Resolver(Step):
    """Leaves out contradictions and repeats of a part, and collects them."""

    def __init__(self, task: PartTask, facts: PartFacts) -> None:
        superseded = superseded_in(task.superseded.keys, task.low, task.high)
        self._task = task
        self._facts = facts
        self._split = column_splitter(task.sort_fields)
        self._seen = KeyColumns()
        self._superseded = frozenset(key for key, _ in superseded)
        self._locations: Locations = {}
        self._left_out: list[RejectedLine] = []
        self._by_piece = Counter[int]()  # records left out, by piece
        self._duplicates = Counter[int]()  # copies of these records, by piece

    def add(self, records: Selection) -> None:
        window = records.window
        self._seen += self._split(window.keys)
        keys = window.keys
        if not window.groups and self._superseded.isdisjoint(keys):
            return
        kept = []
        repeats = self._task.settings.repeats
        for key, group in groupby(range(len(keys)), key=keys.__getitem__):
            same_key = list(group)
            if len(same_key) == 1 and key not in self._superseded:
                kept += same_key
                continue
            numbers = records.contradictions.get(key) or [None] * len(same_key)
            units = self._units(same_key, numbers, window)
            if repeats == "keep":
                stay = len(units)
            elif key in self._superseded:
                stay = 0
            else:
                stay = int(repeats == "first" or len(units) == 1)
            kept += sorted(chain.from_iterable(units[:stay]))
            self._leave_out("repeat", repeats, chain.from_iterable(units[stay:]), window)
        records.keep(kept)

    def end(self) -> None:
        lines = self._facts.lines
        lines.left_out = self._by_piece
        lines.duplicates.update(self._duplicates)
        self._facts.seen = self._seen

    def complete(self, part: Part) -> Part:
        self._left_out.sort(key=lambda record: (record.source, record.line))
        path = f"{self._task.statistics_prefix}-left-out"
        with RejectsWriter(path) as file:
            for record in self._left_out:
                file.add(record.to_json())
            file.end_range()
        names = ""
        if self._left_out:
            names = names_hash(self._locations, self._facts.lines.pieces())
        codes = Counter(record.code for record in self._left_out)
        return replace(with_file(part, digest_of(path)), left_out=codes, names=names)

    def _units(
        self, records: Sequence[int], numbers: Sequence[int | None], window: Window
    ) -> list[list[int]]:
        """Resolve the contradictions of a key, and return what are repeats of each other.

        A record that contradicts no other is a unit. A contradiction is one too, unless it is left
        out.
        """
        units = []
        unit_of = {}
        left_out = []
        conflicts = self._task.settings.conflicts
        for index, number in zip(records, numbers, strict=True):
            if number is None:
                units.append([index])
            elif number not in unit_of and conflicts != "reject":
                unit_of[number] = [index]
                units.append(unit_of[number])
            elif conflicts == "keep":
                unit_of[number].append(index)
            else:
                left_out.append(index)
        self._leave_out("conflict", conflicts, left_out, window)
        return units

    def _leave_out(self, kind: str, choice: Choice, records: Iterable[int], window: Window) -> None:
        code = f"{kind}.not_first" if choice == "first" else f"{kind}.rejected"
        for index in records:
            self._locations = self._locations or read_locations(self._task.locations)
            sources = origins_of(window, index)
            for number, _, count in sources:
                self._duplicates[number] += count
            number, line, _ = min(sources, key=lambda source: self._locations[source[0]][0])
            self._duplicates[number] -= 1
            self._by_piece[number] += 1
            _, name, base = self._locations[number]
            raw = bytes(window.texts[index]).removesuffix(b"\n")
            finding = Finding(code, "$", _MESSAGES[kind])
            self._left_out.append(
                rejected_line(name, InvalidLine(line + base, None, (finding,), raw))
            )


def origins_of(window: Window, index: int) -> Origins:
    row = window.rows[index]
    return window.origins[index] or ((row[Column.SOURCE], row[Column.LINE], 1),)
