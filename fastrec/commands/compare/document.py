"""The document of `compare`."""

from __future__ import annotations

import msgspec

from fastrec.answers.shown import ShownQuestion
from fastrec.summary.significance import Test

__all__ = ["ComparedEvaluation", "Comparison", "Example", "Uncompared"]


class Example(msgspec.Struct, kw_only=True):
    """A question on which the two models differ."""

    a: float
    """The share of right answers of A, or its mean score if the metric is graded."""
    b: float
    """The same of B."""
    others: int
    """How many other models have answered it."""
    others_value: float | None
    """The mean of their shares of right answers, or of their scores; null if there are none."""
    question: ShownQuestion
    """The question with the answers of both models, those of A first."""


class ComparedEvaluation(msgspec.Struct, kw_only=True):
    """Two models on an evaluation and metric."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id`; null for records without one."""
    graded: bool
    """Whether the metric has scores other than 0 and 1. Then scores are compared, and higher counts as better."""
    questions: int
    """Questions that both models have answered; the numbers below are about these."""
    only_a: int
    """Questions that only A has answered."""
    only_b: int
    """Questions that only B has answered."""
    wins: int
    """Questions on which A is better."""
    losses: int
    """Questions on which B is better."""
    ties: int
    """The other questions."""
    a: float | None
    """The accuracy of A, or its mean score if the metric is graded; null without common questions."""
    b: float | None
    """The same of B."""
    difference: float | None
    """`a` minus `b`."""
    test: Test | None
    """The test: `mcnemar`, `sign-flip` or `t`; null without common questions."""
    p: float | None
    """Its p-value: how likely so large a difference is if both models are equally good."""
    p_adjusted: float | None
    """The p-value, adjusted for the number of evaluations and metrics by the method of Benjamini and Hochberg."""
    examples: list[Example]
    """The most telling questions."""


class Uncompared(msgspec.Struct):
    """An evaluation and metric on which the two models cannot be compared."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id`; null for records without one."""
    missing: list[str]
    """Which of the two models have no records."""


class Comparison(msgspec.Struct):
    """Two models, compared on each evaluation and metric."""

    a: str
    """The model A."""
    b: str
    """The model B."""
    evaluations: list[ComparedEvaluation]
    """The evaluations and metrics for which both have records."""
    uncompared: list[Uncompared]
    """The others."""
