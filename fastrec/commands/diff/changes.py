"""What the merge of a range counts, and how the counts of ranges are added up, in the order of the corpora."""

from __future__ import annotations

from collections import Counter

import msgspec

from fastrec.commands.diff.document import Counts, Examples, Flip, RecordName

__all__ = ["Changes", "ModelChanges"]


class ModelChanges(msgspec.Struct):
    """One model on one evaluation: what is not equal."""

    counts: Counts = msgspec.field(default_factory=Counts)
    correct_removed: int = 0
    """Of the records of OLD that have no partner, or none for sure: how many are right."""
    correct_added: int = 0
    right_to_wrong: int = 0
    wrong_to_right: int = 0
    flips: dict[bool, list[Flip]] = msgspec.field(default_factory=lambda: {False: [], True: []})

    def add(self, other: ModelChanges, examples: int) -> None:
        """Add what follows."""
        for name in Counts.__struct_fields__:
            setattr(self.counts, name, getattr(self.counts, name) + getattr(other.counts, name))
        self.correct_removed += other.correct_removed
        self.correct_added += other.correct_added
        self.right_to_wrong += other.right_to_wrong
        self.wrong_to_right += other.wrong_to_right
        for now, flips in self.flips.items():
            flips += other.flips[now][: examples - len(flips)]


class Changes(msgspec.Struct):
    """What a worker gives back; unchanged pairs are not counted."""

    models: dict[tuple[str, str], ModelChanges] = msgspec.field(default_factory=dict)
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: Examples = msgspec.field(default_factory=Examples)

    def add(self, other: Changes, examples: int) -> None:
        """Add what follows in the order of the corpora."""
        for key, model in other.models.items():
            self.models.setdefault(key, ModelChanges()).add(model, examples)
        self.fields.update(other.fields)
        for name in Examples.__struct_fields__:
            ours: list[RecordName] = getattr(self.examples, name)
            ours += getattr(other.examples, name)[: examples - len(ours)]
