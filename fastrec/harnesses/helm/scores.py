"""The scores of a sample: the values of its metrics, as several entries state them.

Several metric objects of HELM may state the same metric: equal values count once, different ones are an error. Only in
language modeling, entries are about different requests of one instance; they are added up, as HELM does itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastrec.harnesses.helm.keys import metric_id
from fastrec.harnesses.helm.structs import Stat, StatsEntry
from fastrec.harnesses.log import Score
from fastrec.harnesses.values import number_of, spell

__all__ = ["SampleScores", "ScoreReader", "mean_of"]

_EMPTY: Final = "HELM has no value of this metric for this instance"
_SEVERAL: Final = "HELM has several values of this metric for this instance"
_TOTALS: Final = frozenset({"num_prompt_tokens", "num_output_tokens", "predicted_index"})
_INFINITY: Final = float("inf")


class SampleScores:
    """The scores of a sample, and values that say something about its requests."""

    __slots__ = ("scores", "totals")

    def __init__(self) -> None:
        self.scores: dict[str, Score] = {}
        self.totals: dict[str, float] = {}
        """Numbers of tokens and the predicted index, by name of the metric."""


class ScoreReader:
    """Reads the scores of samples; it keeps the names of metrics, which come again with every sample."""

    def __init__(self, labels: dict[str, str], empty_metrics: frozenset[str], adds_up: bool) -> None:
        self._labels = labels
        self._empty_metrics = empty_metrics
        self._adds_up = adds_up
        self._names: dict[tuple[str, str | None, str | None, str], str] = {}

    def read(self, entries: Sequence[StatsEntry], perturbation: str) -> SampleScores:
        """Return the scores of a sample, whose perturbation is given by its canonical description."""
        found, names = SampleScores(), self._names
        scores = found.scores
        if self._adds_up and len(entries) > 1:
            entries = [_added(entries)]
        for entry in entries:
            for stat in entry.stats or ():
                name = stat.name
                key = (name.name, name.split, name.sub_split, perturbation)
                metric = names.get(key)
                if metric is None:
                    metric = names[key] = metric_id(name, perturbation, self._labels)
                mean = stat.mean
                if mean.__class__ is float and -_INFINITY < mean < _INFINITY and metric not in scores:
                    scores[metric] = Score(metric=metric, value=mean)  # nearly always
                elif metric not in self._empty_metrics:
                    score = _score(metric, stat)
                    earlier = scores.get(metric)
                    scores[metric] = score if earlier is None else _combined(earlier, score)
                if name.name in _TOTALS and stat.count and (total := number_of(stat.sum)) is not None:
                    found.totals[name.name] = total
        return found


def mean_of(stat: Stat) -> float | None:
    """Return the mean of a statistic, or None if it has none that is a number."""
    if stat.mean is not None:
        return number_of(stat.mean)
    total, count = number_of(stat.sum), number_of(stat.count)
    return None if total is None or not count else number_of(total / count)


def _score(metric: str, stat: Stat) -> Score:
    value = mean_of(stat)
    if value is not None:
        return Score(metric=metric, value=value)
    problem = _EMPTY if stat.mean is None else f"the score is not a number: {spell(stat.mean)[:100]}"
    return Score(metric=metric, value=None, problem=problem)


def _combined(earlier: Score, score: Score) -> Score:
    """Return what two statements about one metric say together."""
    if earlier.value == score.value or score.problem == _EMPTY:
        return earlier
    if earlier.problem == _EMPTY:
        return score
    return Score(metric=score.metric, value=None, problem=_SEVERAL)


def _added(entries: Sequence[StatsEntry]) -> StatsEntry:
    """Add up the values of each metric over all entries."""
    found: dict[tuple[str, str | None, str | None], Stat] = {}
    for entry in entries:
        for stat in entry.stats or ():
            key = (stat.name.name, stat.name.split, stat.name.sub_split)
            total = found.setdefault(key, Stat(stat.name, 0, 0.0))
            if stat.count:
                added = number_of(stat.sum)
                total.count += stat.count
                total.sum = None if added is None or total.sum is None else total.sum + added
    first = entries[0]
    return StatsEntry(first.instance_id, first.train_trial_index, first.perturbation, list(found.values()))
