"""Version 0.2.0 of the record schema: the one that fastrec began with, and the released one.

In the released one, references, answers and reasoning traces may be arrays. Everything else is the
same, and a record that follows both is one of 0.2.0.

There is one Struct for every object of the schema. Fields are in the order of the schema's
`properties`, which is the order of the normal form. An optional field defaults to `UNSET`, so that
absence and `null` stay apart until the normal form unites them. A test compares every field, type
and bound with the schema file: the file decides, the Structs are its fast form.
"""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from fastrec.schemas.schema import (
    Base,
    Count,
    Free,
    Milliseconds,
    Nullable,
    PositiveCount,
    Schema,
    labels_of,
)


class Input(Base, kw_only=True):
    raw: str
    formatted: str | UnsetType = UNSET
    reference: str
    choices: list[str] | UnsetType = UNSET


class Output(Base):
    raw: str
    reasoning_trace: Nullable[str] = UNSET


class ToolCall(Base):
    id: str
    name: str
    arguments: dict[str, Free] | UnsetType = UNSET


class Interaction(Base, kw_only=True):
    turn_idx: Count
    role: str
    content: Nullable[str] = UNSET
    reasoning_trace: Nullable[str] = UNSET
    tool_calls: Nullable[list[ToolCall]] = UNSET
    tool_call_id: str | list[str] | UnsetType = UNSET


class AnswerAttribution(Base):
    """Where an answer was found and how it was extracted."""

    turn_idx: Count
    source: str
    extracted_value: str
    extraction_method: str
    is_terminal: bool


class Evaluation(Base):
    score: int | float | bool
    is_correct: bool
    num_turns: PositiveCount | UnsetType = UNSET
    tool_calls_count: Count | UnsetType = UNSET


class TokenUsage(Base):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_cache_write: Nullable[Count] = UNSET
    input_tokens_cache_read: Nullable[Count] = UNSET
    reasoning_tokens: Nullable[Count] = UNSET


class Performance(Base):
    latency_ms: Nullable[Milliseconds] = UNSET
    time_to_first_token_ms: Nullable[Milliseconds] = UNSET
    generation_time_ms: Nullable[Milliseconds] = UNSET


class Record(Base, kw_only=True):
    """One answer of one model to one question: one line of a shard."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: int | str
    sample_hash: str | UnsetType = UNSET
    interaction_type: Literal["single_turn", "multi_turn", "agentic"]
    input: Input
    output: Nullable[Output] = UNSET
    interactions: Nullable[list[Interaction]] = UNSET
    answer_attribution: list[AnswerAttribution]
    evaluation: Evaluation
    token_usage: Nullable[TokenUsage] = UNSET
    performance: Nullable[Performance] = UNSET
    error: Nullable[str] = UNSET
    metadata: dict[str, Free] | UnsetType = UNSET


_LABELS = labels_of("0.2.0")

SCHEMA = Schema(
    name="0.2.0",
    about="the version that fastrec began with: one reference and one answer as text, "
    "`interactions`",
    label="instance_level_eval_0.2.0",
    labels=_LABELS,
    record=Record,
    recipe="R1",
    # No other structure accepts these records but the released 0.2.0, and it is the later one.
    claims=lambda _: True,
)


class ReleasedInput(Input, kw_only=True):
    reference: list[str] | str  # type: ignore[assignment]


class ReleasedOutput(Output):
    raw: list[str] | str  # type: ignore[assignment]
    reasoning_trace: list[str] | str | UnsetType = UNSET  # type: ignore[assignment]


class ReleasedRecord(Record, kw_only=True):
    input: ReleasedInput
    output: Nullable[ReleasedOutput] = UNSET


_KNOWN = len(Record.__struct_fields__)


def _claims(record: Any) -> bool:
    """Whether a record that decodes is surely of the released version.

    Not of 0.2.0, and not of a later one.
    """
    asked = record.input
    output = record.output
    texts = [asked.reference, *((output.raw, output.reasoning_trace) if output else ())]
    if all(text.__class__ is not list for text in texts):
        return False
    if (
        any(text.__class__ is str for text in texts)
        or record.interactions is not UNSET
        or record.sample_id.__class__ is not str
        or record.evaluation.score.__class__ is bool
        or any(value.__class__ is not str for value in (record.metadata or {}).values())
    ):
        return True
    unknown = [
        name for name in record.__struct_fields__[_KNOWN:] if getattr(record, name) is not UNSET
    ]
    if unknown == ["evaluation_result_id"] and record.evaluation_result_id.__class__ is str:
        return False  # one of 0.3.0, whatever its label says
    return bool(unknown) or record.schema_version in _LABELS


RELEASED = Schema(
    name="0.2.0-released",
    about="0.2.0 as it was released: references, answers and reasoning traces may be lists",
    label="0.2.0",
    labels=_LABELS,
    record=ReleasedRecord,
    recipe="R5",
    has_sure_labels=False,  # a record with these labels may be of 0.2.0
    claims=_claims,
)
