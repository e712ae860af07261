"""Commands that print tables of results.

`overlap` is about models and questions, `costs`, `calibration` and `corrected` about models, and
`score` and `items` about the benchmark itself: they score answers again, and judge questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import clip, print_notice, spell, terminal_width
from fastrec.cli.options import command
from fastrec.cli.output import print_answer, print_csv, run_reading
from fastrec.cli.tables import (
    Section,
    Table,
    described,
    make_table,
    more_rows,
    table_of,
)
from fastrec.errors import counted, listed

if TYPE_CHECKING:
    from fastrec.answers.items import EvaluationItems, Item
    from fastrec.answers.similar_names import SimilarModels
    from fastrec.commands.corrected import CorrectedModel
    from fastrec.commands.items import Items
    from fastrec.commands.overlap import Overlap
    from fastrec.commands.overlap.evaluations import SharedQuestions
    from fastrec.commands.overlap.joins import EvaluationJoins
    from fastrec.commands.score import Scored, ScoreExample
    from fastrec.statistics.calibration import Calibration
    from fastrec.summary.document import ModelRecipes

_MOST_SHARED = 50
_MOST_PAIRS = 10  # more do not fit on a screen
_MOST_CHARS = 30  # of a text in a table


@command()
def overlap(corpus: str, by: str, **options: Any) -> None:
    """Show what models or evaluations have in common, and what keeps equal questions apart.

    Models were asked the same question if the sample_hash is the same. If only the sample_id is the
    same, the table shows what differs: the prompt (input.raw), the reference, or only white space.

    --by evaluations shows which evaluations have questions in common: the same sample_hash, or the
    same input but for white space. --by names shows models that are probably one: names that differ
    only in case, in - and _, or in the organisation before the /, and whether their answers have
    the same output, verdict and score; with lines for `normalize --map`. --by hashes shows how
    producers computed sample_hash, for each evaluation and model.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec overlap corpus --evaluation GSM8K
      fastrec overlap corpus --by evaluations
      fastrec overlap corpus --by names
      fastrec overlap corpus --by hashes --format csv > hashes.csv
    """
    from fastrec.commands.overlap import overlap as run

    result = run_reading(run, corpus, by=by, **options)
    print_answer(result, _overlap_sections(result), table=by)
    if result.models == []:
        print_notice("there are no records")


def _overlap_sections(result: Overlap) -> Iterator[Section]:
    yield from map(_joins_section, result.models or ())
    if result.evaluations is not None:
        yield _shared_section(result.evaluations)
    if result.names is not None:
        yield _names_section(result.names)
    for name, models in groupby(result.hashes or (), key=attrgetter("evaluation_name")):
        yield _hashes_section(name, list(models))


def _joins_section(joins: EvaluationJoins) -> Section:
    about = "{models:model}, {questions:question}, {ids:sample_id}"
    table: Table = ()
    notes = ["there is only one model"]
    if joins.models > 1:
        about += "; all models have {common:question} and {common_ids:sample_id} in common"
        notes = ["all models were asked the same questions"]
    if len(joins.groups) > 1:
        table = _pairs_table(joins)
        notes = list(_pairs_notes(joins))
    return Section(joins.evaluation_name, spell(about, joins), table, notes)


def _pairs_table(joins: EvaluationJoins) -> Table:
    from fastrec.commands.overlap.joins import REASONS

    groups = joins.groups
    own = {
        "model": lambda pair: listed(groups[pair.first].models, 1),
        "other model": lambda pair: listed(groups[pair.second].models, 1),
        "questions": lambda pair: f"{groups[pair.first].questions:,}",
        "of the other": lambda pair: f"{groups[pair.second].questions:,}",
    }
    for reason, heading in REASONS.items():
        if any(pair.reasons.get(reason) for pair in joins.pairs):
            own[heading] = partial(_number, "reasons", reason)
    has_other_metrics = any(pair.same_metric < pair.common for pair in joins.pairs)
    without = () if has_other_metrics else ("same metric",)
    return table_of("models", joins.pairs[:_MOST_PAIRS], own, without)


def _number(counts: str, key: str, item: object) -> str:
    """Spell one of the counts of an item."""
    return f"{getattr(item, counts).get(key, 0):,}"


def _pairs_notes(joins: EvaluationJoins) -> Iterator[str]:
    from fastrec.commands.overlap.joins import REASONS

    if (more := len(joins.pairs) - _MOST_PAIRS) > 0:
        yield (
            f"… and {counted(more, 'more pair')}; --model chooses models, and --format json lists "
            "all pairs"
        )
    for reason, heading in REASONS.items():
        if pair := next((pair for pair in joins.pairs if pair.examples.get(reason)), None):
            models = (joins.groups[number].models[0] for number in (pair.first, pair.second))
            ids = ", ".join(map(str, pair.examples[reason]))
            yield f"{heading}: {' and '.join(models)}, for example sample_id {ids}"


def _shared_section(pairs: Sequence[SharedQuestions]) -> Section:
    shown = [pair for pair in pairs if pair.examples]
    own = {
        "example": lambda pair: str(pair.examples[0].sample_id),
        "in the other": lambda pair: str(pair.examples[0].other_sample_id),
    }
    table = table_of("evaluations", shown[:_MOST_SHARED], own)
    about = spell("{pairs:pair} of evaluations have questions in common", pairs=pairs)
    notes = more_rows(len(shown) - _MOST_SHARED, "pair", "--format json")
    notes.append("same input: input.raw is the same but for white space")
    return Section(
        "overlap", about, table if shown else "no question occurs in two evaluations", notes
    )


def _names_section(pairs: Sequence[SimilarModels]) -> Section:
    """Show pairs of names, and what to write about them into the file of `normalize --map`."""
    about = spell("{pairs:pair} of models with names that differ only in spelling", pairs=pairs)
    if not pairs:
        return Section("names", about, "nothing to rename")
    notes = [
        "lines for the file of `fastrec normalize --map`; # marks pairs that may be two models:",
        "[models]",
    ]
    for pair in pairs:
        old = json.dumps(pair.other_model_id, ensure_ascii=False)
        new = json.dumps(pair.model_id, ensure_ascii=False)
        notes.append(f"{'' if pair.rename else '# '}{old} = {new}")
    return Section("names", about, table_of("names", pairs), notes)


def _hashes_section(evaluation: str, models: list[ModelRecipes]) -> Section:
    from fastrec.commands.overlap import recipes_of

    recipes = {recipe: partial(_number, "recipes", recipe) for recipe in recipes_of(models)}
    lines = sum(sum(model.recipes.values()) for model in models)
    text = "{models:model}, {lines:line}, by the recipe of their sample_hash"
    about = spell(text, models=models, lines=lines)
    return Section(evaluation, about, table_of("hashes", models, recipes))


@command()
def costs(corpus: str, **options: Any) -> None:
    """Show what the answers of models cost, at the prices of a file.

    A table of the file is a model, or a pattern: ["org/model-*"] with `input` and `output`, and
    perhaps `cached` and `reasoning`, per million tokens. The text shows the sums over evaluations,
    the other formats each evaluation. Of an evaluation with several metrics, the records of the
    primary one count.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec costs corpus --prices prices.toml
      fastrec costs corpus --prices prices.toml --evaluation GSM8K --format csv
    """
    from fastrec.answers.costs import total_costs
    from fastrec.commands.costs import costs as run

    result = run_reading(run, corpus, **options)
    names, rows, notes = total_costs(result.costs)
    evaluations = {cost.evaluation_name for cost in result.costs}
    about = spell("{rows:model}, {evaluations:evaluation}", rows=rows, evaluations=evaluations)
    table = make_table(names, rows, hidden=("evaluations", "records"))
    print_answer(result, [Section("cost", about, table, notes)], table="costs")


@command()
def calibration(corpus: str, **options: Any) -> None:
    """Show whether the confidence that answers state is how often they are right.

    The expected calibration error is the mean distance of confidence and accuracy, over ten bins of
    confidence. The Brier score is the mean squared distance of the confidence from 1 if the answer
    is right, else from 0.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, a pattern matches nothing, or no answer has
            a confidence
      3     something could not be read

    \b
    Examples:
      fastrec calibration corpus --confidence metadata.confidence
      fastrec calibration corpus --confidence metadata.percent:100
      fastrec calibration corpus --confidence stated_probability --metric acc
    """
    from fastrec.commands.calibration import calibration as run

    result = run_reading(run, corpus, **options)
    sections = _by_scope(result.models, _calibration_section)
    print_answer(result, sections, table="calibration")


def _by_scope(models: Iterable[Any], section: Callable[[str, list[Any]], Section]) -> list[Section]:
    """Make a section for each evaluation and metric."""
    scopes = groupby(models, key=attrgetter("evaluation_name", "metric"))
    return [
        section(name if metric is None else f"{name} · {metric}", list(group))
        for (name, metric), group in scopes
    ]


def _calibration_section(title: str, models: Sequence[Calibration]) -> Section:
    ranked = sorted(models, key=lambda model: (model.ece is None, model.ece, model.model_id))
    return Section(title, counted(models, "model"), table_of("calibration", ranked))


@command()
def corrected(corpus: str, **options: Any) -> None:
    """Estimate the scores that people would give, from all graded answers and a few labels.

    The estimate is the grader's mean over all questions, plus the mean of label minus grader over
    the labelled ones (prediction-powered inference). It is right however wrong the grader is, as
    long as the labelled answers are a random sample. A button in `fastrec view` that somebody
    presses where an answer looks wrong makes no random sample; --propose does.

    --propose writes a line for each answer of a sample, with the texts but without the verdict.
    Each model has its share of it, and so have its right and its wrong answers. Replace `null` in
    `is_correct` by true or false, or in `score` by a number, and give the file as --labels. Lines
    that are not filled in are skipped.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, a pattern matches nothing, or FILE exists
      3     something could not be read

    \b
    Examples:
      fastrec corrected corpus --propose 50 -o labels.jsonl
      fastrec corrected corpus --labels labels.jsonl
      fastrec corrected corpus --labels labels.jsonl --pooled --format csv
      fastrec corrected corpus --labels labels.jsonl --propose 50 -o more.jsonl
    """
    from fastrec.commands.corrected import corrected as run

    corrections = run_reading(run, corpus, **options)
    print_answer(corrections, _by_scope(corrections.models, _corrected_section), table="corrected")
    if options["labels"]:
        counts = "{labels:label}, {unused:,} that fit no answer; {unfilled:line} without a verdict"
        print_notice(spell(counts, corrections))
    if options["propose"]:
        print_notice(
            spell("{proposed:answer} to label in {output}", corrections, output=options["output"])
        )


def _corrected_section(title: str, models: Sequence[CorrectedModel]) -> Section:
    ranked = sorted(models, key=lambda model: -(model.corrected or 0))
    graded = described("graded", "columns") if models[0].graded else {}
    return Section(title, counted(models, "model"), table_of("corrected", ranked, graded))


@command()
def score(corpus: str, dry_run: bool, **options: Any) -> None:
    """Score the answers of CORPUS by rules, and publish a corpus with the new verdicts.

    A rule says which records it scores, how to extract the answer from what the model said, what to
    clean, and how to compare it with the references. Each rule adds a metric with its name: every
    record that it matches gets a record of this metric beside it, with the extracted text in
    answer_attribution. Nothing is generated, and no model is needed.

    An answer that several metrics have judged is scored once. Patterns are those of re2, which take
    linear time.

    \b
    Exit codes:
      0     done
      2     the command line or a rule is wrong, or no record matches
      3     something could not be read or written

    \b
    Examples:
      fastrec score corpus --rule number --dry-run
      fastrec score corpus --rule number -o scored
      fastrec score corpus --rules rules.toml -o scored --overwrite
      fastrec score corpus --rule choice --replace -o replaced
    """
    from fastrec.commands.score import score as run

    if dry_run == (options["output"] is not None):
        raise click.UsageError("give either --output or --dry-run")
    scored = run_reading(run, corpus, stages=("score", "sort", "merge"), dry_run=dry_run, **options)
    print_notice(*scored.notices)
    print_answer(scored, _score_sections(scored, dry_run=dry_run), table="score")


def _score_sections(scored: Scored, *, dry_run: bool) -> Iterator[Section]:
    scope_of = attrgetter("evaluation_name", "rule")
    for scope, group in groupby(scored.models, key=scope_of):
        models = list(group)
        answers = sum(model.records for model in models)
        about = spell("{models:model}, {answers:answer}", models=models, answers=answers)
        notes = []
        for example in scored.examples if dry_run else ():
            if scope_of(example) == scope:
                notes += _example_lines(example)
        without = () if any(model.errors for model in models) else ("errors",)
        yield Section(" · ".join(scope), about, table_of("score", models, {}, without), notes)


def _example_lines(example: ScoreExample) -> list[str]:
    width = (terminal_width() or 100) - 4
    text = _one_line(example.text)
    value = "nothing" if example.extracted is None else example.extracted
    key = " | ".join(_one_line(reference)[-60:] for reference in example.references)
    return [
        f"{example.kind}: {example.model_id}, sample_id {example.sample_id}",
        f"  …{text[-(width - 6) :]}",
        clip(f"  extracted: {value}   reference: {key}", width),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


@command()
def items(corpus: str, limit: int, **options: Any) -> None:
    """Tell which questions of CORPUS are good, and how well they tell models apart.

    For each evaluation and metric: reliability, and the questions whose key is probably wrong
    (strong models fail where weak ones succeed), with what strong models answered. Other questions
    that tell nothing are counted: all models are right, or all are wrong; or another question has
    nearly the same text. --format json has the numbers of every question.

    With fewer than 8 models, only difficulty and flags are known. docs/benchmark.md explains the
    numbers, and says how many wrong keys are found.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, a pattern matches nothing, or FILE exists
      3     a part could not be read

    \b
    Examples:
      fastrec items corpus
      fastrec items corpus --evaluation GSM8K --format json
      fastrec items corpus --evaluation GSM8K --subset 100 -o subset.txt
    """
    from fastrec.commands.items import items as run

    result = run_reading(run, corpus, **options)
    sections = _item_sections(result, limit)
    print_answer(result, sections, table="items", csv=_print_csv)
    if not result.evaluations:
        print_notice("there are no records")


_FLAGS = {
    "all_right": "that all models get right",
    "all_wrong": "that all models get wrong",
    "near_duplicate": "with a near duplicate",
}


def _print_csv(result: Items) -> None:
    questions = [question for scope in result.evaluations for question in scope.questions]
    flags = [{"flags": " ".join(question.flags)} for question in questions]
    rows = [row | more for row, more in zip(result.rows(), flags, strict=True)]
    print_csv(rows, described("items", "csv"))


def _item_sections(result: Items, limit: int) -> Iterator[Section]:
    for scope in result.evaluations:
        title = " · ".join(filter(None, (scope.evaluation_name, scope.metric)))
        suspects = [question for question in scope.questions if "suspected_key" in question.flags]
        table: Table | str = table_of("items", suspects[:limit], _SUSPECT)
        if scope.too_few_models:
            table = "fewer than 8 models: nothing can be said about keys and reliability"
        elif not suspects:
            table = "no key is suspected to be wrong"
        notes = more_rows(len(suspects) - limit, "suspected key", "--format json")
        about = spell("{total:question}, {models:model}", scope)
        yield Section(title, about, table, [*notes, *_item_notes(scope)])


def _agreed(question: Item) -> str:
    value = clip(_one_line(question.agreed_value or ""), _MOST_CHARS)
    return f"{value} ({question.agreed_by:,})" if question.agreed_value else ""


_SUSPECT = {
    "sample": lambda question: str(question.sample_ids[0]),
    "reference": lambda question: clip(_one_line(" | ".join(question.references)), _MOST_CHARS),
    "strong models say": _agreed,
}


def _item_notes(scope: EvaluationItems) -> Iterator[str]:
    for flag_name, fact in _FLAGS.items():
        if number := scope.flags.get(flag_name):
            yield f"{counted(number, 'question')} {fact}"
    if scope.reliability is not None:
        yield spell(
            "reliability {reliability:.3f} (95 %: {reliability_low:.3f} to {reliability_high:.3f}) "
            "over {complete_questions:question} and {complete_models:model}",
            scope,
        )
        yield spell("standard error of measurement {standard_error:.3f}", scope)
        if scope.questions_needed is not None:
            yield spell("a reliability of 0.9 needs {questions_needed:question}", scope)
    if not scope.subset:
        return
    for name, fidelity in (("chosen", scope.subset.chosen), ("random", scope.subset.random)):
        yield spell(
            "subset of {questions:question}, {name}: rank correlation {rank_correlation:.3f} "
            "± {rank_correlation_spread:.3f}, error of means {error:.3f} "
            "± {error_spread:.3f}, on models left out",
            fidelity,
            name=name,
            questions=scope.subset.questions,
        )
