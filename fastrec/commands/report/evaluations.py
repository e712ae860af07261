"""Sections about evaluations and models: heat maps, a table for each evaluation, distributions, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from fastrec.commands.report.charts import bar, histogram, latency_range, latency_scale
from fastrec.errors import counted
from fastrec.html import Html, joined, num, row, table, tag
from fastrec.limits import Limits
from fastrec.summary.document import Summary
from fastrec.summary.legend import about, has_repeats, legend
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats
from fastrec.summary.rows import from_portable
from fastrec.summary.titles import metrics_of

__all__ = ["evaluation_tables", "heat_maps", "histograms", "tokens"]

_REPEATS: Final = ("questions", "answers", "answers/question")
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
        none = tag("td", "", class_="num none")
        columns = list(zip(cells, by_model, strict=True))
        rows = [row(name, *(cell(found[name]) if name in found else none for cell, found in columns)) for name in names]
        return table(title, heads, rows, class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT))

    accuracies = list(map(stats.shows_accuracy, evaluations))
    title = "Accuracy of models on evaluations" if any(accuracies) else "Mean score of models on evaluations"
    if any(accuracies) and not all(accuracies):
        title += "; the mean score where scores are other than 0 and 1"
    results = [
        _accuracy_heat if accuracy else partial(_score_heat, coloured=_are_shares(one.by_model))
        for one, accuracy in zip(evaluations, accuracies, strict=True)
    ]
    coverage = "Coverage: the share of an evaluation's questions that a model answered"
    return joined(
        _left_out(len(names), len(records), "models with the most records"),
        _left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        map_of(title, "accuracy", results),
        map_of(coverage, "coverage", [lambda model: _heat(model.coverage, ".1%")] * len(evaluations)),
    )


def _accuracy_heat(model: ModelStats) -> Html:
    return _heat(model.accuracy, ".1%", model.errors)


def _score_heat(model: ModelStats, *, coloured: bool) -> Html:
    return _heat(model.mean_score, ".4g", model.errors, coloured=coloured)


def _heat(value: float | None, spec: str, errors: int = 0, *, coloured: bool = True) -> Html:
    note = tag("small", counted(errors, "error")) if errors else None
    colour = "none" if value is None else f"h{round(value * 10)}" if coloured else "h0"
    return num(value, spec, note, class_=f"num {colour}", none="–")


def _are_shares(models: Sequence[ModelStats]) -> bool:
    """Return whether all mean scores are from 0 to 1, so that they can be drawn like an accuracy."""
    return all(0 <= model.mean_score <= 1 for model in models if model.mean_score is not None)


def evaluation_tables(stats: Stats, limits: Limits) -> Html:
    """Show all models of each evaluation, the best first."""
    most = max(limits.report_rows // max(len(stats.evaluations), 1), 10)
    lines = tag("p", " ".join(legend(stats)), class_="soft") if stats.evaluations else Html("")
    return joined(lines, *(_evaluation(one, most, accuracy=stats.shows_accuracy(one)) for one in stats.evaluations))


def _evaluation(evaluation: EvaluationStats, most: int, *, accuracy: bool) -> Html:
    models = evaluation.by_model[:most]
    latencies = [model.latency_ms for model in models]
    scale = latency_scale([value for one in latencies for value in (one.p50, one.p99) if value is not None])
    columns = _Columns(
        accuracy=accuracy,
        bars=_are_shares(models),
        latency=scale,
        repeats=has_repeats(evaluation),
        errors=evaluation.errors > 0,
        tokens=any(model.tokens.records for model in models),
    )
    rows = [row(model.model_id, *columns.cells(model)) for model in models]
    best = "models with the highest score" if evaluation.by == "score" else "most accurate models"
    left_out = _left_out(len(models), len(evaluation.by_model), best)
    title = f"{evaluation.title}: {about(evaluation)}"
    return joined(table(title, columns.heads(), rows, class_="models"), left_out)


class _Columns(NamedTuple):
    """The columns of the table of an evaluation. Those that would say nothing are left out."""

    accuracy: bool
    """Whether to show the accuracy. If not, the score takes its place."""
    bars: bool
    """Whether scores are drawn."""
    latency: tuple[float, float] | None
    """The scale of latencies, if there are any."""
    repeats: bool
    errors: bool
    tokens: bool

    def heads(self) -> list[str]:
        heads = ["model", f"{'accuracy' if self.accuracy else 'score'}, 95% interval", *["errors"] * self.errors]
        heads += ["score"] * self.accuracy
        heads += [*(_REPEATS if self.repeats else ["n"]), "coverage", *["tokens/record"] * self.tokens]
        return heads + ["latency p50 · p99, ms"] * (self.latency is not None)

    def cells(self, model: ModelStats) -> Iterator[Html]:
        yield _accuracy(model) if self.accuracy else _score(model, bars=self.bars)
        if self.errors:
            yield num(model.errors)
        if self.accuracy:
            yield num(model.mean_score, ".4g", _error(model.score_standard_error, ".2g"))
        yield num(model.questions)
        if self.repeats:
            yield num(model.answers)
            yield num(model.answers_per_question, ".3g")
        yield num(model.coverage, ".1%")
        if self.tokens:
            yield num(model.tokens_per_record, ",.0f")
        if self.latency is not None:
            latency = model.latency_ms
            p99 = None if latency.p99 is None else f" · {latency.p99:,.0f}"
            quantiles = (latency.p50, latency.p90, latency.p99)
            yield num(latency.p50, ",.0f", p99, latency_range(quantiles, self.latency))


def _accuracy(model: ModelStats) -> Html:
    accuracy, low, high = model.accuracy, model.accuracy_low, model.accuracy_high
    if accuracy is None or low is None or high is None:
        return num(None, none="–")
    return num(accuracy, ".1%", tag("small", f" {100 * low:.1f}–{high:.1%}"), bar(accuracy, low, high))


def _score(model: ModelStats, *, bars: bool) -> Html:
    score, low, high = model.mean_score, model.score_low, model.score_high
    if score is None or low is None or high is None:
        return num(score, ".4g", none="–")
    interval = tag("small", f" {low:.4g} to {high:.4g}")
    return num(score, ".4g", interval, bar(score, max(low, 0), min(high, 1)) if bars else None)


def _error(error: float | None, spec: str) -> Html | None:
    return None if error is None else tag("small", f" ± {error:{spec}}")


def histograms(stats: Stats, limits: Limits) -> Html:
    """Show the distribution of scores and latencies over the models of each evaluation."""
    cards = []
    for evaluation in stats.evaluations[: limits.report_charts]:
        scores = [model.mean_score for model in evaluation.by_model if model.mean_score is not None]
        latencies = [model.latency_ms.p50 for model in evaluation.by_model if model.latency_ms.p50 is not None]
        by_latency = histogram("Median latency, logarithmic", latencies, unit=" ms", logarithmic=True)
        charts = joined(histogram("Mean score", scores), by_latency)
        if charts:
            cards.append(tag("article", tag("h3", evaluation.title), charts))
    if not cards:
        return Html("")
    return joined(
        tag("p", "Number of models by mean score and by median latency, for each evaluation.", class_="soft"),
        tag("div", *cards, class_="cards"),
        _left_out(min(len(stats.evaluations), limits.report_charts), len(stats.evaluations), "evaluations"),
    )


def tokens(summary: Summary, limits: Limits) -> Html:
    """Show the tokens of each model, over all evaluations."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for evaluation in summary.evaluations:
        for model in evaluation.by_model:
            used, key = model.tokens, (model.model_id, evaluation.evaluation_name)
            if used.records:
                counts = (model.records, used.records, *map(from_portable, (used.input, used.output, used.total)))
                # All metrics of an evaluation are about the same answers, so their tokens are not added up.
                found[key] = max(found.get(key, counts), counts, key=itemgetter(1))
    sums: dict[str, list[int]] = {}
    for (name, _), counts in found.items():
        total = sums.get(name, [0] * len(counts))
        sums[name] = [sum(pair) for pair in zip(total, counts, strict=True)]
    if not sums:
        return tag("p", "No record has token counts.")
    rows = [row(name, *map(_big, counts)) for name, counts in sorted(sums.items(), key=lambda item: -item[1][-1])]
    heads = ("model", "records", "with token counts", "input", "output", "total")
    title = "Tokens by model, over the evaluations that have token counts for it"
    if len(metrics_of(summary.evaluations)) < len(summary.evaluations):
        title += "; of an evaluation with several metrics, the metric with the most token counts"
    left_out = _left_out(min(len(rows), limits.report_rows), len(rows), "models with the most tokens")
    return joined(table(title, heads, rows[: limits.report_rows]), left_out)


def _big(count: int) -> Html:
    """Make a cell with a count that may be too large for a double."""
    try:
        return num(count, ",.0f" if count < 1 << 53 else ".4g")
    except OverflowError:
        return tag("td", "huge", class_="num", data_v="Infinity")


def _left_out(shown: int, total: int, what: str) -> Html:
    if shown >= total:
        return Html("")
    return tag("p", f"Shown: {shown:,} of {total:,} {what}; `fastrec stats` lists all.", class_="soft")
