"""The table of questions of one evaluation and metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from fastrec.answers.index import Index
from fastrec.answers.table import Page, Query, QuestionRow, Scope, Sort
from fastrec.answers.wording import NONE, percent, score_text
from fastrec.commands.view.addresses import LARGEST_PAGE, PAGE_SIZE, Addresses, PageState
from fastrec.commands.view.filter_form import filter_form
from fastrec.commands.view.layout import Frame, key_link
from fastrec.commands.view.start_page import metric_name
from fastrec.commands.view.texts import bar
from fastrec.errors import counted
from fastrec.html import Html, tag

__all__ = ["metric_links", "table_page"]

_COLUMNS: Final[tuple[tuple[str, tuple[Sort, ...], str], ...]] = (
    ("Question", ("order",), "sample_id and the beginning of the input, in the order of the corpus"),
    ("Right", ("hardest", "easiest"), "The share of models that are right"),
    ("Disagree", ("disagreement",), "0 if all models agree, 1 if half of them are right"),
    ("Errors", ("errors",), "Models with nothing but errors"),
    ("Input", ("longest-input",), "Characters of the input"),
    ("Output", ("longest-output",), "Characters of an output, on average"),
)
_UPWARDS: Final = {"order", "hardest"}


def table_page(frame: Frame, index: Index, scope: Scope, state: PageState) -> Html:
    """Show one page of the table, with filters, links to sort, and links to other pages."""
    query = state.query
    found = index.page(query, (state.page - 1) * state.size, state.size)
    plain = PageState(query=Query(evaluation_name=query.evaluation_name, metric=query.metric))
    action = frame.addresses.table(plain).partition("?")[0]
    address = frame.addresses.questions(state)
    rows = [_row(scope, row, address(row.sample_hash)) for row in found.rows]
    table = tag("table", _head(frame.addresses, scope, state), tag("tbody", *rows), class_="list questions")
    said, other, shown = "No question matches. ", "Show all questions", plain
    if found.total:
        said, other, shown = "There are fewer pages. ", "Show the first page", replace(state, page=1)
    nothing = tag("p", said, tag("a", other, href=frame.addresses.table(shown)), class_="card")
    about = f"{counted(scope.questions, 'question')}, {counted(len(scope.models), 'model')}"
    graded = ". Scores are graded: the mean score stands for the share of right answers" if scope.graded else ""
    return frame.page(
        query.evaluation_name,
        [(query.evaluation_name, None)],
        tag("h1", query.evaluation_name),
        tag("p", about + graded + ".", class_="soft"),
        metric_links(index, query, lambda metric: frame.addresses.table(_in_metric(state, metric))),
        filter_form(scope, state, action, frame.addresses.table(plain)),
        _paging(frame.addresses, state, found),
        table if rows else nothing,
        _paging(frame.addresses, state, found, keys=False) if len(rows) > 20 else Html(""),
    )


def _in_metric(state: PageState, metric: str | None) -> PageState:
    return replace(state, query=replace(state.query, metric=metric), page=1)


def metric_links(index: Index, query: Query, address: Callable[[str | None], str]) -> Html:
    """Link to the same page in the other metrics of the evaluation; nothing if there is only one."""
    metrics = [scope.metric for scope in index.scopes if scope.evaluation_name == query.evaluation_name]
    if len(metrics) < 2:
        return Html("")
    links = (
        tag("b", metric_name(metric), aria_current="page")
        if metric == query.metric
        else tag("a", metric_name(metric), href=address(metric))
        for metric in metrics
    )
    return tag("nav", "Metric: ", *links, class_="tabs", aria_label="Metrics")


def _head(addresses: Addresses, scope: Scope, state: PageState) -> Html:
    cells = []
    for name, sorts, title in _COLUMNS:
        chosen = state.query.sort
        following = sorts[(sorts.index(chosen) + 1) % len(sorts)] if chosen in sorts else sorts[0]
        order = ("ascending" if chosen in _UPWARDS else "descending") if chosen in sorts else None
        address = addresses.table(replace(state, query=replace(state.query, sort=following), page=1))
        shown = "Score" if name == "Right" and scope.graded else name
        class_ = None if name == "Question" else "num"
        cells.append(tag("th", tag("a", shown, href=address, title=title), scope="col", aria_sort=order, class_=class_))
    return tag("thead", tag("tr", *cells))


def _row(scope: Scope, row: QuestionRow, address: str) -> Html:
    link = tag(
        "a",
        tag("span", str(row.sample_id), class_="id"),
        tag("span", row.excerpt, class_="excerpt", dir="auto"),
        href=address,
        class_="row-link",
    )
    right = score_text(row.mean_score) if scope.graded else percent(row.share)
    of_models = f"{row.right:.4g} of {counted(row.models, 'model')}"
    disagreement = row.disagreement
    return tag(
        "tr",
        tag("th", link, scope="row"),
        tag("td", bar(row.share), right, class_="num", title=of_models, data_label="right"),
        tag("td", bar(disagreement, "disagree"), _number(disagreement, ".2f"), class_="num", data_label="disagree"),
        tag("td", f"{row.errors:,}" if row.errors else "", class_="num errors", data_label="errors"),
        tag("td", f"{row.input_chars:,}", class_="num", data_label="input"),
        tag("td", _number(row.output_chars, ",.0f"), class_="num", data_label="output"),
    )


def _number(number: float | None, spec: str) -> str:
    return NONE if number is None else format(number, spec)


def _paging(addresses: Addresses, state: PageState, found: Page, *, keys: bool = True) -> Html:
    first = (state.page - 1) * state.size + 1
    last = first + len(found.rows) - 1
    pages = -(-found.total // state.size)
    said = counted(found.total, "question")
    if found.rows and pages > 1:
        said = f"{first:,}–{last:,} of {said}"

    def page(number: int) -> str | None:
        return addresses.table(replace(state, page=number)) if 1 <= number <= pages else None

    links: Sequence[Html] = ()
    if pages > 1:
        links = key_link("← Previous", "[", page(state.page - 1)), key_link("Next →", "]", page(state.page + 1))
    sizes: Sequence[Html] = ()
    if found.total > PAGE_SIZE:
        sizes = tuple(
            tag("b", f"{size:,}") if size == state.size
            else tag("a", f"{size:,}", href=addresses.table(replace(state, size=size, page=1)))
            for size in (PAGE_SIZE, LARGEST_PAGE)
        )  # fmt: skip
    return tag(
        "div",
        tag("span", said, id="matches" if keys else None),
        tag("span", *links, class_="pages"),
        tag("span", "per page: ", *sizes, class_="soft sizes") if sizes else None,
        class_="paging",
    )
