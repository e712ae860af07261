"""The slow path, which judges the lines that the fast path refuses: parse strictly, then let the arbiter decide.

The arbiter is draft-07 over the schema file. Its errors become findings that people understand. A valid record is
brought into normal form as a plain dict: known keys in schema order, then unknown keys by code point; free-form objects
sorted by code point at every level; a `null` that means the same as absence left out; integers in integer fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from fastrec.judge.findings import Finding, describe, in_order, json_path
from fastrec.judge.parse import parse
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import Shape

__all__ = ["judge_slowly", "normal_form"]

_NO_VALUE: Final = frozenset({"json.utf8", "json.depth", "json.syntax", "json.surrogate"})


def judge_slowly(line: bytes, schema: Schema) -> dict[str, Any] | tuple[Finding, ...]:
    """Judge one line: return the record as a dict, or every reason why the line is not valid."""
    value, flaws = parse(line)
    record: dict[str, Any] = value
    # If there is a value, list its schema errors too, so that nobody has to fix the line twice.
    has_value = not any(flaw.code in _NO_VALUE for flaw in flaws)
    return in_order([*flaws, *(_errors_of(value, schema) if has_value else ())]) or record


def normal_form(value: dict[str, Any], shape: Shape, unknown: dict[str, set[str]]) -> dict[str, Any]:
    """Return the normal form of an object, and add its unknown keys to `unknown`, by the path of their object."""
    normal: dict[str, Any] = {}
    for name, field in shape.fields.items():
        if name not in value:
            continue
        child = value[name]
        if child is None and field.drops_null:
            continue
        if isinstance(child, list) and field.shape:
            child = [normal_form(item, field.shape, unknown) for item in child]
        elif field.shape:
            child = normal_form(child, field.shape, unknown)
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


def _free(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _free(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_free(item) for item in value]
    return value


@cache
def _validator(schema: Schema) -> Any:
    import jsonschema_rs  # noqa: PLC0415 - takes 20 ms to load, and most lines never need it

    return jsonschema_rs.Draft7Validator(schema.source.decode())


def _errors_of(value: Any, schema: Schema) -> Iterator[Finding]:
    """Yield every reason why draft-07 refuses a value."""
    try:
        errors = list(_validator(schema).iter_errors(value))
    except ValueError:
        errors = list(_validator(schema).iter_errors(_plain(value)))
    for error in errors:
        yield from _findings(value, error, schema)


def _plain(value: Any) -> Any:
    """Replace the parser's own numbers with plain ones, which the validator accepts.

    Only the kind and the sign of a long integer matter to the schema. The validator misjudges integers beyond the range
    of a double (it takes -10**5000 for at least 0), so they are clamped.
    """
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**62), min(int(value), 2**62))
    return float(value) if isinstance(value, float) else value


def _findings(root: Any, error: Any, schema: Schema) -> Iterator[Finding]:
    """Turn an error of the validator into a finding."""
    steps, schema_path = list(error.instance_path), list(error.schema_path)
    keyword = schema_path[-1]
    if keyword == "required":
        steps.append(error.kind.property)
    found = "nothing" if keyword == "required" else describe(_at(root, steps))
    if schema_path[0] == "allOf":
        kind = root.get("interaction_type")
        rules = schema.rules_by_type.get(kind) if isinstance(kind, str) else None
        # With a wrong interaction_type it is chance which rules apply. That error has a finding of its own.
        if rules is not None:
            rule = rules[steps[0]]
            yield Finding(rule.code, json_path(steps), f"{rule.message}, found {found}")
        return
    if keyword == "required":
        yield Finding("schema.required", json_path(steps), "the required field is missing")
        return
    code, expected = _KEYWORDS[keyword]
    wanted = expected(_at(schema.document, schema_path[:-1]))
    yield Finding(code, json_path(steps), f"expected {wanted}, found {found}")


def _types(schema: dict[str, Any]) -> str:
    types = schema["type"]
    return _either([_with_article(name) for name in ([types] if isinstance(types, str) else types)])


def _with_article(name: str) -> str:
    if name in ("boolean", "null"):
        return "true or false" if name == "boolean" else name
    return f"{'an' if name[0] in 'aio' else 'a'} {name}"


def _forms(schema: dict[str, Any]) -> str:
    """Describe a `oneOf` of plain types and arrays of plain types."""
    return _either(
        [f"{_types(form)} of {form['items']['type']}s" if "items" in form else _types(form) for form in schema["oneOf"]]
    )


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        value = value[step]
    return value


# By keyword of the schema: the code of an error, and the function that describes the expected value.
_KEYWORDS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], str]]]] = {
    "type": ("schema.type", _types),
    "enum": ("schema.enum", lambda schema: _either([f'"{option}"' for option in schema["enum"]])),
    "minimum": ("schema.minimum", lambda schema: f"at least {schema['minimum']}"),
    "oneOf": ("schema.one_of", _forms),
}
