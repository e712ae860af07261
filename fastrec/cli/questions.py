"""`fastrec questions`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import clip, explain_damage, print_found, safe, terminal_width, width_of
from fastrec.cli.options import (
    Count,
    choice_option,
    command,
    complete_names,
    format_option,
    option,
    pattern_option,
    shared,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import Table, columns, csv_table, more_rows, print_hidden, print_notes, print_table
from fastrec.errors import counted
from fastrec.wording import found_in, score_text

if TYPE_CHECKING:
    from fastrec.answers.table import Question
    from fastrec.commands.questions import EvaluationQuestions, Questions


_SORTS: Final = ["hardest", "disagreement", "easiest", "longest-input", "longest-output", "errors", "order"]
_OPTIONAL: Final = ("input", "output", "errors", "disagreement", "sample")  # hidden on a narrow terminal
_LEAST_EXCERPT: Final = 30
_EXCERPT: Final = 80  # characters, where lines may have any length
_SAMPLE: Final = 24  # columns of a sample_id
_FIELDS: Final = (
    "sample_hash", "sample_id", "models", "right", "share", "mean_score", "disagreement", "errors", "input_chars",
    "output_chars", "excerpt", "in_input", "in_answers",
)  # fmt: skip


@command("List the questions: the hardest, the most disputed, and others.", ok="done, also if no question matches",
         usage="the command line is wrong, or a name matches nothing", failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters")
@choice_option("--sort", _SORTS, f"Order of the questions: {', '.join(_SORTS[:-1])}, or order: as in the corpus.",
               metavar="ORDER")  # fmt: skip
@pattern_option("--wrong-by", "Only questions that all of these models get wrong; all: every model that has answered. "
                "May be repeated.", "models")  # fmt: skip
@pattern_option("--right-by", "Only questions that all of these models get right.", "models")
@option("--split", "Only questions that model A gets right and model B wrong.",
        nargs=2, metavar="A B", shell_complete=complete_names("models"))  # fmt: skip
@option("--text", "Only questions with this text in the input or a reference, or in an answer: something that a model "
        "said. Case does not matter.", default="", show_default=False, metavar="TEXT")  # fmt: skip
@choice_option("--in in_", ["both", "input", "answers"], "Where to look for --text.")
@option("--limit", "List at most N questions of each evaluation and metric.",
        type=Count(min=1), metavar="N", default=20)  # fmt: skip
@shared("metrics", "lower_is_better")
@format_option("text", "json", "csv")
@shared("raw_cells", "run")
def questions(corpus: str, output_format: str, raw_cells: bool, no_progress: bool, **options: Any) -> None:
    """List the questions of CORPUS: how many models are right, how much they disagree, errors, lengths.

    There is a table for each evaluation and metric. The filters on names choose the records that count. --right,
    --wrong and --errors choose questions that have at least one such record.

    A model with several answers to a question counts with their mean; a record with an error is no answer. Graded
    metrics, which have scores other than 0 and 1, show the mean score instead. Disagreement is 0 if all models agree,
    and 1 if half of them are right. `fastrec show` shows a question with its answers.

    The first use of a corpus reads all of it, and keeps an index in the cache directory (FASTREC_CACHE, by default
    ~/.cache/fastrec).

    \b
    Examples:
      fastrec questions corpus --evaluation GSM8K --wrong-by all
      fastrec questions corpus --sort disagreement --limit 5
      fastrec questions corpus --split org/model other/model
      fastrec questions corpus --text "I'm sorry" --in answers
      fastrec questions corpus --model 'org/*' --errors --sort errors
      fastrec questions corpus --limit 1000000 --format csv > questions.csv
    """
    from fastrec.commands.questions import questions as run

    with make_progress("index", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, **options, progress=progress)
    print_found(found, output_format, text=lambda: _print(found), csv=lambda: _print_csv(found, raw_cells=raw_cells))


def _print_csv(found: Questions, *, raw_cells: bool) -> None:
    spell = safe if sys.stdout.isatty() else str
    rows = [
        [table.evaluation_name, table.metric, *(getattr(question, field) for field in _FIELDS)]
        for table in found.evaluations
        for question in table.questions
    ]
    text = csv_table(["evaluation_name", "metric", *_FIELDS], rows, raw_cells=raw_cells, spell=spell)
    click.echo(text.encode(), nl=False)  # of text, click would remove escape sequences, which are part of the values


def _print(found: Questions) -> None:
    hidden: list[str] = []
    tables = [table for table in found.evaluations if table.total]
    for number, table in enumerate(tables):
        metric = f", metric {safe(table.metric)}" if table.metric else ""
        counts = f"{counted(table.total, 'question')}, {counted(table.models, 'model')}"
        title = click.style(safe(table.evaluation_name), bold=True)
        click.echo(f"{chr(10) if number else ''}{title}{metric}: {counts}")
        hidden += _print_table(table)
        print_notes(more_rows(table.total - len(table.questions), "question", f"--limit {table.total}"))
    if not tables:
        click.echo("no question matches")
    from fastrec.summary.present_choice import others_in_words

    for line in others_in_words(found.others):
        click.echo(click.style(f"\n{line}", dim=True))
    print_hidden(hidden)


def _print_table(table: EvaluationQuestions) -> list[str]:
    names = ["question", "sample", "score" if table.graded else "right", "disagreement", "errors", "input", "output"]
    names += ["found in"] if table.questions[0].in_input is not None else []
    rows = [_row(question, graded=table.graded) for question in table.questions]
    width, room = terminal_width(), _EXCERPT
    if width is not None:
        # What is left beside the columns that are not hidden for the excerpt's sake.
        used = sum(2 + max(map(width_of, column)) for column in zip(names, *rows, strict=True)) + 4
        room = max(width - used, _LEAST_EXCERPT)
    excerpts = [clip(safe(question.excerpt), room) for question in table.questions]
    cells = [[*row, excerpt] for row, excerpt in zip(rows, excerpts, strict=True)]
    return print_table(Table(columns([*names, "text"], left=("sample", "found in", "text"), hidden=_OPTIONAL), cells))


def _row(question: Question, *, graded: bool) -> list[str]:
    value = score_text(question.mean_score) if graded else f"{question.right:g} of {question.models:,}"
    if not question.models:
        value = "–"
    return [
        safe(question.prefix),
        clip(safe(str(question.sample_id)), _SAMPLE),
        value,
        "–" if question.disagreement is None else f"{question.disagreement:.2f}",
        f"{question.errors:,}",
        f"{question.input_chars:,}",
        "–" if question.output_chars is None else f"{question.output_chars:,.0f}",
        *([found_in(question.in_input, question.in_answers or 0)] if question.in_input is not None else []),
    ]
