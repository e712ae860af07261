"""Heat maps of every model on every evaluation: accuracy or score, and coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fastrec.commands.report.scales import are_shares, is_large, left_out
from fastrec.errors import counted
from fastrec.html import Html, joined, lazy, short_cell, short_row, table, tag
from fastrec.limits import Limits
from fastrec.summary.ranking import ModelStats, Stats

__all__ = ["heat_maps"]

_MOST_UPRIGHT: Final = 10  # with more columns their headings are rotated


def heat_maps(stats: Stats, limits: Limits) -> Html:
    """Show the accuracy (or the score, if it is graded) and the coverage of every model on every evaluation."""
    evaluations = sorted(stats.evaluations, key=lambda one: -one.records)[: limits.report_columns]
    evaluations.sort(key=lambda one: (one.evaluation_name, one.metric or ""))
    records: Counter[str] = Counter()
    for evaluation in evaluations:
        records.update({model.model_id: model.records for model in evaluation.by_model})
    if not records:
        return Html("")
    by_model = [{model.model_id: model for model in one.by_model} for one in evaluations]
    names = sorted(name for name, _ in records.most_common(max(limits.report_cells // len(evaluations), 1)))
    heads = ("model", *(one.title for one in evaluations))

    def map_of(title: str, kind: str, cells: Sequence[Callable[[ModelStats], Html]]) -> Html:
        none = short_cell()
        columns = list(zip(cells, by_model, strict=True))
        rows = [
            short_row(name, *(cell(found[name]) if name in found else none for cell, found in columns))
            for name in names
        ]
        return table(title, heads, rows, class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT))

    accuracies = list(map(stats.shows_accuracy, evaluations))
    title = "Accuracy of models on evaluations" if any(accuracies) else "Mean score of models on evaluations"
    if any(accuracies) and not all(accuracies):
        title += "; the mean score where scores are other than 0 and 1"
    results = [
        _accuracy_heat if accuracy else partial(_score_heat, coloured=are_shares(one.by_model))
        for one, accuracy in zip(evaluations, accuracies, strict=True)
    ]
    coverage = "Coverage: the share of an evaluation's questions that a model answered"
    maps = (
        map_of(title, "accuracy", results),
        map_of(coverage, "coverage", [lambda model: _heat(model.coverage, ".1%")] * len(evaluations)),
    )
    return joined(
        left_out(len(names), len(records), "models with the most records"),
        left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        *map(lazy, maps) if is_large(stats, limits) else maps,
    )


def _accuracy_heat(model: ModelStats) -> Html:
    return _heat(model.accuracy, ".1%", model.errors)


def _score_heat(model: ModelStats, *, coloured: bool) -> Html:
    return _heat(model.mean_score, ".4g", model.errors, coloured=coloured)


def _heat(value: float | None, spec: str, errors: int = 0, *, coloured: bool = True) -> Html:
    note = tag("small", counted(errors, "error")) if errors else None
    if value is None:
        return short_cell("–", note, class_="none")
    return short_cell(format(value, spec), note, class_=f"h{round(value * 10)}" if coloured else "")
