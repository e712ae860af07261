"""What a schema version allows at each place of a record, read from its schema document."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from fastrec.judge.parse import NoNumber
from fastrec.schemas.schema import Schema

__all__ = ["Place", "places_of"]


class Place(NamedTuple):
    """What a version allows at one place of a record."""

    types: frozenset[str]
    """The JSON types; empty if all are allowed."""
    plain: frozenset[type]
    """Python types of values that are allowed and have nothing below them: most values, so they are passed over."""
    optional: bool
    """The value is a field that may be left out."""
    is_entry: bool
    """The value is one of a free-form object whose values have a type."""
    is_result_id: bool
    fields: dict[str, Place]
    items: Place | None
    entries: Place | None

    def allows(self, value: Any) -> bool:
        """Return whether the type of a value is allowed."""
        kind = _kind(value)
        return not self.types or kind in self.types or (kind == "integer" and "number" in self.types)


@cache
def places_of(schema: Schema) -> Place:
    """Return the place of a whole record of a version."""
    return _place(schema.document)


def _place(node: dict[str, Any], *, optional: bool = False, is_entry: bool = False, name: str = "") -> Place:
    """Read from a node of a schema document what it allows; `oneOf` allows what one of its forms does."""
    types: set[str] = set()
    items = None
    for form in node.get("oneOf", [node]):
        allowed = form.get("type", [])
        types.update([allowed] if isinstance(allowed, str) else allowed)
        items = form.get("items", items)
    required, entries = node.get("required", ()), node.get("additionalProperties")
    plain = {kind for kind, name in _KINDS.items() if name in types and name not in ("object", "array")}
    return Place(
        types=frozenset(types),
        plain=frozenset(plain | ({int, float} if "number" in types else set())),
        optional=optional,
        is_entry=is_entry,
        is_result_id=name == "evaluation_result_id",
        fields={
            key: _place(child, optional=key not in required, name=key)
            for key, child in node.get("properties", {}).items()
        },
        items=_place(items) if items else None,
        entries=_place(entries, is_entry=True) if isinstance(entries, dict) else None,
    )


def _kind(value: Any) -> str:
    """Return the JSON type of a value; an integer is a number, too."""
    if isinstance(value, float):
        return "none" if isinstance(value, NoNumber) else "integer" if value.is_integer() else "number"
    return _KINDS.get(type(value), "integer")  # long integers have a class of their own


_KINDS: Final = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null", int: "integer"}
