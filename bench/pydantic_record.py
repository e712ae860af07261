"""The record as pydantic models: strict types, unknown keys allowed, conditional rules checked.

A field that may be absent but not null has the default None and a type without None: pydantic does
not check defaults.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[float, Field(ge=0)]
ABSENT: Any = None


class Base(BaseModel):
    """Settings of all models."""

    model_config = ConfigDict(strict=True, extra="allow")


class Input(Base):
    """The question and its reference answer."""

    raw: str
    formatted: str = ABSENT
    reference: str
    choices: list[str] = ABSENT


class Output(Base):
    """The answer of a model in a single turn."""

    raw: str
    reasoning_trace: str | None = None


class ToolCall(Base):
    """A tool call."""

    id: str
    name: str
    arguments: dict[str, Any] = ABSENT


class Interaction(Base):
    """One turn."""

    turn_idx: Count
    role: str
    content: str | None = None
    reasoning_trace: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | list[str] = ABSENT


class AnswerAttribution(Base):
    """Where an answer was found."""

    turn_idx: Count
    source: str
    extracted_value: str
    extraction_method: str
    is_terminal: bool


class Evaluation(Base):
    """The score of an answer."""

    score: bool | int | float
    is_correct: bool
    num_turns: Annotated[int, Field(ge=1)] = ABSENT
    tool_calls_count: Count = ABSENT


class TokenUsage(Base):
    """Token counts."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_cache_write: Count | None = None
    input_tokens_cache_read: Count | None = None
    reasoning_tokens: Count | None = None


class Performance(Base):
    """Latencies."""

    latency_ms: Milliseconds | None = None
    time_to_first_token_ms: Milliseconds | None = None
    generation_time_ms: Milliseconds | None = None


class Record(Base):
    """An evaluated sample."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: int | str
    sample_hash: str = ABSENT
    interaction_type: Literal["single_turn", "multi_turn", "agentic"]
    input: Input
    output: Output | None = None
    interactions: list[Interaction] | None = None
    answer_attribution: list[AnswerAttribution]
    evaluation: Evaluation
    token_usage: TokenUsage | None = None
    performance: Performance | None = None
    error: str | None = None
    metadata: dict[str, Any] = ABSENT

    @model_validator(mode="after")
    def follows_rules(self) -> Self:
        """Check the schema's conditional rules."""
        if self.interaction_type == "single_turn":
            valid = self.output is not None and self.interactions is None
        else:
            valid = self.output is None and self.interactions is not None
        if not valid:
            raise ValueError("output and interactions do not fit the interaction type")
        return self
