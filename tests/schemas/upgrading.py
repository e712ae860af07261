"""A second implementation of the upgrade, slow and obvious, and what the tests of the upgrade need
to generate records.

It uses nothing of fastrec. It takes the path of every value in turn and says what has to be there
in the new record.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests import strategies

OLD = ("0.2.0", "0.2.0-released", "0.2.1")
LABELS = {
    "0.2.0": {"0.2.0", "instance_level_eval_0.2.0"},
    "0.2.0-released": {"0.2.0", "instance_level_eval_0.2.0"},
    "0.2.1": {"0.2.1", "instance_level_eval_0.2.1"},
}
ROOT = {
    *(
        "schema_version",
        "evaluation_id",
        "model_id",
        "evaluation_name",
        "sample_id",
        "sample_hash",
        "interaction_type",
    ),
    *(
        "input",
        "output",
        "interactions",
        "answer_attribution",
        "evaluation",
        "token_usage",
        "performance",
        "error",
    ),
    "metadata",
}
NULLABLE = {
    (): {"sample_hash", "output", "messages", "token_usage", "performance", "error", "metadata"},
    ("input",): {"formatted", "choices"},
    ("output",): {"reasoning_trace"},
    ("messages", 0): {"content", "reasoning_trace", "tool_calls", "tool_call_id"},
    ("messages", 0, "tool_calls", 0): {"arguments"},
    ("evaluation",): {"num_turns", "tool_calls_count"},
    ("token_usage",): {"input_tokens_cache_write", "input_tokens_cache_read", "reasoning_tokens"},
    ("performance",): {
        "latency_ms",
        "time_to_first_token_ms",
        "generation_time_ms",
        "additional_details",
    },
}
"""The fields that may be null in 0.3.0, by the path of their object."""


class JsonText(NamedTuple):
    """A value that has to be spelled as JSON text; numbers may have several spellings."""

    value: Any


def expected(record: dict[str, Any], version: str) -> tuple[dict[str, Any], set[str]]:
    """Return the upgraded record, with `JsonText` in the place of JSON text, and the codes."""
    codes: set[str] = set()
    old_turns = version != "0.2.1"
    new: dict[str, Any] = {}
    homeless: dict[str, Any] = {}
    for key, value in record.items():
        if old_turns and key == "interactions":
            new["messages"] = value
        elif key in ROOT or (not old_turns and key == "messages"):
            new[key] = value
        elif key in ("messages", "evaluation_result_id") and value is None:
            pass
        elif key == "evaluation_result_id" and isinstance(value, str):
            new[key] = value
            codes.add("upgrade.result_id")
        else:
            homeless[key] = value
            codes.add("upgrade.unknown_root_key")
    new = pruned(new, ())
    if record["schema_version"] not in LABELS[version]:
        homeless["schema_version"] = record["schema_version"]
        codes.add("upgrade.label")
    new["schema_version"] = "0.3.0"
    if not isinstance(record["sample_id"], str):
        new["sample_id"] = f"{int(record['sample_id'])}"
        codes.add("upgrade.sample_id_number")
    for parent, field, code in (
        (new["input"], "reference", "upgrade.reference_empty"),
        (new.get("output", {}), "raw", "upgrade.output_empty"),
        (new.get("output", {}), "reasoning_trace", "upgrade.output_empty"),
    ):
        if isinstance(parent.get(field), str):
            codes |= {code} if parent[field] == "" else set()
            parent[field] = [parent[field]]
    for turn in new.get("messages", []):
        if isinstance(turn.get("tool_call_id"), str):
            turn["tool_call_id"] = [turn["tool_call_id"]]
        for call in turn.get("tool_calls", []):
            if "arguments" in call:
                call["arguments"] = _texts(call["arguments"], "upgrade.arguments_text", codes)
    if isinstance(new["evaluation"]["score"], bool):
        new["evaluation"]["score"] = 1.0 if new["evaluation"]["score"] else 0.0
        codes.add("upgrade.score_from_boolean")
    if old_turns and "messages" in new:
        assistants = [turn for turn in new["messages"] if turn["role"] == "assistant"]
        if record["interaction_type"] == "multi_turn" and len(assistants) == 1:
            codes.add("upgrade.one_assistant_turn")
        if "interactions" in " ".join(one["source"] for one in record["answer_attribution"]):
            codes.add("upgrade.attribution_source")
    details = new.get("performance", {}).get("additional_details", {})
    if not isinstance(details, dict):
        homeless["performance.additional_details"] = new["performance"].pop("additional_details")
        codes.add("upgrade.details_moved")
    elif details:
        new["performance"]["additional_details"] = _texts(details, "upgrade.details_text", codes)
    if "metadata" in new or homeless:
        new["metadata"] = _texts(new.get("metadata", {}), "upgrade.metadata_text", codes)
        for key in sorted(homeless):
            candidates = [key, *(f"{key}_{number}" for number in range(2, 100))]
            free = next(name for name in candidates if name not in new["metadata"])
            codes |= {"upgrade.name_taken"} if free != key else set()
            new["metadata"][free] = _text(homeless[key])
    return new, codes


def pruned(value: Any, path: tuple[str | int, ...]) -> Any:
    """Copy a value without nulls in nullable fields."""
    if isinstance(value, list):
        return [pruned(item, (*path, 0)) for item in value]
    if not isinstance(value, dict):
        return value
    nullable = NULLABLE.get(path, set())
    return {
        key: pruned(child, (*path, key))
        for key, child in value.items()
        if not (child is None and key in nullable)
    }


def with_integers(record: dict[str, Any]) -> dict[str, Any]:
    """Spell integral numbers in integer fields as integers, as the normal form does."""
    usage = record.get("token_usage", {})
    turns = [*record.get("messages", []), *record["answer_attribution"]]
    places = [(usage, key) for key in usage if "tokens" in key]
    places += [(record["evaluation"], key) for key in ("num_turns", "tool_calls_count")]
    for parent, key in [*places, *((turn, "turn_idx") for turn in turns)]:
        if isinstance(parent.get(key), float):
            parent[key] = int(parent[key])
    return record


def _text(value: Any) -> str | JsonText:
    return value if isinstance(value, str) else JsonText(value)


def _texts(values: dict[str, Any], code: str, codes: set[str]) -> dict[str, Any]:
    if any(not isinstance(value, str) for value in values.values()):
        codes.add(code)
    return {key: _text(value) for key, value in values.items()}


def assert_agrees(wanted: Any, found: Any, at: str = "$") -> None:
    """Compare with types: 1, 1.0 and true differ, and so do 0.0 and -0.0."""
    if isinstance(wanted, JsonText):
        value = json.loads(found)
        assert_agrees(wanted.value, value, f"{at} (JSON text)")
        assert_is_compact(found, value, at)
        return
    assert type(wanted) is type(found), at
    if isinstance(wanted, dict):
        assert wanted.keys() == found.keys(), at
        for key in wanted:
            assert_agrees(wanted[key], found[key], f"{at}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(found), at
        for index, (left, right) in enumerate(zip(wanted, found, strict=True)):
            assert_agrees(left, right, f"{at}[{index}]")
    else:
        assert repr(wanted) == repr(found), at


def assert_is_compact(text: str, value: Any, at: str) -> None:
    """JSON text has no white space, sorted keys, and characters as themselves.

    Only floats have several spellings.
    """
    if "e" not in repr(value):  # an exponent, perhaps
        assert text == json.dumps(
            value, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        ), at


def leaves(value: Any) -> list[Any]:
    """List the keys and scalars of a value; empty containers count, nulls do not."""
    if isinstance(value, dict):
        return [*value, *(leaf for child in value.values() for leaf in leaves(child))] or ["{}"]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)] or ["[]"]
    return [] if value is None else [value if isinstance(value, str) else repr(value)]


_extras = st.fixed_dictionaries(
    {},
    optional={
        "evaluation_result_id": st.none() | strategies.text | strategies.free,
        "messages": st.none(),
        "metrics": st.just({"num_turns": 1}),
        "a": strategies.free,
        "a_2": strategies.free,
        "schema_version_2": strategies.free,
    },
)
_details = st.fixed_dictionaries(
    {}, optional={"additional_details": strategies.free | strategies.free_objects}
)
_known_names = st.sampled_from(
    ["a", "a_2", "a_3", "zz", "schema_version", "performance.additional_details", "metrics"]
)
_sources = st.sampled_from(["output.raw", "interactions[3].content", "messages[0].content"])


def _mixed(
    record: dict[str, Any], extras: dict[str, Any], messages: Any, names: dict[str, Any]
) -> dict[str, Any]:
    """Add what makes an upgrade difficult: unknown keys with the names of new fields, and names
    that are taken.
    """
    record = {**extras, **record}
    if record["interaction_type"] == "single_turn" and messages is not None:
        record["messages"] = messages
    if names:
        record["metadata"] = {**record.get("metadata", {}), **names}
    return record


def _with_parts(
    record: dict[str, Any], details: dict[str, Any], source: str, label: str
) -> dict[str, Any]:
    """Add details, the source of answers, and a label."""
    if isinstance(record.get("performance"), dict):
        record["performance"] = {**record["performance"], **details}
    record["answer_attribution"] = [
        {**one, "source": source} for one in record["answer_attribution"]
    ]
    return {**record, "schema_version": label}


def _early(version: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    names = st.dictionaries(_known_names, strategies.free, max_size=3)
    labels = st.sampled_from(["0.2.0", "instance_level_eval_0.2.0", "0.3.0", "x"])
    messages = st.none() | strategies.free
    mixed = st.builds(_mixed, strategies.records_of[version], _extras, messages, names)
    return st.tuples(st.just(version), st.builds(_with_parts, mixed, _details, _sources, labels))


old_records = (
    _early("0.2.0")
    | _early("0.2.0-released")
    | st.builds(
        lambda record, label: ("0.2.1", {**record, "schema_version": label}),
        strategies.records_of["0.2.1"],
        st.sampled_from(["0.2.1", "instance_level_eval_0.2.1", "0.2.0"]),
    )
)
"""Versions and valid records of them, with everything that makes an upgrade difficult."""
