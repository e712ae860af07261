"""A question: its input, references and choices, what all models made of it, and their answers.

Answers are cards if they are few, else a list that unfolds. Two of them can be shown with their
differences, word by word:

1. Cut both texts into words, each with the white space after it, and single other characters.
2. Leave out what is equal at both ends. Find the shortest way from one text to the other (Myers,
   1986) in the middle. The effort grows with the square of the differences, so it is limited. Texts
   that differ more than that are compared by sentences; if they still do, the middle counts as
   different.
3. A few equal words between two differences are noise, and belong to the differences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from string import ascii_uppercase
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.reading import Answer
from fastrec.answers.shown import tally_facts, tell_apart, trial_of
from fastrec.answers.table import OUTCOMES, Outcome, QuestionRow, Scope
from fastrec.answers.transcript import Transcript, decoded, transcript_of
from fastrec.commands.view.addresses import (
    AnswerName,
    PageState,
    QuestionAddresses,
    answer_name_text,
    query_pairs,
)
from fastrec.commands.view.layout import (
    FIGURES,
    LONGEST_NAME,
    MOST,
    Frame,
    answer_text,
    block,
    facts,
    figures,
    folded,
    hidden_fields,
    key_link,
    name_filter,
    verdict,
)
from fastrec.commands.view.table_page import metric_links, metric_name
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, joined, multiline, soft, tag
from fastrec.limits import current_limits
from fastrec.normalize.corrections import Label, Labeller
from fastrec.wording import SIGNS, cut_middle, even_scores, score_text, signs_of

_LONGEST: Final = 20_000  # characters of each text that are compared
_MOST_EDITS: Final = 1_200
_WORDS: Final = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
_SENTENCES: Final = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+")
_NOISE: Final = 2  # so many equal words between two differences do not count


Piece = tuple[str, str]  # of both texts: equal, or different; then one of them may be empty


def differences(left: str, right: str) -> tuple[list[Piece], bool]:
    """Compare the beginnings of two texts.

    Return pieces, and whether the texts were compared word by word.

    >>> differences("It is 42.", "It is 43.")[0]
    [('It is ', 'It is '), ('42', '43'), ('.', '.')]
    """
    left, right = left[:_LONGEST], right[:_LONGEST]
    by_words = _compare(_WORDS.findall(left), _WORDS.findall(right))
    if by_words is not None:
        return by_words, True
    a = _SENTENCES.findall(left)
    b = _SENTENCES.findall(right)
    return _compare(a, b) or list(_pieces(a, b, [])), False


def _compare(a: Sequence[str], b: Sequence[str]) -> list[Piece] | None:
    """Compare words or sentences; None if they differ too much."""
    start = _common(a, b)
    a_rest = a[start:]
    b_rest = b[start:]
    end = _common(a_rest[::-1], b_rest[::-1])
    runs = _equal_runs(a_rest[: len(a_rest) - end], b_rest[: len(b_rest) - end])
    if runs is None:
        return None
    blocks = [(0, 0, start)]
    for i, j, length in runs:
        words = sum(any(map(str.isalnum, word)) for word in a_rest[i : i + length])
        if words > _NOISE:  # few words are equal by chance
            blocks.append((start + i, start + j, length))
    return list(_pieces(a, b, [*blocks, (len(a) - end, len(b) - end, end)]))


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    length = min(len(a), len(b))
    return next((number for number in range(length) if a[number] != b[number]), length)


def _equal_runs(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Find the runs that both have in common (start in a, start in b, length).

    None if they differ too much.
    """
    most = min(len(a) + len(b), _MOST_EDITS)
    ends = (len(a), len(b))
    # By diagonal: how far it was reached, and the runs on the way, as a linked list. Below zero,
    # they are at the end.
    reached = [0] * (2 * most + 3)
    runs_to: list[Any] = [()] * len(reached)
    for edits in range(most + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1]
            )
            before = diagonal + 1 if down else diagonal - 1
            x = reached[before] if down else reached[before] + 1
            runs = runs_to[before]
            start = x
            y = x - diagonal
            while x < ends[0] and y < ends[1] and a[x] == b[y]:
                x += 1
                y += 1
            reached[diagonal] = x
            runs_to[diagonal] = ((start, start - diagonal, x - start), runs) if x > start else runs
            if (x, y) == ends:
                found = []
                runs = runs_to[diagonal]
                while runs:
                    run, runs = runs
                    found.append(run)
                return found[::-1]
    return None


def _pieces(
    a: Sequence[str], b: Sequence[str], blocks: Sequence[tuple[int, int, int]]
) -> Iterator[Piece]:
    """Yield the equal blocks, and what is between them."""
    x = y = 0
    for i, j, length in [*blocks, (len(a), len(b), 0)]:
        if i > x or j > y:
            yield "".join(a[x:i]), "".join(b[y:j])
        if length:
            yield "".join(a[i : i + length]), "".join(b[j : j + length])
        x, y = i + length, j + length


_MOST_CARDS: Final = 12  # with more answers than this, the page is a list
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
    score: str
    label: Label | None
    total: int  # how many answers the model has to the question
    trial: dict[str, str]
    can_label: bool  # no other answer of its model has the same trial, and it has no error


def numbered(answers: Iterable[Answer], labels: Labeller | None = None) -> list[NumberedAnswer]:
    """Number the answers of each model from 1, in the order of the models."""
    answers = list(answers)
    by_model: dict[str, list[tuple[Answer, Transcript, str, Label | None]]] = {}
    for answer, score in zip(answers, even_scores(one.score for one in answers), strict=True):
        value = decoded(answer.line)
        label = labels.label_of(value) if labels else None
        by_model.setdefault(answer.model_id, []).append(
            (answer, transcript_of(value), score, label)
        )
    made = []
    for model, same in by_model.items():
        trials = tell_apart(
            [trial_of(one.evaluation_id, one.sample_id, said) for one, said, *_ in same]
        )
        answers_of_model = zip(same, trials, are_unique(trials), strict=True)
        made += [
            NumberedAnswer(
                AnswerName(model, at), *one, len(same), trial, is_unique and not one[0].error
            )
            for at, (one, trial, is_unique) in enumerate(answers_of_model, start=1)
        ]
    return made


def are_unique(trials: Iterable[Mapping[str, str]]) -> list[bool]:
    """Return for each trial whether no other one is equal to it."""
    keys = [frozenset(trial.items()) for trial in trials]
    counts = Counter(keys)
    return [counts[key] == 1 for key in keys]


def _short(text: str, most: int) -> str:
    """Put the beginning of a text on one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[:most].rstrip() + "…"


def repeat_text(one: NumberedAnswer) -> str:
    """Say which of several answers of its model it is; empty if there is only one."""
    if one.total == 1:
        return ""
    trial = (f" · {name} {_short(value, _TRIAL)}" for name, value in one.trial.items())
    return f"answer {one.name.ordinal:,} of {one.total:,}{''.join(trial)}"


def label_text(label: Label) -> str:
    said = [] if label.is_correct is None else ["right" if label.is_correct else "wrong"]
    said += [] if label.score is None else [f"score {score_text(label.score)}"]
    return f"label: {', '.join([*said, *filter(None, (label.reason, label.by))])}"


def _cards(here: QuestionAddresses, shown: Sequence[NumberedAnswer]) -> Html:
    if len(shown) <= _MOST_CARDS:
        return tag("div", *(_card(here, one) for one in shown), class_="cards")
    rows = (_row(here, one) for one in shown)
    names = ("verdict", "model", *FIGURES)
    head = tag(
        "div",
        tag("span", *(tag("span", name) for name in names), class_="grid"),
        class_="list-head",
    )
    columns = zip(
        FIGURES, zip(*(figures(one.answer, one.score) for one in shown), strict=True), strict=True
    )
    empty = [f"no-{name}" for name, values in columns if not any(values)]
    return tag("div", head, *rows, class_=" ".join(["answer-list", *empty]))


def _compared(here: QuestionAddresses, left: NumberedAnswer, right: NumberedAnswer) -> Html:
    texts = left.transcript.final_text, right.transcript.final_text
    pieces, by_words = differences(*texts)
    note = "Words that only one answer has are marked."
    if not by_words:
        note = (
            "The answers differ too much to compare words: sentences that only one answer has "
            "are marked."
        )
    if max(map(len, texts)) > _LONGEST:
        note += f" Only the first {_LONGEST:,} characters are compared."
    if texts[0] == texts[1]:
        note = "Both answers are equal, to the letter."
    sides = _card(here, left, _marked(pieces, 0)), _card(here, right, _marked(pieces, 1))
    return joined(soft(note), tag("div", *sides, class_="cards pair"))


def _marked(pieces: Sequence[Piece], side: int) -> Html:
    made: list[Child] = []
    for piece in pieces:
        text = piece[side]
        marked = (
            "" if piece[0] == piece[1] else text.rstrip() or text
        )  # a mark does not end with white space
        if marked:
            made.append(tag("mark", multiline(marked), class_=("left", "right")[side]))
        made.append(multiline(text[len(marked) :]))
    return tag("div", *made, class_="text", dir="auto")


def _name(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    model = one.answer.model_id
    return tag(
        "a",
        cut_middle(model, LONGEST_NAME),
        href=here.answer(one.name),
        class_="model",
        title=model,
    )


def _repeat(one: NumberedAnswer) -> Html | None:
    said = [repeat_text(one)] * (one.total > 1) + ([label_text(one.label)] if one.label else [])
    return tag("span", " · ".join(said), class_="repeat") if said else None


def _box(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    label = " ".join(["Choose", one.answer.model_id, repeat_text(one)]).strip()
    checked = one.name in here.state.show
    value = Exact(answer_name_text(one.name))
    return tag(
        "input", type="checkbox", name="show", value=value, checked=checked, aria_label=label
    )


def _card(here: QuestionAddresses, one: NumberedAnswer, text: Html | None = None) -> Html:
    head = tag("header", tag("h3", _box(here, one), _name(here, one)), verdict(one.answer.outcome))
    body = _body(here, one, _CARD_TEXT, text)
    said = facts(one.answer, one.score)
    return tag(
        "article", head, _repeat(one), said, *body, class_=f"card answer {one.answer.outcome}"
    )


def _row(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    """Make a row of the list: unfolded, it is as a card."""
    answer = one.answer
    name = one.answer.model_id
    start = answer.error or one.transcript.final_text
    summary = tag(
        "summary",
        verdict(answer.outcome),
        tag(
            "span",
            tag("span", cut_middle(name, LONGEST_NAME), class_="model", title=name),
            _repeat(one),
            class_="who",
        ),
        *(tag("span", value, class_="figure") for value in figures(answer, one.score)),
        tag("span", _short(start, _START), class_="excerpt", dir="auto"),
        class_="grid",
    )
    link = tag("p", _name(here, one))
    body = _body(here, one, _LISTED_TEXT)
    return tag(
        "div",
        _box(here, one),
        tag("details", summary, link, *body),
        class_=f"answer {answer.outcome}",
    )


def _body(
    here: QuestionAddresses, one: NumberedAnswer, most: int, text: Html | None = None
) -> list[Html]:
    """Show the error, what was extracted, the reasoning, the final text, and a link to the transcript."""
    address = here.answer(one.name)
    transcript = one.transcript
    made = []
    if one.answer.error:
        made.append(tag("p", "Error: ", _short(one.answer.error, _CARD_TEXT), class_="error-text"))
    said = transcript.final_text
    extracted = [
        value
        for value in dict.fromkeys(transcript.extracted)
        if value and not said.startswith(value)
    ]
    if extracted:
        values = joined(*(tag("code", _short(value, _EXTRACTED)) for value in extracted[:5]))
        made.append(tag("p", "Extracted: ", values, class_="extracted"))
    reasoning = "\n\n".join(turn.reasoning for turn in transcript.turns if turn.reasoning)
    if reasoning:
        made.append(folded("Reasoning", reasoning, most, address))
    made.append(text or answer_text(said, most, address, plain=here.state.plain))
    calls = sum(len(turn.calls) for turn in transcript.turns)
    if len(transcript.turns) > 1 or calls:
        counts = (
            f"Transcript: {counted(len(transcript.turns), 'turn')}, {counted(calls, 'tool call')}"
        )
        made.append(tag("p", tag("a", counts, href=address)))
    return made


NO_MORE: Final = "no-more"  # the anchor of a note that is visible only if an address has it
_INPUT: Final = 6_000
_PROMPT: Final = 3_000


def question_page(
    frame: Frame,
    index: QuestionTable,
    scope: Scope,
    state: PageState,
    row: QuestionRow,
    *,
    labels: Labeller | None,
) -> Html:
    query = state.query
    here = QuestionAddresses(frame.addresses, state, row.name)
    models = tuple(dict.fromkeys(one.model for one in state.show)) or query.models
    outcomes = index.outcomes(query, row.name)
    best_first = {model: at for at, model in enumerate(outcomes)}
    most = current_limits().shown_answers
    shown = sorted(
        numbered(index.answers(row, models, most), labels),
        key=lambda one: best_first[one.name.model],
    )
    if state.show:
        by_choice = {one.name: one for one in shown}
        shown = [by_choice[chosen] for chosen in state.show if chosen in by_choice]
    some = shown or numbered(
        index.answers(row, most=most)
    )  # the chosen models may lack this question
    title = str(row.sample_id)
    metric = [] if scope.metric is None else [metric_name(scope.metric)]
    question = joined(
        tag("h1", title),
        soft(" · ".join([*metric, *tally_facts(row, graded=scope.graded)])),
        *(question_card(here, one.transcript) for one in some[:1]),
    )
    other = metric_links(index, query, lambda metric: here.to(query=replace(query, metric=metric)))
    answers = tag(
        "section", _glance(here, outcomes, index.trials(query, row.name)), _answers(here, shown)
    )
    first = next((here.answer(one.name) for one in shown), None)
    return frame.page(
        f"{title} · {query.evaluation_name}",
        [(query.evaluation_name, here.table(state)), (title, None)],
        _links(here, index, first),
        tag("p", "There is no disagreement after this question.", id=NO_MORE, class_="card"),
        other,
        tag("div", tag("section", question, class_="asked"), answers, class_="columns"),
    )


def _links(here: QuestionAddresses, index: QuestionTable, first: str | None) -> Html:
    rows = index.neighbours(here.state.query, here.name)
    before, after = (here.to(name=row.name, whole=False) if row else None for row in rows)
    return tag(
        "nav",
        key_link("← Previous", "k p", before, rel="prev"),
        key_link("Next →", "j n", after, rel="next"),
        key_link("Next disagreement", "d", here.to("disagreement", whole=False)),
        key_link("First answer", "l", first),
        markdown_switch(here, "question"),
        tag("a", "Answers ↓", href="#answers", class_="button narrow-only"),
        class_="steps",
        aria_label="Questions",
    )


def markdown_switch(here: QuestionAddresses, page: str) -> Html:
    text = "Render Markdown" if here.state.plain else "Text as it is"
    return tag("a", text, href=here.to(page, plain=not here.state.plain), class_="button")


def question_card(here: QuestionAddresses, transcript: Transcript) -> Html:
    whole = here.to(whole=True)
    most = None if here.state.whole else _INPUT
    parts = [tag("h2", "Question"), block(transcript.question, most, whole)]
    if transcript.choices:
        expected = _expected(transcript)
        note = tag("span", " ✓ reference", class_="note")
        items = (
            tag("li", block(choice, _PROMPT), note, class_="expected")
            if number in expected
            else tag("li", block(choice, _PROMPT))
            for number, choice in enumerate(transcript.choices)
        )
        parts += [tag("h2", "Choices"), tag("ol", *items, class_="choices")]
    references = [
        block(_indented(one), most, whole, class_="text reference") for one in transcript.references
    ]
    parts += [tag("h2", "Reference" if len(references) == 1 else "References"), *references]
    if not references:
        parts.append(soft("none"))
    if transcript.prompt and transcript.prompt != transcript.question:
        parts.append(
            folded(
                "Prompt as formatted",
                transcript.prompt,
                None if here.state.whole else _PROMPT,
                whole,
            )
        )
    parts.append(tag("p", tag("code", here.name, title="sample_hash"), class_="soft hash"))
    return tag("div", *parts, class_="card")


def _indented(text: str) -> str:
    """Indent what is JSON; a text is left as it is."""
    try:
        return msgspec.json.format(text, indent=2) if text.lstrip().startswith(("{", "[")) else text
    except (msgspec.DecodeError, RecursionError):
        return text


def _expected(transcript: Transcript) -> set[int]:
    """The positions of choices that a reference names, by their text or else by their letter."""
    choices = transcript.choices
    references = transcript.references
    by_text = {number for number, choice in enumerate(choices) if choice in references}
    letters = list(ascii_uppercase[: len(choices)])
    return by_text or {letters.index(one) for one in references if one in letters}


def _glance(
    here: QuestionAddresses,
    outcomes: Mapping[str, Outcome],
    trials: Mapping[str, Sequence[Outcome]],
) -> Html:
    """Show the outcome of every model, or of each of its trials, as a small square, with a legend."""
    counts = {outcome: sum(one == outcome for one in outcomes.values()) for outcome in OUTCOMES}
    legend = (
        tag(
            "span",
            tag("i", SIGNS[outcome], class_=f"dot {outcome}"),
            f" {counts[outcome]:,} {outcome}",
        )
        for outcome in OUTCOMES
        if counts[outcome]
    )
    shown = list(islice(outcomes.items(), MOST))
    squares = [_square(here, model, outcome, trials.get(model, ())) for model, outcome in shown]
    judged = sum(outcome not in ("error", "none") for _, outcome in shown)
    rest = f"{counted(len(shown) - judged, 'model')} without an answer"
    return tag(
        "div",
        tag("div", tag("h2", "All models"), name_filter(".answer, .squares .dot"), class_="line"),
        tag("div", *squares[:judged], class_="squares"),
        _unjudged(rest, tag("div", *squares[judged:], class_="squares"))
        if judged < len(shown)
        else None,
        soft(f"and {len(outcomes) - MOST:,} more") if len(outcomes) > MOST else None,
        tag("p", *legend, class_="legend"),
        class_="card glance",
    )


def _unjudged(title: str, content: Html) -> Html:
    return tag("details", tag("summary", title), content, class_="folded unjudged")


def _square(
    here: QuestionAddresses, model: str, outcome: Outcome, trials: Sequence[Outcome]
) -> Html:
    label = f"{model}: {'no record' if outcome == 'none' else ', '.join(trials) or outcome}"
    class_ = f"dot {outcome}" + (" several" if trials else "")
    if outcome == "none":
        return tag("span", SIGNS[outcome], class_=class_, title=label)
    address = here.answer(AnswerName(model))
    return tag(
        "a",
        signs_of(trials or [outcome]),
        href=address,
        class_=class_,
        title=label,
        aria_label=label,
    )


def _answers(here: QuestionAddresses, shown: Sequence[NumberedAnswer]) -> Html:
    state = here.state
    all_answers = here.to(show=(), differences=False)
    rest = shown
    two = None
    if state.differences and len(shown) > 1:
        two = _compared(here, *shown[:2])
        rest = shown[2:]
    elif state.differences:
        two = tag("p", "Choose two answers to see their differences.", class_="note")
    choose = (
        tag("span", "Chosen:", class_="soft"),
        tag("button", "Side by side", class_="button"),
        tag(
            "button",
            "Differences",
            class_="button",
            name="differences",
            value="1",
            title="Of the first two",
        ),
    )
    tools = tag(
        "div",
        tag("h2", counted(len(shown), "answer")),
        *(choose if len(shown) > 1 else ()),
        tag("a", "All answers", href=all_answers, class_="button") if state.show else None,
        class_="answer-tools",
    )
    failed = [] if state.show else [one for one in rest[:MOST] if one.answer.outcome == "error"]
    judged = [one for one in rest[:MOST] if state.show or one.answer.outcome != "error"]
    listed = _cards(here, judged) if judged else None
    folded = (
        _unjudged(f"{counted(len(failed), 'answer')} with an error", _cards(here, failed))
        if failed
        else None
    )
    more = None
    if len(rest) > MOST:
        more = tag(
            "p",
            f"These are the first {MOST:,} answers; the table has a filter for models.",
            class_="note",
        )
    hidden = hidden_fields(query_pairs(state.query))
    return tag(
        "form",
        hidden,
        tools,
        more,
        two,
        listed,
        folded,
        action=all_answers.partition("?")[0],
        id="answers",
    )
