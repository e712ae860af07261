"""The names of evaluations, metrics and models in a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

__all__ = ["Names", "names_in", "names_of"]


class Names(msgspec.Struct):
    """Which names the records of a corpus have, each once, in the order of the summary."""

    evaluations: list[str]
    metrics: list[str | None]
    """None stands for records without a metric."""
    models: list[str]


class _ModelLike(Protocol):
    @property
    def model_id(self) -> str: ...


class _EvaluationLike(Protocol):
    @property
    def evaluation_name(self) -> str: ...
    @property
    def metric(self) -> str | None: ...
    @property
    def by_model(self) -> Sequence[_ModelLike]: ...


def names_of(evaluations: Iterable[_EvaluationLike]) -> Names:
    """Return the names in the evaluations of a summary."""
    found = list(evaluations)
    return Names(
        evaluations=list(dict.fromkeys(one.evaluation_name for one in found)),
        metrics=list(dict.fromkeys(one.metric for one in found)),
        models=list(dict.fromkeys(model.model_id for one in found for model in one.by_model)),
    )


class _Model(msgspec.Struct):
    model_id: str


class _Evaluation(msgspec.Struct):
    evaluation_name: str
    metric: str | None
    by_model: list[_Model]


class _Summary(msgspec.Struct):
    evaluations: list[_Evaluation]


def names_in(data: bytes) -> Names:
    """Return the names in the text of `summary.json`, read without the rest of the document.

    Raises:
        msgspec.MsgspecError: It is not a summary.
        UnicodeDecodeError: It is not UTF-8.
    """
    return names_of(msgspec.json.decode(data, type=_Summary).evaluations)
