"""Upgrade records to the newest version, without losing anything.

1. Fields whose type changed get the new type: text becomes a list of one text, a boolean score a
   number, a numeric `sample_id` its decimal digits, and a value that has to be text its JSON text.
2. What has no place in the newest version goes to `metadata` under its name, as JSON text: unknown
   keys of the root, and a label that does not belong to the record's version. If the name is taken,
   it gets the first free suffix `_2`, `_3` …; values move in the order of their names by code
   point, so the result does not depend on the order of keys.
3. A null that means the same as absence is left out.

JSON text is the normal form: compact, with keys sorted by code point; integers keep their digits.
Text stays as it is. Every step that loses or may confuse something has a code, which begins with
`upgrade.`. `upgrade_value` works on dicts, and upgrades every record; `upgrade_record` does the
same from Struct to Struct. Tests compare the two.
"""

from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET

from fastrec.schemas.schema import Schema, Shape, compile_function
from fastrec.schemas.v0_3_0 import SCHEMA as NEWEST
from fastrec.schemas.v0_3_0 import (
    V0_2_1,
    Evaluation,
    Input,
    Message,
    Output,
    Performance,
    Record,
    ToolCall,
)
from fastrec.schemas.widen import widen


def _spell_long_integer(value: Any) -> msgspec.Raw:
    """Encode an integer that the parser keeps by its digits.

    Python prints no more than 4,300 of them.
    """
    assert isinstance(value, int)
    return msgspec.Raw(repr(value).encode())


_encode = msgspec.json.Encoder(enc_hook=_spell_long_integer, order="deterministic").encode


def as_text(value: Any) -> str:
    """Spell a value as JSON text; a string stays as it is."""
    return value if isinstance(value, str) else _encode(value).decode()


def upgrade_value(value: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Upgrade a valid record of a version, given as a dict.

    Return also the codes of its lossy or ambiguous steps.

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
        upgraded["sample_id"] = as_text(
            int(sample_id) if isinstance(sample_id, float) else sample_id
        )
        found.add("upgrade.sample_id_number")
    upgraded["input"] = _with_lists(
        upgraded["input"], ("reference",), "upgrade.reference_empty", found
    )
    if "output" in upgraded:
        upgraded["output"] = _with_lists(
            upgraded["output"], ("raw", "reasoning_trace"), "upgrade.output_empty", found
        )
    if NEWEST.turns_field in upgraded:
        upgraded[NEWEST.turns_field] = [
            _message(turn, found) for turn in upgraded[NEWEST.turns_field]
        ]
        if NEWEST.turns_field != schema.turns_field:
            roles = [turn["role"] for turn in upgraded[NEWEST.turns_field]]
            sources = [attribution["source"] for attribution in upgraded["answer_attribution"]]
            _look_at_turns(upgraded["interaction_type"], roles, sources, schema.turns_field, found)
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


def _with_lists(
    value: dict[str, Any], names: tuple[str, ...], code: str, found: set[str]
) -> dict[str, Any]:
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


def _look_at_turns(
    kind: str, roles: list[str], sources: list[str], field: str, found: set[str]
) -> None:
    """Find ambiguous values that are left as they are."""
    if kind == "multi_turn" and roles.count("assistant") == 1:
        found.add("upgrade.one_assistant_turn")
    if any(field in source for source in sources):
        found.add("upgrade.attribution_source")


def _performance(
    performance: dict[str, Any], moved: dict[str, Any], found: set[str]
) -> dict[str, Any]:
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


def add_moved(
    metadata: dict[str, str], moved: Mapping[str, Any], found: set[str]
) -> dict[str, str]:
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


# The same from Struct to Struct. Objects that are equal in both versions are used again. Unknown
# keys of the root go to `metadata`; those of other objects, which are open in all versions, stay in
# their objects.


def upgrade_record(record: Any, schema: Schema) -> tuple[Any, list[str]] | None:
    """Upgrade a valid record of a version; return also the codes of its lossy or ambiguous steps.

    The result is None for a record that only `upgrade_value` upgrades: one with
    `performance.additional_details`. Nulls stay, because the judge drops them anyway. Parts of the
    given record become parts of the new one.
    """
    if schema is NEWEST:
        return record, []
    found: set[str] = set()
    moved = _unknown(record, len(schema.record.__struct_fields__))
    result_id = _newest_fields(moved, found)
    if record.schema_version not in schema.labels:
        moved["schema_version"] = record.schema_version
        found.add("upgrade.label")
    metadata = record.metadata
    if metadata:
        metadata = as_texts(metadata, "upgrade.metadata_text", found)
    if moved:
        metadata = add_moved(metadata or {}, moved, found)
    if schema is V0_2_1:  # only the label changes
        return _copy_newer_record(record, NEWEST.label, UNSET, metadata), sorted(found)
    sample_id = record.sample_id
    turns = record.interactions
    output = record.output
    performance = record.performance
    if performance:
        if getattr(performance, "additional_details", UNSET) is not UNSET:
            return None
        new = _copy_performance(performance, UNSET)
        performance = _with_unknown(new, performance, added=1)
    if sample_id.__class__ is not str:
        sample_id = as_text(sample_id)
        found.add("upgrade.sample_id_number")
    if turns.__class__ is list:
        roles = [turn.role for turn in turns]
        sources = [attribution.source for attribution in record.answer_attribution]
        _look_at_turns(record.interaction_type, roles, sources, schema.turns_field, found)
        turns = [_new_message(turn, found) for turn in turns]
    if output:
        raw = output.raw
        trace = output.reasoning_trace
        if "" in (raw, trace):
            found.add("upgrade.output_empty")
        output = _with_unknown(Output(raw=_listed(raw), reasoning_trace=_listed(trace)), output)
    asked = _new_input(record.input, found)
    evaluation = _new_evaluation(record.evaluation, found)
    upgraded = _copy_record(
        record,
        NEWEST.label,
        result_id,
        sample_id,
        asked,
        output,
        turns,
        evaluation,
        performance,
        metadata,
    )
    return upgraded, sorted(found)


def _copier(struct: type[Any], *changed: str) -> Callable[..., Any]:
    """Generate a function that copies a Struct, except for the fields that it is given."""
    fields = (
        f"{name}={name}" if name in changed else f"{name}=old.{name}"
        for name in struct.__struct_fields__
    )
    lines = [f"def copy(old, {', '.join(changed)}):", f"    return struct({', '.join(fields)})"]
    return compile_function("copy", lines, struct=struct)


_copy_newer_record = _copier(Record, "schema_version", "evaluation_result_id", "metadata")
_copy_record = _copier(
    Record,
    *(
        "schema_version",
        "evaluation_result_id",
        "sample_id",
        "input",
        "output",
        "messages",
        "evaluation",
    ),
    *("performance", "metadata"),
)
_copy_input = _copier(Input, "reference")
_copy_message = _copier(Message, "tool_calls", "tool_call_id")
_copy_evaluation = _copier(Evaluation, "score")
_copy_performance = _copier(Performance, "additional_details")


def upgrade_input(asked: Any, schema: Schema) -> Any:
    return asked if schema in (NEWEST, V0_2_1) else _new_input(asked, set())


def _newest_fields(moved: dict[str, Any], found: set[str]) -> Any:
    """Take the fields of the newest version out of unknown keys.

    Return the `evaluation_result_id`.
    """
    result_id = UNSET
    if moved:
        for name in Record.__struct_fields__:
            if moved.get(name, UNSET) is None:
                del moved[name]
        if isinstance(moved.get("evaluation_result_id"), str):
            result_id = moved.pop("evaluation_result_id")
            found.add("upgrade.result_id")
        if moved:
            found.add("upgrade.unknown_root_key")
    return result_id


def _listed(text: Any) -> Any:
    return [text] if text.__class__ is str else text


def _new_input(asked: Any, found: set[str]) -> Any:
    if asked.reference == "":
        found.add("upgrade.reference_empty")
    return _with_unknown(_copy_input(asked, _listed(asked.reference)), asked)


def _new_message(turn: Any, found: set[str]) -> Any:
    calls = turn.tool_calls
    if calls:
        calls = [_new_tool_call(call, found) for call in calls]
    new = _copy_message(turn, calls, _listed(turn.tool_call_id))
    return _with_unknown(new, turn)


def _new_tool_call(call: Any, found: set[str]) -> Any:
    arguments = call.arguments
    if arguments:
        arguments = as_texts(arguments, "upgrade.arguments_text", found)
    return _with_unknown(ToolCall(id=call.id, name=call.name, arguments=arguments), call)


def _new_evaluation(evaluation: Any, found: set[str]) -> Any:
    score = evaluation.score
    if score.__class__ is bool:
        score = float(score)
        found.add("upgrade.score_from_boolean")
    return _with_unknown(_copy_evaluation(evaluation, score), evaluation)


def _unknown(value: Any, known: int) -> dict[str, Any]:
    """The unknown keys of a Struct with this many known fields.

    A widened class has fields for them.
    """
    names = value.__struct_fields__
    if len(names) == known:
        return {}
    pairs = zip(value.__struct_encode_fields__[known:], names[known:], strict=True)
    return {key: child for key, name in pairs if (child := getattr(value, name)) is not UNSET}


def _with_unknown(new: Any, old: Any, added: int = 0) -> Any:
    """Add the unknown keys of the old object to the new one.

    The new class has `added` more known fields.
    """
    known = len(new.__struct_fields__) - added
    if len(old.__struct_fields__) == known or not (unknown := _unknown(old, known)):
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    struct, names = _widened(new.__class__, tuple(sorted(unknown)))
    return struct(**fields, **{names[key]: child for key, child in unknown.items()})


@lru_cache(maxsize=256)
def _widened(struct: type[Any], keys: tuple[str, ...]) -> tuple[type[Any], dict[str, str]]:
    """A class with fields for unknown keys, and the names of its fields by key."""
    wide = widen(struct, {"": keys})
    return wide, dict(zip(wide.__struct_encode_fields__, wide.__struct_fields__, strict=True))
