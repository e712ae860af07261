"""The shape of a record, read from its Structs: known keys, their order, and values with several spellings.

The slow path walks plain dicts by their `Shape`, and builds Structs from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from fastrec.schemas.structs import Base

__all__ = ["Field", "Shape", "build", "shape_of"]

AnyStruct = TypeVar("AnyStruct", bound=Base)


class Field(msgspec.Struct, frozen=True):
    """What the normal form needs to know about one known field."""

    name: str
    """The attribute of the Struct."""
    integer: bool
    """The normal form spells an integral number here as an integer."""
    drops_null: bool
    """The field is optional and nullable: `null` means the same as absence."""
    is_list: bool
    shape: Shape | None
    """The shape of the object here, or of each object in the array here."""


class Shape(msgspec.Struct, frozen=True):
    """The known fields of one kind of object by key, in the order of the normal form."""

    path: str
    """Field names that lead to such an object, joined with dots: `interactions.tool_calls`; empty for the record."""
    struct: type[Base]
    fields: dict[str, Field]


@cache
def shape_of(struct: type[Base], path: str = "") -> Shape:
    """Return the shape of the objects of a Struct."""
    fields = {}
    for field in msgspec.structs.fields(struct):
        types = set(_types_in(field.type))
        child = next((hint for hint in types if isinstance(hint, type) and issubclass(hint, Base)), None)
        fields[field.encode_name] = Field(
            name=field.name,
            integer=int in types and float not in types,
            drops_null=not field.required and type(None) in get_args(field.type),
            is_list=list in types,
            shape=shape_of(child, f"{path}.{field.encode_name}".lstrip(".")) if child else None,
        )
    return Shape(path, struct, fields)


def _types_in(hint: Any) -> Iterator[Any]:
    yield get_origin(hint) or hint
    for argument in get_args(hint):
        yield from _types_in(argument)


def build(struct: type[AnyStruct], value: dict[str, Any]) -> AnyStruct:
    """Make a Struct from a valid object without checking its types again; keys without a field are left out."""
    record = _build(shape_of(struct), value)
    assert isinstance(record, struct)
    return record


def _build(shape: Shape | None, value: Any) -> Any:
    if shape is None or value is None:
        return value
    if isinstance(value, list):
        return [_build(shape, item) for item in value]
    known = [(field, value[key]) for key, field in shape.fields.items() if key in value]
    return shape.struct(**{field.name: _build(field.shape, child) for field, child in known})
