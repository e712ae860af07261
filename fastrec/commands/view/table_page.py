"""The start page, questions found by hash or id, and the table of questions with its filters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from fastrec.answers.leaderboard import Leaderboard
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Page, PhraseModel, Query, QuestionRow, Scope, Sort
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
from fastrec.commands.view.layout import AGAIN, MOST, Frame, hidden_fields, key_link, name_filter
from fastrec.commands.view.model_page import compare_form, model_box
from fastrec.errors import counted
from fastrec.html import (
    Child,
    Exact,
    Html,
    each,
    first_ten,
    html,
    joined,
    plain_table,
    soft,
    tag,
    tiles,
)
from fastrec.svg import share_bar
from fastrec.where import spell_path
from fastrec.wording import NONE, cut_middle, even_scores, found_in, metrics_of, percent, title_of


def metric_name(metric: str | None) -> str:
    """Name a metric; records without one have none."""
    return "no metric" if metric is None else metric or "empty name"


def start_page(frame: Frame, index: QuestionTable, board: Leaderboard | None) -> Html:
    by_evaluation: dict[str, list[Scope]] = {}
    for scope in index.scopes:
        by_evaluation.setdefault(scope.evaluation_name, []).append(scope)
    evaluations = by_evaluation.values()
    numbers = tiles(
        ("evaluations", len(evaluations)),
        ("questions", sum(max(scope.questions for scope in scopes) for scopes in evaluations)),
        ("models", len(index.models)),
        ("records", index.manifest.records),
    )

    body = soft("This corpus has no records.")
    if evaluations:
        rows = (_scope_rows(frame, scopes) for scopes in evaluations)
        heads = {"Evaluation": None, "Metric": None, "Questions": "num", "Models": "num"}
        body = html(
            '<h1>Evaluations and metrics</h1>{}<div class="line"><h1>Leaderboard</h1>{}'
            '<a href="{}">Pictures and groups</a></div>{}',
            first_ten(len(index.scopes), _table(heads, rows, "list scopes")),
            name_filter(".board tbody tr"),
            frame.addresses.plain("group"),
            compare_form(
                frame.addresses,
                board.to_html(frame.addresses.cell, partial(model_box, frame.addresses)),
            )
            if board
            else soft("The leaderboard is being computed.", AGAIN),
        )
    return frame.page("Overview", [], numbers, _find_form(frame, ""), body)


def _table(heads: Mapping[str, str | None], rows: Child, class_: str) -> Html:
    cells = (tag("th", name, scope="col", class_=kind) for name, kind in heads.items())
    return plain_table(cells, rows, class_=class_)


def _scope_rows(frame: Frame, scopes: Sequence[Scope]) -> Html:
    """Make a row for each metric."""
    graded = Html('<span class="soft" title="Scores are other than 0 and 1"> graded</span>')
    cells = (
        (
            None if number else "first",
            frame.addresses.table(all_questions(scope)),
            scope.evaluation_name,
            scope.metric or NONE,
            graded if scope.graded else None,
            scope.questions,
            len(scope.models),
        )
        for number, scope in enumerate(scopes)
    )
    return each(
        '<tr class="{}"><th scope="row"><a href="{}" class="row-link">{}</a></th>'
        '<td>{}{}</td><td class="num">{:,}</td><td class="num">{:,}</td></tr>',
        cells,
    )


def _find_form(frame: Frame, text: str) -> Html:
    return html(
        '<form action="{}" class="find"><input type="search" name="text" value="{}" '
        'placeholder="a model, evaluation, metric, sample_id, hash, or any text" '
        'aria-label="Find" data-key="/"><button class="button">Find</button></form>',
        frame.addresses.plain("find"),
        Exact(text),
    )


def found_page(
    frame: Frame, index: QuestionTable, text: str, found: Sequence[QuestionRow], note: Html | None
) -> Html:
    """List models, evaluations and questions that a text names, and scopes that have the text.

    `note` says how far the search for the text is; None if it is done.
    """
    addresses = frame.addresses
    metrics = metrics_of(index.scopes)

    def title_of_scope(scope: Scope | QuestionRow) -> str:
        name = scope.evaluation_name
        return title_of(name, scope.metric, metrics[name])

    rows = [("model", addresses.models("model", model), model, "") for model in index.models]
    for scope in index.scopes:
        about = counted(scope.questions, "question")
        rows.append(
            ("evaluation", addresses.table(all_questions(scope)), title_of_scope(scope), about)
        )
    rows = [row for row in rows if text.casefold() in row[2].casefold()]
    for row in found:
        address = addresses.question(all_questions(row), row.name)
        about = f"{title_of_scope(row)} · {row.excerpt}"
        rows.append(("question", address, str(row.sample_id), about))
    for scope, records in () if note else index.found_scopes(text):
        query = replace(all_questions(scope).query, text=text)
        address = addresses.query(query)
        rows.append(("text", address, title_of_scope(scope), f"in {counted(records, 'record')}"))
    cells = (
        '<tr><td class="soft">{}</td><th scope="row"><a href="{}" class="row-link">{}</a></th>'
        "<td>{}</td></tr>"
    )
    title = f"{len(rows):,} found"
    return frame.page(
        title,
        [("find", None)],
        html("<h1>{}</h1>", title),
        _find_form(frame, text),
        note,
        _table(dict.fromkeys(("Kind", "Name", "About")), each(cells, rows[:MOST]), "list found"),
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


def table_page(
    frame: Frame, index: QuestionTable, scope: Scope, state: PageState, shown_page: Page | str
) -> Html:
    """Show one page of the table, or why there is none, with filters and links to other pages."""
    query = state.query
    problem = shown_page if isinstance(shown_page, str) else None
    page = Page(total=0, rows=[]) if isinstance(shown_page, str) else shown_page
    addresses = frame.addresses
    about = f"{counted(scope.questions, 'question')}, {counted(len(scope.models), 'model')}"
    if scope.graded:
        about += ". Scores are graded: the mean score stands for the share of right answers"

    def in_metric(metric: str | None) -> str:
        return addresses.table(replace(state, query=replace(query, metric=metric), page=1))

    conditions = (Exact(_condition(*field)) for field in index.fields)
    paging = partial(_paging, addresses, state, page)
    return frame.page(
        query.evaluation_name,
        [(query.evaluation_name, None)],
        html("<h1>{}</h1>{}", query.evaluation_name, soft(f"{about}.")),
        metric_links(index, query, in_metric),
        html(
            '<datalist id="conditions">{}</datalist>',
            each('<option value="{}"></option>', conditions),
        ),
        _filter_form(scope, state, addresses.table(all_questions(query))),
        None if problem else paging(),
        _phrase_table(frame, page.phrase_models) if page.phrase_models else None,
        _rows(addresses, index, scope, state, page) or _nothing(addresses, state, page, problem),
        paging(keys=False) if len(page.rows) > 20 else None,
    )


def _rows(
    addresses: Addresses, index: QuestionTable, scope: Scope, state: PageState, page: Page
) -> Html | None:
    """Make the table of the questions of a page; None if it has none."""
    if not page.rows:
        return None
    used = {key for row in page.rows for key in row.metadata}
    keys = [key for key in dict.fromkeys(key for key, _ in index.fields) if key in used]
    keys = keys[:_MOST_KEYS]
    address = addresses.questions(state)
    scores = even_scores(row.mean_score for row in page.rows)
    rows = [
        _row(scope, row, address(row.name), score, _metadata(addresses, state, row, keys))
        for row, score in zip(page.rows, scores, strict=True)
    ]
    return plain_table(_heads(addresses, scope, state, keys), rows, class_="list questions")


def _phrase_table(frame: Frame, models: Sequence[PhraseModel]) -> Html:
    """Show how many answers of each model have the text, the largest share first."""
    address = frame.addresses.models
    rows = each(
        '<tr><th scope="row"><a href="{}">{}</a></th><td class="num">{:,} of {:,}</td>'
        '<td class="num">{}{:.1%}</td></tr>',
        (
            (
                address("model", model.model_id),
                model.model_id,
                model.found,
                model.answers,
                share_bar(model.share),
                model.share,
            )
            for model in models
        ),
    )
    heads = {"Model": None, "Answers with the text": "num", "Share": "num"}
    return first_ten(len(models), _table(heads, rows, "list phrase"))


def _nothing(addresses: Addresses, state: PageState, page: Page, problem: str | None) -> Html:
    """Say why there are no rows, and link to a page that has some."""
    text = f"{problem or 'No question matches'}. "
    link = tag("a", "Show all questions", href=addresses.table(all_questions(state.query)))
    if page.total:
        text = "There are fewer pages. "
        link = tag("a", "Show the first page", href=addresses.table(replace(state, page=1)))
    return tag("p", text, link, class_="card", role="alert" if problem else None)


def metric_links(
    index: QuestionTable, query: Query, address: Callable[[str | None], str]
) -> Html | None:
    """Link to the same page in the other metrics of the evaluation.

    Nothing if there is only one.
    """
    metrics = [
        scope.metric for scope in index.scopes if scope.evaluation_name == query.evaluation_name
    ]
    if len(metrics) < 2:
        return None
    links = (
        html('<b aria-current="page">{}</b>', metric_name(metric))
        if metric == query.metric
        else tag("a", metric_name(metric), href=address(metric))
        for metric in metrics
    )
    return html('<nav class="tabs" aria-label="Metrics">Metric: {}</nav>', links)


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
        cells.append(html('<td class="meta" data-label="{}">{}</td>', key, value))
    return joined(*cells)


def _condition(key: str, value: str) -> str:
    space = " " if value.startswith("~") else ""  # =~ is another operator
    return f"{spell_path(('metadata', key))}={space}{value}"


def _heads(
    addresses: Addresses, scope: Scope, state: PageState, keys: Sequence[str]
) -> Iterator[Html]:
    chosen = state.query.sort
    for name, (sorts, title) in _COLUMNS.items():
        following = sorts[0]
        order = None
        if chosen in sorts:
            following = sorts[(sorts.index(chosen) + 1) % len(sorts)]
            order = "ascending" if chosen in _UPWARDS else "descending"
        query = replace(state.query, sort=following)
        yield tag(
            "th",
            html(
                '<a href="{}" title="{}">{}</a>',
                addresses.table(replace(state, query=query, page=1)),
                title,
                "Score" if name == "Right" and scope.graded else name,
            ),
            scope="col",
            aria_sort=order,
            class_=None if name == "Question" else "num",
        )
        if name == "Question":
            names = ((key, cut_middle(key, 15)) for key in keys)
            yield each('<th scope="col" class="meta" title="metadata.{}">{}</th>', names)


def _row(scope: Scope, row: QuestionRow, address: str, score: str, metadata: Html) -> Html:
    hits = None
    if row.in_input is not None:
        where = found_in(row.in_input, row.in_answers or 0)
        hits = html('<span class="soft">in {}</span>', where)
    return html(
        '<tr><th scope="row"><a href="{address}" class="row-link">'
        '<span class="id" title="{id}">{short_id}</span>'
        '<span class="excerpt" dir="auto">{excerpt}</span>{hits}</a></th>{metadata}'
        '<td class="num" title="{right} of {models}" data-label="right">{share}</td>'
        '<td class="num" data-label="disagree">{disagreement}</td>'
        '<td class="num errors" data-label="errors">{errors}</td>'
        '<td class="num" data-label="input">{input:,}</td>'
        '<td class="num" data-label="output">{output}</td></tr>',
        address=address,
        id=row.sample_id,
        short_id=cut_middle(str(row.sample_id), 29),
        excerpt=row.excerpt,
        hits=hits,
        metadata=metadata,
        right=f"{row.right:.4g}",
        models=counted(row.models, "model"),
        share=joined(share_bar(row.share), score if scope.graded else percent(row.share)),
        disagreement=joined(
            share_bar(row.disagreement, "disagree"), _number(row.disagreement, ".2f")
        ),
        errors=f"{row.errors:,}" if row.errors else "",
        input=row.input_chars,
        output=_number(row.output_chars, ",.0f"),
    )


def _number(number: float | None, spec: str) -> str:
    return NONE if number is None else format(number, spec)


def _paging(addresses: Addresses, state: PageState, page: Page, *, keys: bool = True) -> Html:
    first = (state.page - 1) * state.size + 1
    last = first + len(page.rows) - 1
    pages = -(-page.total // state.size)
    about = counted(page.total, "question")
    if page.rows and pages > 1:
        about = f"{first:,}–{last:,} of {about}"

    def address(number: int) -> str | None:
        return addresses.table(replace(state, page=number)) if 1 <= number <= pages else None

    links = (
        key_link("← Previous", "[", address(state.page - 1)),
        key_link("Next →", "]", address(state.page + 1)),
    )
    sizes = (
        html("<b>{:,}</b>", size)
        if size == state.size
        else html('<a href="{}">{:,}</a>', addresses.table(replace(state, size=size, page=1)), size)
        for size in (PAGE_SIZE, LARGEST_PAGE)
    )
    per_page = html('<span class="soft sizes">per page: {}</span>', sizes)
    return html(
        '<div class="paging">{}<span class="pages">{}</span>'
        '<a href="{}" title="Their records, as JSON Lines">Download</a>{}</div>',
        tag("span", about, id="matches" if keys else None),
        links if pages > 1 else None,
        addresses.table(state, "download"),
        per_page if page.total > PAGE_SIZE else None,
    )


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


def _filter_form(scope: Scope, state: PageState, reset: str) -> Html:
    query = state.query
    hidden = [(name, value) for name, value in query_pairs(query) if name not in _FIELDS]
    if state.size != PAGE_SIZE:
        hidden.append(("size", str(state.size)))
    text = html(
        '<input type="search" name="text" value="{}" '
        'placeholder="text in the input or an answer" data-key="/">',
        Exact(query.text),
    )
    condition = (
        '<input name="where" value="{}" placeholder="metadata.subject=law" list="conditions">'
    )
    where = [html(condition, Exact(text)) for text in (*query.where, "")]
    return html(
        '<form action="{}" class="card filters {}" role="search">{}'
        '<div class="field buttons"><button class="button main">Apply</button>'
        '<a href="{}" class="button">Reset</a></div></form>',
        reset.partition("?")[0],
        "graded" if scope.graded else None,
        joined(
            hidden_fields(hidden),
            _field("Search", text, "field wide"),
            _field("in", _select("in", _PLACES, query.place)),
            _field("Where", where[0], "field wide"),
            (_field("and where", box, "field wide") for box in where[1:]),
            _field("Show", _select("which", _WHICH, query.which)),
            (
                _field("Right", _models("right", scope, model), "field judged")
                for model in query.right or ("",)
            ),
            (
                _field("and wrong", _models("wrong", scope, model), "field judged")
                for model in query.wrong or ("",)
            ),
            _field("Score from", _score("least", query.least_score), "field small"),
            _field("to", _score("most", query.most_score), "field small"),
            _counting(scope, query),
        ),
        reset,
    )


def _field(label: str, control: Html, class_: str = "field") -> Html:
    return html('<label class="{}"><span>{}</span>{}</label>', class_, label, control)


def _select(name: str, options: Mapping[str, str], chosen: str) -> Html:
    items = (
        tag("option", text, value=Exact(value), selected=value == chosen)
        for value, text in options.items()
    )
    return html('<select name="{}">{}</select>', name, items)


def _models(name: str, scope: Scope, chosen: str) -> Html:
    """Make a list of models to choose one of.

    One that has no records here stays, if it is chosen.
    """
    value = name_text(chosen)
    if len(scope.models) > MOST:
        box = '<input type="search" name="{}" value="{}" placeholder="any model">'
        return html(box, name, Exact(value))
    options = {"": "any model"}
    for model in (*scope.models, chosen):
        if model:
            options[name_text(model)] = model
    return _select(name, options, value)


def _score(name: str, value: float | None) -> Html:
    shown = None if value is None else number_text(value)
    return tag("input", type="number", step="any", name=name, value=shown, inputmode="decimal")


def _counting(scope: Scope, query: Query) -> Html:
    is_large = len(scope.models) > MOST
    models = dict.fromkeys((*(() if is_large else scope.models), *query.models))
    boxes = []
    for model in models:
        value = Exact(name_text(model))
        checked = model in query.models
        box = tag("input", type="checkbox", name="model", value=value, checked=checked)
        boxes.append(html("<label>{}<span>{}</span></label>", box, model))
    if is_large:
        boxes.append(
            Html(
                '<input type="search" name="model" placeholder="model_id" '
                'aria-label="One more model">'
            )
        )
    count = f"{len(query.models):,} of {len(scope.models):,}" if query.models else "all"
    return html(
        '<details class="field models"><summary title="{}">Models that count: {}</summary>'
        "<p>Only these models count for shares, disagreement and errors. All count if none is "
        'chosen.</p><div class="checks">{}</div></details>',
        counted(len(scope.models), "model"),
        count,
        boxes,
    )
