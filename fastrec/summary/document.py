"""`summary.json`: the content of a corpus.

It depends on the records alone: no time, no host, no path.

The JSON Schema of the document is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from fastrec.notebook import Tabular, flat

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


def _says(description: str, ge: int | None = None) -> Meta:
    return Meta(description=description, ge=ge)


_Error = Annotated[
    float | None, _says("Its standard error, over questions; null for fewer than two questions.")
]
_ErrorOfSome = Annotated[
    float | None, _says("Its standard error, over questions; null for a single question.")
]
_Filled = TypeVar("_Filled", bound=msgspec.Struct)


def filled(kind: type[_Filled], *sources: Any, **values: Any) -> _Filled:
    """Make a Struct of values, and of the fields of the same name that sources have.

    The first source counts.
    """
    found = {
        name: getattr(one, name)
        for one in reversed(sources)
        for name in _common_fields(kind, one.__class__)
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


class LineCounts(msgspec.Struct, kw_only=True):
    """Every line is accounted for: `lines = kept + duplicates + rejected + blank`."""

    lines: Annotated[int, _says("Lines read, blank ones included.", ge=0)]
    kept: Annotated[int, _says("Records in the corpus.", ge=0)]
    duplicates: Annotated[int, _says("Records dropped because an identical one was kept.", ge=0)]
    rejected: Annotated[int, _says("Lines in the rejects file.", ge=0)]
    blank: Annotated[int, _says("Lines of white space only.", ge=0)]


class RepairExample(msgspec.Struct, kw_only=True):
    """A change that a repair made to a record."""

    code: Annotated[str, _says("The code of the repair.")]
    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    path: Annotated[str, _says("JSON path of the first value that the repair changed.")]
    message: Annotated[str, _says("What was there, and what became of it.")]


class Repaired(msgspec.Struct, kw_only=True):
    """Valid lines, duplicates included, that `--repair` repaired."""

    lines: Annotated[int, _says("Repaired lines.", ge=0)]
    by_code: Annotated[
        dict[str, int],
        _says("These lines by the code of a repair; a line may have several repairs."),
    ]
    examples: Annotated[
        list[RepairExample],
        _says("The first 3 lines of each repair, by evaluation, model and sample."),
    ]


class Repairable(msgspec.Struct, kw_only=True):
    """Rejected lines that `--repair all` would keep."""

    lines: Annotated[int, _says("Rejected lines that would be kept.", ge=0)]
    by_code: Annotated[
        dict[str, int],
        _says("These lines by the code of a repair; a line may need several repairs."),
    ]


class SameRunPair(msgspec.Struct, kw_only=True):
    """Two runs of a model on an evaluation with records that are otherwise equal."""

    evaluation_name: str
    model_id: str
    kept: Annotated[str, _says("evaluation_id of the records that stay.")]
    dropped: Annotated[
        str,
        _says(
            "evaluation_id of the records dropped; the same one if only their schema_version "
            "differs."
        ),
    ]
    records: Annotated[int, _says("Records dropped.", ge=1)]


class SameRun(msgspec.Struct, kw_only=True):
    """Records dropped by `--same-run ignore`: equal to a kept one but for evaluation_id and schema_version."""

    records: Annotated[int, _says("Records dropped; they count as duplicates.", ge=0)]
    runs: Annotated[
        list[SameRunPair],
        _says(
            "These records by runs: the first 100 pairs, by evaluation_name, model_id and "
            "evaluation_id."
        ),
    ]


class IdentityExample(msgspec.Struct, kw_only=True):
    """An identity with several records, and how many of them are of one kind."""

    evaluation_name: str
    metric: Annotated[
        str | None, _says("evaluation_result_id of the records; null if they have none.")
    ]
    sample_id: _SampleId
    model_id: str
    evaluation_id: str
    records: Annotated[int, _says("Its records of this kind.", ge=1)]
    sample_hashes: Annotated[list[str], _says("Their sample_hash values.")]


class Identities(msgspec.Struct, kw_only=True):
    """Repeats or contradictions of one identity, records that options leave out included."""

    identities: Annotated[int, _says("Identities with records of this kind.", ge=0)]
    records: Annotated[int, _says("Their records of this kind.", ge=0)]
    examples: Annotated[
        list[IdentityExample],
        _says("The first 100 of them, by evaluation_name, metric and sample_id."),
    ]


class HashExample(msgspec.Struct, kw_only=True):
    """A record whose sample_hash no recipe gives."""

    evaluation_name: str
    model_id: str
    sample_id: _SampleId
    given: Annotated[str, _says("The hash in the line.")]
    computed: Annotated[str, _says("The correct hash.")]


class ModelRecipes(msgspec.Struct, kw_only=True):
    """The recipes of the hashes of one model on one evaluation, over all of its metrics."""

    evaluation_name: str
    model_id: str
    recipes: Annotated[dict[str, int], _says("Valid lines by recipe, as in by_recipe.")]


class SampleHashes(msgspec.Struct, kw_only=True):
    """How the `sample_hash` of valid lines, duplicates included, compares with the computed hashes."""

    algorithm: Annotated[str, _says("sha256 or xxh3_128.")]
    recipe: Annotated[str, _says("The recipe of the hashes in the corpus.")]
    verified: Annotated[int, _says("Lines whose hash is right by some recipe.", ge=0)]
    filled: Annotated[int, _says("Lines without a hash.", ge=0)]
    replaced: Annotated[
        int, _says("Lines with a wrong hash; --sample-hash fill leaves it in place.", ge=0)
    ]
    by_recipe: Annotated[
        dict[str, int],
        _says(
            "Valid lines by the recipe of their hash; `absent`: without a hash; `wrong`: by no "
            "recipe."
        ),
    ]
    by_model: Annotated[list[ModelRecipes], _says("The same, by evaluation_name and model_id.")]
    examples: Annotated[
        list[HashExample], _says("The first 10 wrong hashes, by name, model and id.")
    ]


class Tokens(msgspec.Struct, kw_only=True, gc=False):
    """Sums over all records with token usage; those of over 4,200 digits are hexadecimal text."""

    records: Annotated[int, _says("Records with a token_usage.", ge=0)]
    input: Annotated[_Count | str, _says("Sum of token_usage.input_tokens.")]
    output: Annotated[_Count | str, _says("Sum of token_usage.output_tokens.")]
    total: Annotated[_Count | str, _says("Sum of token_usage.total_tokens.")]


class Latency(msgspec.Struct, kw_only=True, gc=False):
    """Quantiles of `performance.latency_ms`, with a relative error of at most 1/128."""

    records: Annotated[int, _says("Records with a latency.", ge=0)]
    p50: Annotated[float | None, _says("Median, in milliseconds.")]
    p90: Annotated[float | None, _says("90th percentile.")]
    p99: Annotated[float | None, _says("99th percentile.")]


class ErrorsAsWrong(msgspec.Struct, kw_only=True, gc=False):
    """A model's numbers if records with an error count as well: as wrong, and with the score that they have."""

    accuracy: Annotated[_Share, _says("Mean over questions of the share of correct records.")]
    accuracy_standard_error: _ErrorOfSome
    mean_score: Annotated[
        float | None, _says("Mean over questions of the mean score; null if it overflows a double.")
    ]
    score_standard_error: _ErrorOfSome


class ModelSummary(msgspec.Struct, kw_only=True):
    """One model on one metric. Means are over answers, then over questions, and rounded once."""

    model_id: str
    records: Annotated[int, _says("Its records in the corpus: answers + errors.", ge=1)]
    answers: Annotated[int, _says("Records without an error.", ge=0)]
    errors: Annotated[int, _says("Records with a non-empty error.", ge=0)]
    questions: Annotated[int, _says("Questions that it has records of.", ge=1)]
    questions_answered: Annotated[int, _says("Questions that it has answers to.", ge=0)]
    correct: Annotated[
        int,
        _says("Answers with evaluation.is_correct. A record with an error is never correct.", ge=0),
    ]
    accuracy: Annotated[
        _Share | None,
        _says("Mean over questions of the share of correct answers; null without answers."),
    ]
    accuracy_standard_error: _Error
    mean_score: Annotated[
        float | None,
        _says(
            "Mean over questions of the mean of evaluation.score, where true counts as 1; null "
            "without "
            "answers, or if it overflows a double."
        ),
    ]
    score_standard_error: _Error
    errors_as_wrong: Annotated[
        ErrorsAsWrong, _says("The same numbers if records with an error count, too.")
    ]
    turns: Annotated[int, _says("Interactions; a record without interactions counts as 1.", ge=0)]
    tool_calls: Annotated[int, _says("Tool calls of all interactions.", ge=0)]
    tokens: Tokens
    latency_ms: Latency
    first_sample_id: Annotated[_SampleId, _says("The lowest sample_id; integers before strings.")]
    last_sample_id: Annotated[_SampleId, _says("The highest sample_id.")]


class EvaluationSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One metric of an evaluation, or an evaluation without metrics, over all models."""

    evaluation_name: str
    metric: Annotated[
        str | None, _says("evaluation_result_id of the records; null if they have none.")
    ]
    graded: Annotated[
        bool,
        _says(
            "Whether an answer has a score other than 0 and 1, or lower scores are better. Then "
            "is_correct "
            "means little."
        ),
    ]
    records: Annotated[int, _says("Its records in the corpus.", ge=1)]
    models: Annotated[int, _says("Distinct models.", ge=1)]
    questions: Annotated[
        int, _says("Questions: sample_hash values; of split hashes, their sample_id values.", ge=1)
    ]
    questions_all_models: Annotated[int, _says("Questions that all models have records of.", ge=0)]
    questions_answered_by_all: Annotated[
        int,
        _says(
            "Questions answered by all models that have any answer; 0 if no model has one.", ge=0
        ),
    ]
    ids_with_many_hashes: Annotated[
        int, _says("sample_id values with several sample_hash values.", ge=0)
    ]
    hashes_with_many_ids: Annotated[
        int, _says("sample_hash values with several sample_id values.", ge=0)
    ]
    split_hashes: Annotated[
        int,
        _says(
            "Those that one run of a model has under several sample_id values: each sample_id is a "
            "question. Left out if there are none.",
            ge=0,
        ),
    ] = 0
    kind: Annotated[
        Kind,
        _says(
            "judgement, cost or bookkeeping, as metadata.metric_kind says. If no record says it: "
            "judgement "
            "if all scores are in [0, 1] or is_correct varies, else bookkeeping. Left out if it "
            "is judgement."
        ),
    ] = "judgement"
    lower_is_better: Annotated[
        bool, _says("Whether metadata.lower_is_better of a record says so. Left out if none does.")
    ] = False
    primary: Annotated[
        bool, _says("Whether metadata.primary_metric of a record says so. Left out if none does.")
    ] = False
    by_model: Annotated[list[ModelSummary], _says("Its models, sorted by model_id.")]


class LabelCounts(msgspec.Struct, kw_only=True):
    """What became of the labels of `--labels`; absent without it."""

    labels: Annotated[int, _says("Labels in the file.")]
    superseded: Annotated[int, _says("Labels that a later one for the same answer replaces.")]
    changed: Annotated[int, _says("Records with another verdict than before.")]
    confirmed: Annotated[int, _says("Records that already had the verdict of their label.")]
    unmatched: Annotated[int, _says("Labels that match no record.")]
    ambiguous: Annotated[int, _says("Labels that match several records.")]


class FixCounts(msgspec.Struct, kw_only=True):
    """What became of the corrected lines of `--fixes`; absent without it."""

    given: Annotated[int, _says("Lines that differ from the rejected ones.")]
    fixed: Annotated[
        int, _says("Those that are valid; they count as kept, duplicate or filtered out.")
    ]
    rejected: Annotated[int, _says("Those that are not valid either.")]
    unmatched: Annotated[int, _says("Those whose place in the input has no such rejected line.")]


class _Format(msgspec.Struct):
    format: Any = None


class Summary(Tabular, kw_only=True):
    """Summary of a corpus."""

    format: Annotated[int, _says("Version of this document's format.")] = _SUMMARY_FORMAT
    schema: Annotated[str, _says("Schema version of the corpus.")]
    line_counts: LineCounts
    versions: Annotated[
        dict[str, int], _says("Valid lines, duplicates included, by their own schema version.")
    ]
    notes: Annotated[
        dict[str, int],
        _says(
            "By code, valid lines with a label or turns of another version, and those that an "
            "upgrade or a "
            "repair changed."
        ),
    ]
    renamed: Annotated[
        dict[str, int] | msgspec.UnsetType,
        _says(
            "Valid lines, duplicates included, by the rule of --map for their names; absent "
            "without --map."
        ),
    ] = msgspec.UNSET
    labels: Annotated[
        LabelCounts | msgspec.UnsetType, _says("What became of labels; absent without --labels.")
    ] = msgspec.UNSET
    fixes: Annotated[
        FixCounts | msgspec.UnsetType, _says("What became of fixes; absent without --fixes.")
    ] = msgspec.UNSET
    rejected_by_code: Annotated[
        dict[str, int], _says("Rejected lines by the code of their first error.")
    ]
    repaired: Repaired
    repairable: Repairable
    repeats: Annotated[
        Identities,
        _says("Records of one identity that an epoch, a trial or the output tells apart."),
    ]
    contradictions: Annotated[
        Identities, _says("Records of one identity with the same output and different verdicts.")
    ]
    same_run: SameRun
    sample_hash: SampleHashes
    interaction_types: Annotated[dict[str, int], _says("Kept records by interaction_type.")]
    schema_versions: Annotated[dict[str, int], _says("Kept records by schema_version.")]
    evaluations: Annotated[
        list[EvaluationSummary], _says("All evaluations, by name, then by metric.")
    ]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each evaluation, metric and model."""
        return [
            flat(model, {"evaluation_name": one.evaluation_name, "metric": one.metric})
            for one in self.evaluations
            for model in one.by_model
        ]

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
            raise msgspec.ValidationError(
                f"its format is {found}, and this version of fastrec reads {_SUMMARY_FORMAT}"
            )
        return msgspec.json.decode(data, type=cls)


def _evaluation(one: EvaluationSummary) -> Iterator[bytes]:
    return _listing(one, "by_model", ([_formatted(model)] for model in one.by_model))


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
