"""Answers side by side: cards if they are few, else a list that unfolds; two of them with their differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fastrec.answers.answer import Answer
from fastrec.answers.repeats import tell_apart, trial_of
from fastrec.answers.transcript import Transcript, transcript_of
from fastrec.commands.view.addresses import QuestionAddresses
from fastrec.commands.view.differences import LONGEST, Piece, differences
from fastrec.commands.view.names import AnswerName, answer_name_text
from fastrec.commands.view.texts import FIGURES, block, facts, figures, short, verdict
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, joined, multiline, tag

__all__ = ["NumberedAnswer", "cards", "compared", "folded", "numbered", "repeat_text"]

_MOST_CARDS: Final = 12
"""With more answers than this, the page is a list."""
_CARD_TEXT: Final = 2_000
_LISTED_TEXT: Final = 600
_START: Final = 160
_EXTRACTED: Final = 200
_TRIAL: Final = 60


class NumberedAnswer(msgspec.Struct, frozen=True):
    """An answer, how addresses name it, its conversation, and what tells it from other answers of its model."""

    name: AnswerName
    answer: Answer
    transcript: Transcript
    total: int
    """How many answers the model has to the question."""
    trial: dict[str, str]


def numbered(answers: Iterable[Answer]) -> list[NumberedAnswer]:
    """Number the answers of each model from 1, in the order of the models."""
    by_model: dict[str, list[tuple[Answer, Transcript]]] = {}
    for answer in answers:
        by_model.setdefault(answer.model_id, []).append((answer, transcript_of(answer.line)))
    made = []
    for model, same in by_model.items():
        trials = tell_apart([trial_of(one.evaluation_id, one.sample_id, said) for one, said in same])
        made += [
            NumberedAnswer(AnswerName(model, number), one, said, len(same), trial)
            for number, ((one, said), trial) in enumerate(zip(same, trials, strict=True), start=1)
        ]
    return made


def repeat_text(one: NumberedAnswer) -> str:
    """Say which of several answers of its model it is; empty if there is only one."""
    if one.total == 1:
        return ""
    trial = (f" · {name} {short(value, _TRIAL)}" for name, value in one.trial.items())
    return f"answer {one.name.ordinal:,} of {one.total:,}{''.join(trial)}"


def cards(here: QuestionAddresses, shown: Sequence[NumberedAnswer]) -> Html:
    """Show answers as cards, or as a list if there are many."""
    if len(shown) <= _MOST_CARDS:
        made = (_card(here, one) for one in shown)
        return tag("div", *made, class_="cards")
    rows = (_row(here, one) for one in shown)
    names = ("verdict", "model", *FIGURES)
    head = tag("div", tag("span", *(tag("span", name) for name in names), class_="grid"), class_="list-head")
    columns = zip(FIGURES, zip(*(figures(one.answer) for one in shown), strict=True), strict=True)
    empty = [f"no-{name}" for name, values in columns if not any(values)]
    return tag("div", head, *rows, class_=" ".join(["answer-list", *empty]))


def compared(here: QuestionAddresses, left: NumberedAnswer, right: NumberedAnswer) -> Html:
    """Show two answers with their differences highlighted."""
    texts = left.transcript.final_text, right.transcript.final_text
    pieces, by_words = differences(*texts)
    note = "Words that only one answer has are marked."
    if not by_words:
        note = "The answers differ too much to compare words: sentences that only one answer has are marked."
    if max(map(len, texts)) > LONGEST:
        note += f" Only the first {LONGEST:,} characters are compared."
    if texts[0] == texts[1]:
        note = "Both answers are equal, to the letter."
    sides = (
        _card(here, left, _marked(pieces, "left")),
        _card(here, right, _marked(pieces, "right")),
    )
    return joined(tag("p", note, class_="soft"), tag("div", *sides, class_="cards pair"))


def _marked(pieces: Sequence[Piece], side: str) -> Html:
    made: list[Child] = []
    for piece in pieces:
        text: str = getattr(piece, side)
        marked = "" if piece.equal else text.rstrip() or text  # a mark does not end with white space
        if marked:
            made.append(tag("mark", multiline(marked), class_=side))
        made.append(multiline(text[len(marked) :]))
    return tag("div", *made, class_="text", dir="auto")


def _name(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    return tag("a", one.answer.model_id, href=here.answer(one.name), class_="model")


def _repeat(one: NumberedAnswer) -> Html | None:
    return tag("span", repeat_text(one), class_="repeat") if one.total > 1 else None


def _box(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    label = " ".join(["Choose", one.answer.model_id, repeat_text(one)]).strip()
    checked = one.name in here.state.show
    value = Exact(answer_name_text(one.name))
    return tag("input", type="checkbox", name="show", value=value, checked=checked, aria_label=label)


def _card(here: QuestionAddresses, one: NumberedAnswer, text: Html | None = None) -> Html:
    head = tag(
        "header",
        tag("h3", _box(here, one), _name(here, one)),
        verdict(one.answer.outcome),
    )
    body = _body(here, one, _CARD_TEXT, text)
    return tag("article", head, _repeat(one), facts(one.answer), *body, class_=f"card answer {one.answer.outcome}")


def _row(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    """Make a row of the list: unfolded, it is as a card."""
    answer = one.answer
    start = answer.error or one.transcript.final_text
    summary = tag(
        "summary",
        verdict(answer.outcome),
        tag("span", tag("span", answer.model_id, class_="model"), _repeat(one), class_="who"),
        *(tag("span", value, class_="figure") for value in figures(answer)),
        tag("span", short(start, _START), class_="excerpt", dir="auto"),
        class_="grid",
    )
    link = tag("p", _name(here, one))
    body = _body(here, one, _LISTED_TEXT)
    return tag("div", _box(here, one), tag("details", summary, link, *body), class_=f"answer {answer.outcome}")


def _body(here: QuestionAddresses, one: NumberedAnswer, most: int, text: Html | None = None) -> list[Html]:
    """Show the error, what was extracted, the reasoning, the final text, and a link to the transcript."""
    address = here.answer(one.name)
    transcript = one.transcript
    made = []
    if one.answer.error:
        made.append(tag("p", "Error: ", short(one.answer.error, _CARD_TEXT), class_="error-text"))
    said = transcript.final_text
    extracted = [value for value in dict.fromkeys(transcript.extracted) if value and not said.startswith(value)]
    if extracted:
        values = joined(*(tag("code", short(value, _EXTRACTED)) for value in extracted[:5]))
        made.append(tag("p", "Extracted: ", values, class_="extracted"))
    reasoning = "\n\n".join(turn.reasoning for turn in transcript.turns if turn.reasoning)
    if reasoning:
        made.append(folded("Reasoning", reasoning, most, address))
    made.append(text or block(said, most, address))
    calls = sum(len(turn.calls) for turn in transcript.turns)
    if len(transcript.turns) > 1 or calls:
        counts = f"Transcript: {counted(len(transcript.turns), 'turn')}, {counted(calls, 'tool call')}"
        made.append(tag("p", tag("a", counts, href=address)))
    return made


def folded(title: str, text: str, most: int | None, address: str | None, *, class_: str = "text") -> Html:
    """Show a text that unfolds."""
    size = tag("span", counted(len(text), "character"), class_="soft")
    return tag("details", tag("summary", f"{title} ", size), block(text, most, address, class_=class_), class_="folded")
