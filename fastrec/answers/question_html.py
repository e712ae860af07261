"""A question with its answers as HTML: in `report`, and as one file that needs nothing else.

The file has no script, and its content security policy allows only its own style: it can be mailed,
and opened without a server.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files

from fastrec._version import __version__
from fastrec.answers.shown import ShownAnswer, ShownQuestion, Verdict, tally_facts
from fastrec.answers.transcript import Call, Turn
from fastrec.html import Html, allowed, details, each, html, joined, multiline, soft, tag
from fastrec.wording import SIGNS, latency_text, score_text, tokens_text

_MOST_OPEN = 12  # answers of a file that are unfolded
_LONGEST = 50_000  # characters of a text in a file
_MOST_LISTED = 20  # references
_Texts = Callable[[str], Html]  # shows a text
_PAGE = (
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
        body=each("<main><h1>{}</h1>{}</main>", map(_whole, questions)),
        version=__version__,
        corpus=corpus,
    )
    return page.encode("utf-8", "backslashreplace")


def _whole(question: ShownQuestion) -> tuple[str, Html]:
    """The title of a question, and all that is known about it."""
    title = f"{question.evaluation_name}, sample {question.sample_id}"
    tallies = map(soft, _tallies(question))
    body = question_body(question, _LONGEST)
    return title, joined(soft(f"hash {question.sample_hash}"), tallies, body)


def question_body(question: ShownQuestion, most: int) -> Html:
    """Show a question with its answers; texts are cut to `most` characters."""
    is_open = len(question.answers) <= _MOST_OPEN
    text = partial(_text, most=most)
    prompt = question.prompt if question.prompt != question.question else ""
    outcomes = (
        html('<a href="#{}" class="{}" title="{}">{}</a>', _id(question, at), word, model, sign)
        for at, (model, word, sign) in enumerate(map(_outcome, question.answers))
    )
    shown = (_answer(question, at, text, is_open=is_open) for at in range(len(question.answers)))
    return html(
        '{}{}{}<p class="outcomes">{}</p>{}',
        text(question.question),
        details("Prompt", text(prompt)) if prompt else None,
        _references(question, text),
        outcomes,
        shown,
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


def _text(text: str, most: int) -> Html:
    """Show a text with its line breaks, cut to some characters."""
    more = None
    if len(text) > most:
        more = html('<span class="soft"> … {:,} more characters</span>', len(text) - most)
    return html('<div class="text" dir="auto">{}{}</div>', multiline(text[:most]), more)


def _references(question: ShownQuestion, text: _Texts) -> Html:
    named = {"Reference": question.references[:_MOST_LISTED], "Choice": question.choices}
    return joined(
        *(
            html('<div class="{}"><b>{}</b>{}</div>', name.lower(), name, text(one))
            for name, texts in named.items()
            for one in texts
        )
    )


def _answer(question: ShownQuestion, at: int, text: _Texts, *, is_open: bool) -> Html:
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
    shown = joined(
        details("Prompt", text(answer.prompt)) if answer.prompt else None,
        (_turn(turn, text) for turn in answer.turns),
        (_judged(verdict, text) for verdict in answer.verdicts),
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


def _judged(verdict: Verdict, text: _Texts) -> Html:
    taken = ", ".join(verdict.extracted)
    known = verdict.metadata | verdict.other
    rows = ((name, text(value)) for name, value in known.items())
    return joined(
        html('<div class="error"><b>Error</b>{}</div>', text(verdict.error))
        if verdict.error
        else None,
        html('<div class="soft">taken as the answer: {}</div>', text(taken)) if taken else None,
        details("Metadata", html("<dl>{}</dl>", each("<dt>{}</dt><dd>{}</dd>", rows)))
        if known
        else None,
    )


def _turn(turn: Turn, text: _Texts) -> Html | None:
    if turn.is_result:
        return None
    return joined(
        html('<p class="role">{}</p>', turn.role) if turn.role != "assistant" else None,
        details("Reasoning", text(turn.reasoning)) if turn.reasoning else None,
        text(turn.text) if turn.text else None,
        (_call(call, text) for call in turn.calls),
    )


def _call(call: Call, text: _Texts) -> Html:
    arguments = ", ".join(f"{name}: {value}" for name, value in call.arguments.items())
    result = None if call.result is None else text(call.result)
    head = html("Call of <b>{}</b>{}", call.name, " that failed" if call.failed else "")
    return details(head, text(arguments), result, class_="call")
