"""Sections about evaluations and models: heat maps, a table for each evaluation, distributions, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from fastrec.commands.report.charts import bar, histogram, latency_range, latency_scale
from fastrec.commands.report.html import Html, counted, decimal, joined, num, percent, row, table, tag
from fastrec.limits import Limits
from fastrec.summary.document import Summary
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats

__all__ = ["evaluation_tables", "heat_maps", "histograms", "tokens"]

_MOST_UPRIGHT: Final = 10  # with more columns their heads are turned, so that many are seen at once


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

    def map_of(title: str, kind: str, value: Callable[[ModelStats], float]) -> Html:
        rows = [row(name, *(_heat(found.get(name), value) for found in by_model)) for name in names]
        return table(title, heads, rows, class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT))

    return joined(
        [
            _left_out(len(names), len(records), "models with the most records"),
            _left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
            map_of("Accuracy of models on evaluations", "accuracy", lambda model: model.accuracy),
            map_of(
                "Coverage: the share of an evaluation's samples that a model answered",
                "coverage",
                lambda model: model.coverage,
            ),
        ]
    )


def _heat(model: ModelStats | None, value: Callable[[ModelStats], float]) -> Html:
    if model is None:
        return num(None, "–", class_="none")
    share = value(model)
    return num(share, percent(share), class_=f"h{round(share * 10)}")


def evaluation_tables(stats: Stats, limits: Limits) -> Html:
    """Show all models of each evaluation, the most accurate first."""
    most = max(limits.report_rows // max(len(stats.evaluations), 1), 10)
    return joined(_evaluation(one, most) for one in stats.evaluations)


def _evaluation(evaluation: EvaluationStats, most: int) -> Html:
    models = evaluation.by_model[:most]
    latencies = [model.latency_ms for model in models]
    scale = latency_scale([value for one in latencies for value in (one.p50, one.p99) if value is not None])
    heads = ["model", "accuracy", "score", "n", "coverage", "errors"]
    with_tokens = any(model.tokens.records for model in models)
    heads += ["tokens each"] * with_tokens + ["latency p50 · p99, ms"] * (scale is not None)
    rows = [_model(model, scale, with_tokens=with_tokens) for model in models]
    counts = ((evaluation.records, "record"), (evaluation.models, "model"), (evaluation.questions, "sample"))
    about = (
        f"{evaluation.evaluation_name}: {', '.join(counted(*count) for count in counts)}, "
        f"{decimal(evaluation.common_questions or 0)} answered by all models"
    )
    return joined(
        [
            table(about, heads, rows, class_="models"),
            _left_out(len(models), len(evaluation.by_model), "most accurate models"),
        ]
    )


def _model(model: ModelStats, scale: tuple[float, float] | None, *, with_tokens: bool) -> Html:
    cells = [
        num(
            model.accuracy,
            percent(model.accuracy),
            _error(model.accuracy_standard_error, "{:.1%}"),
            bar(model.accuracy, model.accuracy_standard_error),
        ),
        num(
            model.mean_score,
            "" if model.mean_score is None else f"{model.mean_score:.4g}",
            _error(model.score_standard_error, "{:.2g}"),
        ),
        num(model.records, decimal(model.records)),
        num(model.coverage, percent(model.coverage)),
        num(model.errors, decimal(model.errors)),
    ]
    if with_tokens:
        each = model.tokens_per_record
        cells.append(num(each, "" if each is None else decimal(each)))
    if scale is not None:
        latency = model.latency_ms
        spelled = "" if latency.p50 is None else f"{latency.p50:,.0f} · {latency.p99:,.0f}"
        drawn = latency_range((latency.p50, latency.p90, latency.p99), scale)
        cells.append(num(latency.p50, spelled, drawn))
    return row(model.model_id, *cells)


def _error(error: float | None, pattern: str) -> Html:
    return Html("") if error is None else tag("small", f" ± {pattern.format(error)}")


def histograms(stats: Stats, limits: Limits) -> Html:
    """Show how the models of each evaluation spread."""
    cards = []
    for evaluation in stats.evaluations[: limits.report_charts]:
        scores = [model.mean_score for model in evaluation.by_model if model.mean_score is not None]
        latencies = [model.latency_ms.p50 for model in evaluation.by_model if model.latency_ms.p50 is not None]
        drawn = [
            histogram("Mean score", scores),
            histogram("Median latency, logarithmic", latencies, unit=" ms", logarithmic=True),
        ]
        if any(drawn):
            cards.append(tag("article", tag("h3", evaluation.evaluation_name), *drawn))
    if not cards:
        return Html("")
    return joined(
        [
            tag("p", "How many models of an evaluation have which mean score and which median latency.", class_="soft"),
            tag("div", *cards, class_="cards"),
            _left_out(min(len(stats.evaluations), limits.report_charts), len(stats.evaluations), "evaluations"),
        ]
    )


def tokens(summary: Summary, limits: Limits) -> Html:
    """Show what each model has read and written, over all evaluations."""
    sums: dict[str, list[int]] = {}
    for evaluation in summary.evaluations:
        for model in evaluation.by_model:
            if model.tokens.records:
                counts = (model.records, model.tokens.records, *map(_number, (model.tokens.input, model.tokens.output)))
                total = sums.setdefault(model.model_id, [0] * 5)
                for place, count in enumerate((*counts, _number(model.tokens.total))):
                    total[place] += count
    if not sums:
        return tag("p", "No record says its tokens.")
    rows = [row(name, *map(_big, counts)) for name, counts in sorted(sums.items(), key=lambda item: -item[1][4])]
    heads = ("model", "records", "that say tokens", "input", "output", "total")
    return joined(
        [
            table("Tokens by model, over evaluations where it says any", heads, rows[: limits.report_rows]),
            _left_out(min(len(rows), limits.report_rows), len(rows), "models with the most tokens"),
        ]
    )


def _number(count: int | str) -> int:
    return int(count, 16) if isinstance(count, str) else count


def _big(count: int) -> Html:
    """Make a cell of a count that may be beyond a double."""
    try:
        return num(count, decimal(float(count)) if count < 1 << 53 else f"{float(count):.4g}")
    except OverflowError:
        return num(float("inf"), "very many")


def _left_out(shown: int, there: int, what: str) -> Html:
    if shown >= there:
        return Html("")
    return tag("p", f"Shown: {decimal(shown)} of {decimal(there)} {what}; fastrec stats lists all.", class_="soft")
