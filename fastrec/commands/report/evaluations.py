"""Sections about costs and questions."""

import shlex
from collections.abc import Sequence
from glob import escape
from itertools import chain, zip_longest
from typing import Any

from msgspec.structs import replace

from fastrec.answers.costs import ModelCost, total_costs
from fastrec.answers.question_html import question_body
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.shown import read_question, tally_facts
from fastrec.answers.table import Query, QuestionRow, Sort
from fastrec.commands.report.sections import section
from fastrec.filters import Filters
from fastrec.limits import current_limits
from fastrec.pages.html import Cell, Html, number_cell
from fastrec.storage import last_name
from fastrec.summary.present_ranking import Stats
from fastrec.wording import cut_middle, metrics_of, title_of

_LONGEST = 1_000  # characters of a text
_REFERENCE_CHARS = 200
_ANSWERS = 2  # shown of each side: the best models, and the worst
_ANALYSED = 50  # evaluations whose questions are analysed
_SUSPECTS = 50  # questions in the table
_KINDS: dict[Sort, str] = {
    "hardest": "Hardest questions",
    "disagreement": "Most disputed questions",
}


def costs_section(costs: Sequence[ModelCost]) -> Html:
    heads, models, notes = total_costs(costs)
    rows = [
        (model, *(Cell(cell, "num") for cell in cells))
        for model, *cells in models[: current_limits().report_rows]
    ]
    return section("cost_table", heads, rows, len(models), notes)


def suspected_keys(index: QuestionTable, stats: Stats) -> Html:
    """Show questions whose key may be wrong, with what strong models say."""
    rows = []
    for query in _queries(stats)[:_ANALYSED]:
        for item in index.items(query).questions:
            if "suspected_key" in item.flags:
                said = f"{item.agreed_value} ({item.agreed_by:,})" if item.agreed_value else ""
                rows.append(
                    (
                        query.evaluation_name,
                        item.sample_hash[:12],
                        number_cell(item.discrimination, ".2f"),
                        number_cell(item.p_wrong_key, ".2g"),
                        cut_middle(" | ".join(item.references), _REFERENCE_CHARS),
                        cut_middle(said, _REFERENCE_CHARS),
                    )
                )
    return section("suspected_keys", rows[:_SUSPECTS])


def _queries(stats: Stats) -> list[Query]:
    """The queries of the evaluations and metrics that are shown."""
    return [query_of(scope) for scope in stats.evaluations if scope.group is None]


def question_cards(index: QuestionTable, number: int, stats: Stats) -> Html:
    """Show some questions: half are the hardest, half those on which models disagree most.

    Each evaluation has one before any has two.
    """
    queries = _queries(stats)
    corpus = shlex.quote(last_name(index.corpus))
    known = set[tuple[str, str | None, str]]()
    groups = {}
    for sort, title in _KINDS.items():
        most = (number + 1) // 2 if sort == "hardest" else number - len(known)
        pages = index.pages([replace(query, sort=sort) for query in queries], number)
        in_turns = chain(*zip_longest(*(page.rows for page in pages)))
        cards: list[dict[str, Any]] = []
        for question in filter(None, in_turns):
            place = (question.evaluation_name, question.metric, question.name)
            is_wanted = question.disagreement if sort == "disagreement" else question.share != 1
            if question.models and is_wanted and place not in known and len(cards) < most:
                known.add(place)
                cards.append(_card(index, question, corpus))
        if cards:
            groups[title] = cards
    return section("questions", corpus, groups)


def _card(index: QuestionTable, row: QuestionRow, corpus: str) -> dict[str, Any]:
    """A question with answers of the best and worst models."""
    query = Query(evaluation_name=row.evaluation_name, metric=row.metric)
    scope = index.scope(query)
    assert scope  # the row is in it
    metrics = metrics_of(index.scopes)[row.evaluation_name]
    command = f"fastrec show {corpus} {shlex.quote(row.sample_hash[:16])}"
    if row.name != row.sample_hash:
        command += f" --sample-id {shlex.quote(escape(str(row.sample_id)))}"
    outcomes = index.outcomes(query, row.name)
    judged = [model for model, (outcome, _) in outcomes.items() if outcome not in ("error", "none")]
    models = dict.fromkeys([*judged[:_ANSWERS], *judged[-_ANSWERS:]])
    shown = read_question(index, [query], row.name, Filters(), list(models))
    assert shown
    return {
        "title": title_of(row.evaluation_name, row.metric, metrics),
        "excerpt": row.excerpt,
        "facts": [*tally_facts(row, graded=scope.graded), f"sample {row.sample_id}"],
        "command": command,
        "body": question_body(shown, _LONGEST),
    }
