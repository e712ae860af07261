"""A question with its answers as HTML: a card of `report`, and one file that needs nothing else.

The file has no script, and its content security policy allows only its own style: it can be mailed,
and opened without a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Final

from fastrec._version import __version__
from fastrec.answers.shown import ShownAnswer, ShownQuestion, tally_facts
from fastrec.answers.transcript import Call, Turn
from fastrec.errors import counted
from fastrec.html import Html, allowed, details, each, html, joined, multiline, soft, tag
from fastrec.wording import SIGNS, latency_text, score_text, tokens_text

_MOST_OPEN: Final = 12  # answers of a file that are unfolded
_LONGEST: Final = 50_000  # characters of a text in a file
_REFERENCES: Final = 5  # of a card
_REFERENCE: Final = 200  # characters of one in a card
_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta http-equiv="Content-Security-Policy" content="{policy}">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="referrer" content="no-referrer">'
    "<title>{title}</title><style>{style}</style></head><body>{body}"
    "<footer>Written by fastrec {version}, from the corpus {corpus}. This page uses no network."
    "</footer></body></html>"
)


def question_file(questions: Sequence[ShownQuestion], corpus: str) -> bytes:
    """Make a page of questions with all their answers; `corpus` is the name of the corpus."""
    style = Html(files("fastrec.answers").joinpath("question.css").read_text(encoding="utf-8"))
    first = questions[0]
    page = html(
        _PAGE,
        policy=f"default-src 'none'; style-src {allowed(style)}",
        title=f"{first.evaluation_name}, sample {first.sample_id}",
        style=style,
        body=joined(*map(_whole, questions)),
        version=__version__,
        corpus=corpus,
    )
    return page.encode("utf-8", "backslashreplace")


def _whole(question: ShownQuestion) -> Html:
    """Show a question with all that is known about its answers."""
    is_open = len(question.answers) <= _MOST_OPEN
    prompt = None
    if question.prompt and question.prompt != question.question:
        prompt = details("Prompt", text_block(question.prompt))
    outcomes = (
        html('<a href="#{}" class="{}" title="{}">{}</a>', _id(question, at), word, model, sign)
        for at, (model, word, sign) in enumerate(map(_outcome, question.answers))
    )
    answers = (_answer(question, at, is_open=is_open) for at in range(len(question.answers)))
    return html(
        '<main><h1>{}</h1>{}{}{}{}{}<h2>{}</h2><p class="outcomes">{}</p>{}</main>',
        f"{question.evaluation_name}, sample {question.sample_id}",
        soft(f"hash {question.sample_hash}"),
        map(soft, _tallies(question)),
        text_block(question.question),
        prompt,
        _references(question),
        counted(len(question.answers), "answer"),
        outcomes,
        answers,
    )


def _id(question: ShownQuestion, at: int) -> str:
    return f"a{question.sample_hash[:8]}-{at}"


def _outcome(answer: ShownAnswer) -> tuple[str, str, str]:
    """The model of an answer, its outcome by the first metric, and the sign of it."""
    outcome = answer.verdicts[0].outcome
    return answer.model_id, outcome, SIGNS[outcome]


def _tallies(question: ShownQuestion) -> Iterable[str]:
    for tally in question.tallies:
        facts = "; ".join(tally_facts(tally, graded=tally.graded))
        yield f"{tally.metric}: {facts}" if tally.metric else facts


def text_block(text: str, most: int = _LONGEST) -> Html:
    """Show a text with its line breaks, cut to some characters."""
    more = None
    if len(text) > most:
        more = html('<span class="soft"> … {:,} more characters</span>', len(text) - most)
    return html('<div class="text" dir="auto">{}{}</div>', multiline(text[:most]), more)


def _references(question: ShownQuestion) -> Html:
    shown = each('<p class="text"><b>Reference: </b>{}</p>', map(multiline, question.references))
    if question.choices:
        choices = each("<li>{}</li>", map(multiline, question.choices))
        shown = joined(shown, html("<p><b>Choices</b></p><ul>{}</ul>", choices))
    return shown


def _answer(question: ShownQuestion, at: int, *, is_open: bool) -> Html:
    answer = question.answers[at]
    facts = list(_figures(answer))
    if answer.total > 1:
        trial = ", ".join(f"{name} {value}" for name, value in answer.trial.items())
        facts.insert(0, f"answer {answer.number:,} of {answer.total:,} {trial}".strip())
    verdicts = (_verdict(answer, one.metric, one.outcome, one.score) for one in answer.verdicts)
    head = html(
        '{} <b class="model">{}</b> <span class="soft">{}</span>',
        verdicts,
        answer.model_id,
        " · ".join(facts),
    )
    said = (_judged(one.error, one.extracted, one.metadata | one.other) for one in answer.verdicts)
    shown = joined(
        details("Prompt", text_block(answer.prompt)) if answer.prompt else None,
        map(_turn, answer.turns),
        said,
    )
    summary = html("<summary>{}</summary>", head)
    place = _id(question, at)
    return tag("details", summary, shown, class_="answer", id=place, open=is_open)


def _figures(answer: ShownAnswer) -> Iterable[str]:
    tokens = {"input": answer.input_tokens, "output": answer.output_tokens}
    for kind, number in tokens.items():
        if number is not None:
            yield f"{tokens_text(number)} {kind} tokens"
    if answer.latency_ms is not None:
        yield latency_text(answer.latency_ms)


def _verdict(answer: ShownAnswer, metric: str | None, outcome: str, score: float) -> Html:
    about = outcome if score in (0, 1) else f"{outcome} {score_text(score)}"
    named = f"{metric}: " if metric and len(answer.verdicts) > 1 else ""
    return html('<b class="verdict {}">{} {}{}</b> ', outcome, SIGNS[outcome], named, about)


def _judged(error: str, extracted: Sequence[str], metadata: Mapping[str, str]) -> Html:
    taken = ", ".join(extracted)
    rows = each("<dt>{}</dt><dd>{}</dd>", metadata.items())
    return joined(
        html('<p class="error">Error: {}</p>', multiline(error[:_LONGEST])) if error else None,
        soft(f"taken as the answer: {taken}") if taken else None,
        details("Metadata", html("<dl>{}</dl>", rows)) if metadata else None,
    )


def _turn(turn: Turn) -> Html | None:
    if turn.is_result:
        return None
    return joined(
        html('<p class="role">{}</p>', turn.role) if turn.role != "assistant" else None,
        details("Reasoning", text_block(turn.reasoning)) if turn.reasoning else None,
        text_block(turn.text) if turn.text else None,
        map(_call, turn.calls),
    )


def _call(call: Call) -> Html:
    arguments = ", ".join(f"{name}: {value}" for name, value in call.arguments.items())
    result = None if call.result is None else text_block(call.result)
    head = html("Call of <b>{}</b>{}", call.name, " that failed" if call.failed else "")
    return details(head, text_block(arguments), result, class_="call")


def question_card(question: ShownQuestion, title: str, facts: str, most: int, note: Html) -> Html:
    """Show a question shortly: the last text of each answer, cut to some characters."""
    references = " or ".join(text[:_REFERENCE] for text in question.references[:_REFERENCES])
    more = len(question.references) - _REFERENCES
    if more > 0:
        references += f" … and {more:,} more"
    graded = question.tallies[0].graded
    return html(
        '<article class="question"><h4>{}</h4>{}{}{}<dl>{}</dl>{}</article>',
        title,
        soft(facts),
        text_block(question.question, most),
        html('<p class="text"><b>Reference: </b>{}</p>', multiline(references)),
        (_brief(answer, most, graded=graded) for answer in question.answers),
        note,
    )


def _brief(answer: ShownAnswer, most: int, *, graded: bool) -> Html:
    verdict = answer.verdicts[0]
    said = [turn.text for turn in answer.turns if turn.text and turn.role == "assistant"]
    taken = ", ".join(verdict.extracted)[:most]
    last = said[-1] if said else ""
    return html(
        '<dt><b class="verdict {}">{}</b> {} <small>{}</small></dt><dd>{}{}</dd>',
        verdict.outcome,
        score_text(verdict.score) if graded else verdict.outcome,
        answer.model_id,
        f"the last of {counted(len(answer.turns), 'turn')}" if len(answer.turns) > 1 else "",
        text_block(last, most) if last else "(nothing)",
        soft(f"taken as the answer: {taken}") if taken and taken != last else None,
    )
