"""The result of `trend`, field by field: the document that `fastrec trend --format json` prints.

It depends on the corpora, their names and the options alone.
"""

from __future__ import annotations

import msgspec

from fastrec.answers.wording import value_text
from fastrec.summary.document import LineCounts
from fastrec.summary.significance import Test
from fastrec.summary.titles import title_of

__all__ = ["Change", "EvaluationTrend", "ModelTrend", "Point", "Trend", "TrendCorpus"]


class TrendCorpus(msgspec.Struct, kw_only=True):
    """One of the corpora, such as that of a night."""

    name: str
    """Its name in this document: the name of its directory, or its path if another one has that name."""
    path: str
    """Its path."""
    line_counts: LineCounts
    """The line counts of the corpus as a whole."""
    skipped: int
    """Shards that it lacks because they could not be read."""
    models: int
    """Chosen models that have records in it."""
    appeared: list[str]
    """Chosen models that have records in it and none in the corpus before."""
    disappeared: list[str]
    """Chosen models that have records in the corpus before and none in it."""


class Point(msgspec.Struct, kw_only=True):
    """One model on one evaluation and metric in one corpus."""

    corpus: str
    """The name of the corpus."""
    records: int
    """Its records."""
    errors: int
    """Those with a non-empty error."""
    questions: int
    """Questions that it answered."""
    value: float | None
    """Its accuracy, or its mean score if the metric is graded; null without answers."""


class Change(msgspec.Struct, kw_only=True):
    """A model in two corpora, compared on the questions that it answered in both."""

    before: str
    """The name of the earlier corpus: the last one before `after` in which the model has answers."""
    after: str
    """The name of the later corpus."""
    questions: int
    """Questions that it answered in both. The numbers below are about these."""
    better: int
    """Questions whose share of right answers, or whose mean score, is higher in the later corpus."""
    worse: int
    """Questions for which it is lower."""
    old: float | None
    """Accuracy or mean score in the earlier corpus; null without common questions."""
    new: float | None
    """The same in the later corpus."""
    difference: float | None
    """`new` minus `old`."""
    test: Test | None
    """The test: `mcnemar`, `sign-flip` or `t`; null without common questions."""
    p: float | None
    """Its p-value: how likely so large a difference is if nothing really changed."""
    p_adjusted: float | None = None
    """The p-value adjusted for the number of comparisons in this document, by the method of Benjamini and Hochberg."""
    significant: bool = False
    """Whether `p_adjusted` is below the chosen one: the model changed by more than chance."""

    @property
    def p_text(self) -> str:
        """The adjusted p-value as text. One that is too small for a number is not 0."""
        if self.p_adjusted is None:
            return "–"
        return f"{self.p_adjusted:.2g}" if self.p_adjusted else "<1e-300"


class ModelTrend(msgspec.Struct, kw_only=True):
    """One model on one evaluation and metric."""

    model_id: str
    points: list[Point]
    """One for each corpus that has records of it, in the order of corpora."""
    changes: list[Change]
    """One for each corpus that has answers of it, except the first, in the order of corpora."""


class EvaluationTrend(msgspec.Struct, kw_only=True):
    """One metric of an evaluation, or an evaluation without metrics."""

    evaluation_name: str
    metric: str | None
    """evaluation_result_id of the records; null if they have none."""
    metrics: int
    """Metrics that the evaluation has in any corpus, chosen or not."""
    graded: bool
    """Whether any corpus has scores other than 0 and 1. Then mean scores are compared, in all corpora."""
    models: list[ModelTrend]
    """The chosen models, by model_id."""

    @property
    def title(self) -> str:
        """The name of the evaluation, with the metric if it has several."""
        return title_of(self.evaluation_name, self.metric, self.metrics)

    def spelled(self, value: float | None) -> str:
        """Return a value of this metric as text: a percentage, or a score."""
        return value_text(value, graded=self.graded)

    @property
    def measure(self) -> str:
        """What the values are."""
        return "mean score" if self.graded else "accuracy"


class Trend(msgspec.Struct, kw_only=True):
    """How models changed over several corpora."""

    p: float
    """A change is significant if its adjusted p-value is below this."""
    comparisons: int
    """Changes with a p-value, which it is adjusted for."""
    corpora: list[TrendCorpus]
    """The corpora, in order."""
    evaluations: list[EvaluationTrend]
    """By evaluation_name, then by metric."""
    notices: list[str]
    """What a reader should know: directories that are left out, and corpora whose questions cannot be matched."""

    def significant_changes(self) -> list[tuple[EvaluationTrend, ModelTrend, Change]]:
        """Return the changes that are more than chance, each with its evaluation and model."""
        return [
            (evaluation, model, change)
            for evaluation in self.evaluations
            for model in evaluation.models
            for change in model.changes
            if change.significant
        ]
