"""Strict JSON: parse a line and list every flaw in it, not only the first.

The checks, in this order: UTF-8, depth, syntax. A line that fails one of them has no value. Other flaws (duplicate
keys, numbers too large for a double, halves of surrogate pairs) are collected with their JSON paths.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fastrec.errors import UsageError
from fastrec.judge.findings import Finding, json_path

__all__ = ["MAX_DEPTH", "LongInteger", "flaws_in", "parse", "spell"]

MAX_DEPTH: Final = 256
"""Levels of objects and arrays in a line; the record itself is the first level."""

_MAX_DIGITS: Final = 1_000_000  # of an integer: converting more takes too long for one line of a nightly job
_PYTHON_DIGITS: Final = 4_300  # the limit of int(), and of msgspec

# A string, or a bracket outside strings. The parser reports a string without an end.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WHITE_SPACE: Final = " \t\r\n"
_CLOSING: Final = {"Expecting property name enclosed in double quotes": "}", "Expecting value": "]"}


class LongInteger(int):
    """An integer beyond 64 bits; it keeps its digits, since Python prints no more than 4,300."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _spell_other(value: Any) -> msgspec.Raw:
    """Encode long integers, which msgspec does not know, by their digits."""
    if isinstance(value, LongInteger):
        return msgspec.Raw(value.text.encode())
    raise UsageError(f"a record can only hold JSON values, found one of type {type(value).__name__}")


spell = msgspec.json.Encoder(enc_hook=_spell_other).encode


class _NoNumber(float):
    """Placeholder for a number that is not finite: 0.0, which the arbiter accepts as a number."""

    text: str


class _Ambiguous(dict[str, Any]):
    """An object with the same key more than once."""

    duplicates: list[str]


def parse(line: bytes) -> tuple[Any, list[Finding]]:
    """Return the value of a line and its flaws; the value is None after a flaw in UTF-8, depth or syntax."""
    try:
        text = line.decode()
    except UnicodeDecodeError as exc:
        where = f"0x{line[exc.start]:02x} at byte {exc.start:,} of the line"
        return None, [Finding("json.utf8", "$", f"not UTF-8: {where}")]
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and (depth := _depth(line)) > MAX_DEPTH:
        return None, [Finding("json.depth", "$", f"expected at most {MAX_DEPTH} levels of nesting, found {depth:,}")]
    reader = _Reader()
    try:
        value = reader.decode(text)
    except json.JSONDecodeError as exc:
        return None, [Finding("json.syntax", "$", _syntax_error(text, exc))]
    if not reader.flawed and (_ESCAPED_SURROGATE.search(text) is None or _is_text(value)):
        return value, []
    return value, list(flaws_in(value))


def _syntax_error(text: str, exc: json.JSONDecodeError) -> str:
    """Describe a syntax error: by the beginning of a line that is no JSON at all, else by the position of the error."""
    if not text[: exc.pos].strip():
        beginning = text.strip()
        return f"not JSON; the line begins with `{beginning[:16]}{'…' if len(beginning) > 16 else ''}`"
    problem, position = exc.msg[0].lower() + exc.msg[1:].removesuffix(" starting at"), exc.pos
    # Python 3.13 has a message for a trailing comma; before, the error is at the bracket. All versions report the same.
    before = text[: exc.pos].rstrip(_WHITE_SPACE)
    if exc.msg.startswith("Illegal trailing comma"):
        problem = "trailing comma"
    elif before.endswith(",") and text[exc.pos : exc.pos + 1] == _CLOSING.get(exc.msg):
        problem, position = "trailing comma", len(before) - 1
    return f"invalid JSON at byte {len(text[:position].encode()):,} of the line: {problem}"


class _Reader(json.JSONDecoder):
    """The parser of the standard library; notes the flaws that it accepts."""

    def __init__(self) -> None:
        super().__init__(
            object_pairs_hook=self._object,
            parse_float=self._number,
            parse_int=self._integer,
            parse_constant=self._no_number,
        )
        self.flawed = False

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.flawed = True
            value = _Ambiguous(value)
            value.duplicates = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
        return value

    def _number(self, text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else self._no_number(text)

    def _integer(self, text: str) -> int | float:
        if len(text) <= 18:
            return int(text)
        return self._no_number(text) if len(text.lstrip("-")) > _MAX_DIGITS else _long_integer(text)

    def _no_number(self, text: str) -> float:
        self.flawed = True
        value = _NoNumber()
        value.text = text
        return value


def _is_text(value: Any) -> bool:
    """Return whether all strings of a value can be encoded in UTF-8; the encoder is faster than a walk."""
    try:
        spell(value)
    except UnicodeEncodeError:
        return False
    return True


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in b"]}":
            depth -= 1
    return deepest


def _long_integer(text: str) -> LongInteger:
    value = LongInteger(-_digits(text[1:]) if text[0] == "-" else _digits(text))
    value.text = text
    return value


def _digits(text: str) -> int:
    """Convert digits by halves: `int` takes quadratic time, and refuses long numbers for that reason."""
    if len(text) <= _PYTHON_DIGITS:
        return int(text)
    half = len(text) // 2
    power: int = 10**half
    return _digits(text[:-half]) * power + _digits(text[-half:])


def flaws_in(root: Any) -> Iterator[Finding]:
    """Find every flaw in a value, with its JSON path."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, dict):
            for key in value.duplicates if isinstance(value, _Ambiguous) else ():
                path = json_path((*steps, _spellable(key)))
                yield Finding("json.duplicate_key", path, "the object has this key more than once")
            for key, child in value.items():
                inside = (*steps, _spellable(key))
                if not _is_text(key):
                    yield _surrogate(inside, "key")
                pending.append((inside, child))
        elif isinstance(value, list):
            pending.extend(((*steps, index), child) for index, child in enumerate(value))
        elif isinstance(value, str):
            if not _is_text(value):
                yield _surrogate(steps, "string")
        elif isinstance(value, _NoNumber) or (isinstance(value, float) and not math.isfinite(value)):
            text = value.text if isinstance(value, _NoNumber) else str(value)
            found = text if len(text) <= 40 else f"one of {len(text):,} characters"
            yield Finding("json.number", json_path(steps), f"expected a finite number, found {found}")


def _surrogate(steps: tuple[str | int, ...], what: str) -> Finding:
    return Finding("json.surrogate", json_path(steps), f"this {what} contains half of a surrogate pair")


def _spellable(key: str) -> str:
    return key if key.isascii() else key.encode(errors="backslashreplace").decode()
