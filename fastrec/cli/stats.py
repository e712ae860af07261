"""`fastrec stats`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_json, print_notice, print_warning, safe
from fastrec.cli.options import (
    accuracy_option,
    choice_option,
    command,
    errors_as_wrong_option,
    filter_options,
    jobs_option,
    no_progress_option,
    prepare_reading,
    raw_cells_option,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.stats_tables import csv_table, escaped, markdown_item, markdown_tables, print_stats
from fastrec.cli.tables import markdown_table, print_hidden, print_table
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.summary.document import ModelRecipes
    from fastrec.summary.present_ranking import EvaluationJoins, PairJoins, QuestionGroup, Stats


# @@ question_tables: Tables of `stats --hashes` and `stats --joins`: plain text, Markdown and CSV.

_MOST_PAIRS: Final = 10  # more do not fit on a screen
_OPTIONAL: Final = ("of the other", "questions")
"""Columns that a narrow terminal hides."""
_HASHES: Final = (
    "R1 to R10: valid lines whose sample_hash follows this recipe; absent: without one; wrong: by no recipe",
)
_JOINS: Final = (
    "common: questions that both models were asked, by sample_hash; same metric: those with a metric that both have",
    "same id: sample_ids that both have with different hashes; the columns after it say what differs",
)


class Section(NamedTuple):
    """A table with a line above and some below."""

    title: str
    about: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def _print_questions(found: Stats) -> None:
    """Print a table of hashes or joins for each evaluation."""
    hidden: list[str] = []
    for number, section in enumerate(_sections(found)):
        click.echo(f"{chr(10) if number else ''}{click.style(safe(section.title), bold=True)}: {section.about}")
        if section.rows:
            rows = [[safe(cell) for cell in row] for row in section.rows]
            hidden += print_table(section.names, rows, _OPTIONAL)
        for note in section.notes:
            click.echo(f"  {safe(note)}")
    for number, line in enumerate(_legend(found)):
        click.echo(f"{'' if number else chr(10)}{click.style(line, dim=True)}")
    print_hidden(hidden)


def _markdown_questions(found: Stats) -> Iterator[str]:
    """Yield the lines of a Markdown table of hashes or joins for each evaluation."""
    for number, section in enumerate(_sections(found)):
        if number:
            yield ""
        yield f"**{escaped(safe(section.title))}**: {section.about}"
        yield ""
        if section.rows:
            yield from markdown_table(section.names, [[escaped(safe(cell)) for cell in row] for row in section.rows])
        if section.rows and section.notes:
            yield ""
        yield from (f"- {escaped(safe(note))}" for note in section.notes)
    yield ""
    yield from map(escaped, _legend(found))


def _sections(found: Stats) -> Iterator[Section]:
    yield from _hash_sections(found.hashes or ())
    yield from _join_sections(found.joins or ())


def _legend(found: Stats) -> list[str]:
    return [*(_HASHES if found.hashes else ()), *(_JOINS if found.joins else ())]


def _hash_sections(hashes: Iterable[ModelRecipes]) -> Iterator[Section]:
    for name, group in groupby(hashes, key=lambda one: one.evaluation_name):
        models = list(group)
        recipes = _recipes_of(models)
        rows = [[model.model_id, *(f"{model.recipes.get(name, 0):,}" for name in recipes)] for model in models]
        lines = sum(sum(model.recipes.values()) for model in models)
        about = f"{counted(len(models), 'model')}, {counted(lines, 'line')}, by the recipe of their sample_hash"
        yield Section(name, about, ["model", *recipes], rows, ())


def _recipes_of(models: Sequence[ModelRecipes]) -> list[str]:
    """Return the recipes in order: R1 to R10, then absent and wrong."""
    return sorted(
        {name for model in models for name in model.recipes}, key=lambda name: (name[0] != "R", len(name), name)
    )


def _join_sections(joins: Iterable[EvaluationJoins]) -> Iterator[Section]:
    for one in joins:
        counts = (counted(one.models, "model"), counted(one.questions, "question"), counted(one.ids, "sample_id"))
        about = ", ".join(counts)
        if one.models > 1:
            shared = f"{counted(one.common, 'question')} and {counted(one.common_ids, 'sample_id')}"
            about += f"; all models have {shared} in common"
        if len(one.groups) < 2:
            alone = "there is only one model" if one.models == 1 else "all models were asked the same questions"
            yield Section(one.evaluation_name, about, (), (), (alone,))
            continue
        yield Section(one.evaluation_name, about, *_pairs_table(one), list(_notes(one)))


def _pairs_table(joins: EvaluationJoins) -> tuple[list[str], list[list[str]]]:
    """Return the table of the pairs with the smallest share of common questions."""
    from fastrec.summary.present_ranking import REASONS

    shown = joins.pairs[:_MOST_PAIRS]
    metrics = ["same metric"] if any(pair.same_metric < pair.common for pair in joins.pairs) else []
    reasons = [reason for reason in REASONS if any(pair.reasons.get(reason) for pair in joins.pairs)]
    names = ["model", "other model", "questions", "of the other", "common", *metrics, "same id"]
    rows = []
    for pair in shown:
        first, second = joins.groups[pair.first], joins.groups[pair.second]
        numbers = [first.questions, second.questions, pair.common, *([pair.same_metric] if metrics else []), pair.apart]
        numbers += [pair.reasons.get(reason, 0) for reason in reasons]
        rows.append([_spelled(first), _spelled(second), *(f"{number:,}" for number in numbers)])
    return [*names, *(REASONS[reason] for reason in reasons)], rows


def _notes(joins: EvaluationJoins) -> Iterator[str]:
    from fastrec.summary.present_ranking import REASONS

    more = len(joins.pairs) - _MOST_PAIRS
    if more > 0:
        yield f"… and {counted(more, 'more pair')}; --model chooses models, and --format json lists all pairs"
    for reason, heading in REASONS.items():
        pair = next((pair for pair in joins.pairs if pair.examples.get(reason)), None)
        if pair:
            models = (joins.groups[number].models[0] for number in (pair.first, pair.second))
            ids = ", ".join(map(str, pair.examples[reason]))
            yield f"{heading}: {' and '.join(models)}, for example sample_id {ids}"


def _spelled(group: QuestionGroup) -> str:
    first, *others = group.models
    return f"{first} and {len(others)} more" if others else first


def _csv_questions(found: Stats, *, raw_cells: bool) -> str:
    """Return the recipes of all models, or all pairs of models, as one CSV table."""
    from fastrec.csv_writer import CsvWriter
    from fastrec.summary.present_ranking import REASONS

    out = io.StringIO()
    writer = CsvWriter(out, raw_cells=raw_cells)
    if found.hashes is not None:
        writer.writerow(["evaluation_name", "model_id", "recipe", "lines"])
        for one in found.hashes:
            for recipe in _recipes_of([one]):
                writer.writerow([safe(one.evaluation_name), safe(one.model_id), recipe, one.recipes[recipe]])
    else:
        writer.writerow(
            ["evaluation_name", "model_id", "other_model_id", "questions", "other_questions", "common", "same_metric",
             "ids", "apart", *REASONS]
        )  # fmt: skip
        for joins in found.joins or ():
            for models, numbers in _all_pairs(joins):
                writer.writerow([safe(joins.evaluation_name), *map(safe, models), *numbers])
    return out.getvalue()


def _all_pairs(joins: EvaluationJoins) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Yield all pairs of models with their numbers: those of different groups first, then those of the same group."""
    from fastrec.summary.present_ranking import REASONS

    def numbers(first: QuestionGroup, second: QuestionGroup, pair: PairJoins) -> list[int]:
        counts = [first.questions, second.questions, pair.common, pair.same_metric, pair.ids, pair.apart]
        return counts + [pair.reasons.get(reason, 0) for reason in REASONS]

    for pair in joins.pairs:
        first, second = joins.groups[pair.first], joins.groups[pair.second]
        for model in first.models:
            for other in second.models:
                yield (model, other), numbers(first, second, pair)
    for group in joins.groups:
        same = [*[group.questions] * 4, group.ids, 0, *(0 for _ in REASONS)]
        for number, model in enumerate(group.models):
            for other in group.models[number + 1 :]:
                yield (model, other), same


_RANKINGS: Final = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]


@command("Compare the models of each evaluation and metric.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--by", type=click.Choice(_RANKINGS), show_default="accuracy; score where scores are not only 0 and 1",
              help="Rank models by this, best first; tokens are per record, latency is the median.")  # fmt: skip
@filter_options
@accuracy_option
@click.option("--common", is_flag=True, help="Count only questions that all of these models answered.")
@click.option("--hashes", is_flag=True,
              help="Show how producers computed sample_hash, for each evaluation and model.")  # fmt: skip
@click.option("--joins", is_flag=True,
              help="Show how many questions models have in common, and what keeps the others apart.")  # fmt: skip
@errors_as_wrong_option
@choice_option("--format", ["table", "json", "csv", "markdown"], "Output format.", to="output_format")
@raw_cells_option
@jobs_option
@click.option("--work-dir", type=click.Path(file_okay=False), envvar="FASTREC_WORK_DIR",
              show_envvar=True, help="Directory for temporary files.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only the statistics and errors.")
@no_progress_option
def stats(
    paths: tuple[str, ...], output_format: str, raw_cells: bool, quiet: bool, no_progress: bool, **options: Any
) -> None:
    """Compare the models of each evaluation and metric: accuracy, score, errors, tokens, latency, coverage.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the numbers, or any shards.
    Shards are read and sorted, so that duplicates count once; nothing is published.

    An answer is a record without an error. Accuracy and score are means over questions: a model with several answers to
    a question counts with their mean. In the tables, n is the number of questions that a model answered, and coverage
    is their share of the evaluation's questions. Models that answered different questions are not comparable; --common
    counts only the questions that all models with answers have answered.

    A metric is an evaluation_result_id. Each metric has its own table. If a metric has scores other than 0 and 1, its
    table shows the mean score and its interval instead of the accuracy, and models are ranked by score.

    Filters by name choose rows of these tables; the numbers in a row stay the same. With --sample-id, --hash, --right,
    --wrong or --errors, all numbers are those of the matching records alone.

    --hashes and --joins show other tables instead. --joins reads the whole corpus. Models were asked the same question
    if the sample_hash is the same. If only the sample_id is the same, it shows what differs: the prompt (input.raw),
    the reference, or only white space.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats new-corpus --metric acc --metric 'rouge*'
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats corpus --joins --evaluation GSM8K
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.commands.stats import stats as run
    from fastrec.corpus.manifest import skipped_lines

    about_questions = options["hashes"] or options["joins"]
    if options["hashes"] and options["joins"] and output_format == "csv":
        raise click.UsageError("a CSV table has either hashes or joins: choose one of --hashes and --joins")
    prepare_reading(options["jobs"], paths)
    stages = ("sort", "merge", "count") if options["common"] or options["joins"] else ("sort", "merge")
    with make_progress(*stages, quiet=quiet or no_progress) as progress, explain_damage(*paths or ("",)):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    with allow_broken_pipe():
        missing = skipped_lines(found.skipped)
        if missing and output_format in ("table", "markdown"):
            spell = safe if output_format == "table" else markdown_item
            click.echo("\n".join([*map(spell, missing), ""]))
        elif not quiet:
            print_warning(missing)
        if output_format == "json":
            print_json(found)
        elif output_format == "csv" and about_questions:
            click.echo(_csv_questions(found, raw_cells=raw_cells), nl=False)
        elif output_format == "csv":
            click.echo(csv_table(found, raw_cells=raw_cells), nl=False)
        elif output_format == "markdown":
            click.echo("\n".join(_markdown_questions(found) if about_questions else markdown_tables(found)))
        elif found.evaluations and about_questions:
            _print_questions(found)
        elif found.evaluations:
            print_stats(found)
        else:
            click.echo("there are no records")
