"""From a plain dict that is known to be valid to Structs, without another look at its types."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from fastrec.schemas.v0_2_0 import Base

__all__ = ["build"]

AnyStruct = TypeVar("AnyStruct", bound=Base)


def build(struct: type[AnyStruct], value: dict[str, Any]) -> AnyStruct:
    """Make a Struct of a valid object; keys for which the Struct has no field are left out."""
    fields = _fields(struct)
    return struct(**{fields[key][0]: _child(child, fields[key][1]) for key, child in value.items() if key in fields})


def _child(value: Any, struct: type[Base] | None) -> Any:
    if struct is None or value is None:
        return value
    return [build(struct, item) for item in value] if isinstance(value, list) else build(struct, value)


@cache
def _fields(struct: type[Base]) -> dict[str, tuple[str, type[Base] | None]]:
    """For each key: the name of its field, and the Struct of the object or objects there."""
    return {field.encode_name: (field.name, _struct_in(field.type)) for field in msgspec.structs.fields(struct)}


def _struct_in(hint: Any) -> type[Base] | None:
    if isinstance(hint, type) and issubclass(hint, Base):
        return hint
    return next((struct for argument in get_args(hint) if (struct := _struct_in(argument))), None)
