"""Version 0.3.0 of the record schema, which is also that of 0.2.2 and 0.2.3: 0.2.1 plus `evaluation_result_id`."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, UnsetType

from fastrec.schemas.schema import Base, Schema, labels_of
from fastrec.schemas.v0_2_0 import AnswerAttribution, TokenUsage
from fastrec.schemas.v0_2_1 import Evaluation, Input, Message, Output, Performance


class Record(Base, kw_only=True):
    """One answer of one model to one question, scored by one metric: one line of a shard."""

    schema_version: str
    evaluation_id: str
    model_id: str
    evaluation_name: str
    evaluation_result_id: str | UnsetType = UNSET
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


_LABELS: Final = labels_of("0.2.2", "0.2.3", "0.3.0")
_EARLIER: Final = labels_of("0.2.1")
_EARLIEST: Final = labels_of("0.2.0")


def _claims(record: Any) -> bool:
    """Whether a record that decodes is surely of this version, and not of an earlier one by its label."""
    label: str = record.schema_version
    if record.evaluation_result_id is not UNSET:
        return True
    if label in _EARLIEST:
        # Version 0.2.0 has no `messages`, and fewer fields may be null.
        return record.interaction_type != "single_turn" or has_new_null(record)
    return label not in _EARLIER


def has_new_null(record: Any) -> bool:
    """Whether a field is null that cannot be null in the released 0.2.0."""
    asked, output, evaluation = record.input, record.output, record.evaluation
    fields = record.sample_hash, record.metadata, asked.formatted, asked.choices
    if None in (*fields, evaluation.num_turns, evaluation.tool_calls_count):
        return True
    return bool(output) and output.reasoning_trace is None


SCHEMA: Final = Schema(
    name="0.3.0",
    about="0.2.1 with `evaluation_result_id`; the same as 0.2.2 and 0.2.3",
    label="0.3.0",
    labels=_LABELS,
    record=Record,
    recipe="R5",
    sure_labels=_LABELS,
    claims=_claims,
)
