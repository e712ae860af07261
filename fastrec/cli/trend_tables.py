"""Tables of models over corpora: plain text, and CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.spelling import safe
from fastrec.cli.tables import print_hidden, print_more, print_table
from fastrec.errors import counted, listed

if TYPE_CHECKING:
    from fastrec.trends.document import Change, EvaluationTrend, Trend

__all__ = ["csv_trend", "print_trend"]

_MOST_COLUMNS: Final = 8  # corpora in a table
_MOST_CHANGES: Final = 50
_LONGEST: Final = 20  # characters of the name of a corpus at the head of a column
_COUNTS: Final = ("lines", "kept", "duplicates", "rejected", "blank")


def print_trend(found: Trend) -> None:
    """Print a table for each evaluation, the changes, and the line counts of each corpus."""
    hidden: list[str] = []
    for evaluation in found.evaluations:
        chosen = _chosen_names(found, evaluation)
        some = "" if len(chosen) == len(found.corpora) else f"; {len(chosen)} of them shown"
        about = f"{evaluation.measure} in {_corpora(len(found.corpora))}{some}"
        click.echo(f"{click.style(safe(evaluation.title), bold=True)}: {about}")
        names, rows = _table(evaluation, chosen)
        hidden += print_table(names, rows, optional=names[-2:0:-1])
        click.echo()
    _print_changes(found)
    _print_corpora(found)
    print_hidden(hidden)


def _corpora(number: int) -> str:
    return f"{number:,} corpora" if number != 1 else "1 corpus"


def _chosen_names(found: Trend, evaluation: EvaluationTrend) -> list[str]:
    """Choose the columns: all corpora if they are few, else the first, the last, and those with changes."""
    names = [corpus.name for corpus in found.corpora]
    if len(names) <= _MOST_COLUMNS:
        return names
    changes = [change for model in evaluation.models for change in model.changes if change.significant]
    changes.sort(key=lambda change: (change.p_adjusted, change.after))
    wanted = dict.fromkeys([names[0], names[-1]])
    for change in changes:
        if len(wanted.keys() | {change.before, change.after}) <= _MOST_COLUMNS:
            wanted |= dict.fromkeys((change.before, change.after))
    return [name for name in names if name in wanted]


def _table(evaluation: EvaluationTrend, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    with_errors = any(point.errors for model in evaluation.models for point in model.points)
    heads = _heads(names)
    rows = []
    for model in evaluation.models:
        points = {point.corpus: point for point in model.points}
        marks = {change.after: _mark(change) for change in model.changes if change.significant}
        cells = [evaluation.spelled(points[name].value) if name in points else "" for name in names]
        # A space in place of a mark keeps the numbers of a column aligned.
        marked = [cell + marks.get(name, " ") for name, cell in zip(names, cells, strict=True)]
        last = model.points[-1]
        rows.append([safe(model.model_id), *marked, f"{last.records:,}", *[f"{last.errors:,}"] * with_errors])
    return ["model", *heads, "last records", *["last errors"] * with_errors], rows


def _heads(names: Sequence[str]) -> list[str]:
    """Return the names of corpora, cut if they are long; a table needs different ones."""
    cut = [name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in map(safe, names)]
    made: list[str] = []
    for head in cut:
        made.append(head if f"{head} " not in made else f"{head} ({len(made) + 1})")
        made[-1] += " "  # above the space for a mark
    return made


def _mark(change: Change) -> str:
    return "▲" if (change.difference or 0) > 0 else "▼"


def _print_changes(found: Trend) -> None:
    """List the changes that are more than chance, in the order of corpora."""
    if not found.comparisons:
        click.echo("No model has answered a question in two corpora, so nothing is compared.")
        return
    order = {corpus.name: number for number, corpus in enumerate(found.corpora)}
    changes = sorted(found.significant_changes(), key=lambda one: order[one[2].after])
    about = f"p < {found.p:g}, adjusted for {counted(found.comparisons, 'comparison')}"
    if not changes:
        click.echo(f"No change is more than chance ({about}).")
        return
    click.echo(f"{click.style('Changes that are more than chance', bold=True)} ({about}):")
    for evaluation, model, change in changes[:_MOST_CHANGES]:
        colour = "green" if (change.difference or 0) > 0 else "red"
        values = f"{evaluation.spelled(change.old)} → {evaluation.spelled(change.new)}"
        corpora = f"{safe(change.before)} → {safe(change.after)}"
        click.echo(f"  {corpora}  {safe(evaluation.title)}  {safe(model.model_id)}")
        counts = f"{counted(change.questions, 'question')}: {change.better:,} better, {change.worse:,} worse"
        click.echo(f"    {click.style(_mark(change), fg=colour)} {values}  {counts}  p {_equal(change)}")
    print_more(len(changes) - _MOST_CHANGES, "change", "`--format csv`")


def _print_corpora(found: Trend) -> None:
    """Print the line counts of each corpus, and the models that appear and disappear."""
    click.echo()
    names = ["corpus", *_COUNTS, "models", *["skipped shards"] * any(corpus.skipped for corpus in found.corpora)]
    rows = []
    for corpus in found.corpora:
        numbers = [*(getattr(corpus.line_counts, name) for name in _COUNTS), corpus.models, corpus.skipped]
        rows.append([safe(corpus.name), *(f"{number:,}" for number in numbers)][: len(names)])
    print_table(names, rows, optional=("blank", "duplicates", "models"))
    for corpus in found.corpora:
        for what, models in (("appear", corpus.appeared), ("disappear", corpus.disappeared)):
            if models:
                verb = f"{what}s" if len(models) == 1 else what
                click.echo(f"  {safe(corpus.name)}: {counted(len(models), 'model')} {verb}: {safe(listed(models))}")


def csv_trend(found: Trend, *, raw_cells: bool) -> str:
    """Return one row for each evaluation, metric, model and corpus, with numbers in full precision."""
    from fastrec.csv_writer import CsvWriter

    out = io.StringIO()
    writer = CsvWriter(out, raw_cells=raw_cells)
    change_fields = ("before", "questions", "better", "worse", "old", "new", "difference", "test", "p", "p_adjusted")
    names = ["evaluation_name", "metric", "graded", "model_id", "corpus", "records", "errors", "questions", "value"]
    writer.writerow([*names, *(f"change_{name}" for name in change_fields), "significant"])
    for evaluation in found.evaluations:
        metric = None if evaluation.metric is None else safe(evaluation.metric)
        scope = [safe(evaluation.evaluation_name), metric, str(evaluation.graded).lower()]
        for model in evaluation.models:
            changes = {change.after: change for change in model.changes}
            for point in model.points:
                cells = [safe(point.corpus), point.records, point.errors, point.questions, point.value]
                change = changes.get(point.corpus)
                values = [getattr(change, name) for name in change_fields] if change else [None] * len(change_fields)
                compared = [safe(value) if isinstance(value, str) else value for value in values]
                significant = str(change.significant).lower() if change else None
                writer.writerow([*scope, safe(model.model_id), *cells, *compared, significant])
    return out.getvalue()


def _equal(change: Change) -> str:
    return change.p_text if change.p_text.startswith("<") else f"= {change.p_text}"
