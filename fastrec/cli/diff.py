"""`fastrec diff`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.console import (
    Count,
    Number,
    counted,
    decimal,
    jobs_option,
    megabytes,
    pace,
    print_json,
    print_notice,
    reader_may_leave,
    safe,
    using,
    verbose_option,
)
from fastrec.cli.tables import print_left_out, print_table

if TYPE_CHECKING:
    from fastrec.commands.diff import Difference, ModelDifference

__all__ = ["diff"]

_MOST_MODELS: Final = 20  # of an evaluation
_MOST_ROWS: Final = 50  # of a table in Markdown
_MOST_FIELDS: Final = 10
_MOST_NAMES: Final = 3  # in a sentence
_HEAD: Final = ("common", "old", "new", "points", "right→wrong", "wrong→right", "p")
_SPARE: Final = ("wrong→right", "right→wrong", "old", "common")  # what a narrow terminal has no room for


@click.command(short_help="Say what changed between two corpora.")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--by", metavar="FIELDS", default="evaluation_name,sample_hash,model_id,sample_id",
              show_default="evaluation_name, sample_hash, model_id, sample_id",
              help="Records with the same values of these fields, separated by commas, are partners.")  # fmt: skip
@click.option("--fail-on", type=Number(0, 100), metavar="POINTS",
              help="Exit with 1 if a model lost more percentage points on an evaluation, with p < --p.")  # fmt: skip
@click.option("--p", "p_value", type=Number(0, 1), metavar="P", default=0.05, show_default=True,
              help="How unlikely by chance a loss must be; the more models, the smaller this should be.")  # fmt: skip
@click.option("--examples", type=Count(min=0), metavar="N", show_default="10 in JSON, else 0",
              help="List so many flips of each model, and records of each kind.")  # fmt: skip
@click.option("--format", "output_format", type=click.Choice(["table", "json", "markdown"]), default="table",
              show_default=True, help="How to report: for people, for programs, or for a pull request.")  # fmt: skip
@jobs_option
@verbose_option
def diff(
    old: str,
    new: str,
    *,
    by: str,
    fail_on: float | None,
    p_value: float,
    examples: int | None,
    output_format: str,
    jobs: int,
) -> None:
    """Say what changed between two corpora: records, fields, and samples that flipped from right to wrong and back.

    OLD and NEW are directories that `fastrec normalize` made, with the same order and the same hash. Partners are
    records of the same evaluation, model and sample; the run (evaluation_id) is another every night, so it is not
    compared. Accuracies are those of the samples that both have; p is that of the exact McNemar test.

    \b
    Exit codes:
      0     no regression
      1     a regression beyond --fail-on
      2     the command line is wrong, or these corpora cannot be compared
      3     a corpus could not be read

    \b
    Examples:
      fastrec diff corpus-monday corpus-tuesday
      fastrec diff corpus-monday corpus-tuesday --fail-on 0.5 --p 0.01
      fastrec diff corpus-monday corpus-tuesday --format markdown > comment.md
      fastrec diff corpus-monday corpus-tuesday --format json | jq .counts
    """
    from fastrec.commands.diff import diff as run

    listed = 10 if examples is None and output_format == "json" else examples or 0
    fields = [field.strip() for field in by.split(",")]
    with using(old, new):
        found = run(old, new, by=fields, fail_on=fail_on, p=p_value, examples=listed, jobs=jobs)
    with reader_may_leave():
        for notice in found.notices:
            print_notice(notice)
        if output_format == "json":
            print_json(found)
        elif output_format == "markdown":
            for line in _markdown(found):
                click.echo(line)
        else:
            _print_tables(found)
    if found.regressed:
        raise click.exceptions.Exit(1)


def _ranked(models: Sequence[ModelDifference]) -> list[ModelDifference]:
    """The worst first: what regressed, then by the loss."""
    return sorted(models, key=lambda model: (not model.regressed, model.points or 0))


def _cells(model: ModelDifference) -> tuple[str, ...]:
    return (
        decimal(model.common),
        *("–" if share is None else f"{share:.1%}" for share in (model.old_accuracy, model.new_accuracy)),
        "–" if model.points is None else f"{model.points:+.2f}" if model.points else "0.00",
        decimal(model.right_to_wrong),
        decimal(model.wrong_to_right),
        "1" if model.p == 1 else f"{model.p:.4f}" if model.p >= 0.0001 else f"{model.p:.0e}",
    )


def _print_tables(found: Difference) -> None:
    left_out: list[str] = []
    for name, group in groupby(found.models, key=lambda model: model.evaluation_name):
        models = _ranked(list(group))
        click.echo(f"{click.style(safe(name), bold=True)}: {counted(len(models), 'model')}")
        rows = [
            (safe(model.model_id), *_cells(model), "regressed" * model.regressed) for model in models[:_MOST_MODELS]
        ]
        left_out += print_table(("model", *_HEAD, ""), rows, _SPARE)
        if len(models) > _MOST_MODELS:
            click.echo(f"  … and {counted(len(models) - _MOST_MODELS, 'model')} that did no worse, in --format json")
        click.echo()
    print_left_out(left_out)
    if found.fields:
        click.echo(click.style("fields that changed", bold=True))
        print_table(("field", "records"), [(safe(f.path), decimal(f.records)) for f in found.fields[:_MOST_FIELDS]])
        if len(found.fields) > _MOST_FIELDS:
            click.echo(f"  … and {counted(len(found.fields) - _MOST_FIELDS, 'field')} more, in --format json")
        click.echo()
    for title, head, lists in _lists(found):
        click.echo(click.style(title, bold=True))
        print_table(head, [tuple(map(safe, row)) for row in lists])
        click.echo()
    click.echo(f"{_counts(found)} ({megabytes(found.text_bytes)} {pace(found.text_bytes, found.seconds)})")
    word, sentence = _verdict(found, safe)
    colour = "red" if found.regressed else "green" if found.fail_on is not None else None
    click.echo(f"{click.style(word, fg=colour, bold=True)}: {sentence}")


def _lists(found: Difference) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """The examples, if any were asked for: a title, a head and rows for each kind."""
    flips = [
        (model.evaluation_name, model.model_id, str(flip.sample_id), flip.now)
        for model in found.models
        for flip in model.flips
    ]
    if flips:
        yield "flipped", ("evaluation", "model", "sample", "now"), flips
    for kind in ("added", "removed", "changed", "ambiguous"):
        records = getattr(found.examples, kind)
        if records:
            rows = [(name.evaluation_name, name.model_id, str(name.sample_id), name.evaluation_id) for name in records]
            yield kind, ("evaluation", "model", "sample", "run"), rows


def _counts(found: Difference) -> str:
    counts = found.counts
    ambiguous = ""
    if counts.ambiguous_old or counts.ambiguous_new:
        ambiguous = f"; {decimal(counts.ambiguous_old)} of OLD and {decimal(counts.ambiguous_new)} of NEW ambiguous"
    return (
        f"{counted(counts.unchanged + counts.changed, 'pair')}: {decimal(counts.unchanged)} unchanged, "
        f"{decimal(counts.changed)} changed; {decimal(counts.added)} added, {decimal(counts.removed)} removed"
        f"{ambiguous}"
    )


def _verdict(found: Difference, spell: Callable[[str], str]) -> tuple[str, str]:
    """What it comes to, in a word and in a sentence; `spell` makes names fit to print."""
    if found.fail_on is None:
        sure = [model for model in found.models if model.p < found.p]
        fell = sum(model.new_correct < model.old_correct for model in sure)
        return "compared", (
            f"of {counted(len(found.models), 'model')}, counted per evaluation, {decimal(fell)} fell and "
            f"{decimal(len(sure) - fell)} rose with p < {found.p:g}"
        )
    limit = f"by more than {found.fail_on:g} points with p < {found.p:g}"
    regressed = _ranked([model for model in found.models if model.regressed])
    if not regressed:
        return "no regression", f"nothing fell {limit}"
    names = [f"{spell(model.model_id)} on {spell(model.evaluation_name)}" for model in regressed[:_MOST_NAMES]]
    more = f" and {decimal(len(regressed) - _MOST_NAMES)} more" if len(regressed) > _MOST_NAMES else ""
    return "regression", f"{', '.join(names)}{more} fell {limit}"


def _markdown(found: Difference) -> Iterator[str]:
    """Give the lines of a comment on a pull request: what it comes to, then the tables."""
    word, sentence = _verdict(found, _code)
    yield f"**{word}**: {sentence}"
    yield ""
    yield f"{_code(found.old.corpus)} → {_code(found.new.corpus)}: {_counts(found)}"
    rows = [
        (
            _code(model.evaluation_name),
            _code(model.model_id),
            *_cells(model),
            "**regressed**" * model.regressed,
        )
        for model in _ranked(found.models)
    ]
    yield from _markdown_table(("evaluation", "model", *_HEAD, ""), rows, 2)
    fields = [(_code(field.path), decimal(field.records)) for field in found.fields]
    if fields:
        yield from _markdown_table(("changed field", "records"), fields[:_MOST_FIELDS], 1)
    for title, head, lists in _lists(found):
        yield from ("", f"<details><summary>{title}</summary>")
        yield from _markdown_table(head, [tuple(map(_code, row)) for row in lists], len(head))
        yield from ("", "</details>")


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Give the lines of a table whose first columns are to the left and the others to the right."""
    yield ""
    for row in (head, ["---"] * left + ["--:"] * (len(head) - left), *rows[:_MOST_ROWS]):
        yield f"| {' | '.join(row)} |"
    if len(rows) > _MOST_ROWS:
        yield from ("", f"… and {decimal(len(rows) - _MOST_ROWS)} more, in `--format json`")


def _code(text: str) -> str:
    """Spell a text as code, in which Markdown has no meaning, between more backticks than it has in a row."""
    text = safe(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"
