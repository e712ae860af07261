"""`summary.json`: what is in a corpus, field by field. It depends on the records alone: no time, no host, no path.

Each field is documented where it is declared; the JSON Schema that ships with the package is made from these classes.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

__all__ = [
    "SUMMARY_FORMAT",
    "ConflictExample",
    "Conflicts",
    "EvaluationSummary",
    "HashExample",
    "Latency",
    "LineCounts",
    "ModelSummary",
    "SampleHashes",
    "Summary",
    "Tokens",
    "json_safe",
]

SUMMARY_FORMAT: Final = 2

Count = Annotated[int, Meta(ge=0)]
SampleId = int | str
_MOST_BITS: Final = 14_000


def json_safe(value: int | str) -> int | str:
    """Spell an integer of more digits than most readers of JSON take (4,300) in hexadecimal, as text."""
    if isinstance(value, str):
        return value
    return hex(value) if value.bit_length() > _MOST_BITS else int(value)


class Base(msgspec.Struct, kw_only=True):
    """What the classes of the summary have in common: fields are named, never positional."""


class LineCounts(Base, kw_only=True):
    """Every line is accounted for: `lines = kept + duplicates + rejected + blank`."""

    lines: Annotated[int, Meta(ge=0, description="Lines read, blank ones included.")]
    kept: Annotated[int, Meta(ge=0, description="Records in the corpus.")]
    duplicates: Annotated[int, Meta(ge=0, description="Records dropped because an exact copy was kept.")]
    rejected: Annotated[int, Meta(ge=0, description="Lines in the rejects file.")]
    blank: Annotated[int, Meta(ge=0, description="Lines of white space alone.")]


class ConflictExample(Base, kw_only=True):
    """An identity with several records."""

    evaluation_name: str
    sample_id: SampleId
    model_id: str
    evaluation_id: str
    records: Annotated[int, Meta(ge=2, description="Different records with this identity.")]
    sample_hashes: Annotated[list[str], Meta(description="The sample_hash values they carry.")]


class Conflicts(Base, kw_only=True):
    """Identities (evaluation_id, evaluation_name, model_id, sample_id) that several different records share."""

    identities: Annotated[int, Meta(ge=0, description="Identities with several records.")]
    records: Annotated[int, Meta(ge=0, description="Records that share an identity with another.")]
    examples: Annotated[
        list[ConflictExample], Meta(description="The first of them by evaluation_name and sample_id, at most 100.")
    ]


class HashExample(Base, kw_only=True):
    """A line whose sample_hash was not the computed one."""

    evaluation_name: str
    model_id: str
    sample_id: SampleId
    given: Annotated[str, Meta(description="The one it came with.")]
    computed: Annotated[str, Meta(description="The one it should have.")]


class SampleHashes(Base, kw_only=True):
    """How the `sample_hash` of valid lines, copies included, compared with the computed one."""

    algorithm: Annotated[str, Meta(description="sha256 or xxh3_128.")]
    verified: Annotated[int, Meta(ge=0, description="Lines that came with the computed hash.")]
    filled: Annotated[int, Meta(ge=0, description="Lines that came without one.")]
    replaced: Annotated[
        int, Meta(ge=0, description="Lines that came with another one; left as given with --sample-hash fill.")
    ]
    examples: Annotated[list[HashExample], Meta(description="The first of those by name, model and id, at most 10.")]


class Tokens(Base, kw_only=True):
    """Sums over the records that say their token usage; one of more than 4,200 digits is hexadecimal, as text."""

    records: Annotated[int, Meta(ge=0, description="Records with a token_usage.")]
    input: Annotated[Count | str, Meta(description="Sum of token_usage.input_tokens.")]
    output: Annotated[Count | str, Meta(description="Sum of token_usage.output_tokens.")]
    total: Annotated[Count | str, Meta(description="Sum of token_usage.total_tokens.")]


class Latency(Base, kw_only=True):
    """Quantiles of `performance.latency_ms`, each to within 1/128 of itself."""

    records: Annotated[int, Meta(ge=0, description="Records with a latency.")]
    p50: Annotated[float | None, Meta(description="Half of them took no longer, in milliseconds.")]
    p90: Annotated[float | None, Meta(description="Nine in ten took no longer.")]
    p99: Annotated[float | None, Meta(description="99 in 100 took no longer.")]


class ModelSummary(Base, kw_only=True):
    """One model on one evaluation."""

    model_id: str
    records: Annotated[int, Meta(ge=1, description="Its records in the corpus.")]
    questions: Annotated[int, Meta(ge=1, description="Distinct samples answered, told apart by sample_hash.")]
    correct: Annotated[int, Meta(ge=0, description="Records with evaluation.is_correct.")]
    accuracy: Annotated[float, Meta(ge=0, le=1, description="correct / records.")]
    mean_score: Annotated[
        float | None, Meta(description="Exact sum of evaluation.score over records, rounded once; true is 1.")
    ]
    score_standard_error: Annotated[
        float | None, Meta(description="Of the mean, from the sample variance; null for a single record.")
    ]
    errors: Annotated[int, Meta(ge=0, description="Records with a non-empty error.")]
    turns: Annotated[int, Meta(ge=0, description="Interactions in all; a single turn counts 1.")]
    tool_calls: Annotated[int, Meta(ge=0, description="Tool calls in all interactions.")]
    tokens: Tokens
    latency_ms: Latency
    first_sample_id: Annotated[SampleId, Meta(description="The lowest sample_id; integers before strings.")]
    last_sample_id: Annotated[SampleId, Meta(description="The highest sample_id.")]


class EvaluationSummary(Base, kw_only=True):
    """One evaluation, over all models."""

    evaluation_name: str
    records: Annotated[int, Meta(ge=1, description="Its records in the corpus.")]
    models: Annotated[int, Meta(ge=1, description="Distinct models.")]
    questions: Annotated[int, Meta(ge=1, description="Distinct samples, told apart by sample_hash.")]
    questions_all_models: Annotated[int, Meta(ge=0, description="Samples that every one of the models answered.")]
    ids_with_many_hashes: Annotated[int, Meta(ge=0, description="sample_ids that carry more than one sample_hash.")]
    hashes_with_many_ids: Annotated[int, Meta(ge=0, description="sample_hashes that carry more than one sample_id.")]
    by_model: Annotated[list[ModelSummary], Meta(description="By model_id.")]


class Summary(Base, kw_only=True):
    """What is in a corpus."""

    format: Annotated[int, Meta(description="Version of this document's format.")] = SUMMARY_FORMAT
    line_counts: LineCounts
    rejected_by_code: Annotated[dict[str, int], Meta(description="Rejected lines by the code of their first error.")]
    conflicts: Conflicts
    sample_hash: SampleHashes
    interaction_types: Annotated[dict[str, int], Meta(description="FileDigest records by interaction_type.")]
    schema_versions: Annotated[dict[str, int], Meta(description="FileDigest records by schema_version.")]
    evaluations: Annotated[list[EvaluationSummary], Meta(description="By evaluation_name.")]

    def to_json(self) -> bytes:
        """Spell the document: indented, non-ASCII as itself, a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
