"""Tables of models, for people and for programs: one look at the numbers, several spellings."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.console import counted, decimal, print_notice, safe

if TYPE_CHECKING:
    from fastrec.summary.document import Tokens
    from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats

__all__ = ["csv_of", "markdown_of", "print_left_out", "print_stats", "print_table"]

# Names of columns, and what stands in them. One that is empty for all models of an evaluation is left out.
_COLUMNS: Final[tuple[tuple[str, Callable[[ModelStats], str]], ...]] = (
    ("model", lambda model: safe(model.model_id)),
    ("n", lambda model: decimal(model.records)),
    ("coverage", lambda model: f"{model.coverage:.1%}"),
    ("accuracy", lambda model: f"{model.accuracy:.1%}"),
    ("accuracy ±", lambda model: _or_empty(model.accuracy_standard_error, "± {:.1%}")),
    ("score", lambda model: _or_empty(model.mean_score, "{:.4g}")),
    ("score ±", lambda model: _or_empty(model.score_standard_error, "± {:.2g}")),
    ("errors", lambda model: decimal(model.errors)),
    ("tokens", lambda model: _total(model.tokens)),
    ("tokens each", lambda model: _or_empty(model.tokens_per_record, "{:,.0f}")),
    ("p50 ms", lambda model: _or_empty(model.latency_ms.p50, "{:,.0f}")),
    ("p99 ms", lambda model: _or_empty(model.latency_ms.p99, "{:,.0f}")),
)

# What a narrow terminal has no room for, the least important first; what models are ranked by stays.
_SPARE: Final = ("tokens", "p99 ms", "score ±", "tokens each", "errors", "p50 ms", "score", "coverage", "accuracy ±")
_RANKED_BY: Final = {"tokens": "tokens each", "latency": "p50 ms"}

_FIELDS: Final[dict[str, Callable[[ModelStats], object]]] = {
    "model_id": lambda model: safe(model.model_id),
    "records": lambda model: model.records,
    "samples": lambda model: model.questions,
    "coverage": lambda model: model.coverage,
    "correct": lambda model: model.correct,
    "accuracy": lambda model: model.accuracy,
    "accuracy_standard_error": lambda model: model.accuracy_standard_error,
    "mean_score": lambda model: model.mean_score,
    "score_standard_error": lambda model: model.score_standard_error,
    "errors": lambda model: model.errors,
    "records_with_tokens": lambda model: model.tokens.records,
    "input_tokens": lambda model: model.tokens.input,
    "output_tokens": lambda model: model.tokens.output,
    "total_tokens": lambda model: model.tokens.total,
    "records_with_latency": lambda model: model.latency_ms.records,
    "latency_ms_p50": lambda model: model.latency_ms.p50,
    "latency_ms_p90": lambda model: model.latency_ms.p90,
    "latency_ms_p99": lambda model: model.latency_ms.p99,
}


def _or_empty(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(value)


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return decimal(tokens.total) if isinstance(tokens.total, int) else "very many"


def print_stats(stats: Stats, most: int | None = None) -> None:
    """Print a table for each evaluation, of at most so many models."""
    spare = [name for name in _SPARE if name != _RANKED_BY.get(stats.by, stats.by)]
    left_out: list[str] = []
    for number, evaluation in enumerate(stats.evaluations):
        name = click.style(safe(evaluation.evaluation_name), bold=True)
        click.echo(f"{'' if number == 0 else chr(10)}{name}: {_about(evaluation)}")
        if not evaluation.by_model:
            click.echo(f"  {_NO_COMMON}")
            continue
        left_out += print_table(*_table(evaluation.by_model[:most]), spare)
        if most is not None and len(evaluation.by_model) > most:
            click.echo(f"  … and {counted(len(evaluation.by_model) - most, 'model')} more: fastrec stats lists them")
    print_left_out(left_out)


_NO_COMMON: Final = "no sample was answered by all of them: leave out models with --model, or do without --common"


def _about(evaluation: EvaluationStats) -> str:
    """Say what an evaluation has."""
    some = evaluation.chosen < evaluation.models
    models = f"{decimal(evaluation.chosen) + ' of ' if some else ''}{counted(evaluation.models, 'model')}"
    about = f"{counted(evaluation.records, 'record')}, {models}, {counted(evaluation.questions, 'sample')}"
    if evaluation.common_questions is None:
        return about
    these = "these " if some else ""
    return f"{about}, {decimal(evaluation.common_questions)} answered by all {these}models"


def _table(models: Sequence[ModelStats]) -> tuple[list[str], list[list[str]]]:
    """The names of columns and the rows of a table, without columns that are empty."""
    columns = [(name, [spell(model) for model in models]) for name, spell in _COLUMNS]
    kept = [(name, cells) for name, cells in columns if any(cells)]
    return [name for name, _ in kept], [list(row) for row in zip(*(cells for _, cells in kept), strict=True)]


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()) -> list[str]:
    """Print rows under their heads, the first column to the left and the others to the right.

    Columns that a terminal has no room for are left out, of those that can be spared; gives their names.
    """
    cells = {name: (_head(name), *column) for name, *column in zip(names, *rows, strict=True)}
    left_out = _too_many({name: max(map(len, column)) for name, column in cells.items()}, spare)
    columns = [column for name, column in cells.items() if name not in left_out]
    widths = [max(map(len, column)) for column in columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        placed = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  " + "  ".join(placed).rstrip()
        click.echo(click.style(line, dim=True) if number == 0 else line)
    return left_out


def _head(name: str) -> str:
    return "" if name.endswith("±") else name


def _too_many(widths: dict[str, int], spare: Sequence[str]) -> list[str]:
    """Choose columns to leave out, in the order of `spare`, until the others fit into the terminal, if it is one."""
    if not sys.stdout.isatty():
        return []
    too_wide = sum(2 + width for width in widths.values() if width) - shutil.get_terminal_size().columns
    left_out = []
    for name in spare:
        if too_wide > 0 and name in widths:
            too_wide -= 2 + widths[name]
            left_out.append(name)
    return left_out


def print_left_out(names: Sequence[str]) -> None:
    """Say what there was no room for."""
    if names:
        print_notice(f"a wider terminal shows {', '.join(dict.fromkeys(names))}, too")


def markdown_of(stats: Stats) -> Iterator[str]:
    """Spell a table for each evaluation in Markdown, line by line."""
    for number, evaluation in enumerate(stats.evaluations):
        if number:
            yield ""
        yield f"**{_plain(safe(evaluation.evaluation_name))}**: {_about(evaluation)}"
        yield ""
        if not evaluation.by_model:
            yield _NO_COMMON
            continue
        names, rows = _table(evaluation.by_model)
        yield f"| {' | '.join(map(_head, names))} |"
        yield f"|---|{'--:|' * (len(names) - 1)}"
        for row in rows:
            yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    """Escape what has a meaning in Markdown, and in the HTML that it becomes."""
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def csv_of(stats: Stats) -> str:
    """Spell all models of all evaluations as one table of comma-separated values, with every number in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["evaluation_name", "rank", *_FIELDS])
    for evaluation in stats.evaluations:
        for rank, model in enumerate(evaluation.by_model, 1):
            values = [spell(model) for spell in _FIELDS.values()]
            writer.writerow([safe(evaluation.evaluation_name), rank, *values])
    return out.getvalue()
