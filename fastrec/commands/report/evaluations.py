"""Sections about evaluations and models: a table for each evaluation, distributions, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from fastrec.commands.report.charts import bar, histogram, latency_range, latency_scale
from fastrec.commands.report.scales import are_shares, is_large, left_out
from fastrec.html import Html, joined, lazy, num, row, short_cell, short_row, table, tag
from fastrec.limits import Limits
from fastrec.summary.document import Summary
from fastrec.summary.legend import about, has_repeats, legend
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats
from fastrec.summary.rows import from_portable
from fastrec.summary.titles import metrics_of

__all__ = ["evaluation_tables", "histograms", "tokens"]

_PLUS_MINUS: Final = "±: one standard error of the mean score, over questions."
_REPEATS: Final = ("questions", "answers", "answers/question")


def evaluation_tables(stats: Stats, limits: Limits) -> Html:
    """Show all models of each evaluation, the best first."""
    most = max(limits.report_rows // max(len(stats.evaluations), 1), 10)
    lines = tag("p", " ".join(legend(stats)), class_="soft") if stats.evaluations else Html("")
    large = is_large(stats, limits)
    tables = [_evaluation(one, most, accuracy=stats.shows_accuracy(one), drawn=not large) for one in stats.evaluations]
    return joined(lines, *map(lazy, tables) if large else tables)


def _evaluation(evaluation: EvaluationStats, most: int, *, accuracy: bool, drawn: bool) -> Html:
    models = evaluation.by_model[:most]
    latencies = [model.latency_ms for model in models]
    scale = latency_scale([value for one in latencies for value in (one.p50, one.p99) if value is not None])
    columns = _Columns(
        accuracy=accuracy,
        drawn=drawn,
        bars=are_shares(models),
        latency=scale,
        repeats=has_repeats(evaluation),
        errors=evaluation.errors > 0,
        tokens=any(model.tokens.records for model in models),
    )
    rows = [short_row(model.model_id, *columns.cells(model)) for model in models]
    best = "models with the highest score" if evaluation.by == "score" else "most accurate models"
    title = f"{evaluation.title}: {about(evaluation)}"
    all_of_them = table(title, columns.heads(), rows, class_="models")
    explained = any(model.score_standard_error is not None for model in models) and accuracy
    note = tag("p", _PLUS_MINUS, class_="soft") if explained else Html("")
    return joined(all_of_them, note, left_out(len(models), len(evaluation.by_model), best))


class _Columns(NamedTuple):
    """The columns of the table of an evaluation. Those that would say nothing are left out."""

    accuracy: bool
    """Whether to show the accuracy. If not, the score takes its place."""
    drawn: bool
    """Whether cells have small charts. On a large page, they would be most of it."""
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
        return heads + ["latency p50 · p90 · p99, ms"] * (self.latency is not None)

    def cells(self, model: ModelStats) -> Iterator[Html]:
        yield self._accuracy(model) if self.accuracy else self._score(model)
        if self.errors:
            yield _number(model.errors)
        if self.accuracy:
            yield _number(model.mean_score, ".4g", _error(model.score_standard_error, ".2g"))
        yield _number(model.questions)
        if self.repeats:
            yield _number(model.answers)
            yield _number(model.answers_per_question, ".3g")
        yield _number(model.coverage, ".1%")
        if self.tokens:
            yield _number(model.tokens_per_record, ",.0f")
        if self.latency is not None:
            yield self._latency(model)

    def _latency(self, model: ModelStats) -> Html:
        quantiles = (model.latency_ms.p50, model.latency_ms.p90, model.latency_ms.p99)
        spelled = " · ".join(f"{value:,.0f}" for value in quantiles if value is not None)
        return short_cell(spelled, latency_range(quantiles, self.latency) if self.drawn else None)

    def _accuracy(self, model: ModelStats) -> Html:
        accuracy, low, high = model.accuracy, model.accuracy_low, model.accuracy_high
        if accuracy is None or low is None or high is None:
            return short_cell("–")
        interval = tag("small", f" {100 * low:.1f}–{high:.1%}")
        return _number(accuracy, ".1%", interval, bar(accuracy, low, high) if self.drawn else None)

    def _score(self, model: ModelStats) -> Html:
        score, low, high = model.mean_score, model.score_low, model.score_high
        if score is None or low is None or high is None:
            return _number(score, ".4g") if score is not None else short_cell("–")
        interval = tag("small", f" {low:.4g} to {high:.4g}")
        drawn = self.bars and self.drawn
        return _number(score, ".4g", interval, bar(score, max(low, 0), min(high, 1)) if drawn else None)


def _number(value: float | None, spec: str = ",", *more: Html | None) -> Html:
    return short_cell() if value is None else short_cell(format(value, spec), *more)


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
        left_out(min(len(stats.evaluations), limits.report_charts), len(stats.evaluations), "evaluations"),
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
    some = rows[: limits.report_rows]
    return joined(table(title, heads, some), left_out(len(some), len(rows), "models with the most tokens"))


def _big(count: int) -> Html:
    """Make a cell with a count that may be too large for a double."""
    try:
        return num(count, ",.0f" if count < 1 << 53 else ".4g")
    except OverflowError:
        return tag("td", "huge", class_="num", data_v="Infinity")
