"""What a task of `diff` counts, and how the counts of all tasks are added up in the order of the corpora."""

from __future__ import annotations

from collections import Counter

import msgspec

from fastrec.commands.diff.document import Examples, Flip, RecordName

__all__ = ["Changes", "ModelChanges"]


class ModelChanges(msgspec.Struct):
    """What differs for one model on one evaluation."""

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    """`right_to_wrong`, `wrong_to_right` and all of `Counts` except `unchanged`. Also `correct_old` and `correct_new`:
    unmatched records that are correct."""
    flips: dict[bool, list[Flip]] = msgspec.field(default_factory=lambda: {False: [], True: []})
    """By the verdict in NEW."""

    def add(self, other: ModelChanges, examples: int) -> None:
        """Add the counts of a later range."""
        self.counts.update(other.counts)
        for verdict, flips in self.flips.items():
            flips += other.flips[verdict][: examples - len(flips)]


class Changes(msgspec.Struct):
    """The result of a task; unchanged pairs are not counted."""

    models: dict[tuple[str, str], ModelChanges] = msgspec.field(default_factory=dict)
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: Examples = msgspec.field(default_factory=Examples)

    def add(self, other: Changes, examples: int) -> None:
        """Add the counts of a later range."""
        for key, model in other.models.items():
            self.models.setdefault(key, ModelChanges()).add(model, examples)
        self.fields.update(other.fields)
        for name in Examples.__struct_fields__:
            ours: list[RecordName] = getattr(self.examples, name)
            ours += getattr(other.examples, name)[: examples - len(ours)]
