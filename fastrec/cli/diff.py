"""`fastrec diff`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_json, print_notice
from fastrec.cli.options import Count, Number, choice_option, command, jobs_option
from fastrec.cli.spelling import safe, spell_bytes, spell_speed
from fastrec.cli.tables import markdown_table, print_hidden, print_more, print_table
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.diff import Difference, ModelDifference

__all__ = ["diff"]

_MOST_MODELS: Final = 20  # per evaluation
_MOST_ROWS: Final = 50  # in a Markdown table
_MOST_FIELDS: Final = 10
_MOST_NAMES: Final = 3  # in a sentence
_HEAD: Final = ("common", "old", "new", "points", "right→wrong", "wrong→right", "p")
_OPTIONAL: Final = ("wrong→right", "right→wrong", "old", "common")  # hidden on a narrow terminal


@command("Compare two corpora.")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--by", metavar="FIELDS", default="evaluation_name,sample_hash,model_id,sample_id",
              show_default="evaluation_name, sample_hash, model_id, sample_id",
              help="Match records that have the same values in these comma-separated fields.")  # fmt: skip
@click.option("--fail-on", type=Number(0, 100), metavar="POINTS",
              help="Exit 1 if a model lost more than this many percentage points on an evaluation, "
              "with p < --p.")  # fmt: skip
@click.option("--p", type=Number(0, 1), metavar="P", default=0.05, show_default=True,
              help="Significance level; use a smaller one for many models.")  # fmt: skip
@click.option("--examples", type=Count(min=0), metavar="N", show_default="10 in JSON, else 0",
              help="List this many flips per model, and this many records of each kind.")  # fmt: skip
@choice_option("--format", ["table", "json", "markdown"], "Output format; markdown suits a pull request.",
               to="output_format")  # fmt: skip
@jobs_option
def diff(old: str, new: str, by: str, examples: int | None, output_format: str, **options: Any) -> None:
    """Compare two corpora: records, fields, and answers that flipped between right and wrong.

    OLD and NEW are directories that `fastrec normalize` published, with the same sort order and the same hash. Records
    match if they have the same evaluation, question, model and sample_id. The run (evaluation_id) is ignored, because
    it is a new one every night. Accuracies cover matched records only; p is the p-value of the exact McNemar test.

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
    with explain_damage(old, new):
        found = run(old, new, by=fields, examples=listed, **options)
    with allow_broken_pipe():
        print_notice(*found.notices)
        if output_format == "json":
            print_json(found)
        elif output_format == "markdown":
            click.echo("\n".join(_markdown(found)))
        else:
            _print_tables(found)
    if found.regressed:
        raise click.exceptions.Exit(1)


def _ranked(models: Sequence[ModelDifference]) -> list[ModelDifference]:
    """Sort the worst first: regressed models, then by the loss."""
    return sorted(models, key=lambda model: (not model.regressed, model.points or 0))


def _cells(model: ModelDifference) -> tuple[str, ...]:
    return (
        f"{model.common:,}",
        *("–" if share is None else f"{share:.1%}" for share in (model.old_accuracy, model.new_accuracy)),
        "–" if model.points is None else f"{model.points:+.2f}" if model.points else "0.00",
        f"{model.right_to_wrong:,}",
        f"{model.wrong_to_right:,}",
        "1" if model.p == 1 else f"{model.p:.4f}" if model.p >= 0.0001 else f"{model.p:.0e}",
    )


def _print_tables(found: Difference) -> None:
    hidden: list[str] = []
    for name, group in groupby(found.models, key=lambda model: model.evaluation_name):
        rows = [(safe(m.model_id), *_cells(m), "regressed" * m.regressed) for m in _ranked(list(group))]
        click.echo(f"{click.style(safe(name), bold=True)}: {counted(len(rows), 'model')}")
        hidden += print_table(("model", *_HEAD, ""), rows[:_MOST_MODELS], _OPTIONAL)
        print_more(len(rows) - _MOST_MODELS, "model", "--format json")
        click.echo()
    print_hidden(hidden)
    if found.fields:
        click.echo(click.style("changed fields", bold=True))
        print_table(("field", "records"), [(safe(f.path), f"{f.records:,}") for f in found.fields[:_MOST_FIELDS]])
        print_more(len(found.fields) - _MOST_FIELDS, "field", "--format json")
        click.echo()
    for title, head, lists in _lists(found):
        click.echo(click.style(title, bold=True))
        print_table(head, [tuple(map(safe, row)) for row in lists])
        click.echo()
    click.echo(f"{_counts(found)} ({spell_bytes(found.text_bytes)} {spell_speed(found.text_bytes, found.seconds)})")
    word, sentence = _verdict(found, safe)
    colour = "red" if found.regressed else "green" if found.fail_on is not None else None
    click.echo(f"{click.style(word, fg=colour, bold=True)}: {sentence}")


def _lists(found: Difference) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yield the examples, if any: a title, column names and rows for each kind."""
    flips = [(m.evaluation_name, m.model_id, str(flip.sample_id), flip.now) for m in found.models for flip in m.flips]
    if flips:
        yield "flipped", ("evaluation", "model", "sample_id", "now"), flips
    for kind in ("added", "removed", "changed", "ambiguous"):
        if records := getattr(found.examples, kind):
            rows = [(name.evaluation_name, name.model_id, str(name.sample_id), name.evaluation_id) for name in records]
            yield kind, ("evaluation", "model", "sample_id", "run"), rows


def _counts(found: Difference) -> str:
    counts = found.counts
    pairs = f"{counted(counts.unchanged + counts.changed, 'pair')}: {counts.unchanged:,} unchanged"
    text = f"{pairs}, {counts.changed:,} changed; {counts.added:,} added, {counts.removed:,} removed"
    if counts.ambiguous_old or counts.ambiguous_new:
        text += f"; {counts.ambiguous_old:,} of OLD and {counts.ambiguous_new:,} of NEW ambiguous"
    return text


def _verdict(found: Difference, spell: Callable[[str], str]) -> tuple[str, str]:
    """Return the result as a word and a sentence; `spell` escapes names."""
    if found.fail_on is None:
        sure = [model for model in found.models if model.p < found.p]
        fell = sum(model.new_correct < model.old_correct for model in sure)
        models = f"{counted(len(found.models), 'model')} (counted per evaluation)"
        return "compared", f"{fell:,} worse and {len(sure) - fell:,} better with p < {found.p:g}, of {models}"
    limit = f"lost more than {found.fail_on:g} points with p < {found.p:g}"
    regressed = _ranked([model for model in found.models if model.regressed])
    if not regressed:
        return "no regression", f"no model {limit}"
    names = [f"{spell(model.model_id)} on {spell(model.evaluation_name)}" for model in regressed[:_MOST_NAMES]]
    more = f" and {len(regressed) - _MOST_NAMES:,} more" if len(regressed) > _MOST_NAMES else ""
    return "regression", f"{', '.join(names)}{more} {limit}"


def _markdown(found: Difference) -> Iterator[str]:
    """Yield the lines of a comment on a pull request: the result, then the tables."""
    word, sentence = _verdict(found, _code)
    corpora = f"{_code(found.old.corpus)} → {_code(found.new.corpus)}"
    yield from (f"**{word}**: {sentence}", "", f"{corpora}: {_counts(found)}")
    rows = [
        (_code(m.evaluation_name), _code(m.model_id), *_cells(m), "**regressed**" * m.regressed)
        for m in _ranked(found.models)
    ]
    yield from _markdown_table(("evaluation", "model", *_HEAD, ""), rows, 2)
    fields = [(_code(field.path), f"{field.records:,}") for field in found.fields]
    if fields:
        yield from _markdown_table(("changed field", "records"), fields[:_MOST_FIELDS], 1)
    for title, head, lists in _lists(found):
        yield from ("", f"<details><summary>{title}</summary>")
        yield from _markdown_table(head, [tuple(map(_code, row)) for row in lists], len(head))
        yield from ("", "</details>")


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    yield ""
    yield from markdown_table(head, rows[:_MOST_ROWS], left)
    if len(rows) > _MOST_ROWS:
        yield from ("", f"… and {len(rows) - _MOST_ROWS:,} more; `--format json` lists all")


def _code(text: str) -> str:
    """Return a Markdown code span, with more backticks around the text than it has in a row."""
    text = safe(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"
