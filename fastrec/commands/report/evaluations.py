"""Sections about evaluations and models: heat maps, a table for each evaluation, distributions, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fastrec.commands.report.charts import bar, histogram, latency_range, latency_scale
from fastrec.commands.report.html import Html, joined, num, row, table, tag
from fastrec.errors import counted
from fastrec.limits import Limits
from fastrec.summary.document import Summary
from fastrec.summary.legend import about, has_repeats, legend
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats
from fastrec.summary.rows import from_portable

__all__ = ["evaluation_tables", "heat_maps", "histograms", "tokens"]

_REPEATS: Final = ("questions", "answers", "answers/question")
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

    def map_of(title: str, kind: str, cell: Callable[[ModelStats], Html]) -> Html:
        none = tag("td", "", class_="num none")
        rows = [row(name, *(cell(found[name]) if name in found else none for found in by_model)) for name in names]
        return table(title, heads, rows, class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT))

    coverage = "Coverage: the share of an evaluation's questions that a model answered"
    return joined(
        _left_out(len(names), len(records), "models with the most records"),
        _left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        map_of("Accuracy of models on evaluations", "accuracy", lambda model: _heat(model.accuracy, model.errors)),
        map_of(coverage, "coverage", lambda model: _heat(model.coverage)),
    )


def _heat(share: float | None, errors: int = 0) -> Html:
    note = tag("small", counted(errors, "error")) if errors else None
    return num(share, ".1%", note, class_="num none" if share is None else f"num h{round(share * 10)}", none="–")


def evaluation_tables(stats: Stats, limits: Limits) -> Html:
    """Show all models of each evaluation, the most accurate first."""
    most = max(limits.report_rows // max(len(stats.evaluations), 1), 10)
    lines = tag("p", " ".join(legend(stats)), class_="soft") if stats.evaluations else Html("")
    return joined(lines, *(_evaluation(one, most) for one in stats.evaluations))


def _evaluation(evaluation: EvaluationStats, most: int) -> Html:
    models = evaluation.by_model[:most]
    latencies = [model.latency_ms for model in models]
    scale = latency_scale([value for one in latencies for value in (one.p50, one.p99) if value is not None])
    columns = _Columns(
        scale, has_repeats(evaluation), evaluation.errors > 0, any(model.tokens.records for model in models)
    )
    rows = [row(model.model_id, *columns.cells(model)) for model in models]
    left_out = _left_out(len(models), len(evaluation.by_model), "most accurate models")
    title = f"{evaluation.evaluation_name}: {about(evaluation)}"
    return joined(table(title, columns.heads(), rows, class_="models"), left_out)


class _Columns(NamedTuple):
    """The columns of the table of an evaluation. Those that would say nothing are left out."""

    latency: tuple[float, float] | None
    """The scale of latencies, if there are any."""
    repeats: bool
    errors: bool
    tokens: bool

    def heads(self) -> list[str]:
        heads = ["model", "accuracy, 95% interval", *["errors"] * self.errors, "score"]
        heads += [*(_REPEATS if self.repeats else ["n"]), "coverage", *["tokens/record"] * self.tokens]
        return heads + ["latency p50 · p99, ms"] * (self.latency is not None)

    def cells(self, model: ModelStats) -> Iterator[Html]:
        accuracy, low, high = model.accuracy, model.accuracy_low, model.accuracy_high
        if accuracy is None or low is None or high is None:
            yield num(None, none="–")
        else:
            interval = tag("small", f" {100 * low:.1f}–{high:.1%}")
            yield num(accuracy, ".1%", interval, bar(accuracy, low, high))
        if self.errors:
            yield num(model.errors)
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
