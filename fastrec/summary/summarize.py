"""Build the summary document from what was counted over the lines, the tally and the census."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter, or_
from typing import Any

from fastrec.json_documents import CountsByName, sorted_counts
from fastrec.schemas.hashes import ABSENT, WRONG
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import sample_id_of, split_scope, text_of
from fastrec.summary.census import QuestionCounts
from fastrec.summary.document import (
    ErrorsAsWrong,
    EvaluationSummary,
    HashExample,
    Identities,
    IdentityExample,
    Kind,
    Latency,
    ModelRecipes,
    ModelSummary,
    SameRun,
    SameRunPair,
    SampleHashes,
    Tokens,
    filled,
    json_safe,
)
from fastrec.summary.part_statistics import Census, IdentityCounts
from fastrec.summary.rows import KINDS, USUAL_TYPE, Note, bucket_value
from fastrec.summary.same_run import SameRunCounts
from fastrec.summary.tally import ModelTally, Repeats, Tally, means_of


def summarize(tally: Tally, census: Census, schema: Schema) -> dict[str, Any]:
    """Make the fields of a summary that follow from the records of a corpus.

    Tally and census are emptied on the way, because both and the summary together take twice the
    memory.
    """
    return {
        "repeats": _identities(census.repeats),
        "contradictions": _identities(census.contradictions),
        "interaction_types": _named_counts(tally.interaction_types, USUAL_TYPE),
        "schema_versions": _named_counts(tally.schema_versions, schema.label),
        "evaluations": list(summarize_evaluations(tally, census)),
    }


def hash_counts(
    algorithm: str,
    schema: Schema,
    recipes: Mapping[tuple[str, str, str], int],
    examples: Sequence[HashExample],
) -> SampleHashes:
    """Count how given sample hashes compare with computed ones.

    `recipes` has the number of valid lines by evaluation_name, model_id and the recipe of the given
    hash: ABSENT if there is none, WRONG if no recipe gives it. `examples` are of lines with a wrong
    hash.
    """
    by_recipe = Counter[str]()
    by_model = []
    same: dict[Any, CountsByName] = {}  # of many models, most have the counts of another
    by_names = groupby(sorted(recipes.items()), key=lambda item: item[0][:2])
    for (evaluation, model), group in by_names:
        counts = {recipe: count for (*_, recipe), count in group}
        by_recipe.update(counts)
        shared = same.setdefault(tuple(counts.items()), counts)
        by_model.append(ModelRecipes(evaluation, model, shared))
    return SampleHashes(
        algorithm=algorithm,
        recipe=schema.recipe,
        verified=by_recipe.total() - by_recipe[ABSENT] - by_recipe[WRONG],
        filled=by_recipe[ABSENT],
        replaced=by_recipe[WRONG],
        by_recipe=sorted_counts(+by_recipe),
        by_model=by_model,
        examples=list(examples),
    )


def _named_counts(counts: Mapping[str | None, int], usual: str) -> CountsByName:
    return sorted_counts({usual if name is None else name: counts[name] for name in counts})


def summarize_evaluations(tally: Tally, census: Census) -> Iterator[EvaluationSummary]:
    """Yield the summary of each evaluation and metric.

    What is summarized is removed from tally and census.
    """
    for scope, names in groupby(sorted(tally.models), key=itemgetter(0)):
        models = [(model, tally.models.pop((scope, model))) for _, model in names]
        questions = census.questions.pop(scope, None) or QuestionCounts()
        evaluation, metric = split_scope(scope)
        tallies = [counted for _, counted in models]
        answering = sum(counted.records > counted.errors for counted in tallies)
        notes = reduce(or_, (counted.notes for counted in tallies))
        is_lower = bool(notes & Note.LOWER)
        yield filled(
            EvaluationSummary,
            questions,
            evaluation_name=evaluation,
            metric=metric,
            graded=is_lower or any(counted.graded for counted in tallies),
            records=sum(counted.records for counted in tallies),
            models=len(models),
            questions_all_models=questions.by_models.get(len(models), 0),
            questions_answered_by_all=questions.by_answering.get(answering, 0) if answering else 0,
            kind=_kind(notes, tallies),
            lower_is_better=is_lower,
            primary=bool(notes & Note.PRIMARY),
            by_model=[
                model_summary(text_of(model), counted, questions.repeats.get(model, Repeats()))
                for model, counted in models
            ],
        )


def _kind(notes: int, models: Sequence[ModelTally]) -> Kind:
    """The kind of a metric: as records say, judgements before all others; or by its scores."""
    for name, bit in KINDS.items():
        if notes & bit:
            return name
    correct = sum(counted.correct for counted in models)
    answers = sum(counted.records - counted.errors for counted in models)
    varies = 0 < correct < answers
    is_outside = any(counted.outside for counted in models)
    return "bookkeeping" if is_outside and not varies else "judgement"


def model_summary(name: str, counted: ModelTally, repeats: Repeats) -> ModelSummary:
    latencies = [
        None if bucket is None else float(f"{bucket_value(bucket):.5g}")
        for bucket in counted.latency_quantiles((0.5, 0.9, 0.99))
    ]
    tokens = (counted.input_tokens, counted.output_tokens, counted.total_tokens)
    answers = counted.answers()
    records = counted.with_errors()
    means = with_errors = means_of(answers, repeats.without_errors, repeats.answers)
    if answers != records or repeats.answers or repeats.records:  # rare
        with_errors = means_of(records, repeats.without_errors, repeats.records)
    return filled(
        ModelSummary,
        means,
        counted,
        model_id=name,
        answers=answers.records,
        questions=with_errors.questions,
        questions_answered=means.questions,
        errors_as_wrong=filled(ErrorsAsWrong, with_errors),
        tokens=Tokens(counted.with_tokens, *map(json_safe, tokens)),
        latency_ms=Latency(counted.latency.total(), *latencies),
        first_sample_id=json_safe(sample_id_of(counted.first)),
        last_sample_id=json_safe(sample_id_of(counted.last)),
    )


def same_run_summary(counts: SameRunCounts) -> SameRun:
    pairs = [SameRunPair(*pair, records) for pair, records in sorted(counts.pairs.items())]
    return SameRun(records=counts.records, runs=pairs)


def _identities(counts: IdentityCounts) -> Identities:
    examples = []
    for (scope, sample_id, model, evaluation_id), records, hashes in counts.examples:
        evaluation, metric = split_scope(scope)
        example = IdentityExample(
            evaluation_name=evaluation,
            metric=metric,
            sample_id=json_safe(sample_id_of(sample_id)),
            model_id=text_of(model),
            evaluation_id=text_of(evaluation_id),
            records=records,
            sample_hashes=list(map(text_of, hashes)),
        )
        examples.append(example)
    return Identities(identities=counts.identities, records=counts.records, examples=examples)
