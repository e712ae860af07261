"""`fastrec trend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import explain_damage, print_found, print_notice, safe
from fastrec.cli.options import Number, command, format_option, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Rows,
    Section,
    Table,
    columns,
    csv_table,
    more_rows,
    print_hidden,
    print_notes,
    print_section,
    print_table,
)
from fastrec.errors import counted, listed
from fastrec.wording import TESTS

if TYPE_CHECKING:
    from fastrec.trends import Change, EvaluationTrend, Trend


_MOST_COLUMNS: Final = 8  # corpora in a table
_MOST_CHANGES: Final = 50
_LONGEST: Final = 20  # characters of the name of a corpus at the head of a column
_COUNTS: Final = ("lines", "kept", "duplicates", "rejected", "blank")


def _print_trend(found: Trend) -> None:
    hidden: list[str] = []
    corpora = "1 corpus" if len(found.corpora) == 1 else f"{len(found.corpora):,} corpora"
    for evaluation in found.evaluations:
        chosen = _chosen_names(found, evaluation)
        some = "" if len(chosen) == len(found.corpora) else f"; {len(chosen)} of them shown"
        about = f"{evaluation.measure} in {corpora}{some}"
        hidden += print_section(Section(evaluation.title, about, _models_table(evaluation, chosen)))
        click.echo()
    _print_changes(found)
    _print_corpora(found)
    from fastrec.summary.present_choice import others_in_words

    for line in others_in_words(found.others):
        click.echo(click.style(f"\n{line}", dim=True))
    print_hidden(hidden)


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


def _models_table(evaluation: EvaluationTrend, names: Sequence[str]) -> Table:
    with_errors = any(point.errors for model in evaluation.models for point in model.points)
    rows = []
    for model in evaluation.models:
        points = {point.corpus: point for point in model.points}
        marks = {change.after: _mark(change) for change in model.changes if change.significant}
        cells = [evaluation.spelled(points[name].value) if name in points else "" for name in names]
        # A space in place of a mark keeps the numbers of a column aligned.
        marked = [cell + marks.get(name, " ") for name, cell in zip(names, cells, strict=True)]
        last = model.points[-1]
        rows.append([model.model_id, *marked, f"{last.records:,}", *[f"{last.errors:,}"] * with_errors])
    heads = ["model", *_heads(names), "last records", *["last errors"] * with_errors]
    return Table(columns(heads, hidden=heads[-2:0:-1]), rows)


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
    if not found.comparisons:
        click.echo("No model has answered a question in two corpora, so nothing is compared.")
        return
    order = {corpus.name: number for number, corpus in enumerate(found.corpora)}
    changes = sorted(found.significant_changes(), key=lambda one: order[one[2].after])
    made = {change.test for one in found.evaluations for model in one.models for change in model.changes}
    tests = {test: name for test, name in TESTS.items() if test in made}
    about = f"{', '.join(tests.values())}; p < {found.p:g}, adjusted for {counted(found.comparisons, 'comparison')}"
    if not changes:
        click.echo(f"No change is more than chance ({about}).")
        return
    click.echo(f"{click.style('Changes that are more than chance', bold=True)} ({about}):")
    for evaluation, model, change in changes[:_MOST_CHANGES]:
        colour = "green" if ((change.difference or 0) > 0) is not evaluation.lower_is_better else "red"
        values = f"{evaluation.spelled(change.old)} → {evaluation.spelled(change.new)}"
        corpora = f"{safe(change.before)} → {safe(change.after)}"
        click.echo(f"  {corpora}  {safe(evaluation.title)}  {safe(model.model_id)}")
        counts = f"{counted(change.questions, 'question')}: {change.better:,} better, {change.worse:,} worse"
        p = change.p_text if change.p_text.startswith("<") else f"= {change.p_text}"
        test = f" ({tests[change.test]})" if change.test and len(tests) > 1 else ""
        click.echo(f"    {click.style(_mark(change), fg=colour)} {values}  {counts}  p {p}{test}")
    print_notes(more_rows(len(changes) - _MOST_CHANGES, "change", "`--format csv`"))


def _print_corpora(found: Trend) -> None:
    click.echo()
    names = ["corpus", *_COUNTS, "models", *["skipped shards"] * any(corpus.skipped for corpus in found.corpora)]
    rows = []
    for corpus in found.corpora:
        numbers = [*(getattr(corpus.line_counts, name) for name in _COUNTS), corpus.models, corpus.skipped]
        rows.append([corpus.name, *(f"{number:,}" for number in numbers)][: len(names)])
    print_table(Table(columns(names, hidden=("blank", "duplicates", "models")), rows))
    for corpus in found.corpora:
        for what, models in (("appear", corpus.appeared), ("disappear", corpus.disappeared)):
            if models:
                verb = f"{what}s" if len(models) == 1 else what
                click.echo(f"  {safe(corpus.name)}: {counted(len(models), 'model')} {verb}: {safe(listed(models))}")


def _csv_table(found: Trend) -> tuple[list[str], Rows]:
    fields = ("before", "questions", "better", "worse", "old", "new", "difference", "test", "p", "p_adjusted")
    names = ["evaluation_name", "metric", "graded", "model_id", "corpus", "records", "errors", "questions", "value"]
    groups = list(dict.fromkeys(name for one in found.evaluations for name in one.group or {}))
    names += [*(f"change_{name}" for name in fields), "significant", *groups]
    rows = []
    for one in found.evaluations:
        for model in one.models:
            changes = {change.after: change for change in model.changes}
            for point in model.points:
                cells = [point.corpus, point.records, point.errors, point.questions, point.value]
                change = changes.get(point.corpus)
                compared = [getattr(change, name, None) for name in (*fields, "significant")]
                values = [(one.group or {}).get(name) for name in groups]
                rows.append([one.evaluation_name, one.metric, one.graded, model.model_id, *cells, *compared, *values])
    return names, rows


@command("Follow models over several corpora, such as nightly ones.", ok="done, whatever changed",
         usage="the command line is wrong, or there is no corpus", failure="a corpus could not be read")  # fmt: skip
@click.argument("corpora", nargs=-1, required=True, type=click.Path())
@shared("name_filters", "group_by", "metrics", "lower_is_better")
@option("--p", "Mark a change if its adjusted p-value is below this.", type=Number(0, 1), default=0.05, metavar="P")
@format_option("text", "json", "csv")
@shared("raw_cells", "run")
def trend(corpora: tuple[str, ...], output_format: str, raw_cells: bool, no_progress: bool, **options: Any) -> None:
    """Follow the accuracy of each model over CORPORA, and mark the changes that are more than chance.

    CORPORA are directories or URLs that `fastrec normalize` published, the earliest first. A directory of such
    directories stands for all of them, in the order of their names.

    Each model is compared with the last earlier corpus in which it has answers, on the questions that it answered in
    both. The test is the exact McNemar test, or a sign-flip test or t-test over questions if some have several answers,
    or if scores are compared. p-values are adjusted for the number of comparisons (Benjamini and Hochberg). Graded
    metrics, which have scores other than 0 and 1, are followed by mean score.

    --group-by adds a table for each group of records below that of its evaluation; bins are the same in all corpora.

    In the tables, ▲ and ▼ mark these changes. If there are many corpora, a table shows the first, the last, and those
    with changes; JSON and CSV have all. `fastrec diff` shows more about two corpora. `fastrec report --trend` draws
    the results.

    \b
    Examples:
      fastrec trend nights/
      fastrec trend corpus-monday corpus-tuesday --model 'org/*'
      fastrec trend nights/ --evaluation GSM8K --p 0.01
      fastrec trend nights/ --group-by metadata.subject
      fastrec trend nights/ --format csv > nights.csv
    """
    from fastrec.commands.trend import trend as run

    prepare_reading(options["jobs"])
    stages = ("index", "sort", "merge") if options["group_by"] else ("index",)
    with make_progress(*stages, quiet=no_progress) as progress, explain_damage(*corpora):
        found = run(corpora, **options, progress=progress)
    print_notice(*found.notices)
    print_found(
        found,
        output_format,
        text=lambda: _print_trend(found),
        csv=lambda: click.echo(csv_table(*_csv_table(found), raw_cells=raw_cells), nl=False),
    )
