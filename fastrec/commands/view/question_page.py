"""A question: its input, references and choices, what all models made of it, and their answers.

Answers are cards if they are few, else a list that unfolds. Two of them can be shown with their
differences, word by word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from string import ascii_uppercase

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
from fastrec.commands.view.differences import LONGEST, Piece, differences
from fastrec.commands.view.layout import (
    LONGEST_NAME,
    MOST,
    Frame,
    answer_facts,
    block,
    figures,
    folded,
    hidden_fields,
    key_link,
    name_filter,
    verdict,
)
from fastrec.commands.view.rendering import render
from fastrec.commands.view.table_page import metric_links, metric_name
from fastrec.errors import counted
from fastrec.html import Exact, Html, details, each, html, multiline, soft, tag
from fastrec.limits import current_limits
from fastrec.normalize.corrections import Label, Labeller
from fastrec.svg import Scale
from fastrec.wording import SIGNS, cut_middle, even_scores, score_text, signs_of

_MOST_CARDS = 12  # with more answers than this, the page is a list
_CARD_TEXT = 2_000
_LISTED_TEXT = 600
_START = 160
_EXTRACTED = 200
_TRIAL = 60


class NumberedAnswer(msgspec.Struct, frozen=True):
    """An answer, its name in addresses, its conversation, and what tells it from the others."""

    name: AnswerName
    answer: Answer
    transcript: Transcript
    score: str
    share: float | None  # where the score of a graded metric is on its scale; None of an error
    label: Label | None
    total: int  # how many answers the model has to the question
    trial: dict[str, str]
    can_label: bool  # no other answer of its model has the same trial, and it has no error

    @property
    def kind(self) -> str:
        return self.answer.outcome if self.share is None else "scored"


def numbered(
    answers: Iterable[Answer], ends: tuple[float, float] | None, labels: Labeller | None = None
) -> list[NumberedAnswer]:
    """Number the answers of each model from 1, in the order of the models.

    `ends` are those of the scale of a graded metric.
    """
    answers = list(answers)
    by_model: dict[str, list[tuple[Answer, str]]] = {}
    for answer, score in zip(answers, even_scores(answer.score for answer in answers), strict=True):
        by_model.setdefault(answer.model_id, []).append((answer, score))
    shown = []
    for model, scored in by_model.items():
        records = [decoded(answer.line) for answer, _ in scored]
        transcripts = list(map(transcript_of, records))
        trials = tell_apart(
            [
                trial_of(answer.evaluation_id, answer.sample_id, transcript)
                for (answer, _), transcript in zip(scored, transcripts, strict=True)
            ]
        )
        uniqueness = are_unique(trials)
        for at, (answer, score) in enumerate(scored):
            shown.append(
                NumberedAnswer(
                    name=AnswerName(model, at + 1),
                    answer=answer,
                    transcript=transcripts[at],
                    score=score,
                    share=_place(answer, ends) if ends else None,
                    label=labels.label_of(records[at]) if labels else None,
                    total=len(scored),
                    trial=trials[at],
                    can_label=uniqueness[at] and not answer.error,
                )
            )
    return shown


def _place(answer: Answer, ends: tuple[float, float]) -> float | None:
    """Where the score of an answer is on a scale; None of an error."""
    within = min(max(answer.score, ends[0]), ends[1])  # an integer may be too large for a double
    return None if answer.outcome == "error" else Scale(*ends)(within)


def are_unique(trials: Iterable[Mapping[str, str]]) -> list[bool]:
    """Return for each trial whether no other one is equal to it."""
    keys = [frozenset(trial.items()) for trial in trials]
    counts = Counter(keys)
    return [counts[key] == 1 for key in keys]


def _short(text: str, most: int) -> str:
    """Put the beginning of a text on one line."""
    start = text[: most * 4]
    line = " ".join(start.split())
    if len(line) <= most and start == text:
        return line
    return line[:most].rstrip() + "…"


def repeat_text(shown: NumberedAnswer) -> str:
    """Say which of several answers of its model it is; empty if there is only one."""
    if shown.total == 1:
        return ""
    trial = (f" · {name} {_short(value, _TRIAL)}" for name, value in shown.trial.items())
    return f"answer {shown.name.ordinal:,} of {shown.total:,}{''.join(trial)}"


def label_text(label: Label) -> str:
    said = []
    if label.is_correct is not None:
        said.append("right" if label.is_correct else "wrong")
    if label.score is not None:
        said.append(f"score {score_text(label.score)}")
    return f"label: {', '.join([*said, *filter(None, (label.reason, label.by))])}"


def _cards(here: QuestionAddresses, answers: Sequence[NumberedAnswer]) -> Html:
    if len(answers) <= _MOST_CARDS:
        cards = (_card(here, answer) for answer in answers)
        return html('<div class="cards">{}</div>', cards)
    rows = []
    used: set[str] = set()
    for answer in answers:
        values = figures(answer.answer)
        used.update(name for name, text in values.items() if text)
        rows.append(_row(here, answer, values))
    empty = "".join(f" no-{name}" for name in values if name not in used)
    return html(
        '<div class="answer-list{}"><div class="list-head"><span class="grid">{}</span></div>{}'
        "</div>",
        empty,
        each("<span>{}</span>", ("verdict", "model", *values)),
        rows,
    )


def _compared(here: QuestionAddresses, left: NumberedAnswer, right: NumberedAnswer) -> Html:
    texts = left.transcript.final_text, right.transcript.final_text
    pieces, by_words = differences(*texts)
    note = "Words that only one answer has are marked."
    if not by_words:
        note = (
            "The answers differ too much to compare words: sentences that only one answer has "
            "are marked."
        )
    if max(map(len, texts)) > LONGEST:
        note += f" Only the first {LONGEST:,} characters are compared."
    if texts[0] == texts[1]:
        note = "Both answers are equal, to the letter."
    cards = (
        _card(here, left, _marked(pieces, "left")),
        _card(here, right, _marked([(mine, other) for other, mine in pieces], "right")),
    )
    address = here.models("pair", left.name.model, right.name.model)
    pair = html('<a href="{}">Compare both models on all questions</a>', address)
    return html('{}<div class="cards pair">{}</div>', soft(note, " ", pair), cards)


def _marked(pieces: Iterable[Piece], side: str) -> Html:
    """Show the first text of all pieces, with marks where the other text differs."""
    parts = []
    for text, other in pieces:
        # A mark does not end with white space.
        marked = "" if text == other else text.rstrip() or text
        if marked:
            parts.append(html('<mark class="{}">{}</mark>', side, multiline(marked)))
        parts.append(multiline(text[len(marked) :]))
    return html('<div class="text" dir="auto">{}</div>', parts)


def _name(here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    model = shown.answer.model_id
    link = '<a href="{}" class="model" title="{}">{}</a>'
    return html(link, here.answer(shown.name), model, cut_middle(model, LONGEST_NAME))


def _repeat(shown: NumberedAnswer) -> Html | None:
    said = [repeat_text(shown), label_text(shown.label) if shown.label else ""]
    text = " · ".join(filter(None, said))
    return html('<span class="repeat">{}</span>', text) if text else None


def _box(here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    return tag(
        "input",
        type="checkbox",
        name="show",
        value=Exact(answer_name_text(shown.name)),
        checked=shown.name in here.state.show,
        aria_label=f"Choose {shown.answer.model_id} {repeat_text(shown)}".strip(),
    )


def _verdict(shown: NumberedAnswer) -> Html:
    return verdict(shown.answer.outcome, shown.score, shown.share)


def _card(here: QuestionAddresses, shown: NumberedAnswer, text: Html | None = None) -> Html:
    return html(
        '<article class="card answer {}"><header><h3>{}{}</h3>{}</header>{}{}{}</article>',
        shown.kind,
        _box(here, shown),
        _name(here, shown),
        _verdict(shown),
        _repeat(shown),
        answer_facts(shown.answer),
        _body(here, shown, _CARD_TEXT, text),
    )


def _row(here: QuestionAddresses, shown: NumberedAnswer, values: Mapping[str, str]) -> Html:
    """Make a row of the list: unfolded, it is as a card."""
    answer = shown.answer
    return html(
        '<div class="answer {outcome}">{box}<details><summary class="grid">{verdict}'
        '<span class="who"><span class="model" title="{model}">{short}</span>{repeat}</span>'
        '{figures}<span class="excerpt" dir="auto">{excerpt}</span></summary>'
        "<p>{name}</p>{body}</details></div>",
        outcome=shown.kind,
        box=_box(here, shown),
        verdict=_verdict(shown),
        model=answer.model_id,
        short=cut_middle(answer.model_id, LONGEST_NAME),
        repeat=_repeat(shown),
        figures=each('<span class="figure">{}</span>', values.values()),
        excerpt=_short(answer.error or shown.transcript.final_text, _START),
        name=_name(here, shown),
        body=_body(here, shown, _LISTED_TEXT),
    )


def _body(
    here: QuestionAddresses, shown: NumberedAnswer, most: int, text: Html | None = None
) -> list[Html]:
    """Show the error, what was extracted, the reasoning, the final text, and a link."""
    address = here.answer(shown.name)
    transcript = shown.transcript
    said = transcript.final_text
    parts = []
    if shown.answer.error:
        error = _short(shown.answer.error, _CARD_TEXT)
        parts.append(html('<p class="error-text">Error: {}</p>', error))
    extracted = [
        _short(value, _EXTRACTED)
        for value in dict.fromkeys(transcript.extracted)
        if value and not said.startswith(value)
    ]
    if extracted:
        values = each("<code>{}</code>", extracted[:5])
        parts.append(html('<p class="extracted">Extracted: {}</p>', values))
    reasoning = "\n\n".join(turn.reasoning for turn in transcript.turns if turn.reasoning)
    if reasoning:
        parts.append(folded("Reasoning", reasoning, most, address))
    parts.append(text or block(said, most, address, make=render))
    turns = len(transcript.turns)
    calls = sum(len(turn.calls) for turn in transcript.turns)
    if turns > 1 or calls:
        counts = f"{counted(turns, 'turn')}, {counted(calls, 'tool call')}"
        parts.append(html('<p><a href="{}">Transcript: {}</a></p>', address, counts))
    return parts


NO_MORE = "no-more"  # the anchor of a note that is visible only if an address has it
_INPUT = 6_000
_PROMPT = 3_000


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
    outcomes = index.outcomes(query, row.name)
    most = current_limits().shown_answers
    models = tuple(dict.fromkeys(chosen.model for chosen in state.show)) or query.models
    ends = index.scale(query)
    answers = numbered(index.answers(row, models, most), ends, labels)
    place = {model: number for number, model in enumerate(outcomes)}  # best first
    answers.sort(key=lambda answer: place[answer.name.model])
    if state.show:
        by_name = {answer.name: answer for answer in answers}
        answers = [by_name[chosen] for chosen in state.show if chosen in by_name]
    # The chosen models may lack this question.
    first = (answers or numbered(index.answers(row, most=most), ends))[:1]
    facts = tally_facts(row, graded=scope.graded)
    if scope.metric is not None:
        facts = [metric_name(scope.metric), *facts]
    title = str(row.sample_id)
    return frame.page(
        f"{title} · {query.evaluation_name}",
        [(query.evaluation_name, here.table(state)), (title, None)],
        _links(here, index, here.answer(answers[0].name) if answers else None),
        html('<p id="{}" class="card">There is no disagreement after this question.</p>', NO_MORE),
        metric_links(index, query, lambda metric: here.to(query=replace(query, metric=metric))),
        html(
            '<div class="columns"><section class="asked"><h1>{}</h1>{}{}</section>'
            "<section>{}{}</section></div>",
            title,
            soft(" · ".join(facts)),
            [question_card(here, answer.transcript) for answer in first],
            _glance(here, outcomes, index.trials(query, row.name), graded=scope.graded),
            _answers(here, answers),
        ),
    )


def _links(here: QuestionAddresses, index: QuestionTable, first: str | None) -> Html:
    rows = index.neighbours(here.state.query, here.name)
    before, after = (here.to(name=row.name, whole=False) if row else None for row in rows)
    links = (
        key_link("← Previous", "k p", before, rel="prev"),
        key_link("Next →", "j n", after, rel="next"),
        key_link("Next disagreement", "d", here.to("disagreement", whole=False)),
        key_link("First answer", "l", first),
        html('<a href="{}" class="button">Save as a file</a>', here.to("save", whole=False)),
        MARKS_SWITCH,
        Html('<a href="#answers" class="button narrow-only">Answers ↓</a>'),
    )
    return html('<nav class="steps" aria-label="Questions">{}</nav>', links)


MARKS_SWITCH = Html(
    '<label class="button"><input type="checkbox" id="marks"> Signs of Markdown</label>'
)


def question_card(here: QuestionAddresses, transcript: Transcript) -> Html:
    whole = here.to(whole=True)
    most = None if here.state.whole else _INPUT
    references = [
        block(_indented(text), most, whole, class_="text reference", make=render)
        for text in transcript.references
    ]
    prompt = None
    if transcript.prompt and transcript.prompt != transcript.question:
        shown = None if here.state.whole else _PROMPT
        prompt = folded("Prompt as formatted", transcript.prompt, shown, whole)
    return html(
        '<div class="card"><h2>Question</h2>{}{}<h2>{}</h2>{}{}'
        '<p class="soft hash"><code title="sample_hash">{}</code></p></div>',
        block(transcript.question, most, whole),
        _choices(transcript) if transcript.choices else None,
        "Reference" if len(references) == 1 else "References",
        references or soft("none"),
        prompt,
        here.name,
    )


def _choices(transcript: Transcript) -> Html:
    expected = _expected(transcript)
    items = []
    for number, choice in enumerate(transcript.choices):
        item = "<li>{}</li>"
        if number in expected:
            item = '<li class="expected">{}<span class="note"> ✓ reference</span></li>'
        items.append(html(item, block(choice, _PROMPT)))
    return html('<h2>Choices</h2><ol class="choices">{}</ol>', items)


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
    letters = zip(range(len(choices)), ascii_uppercase, strict=False)
    return by_text or {number for number, letter in letters if letter in references}


def _glance(
    here: QuestionAddresses,
    outcomes: Mapping[str, tuple[Outcome, float]],
    trials: Mapping[str, Sequence[Outcome]],
    *,
    graded: bool,
) -> Html:
    """Show the outcome of every model, or of each of its trials, as a small square.

    Of a graded metric, it is the score.
    """
    counts = Counter(outcome for outcome, _ in outcomes.values())
    shown = OUTCOMES[-2:] if graded else OUTCOMES
    legend = [(outcome, SIGNS[outcome], counts[outcome]) for outcome in shown if counts[outcome]]
    squares = [
        _square(here, model, outcome, trials.get(model, ()), value if graded else None)
        for model, (outcome, value) in islice(outcomes.items(), MOST)
    ]
    without = counts["error"] + counts["none"]  # they come last
    judged = squares[: len(outcomes) - without]
    unjudged = squares[len(outcomes) - without :]
    group = '<div class="squares">{}</div>'
    folded = None
    if unjudged:
        title = f"{counted(len(unjudged), 'model')} without an answer"
        folded = details(title, html(group, unjudged), class_="folded unjudged")
    return html(
        '<div class="card glance"><div class="line"><h2>All models</h2>{}</div>{}{}{}'
        '<p class="legend">{}</p></div>',
        name_filter(".answer, .squares .dot"),
        html(group, judged),
        folded,
        soft(f"and {len(outcomes) - MOST:,} more") if len(outcomes) > MOST else None,
        each('<span><i class="dot {0}">{1}</i> {2:,} {0}</span>', legend),
    )


def _square(
    here: QuestionAddresses,
    model: str,
    outcome: Outcome,
    trials: Sequence[Outcome],
    score: float | None,
) -> Html:
    if outcome == "none":
        dot = '<span class="dot none" title="{}: no record">{}</span>'
        return html(dot, model, SIGNS[outcome])
    kind = f"{outcome} several" if trials else outcome
    label = ", ".join(trials) or outcome
    signs = signs_of(trials or [outcome])
    if score is not None and outcome != "error":
        kind = "scored several"
        label = score_text(score)
        signs = f"{score:.2f}" if abs(score) < 10 else label
    return html(
        '<a href="{address}" class="dot {kind}" title="{label}" aria-label="{label}">{signs}</a>',
        address=here.answer(AnswerName(model)),
        kind=kind,
        label=f"{model}: {label}",
        signs=signs,
    )


def _answers(here: QuestionAddresses, answers: Sequence[NumberedAnswer]) -> Html:
    state = here.state
    all_answers = here.to(show=(), differences=False)
    choose = Html(
        '<span class="soft">Chosen:</span><button class="button">Side by side</button>'
        '<button class="button" name="differences" value="1" title="Of the first two">'
        "Differences</button>"
    )
    rest = answers
    two = None
    if state.differences and len(answers) > 1:
        two = _compared(here, *answers[:2])
        rest = answers[2:]
    elif state.differences:
        two = Html('<p class="note">Choose two answers to see their differences.</p>')
    judged = [shown for shown in rest[:MOST] if state.show or shown.answer.outcome != "error"]
    failed = [shown for shown in rest[:MOST] if not state.show and shown.answer.outcome == "error"]
    folded = None
    if failed:
        title = f"{counted(len(failed), 'answer')} with an error"
        folded = details(title, _cards(here, failed), class_="folded unjudged")
    more = (
        '<p class="note">These are the first {:,} answers; the table has a filter for models.</p>'
    )
    return html(
        '<form action="{}" id="answers">{}<div class="answer-tools"><h2>{}</h2>{}{}</div>'
        "{}{}{}{}</form>",
        all_answers.partition("?")[0],
        hidden_fields(query_pairs(state.query)),
        counted(len(answers), "answer"),
        choose if len(answers) > 1 else None,
        html('<a href="{}" class="button">All answers</a>', all_answers) if state.show else None,
        html(more, MOST) if len(rest) > MOST else None,
        two,
        _cards(here, judged) if judged else None,
        folded,
    )
