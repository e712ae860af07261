"""`fastrec stats`: tables of models for each evaluation, as plain text, Markdown and CSV."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    make_progress,
    print_json,
    print_notice,
    print_warning,
)
from fastrec.cli.options import (
    choice_option,
    command,
    jobs_option,
    no_progress_option,
    prepare_reading,
    raw_cells_option,
)
from fastrec.cli.spelling import safe
from fastrec.cli.tables import markdown_table, print_hidden, print_more, print_table
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.summary.document import Tokens
    from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats

__all__ = ["print_stats", "stats"]

_RANKINGS = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]

# Columns and their cells. A column that is empty for all models of an evaluation is left out.
_COLUMNS: Final[dict[str, Callable[[ModelStats], str]]] = {
    "model": lambda model: safe(model.model_id),
    "n": lambda model: f"{model.records:,}",
    "coverage": lambda model: f"{model.coverage:.1%}",
    "accuracy": lambda model: "–" if model.accuracy is None else f"{model.accuracy:.1%}",
    "accuracy ±": lambda model: _or_empty(model.accuracy_standard_error, "± {:.1%}"),
    "score": lambda model: _or_empty(model.mean_score, "{:.4g}"),
    "score ±": lambda model: _or_empty(model.score_standard_error, "± {:.2g}"),
    "errors": lambda model: f"{model.errors:,}",
    "tokens": lambda model: _total(model.tokens),
    "tokens/record": lambda model: _or_empty(model.tokens_per_record, "{:,.0f}"),
    "p50 ms": lambda model: _or_empty(model.latency_ms.p50, "{:,.0f}"),
    "p99 ms": lambda model: _or_empty(model.latency_ms.p99, "{:,.0f}"),
}
# Columns that a narrow terminal hides, the least important first. The column that models are ranked by stays.
_OPTIONAL: Final = (
    "tokens", "p99 ms", "score ±", "tokens/record", "errors", "p50 ms", "score", "coverage", "accuracy ±",
)  # fmt: skip
_RANKED_BY: Final = {"tokens": "tokens/record", "latency": "p50 ms"}
_NO_COMMON: Final = "no question was answered by all of them; choose fewer models with --model, or omit --common"

# Columns of the CSV table: first those that have the name of an attribute, then names and attributes.
_CSV_ATTRIBUTES: Final = (
    "model_id", "records", "questions", "coverage", "correct", "accuracy", "accuracy_standard_error", "mean_score",
    "score_standard_error", "errors",
)  # fmt: skip
_CSV_FIELDS: Final = dict(zip(_CSV_ATTRIBUTES, _CSV_ATTRIBUTES, strict=True)) | {
    "records_with_tokens": "tokens.records",
    "input_tokens": "tokens.input",
    "output_tokens": "tokens.output",
    "total_tokens": "tokens.total",
    "records_with_latency": "latency_ms.records",
    "latency_ms_p50": "latency_ms.p50",
    "latency_ms_p90": "latency_ms.p90",
    "latency_ms_p99": "latency_ms.p99",
}


@command("Compare the models of each evaluation.")
@click.argument("paths", nargs=-1, type=click.Path())
@choice_option("--by", _RANKINGS, "Rank models by this, best first; tokens are per record, latency is the median.")
@click.option("--evaluation", "evaluations", multiple=True, metavar="PATTERN",
              help="Only evaluations whose name matches, for example 'mmlu*'; may be repeated.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="PATTERN",
              help="Only models whose id matches, for example 'org/*'; may be repeated.")  # fmt: skip
@click.option("--common", is_flag=True, help="Count only questions that all of these models answered.")
@choice_option("--format", ["table", "json", "csv", "markdown"], "Output format.", to="output_format")
@raw_cells_option
@jobs_option
@click.option("--work-dir", type=click.Path(file_okay=False), envvar="FASTREC_WORK_DIR",
              show_envvar=True, help="Directory for temporary files, if PATHS are shards.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only the statistics and errors.")
@no_progress_option
def stats(
    paths: tuple[str, ...], output_format: str, raw_cells: bool, quiet: bool, no_progress: bool, **options: Any
) -> None:
    """Compare the models of each evaluation: accuracy, score, errors, tokens, latency, coverage.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the numbers, or any shards.
    Shards are read and sorted, so that duplicates count once; nothing is published. In the tables, n is the number of
    records of a model, and coverage is the share of the evaluation's questions that it answered. Models that answered
    different questions are not comparable; --common counts only the questions that all of them answered.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.commands.stats import stats as run
    from fastrec.corpus.manifest import skipped_lines

    prepare_reading(options["jobs"], paths)
    with make_progress(quiet=quiet or no_progress) as progress, explain_damage(*paths or ("",)):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    with allow_broken_pipe():
        missing = skipped_lines(found.skipped)
        if missing and output_format in ("table", "markdown"):
            spell = safe if output_format == "table" else _markdown_item
            click.echo("\n".join([*map(spell, missing), ""]))
        elif not quiet:
            print_warning(missing)
        if output_format == "json":
            print_json(found)
        elif output_format == "csv":
            click.echo(_csv(found, raw_cells=raw_cells), nl=False)
        elif output_format == "markdown":
            click.echo("\n".join(_markdown(found)))
        elif found.evaluations:
            print_stats(found)
        else:
            click.echo("there are no records")


def _or_empty(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(value)


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return f"{tokens.total:,}" if isinstance(tokens.total, int) else "huge"


def print_stats(found: Stats, most: int | None = None) -> None:
    """Print a table for each evaluation, with at most `most` models."""
    optional = [name for name in _OPTIONAL if name != _RANKED_BY.get(found.by, found.by)]
    hidden: list[str] = []
    for number, evaluation in enumerate(found.evaluations):
        name = click.style(safe(evaluation.evaluation_name), bold=True)
        click.echo(f"{'' if number == 0 else chr(10)}{name}: {_about(evaluation)}")
        if not evaluation.by_model:
            click.echo(f"  {_NO_COMMON}")
            continue
        first = evaluation.by_model[:most]
        hidden += print_table(*_table(first), optional)
        print_more(len(evaluation.by_model) - len(first), "model", "`fastrec stats`")
    print_hidden(hidden)


def _about(evaluation: EvaluationStats) -> str:
    """Describe an evaluation in one line."""
    some = evaluation.chosen < evaluation.models
    models = f"{f'{evaluation.chosen:,} of ' if some else ''}{counted(evaluation.models, 'model')}"
    about = f"{counted(evaluation.records, 'record')}, {models}, {counted(evaluation.questions, 'question')}"
    if evaluation.common_questions is None:
        return about
    return f"{about}, {evaluation.common_questions:,} answered by all {'these ' if some else ''}models"


def _table(models: Sequence[ModelStats]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns that are not empty, and the rows."""
    columns = {name: [spell(model) for model in models] for name, spell in _COLUMNS.items()}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _markdown(found: Stats) -> Iterator[str]:
    """Yield the lines of a Markdown table for each evaluation."""
    for number, evaluation in enumerate(found.evaluations):
        if number:
            yield ""
        yield f"**{_escaped(safe(evaluation.evaluation_name))}**: {_about(evaluation)}"
        yield ""
        if not evaluation.by_model:
            yield _NO_COMMON
            continue
        names, rows = _table(evaluation.by_model)
        yield from markdown_table(names, [[_escaped(cell) for cell in row] for row in rows])


def _markdown_item(line: str) -> str:
    """Return a line of a message; an indented one becomes an item of a list."""
    return re.sub("^  ", "- ", _escaped(safe(line)))


def _escaped(text: str) -> str:
    """Escape what has a meaning in Markdown or in HTML."""
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def _csv(found: Stats, *, raw_cells: bool) -> str:
    """Return all models of all evaluations as one CSV table, with numbers in full precision."""
    from fastrec.csv_writer import CsvWriter

    out = io.StringIO()
    writer = CsvWriter(out, raw_cells=raw_cells)
    writer.writerow(["evaluation_name", "rank", *_CSV_FIELDS])
    values_of = attrgetter(*_CSV_FIELDS.values())
    for evaluation in found.evaluations:
        for rank, model in enumerate(evaluation.by_model, 1):
            model_id, *numbers = values_of(model)
            writer.writerow([safe(evaluation.evaluation_name), rank, safe(model_id), *numbers])
    return out.getvalue()
