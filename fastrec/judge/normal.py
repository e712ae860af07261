"""The normal form of a record in a plain dict: same values, one spelling.

Known keys are in schema order, unknown keys follow by code point, and free-form objects are sorted by code point at
every level. A `null` that means the same as absence is left out. An integral number in an integer field becomes an
integer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fastrec.schemas.shape import Shape

__all__ = ["normal_form", "spell"]


# The parser's long integers are the only values that msgspec does not know; they keep their digits.
spell = msgspec.json.Encoder(enc_hook=lambda value: msgspec.Raw(value.text.encode())).encode


def normal_form(value: dict[str, Any], shape: Shape, unknown: dict[str, set[str]]) -> dict[str, Any]:
    """Return the normal form of an object, and add its unknown keys to `unknown`, by the path of their object."""
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
