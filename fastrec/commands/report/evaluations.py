"""Sections about evaluations and models: a table for each evaluation, distributions, tokens, questions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import escape
from operator import itemgetter
from typing import Any, Final, Literal

from fastrec.answers.costs import ModelCost, total_costs
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.reading import Answer
from fastrec.answers.shown import tally_facts
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.answers.transcript import Transcript, transcript_of
from fastrec.answers.values import value_rows
from fastrec.commands.report.charts import (
    are_shares,
    gallery,
    histogram,
    is_large,
    left_out,
    result_of,
    short,
)
from fastrec.errors import counted
from fastrec.html import (
    Html,
    joined,
    lazy,
    multiline,
    num,
    row,
    short_cell,
    short_row,
    soft,
    table,
    tag,
)
from fastrec.limits import current_limits
from fastrec.summary.document import Summary
from fastrec.summary.present_ranking import (
    EvaluationStats,
    ModelStats,
    Stats,
    about,
    has_repeats,
    legend,
    unranked_in_words,
)
from fastrec.summary.rows import from_portable
from fastrec.wording import metrics_of, score_text, title_of

_PLUS_MINUS: Final = "±: one standard error of the mean score, over questions."


def evaluation_tables(stats: Stats, everything: Stats) -> Html:
    """Show all models of each evaluation, the best first.

    The evaluations without a table share one.
    """
    most = max(current_limits().report_rows // max(len(stats.evaluations), 1), 10)
    lines = soft(" ".join(legend(stats))) if stats.evaluations else Html("")
    large = is_large(stats)
    tables = [
        _evaluation(one, most, accuracy=stats.shows_accuracy(one), drawn=not large)
        for one in stats.evaluations
    ]
    others = Html("") if stats is everything else _other_evaluations(stats, everything)
    return joined(lines, *map(lazy, tables) if large else tables, others)


def _other_evaluations(stats: Stats, everything: Stats) -> Html:
    shown = {id(one) for one in stats.evaluations}
    others = [one for one in everything.evaluations if id(one) not in shown]
    rows = []
    for one in others[: current_limits().report_other_scopes]:
        best = one.by_model[0]
        value, _, _, spec = result_of(best, accuracy=stats.shows_accuracy(one))
        counts = map(_number, (one.models, one.questions, one.records))
        rows.append(short_row(one.title, *counts, short_cell(best.model_id), _number(value, spec)))
    title = f"{counted(len(others), 'other evaluation')}, with fewer records"
    heads = ("evaluation", "models", "questions", "records", "best model", "accuracy or score")
    return joined(
        lazy(table(title, heads, rows)), left_out(len(rows), len(others), "other evaluations")
    )


def _evaluation(evaluation: EvaluationStats, most: int, *, accuracy: bool, drawn: bool) -> Html:
    models = evaluation.by_model[:most]
    columns = dict(_columns(evaluation, models, accuracy=accuracy, drawn=drawn))
    rows = [
        short_row(model.model_id, *(cell(model) for cell in columns.values())) for model in models
    ]
    best = "models with the highest score" if evaluation.by == "score" else "most accurate models"
    title = f"{evaluation.title}: {about(evaluation)}"
    all_of_them = table(title, ["model", *columns], rows, class_="models")
    explained = any(model.score_standard_error is not None for model in models) and accuracy
    notes = [*([_PLUS_MINUS] if explained else []), *unranked_in_words(evaluation)]
    return joined(
        all_of_them, *map(soft, notes), left_out(len(models), len(evaluation.by_model), best)
    )


def _columns(
    evaluation: EvaluationStats, models: Sequence[ModelStats], *, accuracy: bool, drawn: bool
) -> Iterator[tuple[str, Callable[[ModelStats], Html]]]:
    """Yield the heads and cells of a table; columns that would say nothing are left out.

    `drawn` cells have small charts. On a large page, they would be most of it.
    """
    if any(model.rank for model in models):
        yield "rank", lambda model: short_cell(model.rank or "–")
    drawable = drawn and (accuracy or are_shares(models))
    measure = "accuracy" if accuracy else "score"
    yield f"{measure}, 95% interval", partial(_result, accuracy=accuracy, drawn=drawable)
    if evaluation.errors:
        yield "errors", lambda model: _number(model.errors)
    if accuracy:
        yield "score", _plain_score
    if has_repeats(evaluation):
        yield "questions", lambda model: _number(model.questions)
        yield "answers", lambda model: _number(model.answers)
        yield "answers/question", lambda model: _number(model.answers_per_question, ".3g")
    else:
        yield "n", lambda model: _number(model.questions)
    yield "coverage", lambda model: _number(model.coverage, ".1%")
    if any(model.tokens.records for model in models):
        yield "tokens/record", lambda model: _number(model.tokens_per_record, ",.0f")
    latencies = [
        value for model in models for value in (model.latency_ms.p50, model.latency_ms.p99) if value
    ]
    if latencies:
        scale = math.log(min(latencies)), math.log(max(latencies))
        yield "latency p50 · p90 · p99, ms", partial(_latency, scale=scale, drawn=drawn)


def _plain_score(model: ModelStats) -> Html:
    error = model.score_standard_error
    return _number(
        model.mean_score, ".4g", None if error is None else tag("small", f" ± {error:.2g}")
    )


def _latency(model: ModelStats, *, scale: tuple[float, float], drawn: bool) -> Html:
    quantiles = (model.latency_ms.p50, model.latency_ms.p90, model.latency_ms.p99)
    spelled = " · ".join(f"{value:,.0f}" for value in quantiles if value is not None)
    return short_cell(spelled, _latency_range(quantiles, scale) if drawn else None)


def _result(model: ModelStats, *, accuracy: bool, drawn: bool) -> Html:
    value, low, high, spec = result_of(model, accuracy=accuracy)
    if value is None:
        return short_cell("–")
    if low is None or high is None:
        return _number(value, spec)
    interval = f" {100 * low:.1f}–{high:.1%}" if accuracy else f" {low:{spec}} to {high:{spec}}"
    return _number(
        value,
        spec,
        tag("small", interval),
        _bar(value, max(low, 0), min(high, 1)) if drawn else None,
    )


def _number(value: float | None, spec: str = ",", *more: Html | None) -> Html:
    return short_cell() if value is None else short_cell(format(value, spec), *more)


_WIDTH: Final = 90
_HEIGHT: Final = 12


def _bar(share: float, low: float, high: float) -> Html:
    """Draw a share from 0 to 1, with a line from the lower to the upper end of its interval."""
    return _small(
        tag("rect", class_="track", y=3, width=_WIDTH, height=6),
        tag("rect", class_="fill", x=0, y=3, width=short(share * _WIDTH), height=6),
        tag("line", class_="whisker", x1=short(low * _WIDTH), x2=short(high * _WIDTH), y1=6, y2=6),
    )


def _latency_range(quantiles: Sequence[float | None], scale: tuple[float, float]) -> Html:
    """Draw the median as a dot, the 90th percentile as a thick line and the 99th as a thin one."""
    if None in quantiles:
        return Html("")
    low, high = scale
    positions = [
        4 + (_WIDTH - 8) * ((math.log(value) - low) / (high - low) if value and high > low else 0)
        for value in quantiles
    ]
    p50, p90, p99 = map(short, positions)
    return _small(
        tag("line", class_="thin", x1=p50, x2=p99, y1=6, y2=6),
        tag("line", class_="thick", x1=p50, x2=p90, y1=6, y2=6),
        tag("circle", cx=p50, cy=6, r=3),
    )


def _small(*parts: Html) -> Html:
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag(
        "svg", *parts, class_="small", width=_WIDTH, height=_HEIGHT, viewBox=box, aria_hidden="true"
    )


def histograms(stats: Stats, everything: Stats) -> Html:
    about = "Number of models by mean score and by median latency, for each evaluation."
    return gallery(about, map(_histograms, stats.evaluations), "cards", stats, everything)


def _histograms(evaluation: EvaluationStats) -> Html:
    scores = [model.mean_score for model in evaluation.by_model if model.mean_score is not None]
    latencies = [
        model.latency_ms.p50 for model in evaluation.by_model if model.latency_ms.p50 is not None
    ]
    by_latency = histogram("Median latency, logarithmic", latencies, unit=" ms", logarithmic=True)
    charts = joined(histogram("Mean score", scores), by_latency)
    return tag("article", tag("h3", evaluation.title), charts) if charts else charts


def tokens(summary: Summary) -> Html:
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for evaluation in summary.evaluations:
        for model in evaluation.by_model:
            used = model.tokens
            key = (model.model_id, evaluation.evaluation_name)
            if used.records:
                counts = (
                    model.records,
                    used.records,
                    *map(from_portable, (used.input, used.output, used.total)),
                )
                # All metrics of an evaluation are about the same answers, so their tokens are not
                # added up.
                found[key] = max(found.get(key, counts), counts, key=itemgetter(1))
    sums: dict[str, list[int]] = {}
    for (name, _), counts in found.items():
        total = sums.get(name, [0] * len(counts))
        sums[name] = [sum(pair) for pair in zip(total, counts, strict=True)]
    if not sums:
        return tag("p", "No record has token counts.")
    rows = [
        row(name, *map(_big, counts))
        for name, counts in sorted(sums.items(), key=lambda item: -item[1][-1])
    ]
    heads = ("model", "records", "with token counts", "input", "output", "total")
    title = "Tokens by model, over the evaluations that have token counts for it"
    if len(metrics_of(summary.evaluations)) < len(summary.evaluations):
        title += "; of an evaluation with several metrics, the metric with the most token counts"
    some = rows[: current_limits().report_rows]
    return joined(
        table(title, heads, some), left_out(len(some), len(rows), "models with the most tokens")
    )


def costs_table(costs: Sequence[ModelCost]) -> Html:
    names, found, notes = total_costs(costs)
    most = current_limits().report_rows
    rows = [
        row(model, *(tag("td", cell, class_="num") for cell in cells)) for model, *cells in found
    ]
    made = table("Cost by model, over evaluations", names, rows[:most])
    return joined(made, left_out(most, len(rows), "models"), *map(soft, notes)) if rows else made


def _big(count: int) -> Html:
    """Make a cell with a count that may be too large for a double."""
    try:
        return num(count, ",.0f" if count < 1 << 53 else ".4g")
    except OverflowError:
        return tag("td", "huge", class_="num", data_v="Infinity")


# The hardest and the most disputed questions, with answers that differ. Half of them are the
# hardest and half the most disputed. Of each kind, the first question of every evaluation and
# metric comes before the second of any, so that one evaluation does not take all the places.

_Kind = Literal["hardest", "disagreement"]
_Chosen = tuple[Scope, QuestionRow]
_QUESTION_CHARS: Final = 600
_ANSWER_CHARS: Final = 400
_REFERENCE_CHARS: Final = 200
_REFERENCES: Final = 5
_ANSWERS: Final = 2  # shown of each side: the best models, and the worst
_READ: Final = 8  # answers of each side to choose from: those shown should differ
_CANDIDATES: Final = (
    50  # questions of a scope to choose from: of equally hard ones, those that most models answered
)


def question_cards(index: QuestionTable, number: int, corpus: str, stats: Stats) -> Html:
    """Show some questions of evaluations.

    `corpus` is the name of the corpus in the command that shows all of them.
    """
    names = {(one.evaluation_name, one.metric) for one in stats.evaluations}
    scopes = [scope for scope in index.scopes if (scope.evaluation_name, scope.metric) in names]
    hardest = _choose(index, scopes, "hardest", (number + 1) // 2)
    disputed = _choose(index, scopes, "disagreement", number - len(hardest), hardest)
    if len(hardest) + len(disputed) < number:
        hardest = _choose(index, scopes, "hardest", number - len(disputed), disputed)
    metrics = metrics_of(index.scopes)
    groups = []
    for title, chosen in (("Hardest questions", hardest), ("Most disputed questions", disputed)):
        if chosen:
            cards = [_card(index, one, metrics[one[0].evaluation_name], corpus) for one in chosen]
            groups += [tag("h3", title, class_="group"), tag("div", *cards, class_="questions")]
    if not groups:
        return Html("")
    command = tag("code", f"fastrec questions {shlex.quote(corpus)}")
    about = (
        "Hardest: the smallest share of models is right. Most disputed: about half of them are, "
        "or scores differ most. "
        "Each evaluation has one before any has two. All questions: "
    )
    return joined(soft(about, command), *groups)


def _choose(
    index: QuestionTable,
    scopes: Sequence[Scope],
    kind: _Kind,
    number: int,
    others: Sequence[_Chosen] = (),
) -> list[_Chosen]:
    """Choose questions besides others: the first of each scope, then the second, and so on.

    Each time by `_rank`.
    """
    known = {(scope, row.name) for scope, row in others}
    ranked: list[tuple[Any, _Chosen]] = []
    for scope in scopes:
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, sort=kind)
        rows = index.page(query, limit=max(_CANDIDATES, 2 * number)).rows if number else []
        found = [
            (scope, row)
            for row in rows
            if _is_of(kind, scope, row) and (scope, row.name) not in known
        ]
        best = sorted(((_rank(kind, one), one) for one in found), key=itemgetter(0))[:number]
        ranked += (((place, rank), one) for place, (rank, one) in enumerate(best))
    return [one for _, one in sorted(ranked, key=itemgetter(0))[:number]]


def _is_of(kind: _Kind, scope: Scope, row: QuestionRow) -> bool:
    if kind == "disagreement":
        return bool(row.disagreement)
    return row.models > 0 and (scope.graded or row.share != 1)


def _rank(kind: _Kind, one: _Chosen) -> tuple[float, int, str, str, str]:
    scope, row = one
    value = row.mean_score if scope.graded else row.share
    hard = min(max(value or 0.0, 0.0), 1.0)
    hard = 1 - hard if scope.lower_is_better else hard
    first = -(row.disagreement or 0.0) if kind == "disagreement" else hard
    return first, -row.models, scope.evaluation_name, scope.metric or "", row.name


def _card(index: QuestionTable, chosen: _Chosen, metrics: int, corpus: str) -> Html:
    scope, row = chosen
    best, worst = _answers(index, chosen)
    found = [(answer, transcript_of(answer.line)) for answer in (*best, *worst)]
    asked = found[0][1]
    long = [len(asked.question) > _QUESTION_CHARS, len(asked.references) > _REFERENCES]
    long += [len(text) > _REFERENCE_CHARS for text in asked.references]
    long += [
        len(text) > _ANSWER_CHARS
        for _, told in found
        for text in (told.final_text, ", ".join(told.extracted))
    ]
    command = f"fastrec show {shlex.quote(corpus)} {shlex.quote(row.sample_hash[:16])}"
    if row.name != row.sample_hash:
        command += f" --sample-id {shlex.quote(escape(str(row.sample_id)))}"
    notes = "The text is cut. All answers, in full: " if any(long) else "All answers: "
    return tag(
        "article",
        tag("h4", title_of(scope.evaluation_name, scope.metric, metrics)),
        soft("; ".join([*tally_facts(row, graded=scope.graded), f"sample {row.sample_id}"])),
        tag("div", multiline(_cut(asked.question, _QUESTION_CHARS)), class_="text"),
        _references(asked),
        tag("dl", *(_answer(answer, told, graded=scope.graded) for answer, told in found)),
        soft(notes, tag("code", command)),
        class_="question",
    )


def _answers(index: QuestionTable, chosen: _Chosen) -> tuple[list[Answer], list[Answer]]:
    """Read the answers of a few of the best and of the worst models; if all are alike, only of some."""
    scope, row = chosen
    query = Query(
        evaluation_name=scope.evaluation_name, metric=scope.metric, hashes=(row.sample_hash,)
    )
    values = dict(zip(scope.models, value_rows(index, query, scope.models)[row.name], strict=True))
    sign = 1 if scope.lower_is_better else -1
    ranked = sorted((sign * value, model) for model, value in values.items() if value is not None)
    middle = (ranked[0][0] + ranked[-1][0]) / 2
    best = [model for value, model in ranked if value <= middle][:_READ]
    worst = [model for value, model in reversed(ranked) if value > middle][:_READ]
    read = index.answers(row, [*best, *worst])
    wanted = 2 * _ANSWERS if not worst else _ANSWERS
    return _different(read, best, wanted), _different(read, worst, _ANSWERS)


def _different(answers: Sequence[Answer], models: Sequence[str], number: int) -> list[Answer]:
    """Choose answers of models, one of each, and those that say the same only if there are no others."""
    first = {answer.model_id: answer for answer in reversed(answers) if answer.outcome != "error"}
    there = [first[model] for model in models if model in first]
    said: dict[str, Answer] = {}
    for answer in there:
        said.setdefault(transcript_of(answer.line).final_text, answer)
    chosen = list(said.values())
    chosen += [answer for answer in there if answer not in chosen]
    return chosen[:number]


def _answer(answer: Answer, told: Transcript, *, graded: bool) -> Html:
    verdict = (
        score_text(answer.score) if graded else "right" if answer.outcome == "right" else "wrong"
    )
    kind = "score" if graded else verdict
    turns = f"the last of {counted(len(told.turns), 'turn')}" if len(told.turns) > 1 else ""
    text = told.final_text
    taken = ", ".join(told.extracted)
    differs = taken and taken != text
    extracted = soft(f"taken as the answer: {_cut(taken, _ANSWER_CHARS)}") if differs else None
    name = tag(
        "dt",
        tag("b", verdict, class_=f"verdict {kind}"),
        " ",
        answer.model_id,
        " ",
        tag("small", turns),
    )
    said = tag("div", multiline(_cut(text, _ANSWER_CHARS)) if text else "(nothing)", class_="text")
    return joined(name, tag("dd", said, extracted))


def _references(asked: Transcript) -> Html | None:
    if not asked.references:
        return None
    listed = [_cut(one, _REFERENCE_CHARS) for one in asked.references[:_REFERENCES]]
    more = len(asked.references) - len(listed)
    said = " or ".join(listed) + (f" … and {more:,} more" if more > 0 else "")
    return tag("p", tag("b", "Reference: "), tag("span", multiline(said)), class_="text")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
