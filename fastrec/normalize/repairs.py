"""Count repairs: lines that were repaired, with examples, and rejected lines that repairs would keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby, islice
from typing import Final, Self

import msgspec
from msgspec.structs import asdict

from fastrec.judge.batch import Batch
from fastrec.sorting.keys import encode_sample_id, sample_id_of
from fastrec.summary.document import Repairable, Repaired, RepairExample, json_safe

__all__ = ["RepairCounts", "repair_documents"]

_EXAMPLES: Final = 3
"""Examples of each repair: the first ones by names, so that they do not depend on the order of lines."""


class _Example(msgspec.Struct, frozen=True, order=True):
    """A change to a record."""

    code: str
    evaluation_name: str
    model_id: str
    sample_id: bytes  # encoded as in a key; integers come before strings
    path: str
    message: str


class RepairCounts(msgspec.Struct):
    """Repairs of some lines."""

    lines: int = 0  # repaired lines
    by_code: dict[str, int] = msgspec.field(default_factory=dict)  # the journal cannot decode a Counter
    examples: list[_Example] = msgspec.field(default_factory=list)
    repairable: int = 0  # rejected lines that repairs would keep
    repairable_by_code: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, batch: Batch) -> Counter[str]:
        """Add the lines of a chunk, and return its repaired lines by code."""
        by_code: Counter[str] = Counter()
        for line in batch.repaired:
            by_code.update(finding.code for finding in line.findings)
        self.lines += len(batch.repaired)
        if batch.repaired:
            self.by_code = _sum(self.by_code, by_code)
            new = (
                _Example(one.code, line.evaluation_name, line.model_id, sample_id, one.path, one.message)
                for line in batch.repaired
                for sample_id in [encode_sample_id(line.sample_id)]
                for one in line.findings
            )
            self.examples = _first((*self.examples, *new))
        for invalid in batch.rejected:
            if invalid.repairs:
                self.repairable += 1
                self.repairable_by_code = _sum(self.repairable_by_code, dict.fromkeys(invalid.repairs, 1))
        return by_code

    def __iadd__(self, other: Self) -> Self:
        self.lines += other.lines
        self.by_code = _sum(self.by_code, other.by_code)
        self.examples = _first((*self.examples, *other.examples))
        self.repairable += other.repairable
        self.repairable_by_code = _sum(self.repairable_by_code, other.repairable_by_code)
        return self


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {code: one.get(code, 0) + other.get(code, 0) for code in {**one, **other}}


def _first(examples: Iterable[_Example]) -> list[_Example]:
    in_order = sorted(set(examples))
    groups = groupby(in_order, key=lambda example: example.code)
    return [example for _, group in groups for example in islice(group, _EXAMPLES)]


def repair_documents(total: RepairCounts) -> tuple[Repaired, Repairable]:
    """Describe the repairs of all pieces for the summary."""
    examples = [
        RepairExample(**asdict(example) | {"sample_id": json_safe(sample_id_of(example.sample_id))})
        for example in total.examples
    ]
    return (
        Repaired(lines=total.lines, by_code=dict(sorted(total.by_code.items())), examples=examples),
        Repairable(lines=total.repairable, by_code=dict(sorted(total.repairable_by_code.items()))),
    )
