"""Three full records, one of each interaction type, with every field of the schema in use; and the
same per version.
"""

from __future__ import annotations

from typing import Any

import msgspec

_COMMON: dict[str, Any] = {
    "schema_version": "instance_level_eval_0.2.0",
    "evaluation_id": "eval/1",
    "model_id": "org/model",
    "evaluation_name": "arithmetic",
    "sample_id": "q-1",
    "sample_hash": "00ff",
    "input": {
        "raw": "6 x 7 = ?",
        "formatted": "<s>6 x 7 = ?",
        "reference": "42",
        "choices": ["41", "42"],
    },
    "answer_attribution": [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": "42",
            "extraction_method": "regex",
            "is_terminal": True,
        }
    ],
    "evaluation": {"score": 1.0, "is_correct": True, "num_turns": 1, "tool_calls_count": 0},
    "token_usage": {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_cache_write": 1,
        "input_tokens_cache_read": 2,
        "reasoning_tokens": 3,
    },
    "performance": {"latency_ms": 12.5, "time_to_first_token_ms": 3, "generation_time_ms": 9.0},
    "error": "none",
    "metadata": {"subject": "maths", "tags": ["a", {"b": None}]},
}

SINGLE_TURN: dict[str, Any] = {
    **_COMMON,
    "interaction_type": "single_turn",
    "output": {"raw": "It is 42: sure", "reasoning_trace": "6*7"},
}
MULTI_TURN: dict[str, Any] = {
    **_COMMON,
    "interaction_type": "multi_turn",
    "evaluation": {"score": True, "is_correct": True, "num_turns": 2, "tool_calls_count": 0},
    "interactions": [
        {"turn_idx": 0, "role": "user", "content": "hello"},
        {"turn_idx": 1, "role": "assistant", "content": "world", "reasoning_trace": "greet"},
    ],
}
AGENTIC: dict[str, Any] = {
    **_COMMON,
    "interaction_type": "agentic",
    "sample_id": 17,
    "evaluation": {"score": 0, "is_correct": False, "num_turns": 2, "tool_calls_count": 1},
    "interactions": [
        {
            "turn_idx": 0,
            "role": "assistant",
            "content": "let me see",
            "tool_calls": [{"id": "call-1", "name": "multiply", "arguments": {"b": 7, "a": 6}}],
        },
        {"turn_idx": 1, "role": "tool", "content": "42", "tool_call_id": "call-1"},
    ],
}

# Decoding is the fastest way to copy a record, and tests copy them a hundred thousand times.
_BY_NAME = {
    name: msgspec.msgpack.encode(record)
    for name, record in (
        ("single_turn", SINGLE_TURN),
        ("multi_turn", MULTI_TURN),
        ("agentic", AGENTIC),
    )
}


def sample(name: str = "single_turn", **changes: Any) -> dict[str, Any]:
    """Return a copy of a sample with some top-level fields changed."""
    return {**msgspec.msgpack.decode(_BY_NAME[name]), **changes}


def question(number: int) -> dict[str, Any]:
    """Return the input of a question; each number is another one.

    A corpus is cut into parts between questions.
    """
    return {**sample()["input"], "raw": f"{number} x 7 = ?"}


def sample_of(version: str, name: str = "single_turn", **changes: Any) -> dict[str, Any]:
    """Return such a copy as a full record of a schema version."""
    record = sample(name)
    if version == "0.2.0":
        return {**record, **changes}
    texts = (
        [record["input"], "reference"],
        [record.get("output"), "raw"],
        [record.get("output"), "reasoning_trace"],
    )
    for parent, field in texts:
        if parent:
            parent[field] = [parent[field]]
    if version != "0.2.0-released":
        record = _later(record)
        record["schema_version"] = version
    if version == "0.3.0":
        record["evaluation_result_id"] = "accuracy"
    return {**record, **changes}


def _later(record: dict[str, Any]) -> dict[str, Any]:
    """Change a record of the released 0.2.0 into one of 0.2.1."""
    if "interactions" in record:
        record["messages"] = record.pop("interactions")
    record["sample_id"] = str(record["sample_id"])
    record["evaluation"]["score"] = float(record["evaluation"]["score"])
    record["metadata"] = {"subject": "maths", "tags": '["a"]'}
    record["performance"]["additional_details"] = {"queue": "3 ms"}
    for turn in record.get("messages", ()):
        if "tool_call_id" in turn:
            turn["tool_call_id"] = [turn["tool_call_id"]]
        for call in turn.get("tool_calls", ()):
            call["arguments"] = {key: str(value) for key, value in call["arguments"].items()}
    return record
