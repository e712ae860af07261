"""The record of schema `instance_level_eval_0.2.0`: one Struct for every object of the schema.

Fields stand in the order of the schema's `properties`, which is the order of the normal form. A field that may be
absent defaults to `UNSET`, so that absent and `null` stay two things until the normal form makes them one. A test
compares every field, type and bound here with the schema file: the file is the truth, this is its fast spelling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NewType

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "SCHEMA_VERSION",
    "AnswerAttribution",
    "Evaluation",
    "Free",
    "Input",
    "Interaction",
    "Output",
    "Performance",
    "Record",
    "TokenUsage",
    "ToolCall",
    "drop_nulls",
    "follows_rules",
]

SCHEMA_VERSION: Final = "instance_level_eval_0.2.0"


def _json_value(levels: int) -> Any:
    """Build the type of a JSON value with at most so many levels of nesting.

    Each level is wrapped in a NewType: `typing` would otherwise walk the levels as a tree, which doubles with each.
    """
    scalar = None | bool | int | float | str
    value: Any = scalar
    for level in range(levels):
        value = NewType(f"Free{level}", scalar | list[value] | dict[str, value])  # type: ignore[misc,no-redef]
    return value


# What stands in a free-form object. Not `Any`, which would accept any depth: what is deeper than this goes to the
# slow path, which counts levels exactly. The decoder takes no longer for it.
if TYPE_CHECKING:
    Free = Any
else:
    Free = _json_value(6)

Count = Annotated[int, Meta(ge=0)]
PositiveCount = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]


class Base(Struct, forbid_unknown_fields=True, gc=False):
    """What every object of a record has in common.

    - `forbid_unknown_fields`: the decoder would skip an unknown key without a look at its bytes, and drop it.
    - `gc=False`: a record holds only strings, numbers and containers of them, never a cycle; untracked objects
      spare the collector a walk over millions of them.
    - `kw_only` does not inherit, so each class says it: required and optional fields are mixed in schema order.
    """


class Input(Base, kw_only=True):
    """What was asked, and the reference answer."""

    raw: str
    formatted: str | UnsetType = UNSET
    reference: str
    choices: list[str] | UnsetType = UNSET


class Output(Base, kw_only=True):
    """What a model answered in a single turn."""

    raw: str
    reasoning_trace: str | UnsetType | None = UNSET


class ToolCall(Base, kw_only=True):
    """One call of a tool, made in a turn."""

    id: str
    name: str
    arguments: dict[str, Free] | UnsetType = UNSET


class Interaction(Base, kw_only=True):
    """One turn of a conversation."""

    turn_idx: Count
    role: str
    content: str | UnsetType | None = UNSET
    reasoning_trace: str | UnsetType | None = UNSET
    tool_calls: list[ToolCall] | UnsetType | None = UNSET
    tool_call_id: str | list[str] | UnsetType = UNSET


class AnswerAttribution(Base, kw_only=True):
    """Where an answer was found and how it was extracted."""

    turn_idx: Count
    source: str
    extracted_value: str
    extraction_method: str
    is_terminal: bool


class Evaluation(Base, kw_only=True):
    """The verdict on a sample."""

    score: int | float | bool
    is_correct: bool
    num_turns: PositiveCount | UnsetType = UNSET
    tool_calls_count: Count | UnsetType = UNSET


class TokenUsage(Base, kw_only=True):
    """Tokens read and written."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_cache_write: Count | UnsetType | None = UNSET
    input_tokens_cache_read: Count | UnsetType | None = UNSET
    reasoning_tokens: Count | UnsetType | None = UNSET


class Performance(Base, kw_only=True):
    """How long it took, in milliseconds."""

    latency_ms: Milliseconds | UnsetType | None = UNSET
    time_to_first_token_ms: Milliseconds | UnsetType | None = UNSET
    generation_time_ms: Milliseconds | UnsetType | None = UNSET


class Record(Base, kw_only=True):
    """One evaluated sample: one line of a shard."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: int | str
    sample_hash: str | UnsetType = UNSET
    interaction_type: Literal["single_turn", "multi_turn", "agentic"]
    input: Input
    output: Output | UnsetType | None = UNSET
    interactions: list[Interaction] | UnsetType | None = UNSET
    answer_attribution: list[AnswerAttribution]
    evaluation: Evaluation
    token_usage: TokenUsage | UnsetType | None = UNSET
    performance: Performance | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    metadata: dict[str, Free] | UnsetType = UNSET


def follows_rules(record: Record) -> bool:
    """Tell whether a record of the right types also follows the schema's conditional rules."""
    if record.interaction_type == "single_turn":
        return bool(record.output) and record.interactions.__class__ is not list
    if record.output or record.interactions.__class__ is not list:
        return False
    # `metrics` is unknown to the schema's properties, and yet the last branch has a rule for it.
    metrics = getattr(record, "metrics", None)
    return metrics.__class__ is not dict or "num_turns" in metrics


def drop_nulls(record: Record) -> int:
    """Take out every explicit `null` that says the same as absence, and return how many there were.

    Spelled out field by field since it runs for every record that holds a null anywhere.
    """
    dropped = 0
    if record.output is None:
        record.output = UNSET
        dropped += 1
    if record.interactions is None:
        record.interactions = UNSET
        dropped += 1
    if record.token_usage is None:
        record.token_usage = UNSET
        dropped += 1
    if record.performance is None:
        record.performance = UNSET
        dropped += 1
    if record.error is None:
        record.error = UNSET
        dropped += 1
    if record.output and record.output.reasoning_trace is None:
        record.output.reasoning_trace = UNSET
        dropped += 1
    if usage := record.token_usage:
        if usage.input_tokens_cache_write is None:
            usage.input_tokens_cache_write = UNSET
            dropped += 1
        if usage.input_tokens_cache_read is None:
            usage.input_tokens_cache_read = UNSET
            dropped += 1
        if usage.reasoning_tokens is None:
            usage.reasoning_tokens = UNSET
            dropped += 1
    if times := record.performance:
        if times.latency_ms is None:
            times.latency_ms = UNSET
            dropped += 1
        if times.time_to_first_token_ms is None:
            times.time_to_first_token_ms = UNSET
            dropped += 1
        if times.generation_time_ms is None:
            times.generation_time_ms = UNSET
            dropped += 1
    for turn in record.interactions or ():
        if turn.content is None:
            turn.content = UNSET
            dropped += 1
        if turn.reasoning_trace is None:
            turn.reasoning_trace = UNSET
            dropped += 1
        if turn.tool_calls is None:
            turn.tool_calls = UNSET
            dropped += 1
    return dropped
