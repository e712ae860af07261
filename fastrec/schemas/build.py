"""Build Structs from a plain dict that is known to be valid, without checking its types again."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from fastrec.schemas.compiled import struct_in
from fastrec.schemas.structs import Base

__all__ = ["build"]

AnyStruct = TypeVar("AnyStruct", bound=Base)


def build(struct: type[AnyStruct], value: dict[str, Any]) -> AnyStruct:
    """Make a Struct from a valid object; keys without a field in the Struct are left out."""
    fields = _fields(struct)
    return struct(**{fields[key][0]: _child(child, fields[key][1]) for key, child in value.items() if key in fields})


def _child(value: Any, struct: type[Base] | None) -> Any:
    if struct is None or value is None:
        return value
    return [build(struct, item) for item in value] if isinstance(value, list) else build(struct, value)


@cache
def _fields(struct: type[Base]) -> dict[str, tuple[str, type[Base] | None]]:
    """By key: the name of its field, and the Struct of the object or objects in it."""
    return {field.encode_name: (field.name, struct_in(field.type)) for field in msgspec.structs.fields(struct)}
