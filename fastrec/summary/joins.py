"""The document of `stats --joins`: which questions models have in common, and what keeps others apart."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["REASONS", "EvaluationJoins", "PairJoins", "QuestionGroup"]

REASONS: Final = {
    "hash": "other hash",
    "white_space": "white space",
    "reference": "other reference",
    "prompt": "other prompt",
    "prompt_and_reference": "both other",
}
"""What keeps two questions of the same `sample_id` apart, the closest first, with its heading in a table.

hash: prompt and references are equal, so one hash is wrong or of another recipe. white_space: they are equal but for
white space. reference: only the references differ. prompt: only the prompts (`input.raw`) differ.
"""


class QuestionGroup(msgspec.Struct, kw_only=True):
    """Models that were asked exactly the same questions, under the same ids and with the same metrics."""

    models: list[str]
    """Their ids, sorted."""
    questions: int
    """Distinct sample_hashes of each of them."""
    ids: int
    """Distinct sample_ids of each of them."""


class PairJoins(msgspec.Struct, kw_only=True):
    """What two models of different groups have in common. The numbers are the same for all models of the groups."""

    first: int
    """Position of the first model's group in groups; 0 is the first."""
    second: int
    """Position of the second model's group."""
    common: int
    """Questions that both were asked: those with the same sample_hash."""
    same_metric: int
    """Those of them for which both have a record of the same metric, or one without a metric."""
    ids: int
    """sample_ids that both have."""
    apart: int
    """Those of these ids whose hashes differ: no hash of one model is that of the other. The sum of reasons."""
    reasons: dict[str, int]
    """What keeps the questions of these ids apart: ids by hash, white_space, reference, prompt, prompt_and_reference.
    Where a model has several questions of one id, the two that are closest count."""
    examples: dict[str, list[int | str]]
    """The first ids of each reason; only of the pairs with the fewest common questions."""


class EvaluationJoins(msgspec.Struct, kw_only=True):
    """Which questions of an evaluation its models have in common."""

    evaluation_name: str
    metrics: list[str | None]
    """The chosen metrics (evaluation_result_id), sorted; null stands for records without one, and comes first."""
    models: int
    """Chosen models that have records."""
    questions: int
    """Distinct sample_hashes of all of them together."""
    common: int
    """Questions that all of them were asked, by sample_hash."""
    ids: int
    """Distinct sample_ids of all of them together."""
    common_ids: int
    """sample_ids that all of them have."""
    groups: list[QuestionGroup]
    """Models that were asked exactly the same, the largest group first. They have all of their questions in common."""
    pairs: list[PairJoins]
    """All pairs of groups, those with the smallest share of common questions first."""
