"""Commands that print overviews in tables: `leaderboard` and `trend` of models, `questions` of questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli import tables
from fastrec.cli.console import (
    clip,
    explain_damage,
    print_error,
    print_exactly,
    print_found,
    print_notice,
    safe,
    terminal_width,
    width_of,
)
from fastrec.cli.options import (
    Count,
    Number,
    choice_option,
    command,
    complete_names,
    format_option,
    option,
    pattern_option,
    prepare_reading,
    shared,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Section,
    Table,
    columns,
    csv_table,
    more_rows,
    print_hidden,
    print_notes,
    print_table,
)
from fastrec.errors import counted, listed
from fastrec.wording import TESTS, found_in, score_text

if TYPE_CHECKING:
    from fastrec.answers.leaderboard import Leaderboard
    from fastrec.answers.table import Question
    from fastrec.commands.questions import EvaluationQuestions, Questions
    from fastrec.trends import Change, EvaluationTrend, Trend

_LATEX: Final = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX_SIGNS: Final = {"±": r"$\pm$", "–": "--", "↓": r"$\downarrow$", "·": r"$\cdot$"}
_MOST_COLUMNS: Final = 8  # corpora in a table
_MOST_CHANGES: Final = 50
_LONGEST: Final = 20  # characters of the name of a corpus at the head of a column
_COUNTS: Final = ("lines", "kept", "duplicates", "rejected", "blank")
_SORTS: Final = [
    "hardest",
    "disagreement",
    "easiest",
    "longest-input",
    "longest-output",
    "errors",
    "order",
]
_OPTIONAL: Final = (
    "input",
    "output",
    "errors",
    "disagreement",
    "sample",
)  # hidden on a narrow terminal
_LEAST_EXCERPT: Final = 30
_EXCERPT: Final = 80  # characters, where lines may have any length
_SAMPLE: Final = 24  # columns of a sample_id
_FIELDS: Final = (
    "sample_hash", "sample_id", "models", "right", "share", "mean_score", "disagreement", "errors", "input_chars",
    "output_chars", "excerpt", "in_input", "in_answers",
)  # fmt: skip


@command("Rank models over all evaluations.", check="there are no records",
         usage="the command line is wrong, or a pattern matches nothing",
         failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters", "primary")
@option("--weights", 'TOML file with weights of evaluations in the mean: "gsm8k" = 2. Others have '
'a weight of 1.',
        type=click.Path(), metavar="FILE")  # fmt: skip
@option(
    "--weight-by",
    "Weight evaluations by their number of questions.",
    type=click.Choice(["questions"]),
)
@shared("min_coverage")
@option("--group-by", "Make a column for each group of records with the same value of this field, "
"such as "
        "metadata.subject; FIELD:4 makes 4 bins of numbers. May be repeated.",
        multiple=True, metavar="FIELD")  # fmt: skip
@shared("lower_is_better")
@format_option("table", "markdown", "latex", "csv", "json", "html")
@shared("raw_cells", "run")
def leaderboard(
    corpus: str, output_format: str, raw_cells: bool, no_progress: bool, **options: Any
) -> None:
    """Rank the models of CORPUS over all evaluations: the mean, the mean rank, and the share of wins.

    There is one row per model and one column per evaluation, with its primary metric: the one that
    its records name, or the first that judges answers; --primary chooses another. The mean counts
    each evaluation once, unless there are weights. Scores beyond 0 and 1, and those that are better
    if lower, do not count in the mean.

    Only models that have answered the same evaluations are compared; other models are listed in
    tables of their own. An evaluation counts for a model that has answered --min-coverage of its
    questions. The rank of a model is a range if paired tests cannot place it, as in `fastrec
    stats`. Intervals come from a bootstrap over the questions of each evaluation.
    docs/leaderboard.md says exactly what each number is.

    \b
    Examples:
      fastrec leaderboard corpus
      fastrec leaderboard corpus --format latex
      fastrec leaderboard corpus --weight-by questions --model 'org/*'
      fastrec leaderboard corpus --group-by metadata.subject
      fastrec leaderboard corpus --format html > board.html
    """
    from fastrec.commands.leaderboard import leaderboard as run

    prepare_reading(options["jobs"])
    with make_progress("read", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, **options, progress=progress)
    legends = [found.notes()]
    print_found(
        found,
        output_format,
        table=lambda: tables.print_sections(_sections(found), legends) if found.models else None,
        markdown=lambda: click.echo("\n".join(tables.markdown_sections(_sections(found), legends))),
        latex=lambda: click.echo("\n".join(_latex(found))),
        csv=lambda: click.echo(_csv(found, raw_cells=raw_cells), nl=False),
        html=lambda: print_exactly(found.to_page().encode("utf-8", "backslashreplace")),
    )
    if not found.models:
        print_error("there are no records")
        raise click.exceptions.Exit(1)


def _sections(found: Leaderboard) -> list[Section]:
    made = []
    for number, (title, models) in enumerate(found.groups(), 1):
        names, rows = found.table(models)
        table = Table(columns(names, left=("model",), hidden=("wins", "mean rank")), rows)
        made.append(Section(f"table {number}", title, table))
    return made


def _csv(found: Leaderboard | Trend, *, raw_cells: bool) -> str:
    rows = found.rows()
    return csv_table(
        list(rows[0]) if rows else [], [list(row.values()) for row in rows], raw_cells=raw_cells
    )


def _latex(found: Leaderboard) -> Iterator[str]:
    """Yield the lines of one table for the package booktabs; groups are separated by rules."""
    yield f"% {safe(' '.join(found.notes()))}"
    for title, models in found.groups():
        names, rows = found.table(models)
        yield f"% {title}"
        yield f"\\begin{{tabular}}{{{''.join('l' if name in ('rank', 'model') else 'r' for name in names)}}}"
        yield "\\toprule"
        yield f"{' & '.join(map(_escaped, names))} \\\\"
        yield "\\midrule"
        yield from (f"{' & '.join(map(_escaped, row))} \\\\" for row in rows)
        yield "\\bottomrule"
        yield "\\end{tabular}"


def _escaped(text: str) -> str:
    r"""Escape what has a meaning in LaTeX.

    >>> _escaped("a_b 5% ± 1"), _escaped("\\x{y}^")
    ('a\\_b 5\\% $\\pm$ 1', '\\textbackslash{}x\\{y\\}\\textasciicircum{}')
    """
    text = re.sub(
        r"[\\~^]|[&%$#_{}]", lambda match: _LATEX.get(match[0], f"\\{match[0]}"), safe(text)
    )
    return re.sub("[±–↓·]", lambda match: _LATEX_SIGNS[match[0]], text)


def _print_trend(found: Trend) -> None:
    hidden: list[str] = []
    corpora = "1 corpus" if len(found.corpora) == 1 else f"{len(found.corpora):,} corpora"
    for evaluation in found.evaluations:
        chosen = _chosen_names(found, evaluation)
        some = "" if len(chosen) == len(found.corpora) else f"; {len(chosen)} of them shown"
        about = f"{evaluation.measure} in {corpora}{some}"
        hidden += tables.print_section(
            Section(evaluation.title, about, _models_table(evaluation, chosen))
        )
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
    changes = [
        change for model in evaluation.models for change in model.changes if change.significant
    ]
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
        rows.append(
            [model.model_id, *marked, f"{last.records:,}", *[f"{last.errors:,}"] * with_errors]
        )
    heads = ["model", *_heads(names), "last records", *["last errors"] * with_errors]
    return Table(columns(heads, hidden=heads[-2:0:-1]), rows)


def _heads(names: Sequence[str]) -> list[str]:
    """Return the names of corpora, cut if they are long; a table needs different ones."""
    cut = [
        name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in map(safe, names)
    ]
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
    made = {
        change.test for one in found.evaluations for model in one.models for change in model.changes
    }
    tests = {test: name for test, name in TESTS.items() if test in made}
    about = (
        f"{', '.join(tests.values())}; p < {found.p:g}, adjusted for "
        f"{counted(found.comparisons, 'comparison')}"
    )
    if not changes:
        click.echo(f"No change is more than chance ({about}).")
        return
    click.echo(f"{click.style('Changes that are more than chance', bold=True)} ({about}):")
    for evaluation, model, change in changes[:_MOST_CHANGES]:
        colour = (
            "green" if ((change.difference or 0) > 0) is not evaluation.lower_is_better else "red"
        )
        values = f"{evaluation.spelled(change.old)} → {evaluation.spelled(change.new)}"
        corpora = f"{safe(change.before)} → {safe(change.after)}"
        click.echo(f"  {corpora}  {safe(evaluation.title)}  {safe(model.model_id)}")
        counts = (
            f"{counted(change.questions, 'question')}: {change.better:,} better, "
            f"{change.worse:,} worse"
        )
        p = change.p_text if change.p_text.startswith("<") else f"= {change.p_text}"
        test = f" ({tests[change.test]})" if change.test and len(tests) > 1 else ""
        click.echo(f"    {click.style(_mark(change), fg=colour)} {values}  {counts}  p {p}{test}")
    print_notes(more_rows(len(changes) - _MOST_CHANGES, "change", "`--format csv`"))


def _print_corpora(found: Trend) -> None:
    click.echo()
    names = [
        "corpus",
        *_COUNTS,
        "models",
        *["skipped shards"] * any(corpus.skipped for corpus in found.corpora),
    ]
    rows = []
    for corpus in found.corpora:
        numbers = [
            *(getattr(corpus.line_counts, name) for name in _COUNTS),
            corpus.models,
            corpus.skipped,
        ]
        rows.append([corpus.name, *(f"{number:,}" for number in numbers)][: len(names)])
    print_table(Table(columns(names, hidden=("blank", "duplicates", "models")), rows))
    for corpus in found.corpora:
        for what, models in (("appear", corpus.appeared), ("disappear", corpus.disappeared)):
            if models:
                verb = f"{what}s" if len(models) == 1 else what
                click.echo(
                    f"  {safe(corpus.name)}: {counted(len(models), 'model')} {verb}: "
                    f"{safe(listed(models))}"
                )


@command("Follow models over several corpora, such as nightly ones.", ok="done, whatever changed",
         usage="the command line is wrong, or there is no corpus", failure="a corpus could not be read")  # fmt: skip
@click.argument("corpora", nargs=-1, required=True, type=click.Path())
@shared("filters", "group_by", "metrics", "lower_is_better")
@option(
    "--p",
    "Mark a change if its adjusted p-value is below this.",
    type=Number(0, 1),
    default=0.05,
    metavar="P",
)
@format_option("text", "json", "csv")
@shared("raw_cells", "run")
def trend(
    corpora: tuple[str, ...], output_format: str, raw_cells: bool, no_progress: bool, **options: Any
) -> None:
    """Follow the accuracy of each model over CORPORA, and mark the changes that are more than chance.

    CORPORA are directories or URLs that `fastrec normalize` published, the earliest first. A
    directory of such directories stands for all of them, in the order of their names.

    Each model is compared with the last earlier corpus in which it has answers, on the questions
    that it answered in both. The test is the exact McNemar test if all questions that changed did
    so by the same size, as single answers do, else the paired t-test over questions. p-values are
    adjusted for the number of comparisons (Benjamini and Hochberg). Graded metrics, which have
    scores other than 0 and 1, are followed by mean score.

    --group-by adds a table for each group of records below that of its evaluation; bins are the
    same in all corpora.

    In the tables, ▲ and ▼ mark these changes. If there are many corpora, a table shows the first,
    the last, and those with changes; JSON and CSV have all. `fastrec diff` shows more about two
    corpora. `fastrec report --trend` draws the results.

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
    with make_progress("read", quiet=no_progress) as progress, explain_damage(*corpora):
        found = run(corpora, **options, progress=progress)
    print_notice(*found.notices)
    print_found(
        found,
        output_format,
        text=lambda: _print_trend(found),
        csv=lambda: click.echo(_csv(found, raw_cells=raw_cells), nl=False),
    )


@command("List the questions: the hardest, the most disputed, and others.", ok="done, also if no question matches",
         usage="the command line is wrong, or a name matches nothing", failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters")
@choice_option("--sort", _SORTS, f"Order of the questions: {', '.join(_SORTS[:-1])}, or order: as "
"in the corpus.",
               metavar="ORDER")  # fmt: skip
@pattern_option("--wrong-by", "Only questions that all of these models get wrong; all: every "
"model that has answered. "
                "May be repeated.", "models")  # fmt: skip
@pattern_option("--right-by", "Only questions that all of these models get right.", "models")
@option("--split", "Only questions that model A gets right and model B wrong.",
        nargs=2, metavar="A B", shell_complete=complete_names("models"))  # fmt: skip
@option("--text", "Only questions with this text in the input or a reference, or in an answer: "
"something that a model "
        "said. Case does not matter.", default="", show_default=False, metavar="TEXT")  # fmt: skip
@choice_option("--in in_", ["both", "input", "answers"], "Where to look for --text.")
@option("--limit", "List at most N questions of each evaluation and metric.",
        type=Count(min=1), metavar="N", default=20)  # fmt: skip
@shared("metrics", "lower_is_better")
@format_option("text", "json", "csv")
@shared("raw_cells", "run")
def questions(
    corpus: str, output_format: str, raw_cells: bool, no_progress: bool, **options: Any
) -> None:
    """List the questions of CORPUS: how many models are right, how much they disagree, errors, lengths.

    There is a table for each evaluation and metric. The filters on names choose the records that
    count. --right, --wrong and --errors choose questions that have at least one such record.

    A model with several answers to a question counts with their mean; a record with an error is no
    answer. Graded metrics, which have scores other than 0 and 1, show the mean score instead.
    Disagreement is 0 if all models agree, and 1 if half of them are right. `fastrec show` shows a
    question with its answers.

    \b
    Examples:
      fastrec questions corpus --evaluation GSM8K --wrong-by all
      fastrec questions corpus --sort disagreement --limit 5
      fastrec questions corpus --split org/model other/model
      fastrec questions corpus --text "I'm sorry" --in answers
      fastrec questions corpus --model 'org/*' --errors --sort errors
      fastrec questions corpus --limit 1000000 --format csv > questions.csv
    """
    from fastrec.commands.questions import questions as run

    with make_progress("read", quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, **options, progress=progress)
    print_found(
        found,
        output_format,
        text=lambda: _print_questions(found),
        csv=lambda: _print_questions_csv(found, raw_cells=raw_cells),
    )


def _print_questions_csv(found: Questions, *, raw_cells: bool) -> None:
    spell = safe if sys.stdout.isatty() else str
    rows = [
        [table.evaluation_name, table.metric, *(getattr(question, field) for field in _FIELDS)]
        for table in found.evaluations
        for question in table.questions
    ]
    text = csv_table(
        ["evaluation_name", "metric", *_FIELDS], rows, raw_cells=raw_cells, spell=spell
    )
    click.echo(
        text.encode(), nl=False
    )  # of text, click would remove escape sequences, which are part of the values


def _print_questions(found: Questions) -> None:
    lines: list[str] = []
    hidden: list[str] = []
    for table in found.evaluations:
        if table.total:
            metric = f", metric {safe(table.metric)}" if table.metric else ""
            counts = f"{counted(table.total, 'question')}, {counted(table.models, 'model')}"
            title = click.style(safe(table.evaluation_name), bold=True)
            shown, too_wide = tables.table_lines(_question_table(table))
            more = more_rows(
                table.total - len(table.questions), "question", f"--limit {table.total}"
            )
            lines += [
                *([""] if lines else []),
                f"{title}{metric}: {counts}",
                *shown,
                *(f"  {note}" for note in more),
            ]
            hidden += too_wide
    # One text of all tables: there may be thousands of them.
    click.echo("\n".join(lines) if lines else "no question matches")
    from fastrec.summary.present_choice import others_in_words

    for line in others_in_words(found.others):
        click.echo(click.style(f"\n{line}", dim=True))
    print_hidden(hidden)


def _question_table(table: EvaluationQuestions) -> Table:
    names = [
        "question",
        "sample",
        "score" if table.graded else "right",
        "disagreement",
        "errors",
        "input",
        "output",
    ]
    names += ["found in"] if table.questions[0].in_input is not None else []
    rows = [_row(question, graded=table.graded) for question in table.questions]
    width = terminal_width()
    room = _EXCERPT
    if width is not None:
        # What is left beside the columns that are not hidden for the excerpt's sake.
        used = sum(2 + max(map(width_of, column)) for column in zip(names, *rows, strict=True)) + 4
        room = max(width - used, _LEAST_EXCERPT)
    for row, question in zip(rows, table.questions, strict=True):
        row.append(clip(safe(question.excerpt), room))
    return Table(_question_columns((*names, "text")), rows)


@cache
def _question_columns(names: tuple[str, ...]) -> list[tables.Column]:
    return columns(names, left=("sample", "found in", "text"), hidden=_OPTIONAL)


def _row(question: Question, *, graded: bool) -> list[str]:
    value = (
        score_text(question.mean_score) if graded else f"{question.right:g} of {question.models:,}"
    )
    if not question.models:
        value = "–"
    return [
        safe(question.prefix),
        clip(safe(str(question.sample_id)), _SAMPLE),
        value,
        "–" if question.disagreement is None else f"{question.disagreement:.2f}",
        f"{question.errors:,}",
        f"{question.input_chars:,}",
        "–" if question.output_chars is None else f"{question.output_chars:,.0f}",
        *(
            [found_in(question.in_input, question.in_answers or 0)]
            if question.in_input is not None
            else []
        ),
    ]
