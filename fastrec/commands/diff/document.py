"""The result of comparing two corpora: the document that `fastrec diff --format json` prints.

Except for `seconds`, it depends only on the two corpora and the options. It accounts for every
record of both: `old.records = unchanged + changed + removed + repeats_old` and
`new.records = unchanged + changed + added + repeats_new`, in total and for each evaluation, metric
and model.
"""

from typing import Any, Literal

import msgspec

from fastrec.notebook import Tabular, flat
from fastrec.statistics.paired import Test
from fastrec.summary.document import ModelNames
from fastrec.summary.rows import Sums

Status = Literal["compared", "incomplete", "missing", "new", "unanswered"]


class Side(msgspec.Struct, kw_only=True):
    """One of the two corpora."""

    corpus: str
    """Its path, as given."""
    records: int
    """Number of records."""
    text_xxh3_128: str
    """From its manifest: identifies the content."""


class Counts(Sums, kw_only=True):
    """A pair is two matched records, one of each corpus, and counts once."""

    unchanged: int = 0
    """Pairs that agree in all fields but `evaluation_id`."""
    changed: int = 0
    """Other pairs."""
    relabelled: int = 0
    """Those with another verdict, of which only NEW has the label in `metadata`."""
    added: int = 0
    """Records of NEW without a counterpart in OLD."""
    removed: int = 0
    """Records of OLD without a counterpart in NEW."""
    repeats_old: int = 0
    """Records of OLD with counterparts in NEW, but none of their own, compared by the mean of the
    question."""
    repeats_new: int = 0
    """The same of NEW."""


class Loss(msgspec.Struct, kw_only=True):
    """An answer that was right in OLD and is not in NEW."""

    sample_id: int | str
    sample_hash: str
    cause: str
    """As in `losses`."""


class RecordName(ModelNames, kw_only=True):
    """The fields that are needed to find a record."""

    sample_id: int | str
    sample_hash: str
    evaluation_id: str
    fields: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Of a changed record: the fields that differ. The names are those of NEW."""


class Flip(msgspec.Struct, kw_only=True):
    """A question whose mean changed.

    It is the share of right answers, or for `measure` score the mean score.
    """

    sample_id: int | str
    sample_hash: str
    old: float
    """The mean in OLD."""
    new: float
    """The mean in NEW."""


class ModelDifference(ModelNames, kw_only=True):
    """One model on one evaluation and metric.

    Means are those of the questions that could be compared.

    A question can be compared if both corpora have an answer to it: a record without an error, or
    any record with `--errors-as-wrong`. Its mean in a corpus is the share of right answers there,
    or the mean of their scores.
    """

    graded: bool
    """Whether OLD or NEW has scores other than 0 and 1."""
    measure: Literal["accuracy", "score"]
    """What is compared: the score of a graded metric without `--accuracy`, else the accuracy."""
    other_scale: bool
    """Whether scores are compared, and the mean of a model is below 0 or above 1."""
    lower_is_better: bool
    """Whether a lower score is better; false if accuracies are compared."""
    status: Status
    """As docs/gates.md#diff says; `new`: OLD has no record of it; `unanswered`: OLD has no answer.
    """
    old_records: int
    """Its records in OLD."""
    new_records: int
    """Its records in NEW."""
    old_errors: int
    """Records with an error in OLD."""
    new_errors: int
    """The same in NEW."""
    old_questions: int
    """Questions with records in OLD."""
    new_questions: int
    """The same in NEW."""
    old_answered: int
    """Questions answered in OLD."""
    questions: int
    """Compared questions."""
    old_accuracy: float | None = None
    """Mean over the compared questions in OLD, unless scores are compared."""
    new_accuracy: float | None = None
    """The same in NEW."""
    old_score: float | None = None
    """The mean score in OLD; null as `mean_score`, or if accuracies are compared."""
    new_score: float | None = None
    """The same in NEW."""
    points: float | None = None
    """How much better NEW is, in points (docs/using-a-corpus.md#comparing-two-corpora). Computed
    exactly and rounded once."""
    worse: int
    """Questions whose mean fell, or rose if a lower score is better."""
    better: int
    """The others that changed."""
    clusters: int
    """Clusters of the compared questions; without `--cluster`, each question is a cluster."""
    test: Test | None = None
    """The test that gave `p` (docs/leaderboard.md#the-test-of-two-models); null if no question was
    compared."""
    p: float | None = None
    """The p-value: how likely chance alone makes so large a difference."""
    detectable: float | None = None
    """As in `compare`, in points."""
    questions_needed: int | None = None
    """Questions that it takes to find the observed difference in 80 % of all cases."""
    p_adjusted: float | None = None
    """The p-value adjusted for many tests (docs/leaderboard.md#many-tests)."""
    regressed: bool = False
    """Whether it fell by more than `--fail-on`, if given, with `p_adjusted` (or `p`, by
    `--p-adjust`) below `--p`."""
    counts: Counts
    losses: dict[str, int]
    """Answers that were right in OLD and are not in NEW, by the first
    [cause](docs/using-a-corpus.md#comparing-two-corpora) of `error`, `same_output`,
    `cut_short`, `no_value`, `other_value` and `other_output`."""
    lost: list[Loss]
    """The first of these, at most `--examples`."""
    flips: list[Flip]
    """The first questions that changed, worse before better, at most `--examples` of each."""


class Failure(ModelNames, kw_only=True):
    """Why the exit code is 1: one reason, for one model on one evaluation and metric."""

    reason: Literal["regressed", "missing", "incomplete"]
    """See docs/gates.md#diff."""
    message: str
    """The reason as a sentence without the names."""


class ChangedField(msgspec.Struct, kw_only=True):
    """A field that differs in at least one pair."""

    path: str
    """Such as `$.evaluation.score`; `[*]` stands for any item of an array."""
    records: int
    """Pairs in which it differs."""


class Examples(msgspec.Struct, kw_only=True):
    """The first records of each kind in sort order, at most `--examples` of each."""

    added: list[RecordName]
    """Only in NEW."""
    removed: list[RecordName]
    """Only in OLD."""
    changed: list[RecordName]
    """In both, but different, and not relabelled."""
    relabelled: list[RecordName]
    """In both, with a verdict that a label changed."""
    repeats: list[RecordName]
    """A record of OLD for each group of repeats."""


class Difference(Tabular, kw_only=True):
    """What changed between two corpora."""

    format: int = 3
    """Version of this document's format."""
    old: Side
    """The earlier corpus."""
    new: Side
    """The later corpus."""
    by: tuple[str, ...]
    """The fields in which matched records agree."""
    question: tuple[str, ...]
    """What identifies a question of a model: `sample_hash` or `sample_id`, whichever the corpora
    are sorted by first, and the sort fields before it. Metrics are compared one by one."""
    errors_as_wrong: bool
    """`--errors-as-wrong`: whether a record with an error counts as a wrong answer, instead of as
    none."""
    accuracy: bool
    """`--accuracy`: whether accuracies are compared for graded metrics, too."""
    cluster: str | None
    """`--cluster`: tests are over clusters of questions with the same value of this field in OLD;
    null if they are over questions."""
    lower_is_better: tuple[str, ...]
    """`--lower-is-better`: patterns of graded metrics whose lower scores are better."""
    fail_on: float | None
    """`--fail-on`: a model that lost more points, with a small enough p, regressed; null if not
    given."""
    p: float
    """`--p`: the p-value below which a loss is significant."""
    p_adjust: Literal["bh", "none"]
    """`--p-adjust`: whether `--fail-on` uses `p_adjusted` (bh) or `p` (none)."""
    min_compared: float
    """`--min-compared`: the percentage of the questions that a model answered in OLD that must be
    compared."""
    allow_missing: tuple[str, ...]
    """`--allow-missing`: patterns of models that may be missing or incomplete."""
    filters: str = ""
    """As options: only matching records were compared."""
    failures: list[Failure]
    """Why the exit code is 1."""
    counts: Counts
    models: list[ModelDifference]
    """By evaluation, metric and model, on the questions that could be compared
    (docs/gates.md#diff). The mean of a question is the share of right answers, or the mean
    score."""
    fields: list[ChangedField]
    """Fields that differ, the most frequent first."""
    examples: Examples
    notices: list[str]
    """Notices for the user."""
    text_bytes: int
    """Of both corpora, with skipped parts."""
    parts_skipped: int
    """Parts that are the same in both, byte for byte, and were not read."""
    seconds: float
    """How long it took."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each evaluation, metric and model."""
        return [flat(model) for model in self.models]

    @property
    def failed(self) -> bool:
        """Whether a model regressed, or is missing or incomplete without being allowed to."""
        return bool(self.failures)

    @property
    def regressed(self) -> bool:
        return any(model.regressed for model in self.models)
