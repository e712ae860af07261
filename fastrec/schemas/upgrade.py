"""Upgrade records to the newest version, without losing anything.

1. Fields whose type changed get the new type: text becomes a list of one text, a boolean score a number, a numeric
   `sample_id` its decimal digits, and a value that has to be text its JSON text.
2. What has no place in the newest version goes to `metadata` under its name, as JSON text: unknown keys of the root,
   and a label that does not belong to the record's version. If the name is taken, it gets the first free suffix `_2`,
   `_3` …; values move in the order of their names by code point, so the result does not depend on the order of keys.
3. A null that means the same as absence is left out.

JSON text is the normal form: compact, with keys sorted by code point; integers keep their digits. Text stays as it is.
Every step that loses or may confuse something has a code. This module works on dicts, and upgrades every record;
`fast_upgrade` does the same with Structs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from fastrec.schemas.schema import Schema, Shape
from fastrec.schemas.v0_3_0 import SCHEMA as NEWEST

UPGRADES: Final[dict[str, str]] = {
    "upgrade.label": "`schema_version` was not a label of the record's version; it is kept in `metadata`",
    "upgrade.unknown_root_key": "an unknown key of the root went to `metadata`, as JSON text unless it was text",
    "upgrade.name_taken": "a name in `metadata` was taken, so the value that went there got a suffix such as `_2`",
    "upgrade.result_id": "`evaluation_result_id`, which was an unknown key, became part of the identity",
    "upgrade.sample_id_number": '`sample_id` was a number and became text: 1 and "1" are one identity now',
    "upgrade.reference_empty": "an empty `input.reference` became a list with one empty text",
    "upgrade.output_empty": "an empty `output.raw` or `output.reasoning_trace` became a list with one empty text",
    "upgrade.score_from_boolean": "`evaluation.score` was a boolean and became 1.0 or 0.0",
    "upgrade.arguments_text": 'a value in the `arguments` of a tool call became JSON text: 5 and "5" are equal now',
    "upgrade.metadata_text": 'a value in `metadata` became JSON text: 5 and "5" are equal now',
    "upgrade.details_text": 'a value in `performance.additional_details` became JSON text: 5 and "5" are equal now',
    "upgrade.details_moved": "`performance.additional_details` was not an object and went to `metadata`",
    "upgrade.attribution_source": "a `source` in `answer_attribution` names `interactions`, which are `messages` now",
    "upgrade.one_assistant_turn": "a multi_turn record has one assistant turn; later producers call this single_turn",
}
"""What the steps do that lose or may confuse something, by code."""


def _spell_long_integer(value: Any) -> msgspec.Raw:
    """Encode an integer that the parser keeps by its digits: Python prints no more than 4,300 of them."""
    assert isinstance(value, int)
    return msgspec.Raw(repr(value).encode())


_encode: Final = msgspec.json.Encoder(enc_hook=_spell_long_integer, order="deterministic").encode


def as_text(value: Any) -> str:
    """Spell a value as JSON text; a string stays as it is."""
    return value if isinstance(value, str) else _encode(value).decode()


def upgrade_value(value: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Upgrade a valid record of a version, given as a dict; return also the codes of its lossy or ambiguous steps.

    The dict itself does not change. A record of the newest version is returned as it is.
    """
    if schema is NEWEST:
        return value, []
    found: set[str] = set()
    upgraded: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for key, child in value.items():
        if key in schema.shape.fields:
            upgraded[NEWEST.turns_field if key == schema.turns_field else key] = child
        elif key == "evaluation_result_id" and isinstance(child, str):
            upgraded[key] = child
            found.add("upgrade.result_id")
        elif child is not None or key not in NEWEST.shape.fields:
            moved[key] = child
            found.add("upgrade.unknown_root_key")
    upgraded = without_nulls(upgraded, NEWEST.shape)
    if value["schema_version"] not in schema.labels:
        moved["schema_version"] = value["schema_version"]
        found.add("upgrade.label")
    upgraded["schema_version"] = NEWEST.label
    sample_id = value["sample_id"]
    if not isinstance(sample_id, str):  # 1.0 is an integer in JSON Schema
        upgraded["sample_id"] = as_text(int(sample_id) if isinstance(sample_id, float) else sample_id)
        found.add("upgrade.sample_id_number")
    upgraded["input"] = _with_lists(upgraded["input"], ("reference",), "upgrade.reference_empty", found)
    if "output" in upgraded:
        upgraded["output"] = _with_lists(upgraded["output"], ("raw", "reasoning_trace"), "upgrade.output_empty", found)
    if NEWEST.turns_field in upgraded:
        upgraded[NEWEST.turns_field] = [_message(turn, found) for turn in upgraded[NEWEST.turns_field]]
        if NEWEST.turns_field != schema.turns_field:
            _look_at_turns(upgraded, schema, found)
    score = upgraded["evaluation"]["score"]
    if isinstance(score, bool):
        upgraded["evaluation"] = upgraded["evaluation"] | {"score": float(score)}
        found.add("upgrade.score_from_boolean")
    if "performance" in upgraded:
        upgraded["performance"] = _performance(upgraded["performance"], moved, found)
    metadata = as_texts(upgraded.get("metadata", {}), "upgrade.metadata_text", found)
    if moved or "metadata" in upgraded:
        upgraded["metadata"] = add_moved(metadata, moved, found)
    return upgraded, sorted(found)


def without_nulls(value: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Leave out nulls that mean the same as absence."""
    kept: dict[str, Any] = {}
    for key, child in value.items():
        field = shape.fields.get(key)
        if child is None and field and field.drops_null:
            continue
        kept[key] = child
        if field and field.shape:
            if isinstance(child, list):
                kept[key] = [without_nulls(item, field.shape) for item in child]
            elif child is not None:
                kept[key] = without_nulls(child, field.shape)
    return kept


def _with_lists(value: dict[str, Any], names: tuple[str, ...], code: str, found: set[str]) -> dict[str, Any]:
    """Turn fields with a text into lists of one text."""
    changed = {name: [value[name]] for name in names if isinstance(value.get(name), str)}
    if [""] in changed.values():
        found.add(code)
    return value | changed


def _message(turn: dict[str, Any], found: set[str]) -> dict[str, Any]:
    turn = dict(turn)
    if isinstance(turn.get("tool_call_id"), str):
        turn["tool_call_id"] = [turn["tool_call_id"]]
    if "tool_calls" in turn:
        turn["tool_calls"] = [
            call | {"arguments": as_texts(call["arguments"], "upgrade.arguments_text", found)}
            if "arguments" in call
            else call
            for call in turn["tool_calls"]
        ]
    return turn


def _look_at_turns(record: dict[str, Any], old: Schema, found: set[str]) -> None:
    """Find ambiguous values that are left as they are."""
    roles = [turn["role"] for turn in record[NEWEST.turns_field]]
    if record["interaction_type"] == "multi_turn" and roles.count("assistant") == 1:
        found.add("upgrade.one_assistant_turn")
    if any(old.turns_field in attribution["source"] for attribution in record["answer_attribution"]):
        found.add("upgrade.attribution_source")


def _performance(performance: dict[str, Any], moved: dict[str, Any], found: set[str]) -> dict[str, Any]:
    """Turn additional details, which were an unknown key, into the field: an object of texts."""
    name = "additional_details"
    if name not in performance:
        return performance
    details = performance[name]
    if isinstance(details, dict):
        return performance | {name: as_texts(details, "upgrade.details_text", found)}
    moved[f"performance.{name}"] = details
    found.add("upgrade.details_moved")
    return {key: child for key, child in performance.items() if key != name}


def as_texts(values: Mapping[str, Any], code: str, found: set[str]) -> dict[str, str]:
    if not all(isinstance(child, str) for child in values.values()):
        found.add(code)
    return {key: as_text(child) for key, child in values.items()}


def add_moved(metadata: dict[str, str], moved: Mapping[str, Any], found: set[str]) -> dict[str, str]:
    """Add values to `metadata` under their names; a name that is taken gets a suffix."""
    for key in sorted(moved):
        name = free_name(key, metadata)
        if name != key:
            found.add("upgrade.name_taken")
        metadata[name] = as_text(moved[key])
    return metadata


def free_name(name: str, taken: Container[str]) -> str:
    """Add the first free suffix to a name that is taken.

    >>> free_name("output", {"output": "4", "output_2": "5"})
    'output_3'
    """
    if name not in taken:
        return name
    return next(f"{name}_{number}" for number in count(2) if f"{name}_{number}" not in taken)
