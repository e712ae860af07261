"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fastrec.cli.console import counted, decimal, safe

if TYPE_CHECKING:
    from fastrec.stages.summary import EvaluationSummary, Summary, Tokens

__all__ = ["print_summary", "print_table"]

_MOST_MODELS = 20


def print_summary(summary: Summary) -> None:
    """Print what is in a corpus, an evaluation after the other, models ranked by accuracy."""
    for evaluation in summary.evaluations:
        click.echo(
            f"\n{click.style(safe(evaluation.evaluation_name), bold=True)}: {counted(evaluation.records, 'record')}, "
            f"{counted(evaluation.models, 'model')}, {counted(evaluation.samples, 'sample')}, "
            f"{decimal(evaluation.samples_all_models)} answered by all models"
        )
        _print_models(evaluation)


def _print_models(evaluation: EvaluationSummary) -> None:
    ranked = sorted(evaluation.by_model, key=lambda model: (-model.accuracy, model.model_id))
    rows = [
        (
            safe(model.model_id),
            decimal(model.records),
            f"{model.accuracy:.1%}",
            "" if model.mean_score is None else f"{model.mean_score:.4g}",
            "" if model.score_standard_error is None else f"± {model.score_standard_error:.2g}",
            decimal(model.errors),
            _tokens(model.tokens),
            "" if model.latency_ms.p50 is None else f"{model.latency_ms.p50:,.0f}",
        )
        for model in ranked[:_MOST_MODELS]
    ]
    print_table(("model", "records", "accuracy", "score", "", "errors", "tokens", "p50 ms"), rows)
    if len(ranked) > _MOST_MODELS:
        click.echo(f"  … and {counted(len(ranked) - _MOST_MODELS, 'model')} more, in summary.json")


def _tokens(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return decimal(tokens.total) if isinstance(tokens.total, int) else "very many"


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
