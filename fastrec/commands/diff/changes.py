"""What the tasks of a comparison count, and how their results add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import msgspec

from fastrec.commands.diff.document import RecordName
from fastrec.commands.diff.questions import Outcome
from fastrec.corpus.line_head import read_head
from fastrec.summary.document import json_safe

__all__ = ["OTHER_FIELDS", "Changes", "name_of"]

OTHER_FIELDS: Final = "(other fields)"


class Changes(msgspec.Struct):
    """The result of a task; unchanged pairs are not counted."""

    counts: dict[tuple[str, str], Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By evaluation_name and model_id: all of `Counts` except `unchanged`."""
    outcomes: dict[tuple[str, str], Counter[Outcome]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By evaluation_name and model_id, the number of questions by their answers; questions without a difference may be
    left out."""
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str | tuple[str, ...], list[Any]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """By kind of change, its first records. By evaluation_name, model_id and direction, the first flips."""

    def add(self, other: Changes, examples: int) -> None:
        """Add the counts of a later range."""
        for model, counts in other.counts.items():
            self.counts[model].update(counts)
        for model, outcomes in other.outcomes.items():
            self.outcomes[model].update(outcomes)
        self.fields.update(other.fields)
        for kind, records in other.examples.items():
            self.examples[kind] += records[: examples - len(self.examples[kind])]


def name_of(line: bytes, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
    """Return the fields that are needed to find a record."""
    head = read_head(line)
    return RecordName(
        evaluation_name=head.evaluation_name,
        model_id=head.model_id,
        sample_id=json_safe(head.decoded_sample_id()),
        sample_hash=head.sample_hash,
        evaluation_id=head.evaluation_id,
        fields=fields,
    )
