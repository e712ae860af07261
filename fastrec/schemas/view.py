"""Partial views of a record: only the fields that a reader needs.

msgspec skips all other fields of a line without making objects of them, so a view of two fields
decodes several times as fast as a record. Here are also the defaults of fields that count.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")

# What a decoder raises if it refuses a line.
REFUSALS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# The default of a field that counts.
NO_COUNTS: Counter[Any] = msgspec.field(default_factory=Counter)


encode_json = msgspec.json.Encoder().encode


def json_decoder(kind: type[_T]) -> Callable[[Any], _T]:
    """Make the function that decodes JSON, text or bytes, as a type; make it only once."""
    return msgspec.json.Decoder(kind).decode


def empty_by_key(kind: Callable[[], Any]) -> Any:
    """The default of a field with counts or lists by key, each of which begins as `kind()`."""
    return msgspec.field(default_factory=lambda: defaultdict(kind))


def view(**fields: Any) -> Any:
    """Make a Struct with some fields of an object, each given as a type or a type and a default.

    An object inside is a view of its own.

    >>> Evaluation = view(score=float, num_turns=(int | None, None))
    >>> Evaluation(score=0.5).num_turns is None
    True
    """
    pairs = [
        (name, *(hint if isinstance(hint, tuple) else (hint,))) for name, hint in fields.items()
    ]
    return msgspec.defstruct("View", pairs, kw_only=True, frozen=True, gc=False)


def view_decoder(**fields: Any) -> Callable[[bytes | memoryview], Any]:
    """Make the function that decodes a line as a view with these fields.

    >>> decode = view_decoder(evaluation=view(is_correct=bool), error=(str, ""))
    >>> decode(b'{"model_id": "m", "evaluation": {"score": 1, "is_correct": true}}')
    View(evaluation=View(is_correct=True), error='')
    """
    return msgspec.json.Decoder(view(**fields)).decode
