"""`fastrec overlap`, `fastrec costs`, `fastrec calibration` and `fastrec corrected`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import print_notice, spell
from fastrec.cli.options import command
from fastrec.cli.output import print_answer, run_reading
from fastrec.cli.tables import Section, Spellings, Table, make_table, more_rows, table_of
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.corrected import CorrectedModel
    from fastrec.commands.overlap import Overlap
    from fastrec.commands.overlap.evaluations import SharedQuestions
    from fastrec.commands.overlap.joins import EvaluationJoins, QuestionGroup
    from fastrec.commands.overlap.names import SimilarModels
    from fastrec.statistics.calibration import Calibration
    from fastrec.summary.document import ModelRecipes

_MOST_SHARED = 50
_MOST_PAIRS = 10  # more do not fit on a screen
_CSV = {
    "models": "evaluation_name model_id other_model_id questions other_questions common same_metric"
    " ids apart hash white_space reference prompt prompt_and_reference",
    "evaluations": "evaluation_name other_evaluation_name hashes inputs",
    "names": "model_id other_model_id common same rename",
    "hashes": "evaluation_name model_id recipe lines",
    "costs": "evaluation_name model_id answers unknown right priced cost cost_per_right",
    "calibration": "evaluation_name metric model_id answers left_out confidence accuracy ece brier",
    "corrected": "evaluation_name metric model_id graded questions labels raw corrected low high"
    " to_halve",
}  # the columns of each table, which has them even if it has no rows
_LEGENDS = {
    "models": [
        (
            "common: questions that both models were asked, by sample_hash; same metric: those "
            "with a metric that both have"
        ),
        (
            "same id: sample_ids that both have with different hashes; the columns after it say "
            "what differs"
        ),
    ],
    "hashes": [
        (
            "R1 to R10: valid lines whose sample_hash follows this recipe; absent: without one; "
            "wrong: by no recipe"
        )
    ],
    "corrected": [
        "corrected: the grader's score of all answers, plus label minus grader on labelled ones",
        "to halve: labels in all that halve the interval; – if the questions are too few",
    ],
}


def _run(run: Any, corpus: str, **options: Any) -> Any:
    """Run a command that needs prices or a confidence, which other commands may have."""
    for name in ("prices", "confidence"):
        if name in options and options[name] is None:
            raise click.UsageError(f"Missing option '--{name}'.")
    return run_reading(run, corpus, **options)


def _print(found: Any, name: str, sections: Sequence[Section]) -> None:
    legends = [_LEGENDS.get(name, [])] if sections else []
    print_answer(found, sections, legends, names=_CSV[name].split())


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

    found = _run(run, corpus, by=by, **options)
    _print(found, by, _overlap_sections(found))


def _overlap_sections(found: Overlap) -> list[Section]:
    sections = list(map(_joins_section, found.models or ()))
    if found.evaluations is not None:
        sections.append(_shared_section(found.evaluations))
    if found.names is not None:
        sections.append(_names_section(found.names))
    for name, models in groupby(found.hashes or (), key=lambda model: model.evaluation_name):
        sections.append(_hashes_section(name, list(models)))
    return sections


def _joins_section(joins: EvaluationJoins) -> Section:
    about = "{models:model}, {questions:question}, {ids:sample_id}"
    table = make_table((), ())
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

    has_other_metrics = any(pair.same_metric < pair.common for pair in joins.pairs)
    reasons = {
        reason: heading
        for reason, heading in REASONS.items()
        if any(pair.reasons.get(reason) for pair in joins.pairs)
    }
    names = ["model", "other model", "questions", "of the other", "common"]
    names += ["same metric"] * has_other_metrics + ["same id", *reasons.values()]
    rows = []
    for pair in joins.pairs[:_MOST_PAIRS]:
        first = joins.groups[pair.first]
        second = joins.groups[pair.second]
        numbers = [first.questions, second.questions, pair.common]
        numbers += [pair.same_metric] * has_other_metrics + [pair.apart]
        numbers += [pair.reasons.get(reason, 0) for reason in reasons]
        rows.append([_spelled(first), _spelled(second), *map("{:,}".format, numbers)])
    return make_table(names, rows, hidden=("of the other", "questions"))


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


def _spelled(group: QuestionGroup) -> str:
    first, *others = group.models
    return f"{first} and {len(others)} more" if others else first


_SHARED: Spellings = {
    "evaluation": "{evaluation_name}",
    "other evaluation": "{other_evaluation_name}",
    "same hash": "{hashes:,}",
    "same input": "{inputs:,}",
    "example": lambda pair: str(pair.examples[0].sample_id),
    "in the other": lambda pair: str(pair.examples[0].other_sample_id),
}


def _shared_section(pairs: Sequence[SharedQuestions]) -> Section:
    shown = [pair for pair in pairs if pair.examples]
    table: Table | str = "no question occurs in two evaluations"
    if shown:
        left = ("other evaluation", "example", "in the other")
        table = table_of(shown[:_MOST_SHARED], _SHARED, left)
    about = spell("{pairs:pair} of evaluations have questions in common", pairs=pairs)
    notes = more_rows(len(shown) - _MOST_SHARED, "pair", "--format json")
    notes.append("same input: input.raw is the same but for white space")
    return Section("overlap", about, table, notes)


_NAMES: Spellings = {
    "model": "{model_id}",
    "other model": "{other_model_id}",
    "common questions": "{common:,}",
    "same answers": "{same:,}",
}


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
    return Section("names", about, table_of(pairs, _NAMES, left=("other model",)), notes)


def _hashes_section(evaluation: str, models: list[ModelRecipes]) -> Section:
    from fastrec.commands.overlap import recipes_of

    spellings: Spellings = {"model": "{model_id}"}
    for recipe in recipes_of(models):
        spellings[recipe] = partial(_lines, recipe)
    lines = sum(sum(model.recipes.values()) for model in models)
    about = "{models:model}, {lines:line}, by the recipe of their sample_hash"
    table = table_of(models, spellings)
    return Section(evaluation, spell(about, models=models, lines=lines), table)


def _lines(recipe: str, model: ModelRecipes) -> str:
    return f"{model.recipes.get(recipe, 0):,}"


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

    found = _run(run, corpus, **options)
    names, rows, notes = total_costs(found.costs)
    evaluations = {cost.evaluation_name for cost in found.costs}
    about = spell("{rows:model}, {evaluations:evaluation}", rows=rows, evaluations=evaluations)
    table = make_table(names, rows, hidden=("evaluations", "records"))
    _print(found, "costs", [Section("cost", about, table, notes)])


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

    found = _run(run, corpus, **options)
    _print(found, "calibration", _by_scope(found.models, _calibration_section))


def _by_scope(models: Iterable[Any], section: Callable[[str, list[Any]], Section]) -> list[Section]:
    """Make a section for each evaluation and metric."""
    scopes = groupby(models, key=lambda model: (model.evaluation_name, model.metric))
    return [
        section(name if metric is None else f"{name} · {metric}", list(some))
        for (name, metric), some in scopes
    ]


_CALIBRATION: Spellings = {
    "model": "{model_id}",
    "answers": "{answers:,}",
    "left out": "{left_out:,}",
    "confidence": "[??{confidence:.1%}]",
    "accuracy": "[??{accuracy:.1%}]",
    "calibration error": "[??{ece:.3f}]",
    "Brier score": "[??{brier:.3f}]",
}


def _calibration_section(title: str, models: Sequence[Calibration]) -> Section:
    ranked = sorted(models, key=lambda model: (model.ece is None, model.ece, model.model_id))
    notes = [
        "calibration error: mean distance of confidence and accuracy, over 10 bins of confidence"
    ]
    if any(model.left_out for model in models):
        notes.append("left out: answers without a confidence on this scale")
    return Section(title, counted(len(models), "model"), table_of(ranked, _CALIBRATION), notes)


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

    found = _run(run, corpus, **options)
    _print(found, "corrected", _by_scope(found.models, _corrected_section))
    if options["labels"]:
        counts = "{labels:label}, {unused:,} that fit no answer; {unfilled:line} without a verdict"
        print_notice(spell(counts, found))
    if options["propose"]:
        print_notice(
            spell("{proposed:answer} to label in {output}", found, output=options["output"])
        )


def _corrected_section(title: str, models: Sequence[CorrectedModel]) -> Section:
    pattern = ".4g" if models[0].graded else ".1%"
    spellings: Spellings = {
        "model": "{model_id}",
        "questions": "{questions:,}",
        "labels": "{labels:,}",
        "raw": f"{{raw:{pattern}}}",
        "corrected": f"{{corrected:{pattern}}}",
        "95% interval": f"{{low:{pattern}}} to {{high:{pattern}}}",
        "to halve": "{to_halve:,}",
    }
    ranked = sorted(models, key=lambda model: -(model.corrected or 0))
    return Section(title, counted(len(models), "model"), table_of(ranked, spellings))
