"""`fastrec stats`: a table of models for each evaluation and metric, or tables of hashes and joins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    print_error,
    print_found,
    print_notice,
    print_warning,
    safe,
)
from fastrec.cli.options import command, flag, format_option, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Rows,
    Section,
    Table,
    columns,
    csv_table,
    escaped,
    markdown_sections,
    more_rows,
    print_sections,
)
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.statistics.calibration import Calibration
    from fastrec.summary.document import ModelRecipes, Tokens
    from fastrec.summary.present_ranking import (
        EvaluationJoins,
        ModelStats,
        Overlap,
        QuestionGroup,
        Stats,
    )


# Columns and their cells. A column that is empty for all models of an evaluation is left out.
_COLUMNS: Final[dict[str, Callable[[ModelStats], str]]] = {
    "rank": lambda model: model.rank,
    "model": lambda model: model.model_id,
    "n": lambda model: f"{model.questions:,}",
    "questions": lambda model: f"{model.questions:,}",
    "answers": lambda model: f"{model.answers:,}",
    "answers/question": lambda model: _or_empty("{:.3g}", model.answers_per_question),
    "coverage": lambda model: f"{model.coverage:.1%}",
    "accuracy": lambda model: "–" if model.accuracy is None else f"{model.accuracy:.1%}",
    "95% interval": lambda model: _interval(model.accuracy_low, model.accuracy_high),
    "score": lambda model: _or_empty("{:.4g}", model.mean_score),
    "score ±": lambda model: _or_empty("± {:.2g}", model.score_standard_error),
    "errors": lambda model: f"{model.errors:,}",
    "tokens": lambda model: _total(model.tokens),
    "tokens/record": lambda model: _or_empty("{:,.0f}", model.tokens_per_record),
    "p50 ms": lambda model: _or_empty("{:,.0f}", model.latency_ms.p50),
    "p99 ms": lambda model: _or_empty("{:,.0f}", model.latency_ms.p99),
}
_REPEATS: Final = (
    "questions",
    "answers",
    "answers/question",
)  # instead of n, if a question has several answers
_NOT_GRADED: Final = (
    "accuracy",
    "95% interval",
    "score ±",
)  # left out if the score is shown instead of the accuracy
# Columns that a narrow terminal hides, the least important first. The column that models are ranked
# by stays, and so does the number of errors: without it, accuracy can mislead.
_OPTIONAL: Final = (
    "tokens", "p99 ms", "score ±", "tokens/record", "p50 ms", "answers", "score", "coverage", "answers/question",
    "95% interval",
)  # fmt: skip
_RANKED_BY: Final = {"tokens": "tokens/record", "latency": "p50 ms"}
_NO_COMMON: Final = (
    "no question was answered by all of them; choose fewer models with --model, or omit --common"
)
_NO_ANSWERS: Final = (
    "every record has an error, so there are no answers; --errors-as-wrong counts them as wrong"
)

# Columns of the CSV table: first those that have the name of an attribute, then names and
# attributes.
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
_CSV_RANKS: Final = ("rank_best", "rank_worst", "unranked")
_CSV_TABLES: Final[
    dict[str, tuple[str, dict[str, str]]]
] = {  # attributes, and those that have another name as columns
    "calibration": (
        "evaluation_name metric model_id answers left_out confidence accuracy ece brier",
        {},
    ),
    "costs": ("evaluation_name model_id answers unknown right priced cost cost_per_right", {}),
    "overlap": (
        "first second hashes inputs",
        {"first": "evaluation_name", "second": "other_evaluation_name"},
    ),
    "names": ("name other common same rename", {"name": "model_id", "other": "other_model_id"}),
}


Sections = tuple[list[Section], list[Sequence[str]]]  # tables, and the lines that explain them


def _or_empty(pattern: str, *values: float | None) -> str:
    return "" if None in values else pattern.format(*values)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{100 * low:.1f}–{high:.1%}"


def _total(tokens: Tokens) -> str:
    if not tokens.records:
        return ""
    return f"{tokens.total:,}" if isinstance(tokens.total, int) else "huge"


def stats_sections(found: Stats, most: int | None = None) -> Sections:
    """Make a table for each evaluation, with at most `most` models."""
    from fastrec.answers.further_tables import similar_pairs
    from fastrec.summary.present_ranking import about, facts_in_words, legend, unranked_in_words

    sections = []
    for one in found.evaluations:
        shown = one.by_model[:most]
        table: Table | str = _NO_COMMON if one.answering else _NO_ANSWERS
        if shown:
            table = _models_table(shown, one.by, accuracy=found.shows_accuracy(one))
        notes = [
            *more_rows(len(one.by_model) - len(shown), "model", "`fastrec stats`"),
            *unranked_in_words(one),
        ]
        sections.append(Section(one.title, about(one), table, notes))
    pairs = similar_pairs(
        (model.model_id for one in found.evaluations for model in one.by_model), probable=True
    )
    similar = [
        f"{_similar(pairs)}, such as {one} and {other} (--names)" for one, other in pairs[:1]
    ]
    return sections, [legend(found), [*facts_in_words(found.corpus), *similar]]


def _similar(pairs: Sequence[object]) -> str:
    return f"{counted(len(pairs), 'pair')} of models with names that differ only in spelling"


def _models_table(models: Sequence[ModelStats], by: str, *, accuracy: bool) -> Table:
    spellings: dict[str, Callable[[ModelStats], str]] = {}
    for name, spell in _COLUMNS.items():
        if accuracy or name not in _NOT_GRADED:
            spellings[name] = spell
        if name == "score" and not accuracy:
            spellings["95% interval"] = lambda model: _or_empty(
                "{:.4g} to {:.4g}", model.score_low, model.score_high
            )
    cells = {name: [spell(model) for model in models] for name, spell in spellings.items()}
    cells = {name: column for name, column in cells.items() if any(column)}
    repeats = any(model.answers > model.questions for model in models)
    for name in ("n",) if repeats else _REPEATS:
        cells.pop(name, None)
    if by != "errors" and not any(model.errors for model in models):
        del cells["errors"]
    optional = [name for name in _OPTIONAL if name != _RANKED_BY.get(by, by)]
    return Table(
        columns(list(cells), left=("model",), hidden=optional),
        list(zip(*cells.values(), strict=True)),
    )


def _csv_models(found: Stats) -> tuple[list[str], Rows]:
    """Make one table of all models of all evaluations and metrics, with numbers in full precision.

    New columns are at the end, for readers that go by position.
    """
    values_of = attrgetter(*_CSV_FIELDS.values())
    ranks_of = attrgetter(*_CSV_RANKS)
    rows = [
        [one.evaluation_name, rank, *values_of(model), one.metric, one.graded, *ranks_of(model)]
        for one in found.evaluations
        for rank, model in enumerate(one.by_model, 1)
    ]
    return ["evaluation_name", "rank", *_CSV_FIELDS, "metric", "graded", *_CSV_RANKS], rows


_NAMES: Final = ["model", "other model", "common questions", "same answers"]
_MOST_OVERLAPS: Final = 50
_MOST_PAIRS: Final = 10  # more do not fit on a screen
_HASHES: Final = (
    (
        "R1 to R10: valid lines whose sample_hash follows this recipe; absent: without one; wrong: by "
        "no recipe"
    ),
)
_JOINS: Final = (
    (
        "common: questions that both models were asked, by sample_hash; same metric: those with a "
        "metric that both have"
    ),
    (
        "same id: sample_ids that both have with different hashes; the columns after it say what "
        "differs"
    ),
)


def _questions_sections(found: Stats) -> Sections:
    """Make a table of hashes and one of joins for each evaluation, as far as they were asked for."""
    from fastrec.answers.further_tables import total_costs

    sections = [
        _hashes_section(name, list(models))
        for name, models in groupby(found.hashes or (), key=lambda one: one.evaluation_name)
    ]
    sections += map(_joins_section, found.joins or ())
    if found.overlap is not None:
        sections.append(_overlap_section(found.overlap))
    if found.costs is not None:
        names, rows, notes = total_costs(found.costs)
        evaluations = counted(len({one.evaluation_name for one in found.costs}), "evaluation")
        about = f"{counted(len(rows), 'model')}, {evaluations}"
        sections.append(
            Section(
                "cost", about, Table(columns(names, hidden=("evaluations", "records")), rows), notes
            )
        )
    if found.names is not None:
        sections.append(_names_section(found))
    for (name, metric), some in groupby(
        found.calibration or (), key=lambda one: (one.evaluation_name, one.metric)
    ):
        sections.append(
            _calibration_section(name if metric is None else f"{name} · {metric}", list(some))
        )
    return sections, [[*(_HASHES if found.hashes else ()), *(_JOINS if found.joins else ())]]


def _overlap_section(pairs: Sequence[Overlap]) -> Section:
    names = ["evaluation", "other evaluation", "same hash", "same input", "example", "in the other"]
    rows = [
        [
            one.first,
            one.second,
            f"{one.hashes:,}",
            f"{one.inputs:,}",
            str(first.sample_id),
            str(first.other_sample_id),
        ]
        for one in pairs
        for first in one.examples[:1]
    ]
    about = f"{counted(len(pairs), 'pair')} of evaluations have questions in common"
    left = ("other evaluation", "example", "in the other")
    table = (
        Table(columns(names, left=left), rows[:_MOST_OVERLAPS])
        if rows
        else "no question occurs in two evaluations"
    )
    notes = more_rows(len(rows) - _MOST_OVERLAPS, "pair", "--format json")
    return Section(
        "overlap", about, table, [*notes, "same input: input.raw is the same but for white space"]
    )


def _names_section(found: Stats) -> Section:
    """Show pairs of names, and what to write about them into the file of `normalize --map`."""
    if not (pairs := found.names or []):
        return Section("names", _similar(pairs), "nothing to rename")
    rows = [[one.name, one.other, f"{one.common:,}", f"{one.same:,}"] for one in pairs]
    notes = [
        "lines for the file of `fastrec normalize --map`; # marks pairs that may be two models:",
        "[models]",
    ]
    for one in pairs:
        old, new = (json.dumps(name, ensure_ascii=False) for name in (one.other, one.name))
        notes.append(f"{'' if one.rename else '# '}{old} = {new}")
    return Section(
        "names", _similar(pairs), Table(columns(_NAMES, left=("other model",)), rows), notes
    )


def _calibration_section(title: str, models: Sequence[Calibration]) -> Section:
    names = [
        "model",
        "answers",
        "left out",
        "confidence",
        "accuracy",
        "calibration error",
        "Brier score",
    ]
    rows = [
        [one.model_id, f"{one.answers:,}", f"{one.left_out:,}", _or_empty("{:.1%}", one.confidence),
         _or_empty("{:.1%}", one.accuracy), _or_empty("{:.3f}", one.ece), _or_empty("{:.3f}", one.brier)]
        for one in sorted(models, key=lambda one: (one.ece is None, one.ece, one.model_id))
    ]  # fmt: skip
    notes = [
        "calibration error: mean distance of confidence and accuracy, over 10 bins of confidence"
    ]
    if any(one.left_out for one in models):
        notes.append("left out: answers without a confidence from 0 to 1")
    return Section(title, counted(len(models), "model"), Table(columns(names), rows), notes)


def _hashes_section(name: str, models: Sequence[ModelRecipes]) -> Section:
    recipes = _recipes_of(models)
    rows = [
        [model.model_id, *(f"{model.recipes.get(name, 0):,}" for name in recipes)]
        for model in models
    ]
    lines = sum(sum(model.recipes.values()) for model in models)
    about = (
        f"{counted(len(models), 'model')}, {counted(lines, 'line')}, by the recipe of their "
        "sample_hash"
    )
    return Section(name, about, Table(columns(["model", *recipes]), rows))


def _recipes_of(models: Sequence[ModelRecipes]) -> list[str]:
    """List the recipes in order: R1 to R10, then absent and wrong."""
    found = {name for model in models for name in model.recipes}
    return sorted(found, key=lambda name: (name[0] != "R", len(name), name))


def _joins_section(joins: EvaluationJoins) -> Section:
    about = (
        f"{counted(joins.models, 'model')}, {counted(joins.questions, 'question')}, "
        f"{counted(joins.ids, 'sample_id')}"
    )
    if joins.models > 1:
        shared = f"{counted(joins.common, 'question')} and {counted(joins.common_ids, 'sample_id')}"
        about += f"; all models have {shared} in common"
    if len(joins.groups) < 2:
        alone = (
            "there is only one model"
            if joins.models == 1
            else "all models were asked the same questions"
        )
        return Section(joins.evaluation_name, about, Table((), ()), [alone])
    return Section(joins.evaluation_name, about, _pairs_table(joins), list(_pairs_notes(joins)))


def _pairs_table(joins: EvaluationJoins) -> Table:
    from fastrec.summary.present_ranking import REASONS

    metrics = ["same metric"] if any(pair.same_metric < pair.common for pair in joins.pairs) else []
    reasons = [
        reason for reason in REASONS if any(pair.reasons.get(reason) for pair in joins.pairs)
    ]
    names = ["model", "other model", "questions", "of the other", "common", *metrics, "same id"]
    rows = []
    for pair in joins.pairs[:_MOST_PAIRS]:
        first = joins.groups[pair.first]
        second = joins.groups[pair.second]
        numbers = [
            first.questions,
            second.questions,
            pair.common,
            *([pair.same_metric] if metrics else []),
            pair.apart,
        ]
        numbers += [pair.reasons.get(reason, 0) for reason in reasons]
        rows.append([_spelled(first), _spelled(second), *(f"{number:,}" for number in numbers)])
    names += [REASONS[reason] for reason in reasons]
    return Table(columns(names, hidden=("of the other", "questions")), rows)


def _pairs_notes(joins: EvaluationJoins) -> Iterator[str]:
    from fastrec.summary.present_ranking import REASONS

    if (more := len(joins.pairs) - _MOST_PAIRS) > 0:
        yield f"… and {counted(more, 'more pair')}; --model chooses models, and --format json lists all pairs"
    for reason, heading in REASONS.items():
        if pair := next((pair for pair in joins.pairs if pair.examples.get(reason)), None):
            models = (joins.groups[number].models[0] for number in (pair.first, pair.second))
            ids = ", ".join(map(str, pair.examples[reason]))
            yield f"{heading}: {' and '.join(models)}, for example sample_id {ids}"


def _spelled(group: QuestionGroup) -> str:
    first, *others = group.models
    return f"{first} and {len(others)} more" if others else first


def _csv_questions(found: Stats) -> tuple[list[str], Rows]:
    """Make one table of the recipes of all models, of all pairs of models, or of what else was asked for."""
    from fastrec.summary.present_ranking import REASONS

    if found.hashes is not None:
        recipes = [
            [one.evaluation_name, one.model_id, recipe, one.recipes[recipe]]
            for one in found.hashes
            for recipe in _recipes_of([one])
        ]
        return ["evaluation_name", "model_id", "recipe", "lines"], recipes
    for table, (fields, renamed) in _CSV_TABLES.items():
        if (items := getattr(found, table)) is not None:
            names = fields.split()
            return [renamed.get(name, name) for name in names], list(map(attrgetter(*names), items))
    names = [
        "evaluation_name", "model_id", "other_model_id", "questions", "other_questions", "common", "same_metric", "ids",
        "apart", *REASONS,
    ]  # fmt: skip
    return names, [
        [joins.evaluation_name, *models, *numbers]
        for joins in found.joins or ()
        for models, numbers in all_pairs(joins)
    ]


def all_pairs(joins: EvaluationJoins) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Yield all pairs of models with their numbers: those of different groups first, then those of the same group."""
    from fastrec.summary.present_ranking import REASONS

    for pair in joins.pairs:
        first = joins.groups[pair.first]
        second = joins.groups[pair.second]
        numbers = [
            first.questions,
            second.questions,
            pair.common,
            pair.same_metric,
            pair.ids,
            pair.apart,
        ]
        numbers += [pair.reasons.get(reason, 0) for reason in REASONS]
        for model in first.models:
            for other in second.models:
                yield (model, other), numbers
    for group in joins.groups:
        same = [*[group.questions] * 4, group.ids, 0, *(0 for _ in REASONS)]
        for number, model in enumerate(group.models):
            for other in group.models[number + 1 :]:
                yield (model, other), same


_RANKINGS: Final = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]


@command("Compare the models of each evaluation and metric.", check="there are no records",
         usage="the command line is wrong, or a pattern matches nothing",
         failure="something could not be read")  # fmt: skip
@shared("paths")
@option("--by", "Rank models by this, best first; tokens are per record, latency is the median.",
        type=click.Choice(_RANKINGS), show_default="accuracy; score where scores are not only 0 "
"and 1")  # fmt: skip
@shared("filters", "accuracy")
@flag("--common", "Count only questions that all of these models answered.")
@shared("group_by")
@flag("--hashes", "Show how producers computed sample_hash, for each evaluation and model.")
@flag("--joins", "Show how many questions models have in common, and what keeps the others apart.")
@shared("confidence")
@flag("--overlap", "Show which evaluations have questions in common.")
@shared("prices")
@flag(
    "--names", "Show models whose names differ only in spelling, with lines for `normalize --map`."
)
@shared("min_coverage")
@flag(
    "--no-ranks",
    "Do not test which models differ: then the summary of a corpus has all the numbers.",
)
@shared("metrics", "lower_is_better", "errors_as_wrong", "repeats_as")
@format_option("text", "json", "csv", "markdown")
@shared("raw_cells", "jobs", "work_dir", "quiet", "no_progress")
def stats(
    paths: tuple[str, ...],
    output_format: str,
    raw_cells: bool,
    quiet: bool,
    no_progress: bool,
    **options: Any,
) -> None:
    """Compare the models of each evaluation and metric: accuracy, score, errors, tokens, latency, coverage.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the
    numbers, or any shards. Shards are read and sorted, so that duplicates count once; nothing is
    published.

    An answer is a record without an error. Accuracy and score are means over questions: a model
    with several answers to a question counts with their mean. In the tables, n is the number of
    questions that a model answered, and coverage is their share of the evaluation's questions.
    Models that answered different questions are not comparable; --common counts only the questions
    that all models with answers have answered.

    A metric is an evaluation_result_id. Each metric has its own table. If a metric has scores other
    than 0 and 1, its table shows the mean score and its interval instead of the accuracy, and
    models are ranked by score.

    The rank of a model is a range if tests cannot place it: 2–4 means that one model is
    significantly better, and that the others below 4 are significantly worse. All pairs of models
    are compared on the questions that both answered (exact McNemar test, or paired t-test),
    adjusted for their number (Holm). A model with answers to less than --min-coverage of the
    questions is listed last, without a rank. With --errors-as-wrong, evaluations with errors have
    no ranks.

    Filters by name choose rows of these tables; the numbers in a row stay the same. With
    --sample-id, --hash, --right, --wrong or --errors, all numbers are those of the matching records
    alone.

    --group-by adds a table for each group of records below the table of its evaluation: by subject,
    by difficulty, by the number of tokens. Fields are those of --where.

    --overlap shows which evaluations have questions in common: the same sample_hash, or the same
    input but for white space. --names shows models that are probably one: names that differ only in
    case, in - and _, or in the organisation before the /, and whether their answers have the same
    output, verdict and score. --confidence shows whether the confidence that answers state, from 0
    to 1, is how often they are right. --hashes and --joins show other tables instead. --joins reads
    the whole corpus. Models were asked the same question if the sample_hash is the same. If only
    the sample_id is the same, it shows what differs: the prompt (input.raw), the reference, or only
    white space.

    \b
    Examples:
      fastrec stats corpus
      fastrec stats new-corpus --metric acc --metric 'rouge*'
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats corpus --group-by metadata.subject
      fastrec stats corpus --repeats-as majority
      fastrec stats corpus --prices prices.toml
      fastrec stats corpus --joins --evaluation GSM8K
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.commands.stats import stats as run
    from fastrec.corpus.manifest import skipped_lines

    other_tables = [
        name
        for name in ("hashes", "joins", "overlap", "prices", "names", "confidence")
        if options[name]
    ]
    if len(other_tables) > 1 and output_format == "csv":
        raise click.UsageError(
            f"a CSV table has only one of --{', --'.join(other_tables)}: choose one"
        )
    prepare_reading(options["jobs"], paths)
    is_quiet = quiet or no_progress
    with (
        make_progress("sort", "merge", "read", quiet=is_quiet) as progress,
        explain_damage(*paths or ("",)),
    ):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    make_sections = _questions_sections if other_tables else stats_sections
    missing = skipped_lines(found.skipped)
    with allow_broken_pipe():
        if output_format in ("json", "csv"):
            if not quiet:
                print_warning(missing)
        elif missing:
            # In Markdown, indented lines become a list.
            spell = (
                safe if output_format == "text" else lambda line: re.sub("^  ", "- ", escaped(line))
            )
            click.echo("\n".join([*map(spell, missing), ""]))
    make_csv = _csv_questions if other_tables else _csv_models
    print_found(
        found,
        output_format,
        text=lambda: print_sections(*make_sections(found)) if found.evaluations else None,
        csv=lambda: click.echo(csv_table(*make_csv(found), raw_cells=raw_cells), nl=False),
        markdown=lambda: click.echo("\n".join(markdown_sections(*make_sections(found)))),
    )
    if not found.evaluations:
        print_error("there are no records")
        raise click.exceptions.Exit(1)
