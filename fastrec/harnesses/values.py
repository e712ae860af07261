"""Values of logs: JSON as Python writes it, numbers, Python literals, text for metadata."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf, isfinite, nan
from typing import Any, TypeVar

import msgspec

from fastrec.errors import LogError
from fastrec.schemas.view import REFUSALS

BOM = b"\xef\xbb\xbf"

JsonObject = dict[str, Any]
OptionalText = str | None
OptionalInt = int | None
OptionalNumber = float | None
Names = tuple[str, ...]
Texts = dict[str, str]  # by name, as in metadata
Buffer = bytes | bytearray | memoryview

_T = TypeVar("_T")

_LARGEST = 1 << 63
# A quote without a backslash before it is not inside a text, so this is the value of a key.
_NOT_FINITE = rb'(?<!\\)"(\s*+:\s*+)(NaN|-?Infinity)(?=\s*+[,}])'

encode = msgspec.json.Encoder().encode


def integer_in(digits: str) -> int | str:
    """The integer of some digits; the digits themselves, if they are more than Python converts."""
    try:
        return int(digits)
    except ValueError:
        return digits


def decoder(kind: type[_T]) -> Callable[[Buffer], _T]:
    """Make a function that decodes JSON as a type; unknown keys are skipped.

    Harnesses write bare NaN and Infinity, and escaped lone surrogates. msgspec refuses them. In
    such a text, NaN and Infinity become texts, from which a field that is a number takes them. If
    that is not enough, Python's `json` parses it, which is slower: lone surrogates become U+FFFD,
    and integers of more than 64 bits become texts.

    The function raises ValueError if the text is no JSON either way, or not of that type.
    """
    fast = msgspec.json.Decoder(kind).decode
    lenient = msgspec.json.Decoder(kind, strict=False).decode

    def decode(text: Buffer) -> _T:
        try:
            return fast(text)
        except msgspec.ValidationError as exc:
            raise ValueError(str(exc)) from None
        except REFUSALS as exc:
            refusal = str(exc)
        with suppress(*REFUSALS):
            return lenient(finite(text))
        try:
            value = plain(json.loads(bytes(text), parse_int=integer_in))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except ValueError:
            raise ValueError(refusal) from None
        try:
            return lenient(encode(value))
        except REFUSALS as exc:
            raise ValueError(str(exc)) from None

    return decode


decode_object = decoder(JsonObject)


class LogObject(msgspec.Struct, gc=False):
    """An object of a log. Keys that are not fields are skipped, above all long ones."""


def finite(text: Buffer) -> bytes:
    """Put quotes around NaN and Infinity, so that msgspec decodes them: `json` is much slower."""
    return re.sub(_NOT_FINITE, rb'"\1"\2"', bytes(text))


@contextmanager
def explaining(path: str, problem: str) -> Iterator[None]:
    """Raise LogError with `problem` and the reason for a ValueError."""
    try:
        yield
    except ValueError as exc:
        raise LogError(path, f"{problem}: {exc}") from exc


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value: Any) -> Any:
    """Replace lone surrogates, and numbers that JSON cannot hold."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else replace_lone_surrogates(value)
    if kind is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if kind is list:
        return list(map(plain, value))
    if kind is float and not isfinite(value):
        return json.dumps(value)
    if kind is int and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


def number_in(text: str) -> float:
    """The number that a text spells; ValueError if it spells none.

    Unlike in Python, `1_0` is none.
    """
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def number_of(value: Any) -> float | None:
    """A value as a finite number, or None if it is none; True is 1.

    Text counts if it spells a number or a truth value: lm-eval writes values of numpy as text.

    >>> [number_of(value) for value in (1, True, "0.5", "False", "A", "1_0", float("nan"), [1])]
    [1.0, 1.0, 0.5, 0.0, None, None, None, None]
    """
    if isinstance(value, str):
        if value in ("True", "False"):
            return float(value == "True")
        try:
            value = number_in(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def as_list(value: Any) -> list[Any]:
    """A list as it is, nothing for null, and any other value as a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def value_at(value: Any, path: str) -> Any:
    """The value at a path like `info.tasks.0`; None if it is not there."""
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal():
            value = dict(enumerate(value)).get(int(key[:9]))
        else:
            return None
    return value


class Fields(JsonObject):
    """An object of a log: `fields["info.task"]` is the value at a path, or None."""

    def __missing__(self, path: str) -> Any:
        return value_at(self, path)

    def text(self, *paths: str) -> str:
        """The first value that is not null, 0 or empty, as text; empty if there is none."""
        return next((spell(value) for value in map(self.__getitem__, paths) if value), "")

    def number(self, path: str) -> float | None:
        return number_of(self[path])

    def count(self, path: str) -> int | None:
        """An integer; None for any other value."""
        value = self[path]
        return value if isinstance(value, int) else None

    def texts(self, path: str) -> list[str]:
        return texts_of(self[path])

    def object(self, path: str, *keys: str) -> Fields:
        """The object at a path, or under further keys in it; empty for any other value."""
        value = self[path]
        for key in keys:
            value = as_object(value).get(key)
        return as_object(value)

    def objects(self, path: str) -> list[Fields]:
        """The objects of a list; what is none is skipped."""
        return [Fields(item) for item in as_list(self[path]) if isinstance(item, dict)]


def as_object(value: Any) -> Fields:
    """An object, and an empty one for any other value."""
    return Fields(value if isinstance(value, dict) else {})


def texts_of(value: Any) -> list[str]:
    """The texts of a list, or of a single value; none for null."""
    return [spell(item) for item in as_list(value)]


def spelled(values: JsonObject) -> Texts:
    """Values as texts for metadata; those that are null or empty are left out."""
    return {name: spell(value) for name, value in values.items() if value}


def spell(value: Any) -> str:
    """Spell a value: text as it is, bytes in base64, the rest as compact JSON.

    >>> spell("a"), spell(b"a"), spell(2), spell({"b": [1, None]})
    ('a', 'YQ==', '2', '{"b":[1,null]}')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return encode(value).decode()[1:-1]
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # a Struct or Raw
        return encode(value).decode()


_NAMES = {
    "nan": nan,
    "inf": inf,
    "NaN": nan,
    "Infinity": inf,
    "null": None,
    "true": True,
    "false": False,
}


def value_of(text: Any) -> Any:
    """The value that a text spells in Python.

    The text itself if it spells none, other values as they are.

    Arrays and tensors are their values: `array([1.5, nan])`, `np.float64(0.5)`, `tensor(3)`.

    >>> value_of("[(-1.5, False), (-inf, True)]"), value_of("{'em': np.float64(0.5)}")
    ([[-1.5, False], [-inf, True]], {'em': 0.5})
    """
    if not isinstance(text, str) or text[:1] not in "[{(-0123456789NTFn\"'":
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text that is no value
            tree = ast.parse(text, mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return text


def _value(node: ast.expr | None) -> Any:  # None is the key of `{**other}`
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True)
            }
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.Call(args=[first, *_]):  # array(…), np.float64(…), tensor(…, dtype=…)
            return _value(first)
    raise ValueError("not a value")
