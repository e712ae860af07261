"""The start page, questions found by hash or id, and the table of questions with its filters."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fastrec.answers.leaderboard import Leaderboard
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Page, Query, QuestionRow, Scope, Sort
from fastrec.commands.view.addresses import (
    LARGEST_PAGE,
    PAGE_SIZE,
    PageState,
    all_questions,
    number_text,
    query_pairs,
)
from fastrec.commands.view.layout import MOST, Frame
from fastrec.errors import counted
from fastrec.html import Html
from fastrec.where import spell_path
from fastrec.wording import even_scores, found_in, metrics_of, percent, title_of


def metric_name(metric: str | None) -> str:
    """Name a metric; records without one have none."""
    return "no metric" if metric is None else metric or "empty name"


def start_page(frame: Frame, index: QuestionTable, board: Leaderboard | None) -> Html:
    by_evaluation: dict[str, list[Scope]] = {}
    for scope in index.scopes:
        by_evaluation.setdefault(scope.evaluation_name, []).append(scope)
    evaluations = by_evaluation.values()
    questions = sum(max(scope.questions for scope in scopes) for scopes in evaluations)
    return frame.page(
        "start",
        "Overview",
        numbers={
            "evaluations": len(evaluations),
            "questions": questions,
            "models": len(index.models),
            "records": index.manifest.records,
        },
        evaluations=evaluations,
        scopes=len(index.scopes),
        board=board,
    )


def found_page(
    frame: Frame, index: QuestionTable, text: str, found: Sequence[QuestionRow], progress: str
) -> Html:
    """List models, evaluations and questions that a text names, and scopes that have the text.

    `progress` says how far the search for the text is; it is empty if it is done.
    """
    addresses = frame.addresses
    metrics = metrics_of(index.scopes)

    def title_of_scope(scope: Scope | QuestionRow) -> str:
        name = scope.evaluation_name
        return title_of(name, scope.metric, metrics[name])

    rows = [("model", addresses.models("model", model), model, "") for model in index.models]
    for scope in index.scopes:
        about = counted(scope.questions, "question")
        rows.append(("evaluation", addresses.scope(scope), title_of_scope(scope), about))
    rows = [row for row in rows if text.casefold() in row[2].casefold()]
    for row in found:
        address = addresses.question(all_questions(row), row.name)
        about = f"{title_of_scope(row)} · {row.excerpt}"
        rows.append(("question", address, str(row.sample_id), about))
    for scope, records in () if progress else index.found_scopes(text):
        query = replace(all_questions(scope).query, text=text)
        address = addresses.query(query)
        rows.append(("text", address, title_of_scope(scope), f"in {counted(records, 'record')}"))
    return frame.page(
        "found",
        f"{len(rows):,} found",
        [("find", None)],
        text=text,
        progress=progress,
        rows=rows[:MOST],
    )


_COLUMNS: dict[str, tuple[tuple[Sort, ...], str]] = {
    "Question": (
        ("order",),
        "sample_id and the beginning of the input, in the order of the corpus",
    ),
    "Right": (("hardest", "easiest"), "The share of models that are right"),
    "Disagree": (("disagreement",), "0 if all models agree, 1 if half of them are right"),
    "Errors": (("errors",), "Models with nothing but errors"),
    "Input": (("longest-input",), "Characters of the input"),
    "Output": (("longest-output",), "Characters of an output, on average"),
}
_MOST_KEYS = 4  # columns of metadata
_UPWARDS = {"order", "hardest"}
_FIELDS = {"text", "in", "where", "which", "right", "wrong", "least", "most", "model"}
_PLACES = {"both": "inputs and answers", "input": "inputs", "answers": "answers"}
_WHICH = {
    "all": "all questions",
    "all-wrong": "all models wrong",
    "all-right": "all models right",
    "disagreement": "models disagree",
    "metrics-differ": "another metric differs",
    "errors": "with an error",
    "suspected-key": "the key may be wrong",
    "near-duplicate": "nearly the same text as another",
}


def table_page(
    frame: Frame, index: QuestionTable, scope: Scope, state: PageState, shown_page: Page | str
) -> Html:
    """Show one page of the table, or why there is none, with filters and links to other pages."""
    query = state.query
    problem = shown_page if isinstance(shown_page, str) else None
    page = Page(total=0, rows=[]) if isinstance(shown_page, str) else shown_page
    addresses = frame.addresses
    hidden = [(name, value) for name, value in query_pairs(query) if name not in _FIELDS]
    if state.size != PAGE_SIZE:
        hidden.append(("size", str(state.size)))
    used = {key for row in page.rows for key in row.metadata}
    keys = [key for key in dict.fromkeys(key for key, _ in index.fields) if key in used]
    keys = keys[:_MOST_KEYS]
    scores = even_scores(row.mean_score for row in page.rows)
    is_large = len(scope.models) > MOST
    return frame.page(
        "questions",
        query.evaluation_name,
        [(query.evaluation_name, None)],
        scope=scope,
        state=state,
        page=page,
        problem=problem,
        metrics=metric_links(
            index,
            query,
            lambda metric: addresses.table(state, query=replace(query, metric=metric), page=1),
        ),
        conditions=[_condition(*field) for field in index.fields],
        all_questions=addresses.scope(query),
        matches=_matches(state, page),
        pages=-(-page.total // state.size),
        sizes=(PAGE_SIZE, LARGEST_PAGE),
        heads=list(_heads(frame, scope, state)),
        keys=keys,
        rows=[
            (row, score if scope.graded else percent(row.share), _metadata(frame, state, row, keys))
            for row, score in zip(page.rows, scores, strict=True)
        ],
        address=addresses.questions(state),
        found_in=found_in,
        hidden=hidden,
        places=_PLACES,
        which=_WHICH,
        is_large=is_large,
        counting_models=dict.fromkeys((*(() if is_large else scope.models), *query.models)),
        number_text=number_text,
    )


def metric_links(
    index: QuestionTable, query: Query, address: Callable[[str | None], str]
) -> list[tuple[str, str]]:
    """The metrics of an evaluation, and the addresses of the same page in the others."""
    return [
        (metric_name(scope.metric), "" if scope.metric == query.metric else address(scope.metric))
        for scope in index.scopes
        if scope.evaluation_name == query.evaluation_name
    ]


def _matches(state: PageState, page: Page) -> str:
    about = counted(page.total, "question")
    if page.rows and page.total > state.size:
        first = (state.page - 1) * state.size + 1
        return f"{first:,}–{first + len(page.rows) - 1:,} of {about}"
    return about


def _metadata(
    frame: Frame, state: PageState, row: QuestionRow, keys: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each key, its value, and the address of the questions that have the same value."""
    for key in keys:
        value = row.metadata.get(key, "")
        address = ""
        if value.strip() == value != "":  # a condition cannot have white space around its value
            query = replace(state.query, where=(*state.query.where, _condition(key, value)))
            address = frame.addresses.table(state, query=query, page=1)
        yield key, value, address


def _condition(key: str, value: str) -> str:
    space = " " if value.startswith("~") else ""  # =~ is another operator
    return f"{spell_path(('metadata', key))}={space}{value}"


class _Head(NamedTuple):
    """The head of a column, with the address of the table in another order."""

    name: str
    title: str
    address: str
    order: str  # by which the table is sorted; empty if it is not


def _heads(frame: Frame, scope: Scope, state: PageState) -> Iterator[_Head]:
    chosen = state.query.sort
    for name, (sorts, title) in _COLUMNS.items():
        following = sorts[0]
        order = ""
        if chosen in sorts:
            following = sorts[(sorts.index(chosen) + 1) % len(sorts)]
            order = "ascending" if chosen in _UPWARDS else "descending"
        query = replace(state.query, sort=following)
        address = frame.addresses.table(state, query=query, page=1)
        yield _Head("Score" if name == "Right" and scope.graded else name, title, address, order)
