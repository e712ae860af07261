"""Build the summary document from line counts, the tally and the census."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.sorting.keys import sample_id_of, text_of
from fastrec.summary.census import Conflict
from fastrec.summary.document import (
    ConflictExample,
    Conflicts,
    ErrorsAsWrong,
    EvaluationSummary,
    Latency,
    LineCounts,
    ModelSummary,
    SampleHashes,
    Summary,
    Tokens,
    json_safe,
)
from fastrec.summary.means import Repeats, means_of
from fastrec.summary.part_statistics import Census
from fastrec.summary.rows import bucket_value
from fastrec.summary.tally import ModelTally, Tally

__all__ = ["model_summary", "summarize"]

_NO_REPEATS: Final = Repeats()


def summarize(
    line_counts: LineCounts,
    rejected_by_code: Mapping[str, int],
    sample_hash: SampleHashes,
    tally: Tally,
    census: Census,
) -> Summary:
    """Build the summary of a corpus from what was counted over its input lines and over its parts."""
    versions = {DEFAULT_SCHEMA.label if name is None else name: count for name, count in tally.schema_versions.items()}
    return Summary(
        line_counts=line_counts,
        rejected_by_code=dict(sorted(rejected_by_code.items())),
        conflicts=Conflicts(
            identities=census.identities,
            records=census.records,
            examples=[_conflict_example(conflict) for conflict in census.examples],
        ),
        sample_hash=sample_hash,
        interaction_types=dict(sorted(tally.interaction_types.items())),
        schema_versions=dict(sorted(versions.items())),
        evaluations=list(_evaluations(tally, census)),
    )


def _evaluations(tally: Tally, census: Census) -> Iterator[EvaluationSummary]:
    by_evaluation: dict[bytes, list[tuple[bytes, ModelTally]]] = {}
    for (evaluation, model), counted in sorted(tally.models.items()):
        by_evaluation.setdefault(evaluation, []).append((model, counted))
    for evaluation, models in by_evaluation.items():
        questions = census.questions[evaluation]
        answering = sum(counted.records > counted.errors for _, counted in models)
        yield EvaluationSummary(
            evaluation_name=text_of(evaluation),
            records=sum(counted.records for _, counted in models),
            models=len(models),
            questions=questions.questions,
            questions_all_models=questions.by_models[len(models)],
            questions_answered_by_all=questions.by_answering[answering] if answering else 0,
            ids_with_many_hashes=questions.ids_with_many_hashes,
            hashes_with_many_ids=questions.hashes_with_many_ids,
            by_model=[
                model_summary(text_of(model), counted, questions.repeats.get(model, _NO_REPEATS))
                for model, counted in models
            ],
        )


def model_summary(name: str, counted: ModelTally, repeats: Repeats) -> ModelSummary:
    """Build the summary of a model on an evaluation."""
    buckets = [counted.latency_quantile(share) for share in (0.5, 0.9, 0.99)]
    p50, p90, p99 = (None if bucket is None else float(f"{bucket_value(bucket):.5g}") for bucket in buckets)
    sums = (counted.input_tokens, counted.output_tokens, counted.total_tokens)
    input_tokens, output_tokens, total_tokens = map(json_safe, sums)
    copied = {name: getattr(counted, name) for name in ("records", "correct", "errors", "turns", "tool_calls")}
    means = means_of(counted.answers(), repeats.without_errors, repeats.answers)._asdict()
    with_errors = means_of(counted.with_errors(), repeats.without_errors, repeats.records)._asdict()
    return ModelSummary(
        model_id=name,
        **copied,
        answers=counted.records - counted.errors,
        questions=with_errors.pop("questions"),
        questions_answered=means.pop("questions"),
        **means,
        errors_as_wrong=ErrorsAsWrong(**with_errors),
        tokens=Tokens(records=counted.with_tokens, input=input_tokens, output=output_tokens, total=total_tokens),
        latency_ms=Latency(records=counted.latency.total(), p50=p50, p90=p90, p99=p99),
        first_sample_id=json_safe(sample_id_of(counted.first)),
        last_sample_id=json_safe(sample_id_of(counted.last)),
    )


def _conflict_example(conflict: Conflict) -> ConflictExample:
    return ConflictExample(
        evaluation_name=text_of(conflict.evaluation),
        sample_id=json_safe(sample_id_of(conflict.sample_id)),
        model_id=text_of(conflict.model),
        evaluation_id=text_of(conflict.evaluation_id),
        records=conflict.records,
        sample_hashes=[text_of(sample_hash) for sample_hash in conflict.hashes],
    )
