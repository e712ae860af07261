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
`upgrade.`. Records are upgraded from Struct to Struct; `upgrade_value` takes and returns dicts,
which may have any unknown key.
"""

from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from fastrec.errors import UsageError
from fastrec.schemas.schema import JsonObject, Schema, Shape, build, compile_function
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

_DETAILS = "additional_details"


def spell_other(value: Any) -> Raw:
    """Encode long integers, which msgspec does not know, by the digits that the parser keeps."""
    if isinstance(value, int):
        return Raw(repr(value).encode())
    raise UsageError(
        f"a record can only hold JSON values, found one of type {type(value).__name__}"
    )


# keys by code point
format_sorted = msgspec.json.Encoder(enc_hook=spell_other, order="deterministic").encode


def as_text(value: Any) -> str:
    """Spell a value as JSON text; a string stays as it is."""
    return value if isinstance(value, str) else format_sorted(value).decode()


def upgrade_value(value: JsonObject, schema: Schema) -> tuple[JsonObject, list[str]]:
    """Upgrade a valid record of a version, given as a dict.

    Return also the codes of its lossy or ambiguous steps.

    The dict itself does not change. A record of the newest version is returned as it is.
    """
    if schema is NEWEST:
        return value, []
    fields = schema.shape.fields
    moved = {key: child for key, child in value.items() if key not in fields}
    details = (value.get("performance") or {}).get(_DETAILS, UNSET)
    record, codes = _upgrade(build(schema.record, value), schema, moved, details)
    known = {key: child for key, child in value.items() if key in fields}
    known[NEWEST.turns_field] = known.pop(schema.turns_field, None)
    return _value_of(record, known, NEWEST.shape), codes


def _value_of(new: Any, old: Any, shape: Shape | None) -> Any:
    """Turn Structs into dicts, with the unknown keys of the objects that they were made of.

    Nulls that mean the same as absence are left out.
    """
    if not shape or new is None:
        return new
    if isinstance(new, list):
        return [_value_of(*both, shape) for both in zip(new, old, strict=True)]
    value = {
        key: _value_of(child, old.get(key), field.shape)
        for key, field in shape.fields.items()
        if (child := getattr(new, field.name)) is not UNSET
        and not (child is None and field.drops_null)
    }
    return value | {key: child for key, child in old.items() if key not in shape.fields}


def _look_at_turns(record: Any, field: str, codes: set[str]) -> None:
    """Find ambiguous values that are left as they are."""
    roles = [turn.role for turn in record.interactions]
    if record.interaction_type == "multi_turn" and roles.count("assistant") == 1:
        codes.add("upgrade.one_assistant_turn")
    if any(field in attribution.source for attribution in record.answer_attribution):
        codes.add("upgrade.attribution_source")


def as_texts(values: Mapping[str, Any], code: str, codes: set[str]) -> dict[str, str]:
    if all(isinstance(child, str) for child in values.values()):
        return dict(values)
    codes.add(code)
    return {key: as_text(child) for key, child in values.items()}


def _new_metadata(metadata: Any, moved: Mapping[str, Any], codes: set[str]) -> Any:
    """Make the values of `metadata` text, and add those that move there under their names.

    A name that is taken gets a suffix.
    """
    if metadata:
        metadata = as_texts(metadata, "upgrade.metadata_text", codes)
    if not moved:
        return metadata
    metadata = metadata or {}
    for key in sorted(moved):
        name = free_name(key, metadata)
        if name != key:
            codes.add("upgrade.name_taken")
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


# From Struct to Struct. Objects that are equal in both versions are used again. Unknown keys of the
# root go to `metadata`; those of other objects, which are open in all versions, stay in their
# objects.


def upgrade_record(record: Any, schema: Schema) -> tuple[Any, list[str]]:
    """Upgrade a valid record of a version; return also the codes of its lossy or ambiguous steps.

    Nulls stay, because the judge drops them anyway. Parts of the given record become parts of the
    new one.
    """
    if schema is NEWEST:
        return record, []
    moved = _unknown(record, len(schema.record.__struct_fields__))
    details = record.performance and getattr(record.performance, _DETAILS, UNSET)
    return _upgrade(record, schema, moved, details)


def _upgrade(record: Any, schema: Schema, moved: JsonObject, details: Any) -> tuple[Any, list[str]]:
    """Upgrade a record with these unknown keys at its root, and these additional details."""
    codes: set[str] = set()
    result_id = _newest_fields(moved, codes)
    if record.schema_version not in schema.labels:
        moved["schema_version"] = record.schema_version
        codes.add("upgrade.label")
    if schema is V0_2_1:  # only the label changes
        metadata = _new_metadata(record.metadata, moved, codes)
        return _copy_newer_record(record, NEWEST.label, UNSET, metadata), sorted(codes)
    sample_id = record.sample_id
    turns = record.interactions
    output = record.output
    performance = record.performance
    if performance:
        if details.__class__ is dict:
            details = as_texts(details, "upgrade.details_text", codes)
        elif details is not UNSET and details is not None:
            moved[f"performance.{_DETAILS}"] = details
            codes.add("upgrade.details_moved")
            details = UNSET
        performance = _with_unknown(_copy_performance(performance, details), performance, added=1)
    if sample_id.__class__ is not str:  # 1.0 is an integer in JSON Schema
        sample_id = as_text(int(sample_id) if sample_id.__class__ is float else sample_id)
        codes.add("upgrade.sample_id_number")
    if turns.__class__ is list:
        _look_at_turns(record, schema.turns_field, codes)
        turns = [_new_message(turn, codes) for turn in turns]
    if output:
        raw = output.raw
        trace = output.reasoning_trace
        if "" in (raw, trace):
            codes.add("upgrade.output_empty")
        output = _with_unknown(Output(raw=_listed(raw), reasoning_trace=_listed(trace)), output)
    asked = _new_input(record.input, codes)
    evaluation = _new_evaluation(record.evaluation, codes)
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
        _new_metadata(record.metadata, moved, codes),
    )
    return upgraded, sorted(codes)


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
    "schema_version",
    "evaluation_result_id",
    "sample_id",
    "input",
    "output",
    "messages",
    "evaluation",
    "performance",
    "metadata",
)
_copy_input = _copier(Input, "reference")
_copy_message = _copier(Message, "tool_calls", "tool_call_id")
_copy_evaluation = _copier(Evaluation, "score")
_copy_performance = _copier(Performance, "additional_details")


def upgrade_input(asked: Any, schema: Schema) -> Any:
    return asked if schema in (NEWEST, V0_2_1) else _new_input(asked, set())


def _newest_fields(moved: JsonObject, codes: set[str]) -> Any:
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
            codes.add("upgrade.result_id")
        if moved:
            codes.add("upgrade.unknown_root_key")
    return result_id


def _listed(text: Any) -> Any:
    return [text] if text.__class__ is str else text


def _new_input(asked: Any, codes: set[str]) -> Any:
    if asked.reference == "":
        codes.add("upgrade.reference_empty")
    return _with_unknown(_copy_input(asked, _listed(asked.reference)), asked)


def _new_message(turn: Any, codes: set[str]) -> Any:
    calls = turn.tool_calls
    if calls:
        calls = [_new_tool_call(call, codes) for call in calls]
    new = _copy_message(turn, calls, _listed(turn.tool_call_id))
    return _with_unknown(new, turn)


def _new_tool_call(call: Any, codes: set[str]) -> Any:
    arguments = call.arguments
    if arguments:
        arguments = as_texts(arguments, "upgrade.arguments_text", codes)
    return _with_unknown(ToolCall(id=call.id, name=call.name, arguments=arguments), call)


def _new_evaluation(evaluation: Any, codes: set[str]) -> Any:
    score = evaluation.score
    if score.__class__ is bool:
        score = float(score)
        codes.add("upgrade.score_from_boolean")
    return _with_unknown(_copy_evaluation(evaluation, score), evaluation)


def _unknown(value: Any, known: int) -> JsonObject:
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
    if len(old.__struct_fields__) == known:
        return new
    keys = new.__struct_encode_fields__
    unknown = {key: child for key, child in _unknown(old, known).items() if key not in keys}
    if not unknown:
        return new
    fields = {name: getattr(new, name) for name in new.__struct_fields__}
    struct, names = _widened(new.__class__, tuple(sorted(unknown)))
    return struct(**fields, **{names[key]: child for key, child in unknown.items()})


@lru_cache(maxsize=256)
def _widened(struct: type[Any], keys: tuple[str, ...]) -> tuple[type[Any], dict[str, str]]:
    """A class with fields for unknown keys, and the names of its fields by key."""
    wide = widen(struct, {"": keys})
    return wide, dict(zip(wide.__struct_encode_fields__, wide.__struct_fields__, strict=True))
