"""Sections about evaluations and models: heat maps, a table for each evaluation, distributions, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from fastrec.commands.report.charts import bar, histogram, latency_range, latency_scale
from fastrec.commands.report.html import Html, joined, num, row, table, tag
from fastrec.errors import counted
from fastrec.limits import Limits
from fastrec.summary.document import Summary
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats
from fastrec.summary.rows import from_portable

__all__ = ["evaluation_tables", "heat_maps", "histograms", "tokens"]

_MOST_UPRIGHT: Final = 10  # with more columns their headings are rotated


def heat_maps(stats: Stats, limits: Limits) -> Html:
    """Show the accuracy and the coverage of every model on every evaluation."""
    evaluations = sorted(stats.evaluations, key=lambda one: -one.records)[: limits.report_columns]
    evaluations.sort(key=lambda one: one.evaluation_name)
    records: Counter[str] = Counter()
    for evaluation in evaluations:
        records.update({model.model_id: model.records for model in evaluation.by_model})
    if not records:
        return Html("")
    by_model = [{model.model_id: model for model in one.by_model} for one in evaluations]
    names = sorted(name for name, _ in records.most_common(max(limits.report_cells // len(evaluations), 1)))
    heads = ("model", *(one.evaluation_name for one in evaluations))

    def map_of(title: str, kind: str, value: Callable[[ModelStats], float | None]) -> Html:
        rows = [row(name, *(_heat(found.get(name), value) for found in by_model)) for name in names]
        return table(title, heads, rows, class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT))

    coverage = "Coverage: the share of an evaluation's questions that a model answered"
    return joined(
        _left_out(len(names), len(records), "models with the most records"),
        _left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        map_of("Accuracy of models on evaluations", "accuracy", lambda model: model.accuracy),
        map_of(coverage, "coverage", lambda model: model.coverage),
    )


def _heat(model: ModelStats | None, value: Callable[[ModelStats], float | None]) -> Html:
    share = None if model is None else value(model)
    if share is None:
        return tag("td", "–", class_="num none")
    return num(share, ".1%", class_=f"num h{round(share * 10)}")


def evaluation_tables(stats: Stats, limits: Limits) -> Html:
    """Show all models of each evaluation, the most accurate first."""
    most = max(limits.report_rows // max(len(stats.evaluations), 1), 10)
    return joined(*(_evaluation(one, most) for one in stats.evaluations))


def _evaluation(evaluation: EvaluationStats, most: int) -> Html:
    models = evaluation.by_model[:most]
    latencies = [model.latency_ms for model in models]
    scale = latency_scale([value for one in latencies for value in (one.p50, one.p99) if value is not None])
    heads = ["model", "accuracy", "score", "n", "coverage", "errors"]
    with_tokens = any(model.tokens.records for model in models)
    heads += ["tokens/record"] * with_tokens + ["latency p50 · p99, ms"] * (scale is not None)
    rows = [_model(model, scale, with_tokens=with_tokens) for model in models]
    counts = ((evaluation.records, "record"), (evaluation.models, "model"), (evaluation.questions, "question"))
    about = (
        f"{evaluation.evaluation_name}: {', '.join(counted(*count) for count in counts)}, "
        f"{evaluation.common_questions or 0:,} answered by all models"
    )
    left_out = _left_out(len(models), len(evaluation.by_model), "most accurate models")
    return joined(table(about, heads, rows, class_="models"), left_out)


def _model(model: ModelStats, scale: tuple[float, float] | None, *, with_tokens: bool) -> Html:
    accuracy, accuracy_error = model.accuracy, model.accuracy_standard_error
    cells = [
        num(accuracy, ".1%", _error(accuracy_error, ".1%"), "" if accuracy is None else bar(accuracy, accuracy_error)),
        num(model.mean_score, ".4g", _error(model.score_standard_error, ".2g")),
        num(model.records),
        num(model.coverage, ".1%"),
        num(model.errors),
    ]
    if with_tokens:
        cells.append(num(model.tokens_per_record, ",.0f"))
    if scale is not None:
        latency = model.latency_ms
        p99 = None if latency.p99 is None else f" · {latency.p99:,.0f}"
        cells.append(num(latency.p50, ",.0f", p99, latency_range((latency.p50, latency.p90, latency.p99), scale)))
    return row(model.model_id, *cells)


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
            cards.append(tag("article", tag("h3", evaluation.evaluation_name), charts))
    if not cards:
        return Html("")
    return joined(
        tag("p", "Number of models by mean score and by median latency, for each evaluation.", class_="soft"),
        tag("div", *cards, class_="cards"),
        _left_out(min(len(stats.evaluations), limits.report_charts), len(stats.evaluations), "evaluations"),
    )


def tokens(summary: Summary, limits: Limits) -> Html:
    """Show the tokens of each model, over all evaluations."""
    sums: dict[str, list[int]] = {}
    for evaluation in summary.evaluations:
        for model in evaluation.by_model:
            used = model.tokens
            if used.records:
                counts = (model.records, used.records, *map(from_portable, (used.input, used.output, used.total)))
                total = sums.get(model.model_id, [0] * len(counts))
                sums[model.model_id] = [sum(pair) for pair in zip(total, counts, strict=True)]
    if not sums:
        return tag("p", "No record has token counts.")
    rows = [row(name, *map(_big, counts)) for name, counts in sorted(sums.items(), key=lambda item: -item[1][-1])]
    heads = ("model", "records", "with token counts", "input", "output", "total")
    title = "Tokens by model, over the evaluations that have token counts for it"
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
