"""Repair records that known producers get wrong.

A repair changes only values that the schema refuses.

1. Choose the version that the record comes closest to.
2. Repairs of whole records: turns beside an output, scores that are no numbers.
3. Each value that this version does not allow is changed by the first repair that fits. If none
   does, the record is left to its errors.
4. Judge the record again.

Each value has one repair that fits it, so the repairs that a record needs do not depend on which of
them are allowed. Repairs change the record in place: a copy of a large record takes as much memory
again.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple

from fastrec.errors import UsageError
from fastrec.judge.arbiter import field_errors, fields_of_document, is_valid
from fastrec.judge.findings import REPAIRS, Errors, Finding, describe, json_path
from fastrec.judge.parse import NoNumber, flaws_in, kind_of, parse, spell
from fastrec.schemas.registry import closest_version, version_of
from fastrec.schemas.schema import MANY, ONE, JsonObject, Schema
from fastrec.schemas.upgrade import format_sorted, free_name


class Place(NamedTuple):
    """A place of a record, and what a version allows there."""

    name: str | int
    types: frozenset[str]  # the JSON types
    optional: bool  # the value is a field that may be left out
    is_entry: bool  # the value is one of a free-form object whose values have a type


# The repairs. Each says when it does not fit.

_NOT_FITTING = object()
_LEFT_OUT = object()

_PLACEHOLDER = 0.0
# Around a number, as the models of the schema's project see it: `str.strip` removes four more.
_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_NUMBER = re.compile(r"([+-]?)(\d+(?:_\d+)*)?(?:\.(\d*))?([eE][+-]?\d+)?", re.ASCII)
# digits; text of more is no number to the parsers of other tools either
_LONGEST_NUMBER = 4_300
_BOOLEANS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)


class _NotRepairableError(Exception):
    """A value is wrong, and no repair fits."""


def _output_and_turns(record: JsonObject, schema: Schema) -> tuple[str, str] | None:
    """Move what the interaction type does not allow to `metadata`: turns or output."""
    kind = record.get("interaction_type")
    turns = schema.turns_field
    if record.get("output") is None or record.get(turns) is None or kind not in (*ONE, *MANY):
        return None
    name = turns if kind in ONE else "output"
    metadata = record.get("metadata")
    if metadata is None:
        metadata = record["metadata"] = {}
    if not isinstance(metadata, dict):
        return None
    key = free_name(name, metadata)
    metadata[key] = _as_text(record.pop(name))
    return f"$.{name}", f"moved to `metadata.{key}`, because the record is {kind}"


def _nan_score(record: JsonObject, _: Schema) -> tuple[str, str] | None:
    """Say in `error` that a score is not a number.

    A record with an error does not count as an answer.
    """
    evaluation = record.get("evaluation")
    error = record.get("error")
    if not isinstance(evaluation, dict) or not isinstance(error, (str, type(None))):
        return None
    score = evaluation.get("score")
    if not (isinstance(score, NoNumber) or _spells_no_number(score)):
        return None
    score_text = score.text if isinstance(score, NoNumber) else spell(score).decode()
    reason = (
        f"the score was {score_text}, which is not a finite number; {_PLACEHOLDER} is a placeholder"
    )
    is_correct = evaluation.get("is_correct")
    if is_correct is not False and "is_correct" in evaluation:
        reason += f", and is_correct was {_as_text(is_correct)}"
        evaluation["is_correct"] = False
    evaluation["score"] = _PLACEHOLDER
    record["error"] = f"{error}; {reason}" if error else reason
    return "$.evaluation.score", f"the score {score_text} became an error"


def _spells_no_number(score: Any) -> bool:
    """Whether a text spells NaN, or a number that is infinite, as `1e999` is.

    An integer is exact, however long it is.
    """
    text = score.strip(_WHITE_SPACE) if isinstance(score, str) else ""
    if not text.strip("+-_0123456789") or not text.isascii() or not text.isprintable():
        return False
    with suppress(ValueError):
        return not isfinite(float(text))
    return False


def _as_text(value: Any) -> str:
    """Spell a value as JSON text: compact, with sorted keys.

    A number that is not finite keeps its spelling.
    """
    if isinstance(value, NoNumber):
        return value.text
    if isinstance(value, (dict, list)) and next(flaws_in(value), None):
        raise _NotRepairableError
    return format_sorted(value).decode()


def _result_id_null(value: Any, place: Place) -> Any:
    return _null(value, place) if place.name == "evaluation_result_id" else _NOT_FITTING


def _null(value: Any, place: Place) -> Any:
    return _LEFT_OUT if value is None and place.optional else _NOT_FITTING


def _value_not_text(value: Any, place: Place) -> Any:
    return _as_text(value) if place.is_entry and place.types == {"string"} else _NOT_FITTING


def _number_from_text(value: Any, place: Place) -> Any:
    if (
        not isinstance(value, str)
        or place.types.isdisjoint(("number", "integer"))
        or len(value) > _LONGEST_NUMBER
    ):
        return _NOT_FITTING
    match = _NUMBER.fullmatch(value.strip(_WHITE_SPACE))
    if not match or not (match[2] or match[3]):
        return _NOT_FITTING
    sign, whole, fraction, exponent = match.groups()
    if "number" not in place.types and (
        exponent or (fraction is not None and set(fraction) != {"0"}) or not whole
    ):
        return _NOT_FITTING
    digits = (whole or "").replace("_", "").lstrip("0") or "0"
    decimals = "" if fraction is None else f".{fraction or 0}"
    spelled = f"{sign.strip('+')}{digits}{decimals}{exponent or ''}"
    number, _ = parse(spelled.encode())
    is_allowed = not isinstance(number, NoNumber) and kind_of(number) in place.types
    return number if is_allowed else _NOT_FITTING


def _boolean_from_text(value: Any, place: Place) -> Any:
    if not isinstance(value, str) or "boolean" not in place.types or "number" in place.types:
        return _NOT_FITTING
    return _BOOLEANS.get(value.lower(), _NOT_FITTING)


def _number_from_boolean(value: Any, place: Place) -> Any:
    if not isinstance(value, bool) or place.types.isdisjoint(("number", "integer")):
        return _NOT_FITTING
    return float(value) if "number" in place.types else int(value)


def _boolean_from_number(value: Any, place: Place) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, NoNumber)
    if is_number and "boolean" in place.types and value in (0, 1):
        return bool(value)
    return _NOT_FITTING


# Repairs of a whole record; they return where and what they changed, or None if they do not
# fit.
RECORD_REPAIRS = {
    "repair.output_and_turns": _output_and_turns,
    "repair.nan_score": _nan_score,
}

# Repairs of a value at a place that does not allow it, each with what happens; the first that fits
# is made.
VALUE_REPAIRS: dict[str, tuple[Callable[[Any, Place], Any], str]] = {
    "repair.result_id_null": (_result_id_null, "left out"),
    "repair.null": (_null, "left out"),
    "repair.value_not_text": (_value_not_text, "became text"),
    "repair.number_from_text": (_number_from_text, "became a number"),
    "repair.boolean_from_text": (_boolean_from_text, "became true or false"),
    "repair.number_from_boolean": (_number_from_boolean, "became a number"),
    "repair.boolean_from_number": (_boolean_from_number, "became true or false"),
}


# Longer lines are only repaired if that is asked for; nobody counts whether they could be.
LONGEST_TRIAL = 16 << 20

_REPAIRABLE = frozenset(
    {
        "json.number",
        "schema.type",
        "schema.one_of",
        "rule.single_turn_interactions",
        "rule.single_turn_messages",
        "rule.multi_turn_output",
    }
)
_PREFIX = "repair."


def repair_codes(names: Iterable[str]) -> tuple[str, ...]:
    """The codes of repairs that are given by name, with or without the prefix.

    `all` stands for all of them.

    >>> repair_codes(["nan_score", "repair.null"])
    ('repair.null', 'repair.nan_score')

    Raises:
        UsageError: There is no such repair.
    """
    codes: set[str] = set()
    for name in names:
        code = _PREFIX + name.removeprefix(_PREFIX)
        if name != "all" and code not in REPAIRS:
            known = ", ".join(code.removeprefix(_PREFIX) for code in REPAIRS)
            raise UsageError(f"there is no repair {name!r}; give all, or some of {known}")
        codes.update(REPAIRS if name == "all" else [code])
    return tuple(code for code in REPAIRS if code in codes)


def repair(
    value: Any, errors: Errors, schema: Schema | None = None
) -> tuple[Schema, dict[str, Finding]] | None:
    """Repair a value with these errors, in place.

    None if it is not valid afterwards, by any version or by `schema`.

    Return its version and, by code, the first change of each repair.
    """
    codes = {finding.code for finding in errors.findings} | errors.unlisted.keys()
    if not isinstance(value, dict) or not _REPAIRABLE.issuperset(codes):
        return None
    closest = schema or closest_version(value)
    changes = {}
    try:
        for code, change in RECORD_REPAIRS.items():
            if changed := change(value, closest):
                changes[code] = Finding(code, *changed)
        for _, steps, _, _ in field_errors(value, closest):
            _repair_value(value, steps, closest, changes)
    except _NotRepairableError:
        return None
    if "json.number" in codes and next(flaws_in(value), None):
        return None
    version = schema
    if not schema:
        version = version_of(value, is_valid)
    elif not is_valid(value, schema):
        version = None
    return (version, dict(sorted(changes.items()))) if version and changes else None


def _repair_value(
    record: Any, steps: Sequence[str | int], schema: Schema, changes: dict[str, Finding]
) -> None:
    """Repair the value at these steps, which its version does not allow."""
    owner: Any = None
    value = record
    node = parent = fields_of_document(schema)
    for step in steps:
        owner = value
        value = owner[step]
        parent = node
        properties = parent.get("properties", {})
        if isinstance(step, int):
            node = parent["items"]
        else:
            node = properties[step] if step in properties else parent["additionalProperties"]
    is_field = step in properties
    place = Place(
        name=step,
        types=frozenset().union(*(form.types for form in node.get("oneOf", [node]))),
        optional=is_field and step not in parent.get("required", ()),
        is_entry=isinstance(step, str) and not is_field,
    )
    for code, (change, result) in VALUE_REPAIRS.items():
        changed = change(value, place)
        if changed is _NOT_FITTING:
            continue
        if code not in changes:
            changes[code] = Finding(code, json_path(steps), f"{describe(value)} {result}")
        if changed is _LEFT_OUT:
            del owner[step]
        else:
            owner[step] = changed
        return
    raise _NotRepairableError


# What the slow path reports of this repair.
NULL_ID = Finding("repair.result_id_null", "$.evaluation_result_id", "null left out")
