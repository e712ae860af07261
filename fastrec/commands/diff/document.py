"""What came of comparing two corpora, field by field: the document that `fastrec diff --format json` prints.

It depends on the two corpora and the options alone, but for `seconds`: no time, no host. Every record of both is
accounted for: `old.records = unchanged + changed + removed + ambiguous_old`, and
`new.records = unchanged + changed + added + ambiguous_new`, in all and for each evaluation and model.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fastrec.summary.document import json_safe

__all__ = [
    "DIFF_FORMAT",
    "ChangedField",
    "Counts",
    "Difference",
    "Examples",
    "Flip",
    "ModelDifference",
    "RecordName",
    "Side",
    "json_safe",
]

DIFF_FORMAT: Final = 1


class Base(msgspec.Struct, kw_only=True):
    """What the classes of the document have in common: fields are named, never positional."""


class Side(Base, kw_only=True):
    """One of the two corpora."""

    corpus: str
    """Its path, as it was given."""
    records: int
    """In all its parts."""
    text_sha256: str
    """As its manifest says: which corpus this was, whatever its path."""


class Counts(Base, kw_only=True):
    """Records by what became of them; a pair counts once."""

    unchanged: int = 0
    """Pairs that are equal in all fields but `evaluation_id`."""
    changed: int = 0
    """Pairs that differ in another field."""
    added: int = 0
    """Records of NEW that have no partner in OLD."""
    removed: int = 0
    """Records of OLD that have no partner in NEW."""
    ambiguous_old: int = 0
    """Records of OLD whose partner cannot be told, since several records have the fields that are compared by."""
    ambiguous_new: int = 0
    """Records of NEW whose partner cannot be told."""


class RecordName(Base, kw_only=True):
    """Enough to find a record."""

    evaluation_name: str
    model_id: str
    sample_id: int | str
    sample_hash: str
    evaluation_id: str
    fields: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Of a changed record: the fields that differ; the name is that of its record in NEW."""


class Flip(Base, kw_only=True):
    """A sample that was right and is wrong now, or the other way round."""

    sample_id: int | str
    sample_hash: str
    now: Literal["right", "wrong"]
    """What it is in NEW."""


class ModelDifference(Base, kw_only=True):
    """One model on one evaluation. Accuracies are those of the common samples: the pairs."""

    evaluation_name: str
    model_id: str
    common: int
    """Pairs: unchanged and changed."""
    old_correct: int
    """Pairs whose record in OLD is right."""
    new_correct: int
    """Pairs whose record in NEW is right."""
    old_accuracy: float | None
    """old_correct / common; null without a common sample."""
    new_accuracy: float | None
    """new_correct / common."""
    points: float | None
    """The difference in percentage points: 100 × (new_correct - old_correct) / common."""
    right_to_wrong: int
    """Pairs that were right and are wrong now."""
    wrong_to_right: int
    """Pairs that were wrong and are right now."""
    p: float
    """Two-sided exact McNemar test: how likely flips that lean so far to one side, or further, are by chance alone."""
    regressed: bool
    """Whether accuracy fell beyond what `--fail-on` and `--p` allow; never without `--fail-on`."""
    counts: Counts
    flips: list[Flip]
    """The first in the order of the corpora, right to wrong before wrong to right, at most `--examples` of each."""


class ChangedField(Base, kw_only=True):
    """A field that differs in some pairs."""

    path: str
    """From the record down, as `$.evaluation.score`; `[*]` stands for any item of an array."""
    records: int
    """Pairs that differ in it."""


class Examples(Base, kw_only=True):
    """The first records of each kind in the order of the corpora, at most `--examples` of each."""

    added: list[RecordName] = msgspec.field(default_factory=list)
    """In NEW alone."""
    removed: list[RecordName] = msgspec.field(default_factory=list)
    """In OLD alone."""
    changed: list[RecordName] = msgspec.field(default_factory=list)
    """In both, and different."""
    ambiguous: list[RecordName] = msgspec.field(default_factory=list)
    """Of OLD or NEW, without a partner that can be told."""


class Difference(Base, kw_only=True):
    """What changed between two corpora."""

    format: int = DIFF_FORMAT
    """Version of this document's format."""
    old: Side
    """The corpus that is compared with."""
    new: Side
    """The corpus that is compared."""
    by: tuple[str, ...]
    """The fields by which records of the two corpora are partners."""
    fail_on: float | None
    """The loss in points beyond which a model has regressed, if `p` is small enough; null: nothing counts as one."""
    p: float
    """How unlikely by chance a loss must be."""
    counts: Counts
    models: list[ModelDifference]
    """By evaluation_name and model_id."""
    fields: list[ChangedField]
    """The most frequent first."""
    examples: Examples
    notices: list[str]
    """What is good to know."""
    text_bytes: int
    """Text of both corpora; of parts that are the same in both, none of it was read."""
    parts_skipped: int
    """Parts of OLD that are the same in NEW, byte for byte."""
    seconds: float
    """How long it took."""

    @property
    def regressed(self) -> bool:
        """Whether any model has regressed."""
        return any(model.regressed for model in self.models)
