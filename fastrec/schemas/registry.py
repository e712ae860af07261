"""The schema versions that fastrec knows, and how to tell the version of a record.

To add a version, write a module like `v0_2_0` and add its `SCHEMA` here.

The shape of a record tells its version; its label decides only where shapes cannot. The first rule
that fits decides. *Valid* is the verdict of the schema file of a version.

1. Valid as 0.2.0: 0.2.0. No later structure but that of the released 0.2.0 accepts such a record.
2. Valid as 0.3.0: by `evaluation_result_id`, 0.3.0; else by the label, 0.2.1 or (if valid)
   0.2.0-released; else 0.3.0.
3. Valid as 0.2.0-released: 0.2.0-released.

So every record that is valid by some version has one, whatever else its label or an unknown key
suggests. A record that is valid nowhere is closest to the version whose marks it has: the spelling
of fields that versions spell differently, then its label.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastrec.errors import UsageError
from fastrec.schemas.schema import JsonObject, Schema, Shape
from fastrec.schemas.v0_2_0 import RELEASED as V0_2_0_RELEASED
from fastrec.schemas.v0_2_0 import SCHEMA as V0_2_0
from fastrec.schemas.v0_2_0 import Record as Record  # noqa: PLC0414 - the Struct of the default version
from fastrec.schemas.v0_2_0 import ReleasedRecord
from fastrec.schemas.v0_3_0 import SCHEMA as V0_3_0
from fastrec.schemas.v0_3_0 import V0_2_1, Record021
from fastrec.schemas.v0_3_0 import Record as Record030


def fields_of(shapes: Iterable[Shape]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields of some objects; a list stands for each of its items."""
    for shape in shapes:
        for name, field in shape.fields.items():
            yield (name,)
            yield from ((name, *path) for path in fields_of([field.shape] if field.shape else []))


def contradicts_itself(value: Any) -> bool:
    """Whether a line has turns of two versions.

    Where unknown keys are allowed, it may be valid nevertheless.
    """
    return (
        isinstance(value, dict)
        and value.get("interactions") is not None
        and value.get("messages") is not None
    )


def names_metric(value: JsonObject) -> bool:
    """Whether a record names its metric.

    In the versions without metrics, this is an unknown key.
    """
    return isinstance(value.get("evaluation_result_id"), str)


def version_of(value: Any, is_valid: Callable[[Any, Schema], bool]) -> Schema | None:
    if is_valid(value, V0_2_0):
        return V0_2_0
    if is_valid(value, V0_3_0):
        label = value["schema_version"]
        if "evaluation_result_id" in value:
            return V0_3_0
        if label in V0_2_0_RELEASED.labels and is_valid(value, V0_2_0_RELEASED):
            return V0_2_0_RELEASED
        return V0_2_1 if label in V0_2_1.labels else V0_3_0
    return V0_2_0_RELEASED if is_valid(value, V0_2_0_RELEASED) else None


def closest_version(value: Any) -> Schema:
    record = value if isinstance(value, dict) else {}
    label = record.get("schema_version")
    label = label if isinstance(label, str) else ""
    has_lists = any(isinstance(text, list) for text in _texts(record))
    earliest = V0_2_0_RELEASED if has_lists else V0_2_0
    if "interactions" in record and record.get("messages") is None:
        return earliest
    if record.get("messages") is not None:
        return V0_2_1 if label in V0_2_1.labels and "evaluation_result_id" not in record else V0_3_0
    if _has_old_spelling(record):
        return earliest
    if "evaluation_result_id" in record:
        return V0_3_0
    if label in V0_2_0.labels and not _has_new_nulls(record):
        return earliest
    return V0_2_1 if label in V0_2_1.labels else V0_3_0


def _object(record: JsonObject, name: str) -> JsonObject:
    """A field that should be an object; an empty one if it is not."""
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _texts(record: JsonObject) -> list[Any]:
    output = _object(record, "output")
    return [
        _object(record, "input").get("reference"),
        output.get("raw"),
        output.get("reasoning_trace"),
    ]


def _has_old_spelling(record: JsonObject) -> bool:
    """Whether a value is spelled as only the versions 0.2.0 spell it."""
    sample_id = record.get("sample_id")
    return (
        any(isinstance(text, str) for text in _texts(record))
        or (isinstance(sample_id, (int, float)) and not isinstance(sample_id, bool))
        or isinstance(_object(record, "evaluation").get("score"), bool)
    )


def _has_new_nulls(record: JsonObject) -> bool:
    """Whether a field is null that only later versions allow to be null."""
    places = (
        (record, ("sample_hash", "metadata")),
        (_object(record, "input"), ("formatted", "choices")),
        (_object(record, "evaluation"), ("num_turns", "tool_calls_count")),
    )
    return any(name in part and part[name] is None for part, names in places for name in names)


# Every version by name, the oldest first.
SCHEMAS = {schema.name: schema for schema in (V0_2_0, V0_2_0_RELEASED, V0_2_1, V0_3_0)}

# The version of a corpus if all of its records are of this version, and none names a metric.
#
# `Record` is its Struct.
DEFAULT_SCHEMA = V0_2_0

NEWEST_SCHEMA = V0_3_0  # the version of a corpus otherwise: all records are upgraded to it

# The versions that a corpus can have, by name.
TARGETS = {schema.name: schema for schema in (DEFAULT_SCHEMA, NEWEST_SCHEMA)}

# The same by what manifests say.
CORPUS_LABELS = {schema.label: schema for schema in TARGETS.values()}


AnyRecord = Record | ReleasedRecord | Record021 | Record030

_BY_RECORD = {schema.record: schema for schema in SCHEMAS.values()}


def schema_of(record: AnyRecord) -> Schema:
    """The version of a decoded record, by its class or the one that it widens."""
    return schema_of_class(type(record))


def schema_of_class(record: type[Any]) -> Schema:
    return next(_BY_RECORD[kind] for kind in record.__mro__ if kind in _BY_RECORD)


def chosen_schema(name: str) -> Schema | None:
    """The version that a user chose.

    None for `auto`: the version of each record, told by its shape.
    """
    return None if name == "auto" else schema_named(name)


def schema_named(name: str) -> Schema:
    if name not in SCHEMAS:
        raise UsageError(
            f"there is no schema version {name!r}; the versions are {', '.join(SCHEMAS)}"
        )
    return SCHEMAS[name]
