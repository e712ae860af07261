"""A question with its answers as HTML: in `report`, and as one file that needs nothing else.

The file has no script, and its content security policy allows only its own style: it can be mailed,
and opened without a server.
"""

from collections.abc import Sequence
from importlib.resources import files

from xxhash import xxh3_64_hexdigest

from fastrec._version import __version__
from fastrec.answers.shown import ShownQuestion, tally_facts
from fastrec.pages import render_macro, render_template
from fastrec.pages.html import Html

_LONGEST = 50_000  # characters of a text in a file


def question_file(questions: Sequence[ShownQuestion], corpus: str) -> bytes:
    """Make a page of questions with all their answers; `corpus` is the name of the corpus."""
    page = render_template(
        "question_page.html",
        style=Html(
            files("fastrec.pages").joinpath("templates", "question.css").read_text(encoding="utf-8")
        ),
        questions=questions,
        bodies=[question_body(question, _LONGEST) for question in questions],
        tally_facts=tally_facts,
        version=__version__,
        corpus=corpus,
    )
    return page.encode("utf-8", "backslashreplace")


def question_body(question: ShownQuestion, most: int) -> Html:
    """Show a question with its answers; texts are cut to `most` characters."""
    metrics = [tally.metric for tally in question.tallies]
    scope = ascii((question.evaluation_name, question.sample_hash, question.sample_id, metrics))
    return render_macro(
        "question.html", "question_body", question, most, xxh3_64_hexdigest(scope.encode())
    )
