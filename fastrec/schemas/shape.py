"""The shape of a record, read off the schema file: which keys are known, in which order, and what may be respelled.

The slow path walks plain dicts along a `Shape`; the fast path has the same knowledge compiled into Structs. Both
come down to one schema file, which ships with the package unchanged.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

__all__ = ["SCHEMA_FILE", "Field", "Shape", "record_shape", "schema_bytes", "schema_document"]

SCHEMA_FILE: Final = "instance_level_eval_0.2.0.schema.json"


class Field(msgspec.Struct, frozen=True):
    """What the normal form needs to know of one known field."""

    integer: bool
    """An integral number here is spelled as an integer."""
    drops_null: bool
    """Known, optional and nullable: `null` says the same as absence."""
    shape: Shape | None
    """The shape of the object here, or of each object of the array here."""


class Shape(msgspec.Struct, frozen=True):
    """The known fields of one kind of object, in the order of the normal form."""

    path: str
    """Where such objects stand, as field names joined with dots: `interactions.tool_calls`; empty for the record."""
    fields: dict[str, Field]


def schema_bytes() -> bytes:
    """Return the schema file as it ships, byte for byte."""
    return files("fastrec.schemas").joinpath("files", SCHEMA_FILE).read_bytes()


@cache
def schema_document() -> dict[str, Any]:
    """Return the schema as a dict; do not change it."""
    document: dict[str, Any] = msgspec.json.decode(schema_bytes())
    return document


@cache
def record_shape() -> Shape:
    """Return the shape of a whole record."""
    return _shape(schema_document(), "")


def _shape(schema: dict[str, Any], path: str) -> Shape:
    required = schema.get("required", ())
    return Shape(
        path,
        {
            name: _field(sub, f"{path}.{name}".lstrip("."), required=name in required)
            for name, sub in schema["properties"].items()
        },
    )


def _field(schema: dict[str, Any], path: str, *, required: bool) -> Field:
    types = schema.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    of_object = schema.get("items", schema)
    return Field(
        integer="integer" in types and "number" not in types,
        drops_null=not required and "null" in types,
        shape=_shape(of_object, path) if "properties" in of_object else None,
    )
