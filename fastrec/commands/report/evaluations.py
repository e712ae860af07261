"""Sections about evaluations and models: tables, costs, questions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import escape
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from fastrec.answers.costs import ModelCost, total_costs
from fastrec.answers.items import Item
from fastrec.answers.pictures import result_of
from fastrec.answers.question_html import question_body
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.shown import ShownAnswer, read_question, tally_facts
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.answers.values import value_rows
from fastrec.commands.report.charts import left_out
from fastrec.errors import counted
from fastrec.filters import Filters
from fastrec.html import (
    Html,
    details,
    each,
    html,
    joined,
    num,
    row,
    short_cell,
    short_row,
    soft,
    table,
)
from fastrec.limits import current_limits
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
from fastrec.wording import cut_middle, metrics_of, title_of, tokens_text

_PLUS_MINUS: Final = "±: one standard error of the mean score, over questions."


def evaluation_tables(stats: Stats, everything: Stats) -> Html:
    """Show all models of each evaluation, the best first.

    The evaluations without a table share one.
    """
    most = max(current_limits().report_rows // max(len(stats.evaluations), 1), 10)
    lines = soft(" ".join(legend(stats))) if stats.evaluations else None
    tables = [
        _evaluation(scope, most, accuracy=stats.shows_accuracy(scope))
        for scope in stats.evaluations
    ]
    others = None if stats is everything else _other_evaluations(stats, everything)
    return joined(lines, tables, others)


def _other_evaluations(stats: Stats, everything: Stats) -> Html:
    shown = {id(evaluation) for evaluation in stats.evaluations}
    others = [evaluation for evaluation in everything.evaluations if id(evaluation) not in shown]
    rows = []
    for evaluation in others[: current_limits().report_other_scopes]:
        best = evaluation.by_model[0]
        result = result_of(best, accuracy=stats.shows_accuracy(evaluation))
        counts = map(_number, (evaluation.models, evaluation.questions, evaluation.records))
        cells = (*counts, short_cell(best.model_id), _number(result.value, result.spec))
        rows.append(short_row(evaluation.title, cells))
    title = f"{counted(len(others), 'other evaluation')}, with fewer records"
    heads = ("evaluation", "models", "questions", "records", "best model", "accuracy or score")
    note = left_out(len(rows), len(others), "other evaluations")
    return joined(table(title, heads, rows), note)


def _evaluation(evaluation: EvaluationStats, most: int, *, accuracy: bool) -> Html:
    models = evaluation.by_model[:most]
    columns = dict(_columns(evaluation, models, accuracy=accuracy))
    rows = [
        short_row(model.model_id, (cell(model) for cell in columns.values())) for model in models
    ]
    title = f"{evaluation.title}: {about(evaluation)}"
    notes = list(unranked_in_words(evaluation))
    if accuracy and any(model.score_standard_error is not None for model in models):
        notes.insert(0, _PLUS_MINUS)
    best = "models with the highest score" if evaluation.by == "score" else "most accurate models"
    return joined(
        table(title, ["model", *columns], rows, class_="models"),
        map(soft, notes),
        left_out(len(models), len(evaluation.by_model), best),
    )


def _columns(
    evaluation: EvaluationStats, models: Sequence[ModelStats], *, accuracy: bool
) -> Iterator[tuple[str, Callable[[ModelStats], Html]]]:
    """Yield the heads and cells of a table; columns that would say nothing are left out."""
    if any(model.rank for model in models):
        yield "rank", lambda model: short_cell(model.rank or "–")
    measure = "accuracy" if accuracy else "score"
    yield f"{measure}, 95% interval", partial(_result, accuracy=accuracy)
    if evaluation.errors:
        yield _column("errors")
    if accuracy:
        yield "score", _plain_score
    if has_repeats(evaluation):
        yield _column("questions")
        yield _column("answers")
        yield _column("answers/question", "answers_per_question", ".3g")
    else:
        yield _column("n", "questions")
    yield _column("coverage", "coverage", ".1%")
    if any(model.tokens.records for model in models):
        yield "tokens", lambda model: short_cell(tokens_text(from_portable(model.tokens.total)))
        yield _column("tokens/record", "tokens_per_record", ",.0f")
    if any(model.latency_ms.records for model in models):
        yield "latency p50 · p90 · p99, ms", _latency


def _column(
    head: str, field: str = "", spec: str = ","
) -> tuple[str, Callable[[ModelStats], Html]]:
    return head, lambda model: _number(getattr(model, field or head), spec)


def _plain_score(model: ModelStats) -> Html:
    error = model.score_standard_error
    note = None if error is None else html("<small> ± {}</small>", f"{error:.2g}")
    return _number(model.mean_score, ".4g", note)


def _latency(model: ModelStats) -> Html:
    latency = model.latency_ms
    quantiles = [value for value in (latency.p50, latency.p90, latency.p99) if value is not None]
    return short_cell(" · ".join(f"{value:,.0f}" for value in quantiles))


def _result(model: ModelStats, *, accuracy: bool) -> Html:
    value, low, high, spec = result_of(model, accuracy=accuracy)
    if value is None:
        return short_cell("–")
    if low is None or high is None:
        return _number(value, spec)
    interval = f" {low:{spec}} to {high:{spec}}"
    if accuracy:
        interval = f" {100 * low:.1f}–{high:.1%}"
    return _number(value, spec, html("<small>{}</small>", interval))


def _number(value: float | None, spec: str = ",", *more: Html | None) -> Html:
    return short_cell() if value is None else short_cell(format(value, spec), *more)


def costs_table(costs: Sequence[ModelCost]) -> Html:
    heads, models, notes = total_costs(costs)
    if not models:
        return Html("")
    most = current_limits().report_rows
    rows = [row(model, each('<td class="num">{}</td>', cells)) for model, *cells in models[:most]]
    return joined(
        table("Cost by model, over evaluations", heads, rows),
        left_out(most, len(models), "models"),
        map(soft, notes),
    )


# The hardest and the most disputed questions, with answers that differ. Half of them are the
# hardest and half the most disputed. Of each kind, the first question of every evaluation and
# metric comes before the second of any, so that one evaluation does not take all the places.

_Kind = Literal["hardest", "disagreement"]
_LONGEST: Final = 1_000  # characters of a text
_REFERENCE_CHARS: Final = 200
_ANSWERS: Final = 2  # shown of each side: the best models, and the worst
_READ: Final = 8  # answers of each side to choose from: those shown should differ
# Questions of a scope to choose from: of equally hard ones, those that most models answered.
_CANDIDATES: Final = 50


class _Question(NamedTuple):
    scope: Scope
    row: QuestionRow


_ANALYSED: Final = 50  # evaluations whose questions are analysed
_SUSPECTS: Final = 50  # questions in the table


def suspected_keys(index: QuestionTable, stats: Stats) -> Html:
    """Show questions whose key may be wrong, with what strong models say."""
    names = {(scope.evaluation_name, scope.metric) for scope in stats.evaluations[:_ANALYSED]}
    rows = []
    for scope in index.scopes:
        if (scope.evaluation_name, scope.metric) in names:
            items = index.items(query_of(scope)).questions
            suspects = (item for item in items if "suspected_key" in item.flags)
            rows += [_suspect_row(scope, item) for item in suspects]
    heads = ("evaluation", "question", "discrimination", "p", "reference", "strong models say")
    frame = table("Questions whose key may be wrong", heads, rows[:_SUSPECTS])
    if not rows:
        return frame
    note = soft("Strong models fail where weak ones succeed; see `fastrec items`.")
    return joined(note, frame)


def _suspect_row(scope: Scope, item: Item) -> Html:
    said = f"{item.agreed_value} ({item.agreed_by:,})" if item.agreed_value else ""
    return row(
        scope.evaluation_name,
        item.sample_hash[:12],
        num(item.discrimination, ".2f"),
        num(item.p_wrong_key, ".2g"),
        cut_middle(" | ".join(item.references), _REFERENCE_CHARS),
        cut_middle(said, _REFERENCE_CHARS),
    )


def question_cards(index: QuestionTable, number: int, corpus: str, stats: Stats) -> Html:
    """Show some questions of evaluations.

    `corpus` is the name of the corpus in the command that shows all of them.
    """
    names = {(scope.evaluation_name, scope.metric) for scope in stats.evaluations}
    scopes = [scope for scope in index.scopes if (scope.evaluation_name, scope.metric) in names]
    hardest = _choose(index, scopes, "hardest", (number + 1) // 2)
    disputed = _choose(index, scopes, "disagreement", number - len(hardest), hardest)
    if len(hardest) + len(disputed) < number:
        hardest = _choose(index, scopes, "hardest", number - len(disputed), disputed)
    groups = [
        html(
            '<h3 class="group">{}</h3>{}',
            title,
            (_card(index, question, corpus) for question in questions),
        )
        for title, questions in (
            ("Hardest questions", hardest),
            ("Most disputed questions", disputed),
        )
        if questions
    ]
    if not groups:
        return Html("")
    about = (
        '<p class="soft">Hardest: the smallest share of models is right. Most disputed: about half '
        "of them are, or scores differ most. Each evaluation has one before any has two. All "
        "questions: <code>fastrec questions {}</code></p>{}"
    )
    return html(about, shlex.quote(corpus), groups)


def _choose(
    index: QuestionTable,
    scopes: Sequence[Scope],
    kind: _Kind,
    number: int,
    others: Sequence[_Question] = (),
) -> list[_Question]:
    """Choose questions besides others: the best of each scope by `_rank`, then the second best."""
    known = {(question.scope, question.row.name) for question in others}
    ranked: list[tuple[int, tuple[Any, ...], _Question]] = []
    for scope in scopes if number else ():
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, sort=kind)
        rows = index.page(query, limit=max(_CANDIDATES, 2 * number)).rows
        candidates = [
            (_rank(kind, scope, row), _Question(scope, row))
            for row in rows
            if _is_of(kind, scope, row) and (scope, row.name) not in known
        ]
        best = sorted(candidates, key=itemgetter(0))[:number]
        ranked += ((place, *candidate) for place, candidate in enumerate(best))
    ranked.sort(key=itemgetter(0, 1))
    return [question for _, _, question in ranked[:number]]


def _is_of(kind: _Kind, scope: Scope, row: QuestionRow) -> bool:
    if kind == "disagreement":
        return bool(row.disagreement)
    return row.models > 0 and (scope.graded or row.share != 1)


def _rank(kind: _Kind, scope: Scope, row: QuestionRow) -> tuple[float, int, str, str, str]:
    value = row.mean_score if scope.graded else row.share
    first = min(max(value or 0.0, 0.0), 1.0)
    if kind == "disagreement":
        first = -(row.disagreement or 0.0)
    elif scope.lower_is_better:
        first = 1 - first
    return first, -row.models, scope.evaluation_name, scope.metric or "", row.name


def _card(index: QuestionTable, question: _Question, corpus: str) -> Html:
    scope, row = question
    title = title_of(
        scope.evaluation_name, scope.metric, metrics_of(index.scopes)[scope.evaluation_name]
    )
    command = f"fastrec show {shlex.quote(corpus)} {shlex.quote(row.sample_hash[:16])}"
    if row.name != row.sample_hash:
        command += f" --sample-id {shlex.quote(escape(str(row.sample_id)))}"
    facts = "; ".join([*tally_facts(row, graded=scope.graded), f"sample {row.sample_id}"])
    shown = read_question(index, [query_of(scope)], row.name, Filters(), _models(index, question))
    assert shown  # the row is in the scope
    shown.answers = _different(shown.answers, lower=scope.lower_is_better)
    note = html('<p class="soft">All answers, in full: <code>{}</code></p>', command)
    summary = html('<b>{}</b>: {} <span class="soft">{}</span>', title, row.excerpt, facts)
    body = question_body(shown, _LONGEST)
    return html('<article class="question">{}</article>', details(summary, body, note))


def _models(index: QuestionTable, question: _Question) -> list[str]:
    """Choose a few of the best models and of the worst."""
    scope, row = question
    query = Query(
        evaluation_name=scope.evaluation_name, metric=scope.metric, hashes=(row.sample_hash,)
    )
    values = dict(zip(scope.models, value_rows(index, query, scope.models)[row.name], strict=True))
    sign = 1 if scope.lower_is_better else -1
    known = ((sign * value, model) for model, value in values.items() if value is not None)
    ranked = [model for _, model in sorted(known)]
    return list(dict.fromkeys([*ranked[:_READ], *ranked[-_READ:]]))


def _different(answers: Sequence[ShownAnswer], *, lower: bool) -> list[ShownAnswer]:
    """Choose the best and the worst answers of those with different texts or scores."""
    by_text: dict[tuple[float, str], ShownAnswer] = {}
    for answer in answers:
        verdict = answer.verdicts[0]
        if verdict.outcome != "error":
            by_text.setdefault((verdict.score, answer.turns[-1].text), answer)
    scores = sorted(by_text, key=itemgetter(0), reverse=not lower)
    distinct = [by_text[key] for key in scores]
    return [*distinct[:_ANSWERS], *distinct[_ANSWERS:][-_ANSWERS:]]
