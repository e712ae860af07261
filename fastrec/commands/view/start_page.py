"""The first page: the evaluations of the corpus, with their metrics; and questions found by hash or id."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from fastrec.answers.index import Index
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.answers.wording import percent
from fastrec.commands.view.addresses import PageState
from fastrec.commands.view.layout import Frame
from fastrec.commands.view.texts import bar
from fastrec.errors import counted
from fastrec.html import Exact, Html, joined, tag, tiles

__all__ = ["found_page", "metric_name", "start_page"]


def metric_name(metric: str | None) -> str:
    """Name a metric; records without one have none."""
    return "no metric" if metric is None else metric or "empty name"


def start_page(frame: Frame, index: Index) -> Html:
    """List the evaluations and their metrics."""
    evaluations = {scope.evaluation_name for scope in index.scopes}
    numbers = tiles(
        ("evaluations", len(evaluations)),
        ("questions", sum(max(one.questions for one in scopes) for scopes in _by_evaluation(index.scopes))),
        ("models", len(index.models)),
        ("records", index.manifest.records),
    )
    rows = [row for scopes in _by_evaluation(index.scopes) for row in _rows(frame, scopes)]
    names = {"Evaluation": None, "Metric": None, "Questions": "num", "Models": "num"}
    heads = tag("tr", *(tag("th", name, scope="col", class_=class_) for name, class_ in names.items()))
    table = tag("table", tag("thead", heads), tag("tbody", *rows), class_="list scopes")
    nothing = tag("p", "This corpus has no records.", class_="soft")
    return frame.page(
        "Evaluations",
        [],
        tag("h1", "Pick an evaluation"),
        numbers,
        find_form(frame, ""),
        table if rows else nothing,
    )


def _by_evaluation(scopes: Sequence[Scope]) -> list[list[Scope]]:
    return [list(same) for _, same in groupby(scopes, key=lambda scope: scope.evaluation_name)]


def _rows(frame: Frame, scopes: Sequence[Scope]) -> list[Html]:
    """Make a row for each metric; the evaluation is named in the first one."""
    made = []
    for number, scope in enumerate(scopes):
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric)
        address = frame.addresses.table(PageState(query=query))
        name = tag("a", scope.evaluation_name, href=address, class_="row-link") if number == 0 else ""
        metric = tag("a", metric_name(scope.metric), href=address, class_="row-link" if number else None)
        if scope.metric is None and len(scopes) == 1:
            metric = tag("span", "–", class_="soft")
        graded = tag("span", " graded", class_="soft", title="Scores are other than 0 and 1") if scope.graded else None
        cells = (
            tag("th", name, scope="row"),
            tag("td", metric, graded, data_label="metric"),
            tag("td", f"{scope.questions:,}", class_="num", data_label="questions"),
            tag("td", f"{len(scope.models):,}", class_="num", data_label="models"),
        )
        made.append(tag("tr", *cells, class_=None if number else "first"))
    return made


def find_form(frame: Frame, text: str) -> Html:
    """Make the form that finds a question."""
    box = tag(
        "input", type="search", name="text", value=Exact(text), placeholder="sample_id, or the beginning of a hash",
        aria_label="Find a question", data_key="/",
    )  # fmt: skip
    return tag("form", box, tag("button", "Find", class_="button"), action=frame.addresses.find(), class_="find")


def found_page(frame: Frame, text: str, found: Sequence[QuestionRow]) -> Html:
    """List the questions that a hash or an id finds."""
    rows = []
    for row in found:
        state = PageState(query=Query(evaluation_name=row.evaluation_name, metric=row.metric))
        link = tag("a", str(row.sample_id), href=frame.addresses.question(state, row.sample_hash), class_="row-link")
        cells = (
            tag("th", link, scope="row"),
            tag("td", f"{row.evaluation_name} · {metric_name(row.metric)}"),
            tag("td", bar(row.share), percent(row.share), class_="num"),
            tag("td", row.excerpt, class_="excerpt"),
        )
        rows.append(tag("tr", *cells))
    names = ("Question", "Evaluation", "Right", "Input")
    heads = tag("tr", *(tag("th", name, scope="col") for name in names))
    table = tag("table", tag("thead", heads), tag("tbody", *rows), class_="list")
    hint = tag("p", "A question is found by its sample_id, or by the first characters of its sample_hash.")
    body = joined(find_form(frame, text), table if rows else hint)
    title = f"{counted(len(rows), 'question')} found"
    return frame.page(title, [("find", None)], tag("h1", title), body)
