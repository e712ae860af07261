"""Commands that print overviews: `leaderboard` and `trend` of models, `questions` of questions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    clip,
    exit_if_damaged,
    print_error,
    print_exactly,
    print_notice,
    safe,
    say,
    spell,
    styled,
    terminal_width,
    width_of,
)
from fastrec.cli.options import command
from fastrec.cli.output import (
    asked,
    csv_text,
    print_answer,
    print_for_paper,
    print_found,
    run_reading,
)
from fastrec.cli.tables import (
    Section,
    Spellings,
    Table,
    make_table,
    more_rows,
    print_legend,
    print_notes,
    print_section,
    print_table,
    table_lines,
    table_of,
)
from fastrec.errors import listed
from fastrec.wording import NONE, TESTS, cluster_in_words, found_in, score_text

if TYPE_CHECKING:
    from fastrec.answers.leaderboard import Leaderboard
    from fastrec.commands.questions import EvaluationQuestions, Questions
    from fastrec.trends import Change, EvaluationTrend, ModelTrend, Trend

_MOST_COLUMNS = 8  # corpora in a table
_MOST_CHANGES = 50
_LONGEST = 20  # characters of the name of a corpus at the head of a column
# Columns of questions that a narrow terminal hides.
_OPTIONAL = ("input", "output", "errors", "disagreement", "sample")
_LEFT = ("sample", "found in", "flags", "text")
_LEAST_EXCERPT = 30
_EXCERPT = 80  # characters, where lines may have any length
_SAMPLE = 24  # columns of a sample_id
_FIELDS = (
    "evaluation_name", "metric", "sample_hash", "sample_id", "models", "right", "share",
    "mean_score", "disagreement", "errors", "input_chars", "output_chars", "excerpt", "in_input",
    "in_answers",
)  # fmt: skip


@command()
def leaderboard(corpus: str, **options: Any) -> None:
    """Rank the models of CORPUS over all evaluations: by mean, mean rank, and share of wins.

    There is one row per model and one column per evaluation, with its primary metric: the one that
    its records name, or the first that judges answers; --primary chooses another. The mean counts
    each evaluation once, unless there are weights. Scores beyond 0 and 1, and those that are better
    if lower, do not count in the mean.

    Only models that have answered the same evaluations are compared; other models are listed in
    tables of their own. An evaluation counts for a model that has answered --min-coverage of its
    questions. The rank of a model is a range if paired tests cannot place it, as in `fastrec
    stats`. Intervals come from a bootstrap over the questions of each evaluation.
    docs/leaderboard.md says exactly what each number is. --group-by makes a column of each group.

    \b
    Exit codes:
      0     done
      1     there are no records, or the corpus is damaged
      2     the command line is wrong, or a pattern matches nothing
      3     a part could not be read

    \b
    Examples:
      fastrec leaderboard corpus
      fastrec leaderboard corpus --format latex --digits 2 --caption "All models"
      fastrec leaderboard corpus --weight-by questions --model 'org/*'
      fastrec leaderboard corpus --group-by metadata.subject
      fastrec leaderboard corpus --format html > board.html
    """
    from fastrec.commands.leaderboard import leaderboard as run

    board = run_reading(run, corpus, **options, notice=print_notice)
    legends = [board.notes()]
    printers: dict[str, Any] = {
        "html": lambda: print_exactly(board.to_page().encode("utf-8", "backslashreplace"))
    }
    if not board.models:
        printers["text"] = lambda: None
    print_for_paper(board, _sections(board, asked().digits), legends, **printers)
    if not board.models:
        print_error("there are no records")
        raise click.exceptions.Exit(1)
    exit_if_damaged(board.damaged)


def _sections(board: Leaderboard, digits: int | None) -> Iterator[Section]:
    for number, (title, models) in enumerate(board.groups(), 1):
        names, rows = board.table(models, digits)
        table = make_table(names, rows, left=("model",), hidden=("wins", "mean rank"))
        yield Section(f"table {number}", title, table)


def _print_trend(result: Trend) -> None:
    from fastrec.summary.present_choice import others_in_words

    corpora = "1 corpus" if len(result.corpora) == 1 else f"{len(result.corpora):,} corpora"
    for evaluation in result.evaluations:
        chosen = _chosen_names(result, evaluation)
        about = f"{evaluation.measure} in {corpora}"
        if len(chosen) < len(result.corpora):
            about += f"; {len(chosen)} of them shown"
        print_section(Section(evaluation.title, about, _models_table(evaluation, chosen)))
        click.echo()
    _print_changes(result)
    _print_corpora(result)
    print_legend([*cluster_in_words(result.cluster), *others_in_words(result.others)])


def _chosen_names(result: Trend, evaluation: EvaluationTrend) -> list[str]:
    """Choose the columns: all corpora if few, else the first, the last, and those with changes."""
    names = [corpus.name for corpus in result.corpora]
    if len(names) <= _MOST_COLUMNS:
        return names
    changes = [
        change for model in evaluation.models for change in model.changes if change.significant
    ]
    changes.sort(key=lambda change: (change.p_adjusted, change.after))
    wanted = {names[0], names[-1]}
    for change in changes:
        more = wanted | {change.before, change.after}
        if len(more) <= _MOST_COLUMNS:
            wanted = more
    return [name for name in names if name in wanted]


def _models_table(evaluation: EvaluationTrend, names: Sequence[str]) -> Table:
    with_errors = any(point.errors for model in evaluation.models for point in model.points)
    heads = ["model", *_heads(names), "last records"]
    rows = []
    for model in evaluation.models:
        last = model.points[-1]
        rows.append([model.model_id, *_marked(evaluation, model, names), f"{last.records:,}"])
        if with_errors:
            rows[-1].append(f"{last.errors:,}")
    if with_errors:
        heads.append("last errors")
    return make_table(heads, rows, hidden=heads[-2:0:-1])


def _marked(evaluation: EvaluationTrend, model: ModelTrend, names: Sequence[str]) -> list[str]:
    """Spell the results of a model in corpora, each with a mark or, to align them, a space."""
    values = {point.corpus: evaluation.spelled(point.value) for point in model.points}
    marks = {change.after: _mark(change) for change in model.changes if change.significant}
    return [values.get(name, "") + marks.get(name, " ") for name in names]


def _heads(names: Sequence[str]) -> list[str]:
    """Return the names of corpora, cut if they are long; a table needs different ones."""
    heads: list[str] = []
    for name in map(safe, names):
        head = name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
        if f"{head} " in heads:
            head += f" ({len(heads) + 1})"
        heads.append(f"{head} ")  # above the space for a mark
    return heads


def _mark(change: Change) -> str:
    return "▲" if (change.difference or 0) > 0 else "▼"


def _print_changes(result: Trend) -> None:
    if not result.comparisons:
        click.echo("No model has answered a question in two corpora, so nothing is compared.")
        return
    used: set[str | None] = set()
    for evaluation in result.evaluations:
        used |= {change.test for model in evaluation.models for change in model.changes}
    tests = {test: name for test, name in TESTS.items() if test in used}
    about = spell(
        "{tests}; p < {p:g}, adjusted for {comparisons:comparison}",
        result,
        tests=", ".join(tests.values()),
    )
    order = {corpus.name: number for number, corpus in enumerate(result.corpora)}
    changes = sorted(result.significant_changes(), key=lambda found: order[found[2].after])
    if not changes:
        say("No change is more than chance ({}).", about)
        return
    say("{title:bold} ({about}):", title="Changes that are more than chance", about=about)
    for evaluation, model, change in changes[:_MOST_CHANGES]:
        names = {"title": evaluation.title, "model": model.model_id}
        say("  {before} → {after}  {title}  {model}", change, **names)
        is_better = ((change.difference or 0) > 0) is not evaluation.lower_is_better
        say(
            "    {mark} {old_value} → {new_value}  {questions:question}: {better:,} better, "
            "{worse:,} worse  p {p}[? ({name})]",
            change,
            mark=styled(_mark(change), fg="green" if is_better else "red"),
            old_value=evaluation.spelled(change.old),
            new_value=evaluation.spelled(change.new),
            p=change.p_text if change.p_text.startswith("<") else f"= {change.p_text}",
            name=tests[change.test] if change.test and len(tests) > 1 else "",
        )
    print_notes(more_rows(len(changes) - _MOST_CHANGES, "change", "`--format csv`"))


_CORPUS: Spellings = {
    "corpus": "{name}",
    "lines": "{line_counts.lines:,}",
    "kept": "{line_counts.kept:,}",
    "duplicates": "{line_counts.duplicates:,}",
    "rejected": "{line_counts.rejected:,}",
    "blank": "{line_counts.blank:,}",
    "models": "{models:,}",
}


def _print_corpora(result: Trend) -> None:
    click.echo()
    is_skipped = any(corpus.skipped for corpus in result.corpora)
    spellings = _CORPUS | ({"skipped shards": "{skipped:,}"} if is_skipped else {})
    print_table(table_of(result.corpora, spellings, hidden=("blank", "duplicates", "models")))
    for corpus in result.corpora:
        for verb, models in (("appear", corpus.appeared), ("disappear", corpus.disappeared)):
            if models:
                ending = "s" if len(models) == 1 else ""
                line = "  {name}: {changed:model} {verb}{ending}: {names}"
                say(line, corpus, changed=models, verb=verb, ending=ending, names=listed(models))


@command()
def trend(corpora: tuple[str, ...], **options: Any) -> None:
    """Follow the accuracy of each model over CORPORA, and mark changes that are more than chance.

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
    Exit codes:
      0     done, whatever changed
      2     the command line is wrong, or there is no corpus
      3     a corpus could not be read

    \b
    Examples:
      fastrec trend nights/
      fastrec trend corpus-monday corpus-tuesday --model 'org/*'
      fastrec trend nights/ --evaluation GSM8K --p 0.01
      fastrec trend nights/ --group-by metadata.subject
      fastrec trend nights/ --format csv > nights.csv
    """
    from fastrec.commands.trend import trend as run

    result = run_reading(run, corpora, **options)
    print_notice(*result.notices)
    print_answer(result, (), text=lambda: _print_trend(result))


@command()
def questions(corpus: str, **options: Any) -> None:
    """List the questions of CORPUS: how many models are right, and how much they disagree.

    There is a table for each evaluation and metric. The filters on names choose the records that
    count. --right, --wrong and --errors choose questions that have at least one such record.

    A model with several answers to a question counts with their mean; a record with an error is no
    answer. Graded metrics, which have scores other than 0 and 1, show the mean score instead.
    Disagreement is 0 if all models agree, and 1 if half of them are right. `fastrec show` shows a
    question with its answers.

    --missing is for resuming a run. With --metric, a record of another metric does not count. The
    other formats say which evaluation a sample_id is of.

    \b
    Exit codes:
      0     done, also if no question matches
      2     the command line is wrong, or a name matches nothing
      3     a part could not be read

    \b
    Examples:
      fastrec questions corpus --evaluation GSM8K --wrong-by all
      fastrec questions corpus --sort disagreement --limit 5
      fastrec questions corpus --split org/model other/model
      fastrec questions corpus --text "I'm sorry" --in answers
      fastrec questions corpus --model 'org/*' --errors --sort errors
      fastrec questions corpus --evaluation GSM8K --missing org/model > ids.txt
      fastrec questions corpus --limit 1000000 --format csv > questions.csv
    """
    from fastrec.commands.questions import questions as run

    result = run_reading(run, corpus, **options, limited=False)
    print_found(
        result,
        text=lambda: (_print_ids if options["missing"] else _print_questions)(result),
        csv=lambda: _print_questions_csv(result),
    )


def _print_questions_csv(result: Questions) -> None:
    text = csv_text(result.rows(), _FIELDS, safe if sys.stdout.isatty() else str)
    # Of text, click would remove escape sequences, which are part of the values.
    click.echo(text.encode(), nl=False)


def _print_ids(result: Questions) -> None:
    """Print each sample_id once: it may be missing in several metrics."""
    ids: dict[str, None] = {}
    for table in result.evaluations:
        ids |= dict.fromkeys(safe(str(question.sample_id)) for question in table.questions)
    click.echo("".join(f"{sample_id}\n" for sample_id in ids), nl=False)


def _print_questions(result: Questions) -> None:
    from fastrec.summary.present_choice import others_in_words

    lines: list[str] = []
    for table in result.evaluations:
        if table.total:
            head = "{evaluation_name:bold}[?, metric {metric}]: {total:question}, {models:model}"
            more = table.total - len(table.questions)
            notes = more_rows(more, "question", f"--limit {table.total}")
            lines.append(spell(head, table))
            models = [model for model in table.phrase_models if model.found]
            if models:
                lines += [*table_lines(table_of(models, _PHRASE)), ""]
            lines += table_lines(_question_table(table))
            lines += [*(f"  {note}" for note in notes), ""]
    # One text of all tables: there may be thousands of them.
    click.echo("\n".join(lines[:-1]) if lines else "no question matches")
    print_legend(others_in_words(result.others))


_PHRASE: Spellings = {
    "model": "{model_id}",
    "with the text": "{found:,}",
    "answers": "{answers:,}",
    "share": "{share:.1%}",
}


_QUESTION: Spellings = {
    "question": "{prefix}",
    "sample": lambda question: clip(safe(str(question.sample_id)), _SAMPLE),
    "score": lambda question: score_text(question.mean_score) if question.models else NONE,
    "right": lambda question: (
        spell("{right:g} of {models:,}", question) if question.models else NONE
    ),
    "disagreement": "{disagreement:.2f}",
    "errors": "{errors:,}",
    "input": "{input_chars:,}",
    "output": "{output_chars:,.0f}",
    "found in": lambda question: found_in(question.in_input, question.in_answers or 0),
    "flags": lambda question: ", ".join(question.flags or ()),
}


def _question_table(table: EvaluationQuestions) -> Table:
    left_out = {"right" if table.graded else "score"}
    if table.questions[0].in_input is None:
        left_out.add("found in")
    if table.questions[0].flags is None:
        left_out.add("flags")
    spellings = {name: cell for name, cell in _QUESTION.items() if name not in left_out}
    rows = table_of(table.questions, spellings).rows
    width = terminal_width()
    room = _EXCERPT
    if width is not None:
        # What is left beside the columns that are not hidden for the excerpt's sake.
        texts = zip(spellings, *rows, strict=True)
        used = sum(2 + max(width_of(str(text)) for text in column) for column in texts) + 4
        room = max(width - used, _LEAST_EXCERPT)
    excerpts = [clip(safe(question.excerpt), room) for question in table.questions]
    cells = [[*row, excerpt] for row, excerpt in zip(rows, excerpts, strict=True)]
    return make_table([*spellings, "text"], cells, left=_LEFT, hidden=_OPTIONAL)
