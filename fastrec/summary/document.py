"""`summary.json`: the content of a corpus.

It depends on the records alone: no time, no host, no path.

The JSON Schema of the document is generated from these classes and the docstrings of their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from fastrec.notebook import Rows, Tabular, flat

_SUMMARY_FORMAT = 4

_Count = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_SampleId = int | str
Kind = Literal["judgement", "cost", "bookkeeping"]
_MOST_BITS = 14_000
_PIECE_TEXTS = 1_000


def json_safe(value: int | str) -> int | str:
    """Make hexadecimal text of an integer that has more digits than JSON readers accept (4,300)."""
    if isinstance(value, str):
        return value
    return hex(value) if value.bit_length() > _MOST_BITS else int(value)


_Filled = TypeVar("_Filled", bound=msgspec.Struct)


def filled(kind: type[_Filled], /, *sources: Any, **values: Any) -> _Filled:
    """Make a Struct of values, and of the fields of the same name that sources have.

    The first source counts.
    """
    found = {
        name: getattr(source, name)
        for source in reversed(sources)
        for name in _common_fields(kind, source.__class__)
    }
    return kind(**found | values)


@cache
def _common_fields(kind: type[msgspec.Struct], source: type) -> list[str]:
    return [name for name in kind.__struct_fields__ if hasattr(source, name)]


class ScopeNames(msgspec.Struct):
    """An evaluation and one of its metrics."""

    evaluation_name: str
    metric: str | None
    """evaluation_result_id of the records; null if they have none."""


class ModelNames(ScopeNames):
    """A model on an evaluation and one of its metrics."""

    model_id: str


class LineCounts(msgspec.Struct, kw_only=True):
    """Every line is accounted for: `lines = kept + duplicates + rejected + blank`."""

    lines: _Count
    """Lines read, blank ones included."""
    kept: _Count
    """Records in the corpus."""
    duplicates: _Count
    """Records dropped because an identical one was kept."""
    rejected: _Count
    """Lines in the rejects file."""
    blank: _Count
    """Lines of white space only."""


class RepairExample(msgspec.Struct, kw_only=True):
    """A change that a repair made to a record."""

    code: str
    """The code of the repair."""
    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    path: str
    """JSON path of the first value that the repair changed."""
    message: str
    """What was there, and what became of it."""


class Repaired(msgspec.Struct, kw_only=True):
    """Valid lines, duplicates included, that `--repair` repaired."""

    lines: _Count
    """Repaired lines."""
    by_code: dict[str, int]
    """These lines by the code of a repair; a line may have several repairs."""
    examples: list[RepairExample]
    """The first 3 lines of each repair, by evaluation, model and sample."""


class Repairable(msgspec.Struct, kw_only=True):
    """Rejected lines that `--repair all` would keep."""

    lines: _Count
    """Rejected lines that would be kept."""
    by_code: dict[str, int]
    """These lines by the code of a repair; a line may need several repairs."""


class SameRunPair(msgspec.Struct):
    """Two runs of a model on an evaluation with records that are otherwise equal."""

    evaluation_name: str
    model_id: str
    kept: str
    """evaluation_id of the records that stay."""
    dropped: str
    """evaluation_id of the records dropped; the same one if only their schema_version differs."""
    records: _Positive
    """Records dropped."""


class SameRun(msgspec.Struct, kw_only=True):
    """Records that `--same-run ignore` drops: only evaluation_id and schema_version differ."""

    records: _Count
    """Records dropped; they count as duplicates."""
    runs: list[SameRunPair]
    """These records by runs: the first 100 pairs, by evaluation_name, model_id and
    evaluation_id."""


class IdentityExample(ScopeNames, kw_only=True):
    """An identity with several records, and how many of them are of one kind."""

    sample_id: _SampleId
    model_id: str
    evaluation_id: str
    records: _Positive
    """Its records of this kind."""
    sample_hashes: list[str]
    """Their sample_hash values."""


class Identities(msgspec.Struct, kw_only=True):
    """Repeats or contradictions of one identity, records that options leave out included."""

    identities: _Count
    """Identities with records of this kind."""
    records: _Count
    """Their records of this kind."""
    examples: list[IdentityExample]
    """The first 100 of them, by evaluation_name, metric and sample_id."""


class HashExample(msgspec.Struct, kw_only=True):
    """A record whose sample_hash no recipe gives."""

    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    given: str
    """The hash in the line."""
    computed: str
    """The correct hash."""


class ModelRecipes(msgspec.Struct):
    """The recipes of the hashes of one model on one evaluation, over all of its metrics."""

    evaluation_name: str
    model_id: str
    recipes: dict[str, int]
    """Valid lines by recipe, as in by_recipe."""


class SampleHashes(msgspec.Struct, kw_only=True):
    """How the `sample_hash` of valid lines, with duplicates, compares with the computed one."""

    algorithm: str
    """sha256 or xxh3_128."""
    recipe: str
    """The recipe of the hashes in the corpus."""
    verified: _Count
    """Lines whose hash is right by some recipe."""
    filled: _Count
    """Lines without a hash."""
    replaced: _Count
    """Lines with a wrong hash; --sample-hash fill leaves it in place."""
    by_recipe: dict[str, int]
    """Valid lines by the recipe of their hash; `absent`: without a hash; `wrong`: by no recipe."""
    by_model: list[ModelRecipes]
    """The same, by evaluation_name and model_id."""
    examples: list[HashExample]
    """The first 10 wrong hashes, by name, model and id."""


class Tokens(msgspec.Struct, gc=False):
    """Sums over all records with token usage; those of over 4,200 digits are hexadecimal text."""

    records: _Count
    """Records with a token_usage."""
    input: _Count | str
    """Sum of token_usage.input_tokens."""
    output: _Count | str
    """Sum of token_usage.output_tokens."""
    total: _Count | str
    """Sum of token_usage.total_tokens."""


class Latency(msgspec.Struct, gc=False):
    """Quantiles of `performance.latency_ms`, with a relative error of at most 1/128."""

    records: _Count
    """Records with a latency."""
    p50: float | None
    """Median, in milliseconds."""
    p90: float | None
    """90th percentile."""
    p99: float | None
    """99th percentile."""


class ErrorsAsWrong(msgspec.Struct, kw_only=True, gc=False):
    """A model's numbers if records with an error count: as wrong, with the score that they have."""

    accuracy: _Share
    """Mean over questions of the share of correct records."""
    accuracy_standard_error: float | None
    """Its standard error, over questions; null for a single question."""
    mean_score: float | None
    """Mean over questions of the mean score; null if it overflows a double."""
    score_standard_error: float | None
    """Its standard error, over questions; null for a single question."""


class ModelSummary(msgspec.Struct, kw_only=True):
    """One model on one metric. Means are over answers, then over questions, and rounded once."""

    model_id: str
    records: _Positive
    """Its records in the corpus: answers + errors."""
    answers: _Count
    """Records without an error."""
    errors: _Count
    """Records with a non-empty error."""
    questions: _Positive
    """Questions that it has records of."""
    questions_answered: _Count
    """Questions that it has answers to."""
    correct: _Count
    """Answers with evaluation.is_correct. A record with an error is never correct."""
    accuracy: _Share | None
    """Mean over questions of the share of correct answers; null without answers."""
    accuracy_standard_error: float | None
    """Its standard error, over questions; null for fewer than two questions."""
    mean_score: float | None
    """Mean over questions of the mean of evaluation.score, where true counts as 1; null without
    answers, or if it overflows a double."""
    score_standard_error: float | None
    """Its standard error, over questions; null for fewer than two questions."""
    errors_as_wrong: ErrorsAsWrong
    """The same numbers if records with an error count, too."""
    turns: _Count
    """Interactions; a record without interactions counts as 1."""
    tool_calls: _Count
    """Tool calls of all interactions."""
    tokens: Tokens
    latency_ms: Latency
    first_sample_id: _SampleId
    """The lowest sample_id; integers before strings."""
    last_sample_id: _SampleId
    """The highest sample_id."""


class EvaluationSummary(ScopeNames, kw_only=True, omit_defaults=True):
    """One metric of an evaluation, or an evaluation without metrics, over all models."""

    graded: bool
    """Whether an answer has a score other than 0 and 1, or lower scores are better. Then is_correct
    means little."""
    records: _Positive
    """Its records in the corpus."""
    models: _Positive
    """Distinct models."""
    questions: _Positive
    """Questions: sample_hash values; of split hashes, their sample_id values."""
    questions_all_models: _Count
    """Questions that all models have records of."""
    questions_answered_by_all: _Count
    """Questions answered by all models that have any answer; 0 if no model has one."""
    ids_with_many_hashes: _Count
    """sample_id values with several sample_hash values."""
    hashes_with_many_ids: _Count
    """sample_hash values with several sample_id values."""
    split_hashes: _Count = 0
    """Those that one run of a model has under several sample_id values: each sample_id is a
    question. Left out if there are none."""
    kind: Kind = "judgement"
    """judgement, cost or bookkeeping, as metadata.metric_kind says. If no record says it: judgement
    if all scores are in [0, 1] or is_correct varies, else bookkeeping. Left out if it is
    judgement."""
    lower_is_better: bool = False
    """Whether metadata.lower_is_better of a record says so. Left out if none does."""
    primary: bool = False
    """Whether metadata.primary_metric of a record says so. Left out if none does."""
    by_model: list[ModelSummary]
    """Its models, sorted by model_id."""

    @property
    def other_scale(self) -> bool:
        """Whether scores have another scale than 0 to 1: the mean of a model is beyond it.

        A single score beyond it may be a mistake.
        """
        means = [model.mean_score for model in self.by_model if model.answers]
        return any(mean is None or not 0 <= mean <= 1 for mean in means)


class LabelCounts(msgspec.Struct, kw_only=True):
    """What became of the labels of `--labels`; absent without it."""

    labels: int
    """Labels in the file."""
    superseded: int
    """Labels that a later one for the same answer replaces."""
    changed: int
    """Records with another verdict than before."""
    confirmed: int
    """Records that already had the verdict of their label."""
    unmatched: int
    """Labels that match no record."""
    ambiguous: int
    """Labels that match several records."""


class FixCounts(msgspec.Struct, kw_only=True):
    """What became of the corrected lines of `--fixes`; absent without it."""

    given: int
    """Lines that differ from the rejected ones."""
    fixed: int
    """Those that are valid; they count as kept, duplicate or filtered out."""
    rejected: int
    """Those that are not valid either."""
    unmatched: int
    """Those whose place in the input has no such rejected line."""


class _Format(msgspec.Struct):
    format: Any = None


class Summary(Tabular, kw_only=True):
    """Summary of a corpus."""

    format: int = _SUMMARY_FORMAT
    """Version of this document's format."""
    schema: str
    """Schema version of the corpus."""
    line_counts: LineCounts
    versions: dict[str, int]
    """Valid lines, duplicates included, by their own schema version."""
    notes: dict[str, int]
    """By code, valid lines with a label or turns of another version, and those that an upgrade or a
    repair changed."""
    renamed: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Valid lines, duplicates included, by the rule of --map for their names; absent without
    --map."""
    labels: LabelCounts | msgspec.UnsetType = msgspec.UNSET
    """What became of labels; absent without --labels."""
    fixes: FixCounts | msgspec.UnsetType = msgspec.UNSET
    """What became of fixes; absent without --fixes."""
    rejected_by_code: dict[str, int]
    """Rejected lines by the code of their first error."""
    repaired: Repaired
    repairable: Repairable
    repeats: Identities
    """Records of one identity that an epoch, a trial or the output tells apart."""
    contradictions: Identities
    """Records of one identity with the same output and different verdicts."""
    same_run: SameRun
    sample_hash: SampleHashes
    interaction_types: dict[str, int]
    """Kept records by interaction_type."""
    schema_versions: dict[str, int]
    """Kept records by schema_version."""
    evaluations: list[EvaluationSummary]
    """All evaluations, by name, then by metric."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each evaluation, metric and model."""
        return scope_rows(self.evaluations, "by_model")

    def to_json(self) -> bytes:
        return b"".join(self.json_pieces())

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the text of the document in pieces: it may take more memory than the summary."""
        texts = _listing(self, "evaluations", map(_evaluation, self.evaluations))
        while piece := b"".join(islice(texts, _PIECE_TEXTS)):
            yield piece
        yield b"\n"

    @classmethod
    def from_json(cls, data: bytes) -> Summary:
        """MsgspecError if it is not a summary, or has another format."""
        found = msgspec.json.decode(data, type=_Format).format
        if isinstance(found, int) and found != _SUMMARY_FORMAT:
            raise msgspec.ValidationError(
                f"its format is {found}, and this version of fastrec reads {_SUMMARY_FORMAT}"
            )
        return msgspec.json.decode(data, type=cls)


def scope_rows(evaluations: Sequence[Any], items: str) -> Rows:
    """A row for each item of a list of each evaluation and metric; those of groups say which."""
    groups = [getattr(evaluation, "group", None) or {} for evaluation in evaluations]
    no_group = dict.fromkeys(chain.from_iterable(groups))
    rows: Rows = []
    for evaluation, group in zip(evaluations, groups, strict=True):
        names = {"evaluation_name": evaluation.evaluation_name, "metric": evaluation.metric}
        rows += [flat(item, names) | no_group | group for item in getattr(evaluation, items)]
    return rows


# An evaluation_name, a metric and a model_id.
ModelName = tuple[str, str | None, str]


def scope_order(scope: tuple[str, str | None]) -> tuple[str, bool, str]:
    """A sort key of evaluations and metrics: records without a metric come first."""
    evaluation, metric = scope
    return evaluation, metric is not None, metric or ""


def _evaluation(evaluation: EvaluationSummary) -> Iterator[bytes]:
    return _listing(evaluation, "by_model", ([_formatted(model)] for model in evaluation.by_model))


def _listing(
    document: msgspec.Struct, last: str, items: Iterable[Iterable[bytes]]
) -> Iterator[bytes]:
    """Yield the text of a document, and of the items of the list that is its last field."""
    yield _formatted(msgspec.structs.replace(document, **{last: []})).removesuffix(b"]\n}")
    separator = b"\n    "
    end = b"]\n}"
    for item in items:
        yield separator
        for text in item:
            yield text.replace(b"\n", b"\n    ")  # a line break in a string is escaped
        separator = b",\n    "
        end = b"\n  ]\n}"
    yield end


def _formatted(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
