"""The result of comparing two corpora, field by field: the document that `fastrec diff --format json` prints.

Except for `seconds`, it depends only on the two corpora and the options. It accounts for every record of both:
`old.records = unchanged + changed + removed + ambiguous_old` and
`new.records = unchanged + changed + added + ambiguous_new`, in total and for each evaluation and model.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["ChangedField", "Counts", "Difference", "Examples", "Flip", "ModelDifference", "RecordName", "Side"]


class Side(msgspec.Struct, kw_only=True):
    """One of the two corpora."""

    corpus: str
    """Its path, as given."""
    records: int
    """Records in all parts."""
    text_sha256: str
    """From its manifest: identifies the content, whatever the path."""


class Counts(msgspec.Struct, kw_only=True):
    """How many records changed, and how. A pair is two matched records, one of each corpus, and counts once."""

    unchanged: int = 0
    """Pairs that agree in all fields except `evaluation_id`."""
    changed: int = 0
    """Pairs that differ in any other field."""
    added: int = 0
    """Records of NEW without a match in OLD."""
    removed: int = 0
    """Records of OLD without a match in NEW."""
    ambiguous_old: int = 0
    """Records of OLD with several possible matches: they agree in all fields to compare by."""
    ambiguous_new: int = 0
    """Records of NEW with several possible matches."""


class RecordName(msgspec.Struct, kw_only=True):
    """The fields that are needed to find a record."""

    evaluation_name: str
    model_id: str
    sample_id: int | str
    sample_hash: str
    evaluation_id: str
    fields: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Only for a changed record: the fields that differ. The other fields are those of its record in NEW."""


class Flip(msgspec.Struct, kw_only=True):
    """An answer that was right and is wrong now, or the other way round."""

    sample_id: int | str
    sample_hash: str
    now: Literal["right", "wrong"]
    """The verdict in NEW."""


class ModelDifference(msgspec.Struct, kw_only=True):
    """One model on one evaluation. Accuracies are those of the pairs: the samples that both corpora have."""

    evaluation_name: str
    model_id: str
    common: int
    """Pairs, unchanged or changed."""
    old_correct: int
    """Pairs whose record in OLD is right."""
    new_correct: int
    """Pairs whose record in NEW is right."""
    old_accuracy: float | None
    """old_correct / common; null if there are no pairs."""
    new_accuracy: float | None
    """new_correct / common; null if there are no pairs."""
    points: float | None
    """The difference in percentage points: 100 × (new_correct - old_correct) / common."""
    right_to_wrong: int
    """Pairs that were right and are wrong now."""
    wrong_to_right: int
    """Pairs that were wrong and are right now."""
    p: float
    """p-value of the two-sided exact McNemar test: how likely it is that chance alone makes the flips so one-sided."""
    regressed: bool
    """Whether accuracy fell by more than `--fail-on` with `p` below `--p`; always false without `--fail-on`."""
    counts: Counts
    flips: list[Flip]
    """The first flips in sort order, right to wrong before wrong to right, at most `--examples` of each."""


class ChangedField(msgspec.Struct, kw_only=True):
    """A field that differs in at least one pair."""

    path: str
    """A JSON path such as `$.evaluation.score`; `[*]` stands for any item of an array."""
    records: int
    """Pairs in which it differs."""


class Examples(msgspec.Struct, kw_only=True):
    """The first records of each kind in sort order, at most `--examples` of each."""

    added: list[RecordName]
    """Only in NEW."""
    removed: list[RecordName]
    """Only in OLD."""
    changed: list[RecordName]
    """In both, but different."""
    ambiguous: list[RecordName]
    """One record of OLD for each group with several possible matches."""


class Difference(msgspec.Struct, kw_only=True):
    """What changed between two corpora."""

    format: int = 1
    """Version of this document's format."""
    old: Side
    """The earlier corpus."""
    new: Side
    """The later corpus."""
    by: tuple[str, ...]
    """The fields in which matched records agree."""
    fail_on: float | None
    """`--fail-on`: a model that lost more percentage points, with a small enough `p`, regressed; null if not given."""
    p: float
    """`--p`: the p-value below which a loss is significant."""
    counts: Counts
    models: list[ModelDifference]
    """Sorted by evaluation_name and model_id."""
    fields: list[ChangedField]
    """The most frequent first."""
    examples: Examples
    notices: list[str]
    """Remarks for the reader."""
    text_bytes: int
    """Text of both corpora, including parts that were skipped."""
    parts_skipped: int
    """Parts that are the same in both corpora, byte for byte; they were not read."""
    seconds: float
    """Duration of the comparison."""

    @property
    def regressed(self) -> bool:
        """Whether any model regressed."""
        return any(model.regressed for model in self.models)
