"""Two models: the tests of `compare`, the numbers, and the questions on which they differ."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from fastrec.answers.choosing import choose_scopes
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query, Scope
from fastrec.answers.values import value_rows
from fastrec.commands.view.addresses import Addresses, PageState
from fastrec.commands.view.layout import Frame
from fastrec.commands.view.model_page import behind_table
from fastrec.filters import Filters
from fastrec.html import Html, each, html, num, row, soft, table, tag
from fastrec.statistics.adjust import benjamini_hochberg
from fastrec.statistics.paired import Paired, compare_series
from fastrec.wording import metrics_of, title_of

_HEADS: Final = (
    "evaluation", "A", "B", "difference", "questions", "A better", "B better", "equal", "test", "p",
    "p, adjusted", "detectable",
)  # fmt: skip
_ABOUT: Final = (
    "p: how likely so large a difference is if both models are equally good, by McNemar's test or "
    "a paired t-test over questions; adjusted for the number of evaluations (Benjamini and "
    "Hochberg). Detectable: the smallest difference that is found with p < 0.05 in 80% of all "
    "cases. Links lead to the questions that one model has right and the other one wrong."
)


def pair_page(frame: Frame, index: QuestionTable, state: PageState) -> Html:
    """Compare the two models of a state on the evaluations that both have answered."""
    a, b = state.query.models
    addresses = frame.addresses
    tested = []
    for scope, query in choose_scopes(index.scopes, Filters()):
        is_wanted = state.query.evaluation_name in ("", scope.evaluation_name)
        if is_wanted and a in scope.models and b in scope.models:
            tested.append((scope, query, _test(index, scope, query, (a, b))))
    p_values = [found.p for _, _, found in tested if found.p is not None]
    adjusted = iter(benjamini_hochberg(p_values))
    rows = []
    for scope, query, found in tested:
        title = title_of(
            scope.evaluation_name, scope.metric, metrics_of(index.scopes)[scope.evaluation_name]
        )
        chosen = replace(query, models=(a, b), where=state.query.where, sort="hardest")
        cells = _cells(addresses, scope, chosen, found)
        p = None if found.p is None else num(next(adjusted), ".3g")
        link = tag("a", title, href=addresses.table(PageState(query=chosen)))
        rows.append(row(link, *cells[:-1], p or "", cells[-1]))
    models = [(letter, addresses.models("model", one), one) for letter, one in (("A", a), ("B", b))]
    ahead = [
        behind_table(
            f"Questions on which {letter} is ahead most",
            addresses,
            index,
            [replace(query, models=(behind,)) for _, query, _ in tested],
            (other,),
        )
        for letter, behind, other in (("A", b, a), ("B", a, b))
    ]
    return frame.page(
        "Two models",
        [(a, addresses.models("model", a)), (b, None)],
        html("<h1>Two models</h1>{}", each('<p><b>{}</b>: <a href="{}">{}</a></p>', models)),
        table("Results on common questions", _HEADS, rows) or soft("They have none in common."),
        soft(_ABOUT),
        *ahead,
    )


def _test(index: QuestionTable, scope: Scope, query: Query, pair: tuple[str, str]) -> Paired:
    """Test whether two models differ, as `compare` does."""
    values = value_rows(index, query, pair)
    clusters = index.table(query).clusters_of(values)
    series = ((b, a) for a, b in values.values())
    (found,) = compare_series([series], graded=scope.graded, clusters=clusters)
    return found


def _cells(addresses: Addresses, scope: Scope, query: Query, found: Paired) -> list[Html]:
    """The numbers of a comparison; those of questions that differ are links."""
    spec = ".3f" if scope.graded else ".1%"
    a, b = query.models
    wins, losses = found.rose, found.fell
    if scope.lower_is_better:
        wins, losses = losses, wins

    def ways(count: int, right: str, wrong: str) -> Html:
        chosen = replace(query, right=(right,), wrong=(wrong,))
        link = tag("a", f"{count:,}", href=addresses.table(PageState(query=chosen)))
        return tag("td", link, class_="num")

    return [
        num(found.second, spec),
        num(found.first, spec),
        num(found.difference, f"+{spec}"),
        num(found.questions),
        ways(wins, a, b),
        ways(losses, b, a),
        num(found.questions - found.rose - found.fell),
        tag("td", found.test or ""),
        num(found.p, ".3g"),
        num(found.detectable, spec),
    ]
