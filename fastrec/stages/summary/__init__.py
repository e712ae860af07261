"""The summary of a corpus: rows that travel with keys, tallies that add up, a census of samples, the document."""

from fastrec.stages.summary.census import (
    CONFLICT_EXAMPLES,
    Answered,
    Conflict,
    Entry,
    Samples,
    count_conflicts,
    count_samples,
    take_census,
)
from fastrec.stages.summary.document import (
    Books,
    ConflictExample,
    Conflicts,
    EvaluationSummary,
    HashExample,
    Latency,
    ModelSummary,
    SampleHashes,
    Summary,
    Tokens,
    sayable,
)
from fastrec.stages.summary.rows import Column, bucket_value, row_of
from fastrec.stages.summary.tally import ModelTally, Tally

__all__ = [
    "CONFLICT_EXAMPLES",
    "Answered",
    "Books",
    "Column",
    "Conflict",
    "ConflictExample",
    "Conflicts",
    "Entry",
    "EvaluationSummary",
    "HashExample",
    "Latency",
    "ModelSummary",
    "ModelTally",
    "SampleHashes",
    "Samples",
    "Summary",
    "Tally",
    "Tokens",
    "bucket_value",
    "count_conflicts",
    "count_samples",
    "row_of",
    "sayable",
    "take_census",
]
