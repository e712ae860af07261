"""The table of repairs: what each of them does to a value, or to a whole record.

A repair of a value gets a value that is not allowed at its place, and returns another one. A repair of a record changes
the record in place. Both say when they do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from fastrec.judge.parse import NoNumber, flaws_in, parse, spell, spell_sorted
from fastrec.judge.places import Place
from fastrec.schemas.schema import MANY, ONE, Schema
from fastrec.schemas.upgrade import free_name

__all__ = ["LEFT_OUT", "NOT_FITTING", "RECORD_REPAIRS", "VALUE_REPAIRS", "NotRepairableError"]

NOT_FITTING: Final = object()
"""The repair is not for this value."""
LEFT_OUT: Final = object()
"""The value is left out."""

_PLACEHOLDER: Final = 0.0
_NO_NUMBERS: Final = frozenset(sign + word for sign in ("", "+", "-") for word in ("nan", "inf", "infinity"))
_NUMBER: Final = re.compile(r"([+-]?)(\d+(?:_\d+)*)?(?:\.(\d*))?([eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER: Final = 4_300  # digits; text of more is no number to the parsers of other tools either
_SHORT: Final = 18  # digits; the parser has a class of its own for longer integers
_BOOLEANS: Final = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)


class NotRepairableError(Exception):
    """A value is wrong, and no repair fits."""


def _output_and_turns(record: dict[str, Any], schema: Schema) -> tuple[str, str] | None:
    """Move what the interaction type does not allow to `metadata`: the turns of a single turn, or the output."""
    kind, turns = record.get("interaction_type"), schema.turns_field
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


def _nan_score(record: dict[str, Any], _: Schema) -> tuple[str, str] | None:
    """Say in `error` that a score is not a number: a record with an error does not count as an answer."""
    evaluation, error = record.get("evaluation"), record.get("error")
    if not isinstance(evaluation, dict) or not isinstance(error, (str, type(None))):
        return None
    score = evaluation.get("score")
    is_text = isinstance(score, str) and score.strip().lower() in _NO_NUMBERS
    if not (isinstance(score, NoNumber) or is_text):
        return None
    found = score.text if isinstance(score, NoNumber) else spell(score).decode()
    reason = f"the score was {found}, which is not a finite number; {_PLACEHOLDER} is a placeholder"
    is_correct = evaluation.get("is_correct")
    if is_correct is not False and "is_correct" in evaluation:
        reason += f", and is_correct was {_as_text(is_correct)}"
        evaluation["is_correct"] = False
    evaluation["score"] = _PLACEHOLDER
    record["error"] = f"{error}; {reason}" if error else reason
    return "$.evaluation.score", f"the score {found} became an error"


def _as_text(value: Any) -> str:
    """Return the JSON text of a value: compact, with sorted keys. A number that is not finite keeps its spelling."""
    if isinstance(value, NoNumber):
        return value.text
    if isinstance(value, (dict, list)) and next(iter(flaws_in(value)), None):
        raise NotRepairableError
    return spell_sorted(value).decode()


def _result_id_null(value: Any, place: Place) -> Any:
    return LEFT_OUT if value is None and place.is_result_id and place.optional else NOT_FITTING


def _null(value: Any, place: Place) -> Any:
    return LEFT_OUT if value is None and place.optional else NOT_FITTING


def _value_not_text(value: Any, place: Place) -> Any:
    return _as_text(value) if place.is_entry and place.types == {"string"} else NOT_FITTING


def _number_from_text(value: Any, place: Place) -> Any:
    if not isinstance(value, str) or place.types.isdisjoint(("number", "integer")) or len(value) > _LONGEST_NUMBER:
        return NOT_FITTING
    match = _NUMBER.fullmatch(value.strip())
    if not match or not (match[2] or match[3]):
        return NOT_FITTING
    sign, whole, fraction, exponent = match.groups()
    if "number" not in place.types and (exponent or (fraction is not None and set(fraction) != {"0"}) or not whole):
        return NOT_FITTING
    digits = (whole or "").replace("_", "").lstrip("0") or "0"
    decimals = "" if fraction is None else f".{fraction or 0}"
    spelled = f"{sign.strip('+')}{digits}{decimals}{exponent or ''}"
    number = int(spelled) if spelled.isdecimal() and len(spelled) <= _SHORT else parse(spelled.encode())[0]
    return number if place.allows(number) else NOT_FITTING


def _boolean_from_text(value: Any, place: Place) -> Any:
    if not isinstance(value, str) or "boolean" not in place.types or "number" in place.types:
        return NOT_FITTING
    return _BOOLEANS.get(value.lower(), NOT_FITTING)


def _number_from_boolean(value: Any, place: Place) -> Any:
    if not isinstance(value, bool) or place.types.isdisjoint(("number", "integer")):
        return NOT_FITTING
    return float(value) if "number" in place.types else int(value)


def _boolean_from_number(value: Any, place: Place) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, NoNumber)
    return bool(value) if is_number and "boolean" in place.types and value in (0, 1) else NOT_FITTING


RECORD_REPAIRS: Final[dict[str, Callable[[dict[str, Any], Schema], tuple[str, str] | None]]] = {
    "repair.output_and_turns": _output_and_turns,
    "repair.nan_score": _nan_score,
}
"""Repairs of a whole record; they return where and what they changed, or None if they do not fit."""

VALUE_REPAIRS: Final[dict[str, tuple[Callable[[Any, Place], Any], str]]] = {
    "repair.result_id_null": (_result_id_null, "left out"),
    "repair.null": (_null, "left out"),
    "repair.value_not_text": (_value_not_text, "became text"),
    "repair.number_from_text": (_number_from_text, "became a number"),
    "repair.boolean_from_text": (_boolean_from_text, "became true or false"),
    "repair.number_from_boolean": (_number_from_boolean, "became a number"),
    "repair.boolean_from_number": (_boolean_from_number, "became true or false"),
}
"""Repairs of a value at a place that does not allow it, each with what happens; the first that fits is made."""
