"""Two models: the tests of `compare`, the numbers, and the questions on which they differ."""

from msgspec.structs import replace

from fastrec.answers.choosing import choose_scopes
from fastrec.answers.pictures import cells_table, number_cells
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query, Scope
from fastrec.answers.values import value_rows
from fastrec.commands.view.addresses import Site
from fastrec.commands.view.model_page import rows_behind
from fastrec.filters import Filters
from fastrec.pages.html import Cell, Html
from fastrec.statistics.adjust import benjamini_hochberg
from fastrec.statistics.paired import Paired, compare_series
from fastrec.wording import titles_in


def pair_page(site: Site, index: QuestionTable, shown: Query) -> Html:
    """Compare the two models of a query on the evaluations that both have answered."""
    a, b = shown.models
    title_of = titles_in(index.scopes)
    rows = {}
    queries = []
    p_values = []
    for scope, query in choose_scopes(index.scopes, Filters()):
        is_wanted = shown.evaluation_name in ("", scope.evaluation_name)
        if is_wanted and a in scope.models and b in scope.models:
            chosen = replace(query, models=(a, b), where=shown.where, sort="hardest")
            paired = _test(index, scope, chosen)
            cells = _cells(site, scope, chosen, paired)
            rows[Cell(title_of(scope), href=site.query(chosen))] = cells
            queries.append(query)
            if paired.p is not None:
                p_values.append((cells, paired.p))
    adjusted = benjamini_hochberg([p for _, p in p_values])
    for (cells, _), p in zip(p_values, adjusted, strict=True):
        cells["p, adjusted"] = Cell(f"{p:.3g}")
    return site.page(
        "pair",
        "Two models",
        [(a, site.models("model", a)), (b, None)],
        a=a,
        b=b,
        results=cells_table("evaluation", rows),
        behind_a=rows_behind(site, index, queries, b, (a,)),
        behind_b=rows_behind(site, index, queries, a, (b,)),
    )


def _test(index: QuestionTable, scope: Scope, query: Query) -> Paired:
    """Test whether the two models of a query differ, as `compare` does."""
    values = value_rows(index, query, query.models)
    clusters = index.table(query).clusters_of(values)
    series = ((b, a) for a, b in values.values())
    (paired,) = compare_series([series], graded=scope.graded, clusters=clusters)
    return paired


def _cells(site: Site, scope: Scope, query: Query, paired: Paired) -> dict[str, Cell]:
    """The numbers of a comparison; those of right and wrong answers are links."""
    spec = ".3f" if scope.graded else ".1%"
    a, b = query.models
    wins, losses = paired.rose, paired.fell
    if scope.lower_is_better:
        wins, losses = losses, wins
    cells = number_cells(
        {
            "A": (paired.second, spec),
            "B": (paired.first, spec),
            "difference": (paired.difference, f"+{spec}"),
            "questions": (paired.questions, ","),
            "A better": (wins, ","),
            "B better": (losses, ","),
            "equal": (paired.questions - paired.rose - paired.fell, ","),
            "p": (paired.p, ".3g"),
            "p, adjusted": (None, ""),
            "detectable": (paired.detectable, spec),
        }
    )
    if not scope.graded and not scope.lower_is_better:
        for head, count, right, wrong in (("A better", wins, a, b), ("B better", losses, b, a)):
            if count:
                address = site.query(replace(query, right=(right,), wrong=(wrong,)))
                cells[head] = cells[head]._replace(href=address)
    return cells
