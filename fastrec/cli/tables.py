"""Tables of models, for people and for programs: one look at the numbers, several spellings."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.console import counted, decimal, safe

if TYPE_CHECKING:
    from fastrec.jobs.stats import EvaluationStats, ModelStats, Stats
    from fastrec.stages.summary import Tokens

__all__ = ["csv_of", "markdown_of", "print_stats", "print_table"]

# Heads, and what stands below them. A column that is empty for all models of an evaluation is left out.
_COLUMNS: Final[tuple[tuple[str, Callable[[ModelStats], str]], ...]] = (
    ("model", lambda model: safe(model.model_id)),
    ("n", lambda model: decimal(model.records)),
    ("coverage", lambda model: f"{model.coverage:.1%}"),
    ("accuracy", lambda model: f"{model.accuracy:.1%}"),
    ("", lambda model: _or_empty(model.accuracy_standard_error, "± {:.1%}")),
    ("score", lambda model: _or_empty(model.mean_score, "{:.4g}")),
    ("", lambda model: _or_empty(model.score_standard_error, "± {:.2g}")),
    ("errors", lambda model: decimal(model.errors)),
    ("tokens", lambda model: _total(model.tokens)),
    ("tokens each", lambda model: _or_empty(model.tokens_per_record, "{:,.0f}")),
    ("p50 ms", lambda model: _or_empty(model.latency_ms.p50, "{:,.0f}")),
    ("p99 ms", lambda model: _or_empty(model.latency_ms.p99, "{:,.0f}")),
)

_FIELDS: Final[dict[str, Callable[[ModelStats], object]]] = {
    "model_id": lambda model: safe(model.model_id),
    "records": lambda model: model.records,
    "samples": lambda model: model.samples,
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
    for number, evaluation in enumerate(stats.evaluations):
        name = click.style(safe(evaluation.evaluation_name), bold=True)
        click.echo(f"{'' if number == 0 else chr(10)}{name}: {_about(evaluation)}")
        if not evaluation.by_model:
            click.echo(f"  {_NO_COMMON}")
            continue
        print_table(*_table(evaluation.by_model[:most]))
        if most is not None and len(evaluation.by_model) > most:
            click.echo(f"  … and {counted(len(evaluation.by_model) - most, 'model')} more: fastrec stats lists them")


_NO_COMMON: Final = "no sample was answered by all of them: leave out models with --model, or do without --common"


def _about(evaluation: EvaluationStats) -> str:
    """Say what an evaluation has."""
    some = evaluation.chosen < evaluation.models
    models = f"{decimal(evaluation.chosen) + ' of ' if some else ''}{counted(evaluation.models, 'model')}"
    about = f"{counted(evaluation.records, 'record')}, {models}, {counted(evaluation.samples, 'sample')}"
    if evaluation.common_samples is None:
        return about
    these = "these " if some else ""
    return f"{about}, {decimal(evaluation.common_samples)} answered by all {these}models"


def _table(models: Sequence[ModelStats]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table, without columns that are empty."""
    columns = [(head, [spell(model) for model in models]) for head, spell in _COLUMNS]
    kept = [(head, cells) for head, cells in columns if any(cells)]
    return [head for head, _ in kept], [list(row) for row in zip(*(cells for _, cells in kept), strict=True)]


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate([head, *rows]):
        cells = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  " + "  ".join(cells).rstrip()
        click.echo(click.style(line, dim=True) if number == 0 else line)


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
        head, rows = _table(evaluation.by_model)
        yield f"| {' | '.join(head)} |"
        yield f"|---|{'--:|' * (len(head) - 1)}"
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
