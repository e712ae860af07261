"""Tables of `stats --hashes` and `stats --joins`: plain text, Markdown and CSV."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from fastrec.cli.spelling import safe
from fastrec.cli.stats_tables import escaped
from fastrec.cli.tables import markdown_table, print_hidden, print_table
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.summary.document import ModelRecipes
    from fastrec.summary.joins import EvaluationJoins, PairJoins, QuestionGroup
    from fastrec.summary.ranking import Stats

__all__ = ["csv_questions", "markdown_questions", "print_questions"]

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


def print_questions(found: Stats) -> None:
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


def markdown_questions(found: Stats) -> Iterator[str]:
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
    from fastrec.summary.joins import REASONS

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
    from fastrec.summary.joins import REASONS

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


def csv_questions(found: Stats, *, raw_cells: bool) -> str:
    """Return the recipes of all models, or all pairs of models, as one CSV table."""
    from fastrec.csv_writer import CsvWriter
    from fastrec.summary.joins import REASONS

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
    from fastrec.summary.joins import REASONS

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
