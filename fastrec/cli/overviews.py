"""Commands that print overviews: `leaderboard` and `trend` of models, `questions` of questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    clip,
    exit_if_incomplete,
    print_exactly,
    print_lines,
    print_notice,
    safe,
    say,
    spell,
    styled,
    terminal_width,
    width_of,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, print_answer, print_csv, run_reading
from fastrec.cli.tables import (
    Column,
    Section,
    Table,
    described,
    legend_lines,
    make_table,
    more_rows,
    section_lines,
    table_lines,
    table_of,
)
from fastrec.errors import listed
from fastrec.wording import NONE, TESTS, cluster_in_words, found_in

if TYPE_CHECKING:
    from fastrec.answers.board import Leaderboard
    from fastrec.commands.questions import EvaluationQuestions, Questions
    from fastrec.trends import Change, EvaluationTrend, ModelTrend, Trend

_MOST_COLUMNS = 8  # corpora in a table
_MOST_CHANGES = 50
_LONGEST = 20  # characters of the name of a corpus at the head of a column
_LEAST_EXCERPT = 30
_EXCERPT = 80  # characters, where lines may have any length
_SAMPLE = 24  # columns of a sample_id


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
    print_answer(
        board,
        _sections(board, asked().digits),
        [board.notes()],
        for_paper=True,
        html=lambda board: print_exactly(board.to_page().encode("utf-8", "backslashreplace")),
    )
    exit_if_incomplete(board.models, board.damaged)


def _sections(board: Leaderboard, digits: int | None) -> Iterator[Section]:
    hidden = ["wins", "mean rank", *reversed(board.positions())]
    for number, (title, models) in enumerate(board.groups(), 1):
        names, rows = board.table(models, digits)
        table = make_table(names, rows, left=("model",), hidden=hidden)
        yield Section(f"table {number}", title, table)


def _print_trend(result: Trend) -> None:
    from fastrec.summary.present_choice import others_in_words

    names = [corpus.name for corpus in result.corpora]
    for evaluation in result.evaluations:
        chosen = _chosen_names(names, evaluation)
        about = f"{evaluation.measure} in {len(names):,} {'corpora' if names[1:] else 'corpus'}"
        if len(chosen) < len(names):
            about += f"; {len(chosen)} of them shown"
        section = Section(evaluation.title, about, _models_table(evaluation, chosen))
        print_lines([*section_lines(section), ""])
    _print_changes(result, names)
    _print_corpora(result)
    explanations = [*cluster_in_words(result.cluster), *others_in_words(result.others)]
    if explanations:
        print_lines(legend_lines(explanations))


def _chosen_names(names: Sequence[str], evaluation: EvaluationTrend) -> Sequence[str]:
    """Choose the columns: all corpora if few, else the first, the last, and those with changes."""
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
    heads = ["model", *_heads(names), "last records"]
    has_errors = any(point.errors for model in evaluation.models for point in model.points)
    heads += ["last errors"] * has_errors
    rows = []
    for model in evaluation.models:
        last = model.points[-1]
        numbers = [last.records, last.errors] if has_errors else [last.records]
        results = _marked(evaluation, model, names)
        rows.append([model.model_id, *results, *map("{:,}".format, numbers)])
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


def _print_changes(result: Trend, names: Sequence[str]) -> None:
    if not result.comparisons:
        click.echo("No model has answered a question in two corpora, so nothing is compared.")
        return
    used = set()
    for evaluation in result.evaluations:
        used |= {change.test for model in evaluation.models for change in model.changes}
    tests = {test: name for test, name in TESTS.items() if test in used}
    about = spell(
        "{tests}; p < {p:g}, adjusted for {comparisons:comparison}",
        result,
        tests=", ".join(tests.values()),
    )
    changes = sorted(result.significant_changes(), key=lambda entry: names.index(entry[2].after))
    if not changes:
        say("No change is more than chance ({}).", about)
        return
    say("{title:bold} ({about}):", title="Changes that are more than chance", about=about)
    for evaluation, model, change in changes[:_MOST_CHANGES]:
        is_better = ((change.difference or 0) > 0) is not evaluation.lower_is_better
        say(
            "  {before} → {after}  {title}  {model}\n"
            "    {mark} {old_value} → {new_value}  {questions:question}: {better:,} better, "
            "{worse:,} worse  p {p}[? ({name})]",
            change,
            title=evaluation.title,
            model=model.model_id,
            mark=styled(_mark(change), fg="green" if is_better else "red"),
            old_value=evaluation.spelled(change.old),
            new_value=evaluation.spelled(change.new),
            p=change.p_text if change.p_text.startswith("<") else f"= {change.p_text}",
            name=tests[change.test] if change.test and len(tests) > 1 else "",
        )
    for note in more_rows(len(changes) - _MOST_CHANGES, "change", "`--format csv`"):
        click.echo(f"  {note}")


def _print_corpora(result: Trend) -> None:
    is_skipped = any(corpus.skipped for corpus in result.corpora)
    table = table_of("corpora", result.corpora, {}, () if is_skipped else ("skipped shards",))
    print_lines(["", *table_lines(table)])
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
    print_answer(result, text=_print_trend)


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
    print_answer(
        result,
        text=_print_ids if options["missing"] else _print_questions,
        csv=lambda result: print_csv(result.rows(), described("questions", "csv"), exact=True),
    )


def _print_ids(result: Questions) -> None:
    """Print each sample_id once: it may be missing in several metrics."""
    ids: dict[str, None] = {}
    for table in result.evaluations:
        ids |= dict.fromkeys(safe(str(question.sample_id)) for question in table.questions)
    click.echo("".join(f"{sample_id}\n" for sample_id in ids), nl=False)


def _print_questions(result: Questions) -> None:
    from fastrec.summary.present_choice import others_in_words

    lines = []
    for table in result.evaluations:
        if table.total:
            head = "{evaluation_name:bold}[?, metric {metric}]: {total:question}, {models:model}"
            lines.append(spell(head, table))
            if models := [model for model in table.phrase_models if model.found]:
                lines += [*table_lines(table_of("phrase", models)), ""]
            lines += table_lines(_question_table(table))
            more = table.total - len(table.questions)
            for note in more_rows(more, "question", f"--limit {table.total}"):
                lines.append(f"  {note}")
            lines.append("")
    # One text of all tables: there may be thousands of them.
    lines = lines[:-1] or ["no question matches"]
    print_lines([*lines, *legend_lines(others_in_words(result.others))])


_QUESTION = {
    "sample": lambda question: clip(safe(str(question.sample_id)), _SAMPLE),
    "right": lambda question: (
        spell("{right:g} of {models:,}", question) if question.models else NONE
    ),
    "found in": lambda question: found_in(question.in_input, question.in_answers or 0),
    "flags": lambda question: ", ".join(question.flags or ()),
}


def _question_table(table: EvaluationQuestions) -> Table:
    without = {"right" if table.graded else "score"}
    if table.questions[0].in_input is None:
        without.add("found in")
    if table.questions[0].flags is None:
        without.add("flags")
    columns = table_of("questions", table.questions, _QUESTION, without)
    width = terminal_width()
    room = _EXCERPT
    if width is not None:
        # What is left beside the columns that are not hidden for the excerpt's sake.
        used = sum(2 + max(map(width_of, column.texts)) for column in columns) + 4
        room = max(width - used, _LEAST_EXCERPT)
    excerpts = [clip(safe(question.excerpt), room) for question in table.questions]
    return [*columns, Column("text", excerpts, is_left=True)]
