"""The result of comparing two corpora: the document that `fastrec diff --format json` prints.

Except for `seconds`, it depends only on the two corpora and the options. It accounts for every
record of both: `old.records = unchanged + changed + removed + repeats_old` and
`new.records = unchanged + changed + added + repeats_new`, in total and for each evaluation, metric
and model.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from fastrec.notebook import Rows, Tabular, flat
from fastrec.parameters import Names
from fastrec.statistics.intervals import OptionalNumber
from fastrec.statistics.paired import Test
from fastrec.summary.document import ModelNames, SampleId
from fastrec.summary.rows import Sums

Status = Literal["compared", "incomplete", "missing", "new", "unanswered"]


class Side(Struct):
    """One of the two corpora."""

    #: Its path, as given.
    corpus: str
    #: Number of records.
    records: int
    #: From its manifest: identifies the content.
    text_xxh3_128: str


class Counts(Sums):
    """A pair is two matched records, one of each corpus, and counts once."""

    #: Pairs that agree in all fields but `evaluation_id`.
    unchanged: int = 0
    #: Other pairs.
    changed: int = 0
    #: Those with another verdict, of which only NEW has the label in `metadata`.
    relabelled: int = 0
    #: Records of NEW without a counterpart in OLD.
    added: int = 0
    #: Records of OLD without a counterpart in NEW.
    removed: int = 0
    #: Records of OLD with counterparts in NEW, but none of their own, compared by the mean of the
    #: question.
    repeats_old: int = 0
    #: The same of NEW.
    repeats_new: int = 0


class Loss(Struct):
    """An answer that was right in OLD and is not in NEW."""

    sample_id: SampleId
    sample_hash: str
    #: As in `losses`.
    cause: str


class RecordName(ModelNames):
    """The fields that are needed to find a record."""

    sample_id: SampleId
    sample_hash: str
    evaluation_id: str
    #: Of a changed record: the fields that differ. The names are those of NEW.
    fields: list[str] | UnsetType = UNSET


class Flip(Struct):
    """A question whose mean changed.

    It is the share of right answers, or for `measure` score the mean score.
    """

    sample_id: SampleId
    sample_hash: str
    #: The mean in OLD.
    old: float
    #: The mean in NEW.
    new: float


class ModelDifference(ModelNames, kw_only=True):
    """One model on one evaluation and metric.

    Means are those of the questions that could be compared.

    A question can be compared if both corpora have an answer to it: a record without an error, or
    any record with `--errors-as-wrong`. Its mean in a corpus is the share of right answers there,
    or the mean of their scores.
    """

    #: Whether OLD or NEW has scores other than 0 and 1.
    graded: bool
    #: What is compared: the score of a graded metric without `--accuracy`, else the accuracy.
    measure: Literal["accuracy", "score"]
    #: Whether scores are compared, and the mean of a model is below 0 or above 1.
    other_scale: bool
    #: Whether a lower score is better; false if accuracies are compared.
    lower_is_better: bool
    #: As docs/gates.md#diff says; `new`: OLD has no record of it; `unanswered`: OLD has no answer.
    status: Status
    #: Its records in OLD.
    old_records: int
    #: Its records in NEW.
    new_records: int
    #: Records with an error in OLD.
    old_errors: int
    #: The same in NEW.
    new_errors: int
    #: Questions with records in OLD.
    old_questions: int
    #: The same in NEW.
    new_questions: int
    #: Questions answered in OLD.
    old_answered: int
    #: Compared questions.
    questions: int
    #: Mean over the compared questions in OLD, unless scores are compared.
    old_accuracy: OptionalNumber = None
    #: The same in NEW.
    new_accuracy: OptionalNumber = None
    #: The mean score in OLD; null as `mean_score`, or if accuracies are compared.
    old_score: OptionalNumber = None
    #: The same in NEW.
    new_score: OptionalNumber = None
    #: How much better NEW is, in points (docs/using-a-corpus.md#comparing-two-corpora). Computed
    #: exactly and rounded once.
    points: OptionalNumber = None
    #: Questions whose mean fell, or rose if a lower score is better.
    worse: int
    #: The others that changed.
    better: int
    #: Clusters of the compared questions; without `--cluster`, each question is a cluster.
    clusters: int
    #: The test that gave `p` (docs/leaderboard.md#the-test-of-two-models); null if no question was
    #: compared.
    test: Test | None = None
    #: The p-value: how likely chance alone makes so large a difference.
    p: OptionalNumber = None
    #: As in `compare`, in points.
    detectable: OptionalNumber = None
    #: Questions that it takes to find the observed difference in 80 % of all cases.
    questions_needed: int | None = None
    #: The p-value adjusted for many tests (docs/leaderboard.md#many-tests).
    p_adjusted: OptionalNumber = None
    #: Whether it fell by more than `--fail-on`, if given, with `p_adjusted` (or `p`, by
    #: `--p-adjust`) below `--p`.
    regressed: bool = False
    counts: Counts
    #: Answers that were right in OLD and are not in NEW, by the first
    #: [cause](docs/using-a-corpus.md#comparing-two-corpora) of `error`, `same_output`, `cut_short`,
    #: `no_value`, `other_value` and `other_output`.
    losses: dict[str, int]
    #: The first of these, at most `--examples`.
    lost: list[Loss]
    #: The first questions that changed, worse before better, at most `--examples` of each.
    flips: list[Flip]


class Failure(ModelNames):
    """Why the exit code is 1: one reason, for one model on one evaluation and metric."""

    #: See docs/gates.md#diff.
    reason: Literal["regressed", "missing", "incomplete"]
    #: The reason as a sentence without the names.
    message: str


class ChangedField(Struct):
    """A field that differs in at least one pair."""

    #: Such as `$.evaluation.score`; `[*]` stands for any item of an array.
    path: str
    #: Pairs in which it differs.
    records: int


class Examples(Struct):
    """The first records of each kind in sort order, at most `--examples` of each."""

    #: Only in NEW.
    added: list[RecordName]
    #: Only in OLD.
    removed: list[RecordName]
    #: In both, but different, and not relabelled.
    changed: list[RecordName]
    #: In both, with a verdict that a label changed.
    relabelled: list[RecordName]
    #: A record of OLD for each group of repeats.
    repeats: list[RecordName]


class Difference(Tabular, kw_only=True):
    """What changed between two corpora."""

    #: Version of this document's format.
    format: int = 3
    #: The earlier corpus.
    old: Side
    #: The later corpus.
    new: Side
    #: The fields in which matched records agree.
    by: Names
    #: What identifies a question of a model: `sample_hash` or `sample_id`, whichever the corpora
    #: are sorted by first, and the sort fields before it. Metrics are compared one by one.
    question: Names
    #: `--errors-as-wrong`: whether a record with an error counts as a wrong answer, instead of as
    #: none.
    errors_as_wrong: bool
    #: `--accuracy`: whether accuracies are compared for graded metrics, too.
    accuracy: bool
    #: `--cluster`: tests are over clusters of questions with the same value of this field in OLD;
    #: null if they are over questions.
    cluster: str | None
    #: `--lower-is-better`: patterns of graded metrics whose lower scores are better.
    lower_is_better: Names
    #: `--fail-on`: a model that lost more points, with a small enough p, regressed; null if not
    #: given.
    fail_on: OptionalNumber
    #: `--p`: the p-value below which a loss is significant.
    p: float
    #: `--p-adjust`: whether `--fail-on` uses `p_adjusted` (bh) or `p` (none).
    p_adjust: Literal["bh", "none"]
    #: `--min-compared`: the percentage of the questions that a model answered in OLD that must be
    #: compared.
    min_compared: float
    #: `--allow-missing`: patterns of models that may be missing or incomplete.
    allow_missing: Names
    #: As options: only matching records were compared.
    filters: str = ""
    #: Why the exit code is 1.
    failures: list[Failure]
    counts: Counts
    #: By evaluation, metric and model, on the questions that could be compared
    #: (docs/gates.md#diff). The mean of a question is the share of right answers, or the mean
    #: score.
    models: list[ModelDifference]
    #: Fields that differ, the most frequent first.
    fields: list[ChangedField]
    examples: Examples
    #: Notices for the user.
    notices: list[str]
    #: Of both corpora, with skipped parts.
    text_bytes: int
    #: Parts that are the same in both, byte for byte, and were not read.
    parts_skipped: int
    #: How long it took.
    seconds: float

    def rows(self) -> Rows:
        """A row for each evaluation, metric and model."""
        return [flat(model) for model in self.models]

    @property
    def threshold(self) -> str:
        """The p-value below which a change is significant, in words."""
        return f"{'adjusted p' if self.p_adjust == 'bh' else 'p'} < {self.p:g}"

    def is_significant(self, model: ModelDifference) -> bool:
        p_value = model.p_adjusted if self.p_adjust == "bh" else model.p
        return p_value is not None and p_value < self.p

    @property
    def failed(self) -> bool:
        """Whether a model regressed, or is missing or incomplete without being allowed to."""
        return bool(self.failures)

    @property
    def regressed(self) -> bool:
        return any(model.regressed for model in self.models)
