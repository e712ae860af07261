"""The first page with all evaluations, questions found by hash or id, and the table of questions with its filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from fastrec.answers.leaderboard import BoardEvaluation, Leaderboard
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Page, Query, QuestionRow, Scope, Sort
from fastrec.commands.view.addresses import (
    LARGEST_PAGE,
    PAGE_SIZE,
    Addresses,
    PageState,
    all_questions,
    name_text,
    number_text,
    query_pairs,
)
from fastrec.commands.view.layout import MOST, Frame, bar, hidden_fields, key_link, name_filter
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, joined, soft, tag, tiles
from fastrec.where import spell_path
from fastrec.wording import NONE, cut_middle, even_scores, found_in, percent


def metric_name(metric: str | None) -> str:
    """Name a metric; records without one have none."""
    return "no metric" if metric is None else metric or "empty name"


def start_page(frame: Frame, index: QuestionTable, board: Leaderboard) -> Html:
    evaluations = [
        list(same) for _, same in groupby(index.scopes, key=lambda scope: scope.evaluation_name)
    ]
    numbers = tiles(
        ("evaluations", len(evaluations)),
        ("questions", sum(max(one.questions for one in scopes) for scopes in evaluations)),
        ("models", len(index.models)),
        ("records", index.manifest.records),
    )
    rows = [row for scopes in evaluations for row in _rows(frame, scopes)]
    heads = {"Evaluation": None, "Metric": None, "Questions": "num", "Models": "num"}

    def questions_of(evaluation: BoardEvaluation, model: str) -> str:
        return frame.addresses.table(all_questions(evaluation, (model,)))

    body = [soft("This corpus has no records.")]
    if rows:
        title = tag("div", tag("h1", "Leaderboard"), name_filter(".board tbody tr"), class_="line")
        body = [title, board.to_html(questions_of)]
        body += [tag("h2", "Evaluations and metrics"), _table(heads, rows, "list scopes")]
    return frame.page("Leaderboard", [], numbers, _find_form(frame, ""), *body)


def _table(heads: Mapping[str, str | None], rows: Sequence[Html], class_: str) -> Html:
    cells = (tag("th", name, scope="col", class_=kind) for name, kind in heads.items())
    return tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows), class_=class_)


def _rows(frame: Frame, scopes: Sequence[Scope]) -> list[Html]:
    """Make a row for each metric; the evaluation is named in the first one."""
    made = []
    for number, scope in enumerate(scopes):
        address = frame.addresses.table(all_questions(scope))
        name = (
            tag("a", scope.evaluation_name, href=address, class_="row-link") if number == 0 else ""
        )
        metric = tag(
            "a", metric_name(scope.metric), href=address, class_="row-link" if number else None
        )
        if scope.metric is None and len(scopes) == 1:
            metric = tag("span", "–", class_="soft")
        graded = (
            tag("span", " graded", class_="soft", title="Scores are other than 0 and 1")
            if scope.graded
            else None
        )
        cells = (
            tag("th", name, scope="row"),
            tag("td", metric, graded, data_label="metric"),
            tag("td", f"{scope.questions:,}", class_="num", data_label="questions"),
            tag("td", f"{len(scope.models):,}", class_="num", data_label="models"),
        )
        made.append(tag("tr", *cells, class_=None if number else "first"))
    return made


def _find_form(frame: Frame, text: str) -> Html:
    box = tag(
        "input", type="search", name="text", value=Exact(text), placeholder="sample_id, or the beginning of a hash",
        aria_label="Find a question", data_key="/",
    )  # fmt: skip
    return tag(
        "form",
        box,
        tag("button", "Find", class_="button"),
        action=frame.addresses.plain("find"),
        class_="find",
    )


def found_page(frame: Frame, text: str, found: Sequence[QuestionRow]) -> Html:
    rows = []
    for row in found:
        address = frame.addresses.question(all_questions(row), row.name)
        link = tag("a", str(row.sample_id), href=address, class_="row-link")
        cells = (
            tag("th", link, scope="row"),
            tag("td", f"{row.evaluation_name} · {metric_name(row.metric)}"),
            tag("td", bar(row.share), percent(row.share), class_="num"),
            tag("td", row.excerpt, class_="excerpt"),
        )
        rows.append(tag("tr", *cells))
    table = _table(dict.fromkeys(("Question", "Evaluation", "Right", "Input")), rows, "list")
    hint = tag(
        "p", "A question is found by its sample_id, or by the first characters of its sample_hash."
    )
    title = f"{counted(len(rows), 'question')} found"
    return frame.page(
        title, [("find", None)], tag("h1", title), _find_form(frame, text), table if rows else hint
    )


_COLUMNS: Final[tuple[tuple[str, tuple[Sort, ...], str], ...]] = (
    (
        "Question",
        ("order",),
        "sample_id and the beginning of the input, in the order of the corpus",
    ),
    ("Right", ("hardest", "easiest"), "The share of models that are right"),
    ("Disagree", ("disagreement",), "0 if all models agree, 1 if half of them are right"),
    ("Errors", ("errors",), "Models with nothing but errors"),
    ("Input", ("longest-input",), "Characters of the input"),
    ("Output", ("longest-output",), "Characters of an output, on average"),
)
_MOST_KEYS: Final = 4  # columns of metadata
_UPWARDS: Final = {"order", "hardest"}


def table_page(
    frame: Frame, index: QuestionTable, scope: Scope, state: PageState, shown_page: Page | str
) -> Html:
    """Show one page of the table, or why there is none, with filters, links to sort, and links to other pages."""
    query = state.query
    problem = shown_page if isinstance(shown_page, str) else None
    found = Page(total=0, rows=[]) if isinstance(shown_page, str) else shown_page
    plain = all_questions(query)
    action = frame.addresses.table(plain).partition("?")[0]
    address = frame.addresses.questions(state)
    scores = even_scores(row.mean_score for row in found.rows)
    used = {key for row in found.rows for key in row.metadata}
    keys = [key for key in dict.fromkeys(key for key, _ in index.fields) if key in used][
        :_MOST_KEYS
    ]
    rows = [
        _row(scope, row, address(row.name), score, _metadata(frame.addresses, state, row, keys))
        for row, score in zip(found.rows, scores, strict=True)
    ]
    table = tag(
        "table",
        _head(frame.addresses, scope, state, keys),
        tag("tbody", *rows),
        class_="list questions",
    )
    said = f"{problem or 'No question matches'}. "
    other = "Show all questions"
    shown = plain
    if found.total:
        said = "There are fewer pages. "
        other = "Show the first page"
        shown = replace(state, page=1)
    link = tag("a", other, href=frame.addresses.table(shown))
    nothing = tag("p", said, link, class_="card", role="alert" if problem else None)
    about = f"{counted(scope.questions, 'question')}, {counted(len(scope.models), 'model')}"
    graded = (
        ". Scores are graded: the mean score stands for the share of right answers"
        if scope.graded
        else ""
    )

    def in_metric(metric: str | None) -> str:
        return frame.addresses.table(replace(state, query=replace(query, metric=metric), page=1))

    return frame.page(
        query.evaluation_name,
        [(query.evaluation_name, None)],
        tag("h1", query.evaluation_name),
        soft(about + graded + "."),
        metric_links(index, query, in_metric),
        tag(
            "datalist",
            *(tag("option", value=Exact(_condition(*one))) for one in index.fields),
            id="conditions",
        ),
        _filter_form(scope, state, action, frame.addresses.table(plain)),
        Html("") if problem else _paging(frame.addresses, state, found),
        table if rows else nothing,
        _paging(frame.addresses, state, found, keys=False) if len(rows) > 20 else Html(""),
    )


def metric_links(index: QuestionTable, query: Query, address: Callable[[str | None], str]) -> Html:
    """Link to the same page in the other metrics of the evaluation.

    Nothing if there is only one.
    """
    metrics = [
        scope.metric for scope in index.scopes if scope.evaluation_name == query.evaluation_name
    ]
    if len(metrics) < 2:
        return Html("")
    links = (
        tag("b", metric_name(metric), aria_current="page")
        if metric == query.metric
        else tag("a", metric_name(metric), href=address(metric))
        for metric in metrics
    )
    return tag("nav", "Metric: ", *links, class_="tabs", aria_label="Metrics")


def _metadata(
    addresses: Addresses, state: PageState, row: QuestionRow, keys: Sequence[str]
) -> Html:
    """Make a cell for each key, with a link to the questions that have the same value."""
    cells = []
    for key in keys:
        value: Html | str = row.metadata.get(key, "")
        if value.strip() == value != "":  # a condition cannot have white space around its value
            query = replace(state.query, where=(*state.query.where, _condition(key, value)))
            value = tag("a", value, href=addresses.table(replace(state, query=query, page=1)))
        cells.append(tag("td", value, class_="meta", data_label=key))
    return joined(*cells)


def _condition(key: str, value: str) -> str:
    space = " " if value.startswith("~") else ""  # =~ is another operator
    return f"{spell_path(('metadata', key))}={space}{value}"


def _head(addresses: Addresses, scope: Scope, state: PageState, keys: Sequence[str]) -> Html:
    cells = []
    for name, sorts, title in _COLUMNS:
        chosen = state.query.sort
        following = sorts[(sorts.index(chosen) + 1) % len(sorts)] if chosen in sorts else sorts[0]
        order = ("ascending" if chosen in _UPWARDS else "descending") if chosen in sorts else None
        address = addresses.table(
            replace(state, query=replace(state.query, sort=following), page=1)
        )
        shown = "Score" if name == "Right" and scope.graded else name
        class_ = None if name == "Question" else "num"
        cells.append(
            tag(
                "th",
                tag("a", shown, href=address, title=title),
                scope="col",
                aria_sort=order,
                class_=class_,
            )
        )
    names = (
        tag("th", cut_middle(key, 15), scope="col", class_="meta", title=f"metadata.{key}")
        for key in keys
    )
    return tag("thead", tag("tr", cells[0], *names, *cells[1:]))


def _row(scope: Scope, row: QuestionRow, address: str, score: str, metadata: Html) -> Html:
    found = None
    if row.in_input is not None:
        found = tag("span", f"in {found_in(row.in_input, row.in_answers or 0)}", class_="soft")
    link = tag(
        "a",
        tag("span", cut_middle(str(row.sample_id), 29), class_="id", title=str(row.sample_id)),
        tag("span", row.excerpt, class_="excerpt", dir="auto"),
        found,
        href=address,
        class_="row-link",
    )
    right = score if scope.graded else percent(row.share)
    of_models = f"{row.right:.4g} of {counted(row.models, 'model')}"
    disagreement = bar(row.disagreement, "disagree"), _number(row.disagreement, ".2f")
    return tag(
        "tr",
        tag("th", link, scope="row"),
        metadata,
        tag("td", bar(row.share), right, class_="num", title=of_models, data_label="right"),
        tag("td", *disagreement, class_="num", data_label="disagree"),
        tag(
            "td", f"{row.errors:,}" if row.errors else "", class_="num errors", data_label="errors"
        ),
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

    links = (
        key_link("← Previous", "[", page(state.page - 1)),
        key_link("Next →", "]", page(state.page + 1)),
    )
    sizes = (
        tag("b", f"{size:,}") if size == state.size
        else tag("a", f"{size:,}", href=addresses.table(replace(state, size=size, page=1)))
        for size in (PAGE_SIZE, LARGEST_PAGE)
    )  # fmt: skip
    return tag(
        "div",
        tag("span", said, id="matches" if keys else None),
        tag("span", *(links if pages > 1 else ()), class_="pages"),
        tag(
            "a",
            "Download",
            href=addresses.table(state, "download"),
            title="Their records, as JSON Lines",
        ),
        tag("span", "per page: ", *sizes, class_="soft sizes") if found.total > PAGE_SIZE else None,
        class_="paging",
    )


_FIELDS: Final = {"text", "in", "where", "which", "right", "wrong", "least", "most", "model"}
_PLACES: Final = {"both": "inputs and answers", "input": "inputs", "answers": "answers"}
_WHICH: Final = {
    "all": "all questions",
    "all-wrong": "all models wrong",
    "all-right": "all models right",
    "disagreement": "models disagree",
    "metrics-differ": "another metric differs",
    "errors": "with an error",
}


def _filter_form(scope: Scope, state: PageState, action: str, reset: str) -> Html:
    query = state.query
    hidden = [(name, value) for name, value in query_pairs(query) if name not in _FIELDS]
    hidden += [("size", str(state.size))] if state.size != PAGE_SIZE else []
    text = tag(
        "input", type="search", name="text", value=Exact(query.text), placeholder="text in the input or an answer",
        data_key="/",
    )  # fmt: skip
    conditions = (
        tag(
            "input",
            name="where",
            value=Exact(one),
            placeholder="metadata.subject=law",
            list="conditions",
        )
        for one in (*query.where, "")
    )
    apply = tag("button", "Apply", class_="button main")
    return tag(
        "form",
        hidden_fields(hidden),
        _field("Search", text, "wide"),
        _field("in", _select("in", _PLACES, query.place)),
        *(_field("and where" if at else "Where", one, "wide") for at, one in enumerate(conditions)),
        _field("Show", _select("which", _WHICH, query.which)),
        *(_field("Right", _models("right", scope, one)) for one in query.right or ("",)),
        *(_field("and wrong", _models("wrong", scope, one)) for one in query.wrong or ("",)),
        _field("Score from", _score("least", query.least_score), "small"),
        _field("to", _score("most", query.most_score), "small"),
        _counting(scope, query),
        tag("div", apply, tag("a", "Reset", href=reset, class_="button"), class_="field buttons"),
        action=action,
        class_="card filters",
        role="search",
    )


def _field(label: str, control: Html, class_: str = "") -> Html:
    return tag("label", tag("span", label), control, class_=f"field {class_}".strip())


def _select(name: str, options: Mapping[str, str], chosen: str) -> Html:
    made = (
        tag("option", text, value=Exact(value), selected=value == chosen)
        for value, text in options.items()
    )
    return tag("select", *made, name=name)


def _models(name: str, scope: Scope, chosen: str) -> Html:
    """Make a list of models to choose one of.

    One that has no records here stays, if it is chosen.
    """
    if len(scope.models) > MOST:
        return tag(
            "input",
            type="search",
            name=name,
            value=Exact(name_text(chosen)),
            placeholder="any model",
        )
    models = [*scope.models, *({chosen} - {"", *scope.models})]
    return _select(
        name, {"": "any model", **{name_text(one): one for one in models}}, name_text(chosen)
    )


def _score(name: str, value: float | None) -> Html:
    shown = None if value is None else number_text(value)
    return tag("input", type="number", step="any", name=name, value=shown, inputmode="decimal")


def _counting(scope: Scope, query: Query) -> Html:
    few = scope.models if len(scope.models) <= MOST else ()
    models = [*few, *(one for one in query.models if one not in few)]
    boxes: list[Child] = []
    for model in models:
        value = Exact(name_text(model))
        checked = model in query.models
        box = tag("input", type="checkbox", name="model", value=value, checked=checked)
        boxes.append(tag("label", box, tag("span", model)))
    if len(scope.models) > MOST:
        boxes.append(
            tag(
                "input",
                type="search",
                name="model",
                placeholder="model_id",
                aria_label="One more model",
            )
        )
    count = f"{len(query.models):,} of {len(scope.models):,}" if query.models else "all"
    hint = tag(
        "p",
        "Only these models count for shares, disagreement and errors. All count if none is chosen.",
    )
    summary = tag(
        "summary", f"Models that count: {count}", title=counted(len(scope.models), "model")
    )
    return tag("details", summary, hint, tag("div", *boxes, class_="checks"), class_="field models")
