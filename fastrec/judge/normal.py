"""The normal form of a record that is held as a plain dict: same values, one spelling.

Known keys stand in schema order, unknown ones after them by code point, free-form objects by code point all the way
down; a `null` that says the same as absence goes; an integral number in an integer field becomes an integer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fastrec.schemas.shape import Shape

__all__ = ["normal_form", "spell"]


# The parser's long integers are the only values that msgspec does not know; they are spelled as they came.
spell = msgspec.json.Encoder(enc_hook=lambda value: msgspec.Raw(value.text.encode())).encode


def normal_form(value: dict[str, Any], shape: Shape, unknown: dict[str, set[str]]) -> dict[str, Any]:
    """Return the normal form of an object, and add the unknown keys met to `unknown`, by the path of their object."""
    normal: dict[str, Any] = {}
    for name, field in shape.fields.items():
        if name not in value:
            continue
        child = value[name]
        if child is None and field.drops_null:
            continue
        if field.shape is not None:
            child = _each(child, field.shape, unknown)
        elif field.integer and type(child) is float:
            child = int(child)
        else:
            child = _free(child)
        normal[name] = child
    further = value.keys() - shape.fields.keys()
    if further:
        unknown.setdefault(shape.path, set()).update(further)
        for name in sorted(further):
            normal[name] = _free(value[name])
    return normal


def _each(value: Any, shape: Shape, unknown: dict[str, set[str]]) -> Any:
    if isinstance(value, list):
        return [normal_form(item, shape, unknown) for item in value]
    return normal_form(value, shape, unknown)


def _free(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _free(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_free(item) for item in value]
    return value
