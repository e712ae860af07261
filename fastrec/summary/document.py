"""`summary.json`: the content of a corpus.

It depends on the records alone: no time, no host, no path.

The JSON Schema of the document is generated from these classes and the comments above their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError
from msgspec.structs import replace

from fastrec.json_documents import CountsByName, indented_json
from fastrec.notebook import Rows, Tabular, flat
from fastrec.statistics.intervals import OptionalNumber
from fastrec.where import ScopeName, empty_group

_SUMMARY_FORMAT = 4

_Count = Annotated[int, Meta(ge=0)]
_Positive = Annotated[int, Meta(ge=1)]
_Share = Annotated[float, Meta(ge=0, le=1)]
SampleId = int | str
Kind = Literal["judgement", "cost", "bookkeeping"]
_MOST_BITS = 14_000
_PIECE_TEXTS = 1_000


def json_safe(value: int | str) -> int | str:
    """Make hexadecimal text of an integer that has more digits than JSON readers accept (4,300)."""
    if isinstance(value, str):
        return value
    return hex(value) if value.bit_length() > _MOST_BITS else int(value)


_Filled = TypeVar("_Filled", bound=Struct)


def filled(kind: type[_Filled], /, *sources: Any, **values: Any) -> _Filled:
    """Make a Struct of values, and of the fields of the same name that sources have.

    The first source counts.
    """
    fields = {
        name: getattr(source, name)
        for source in reversed(sources)
        for name in _common_fields(kind, source.__class__)
    }
    return kind(**fields | values)


@cache
def _common_fields(kind: type[Struct], source: type) -> list[str]:
    return [name for name in kind.__struct_fields__ if hasattr(source, name)]


class ScopeNames(Struct):
    """An evaluation and one of its metrics."""

    evaluation_name: str
    #: evaluation_result_id of the records; null if they have none.
    metric: str | None


class ModelNames(ScopeNames):
    """A model on an evaluation and one of its metrics."""

    model_id: str


class LineCounts(Struct):
    """Every line is accounted for: `lines = kept + duplicates + rejected + blank`."""

    #: Lines read, blank ones included.
    lines: _Count
    #: Records in the corpus.
    kept: _Count
    #: Records left out because an identical record stays.
    duplicates: _Count
    #: Lines in the rejects file.
    rejected: _Count
    #: Lines of white space only.
    blank: _Count


class RepairExample(Struct):
    """A change that a repair made to a record."""

    #: Of the repair.
    code: str
    evaluation_name: str
    model_id: str
    sample_id: SampleId
    #: JSON path of the first value that it changed.
    path: str
    #: What was there, and what became of it.
    message: str


class Repairable(Struct):
    """Rejected lines that `--repair all` would keep."""

    #: Number of lines.
    lines: _Count
    #: By the code of a repair; a line may have several.
    by_code: CountsByName


class Repaired(Repairable):
    """Valid lines, duplicates included, that `--repair` repaired."""

    #: The first 3 of each repair, by evaluation, model and sample.
    examples: list[RepairExample]


class EvaluatedModel(Struct):
    """A model on an evaluation, over all of its metrics."""

    evaluation_name: str
    model_id: str


class SameRunPair(EvaluatedModel):
    """Two runs of a model on an evaluation with records that are otherwise equal."""

    #: The `evaluation_id` that stays.
    kept: str
    #: The other; the same if only the schema version differs.
    dropped: str
    #: Number of records.
    records: _Positive


class SameRun(Struct):
    """Records that `--same-run ignore` drops."""

    #: Number of records: they count as duplicates.
    records: _Count
    #: The first 100 pairs of runs, by evaluation, model and run.
    runs: list[SameRunPair]


class IdentityExample(ScopeNames):
    """An identity with several records, and how many of them are of one kind."""

    sample_id: SampleId
    model_id: str
    evaluation_id: str
    #: Such records.
    records: _Positive
    #: Their hashes.
    sample_hashes: list[str]


class Identities(Struct):
    """Repeats or contradictions of one identity, records that options leave out included."""

    #: Identities with such records.
    identities: _Count
    #: Records of these identities.
    records: _Count
    #: The first 100, by evaluation, metric and sample.
    examples: list[IdentityExample]


class HashExample(EvaluatedModel):
    """A record whose sample_hash no recipe gives."""

    sample_id: SampleId
    #: In the line.
    given: str
    #: The correct one.
    computed: str


class ModelRecipes(EvaluatedModel):
    """The recipes of the hashes of one model on one evaluation, over all of its metrics."""

    #: Valid lines by recipe, as in `by_recipe`.
    recipes: CountsByName


class SampleHashes(Struct):
    """How the `sample_hash` of valid lines, with duplicates, compares with the computed one."""

    #: sha256 or xxh3_128.
    algorithm: str
    #: The recipe of the hashes in the corpus.
    recipe: str
    #: Lines whose hash is right by some recipe.
    verified: _Count
    #: Lines without one.
    filled: _Count
    #: Lines with a wrong one, which `--sample-hash fill` leaves in place.
    replaced: _Count
    #: By the recipe of their hash; `absent`: without a hash; `wrong`: by no recipe.
    by_recipe: CountsByName
    #: The same by evaluation and model.
    by_model: list[ModelRecipes]
    #: The first 10 wrong hashes, by evaluation, model and sample.
    examples: list[HashExample]


class Tokens(Struct, gc=False):
    """Sums over records with token usage; those of over 4,200 digits are hexadecimal text."""

    #: Number of records.
    records: _Count
    #: Input.
    input: _Count | str
    #: Output.
    output: _Count | str
    #: Total tokens.
    total: _Count | str


class Latency(Struct, gc=False):
    """Quantiles of `latency_ms` in ms (`p50`: the median), to a relative error of 1/128."""

    #: Number of records.
    records: _Count
    #: The quantile.
    p50: OptionalNumber
    #: The quantile.
    p90: OptionalNumber
    #: The quantile.
    p99: OptionalNumber


class ErrorsAsWrong(Struct, gc=False):
    """A model's numbers if records with an error count: as wrong, with the score that they have."""

    #: Mean over questions of the share of correct answers.
    accuracy: _Share
    #: Standard error over questions.
    accuracy_standard_error: OptionalNumber
    #: Mean over questions of the mean score, where true is 1; null if it overflows a double.
    mean_score: OptionalNumber
    #: Standard error over questions.
    score_standard_error: OptionalNumber


class ModelSummary(Struct):
    """One model on one metric. Means are over answers, then over questions, and rounded once."""

    model_id: str
    #: Records in the corpus: answers and errors.
    records: _Positive
    #: Records without an error.
    answers: _Count
    #: Records with a non-empty error.
    errors: _Count
    #: Questions with records.
    questions: _Positive
    #: Questions with answers.
    questions_answered: _Count
    #: Answers with `is_correct`; a record with an error is never correct.
    correct: _Count
    #: Mean over questions of the share of correct answers.
    accuracy: _Share | None
    #: Standard error over questions.
    accuracy_standard_error: OptionalNumber
    #: Mean over questions of the mean score, where true is 1; null if it overflows a double.
    mean_score: OptionalNumber
    #: Standard error over questions.
    score_standard_error: OptionalNumber
    #: The same if records with an error count as wrong, with the score that they have.
    errors_as_wrong: ErrorsAsWrong
    #: Interactions; a record without any counts as 1.
    turns: _Count
    #: Of all interactions.
    tool_calls: _Count
    tokens: Tokens
    latency_ms: Latency
    #: The lowest; integers come before strings.
    first_sample_id: SampleId
    #: The highest.
    last_sample_id: SampleId


class EvaluationSummary(ScopeNames, kw_only=True, omit_defaults=True):
    """One metric of an evaluation, or an evaluation without metrics, over all models."""

    #: Whether the metric is graded, or lower scores are better: then `is_correct` means little.
    graded: bool
    #: Records in the corpus.
    records: _Positive
    #: Distinct models.
    models: _Positive
    #: Distinct `sample_hash` values; of split hashes, `sample_id` values.
    questions: _Positive
    #: Questions that all models have records of.
    questions_all_models: _Count
    #: Questions answered by all models that have any answer.
    questions_answered_by_all: _Count
    #: Values of `sample_id` with several `sample_hash` values.
    ids_with_many_hashes: _Count
    #: Values of `sample_hash` with several `sample_id` values.
    hashes_with_many_ids: _Count
    #: Split hashes (docs/hashes.md).
    split_hashes: _Count = 0
    #: The kind of metric (docs/leaderboard.md#kinds-and-directions-of-metrics); absent: judgement.
    kind: Kind = "judgement"
    #: As metadata.lower_is_better of a record says.
    lower_is_better: bool = False
    #: As metadata.primary_metric of a record says.
    primary: bool = False
    #: By `model_id`. Means are over answers, then over questions, and rounded once.
    by_model: list[ModelSummary]

    @property
    def other_scale(self) -> bool:
        """Whether scores have another scale than 0 to 1: the mean of a model is beyond it.

        A single score beyond it may be a mistake.
        """
        means = [model.mean_score for model in self.by_model if model.answers]
        return any(mean is None or not 0 <= mean <= 1 for mean in means)


class LabelCounts(Struct):
    """What became of the labels of `--labels`; absent without it."""

    #: In the file.
    labels: int
    #: Labels that a later one replaces.
    superseded: int
    #: Records with another verdict than before.
    changed: int
    #: Records that already had this verdict.
    confirmed: int
    #: Labels that match no record.
    unmatched: int
    #: Labels that match several.
    ambiguous: int


class FixCounts(Struct):
    """What became of the corrected lines of `--fixes`; absent without it."""

    #: Lines that differ from the rejected ones.
    given: int
    #: Valid ones; they count as kept, duplicate or filtered out.
    fixed: int
    #: Invalid ones.
    rejected: int
    #: Those without such a rejected line at their place.
    unmatched: int


class _Format(Struct):
    format: Any = None


class Summary(Tabular, kw_only=True):
    """Summary of a corpus."""

    #: Version of this document's format.
    format: int = _SUMMARY_FORMAT
    #: Schema version of the corpus.
    schema: str
    line_counts: LineCounts
    #: Valid lines, duplicates included, by schema version.
    versions: CountsByName
    #: By code, valid lines with a label or turns of another version, and lines that an upgrade or a
    #: repair changed.
    notes: CountsByName
    #: Valid lines by the rule of `--map` for their names.
    renamed: CountsByName | UnsetType = UNSET
    #: What became of `--labels`.
    labels: LabelCounts | UnsetType = UNSET
    #: What became of the corrected lines of `--fixes`.
    fixes: FixCounts | UnsetType = UNSET
    #: By the code of their first error.
    rejected_by_code: CountsByName
    repaired: Repaired
    repairable: Repairable
    #: Records that an epoch, a trial or the output tells apart.
    repeats: Identities
    #: Records with the same output and different verdicts.
    contradictions: Identities
    same_run: SameRun
    sample_hash: SampleHashes
    #: Kept records.
    interaction_types: CountsByName
    #: Kept records.
    schema_versions: CountsByName
    #: By evaluation and metric.
    evaluations: list[EvaluationSummary]

    def rows(self) -> Rows:
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
        format_ = msgspec.json.decode(data, type=_Format).format
        if isinstance(format_, int) and format_ != _SUMMARY_FORMAT:
            raise ValidationError(
                f"its format is {format_}, and this version of fastrec reads {_SUMMARY_FORMAT}"
            )
        return msgspec.json.decode(data, type=cls)


def scope_rows(evaluations: Sequence[Any], items: str) -> Rows:
    """A row for each item of a list of each evaluation and metric; those of groups say which."""
    no_group = empty_group(evaluations)
    rows = []
    for evaluation in evaluations:
        group = getattr(evaluation, "group", None) or {}
        names = {"evaluation_name": evaluation.evaluation_name, "metric": evaluation.metric}
        rows += [flat(item, names) | no_group | group for item in getattr(evaluation, items)]
    return rows


# An evaluation_name, a metric and a model_id.
ModelName = tuple[str, str | None, str]


def scope_order(scope: ScopeName) -> tuple[str, bool, str]:
    """A sort key of evaluations and metrics: records without a metric come first."""
    evaluation, metric = scope
    return evaluation, metric is not None, metric or ""


def _evaluation(evaluation: EvaluationSummary) -> Iterator[bytes]:
    return _listing(
        evaluation, "by_model", ([indented_json(model).rstrip()] for model in evaluation.by_model)
    )


def _listing(document: Struct, last: str, items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the text of a document, and of the items of the list that is its last field."""
    yield indented_json(replace(document, **{last: []})).removesuffix(b"]\n}\n")
    separator = b"\n    "
    end = b"]\n}"
    for item in items:
        yield separator
        for text in item:
            yield text.replace(b"\n", b"\n    ")  # a line break in a string is escaped
        separator = b",\n    "
        end = b"\n  ]\n}"
    yield end
