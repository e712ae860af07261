"""Records with unknown keys, as Structs: the schema allows further keys everywhere, and producers use that.

`widen` makes a subclass of `Record` that also has fields for given unknown keys, at any level, after the known ones
and by code point, as the normal form wants them. What the slow path had to look at key by key for the first such
record, the decoder then does for all the following ones at full speed.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Collection, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from fastrec.schemas.v0_2_0 import Base, Free, Record

__all__ = ["can_widen", "widen"]

# The decoder matches keys by their bytes, so msgspec takes no name that JSON would have to escape.
_UNSPELLABLE = frozenset('"\\') | {chr(code) for code in range(0x20)}
_LONGEST_KEY = 256


def can_widen(key: str) -> bool:
    """Tell whether an unknown key may become a field."""
    return len(key) <= _LONGEST_KEY and _UNSPELLABLE.isdisjoint(key)


def widen(unknown: Mapping[str, Collection[str]]) -> type[Record]:
    """Make a record class with fields for these unknown keys.

    Args:
        unknown: For the path of each kind of object (see `Shape.path`) the keys to add.
    """
    widened = _widen(Record, "", unknown)
    assert issubclass(widened, Record)
    return widened


def _widen(struct: type[Base], path: str, unknown: Mapping[str, Collection[str]]) -> type[Base]:
    fields: list[tuple[str, Any, Any]] = []
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = _replace(
            hints[field.name],
            lambda child, name=field.name: _widen(child, f"{path}.{name}".lstrip("."), unknown),
        )
        if hint is not hints[field.name]:
            fields.append((field.name, hint, msgspec.NODEFAULT if field.required else field.default))
    rename: dict[str, str] = {}
    for number, key in enumerate(sorted(unknown.get(path, ()))):
        plain = key.isidentifier() and not key.startswith("unknown_") and not hasattr(struct, key)
        name = key if plain else f"unknown_{number}"
        rename[name] = key
        fields.append((name, Free, UNSET))
    if not fields:
        return struct
    # A redefined field keeps its place; a new one goes to the end.
    widened: type[Base] = msgspec.defstruct(  # type: ignore[assignment]
        struct.__name__,
        fields,
        bases=(struct,),
        module=struct.__module__,
        kw_only=True,
        rename=rename,
        gc=False,
    )
    return widened


def _replace(hint: Any, widened: Any) -> Any:
    """Put widened Structs in place of the Structs inside a type; the same object comes back if none changed."""
    if isinstance(hint, type) and issubclass(hint, Base):
        return widened(hint)
    arguments = get_args(hint)
    replaced = tuple(_replace(argument, widened) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        return functools.reduce(operator.or_, replaced)
    return get_origin(hint)[replaced]
