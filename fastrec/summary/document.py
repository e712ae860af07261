"""`summary.json`: the content of a corpus. It depends on the records alone: no time, no host, no path.

The JSON Schema of the document is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

_SUMMARY_FORMAT: Final = 4

_Count = Annotated[int, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_SampleId = int | str
Kind = Literal["judgement", "cost", "bookkeeping"]
_MOST_BITS: Final = 14_000
_PIECE_TEXTS: Final = 1_000


def json_safe(value: int | str) -> int | str:
    """Make hexadecimal text of an integer with more digits than most JSON readers accept (4,300)."""
    if isinstance(value, str):
        return value
    return hex(value) if value.bit_length() > _MOST_BITS else int(value)


_Filled = TypeVar("_Filled", bound=msgspec.Struct)


def filled(kind: type[_Filled], *sources: object, **values: Any) -> _Filled:
    """Make a Struct of values, and of the fields of the same name that sources have; the first source counts."""
    fields = kind.__struct_fields__
    found = {name: getattr(one, name) for one in reversed(sources) for name in fields if hasattr(one, name)}
    return kind(**found | values)


class LineCounts(msgspec.Struct, kw_only=True):
    """Every line is accounted for: `lines = kept + duplicates + rejected + blank`."""

    lines: Annotated[int, Meta(ge=0, description="Lines read, blank ones included.")]
    kept: Annotated[int, Meta(ge=0, description="Records in the corpus.")]
    duplicates: Annotated[int, Meta(ge=0, description="Records dropped because an identical one was kept.")]
    rejected: Annotated[int, Meta(ge=0, description="Lines in the rejects file.")]
    blank: Annotated[int, Meta(ge=0, description="Lines of white space only.")]


class RepairExample(msgspec.Struct, kw_only=True):
    """A change that a repair made to a record."""

    code: Annotated[str, Meta(description="The code of the repair.")]
    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    path: Annotated[str, Meta(description="JSON path of the first value that the repair changed.")]
    message: Annotated[str, Meta(description="What was there, and what became of it.")]


class Repaired(msgspec.Struct, kw_only=True):
    """Valid lines, duplicates included, that `--repair` repaired."""

    lines: Annotated[int, Meta(ge=0, description="Repaired lines.")]
    by_code: Annotated[
        dict[str, int], Meta(description="These lines by the code of a repair; a line may have several repairs.")
    ]
    examples: Annotated[
        list[RepairExample], Meta(description="The first 3 lines of each repair, by evaluation, model and sample.")
    ]


class Repairable(msgspec.Struct, kw_only=True):
    """Rejected lines that `--repair all` would keep."""

    lines: Annotated[int, Meta(ge=0, description="Rejected lines that would be kept.")]
    by_code: Annotated[
        dict[str, int], Meta(description="These lines by the code of a repair; a line may need several repairs.")
    ]


class SameRunPair(msgspec.Struct, kw_only=True):
    """Two runs of a model on an evaluation with records that are otherwise equal."""

    evaluation_name: str
    model_id: str
    kept: Annotated[str, Meta(description="evaluation_id of the records that stay.")]
    dropped: Annotated[
        str,
        Meta(description="evaluation_id of the records dropped; the same one if only their schema_version differs."),
    ]
    records: Annotated[int, Meta(ge=1, description="Records dropped.")]


class SameRun(msgspec.Struct, kw_only=True):
    """Records dropped by `--same-run ignore`: equal to a kept one but for evaluation_id and schema_version."""

    records: Annotated[int, Meta(ge=0, description="Records dropped; they count as duplicates.")]
    runs: Annotated[
        list[SameRunPair],
        Meta(description="These records by runs: the first 100 pairs, by evaluation_name, model_id and evaluation_id."),
    ]


class IdentityExample(msgspec.Struct, kw_only=True):
    """An identity with several records, and how many of them are of one kind."""

    evaluation_name: str
    metric: Annotated[str | None, Meta(description="evaluation_result_id of the records; null if they have none.")]
    sample_id: _SampleId
    model_id: str
    evaluation_id: str
    records: Annotated[int, Meta(ge=1, description="Its records of this kind.")]
    sample_hashes: Annotated[list[str], Meta(description="Their sample_hash values.")]


class Identities(msgspec.Struct, kw_only=True):
    """Repeats or contradictions among the records of an identity; records that options leave out count, too."""

    identities: Annotated[int, Meta(ge=0, description="Identities with records of this kind.")]
    records: Annotated[int, Meta(ge=0, description="Their records of this kind.")]
    examples: Annotated[
        list[IdentityExample], Meta(description="The first 100 of them, by evaluation_name, metric and sample_id.")
    ]


class HashExample(msgspec.Struct, kw_only=True):
    """A record whose sample_hash no recipe gives."""

    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    given: Annotated[str, Meta(description="The hash in the line.")]
    computed: Annotated[str, Meta(description="The correct hash.")]


class ModelRecipes(msgspec.Struct, kw_only=True):
    """The recipes of the hashes of one model on one evaluation, over all of its metrics."""

    evaluation_name: str
    model_id: str
    recipes: Annotated[dict[str, int], Meta(description="Valid lines by recipe, as in by_recipe.")]


class SampleHashes(msgspec.Struct, kw_only=True):
    """How the `sample_hash` of valid lines, duplicates included, compares with the computed hashes."""

    algorithm: Annotated[str, Meta(description="sha256 or xxh3_128.")]
    recipe: Annotated[str, Meta(description="The recipe of the hashes in the corpus.")]
    verified: Annotated[int, Meta(ge=0, description="Lines whose hash is right by some recipe.")]
    filled: Annotated[int, Meta(ge=0, description="Lines without a hash.")]
    replaced: Annotated[int, Meta(ge=0, description="Lines with a wrong hash; --sample-hash fill leaves it in place.")]
    by_recipe: Annotated[
        dict[str, int],
        Meta(description="Valid lines by the recipe of their hash; `absent`: without a hash; `wrong`: by no recipe."),
    ]
    by_model: Annotated[list[ModelRecipes], Meta(description="The same, by evaluation_name and model_id.")]
    examples: Annotated[list[HashExample], Meta(description="The first 10 wrong hashes, by name, model and id.")]


class Tokens(msgspec.Struct, kw_only=True, gc=False):
    """Sums over all records with a token usage. A sum of more than 4,200 digits is hexadecimal text."""

    records: Annotated[int, Meta(ge=0, description="Records with a token_usage.")]
    input: Annotated[_Count | str, Meta(description="Sum of token_usage.input_tokens.")]
    output: Annotated[_Count | str, Meta(description="Sum of token_usage.output_tokens.")]
    total: Annotated[_Count | str, Meta(description="Sum of token_usage.total_tokens.")]


class Latency(msgspec.Struct, kw_only=True, gc=False):
    """Quantiles of `performance.latency_ms`, with a relative error of at most 1/128."""

    records: Annotated[int, Meta(ge=0, description="Records with a latency.")]
    p50: Annotated[float | None, Meta(description="Median, in milliseconds.")]
    p90: Annotated[float | None, Meta(description="90th percentile.")]
    p99: Annotated[float | None, Meta(description="99th percentile.")]


class ErrorsAsWrong(msgspec.Struct, kw_only=True, gc=False):
    """A model's numbers if records with an error count as well: as wrong, and with the score that they have."""

    accuracy: Annotated[_Share, Meta(description="Mean over questions of the share of correct records.")]
    accuracy_standard_error: Annotated[
        float | None, Meta(description="Its standard error, over questions; null for a single question.")
    ]
    mean_score: Annotated[
        float | None, Meta(description="Mean over questions of the mean score; null if it overflows a double.")
    ]
    score_standard_error: Annotated[
        float | None, Meta(description="Its standard error, over questions; null for a single question.")
    ]


class ModelSummary(msgspec.Struct, kw_only=True):
    """One model on one metric. Means are over its answers to a question, then over questions, and rounded once."""

    model_id: str
    records: Annotated[int, Meta(ge=1, description="Its records in the corpus: answers + errors.")]
    answers: Annotated[int, Meta(ge=0, description="Records without an error.")]
    errors: Annotated[int, Meta(ge=0, description="Records with a non-empty error.")]
    questions: Annotated[int, Meta(ge=1, description="Questions that it has records of.")]
    questions_answered: Annotated[int, Meta(ge=0, description="Questions that it has answers to.")]
    correct: Annotated[
        int, Meta(ge=0, description="Answers with evaluation.is_correct. A record with an error is never correct.")
    ]
    accuracy: Annotated[
        _Share | None, Meta(description="Mean over questions of the share of correct answers; null without answers.")
    ]
    accuracy_standard_error: Annotated[
        float | None, Meta(description="Its standard error, over questions; null for fewer than two questions.")
    ]
    mean_score: Annotated[
        float | None,
        Meta(
            description="Mean over questions of the mean of evaluation.score, where true counts as 1; null without "
            "answers, or if it overflows a double."
        ),
    ]
    score_standard_error: Annotated[
        float | None, Meta(description="Its standard error, over questions; null for fewer than two questions.")
    ]
    errors_as_wrong: Annotated[ErrorsAsWrong, Meta(description="The same numbers if records with an error count, too.")]
    turns: Annotated[int, Meta(ge=0, description="Interactions; a record without interactions counts as 1.")]
    tool_calls: Annotated[int, Meta(ge=0, description="Tool calls of all interactions.")]
    tokens: Tokens
    latency_ms: Latency
    first_sample_id: Annotated[_SampleId, Meta(description="The lowest sample_id; integers before strings.")]
    last_sample_id: Annotated[_SampleId, Meta(description="The highest sample_id.")]


class EvaluationSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One metric of an evaluation, or an evaluation without metrics, over all models."""

    evaluation_name: str
    metric: Annotated[str | None, Meta(description="evaluation_result_id of the records; null if they have none.")]
    graded: Annotated[
        bool,
        Meta(
            description="Whether an answer has a score other than 0 and 1, or lower scores are better. Then is_correct "
            "means little."
        ),
    ]
    records: Annotated[int, Meta(ge=1, description="Its records in the corpus.")]
    models: Annotated[int, Meta(ge=1, description="Distinct models.")]
    questions: Annotated[
        int,
        Meta(ge=1, description="Questions: sample_hash values; of split hashes, their sample_id values."),
    ]
    questions_all_models: Annotated[int, Meta(ge=0, description="Questions that all models have records of.")]
    questions_answered_by_all: Annotated[
        int, Meta(ge=0, description="Questions answered by all models that have any answer; 0 if no model has one.")
    ]
    ids_with_many_hashes: Annotated[int, Meta(ge=0, description="sample_id values with several sample_hash values.")]
    hashes_with_many_ids: Annotated[int, Meta(ge=0, description="sample_hash values with several sample_id values.")]
    split_hashes: Annotated[
        int,
        Meta(
            ge=0,
            description="Those that one run of a model has under several sample_id values: each sample_id is a "
            "question. Left out if there are none.",
        ),
    ] = 0
    kind: Annotated[
        Kind,
        Meta(
            description="judgement, cost or bookkeeping, as metadata.metric_kind says. If no record says it: judgement "
            "if all scores are in [0, 1] or is_correct varies, else bookkeeping. Left out if it is judgement."
        ),
    ] = "judgement"
    lower_is_better: Annotated[
        bool, Meta(description="Whether metadata.lower_is_better of a record says so. Left out if none does.")
    ] = False
    primary: Annotated[
        bool, Meta(description="Whether metadata.primary_metric of a record says so. Left out if none does.")
    ] = False
    by_model: Annotated[list[ModelSummary], Meta(description="Its models, sorted by model_id.")]


class _Format(msgspec.Struct):
    format: Any = None


class Summary(msgspec.Struct, kw_only=True):
    """Summary of a corpus."""

    format: Annotated[int, Meta(description="Version of this document's format.")] = _SUMMARY_FORMAT
    schema: Annotated[str, Meta(description="Schema version of the corpus.")]
    line_counts: LineCounts
    versions: Annotated[
        dict[str, int], Meta(description="Valid lines, duplicates included, by their own schema version.")
    ]
    notes: Annotated[
        dict[str, int],
        Meta(
            description="By code, valid lines with a label or turns of another version, and those that an upgrade or a "
            "repair changed."
        ),
    ]
    renamed: Annotated[
        dict[str, int] | msgspec.UnsetType,
        Meta(
            description="Valid lines, duplicates included, by the rule of --map for their names; absent without --map."
        ),
    ] = msgspec.UNSET
    rejected_by_code: Annotated[dict[str, int], Meta(description="Rejected lines by the code of their first error.")]
    repaired: Repaired
    repairable: Repairable
    repeats: Annotated[
        Identities, Meta(description="Records of one identity that an epoch, a trial or the output tells apart.")
    ]
    contradictions: Annotated[
        Identities, Meta(description="Records of one identity with the same output and different verdicts.")
    ]
    same_run: SameRun
    sample_hash: SampleHashes
    interaction_types: Annotated[dict[str, int], Meta(description="Kept records by interaction_type.")]
    schema_versions: Annotated[dict[str, int], Meta(description="Kept records by schema_version.")]
    evaluations: Annotated[list[EvaluationSummary], Meta(description="All evaluations, by name, then by metric.")]

    def to_json(self) -> bytes:
        return b"".join(self.json_pieces())

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the text of the document in pieces: with many evaluations, it takes more memory than the summary."""
        piece: list[bytes] = []
        for text in _listing(self, "evaluations", map(_evaluation, self.evaluations)):
            piece.append(text)
            if len(piece) >= _PIECE_TEXTS:
                yield b"".join(piece)
                piece = []
        yield b"".join([*piece, b"\n"])

    @classmethod
    def from_json(cls, data: bytes) -> Summary:
        """MsgspecError if it is not a summary, or has another format."""
        found = msgspec.json.decode(data, type=_Format).format
        if isinstance(found, int) and found != _SUMMARY_FORMAT:
            raise msgspec.ValidationError(f"its format is {found}, and this version of fastrec reads {_SUMMARY_FORMAT}")
        return msgspec.json.decode(data, type=cls)


def _evaluation(one: EvaluationSummary) -> Iterator[bytes]:
    return _listing(one, "by_model", ([_formatted(model)] for model in one.by_model))


def _listing(document: msgspec.Struct, last: str, items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the text of a document, and of the items of the list that is its last field."""
    yield _formatted(msgspec.structs.replace(document, **{last: []})).removesuffix(b"]\n}")
    separator, end = b"\n    ", b"]\n}"
    for item in items:
        yield separator
        for text in item:
            yield text.replace(b"\n", b"\n    ")  # a line break in a string is escaped
        separator, end = b",\n    ", b"\n  ]\n}"
    yield end


def _formatted(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
