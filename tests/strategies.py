"""Hypothesis strategies: random valid records, and random spellings of JSON values."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

# Not st.randoms(), which would record every random number as a draw.
dice = st.integers(0, 2**32).map(random.Random)
text = st.text(max_size=12)
# Integers beyond 2**53 and 64 bits too, but no float that JSON cannot represent.
integers = st.integers() | st.sampled_from([2**53 + 1, 2**64, -(2**63) - 1, 10**30])
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | floats | text
free = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
free_objects = st.dictionaries(text, free, max_size=4)
unknown = st.dictionaries(
    st.sampled_from(["zz", "a b", "é", 'Ω"', "unknown_0", "id2", "\U00010000", "\uffff"]),
    free,
    max_size=2,
)
counts = st.integers(0, 10**6) | st.sampled_from([0.0, 3.0, 1e2, 2**64])
times = st.none() | st.floats(0, 1e9) | st.integers(0, 10**12)


def objects(
    required: dict[str, Any], optional: dict[str, Any]
) -> st.SearchStrategy[dict[str, Any]]:
    known = st.fixed_dictionaries(required, optional=optional)
    return st.builds(lambda fields, more: {**more, **fields}, known, unknown)


inputs = objects(
    {"raw": text, "reference": text}, {"formatted": text, "choices": st.lists(text, max_size=2)}
)
outputs = objects({"raw": text}, {"reasoning_trace": st.none() | text})
tool_calls = objects({"id": text, "name": text}, {"arguments": free_objects})
turns = objects(
    {"turn_idx": counts, "role": text},
    {
        "content": st.none() | text,
        "reasoning_trace": st.none() | text,
        "tool_calls": st.none() | st.lists(tool_calls, max_size=2),
        "tool_call_id": text | st.lists(text, max_size=2),
    },
)
attributions = objects(
    {
        "turn_idx": counts,
        "source": text,
        "extracted_value": text,
        "extraction_method": text,
        "is_terminal": st.booleans(),
    },
    {},
)
evaluations = objects(
    {"score": st.booleans() | integers | floats, "is_correct": st.booleans()},
    {"num_turns": st.integers(1, 9) | st.just(2.0), "tool_calls_count": counts},
)
usages = objects(
    {"input_tokens": counts, "output_tokens": counts, "total_tokens": counts},
    {
        "input_tokens_cache_write": st.none() | counts,
        "input_tokens_cache_read": st.none() | counts,
        "reasoning_tokens": st.none() | counts,
    },
)
performances = objects(
    {}, {"latency_ms": times, "time_to_first_token_ms": times, "generation_time_ms": times}
)
_required = {
    "schema_version": text,
    "evaluation_id": text,
    "model_id": text,
    "evaluation_name": text,
    "sample_id": text | integers | st.just(7.0),
    "input": inputs,
    "answer_attribution": st.lists(attributions, max_size=2),
    "evaluation": evaluations,
}
_optional = {
    "sample_hash": text,
    "token_usage": st.none() | usages,
    "performance": st.none() | performances,
    "error": st.none() | text,
    "metadata": free_objects,
}
single_turns = objects(
    {**_required, "interaction_type": st.just("single_turn"), "output": outputs},
    {**_optional, "interactions": st.none()},
)
conversations = objects(
    {
        **_required,
        "interaction_type": st.sampled_from(["multi_turn", "agentic"]),
        "interactions": st.lists(turns, max_size=3),
    },
    {**_optional, "output": st.none()},
)
records = single_turns | conversations


def _with_result_id(name: str) -> dict[str, str]:
    return {"evaluation_result_id": name}


# The later versions: lists of texts, free-form objects of texts, more nulls, and a closed root.
_lists = st.lists(text, max_size=2)
_texts = st.dictionaries(text, text, max_size=3)
_released = {
    "input": objects(
        {"raw": text, "reference": text | _lists}, {"formatted": text, "choices": _lists}
    )
}
_released_output = objects({"raw": text | _lists}, {"reasoning_trace": text | _lists})
_messages = objects(
    {"turn_idx": counts, "role": text | st.just("assistant")},
    {
        "content": st.none() | text,
        "reasoning_trace": st.none() | text,
        "tool_calls": st.none()
        | st.lists(
            objects({"id": text, "name": text}, {"arguments": st.none() | _texts}), max_size=2
        ),
        "tool_call_id": st.none() | _lists,
    },
)
_later_required = {
    **_required,
    "sample_id": text,
    "input": objects(
        {"raw": text, "reference": _lists},
        {"formatted": st.none() | text, "choices": st.none() | _lists},
    ),
    "evaluation": objects(
        {"score": integers | floats, "is_correct": st.booleans()},
        {"num_turns": st.none() | st.integers(1, 9), "tool_calls_count": st.none() | counts},
    ),
}
_later_optional = {
    **_optional,
    "sample_hash": st.none() | text,
    "performance": st.none()
    | objects({}, {"latency_ms": times, "additional_details": st.none() | _texts}),
    "metadata": st.none() | _texts,
}
_later_output = objects({"raw": _lists}, {"reasoning_trace": st.none() | _lists})
_of_0_2_1 = st.fixed_dictionaries(
    {**_later_required, "interaction_type": st.just("single_turn"), "output": _later_output},
    optional={**_later_optional, "messages": st.none()},
) | st.fixed_dictionaries(
    {
        **_later_required,
        "interaction_type": st.sampled_from(["multi_turn", "agentic"]),
        "messages": st.lists(_messages, max_size=3),
    },
    optional={**_later_optional, "output": st.none()},
)
records_of: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "0.2.0": records,
    "0.2.0-released": objects(
        {
            **_required,
            **_released,
            "interaction_type": st.just("single_turn"),
            "output": _released_output,
        },
        {**_optional, "interactions": st.none()},
    )
    | objects(
        {
            **_required,
            **_released,
            "interaction_type": st.sampled_from(["multi_turn", "agentic"]),
            "interactions": st.lists(turns, max_size=3),
        },
        {**_optional, "output": st.none()},
    ),
    "0.2.1": _of_0_2_1,
    "0.3.0": st.builds(
        lambda record, more: record | more, _of_0_2_1, st.just({}) | text.map(_with_result_id)
    ),
}
"""Random valid records of each schema version."""


def respelled(value: Any, rng: random.Random) -> str:
    """Encode a value at random: keys shuffled, white space anywhere, characters plain or escaped."""

    def space() -> str:
        return "".join(rng.choices(" \t\r", k=rng.choice([0, 0, 0, 1, 2])))

    def string(text: str) -> str:
        return '"' + "".join(character(char) for char in text) + '"'

    def character(char: str) -> str:
        if rng.random() < 0.2:
            units = char.encode("utf-16-be")
            style = rng.choice(["\\u{:04x}", "\\u{:04X}"])
            return "".join(
                style.format(int.from_bytes(units[at : at + 2], "big"))
                for at in range(0, len(units), 2)
            )
        if char == "/" and rng.random() < 0.5:
            return "\\/"
        return json.dumps(char, ensure_ascii=False)[1:-1]

    def walk(value: Any) -> str:
        if isinstance(value, dict):
            items = list(value.items())
            rng.shuffle(items)
            inner = ",".join(
                f"{space()}{string(k)}{space()}:{space()}{walk(v)}{space()}" for k, v in items
            )
            return "{" + (inner or space()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(space() + walk(item) + space() for item in value) + "]"
        return string(value) if isinstance(value, str) else json.dumps(value)

    return space() + walk(value) + space()
