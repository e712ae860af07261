"""Version 0.2.1 of the record schema: no unknown keys at the root, `messages`, arrays, and text in `metadata`."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, UnsetType

from fastrec.schemas import v0_2_0
from fastrec.schemas.schema import Base, Count, PositiveCount, Schema, labels_of
from fastrec.schemas.v0_2_0 import AnswerAttribution, TokenUsage


class Input(Base, kw_only=True):
    raw: str
    formatted: str | UnsetType | None = UNSET
    reference: list[str]
    choices: list[str] | UnsetType | None = UNSET


class Output(Base, kw_only=True):
    raw: list[str]
    reasoning_trace: list[str] | UnsetType | None = UNSET


class ToolCall(v0_2_0.ToolCall, kw_only=True):
    arguments: dict[str, str] | UnsetType | None = UNSET  # type: ignore[assignment]


class Message(v0_2_0.Interaction, kw_only=True):
    tool_calls: list[ToolCall] | UnsetType | None = UNSET  # type: ignore[assignment]
    tool_call_id: list[str] | UnsetType | None = UNSET  # type: ignore[assignment]


class Evaluation(Base, kw_only=True):
    score: int | float
    is_correct: bool
    num_turns: PositiveCount | UnsetType | None = UNSET
    tool_calls_count: Count | UnsetType | None = UNSET


class Performance(v0_2_0.Performance, kw_only=True):
    """Durations in milliseconds, and what else a producer measured."""

    additional_details: dict[str, str] | UnsetType | None = UNSET


class Record(Base, kw_only=True):
    """One answer of one model to one question: one line of a shard."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: str
    sample_hash: str | UnsetType | None = UNSET
    interaction_type: Literal["single_turn", "multi_turn", "agentic"]
    input: Input
    output: Output | UnsetType | None = UNSET
    messages: list[Message] | UnsetType | None = UNSET
    answer_attribution: list[AnswerAttribution]
    evaluation: Evaluation
    token_usage: TokenUsage | UnsetType | None = UNSET
    performance: Performance | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType | None = UNSET


_LABELS: Final = labels_of("0.2.1")

SCHEMA: Final = Schema(
    name="0.2.1",
    about="no unknown keys at the root, `messages` instead of `interactions`, lists, only text in `metadata`",
    label="0.2.1",
    labels=_LABELS,
    record=Record,
    recipe="R5",
    # All records of this version are records of 0.3.0, too: only the label tells them apart.
    sure_labels=_LABELS,
    claims=lambda _: False,
)
