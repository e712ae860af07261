"""Version 0.3.0 of the record schema, which is also 0.2.2 and 0.2.3; and 0.2.1.

0.2.1 has no `evaluation_result_id`.

Since 0.2.1 there are no unknown keys at the root, `messages` instead of `interactions`, arrays, and
only text in `metadata`.
"""

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.schemas import v0_2_0
from fastrec.schemas.schema import Base, Count, Nullable, PositiveCount, Schema, labels_of
from fastrec.schemas.v0_2_0 import AnswerAttribution, TokenUsage


class Input(Base, kw_only=True):
    raw: str
    formatted: Nullable[str] = UNSET
    reference: list[str]
    choices: Nullable[list[str]] = UNSET


class Output(Base):
    raw: list[str]
    reasoning_trace: Nullable[list[str]] = UNSET


class ToolCall(v0_2_0.ToolCall):
    arguments: Nullable[dict[str, str]] = UNSET  # type: ignore[assignment]


class Message(v0_2_0.Interaction, kw_only=True):
    tool_calls: Nullable[list[ToolCall]] = UNSET  # type: ignore[assignment]
    tool_call_id: Nullable[list[str]] = UNSET  # type: ignore[assignment]


class Evaluation(Base):
    score: int | float
    is_correct: bool
    num_turns: Nullable[PositiveCount] = UNSET
    tool_calls_count: Nullable[Count] = UNSET


class Performance(v0_2_0.Performance):
    """Durations in milliseconds, and what else a producer measured."""

    additional_details: Nullable[dict[str, str]] = UNSET


class Record(Base, kw_only=True):
    """One answer of one model to one question, scored by one metric: one line of a shard."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    evaluation_result_id: str | UnsetType = UNSET
    sample_id: str
    sample_hash: Nullable[str] = UNSET
    interaction_type: Literal["single_turn", "multi_turn", "agentic"]
    input: Input
    output: Nullable[Output] = UNSET
    messages: Nullable[list[Message]] = UNSET
    answer_attribution: list[AnswerAttribution]
    evaluation: Evaluation
    token_usage: Nullable[TokenUsage] = UNSET
    performance: Nullable[Performance] = UNSET
    error: Nullable[str] = UNSET
    metadata: Nullable[dict[str, str]] = UNSET


if TYPE_CHECKING:
    Record021 = Record
else:
    _FIELDS = [
        (field.name, field.type, field.default)
        for field in msgspec.structs.fields(Record)
        if field.name != "evaluation_result_id"
    ]
    Record021 = msgspec.defstruct(
        "Record021", _FIELDS, bases=(Base,), module=__name__, kw_only=True
    )


_LABELS = labels_of("0.2.2", "0.2.3", "0.3.0")
_EARLIER = labels_of("0.2.1")
_EARLIEST = labels_of("0.2.0")


def _claims(record: Any) -> bool:
    """Whether a record that decodes is surely of this version.

    Otherwise it may be of an earlier version by its label.
    """
    label = record.schema_version
    if record.evaluation_result_id is not UNSET:
        return True
    if label in _EARLIEST:
        # Version 0.2.0 has no `messages`, and fewer fields may be null.
        return record.interaction_type != "single_turn" or has_new_null(record)
    return label not in _EARLIER


def has_new_null(record: Any) -> bool:
    """Whether a field is null that cannot be null in the released 0.2.0."""
    asked = record.input
    output = record.output
    evaluation = record.evaluation
    fields = record.sample_hash, record.metadata, asked.formatted, asked.choices
    if None in (*fields, evaluation.num_turns, evaluation.tool_calls_count):
        return True
    return bool(output) and output.reasoning_trace is None


SCHEMA = Schema(
    name="0.3.0",
    about="0.2.1 with `evaluation_result_id`; the same as 0.2.2 and 0.2.3",
    label="0.3.0",
    labels=_LABELS,
    replaced_labels=_EARLIEST,
    record=Record,
    recipe="R5",
    claims=_claims,
)

V0_2_1 = Schema(
    name="0.2.1",
    about="no unknown keys at the root, `messages` instead of `interactions`, lists, only text in "
    "`metadata`",
    label="0.2.1",
    labels=_EARLIER,
    record=Record021,
    recipe="R5",
    # All records of this version are records of 0.3.0, too: only the label tells them apart.
    claims=lambda _: False,
)
