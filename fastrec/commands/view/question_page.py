"""A question: its input, references and choices, what all models made of it, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Final

from msgspec.structs import replace

from fastrec.answers.index import Index
from fastrec.answers.table import OUTCOMES, Outcome, QuestionRow, Scope
from fastrec.answers.transcript import Transcript
from fastrec.answers.wording import tally_facts
from fastrec.commands.view.addresses import PageState, QuestionAddresses, filter_pairs, scope_pairs
from fastrec.commands.view.answer_cards import NumberedAnswer, cards, compared, folded, numbered
from fastrec.commands.view.layout import Frame, key_link
from fastrec.commands.view.names import AnswerName
from fastrec.commands.view.start_page import metric_name
from fastrec.commands.view.table_page import metric_links
from fastrec.commands.view.texts import SIGNS, block, hidden_fields
from fastrec.errors import counted
from fastrec.html import Html, joined, tag

__all__ = ["NO_MORE", "question_card", "question_page"]

NO_MORE: Final = "no-more"
"""The anchor of a note that is visible only if an address has it."""
_INPUT: Final = 6_000
_PROMPT: Final = 3_000


def question_page(frame: Frame, index: Index, scope: Scope, state: PageState, row: QuestionRow) -> Html:
    """Show a question with all answers, or with those that are chosen."""
    query, here = state.query, QuestionAddresses(frame.addresses, state, row.sample_hash)
    models = tuple(dict.fromkeys(one.model for one in state.show)) or query.models
    shown = numbered(index.answers(row, models))
    if state.show:
        by_choice = {one.name: one for one in shown}
        shown = [by_choice[chosen] for chosen in state.show if chosen in by_choice]
    some = shown or numbered(index.answers(row))  # the chosen models may lack this question
    title = str(row.sample_id)
    question = joined(
        tag("h1", title),
        tag("p", _about(scope, row), class_="soft"),
        *(question_card(here, one.transcript) for one in some[:1]),
    )
    other = metric_links(index, query, lambda metric: here.question(query=replace(query, metric=metric)))
    outcomes = _glance(here, index.outcomes(query, row.sample_hash))
    answers = _answers(here, shown)
    return frame.page(
        f"{title} · {query.evaluation_name}",
        [(query.evaluation_name, here.table()), (title, None)],
        _links(here, index),
        tag("p", "There is no disagreement after this question.", id=NO_MORE, class_="card"),
        other,
        tag("div", tag("section", question, class_="asked"), tag("section", outcomes, answers), class_="columns"),
    )


def _about(scope: Scope, row: QuestionRow) -> str:
    metric = [] if scope.metric is None else [metric_name(scope.metric)]
    return " · ".join([*metric, *tally_facts(row, graded=scope.graded)])


def _links(here: QuestionAddresses, index: Index) -> Html:
    """Link to the questions before and after this one, in the order of the table."""
    before, after = index.neighbours(here.state.query, here.sample_hash)
    state = replace(here.state, whole=False)

    def link(row: QuestionRow | None) -> str | None:
        return here.all.question(state, row.sample_hash) if row else None

    return tag(
        "nav",
        key_link("← Previous", "k p", link(before), rel="prev"),
        key_link("Next →", "j n", link(after), rel="next"),
        key_link("Next disagreement", "d", here.disagreement()),
        tag("a", "Answers ↓", href="#answers", class_="button narrow-only"),
        class_="steps",
        aria_label="Questions",
    )


def question_card(here: QuestionAddresses, transcript: Transcript) -> Html:
    """Show the input, the references and the choices."""
    whole = here.question(whole=True)
    most = None if here.state.whole else _INPUT
    parts = [tag("h2", "Question"), block(transcript.question, most, whole)]
    if transcript.choices:
        expected = _expected(transcript)
        items = (_choice(choice, expected=number in expected) for number, choice in enumerate(transcript.choices))
        parts += [tag("h2", "Choices"), tag("ol", *items, class_="choices")]
    references = [block(reference, most, whole, class_="text reference") for reference in transcript.references]
    parts += [tag("h2", "Reference" if len(references) == 1 else "References"), *references]
    if not references:
        parts.append(tag("p", "none", class_="soft"))
    if transcript.prompt and transcript.prompt != transcript.question:
        parts.append(folded("Prompt as formatted", transcript.prompt, None if here.state.whole else _PROMPT, whole))
    parts.append(tag("p", tag("code", here.sample_hash, title="sample_hash"), class_="soft hash"))
    return tag("div", *parts, class_="card")


def _expected(transcript: Transcript) -> set[int]:
    """Return the positions of choices that a reference names, by their text or else by their letter."""
    choices, references = transcript.choices, transcript.references
    by_text = {number for number, choice in enumerate(choices) if choice in references}
    letters = list(ascii_uppercase[: len(choices)])
    return by_text or {letters.index(one) for one in references if one in letters}


def _choice(choice: str, *, expected: bool) -> Html:
    note = tag("span", " ✓ reference", class_="note") if expected else None
    return tag("li", block(choice, _PROMPT, class_="text"), note, class_="expected" if expected else None)


def _glance(here: QuestionAddresses, outcomes: Mapping[str, Outcome]) -> Html:
    """Show the outcome of every model as a small square, with a legend."""
    counts = {outcome: sum(one == outcome for one in outcomes.values()) for outcome in OUTCOMES}
    legend = (
        tag("span", tag("i", SIGNS[outcome], class_=f"dot {outcome}"), f" {counts[outcome]:,} {outcome}")
        for outcome in OUTCOMES
        if counts[outcome]
    )
    squares = (_square(here, model, outcome) for model, outcome in outcomes.items())
    return tag(
        "div",
        tag("h2", "All models"),
        tag("div", *squares, class_="squares"),
        tag("p", *legend, class_="legend"),
        class_="card glance",
    )


def _square(here: QuestionAddresses, model: str, outcome: Outcome) -> Html:
    label = f"{model}: {'no record' if outcome == 'none' else outcome}"
    class_ = f"dot {outcome}"
    if outcome == "none":
        return tag("span", SIGNS[outcome], class_=class_, title=label)
    address = here.answer(AnswerName(model))
    return tag("a", SIGNS[outcome], href=address, class_=class_, title=label, aria_label=label)


def _answers(here: QuestionAddresses, shown: Sequence[NumberedAnswer]) -> Html:
    """Show the answers in a form to choose some of them."""
    state = here.state
    all_answers = here.question(show=(), differences=False)
    pairs = [*scope_pairs(state.query), *filter_pairs(state.query)]
    rest = shown
    two = Html("")
    if state.differences and len(shown) > 1:
        two, rest = compared(here, *shown[:2]), shown[2:]
    elif state.differences:
        two = tag("p", "Choose two answers to see their differences.", class_="note")
    choose = (
        tag("span", "Chosen:", class_="soft"),
        tag("button", "Side by side", class_="button"),
        tag("button", "Differences", class_="button", name="differences", value="1", title="Of the first two"),
    )
    tools = tag(
        "div",
        tag("h2", counted(len(shown), "answer")),
        *(choose if len(shown) > 1 else ()),
        tag("a", "All answers", href=all_answers, class_="button") if state.show else None,
        class_="answer-tools",
    )
    listed = cards(here, rest) if rest else Html("")
    return tag("form", hidden_fields(pairs), tools, two, listed, action=all_answers.partition("?")[0], id="answers")
