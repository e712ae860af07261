"""Strict JSON: parse a line and list every flaw in it, not only the first.

The checks, in this order: UTF-8, depth, syntax. A line that fails one of them has no value. Other
flaws (duplicate keys, numbers too large for a double, halves of surrogate pairs) are collected with
their JSON paths.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import isfinite
from typing import Any

import msgspec

from fastrec.judge.findings import NO_VALUE, Report
from fastrec.schemas.schema import JsonObject
from fastrec.schemas.upgrade import spell_other

# Levels of objects and arrays in a line; the record itself is the first level.
MAX_DEPTH = 256

# of an integer: converting more takes too long for one line of a nightly job
_MAX_DIGITS = 1_000_000
_PYTHON_DIGITS = 4_300  # the limit of int(), and of msgspec

# the parser reports a string without an end
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _LEVELS.keys())
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = "this {} contains half of a surrogate pair"
_CLOSING = {"Expecting property name enclosed in double quotes": "}", "Expecting value": "]"}


Steps = list[str | int]  # from a value to one in it


class LongInteger(int):
    """An integer beyond 64 bits; it keeps its digits, since Python prints no more than 4,300."""

    text: str

    def __repr__(self) -> str:
        return self.text


spell = msgspec.json.Encoder(enc_hook=spell_other).encode


class NoNumber(float):
    """Placeholder for a number that is not finite: 0.0, which the arbiter accepts as a number."""

    __slots__ = ("text",)
    text: str


class _Ambiguous(JsonObject):
    """An object with the same key more than once."""

    __slots__ = ("duplicates",)
    duplicates: list[str]


_KINDS = {
    dict: "object",
    _Ambiguous: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    type(None): "null",
    int: "integer",
    LongInteger: "integer",
}


def kind_of(value: Any) -> str:
    """The JSON type of a value as JSON Schema names it; 1.0 is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _KINDS[type(value)]


def parse(line: bytes) -> tuple[Any, Iterable[Report]]:
    """Parse a line into its value and its flaws.

    The value is None after a flaw in UTF-8, depth or syntax.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as exc:
        where = f"0x{line[exc.start]:02x} at byte {exc.start:,} of the line"
        return None, [("json.utf8", (), f"not UTF-8: {where}", NO_VALUE)]
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and (depth := _depth(line)) > MAX_DEPTH:
        text = f"expected at most {MAX_DEPTH} levels of nesting, found {depth:,}"
        return None, [("json.depth", (), text, NO_VALUE)]
    hooks = _Hooks()
    try:
        value = hooks.decoder().decode(text)
    except json.JSONDecodeError as exc:
        return None, [("json.syntax", (), _syntax_error(text, exc), NO_VALUE)]
    if not hooks.flawed and (_ESCAPED_SURROGATE.search(text) is None or _is_text(value)):
        return value, []
    return value, flaws_in(value)


def decoded(line: bytes | msgspec.Raw) -> Any:
    """The value of a line in normal form, which has no flaws."""
    try:
        return msgspec.json.decode(line)
    except (
        msgspec.DecodeError,
        RecursionError,
    ):  # an integer with too many digits for msgspec, or many levels
        return parse(bytes(line))[0]


def _syntax_error(text: str, exc: json.JSONDecodeError) -> str:
    """Describe a syntax error by its position, or by the beginning of a line that is no JSON."""
    if not text[: exc.pos].strip():
        beginning = text.strip()
        return (
            f"not JSON; the line begins with `{beginning[:16]}{'…' if len(beginning) > 16 else ''}`"
        )
    problem = exc.msg[0].lower() + exc.msg[1:].removesuffix(" starting at")
    position = exc.pos
    # Python 3.13 has a message for a trailing comma; before, the error is at the bracket. All
    # versions report the same.
    before = text[: exc.pos].rstrip(" \t\r\n")
    if exc.msg.startswith("Illegal trailing comma"):
        problem = "trailing comma"
    elif before.endswith(",") and text[exc.pos : exc.pos + 1] == _CLOSING.get(exc.msg):
        problem = "trailing comma"
        position = len(before) - 1
    return f"invalid JSON at byte {len(text[:position].encode()):,} of the line: {problem}"


class _Hooks:
    """What the parser of the standard library calls; notes the flaws that it accepts."""

    flawed = False

    def decoder(self) -> json.JSONDecoder:
        """Make a parser.

        It refers to the hooks, but they do not refer to it: no cycle is left for the collector.
        """
        return json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_float=self._number,
            parse_int=self._integer,
            parse_constant=self._no_number,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> JsonObject:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.flawed = True
            value = _Ambiguous(value)
            value.duplicates = [
                key for key, times in Counter(key for key, _ in pairs).items() if times > 1
            ]
        return value

    def _number(self, text: str) -> float:
        value = float(text)
        return value if isfinite(value) else self._no_number(text)

    def _integer(self, text: str) -> int | float:
        if len(text) <= 18:
            return int(text)
        if len(text.lstrip("-")) > _MAX_DIGITS:
            return self._no_number(text)
        value = LongInteger(-_digits(text[1:]) if text[0] == "-" else _digits(text))
        value.text = text
        return value

    def _no_number(self, text: str) -> float:
        self.flawed = True
        value = NoNumber()
        value.text = text
        return value


def _is_text(value: Any) -> bool:
    """Whether all strings of a value can be encoded in UTF-8; the encoder is faster than a walk."""
    if isinstance(value, str) and value.isascii():
        return True
    try:
        spell(value)
    except UnicodeEncodeError:
        return False
    return True


def _depth(line: bytes) -> int:
    brackets = _STRING.sub(b"", line).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)


def _digits(text: str) -> int:
    """Convert digits by halves.

    `int` takes quadratic time, and refuses long numbers for that reason.
    """
    if len(text) <= _PYTHON_DIGITS:
        return int(text)
    half = len(text) // 2
    power: int = 10**half
    return _digits(text[:-half]) * power + _digits(text[-half:])


def walk(value: Any, steps: Steps) -> Iterator[Any]:
    """Yield a value and every value in it. `steps` are those to the last one."""
    yield value
    children: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        children = ((_spellable(key), child) for key, child in value.items())
    elif isinstance(value, list):
        children = enumerate(value)
    for step, child in children:
        steps.append(step)
        yield from walk(child, steps)
        steps.pop()


def flaws_in(root: Any) -> Iterator[Report]:
    """Find every flaw in a value, in memory that does not depend on its size."""
    steps: Steps = []
    for value in walk(root, steps):
        for code, key, text in _own_flaws(value):
            where = steps if key is None else [*steps, _spellable(key)]
            yield code, where, text, NO_VALUE


def _own_flaws(value: Any) -> Iterator[tuple[str, str | None, str]]:
    """Find the flaws of a value itself and of its keys, each with the key."""
    if isinstance(value, dict):
        for key in value.duplicates if isinstance(value, _Ambiguous) else ():
            yield "json.duplicate_key", key, "the object has this key more than once"
        for key in value:
            if not _is_text(key):
                yield "json.surrogate", key, _SURROGATE.format("key")
    elif isinstance(value, str):
        if not _is_text(value):
            yield "json.surrogate", None, _SURROGATE.format("string")
    elif isinstance(value, float) and (isinstance(value, NoNumber) or not isfinite(value)):
        text = value.text if isinstance(value, NoNumber) else str(value)
        description = text if len(text) <= 40 else f"one of {len(text):,} characters"
        yield "json.number", None, f"expected a finite number, found {description}"


def _spellable(key: str) -> str:
    return key if key.isascii() else key.encode(errors="backslashreplace").decode()
