"""The shape of a record, read from the schema file: known keys, their order, and values with several spellings.

The slow path walks plain dicts by their `Shape`. The fast path has the same knowledge in Structs.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Field", "Shape", "shape_of"]


class Field(msgspec.Struct, frozen=True):
    """What the normal form needs to know about one known field."""

    integer: bool
    """The normal form spells an integral number here as an integer."""
    drops_null: bool
    """The field is optional and nullable: `null` means the same as absence."""
    shape: Shape | None
    """The shape of the object here, or of each object in the array here."""


class Shape(msgspec.Struct, frozen=True):
    """The known fields of one kind of object, in the order of the normal form."""

    path: str
    """Field names that lead to such an object, joined with dots: `interactions.tool_calls`; empty for the record."""
    fields: dict[str, Field]


def shape_of(document: dict[str, Any]) -> Shape:
    """Return the shape of a record by its JSON Schema."""
    return _shape(document, "")


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
