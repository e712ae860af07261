"""Tables of models for each evaluation: plain text, Markdown and CSV."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.console import safe
from fastrec.cli.tables import markdown_table, print_hidden, print_more, print_table

if TYPE_CHECKING:
    from fastrec.summary.document import Tokens
    from fastrec.summary.present_ranking import ModelStats, Stats


# Columns and their cells. A column that is empty for all models of an evaluation is left out.
_COLUMNS: Final[dict[str, Callable[[ModelStats], str]]] = {
    "model": lambda model: safe(model.model_id),
    "n": lambda model: f"{model.questions:,}",
    "questions": lambda model: f"{model.questions:,}",
    "answers": lambda model: f"{model.answers:,}",
    "answers/question": lambda model: _or_empty(model.answers_per_question, "{:.3g}"),
    "coverage": lambda model: f"{model.coverage:.1%}",
    "accuracy": lambda model: "–" if model.accuracy is None else f"{model.accuracy:.1%}",
    "95% interval": lambda model: _interval(model.accuracy_low, model.accuracy_high),
    "score": lambda model: _or_empty(model.mean_score, "{:.4g}"),
    "score ±": lambda model: _or_empty(model.score_standard_error, "± {:.2g}"),
    "errors": lambda model: f"{model.errors:,}",
    "tokens": lambda model: _total(model.tokens),
    "tokens/record": lambda model: _or_empty(model.tokens_per_record, "{:,.0f}"),
    "p50 ms": lambda model: _or_empty(model.latency_ms.p50, "{:,.0f}"),
    "p99 ms": lambda model: _or_empty(model.latency_ms.p99, "{:,.0f}"),
}
_REPEATS: Final = ("questions", "answers", "answers/question")
"""Columns instead of n, if a model has several answers to a question."""
_NOT_GRADED: Final = ("accuracy", "95% interval", "score ±")
"""Columns that are left out if the score is shown instead of the accuracy."""
# Columns that a narrow terminal hides, the least important first. The column that models are ranked by stays, and so
# does the number of errors: without it, accuracy can mislead.
_OPTIONAL: Final = (
    "tokens", "p99 ms", "score ±", "tokens/record", "p50 ms", "answers", "score", "coverage", "answers/question",
    "95% interval",
)  # fmt: skip
_RANKED_BY: Final = {"tokens": "tokens/record", "latency": "p50 ms"}
_NO_COMMON: Final = "no question was answered by all of them; choose fewer models with --model, or omit --common"
_NO_ANSWERS: Final = "every record has an error, so there are no answers; --errors-as-wrong counts them as wrong"

# Columns of the CSV table: first those that have the name of an attribute, then names and attributes.
_CSV_ATTRIBUTES: Final = (
    "model_id", "records", "errors", "answers", "questions", "answers_per_question", "coverage", "correct", "accuracy",
    "accuracy_standard_error", "accuracy_low", "accuracy_high", "mean_score", "score_standard_error",
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
    "score_low": "score_low",
    "score_high": "score_high",
}


def _or_empty(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(value)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{100 * low:.1f}–{high:.1%}"


def _score_interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return f"{tokens.total:,}" if isinstance(tokens.total, int) else "huge"


def print_stats(found: Stats, most: int | None = None) -> None:
    """Print a table for each evaluation, with at most `most` models."""
    from fastrec.summary.present_ranking import about, facts_in_words, legend

    hidden: list[str] = []
    for number, evaluation in enumerate(found.evaluations):
        name = click.style(safe(evaluation.title), bold=True)
        click.echo(f"{'' if number == 0 else chr(10)}{name}: {about(evaluation)}")
        if not evaluation.by_model:
            click.echo(f"  {_NO_COMMON if evaluation.answering else _NO_ANSWERS}")
            continue
        first = evaluation.by_model[:most]
        optional = [name for name in _OPTIONAL if name != _RANKED_BY.get(evaluation.by, evaluation.by)]
        hidden += print_table(*_table(first, evaluation.by, accuracy=found.shows_accuracy(evaluation)), optional)
        print_more(len(evaluation.by_model) - len(first), "model", "`fastrec stats`")
    for lines in (legend(found), facts_in_words(found.corpus)):
        for number, line in enumerate(lines):
            click.echo(f"{'' if number else chr(10)}{click.style(safe(line), dim=True)}")
    print_hidden(hidden)


def _table(models: Sequence[ModelStats], by: str, *, accuracy: bool) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns that say something, and the rows."""
    spellings: dict[str, Callable[[ModelStats], str]] = {}
    for name, spell in _COLUMNS.items():
        if accuracy or name not in _NOT_GRADED:
            spellings[name] = spell
        if name == "score" and not accuracy:
            spellings["95% interval"] = lambda model: _score_interval(model.score_low, model.score_high)
    columns = {name: [spell(model) for model in models] for name, spell in spellings.items()}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    repeats = any(model.answers > model.questions for model in models)
    for name in ("n",) if repeats else _REPEATS:
        columns.pop(name, None)
    if by != "errors" and not any(model.errors for model in models):
        del columns["errors"]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def markdown_tables(found: Stats) -> Iterator[str]:
    """Yield the lines of a Markdown table for each evaluation."""
    from fastrec.summary.present_ranking import about, facts_in_words, legend

    for number, evaluation in enumerate(found.evaluations):
        if number:
            yield ""
        yield f"**{escaped(safe(evaluation.title))}**: {about(evaluation)}"
        yield ""
        if not evaluation.by_model:
            yield _NO_COMMON if evaluation.answering else _NO_ANSWERS
            continue
        names, rows = _table(evaluation.by_model, evaluation.by, accuracy=found.shows_accuracy(evaluation))
        yield from markdown_table(names, [[escaped(cell) for cell in row] for row in rows])
    for lines in filter(None, (legend(found), facts_in_words(found.corpus))):
        yield ""
        yield from (escaped(safe(line)) for line in lines)


def markdown_item(line: str) -> str:
    """Return a line of a message; an indented one becomes an item of a list."""
    return re.sub("^  ", "- ", escaped(safe(line)))


def escaped(text: str) -> str:
    """Escape what has a meaning in Markdown or in HTML."""
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def csv_table(found: Stats, *, raw_cells: bool) -> str:
    """Return all models of all evaluations and metrics as one CSV table, with numbers in full precision.

    New columns are at the end, for readers that go by position.
    """
    from fastrec.csv_writer import CsvWriter

    out = io.StringIO()
    writer = CsvWriter(out, raw_cells=raw_cells)
    writer.writerow(["evaluation_name", "rank", *_CSV_FIELDS, "metric", "graded"])
    values_of = attrgetter(*_CSV_FIELDS.values())
    for evaluation in found.evaluations:
        for rank, model in enumerate(evaluation.by_model, 1):
            model_id, *numbers = values_of(model)
            metric = None if evaluation.metric is None else safe(evaluation.metric)
            name, graded = safe(evaluation.evaluation_name), str(evaluation.graded).lower()
            writer.writerow([name, rank, safe(model_id), *numbers, metric, graded])
    return out.getvalue()
