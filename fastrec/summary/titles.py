"""Titles of evaluations: the name, with the metric if the evaluation has several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

__all__ = ["Scope", "metrics_of", "title_of", "titles"]

_NO_METRIC: Final = "(no metric)"


class Scope(Protocol):
    """An evaluation and one of its metrics."""

    @property
    def evaluation_name(self) -> str:
        """Name of the evaluation."""
        ...

    @property
    def metric(self) -> str | None:
        """The metric; None if the records name none."""
        ...


def title_of(evaluation: str, metric: str | None, metrics: int) -> str:
    """Return the title of an evaluation that has this number of metrics.

    >>> title_of("gsm8k", "f1", 2)
    'gsm8k · f1'
    >>> title_of("gsm8k", "f1", 1)
    'gsm8k'
    """
    return evaluation if metrics == 1 else f"{evaluation} · {_NO_METRIC if metric is None else metric}"


def metrics_of(scopes: Iterable[Scope]) -> Counter[str]:
    """Return the number of metrics of each evaluation; records without a metric count as one."""
    return Counter(scope.evaluation_name for scope in scopes)


def titles(scopes: Iterable[Scope]) -> list[str]:
    """Return the titles of all evaluations of a corpus."""
    scopes = list(scopes)
    metrics = metrics_of(scopes)
    return [title_of(scope.evaluation_name, scope.metric, metrics[scope.evaluation_name]) for scope in scopes]
