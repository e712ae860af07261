"""The hardest and the most disputed questions, with answers that differ.

Half of them are the hardest and half the most disputed. Of each kind, the first question of every evaluation and metric
comes before the second of any, so that one evaluation does not take all the places.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from fastrec.answers.answer import Answer
from fastrec.answers.index import Index
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.answers.transcript import Transcript, transcript_of
from fastrec.answers.wording import score_text, tally_facts
from fastrec.errors import counted
from fastrec.html import Html, joined, multiline, tag
from fastrec.summary.titles import metrics_of, title_of

__all__ = ["question_cards"]

_Kind = Literal["hardest", "disagreement"]
_QUESTION_CHARS: Final = 600
_ANSWER_CHARS: Final = 400
_REFERENCE_CHARS: Final = 200
_REFERENCES: Final = 5
_ANSWERS: Final = 2  # shown of each side: the best models, and the worst
_READ: Final = 8  # answers of each side to choose from: those shown should differ
_CANDIDATES: Final = 50  # questions of a scope to choose from: of equally hard ones, those that most models answered


class _Chosen(NamedTuple):
    """A question to show."""

    scope: Scope
    row: QuestionRow


def question_cards(index: Index, number: int, corpus: str) -> Html:
    """Show some questions; `corpus` is the name of the corpus in the command that shows all of them."""
    hardest = _choose(index, "hardest", (number + 1) // 2)
    disputed = _choose(index, "disagreement", number - len(hardest), hardest)
    if len(hardest) + len(disputed) < number:
        hardest = _choose(index, "hardest", number - len(disputed), disputed)
    metrics = metrics_of(index.scopes)
    groups = []
    for title, chosen in (("Hardest questions", hardest), ("Most disputed questions", disputed)):
        if chosen:
            cards = [_card(index, one, metrics[one.scope.evaluation_name], corpus) for one in chosen]
            groups += [tag("h3", title, class_="group"), tag("div", *cards, class_="questions")]
    if not groups:
        return Html("")
    command = tag("code", f"fastrec questions {shlex.quote(corpus)}")
    about = (
        "Hardest: the smallest share of models is right. Most disputed: about half of them are, or scores differ most. "
        "Each evaluation has one before any has two. All questions: "
    )
    return joined(tag("p", about, command, class_="soft"), *groups)


def _choose(index: Index, kind: _Kind, number: int, others: Sequence[_Chosen] = ()) -> list[_Chosen]:
    """Choose questions besides others: the first of each scope, then the second, and so on; each time by `_rank`."""
    known = {(one.scope, one.row.sample_hash) for one in others}
    rounds: dict[int, list[_Chosen]] = {}
    for scope in index.scopes:
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, sort=kind)
        rows = index.page(query, limit=max(_CANDIDATES, 2 * number)).rows if number else []
        found = [_Chosen(scope, row) for row in rows if _is_of(kind, scope, row)]
        found = [one for one in found if (scope, one.row.sample_hash) not in known]
        for place, one in enumerate(sorted(found, key=lambda one: _rank(kind, one))[:number]):
            rounds.setdefault(place, []).append(one)
    ordered = [one for _, some in sorted(rounds.items()) for one in sorted(some, key=lambda one: _rank(kind, one))]
    return ordered[:number]


def _is_of(kind: _Kind, scope: Scope, row: QuestionRow) -> bool:
    """Return whether a question is hard or disputed at all."""
    if kind == "disagreement":
        return bool(row.disagreement)
    return row.models > 0 and (scope.graded or row.share != 1)


def _rank(kind: _Kind, one: _Chosen) -> tuple[float, int, str, str, str]:
    scope, row = one
    value = row.mean_score if scope.graded else row.share
    hard = min(max(value or 0.0, 0.0), 1.0)
    first = -(row.disagreement or 0.0) if kind == "disagreement" else hard
    return first, -row.models, scope.evaluation_name, scope.metric or "", row.sample_hash


def _card(index: Index, chosen: _Chosen, metrics: int, corpus: str) -> Html:
    scope, row = chosen
    best, worst = _answers(index, chosen)
    found = [(answer, transcript_of(answer.line)) for answer in (*best, *worst)]
    asked = found[0][1]
    long = [len(asked.question) > _QUESTION_CHARS, len(asked.references) > _REFERENCES]
    long += [len(text) > _REFERENCE_CHARS for text in asked.references]
    long += [len(text) > _ANSWER_CHARS for _, told in found for text in (told.final_text, ", ".join(told.extracted))]
    command = f"fastrec show {shlex.quote(corpus)} {shlex.quote(row.sample_hash[:16])}"
    notes = "The text is cut. All answers, in full: " if any(long) else "All answers: "
    return tag(
        "article",
        tag("h4", title_of(scope.evaluation_name, scope.metric, metrics)),
        tag("p", "; ".join([*tally_facts(row, graded=scope.graded), f"sample {row.sample_id}"]), class_="soft"),
        tag("div", multiline(_cut(asked.question, _QUESTION_CHARS)), class_="text"),
        _references(asked),
        tag("dl", *(_answer(answer, told, graded=scope.graded) for answer, told in found)),
        tag("p", notes, tag("code", command), class_="soft"),
        class_="question",
    )


def _answers(index: Index, chosen: _Chosen) -> tuple[list[Answer], list[Answer]]:
    """Read the answers of a few of the best and of the worst models; if all are alike, only of some."""
    scope, row = chosen
    query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric)
    one = msgspec.structs.replace(query, hashes=(row.sample_hash,))
    values = dict(zip(scope.models, index.values(one, scope.models)[row.sample_hash], strict=True))
    ranked = sorted((-value, model) for model, value in values.items() if value is not None)
    middle = (ranked[0][0] + ranked[-1][0]) / 2
    best = [model for value, model in ranked if value <= middle][:_READ]
    worst = [model for value, model in reversed(ranked) if value > middle][:_READ]
    read = index.answers(row, [*best, *worst])
    wanted = 2 * _ANSWERS if not worst else _ANSWERS
    return _different(read, best, wanted), _different(read, worst, _ANSWERS)


def _different(answers: Sequence[Answer], models: Sequence[str], number: int) -> list[Answer]:
    """Choose answers of models, one of each, and those that say the same only if there are no others."""
    first = {answer.model_id: answer for answer in reversed(answers) if answer.outcome != "error"}
    there = [first[model] for model in models if model in first]
    said: dict[str, Answer] = {}
    for answer in there:
        said.setdefault(transcript_of(answer.line).final_text, answer)
    chosen = list(said.values())
    chosen += [answer for answer in there if answer not in chosen]
    return chosen[:number]


def _answer(answer: Answer, told: Transcript, *, graded: bool) -> Html:
    verdict = score_text(answer.score) if graded else "right" if answer.outcome == "right" else "wrong"
    kind = "score" if graded else verdict
    turns = f"the last of {counted(len(told.turns), 'turn')}" if len(told.turns) > 1 else None
    text = told.final_text
    taken = ", ".join(told.extracted)
    extracted = None
    if taken and taken != text:
        extracted = tag("p", f"taken as the answer: {_cut(taken, _ANSWER_CHARS)}", class_="soft")
    name = tag("dt", tag("b", verdict, class_=f"verdict {kind}"), " ", answer.model_id, " ", tag("small", turns or ""))
    said = tag("div", multiline(_cut(text, _ANSWER_CHARS)) if text else "(nothing)", class_="text")
    return joined(name, tag("dd", said, extracted))


def _references(asked: Transcript) -> Html | None:
    if not asked.references:
        return None
    listed = [_cut(one, _REFERENCE_CHARS) for one in asked.references[:_REFERENCES]]
    more = len(asked.references) - len(listed)
    said = " or ".join(listed) + (f" … and {more:,} more" if more > 0 else "")
    return tag("p", tag("b", "Reference: "), tag("span", multiline(said)), class_="text")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
