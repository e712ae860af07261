"""Structs with fields for unknown keys: the schema allows further keys everywhere, and producers use them.

The new fields come after the known ones, by code point, as in the normal form. The first record with unknown keys takes
the slow path; the widened class then decodes the following ones at full speed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from fastrec.schemas.structs import Base, Free, rewrite_hint

__all__ = ["can_widen", "widen"]

AnyStruct = TypeVar("AnyStruct", bound=Base)

# The decoder compares the bytes of keys, so msgspec refuses names that JSON has to escape.
_UNSPELLABLE = frozenset('"\\') | {chr(code) for code in range(0x20)}
_LONGEST_KEY = 256


def can_widen(key: str) -> bool:
    """Say whether an unknown key can become a field."""
    return len(key) <= _LONGEST_KEY and _UNSPELLABLE.isdisjoint(key)


def widen(struct: type[AnyStruct], unknown: Mapping[str, Collection[str]], path: str = "") -> type[AnyStruct]:
    """Make a subclass of a Struct with fields for these unknown keys, given by the path of their object."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(struct):

        def replace(hint: Any, path: str = f"{path}.{field.name}".lstrip(".")) -> Any:
            return widen(hint, unknown, path) if isinstance(hint, type) and issubclass(hint, Base) else hint

        hint = rewrite_hint(field.type, replace)
        if hint is not field.type:
            fields.append((field.name, hint, msgspec.NODEFAULT if field.required else field.default))
    rename: dict[str, str] = {}
    for number, key in enumerate(sorted(unknown.get(path, ()))):
        plain = key.isidentifier() and not key.startswith("unknown_") and not hasattr(struct, key)
        name = key if plain else f"unknown_{number}"
        rename[name] = key
        fields.append((name, Free, UNSET))
    if not fields:
        return struct
    # A redefined field keeps its position; a new one goes to the end.
    return msgspec.defstruct(  # type: ignore[return-value]
        struct.__name__, fields, bases=(struct,), module=struct.__module__, kw_only=True, rename=rename, gc=False
    )
