"""`fastrec show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.answer_text import AnswerPrinter, tally_text
from fastrec.cli.console import allow_broken_pipe, explain_damage, print_json, print_notice
from fastrec.cli.filters import filter_options
from fastrec.cli.layout import clip
from fastrec.cli.options import choice_option, command, jobs_option, no_progress_option
from fastrec.cli.progress import make_progress
from fastrec.cli.spelling import safe

if TYPE_CHECKING:
    from fastrec.commands.show import Shown

__all__ = ["show"]

_SAMPLE: Final = 100  # columns of a sample_id


@command("Show a question with the answers of all models.")
@click.argument("corpus", type=click.Path())
@click.argument("question")
@filter_options
@click.option("--full", is_flag=True, help="Show everything: whole texts, all turns, reasoning, prompts, metadata.")
@choice_option("--format", ["text", "json"], "Output format; JSON has everything.", to="output_format")
@jobs_option
@no_progress_option
def show(corpus: str, question: str, full: bool, output_format: str, no_progress: bool, **options: Any) -> None:
    """Show a question of CORPUS and the answers to it: verdict, score, tokens, latency, error and conversation.

    QUESTION is a sample_id, or the first characters of a sample_hash: at least 4. `fastrec questions` lists both. A
    sample_id that several evaluations have shows all of these questions. The filters choose the answers.

    Long texts are cut, and long conversations folded to their first and last turns; --full shows all. Records of
    several metrics that have the same conversation are one answer with several verdicts.

    The first use of a corpus reads all of it, and keeps an index in the cache directory (FASTREC_CACHE, by default
    ~/.cache/fastrec).

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or QUESTION is not one question; the
            message lists the candidates
      3     a part could not be read

    \b
    Examples:
      fastrec show corpus 5 --evaluation GSM8K
      fastrec show corpus 5 --evaluation GSM8K --wrong --full | less
      fastrec show corpus 5 --model org/model --model other/model
      fastrec show corpus 5 --format json | jq '.questions[].answers[].model_id'
    """
    from fastrec.commands.show import show as run

    with make_progress("index", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, question, **options, progress=progress)
    with allow_broken_pipe():
        if output_format == "json":
            print_json(found)
        else:
            _print(found, full=full)


def _print(found: Shown, *, full: bool) -> None:
    printer = AnswerPrinter(full=full)
    for number, question in enumerate(found.questions):
        name = click.style(safe(question.evaluation_name), bold=True)
        head = f"{name}, sample {clip(safe(str(question.sample_id)), _SAMPLE)}, hash {safe(question.sample_hash)}"
        click.echo(f"{chr(10) if number else ''}{head}")
        for tally in question.tallies:
            click.echo(tally_text(tally))
        printer.print_question(question)
        for answer in question.answers:
            click.echo()
            printer.print_answer(answer)
        if not question.answers:
            click.echo("\nno answer matches the filters")
    if printer.has_cut:
        print_notice("long texts are cut or folded; --full shows all")
