"""The slow path, which judges the lines that the fast path refuses: parse strictly, then let the arbiter decide.

The arbiter is draft-07 over the schema file. `explain` says what is wrong with a line that it refuses, in words that
people understand: the arbiter's own list of errors may take gigabytes. A valid record is brought into normal form as a
plain dict: known keys in schema order, then unknown keys by code point; free-form objects sorted by code point at every
level; a `null` that means the same as absence left out; integers in integer fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from fastrec.judge.explain import errors_of
from fastrec.judge.findings import NO_VALUE, Errors, Report, first_errors
from fastrec.judge.parse import parse
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import Shape
from fastrec.schemas.versions import closest_version, contradicts_itself, version_of

__all__ = ["is_valid", "judge_slowly", "judge_value", "normal_form"]

_NO_VALUE: Final = frozenset({"json.utf8", "json.depth", "json.syntax", "json.surrogate"})
_CONTRADICTION: Final[Report] = (
    "version.contradiction",
    ("messages",),
    "expected either `interactions` or `messages`, found both",
    NO_VALUE,
)
_encode = msgspec.json.Encoder().encode
_UNEXPLAINED: Final[Report] = ("schema.type", (), "the record does not match the schema", NO_VALUE)


def judge_slowly(line: bytes, schema: Schema | None = None) -> tuple[dict[str, Any], Schema] | Errors:
    """Judge one line by a version, or else by the version that its shape belongs to.

    Return the record as a dict and its version, or the errors of the version that the line comes closest to.
    """
    return judge_value(*parse(line), schema)


def judge_value(
    value: Any, flaws: Iterable[Report], schema: Schema | None = None
) -> tuple[dict[str, Any], Schema] | Errors:
    """Judge the value of a line that was parsed, and its flaws."""
    if not schema and not flaws and (found := version_of(value, is_valid)):
        return value, found
    judged_by = schema or closest_version(value)
    by_shape = schema is None
    errors = first_errors(_reports(value, flaws, judged_by, by_shape=by_shape))
    if not errors.findings:
        return value, judged_by
    has_value = _NO_VALUE.isdisjoint(finding.code for finding in errors.findings)
    return errors._replace(version=judged_by.name) if has_value else errors


def _reports(value: Any, flaws: Iterable[Report], schema: Schema, *, by_shape: bool) -> Iterator[Report]:
    """Yield the flaws of a line and, if it has a value, its schema errors too: nobody has to fix a line twice."""
    codes = set()
    for flaw in flaws:
        codes.add(flaw[0])
        yield flaw
    if not codes.isdisjoint(_NO_VALUE):
        return
    if by_shape and contradicts_itself(value):
        yield _CONTRADICTION
        return
    if is_valid(value, schema):
        return
    report = None
    for report in errors_of(value, schema):
        yield report
    if report is None:  # the arbiter has the last word
        yield _UNEXPLAINED


def normal_form(value: dict[str, Any], shape: Shape, unknown: dict[str, set[str]]) -> dict[str, Any]:
    """Return the normal form of an object, and add its unknown keys to `unknown`, by the path of their object.

    The value itself may change.
    """
    normal: dict[str, Any] = {}
    for name, field in shape.fields.items():
        if name not in value:
            continue
        child = value[name]
        if child is None and field.drops_null:
            continue
        if isinstance(child, list) and field.shape:
            for index, item in enumerate(child):
                child[index] = normal_form(item, field.shape, unknown)
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
    """Sort the keys of objects at every level; in place where possible, because a copy takes as much memory again."""
    children: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        keys = sorted(value)
        if keys != list(value):
            value = {key: value[key] for key in keys}
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        return value
    for step, child in children:
        if isinstance(child, (dict, list)):
            value[step] = _free(child)
    return value


@cache
def _validator(schema: Schema) -> Any:
    import jsonschema_rs  # noqa: PLC0415 - takes 20 ms to load, and most lines never need it

    # The validator raises ValueError for the parser's own numbers, but not where only numbers are allowed: there it
    # takes them for something else. Every integer is a number, so both names mean the same, and it raises again.
    source = schema.source.replace(b'"type": "number"', b'"type": ["number", "integer"]')
    return jsonschema_rs.Draft7Validator(source.decode())


def is_valid(value: Any, schema: Schema) -> bool:
    """Return the verdict of draft-07 on a value, by a version."""
    validator = _validator(schema)
    valid: bool
    try:
        valid = validator.is_valid(value)
    except ValueError:
        return bool(validator.is_valid(_plain(value)))
    # Inside an object, the validator does not raise an error for the parser's own numbers: it refuses the object.
    return valid or (_has_own_numbers(value) and bool(validator.is_valid(_plain(value))))


def _has_own_numbers(value: Any) -> bool:
    """Return whether there are numbers in a value that only the parser makes; the encoder is faster than a walk."""
    try:
        _encode(value)
    except TypeError:
        return True
    return False


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
