"""What the tasks of a comparison count, and how their results add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import msgspec

from fastrec.commands.diff.document import RecordName
from fastrec.commands.diff.questions import Outcome, Read
from fastrec.corpus.line_head import LineHead, read_head
from fastrec.summary.document import json_safe

__all__ = ["OTHER_FIELDS", "Changes", "ModelName", "Scope", "metric_of", "name_of"]

OTHER_FIELDS: Final = "(other fields)"

Scope = tuple[str, str | None]
"""An evaluation_name and one of its metrics; None for records that name no metric."""

ModelName = tuple[str, str | None, str]
"""An evaluation_name, a metric and a model_id."""


class Changes(msgspec.Struct):
    """The result of a task; unchanged pairs are not counted."""

    scored: frozenset[Scope]
    """The scopes that are compared by score."""
    counts: dict[ModelName, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By model: all of `Counts` except `unchanged`."""
    read: dict[ModelName, Read] = msgspec.field(default_factory=dict)
    """By model, the questions that were read; questions without a difference may be left out."""
    outcomes: dict[ModelName, Counter[Outcome]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By model, questions that are not in `read` yet, by their answers."""
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str | tuple[str | None, ...], list[Any]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """By kind of change, its first records. By model and direction, the first flips."""

    def count(self, model: ModelName, outcome: Outcome) -> None:
        """Count a question. Scores may differ in every question, so only outcomes without scores are held."""
        if model[:2] in self.scored:
            self.read_of(model).add(outcome)
        else:
            self.outcomes[model][outcome] += 1

    def finish(self) -> None:
        """Add up all questions."""
        for model, outcomes in self.outcomes.items():
            read = self.read_of(model)
            for outcome, number in outcomes.items():
                read.add(outcome, number)
        self.outcomes.clear()

    def read_of(self, model: ModelName) -> Read:
        """Return the questions of a model that were read and added up."""
        if model not in self.read:
            self.read[model] = Read(scored=model[:2] in self.scored)
        return self.read[model]

    def add(self, other: Changes, examples: int) -> None:
        """Add the counts of a later range."""
        for model, counts in other.counts.items():
            self.counts[model].update(counts)
        for model, read in other.read.items():
            self.read_of(model).merge(read)
        self.fields.update(other.fields)
        for kind, records in other.examples.items():
            self.examples[kind] += records[: examples - len(self.examples[kind])]


def metric_of(head: LineHead) -> str | None:
    """Return the metric of a record; None if it names none."""
    metric = head.evaluation_result_id
    return metric if isinstance(metric, str) else None


def name_of(line: bytes, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
    """Return the fields that are needed to find a record."""
    head = read_head(line)
    return RecordName(
        evaluation_name=head.evaluation_name,
        metric=metric_of(head),
        model_id=head.model_id,
        sample_id=json_safe(head.decoded_sample_id()),
        sample_hash=head.sample_hash,
        evaluation_id=head.evaluation_id,
        fields=fields,
    )
