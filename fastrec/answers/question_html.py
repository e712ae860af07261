"""A question with its answers as HTML: in `report`, and as one file that needs nothing else.

The file has no script, and its content security policy allows only its own style: it can be mailed,
and opened without a server.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from fastrec._version import __version__
from fastrec.answers.shown import ShownAnswer, ShownQuestion, tally_facts
from fastrec.html import Html
from fastrec.templates import render_macro, render_template
from fastrec.wording import latency_text, tokens_text

_LONGEST = 50_000  # characters of a text in a file


def question_file(questions: Sequence[ShownQuestion], corpus: str) -> bytes:
    """Make a page of questions with all their answers; `corpus` is the name of the corpus."""
    page = render_template(
        "question_page.html",
        style=Html(files("fastrec.answers").joinpath("question.css").read_text(encoding="utf-8")),
        questions=questions,
        bodies=[question_body(question, _LONGEST) for question in questions],
        tally_facts=tally_facts,
        version=__version__,
        corpus=corpus,
    )
    return page.encode("utf-8", "backslashreplace")


def question_body(question: ShownQuestion, most: int) -> Html:
    """Show a question with its answers; texts are cut to `most` characters."""
    facts = [list(_facts(answer)) for answer in question.answers]
    return render_macro("question.html", "question_body", question, most, facts)


def _facts(answer: ShownAnswer) -> Iterator[str]:
    if answer.total > 1:
        trial = ", ".join(f"{name} {value}" for name, value in answer.trial.items())
        yield f"answer {answer.number:,} of {answer.total:,} {trial}".strip()
    tokens = {"input": answer.input_tokens, "output": answer.output_tokens}
    for kind, number in tokens.items():
        if number is not None:
            yield f"{tokens_text(number)} {kind} tokens"
    if answer.latency_ms is not None:
        yield latency_text(answer.latency_ms)
