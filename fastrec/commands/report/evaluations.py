"""Sections about costs and questions."""

import shlex
from collections.abc import Sequence
from glob import escape
from itertools import chain, zip_longest

from msgspec.structs import replace

from fastrec.answers.costs import ModelCost, total_costs
from fastrec.answers.items import Item
from fastrec.answers.question_html import question_body
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.shown import read_question, tally_facts
from fastrec.answers.table import Query, QuestionRow, Scope, Sort
from fastrec.commands.report.charts import left_out
from fastrec.filters import Filters
from fastrec.html import Html, details, each, html, joined, num, row, soft, table
from fastrec.limits import current_limits
from fastrec.summary.present_ranking import Stats
from fastrec.wording import cut_middle, metrics_of, title_of


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


_LONGEST = 1_000  # characters of a text
_REFERENCE_CHARS = 200
_ANSWERS = 2  # shown of each side: the best models, and the worst
_ANALYSED = 50  # evaluations whose questions are analysed
_SUSPECTS = 50  # questions in the table


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
    """Show some questions: half are the hardest, half those on which models disagree most.

    Each evaluation has one before any has two. `corpus` is the name of the corpus in commands.
    """
    names = {(scope.evaluation_name, scope.metric) for scope in stats.evaluations}
    queries = [
        query_of(scope) for scope in index.scopes if (scope.evaluation_name, scope.metric) in names
    ]
    known: set[tuple[str, str | None, str]] = set()
    groups = []
    kinds: dict[Sort, str] = {
        "hardest": "Hardest questions",
        "disagreement": "Most disputed questions",
    }
    for sort, title in kinds.items():
        most = (number + 1) // 2 if sort == "hardest" else number - len(known)
        pages = index.pages([replace(query, sort=sort) for query in queries], number)
        in_turns = chain(*zip_longest(*(page.rows for page in pages)))
        cards: list[Html] = []
        for question in filter(None, in_turns):
            place = (question.evaluation_name, question.metric, question.name)
            is_wanted = question.disagreement if sort == "disagreement" else question.share != 1
            if question.models and is_wanted and place not in known and len(cards) < most:
                known.add(place)
                cards.append(_card(index, question, corpus))
        if cards:
            groups.append(html('<h3 class="group">{}</h3>{}', title, cards))
    command = f"fastrec questions {shlex.quote(corpus)}"
    about = html('<p class="soft">All questions: <code>{}</code></p>', command)
    return joined(about, groups) if groups else Html("")


def _card(index: QuestionTable, row: QuestionRow, corpus: str) -> Html:
    """Show a question with answers of the best and worst models; it unfolds."""
    query = Query(evaluation_name=row.evaluation_name, metric=row.metric)
    scope = index.scope(query)
    assert scope  # the row is in it
    metrics = metrics_of(index.scopes)[row.evaluation_name]
    command = f"fastrec show {shlex.quote(corpus)} {shlex.quote(row.sample_hash[:16])}"
    if row.name != row.sample_hash:
        command += f" --sample-id {shlex.quote(escape(str(row.sample_id)))}"
    facts = "; ".join([*tally_facts(row, graded=scope.graded), f"sample {row.sample_id}"])
    outcomes = index.outcomes(query, row.name)
    judged = [model for model, (outcome, _) in outcomes.items() if outcome not in ("error", "none")]
    models = dict.fromkeys([*judged[:_ANSWERS], *judged[-_ANSWERS:]])
    shown = read_question(index, [query], row.name, Filters(), list(models))
    assert shown
    title = title_of(row.evaluation_name, row.metric, metrics)
    summary = html('<b>{}</b> {} <span class="soft">{}</span>', title, row.excerpt, facts)
    note = html('<p class="soft">All answers, in full: <code>{}</code></p>', command)
    body = question_body(shown, _LONGEST)
    return html('<article class="question">{}</article>', details(summary, body, note))
