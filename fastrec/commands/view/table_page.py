"""The start page, questions found by hash or id, and the table of questions with its filters."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec.structs import replace

from fastrec.answers.board import Leaderboard
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Page, Query, QuestionRow, Scope
from fastrec.commands.view.addresses import (
    LARGEST_PAGE,
    MOST,
    PAGE_SIZE,
    PageState,
    Pairs,
    Site,
    all_questions,
    number_text,
    state_pairs,
)
from fastrec.errors import counted
from fastrec.pages.html import Html
from fastrec.where import exact_condition
from fastrec.wording import even_scores, found_in, percent, titles_in


def metric_name(metric: str | None) -> str:
    """Name a metric; records without one have none."""
    return "no metric" if metric is None else metric or "empty name"


def start_page(site: Site, index: QuestionTable, board: Leaderboard | None) -> Html:
    by_name = groupby(index.scopes, attrgetter("evaluation_name"))
    evaluations = [list(scopes) for _, scopes in by_name]
    questions = sum(max(scope.questions for scope in scopes) for scopes in evaluations)
    return site.page(
        "start",
        "Overview",
        index=index,
        evaluations=evaluations,
        questions=questions,
        board=board,
    )


def found_page(
    site: Site, index: QuestionTable, text: str, questions: Sequence[QuestionRow], progress: str
) -> Html:
    """List models, evaluations and questions that a text names, and scopes that have the text.

    `progress` says how far the search for the text is; it is empty if it is done.
    """
    title_of = titles_in(index.scopes)
    rows = [("model", site.models("model", model), model, "") for model in index.models]
    for scope in index.scopes:
        about = counted(scope.questions, "question")
        rows.append(("evaluation", site.scope(scope), title_of(scope), about))
    rows = [row for row in rows if text.casefold() in row[2].casefold()]
    for row in questions:
        about = f"{title_of(row)} · {row.excerpt}"
        rows.append(("question", site.question(row), str(row.sample_id), about))
    for scope, records in () if progress else index.found_scopes(text):
        address = site.query(replace(all_questions(scope), text=text))
        rows.append(("text", address, title_of(scope), f"in {counted(records, 'record')}"))
    return site.page(
        "found",
        f"{len(rows):,} found",
        [("find", None)],
        text=text,
        progress=progress,
        rows=rows[:MOST],
    )


_MOST_KEYS = 4  # columns of metadata
# What the form has fields for, and what does not stay.
_FIELDS = {"text", "in", "where", "which", "right", "wrong", "least", "most", "model"}
_OF_PAGE = {"page", "show", "differences", "whole"}


def table_page(
    site: Site, index: QuestionTable, scope: Scope, state: PageState, page: Page, *, problem: str
) -> Html:
    """Show one page of the table, or why there is none, with filters and links to other pages."""
    query = state.query
    shown = _FIELDS | _OF_PAGE
    hidden = [(name, value) for name, value in state_pairs(state) if name not in shown]
    used = {key for row in page.rows for key in row.metadata}
    known = dict.fromkeys(key for key, _ in index.fields)
    keys = [key for key in known if key in used]
    scores = even_scores(row.mean_score for row in page.rows)
    return site.page(
        "questions",
        query.evaluation_name,
        [(query.evaluation_name, None)],
        scope=scope,
        state=state,
        page=page,
        problem=problem,
        metrics=metric_links(index, query, lambda metric: site.asking(state, metric=metric)),
        fields=index.fields,
        sizes=(PAGE_SIZE, LARGEST_PAGE),
        keys=keys[:_MOST_KEYS],
        condition=exact_condition,
        rows=[
            (row, score if scope.graded else percent(row.share))
            for row, score in zip(page.rows, scores, strict=True)
        ],
        found_in=found_in,
        hidden=hidden,
        most_models=MOST,
        number_text=number_text,
    )


def metric_links(index: QuestionTable, query: Query, address: Callable[[str | None], str]) -> Pairs:
    """The metrics of an evaluation, and the addresses of the same page in the others."""
    return [
        (metric_name(scope.metric), "" if scope.metric == query.metric else address(scope.metric))
        for scope in index.scopes
        if scope.evaluation_name == query.evaluation_name
    ]
