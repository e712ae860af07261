"""JSON as lm-eval writes it: with bare NaN and Infinity, which become the texts "NaN" and "Infinity"."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from fastrec.harnesses.values import REFUSALS, replace_lone_surrogates

__all__ = ["decoder_of", "encode", "plain"]

_T = TypeVar("_T")
_LARGEST: Final = 1 << 63

encode: Final = msgspec.json.Encoder().encode


def decoder_of(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return a function that decodes JSON as a type, which may have Raw in it; ValueError if the text does not fit.

    What msgspec refuses is parsed by Python's `json`, written again as JSON, and decoded then.
    """
    fast = msgspec.json.Decoder(kind).decode

    def decode(text: bytes) -> _T:
        try:
            return fast(text)
        except REFUSALS as refusal:
            try:
                again = encode(plain(json.loads(text)))
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            except ValueError:
                raise ValueError(str(refusal)) from None
        try:
            return fast(again)
        except REFUSALS as refusal:
            raise ValueError(str(refusal)) from None

    return decode


def plain(value: Any) -> Any:
    """Replace what JSON cannot hold: numbers that are not finite or too long, and lone surrogates."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else replace_lone_surrogates(value)
    if kind is float:
        return value if math.isfinite(value) else json.dumps(value)
    if kind is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if kind is int and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value
