"""Hostile lines of any size: each kind repeats the one thing that could cost more than its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.samples import sample, sample_of

__all__ = ["KINDS", "hostile"]


def _record(kind: str, **fields: Any) -> Callable[[bytes], bytes]:
    """Return a function that puts JSON text into a record, where a field holds `@`."""
    before, _, after = (
        json.dumps(sample(kind, **fields), separators=(",", ":")).encode().partition(b'"@"')
    )
    return lambda text: before + text + after


def _newest(kind: str, **fields: Any) -> Callable[[bytes], bytes]:
    """Return such a function for a record of the newest version, of which the root and some values
    are closed.
    """
    before, _, after = (
        json.dumps(sample_of("0.3.0", kind, **fields), separators=(",", ":"))
        .encode()
        .partition(b'"@"')
    )
    return lambda text: before + text + after


def _repeat(item: bytes, size: int, brackets: bytes = b"[]") -> bytes:
    return brackets[:1] + b",".join([item] * (size // (len(item) + 1) + 1)) + brackets[1:]


def _numbered(item: bytes, size: int, brackets: bytes = b"{}") -> bytes:
    """Repeat an item with a number of its own each time."""
    items = []
    length = 0
    for number in count():
        items.append(item % (b"%x" % number))
        length += len(items[-1]) + 1
        if length >= size:
            return brackets[:1] + b",".join(items) + brackets[1:]
    raise AssertionError


_turns = _record("multi_turn", interactions="@")
_attribution = _record("single_turn", answer_attribution="@")
_metadata = _record("single_turn", metadata="@")
_unknown = _record("single_turn", zz="@")
_raw = _record("single_turn", output={"raw": "@"})
_choices = _record("single_turn", input={"raw": "", "reference": "", "choices": "@"})
_tool_call_id = _record(
    "multi_turn", interactions=[{"turn_idx": 0, "role": "", "tool_call_id": "@"}]
)
_messages = _newest("agentic", messages="@")
_texts = _newest("agentic", metadata="@")
_answers = _newest("single_turn", output={"raw": "@"})
_references = _newest("single_turn", input={"raw": "", "reference": "@"})
_asked = _newest("single_turn", input={"raw": "@", "reference": ["é"]}, sample_hash="0" * 64)
_wrongly_hashed = _newest("single_turn", input={"raw": "", "reference": "@"}, sample_hash="0" * 64)
_arguments = _newest(
    "agentic",
    messages=[
        {"turn_idx": 0, "role": "", "tool_calls": [{"id": "", "name": "", "arguments": "@"}]}
    ],
)
_beside = _record("single_turn", interactions="@")
_taken = _record("multi_turn", metadata="@", output={"raw": ""})
_TURN = b'{"turn_idx":%s,"role":""%s}'
_CLAIM = (
    b'{"turn_idx":7,"source":"","extracted_value":"","extraction_method":"","is_terminal":true}'
)


def _deep(text: bytes, key: bytes = b"k") -> bytes:
    return (b'{"%s":' % key) * 250 + text + b"}" * 250


def _twice(keys: bytes) -> bytes:
    return keys[:-1] + b"," + keys[1:]


def _long_key(size: int, text: bytes) -> bytes:
    return b'{"%s":%s}' % (b"k" * size, text)


def _root(keys: bytes) -> bytes:
    return json.dumps(sample("single_turn")).encode()[:-1] + b"," + keys[1:-1] + b"}"


def _versions(size: int) -> bytes:
    """Return lines of all versions by turns, every second one with an unknown key, a duplicate key
    or a wrong value.
    """
    samples = [
        json.dumps(sample_of(version)).encode()
        for version in ("0.2.0", "0.3.0", "0.2.0-released", "0.2.1")
    ]
    flaws = [b"}", b',"zz%d":1}', b"}", b',"error":"","error":""}', b"}", b',"token_usage":0}']
    lines = []
    length = 0
    for number in count():
        flaw = flaws[number % len(flaws)]
        lines.append(
            samples[number % len(samples)][:-1] + (flaw % number if b"%" in flaw else flaw)
        )
        length += len(lines[-1]) + 1
        if length >= size:
            return b"\n".join(lines)
    raise AssertionError


KINDS: dict[str, Callable[[int], bytes]] = {
    # Errors of the schema
    "empty turns": lambda size: _turns(_repeat(b"{}", size)),
    "empty tool calls": lambda size: _turns(_repeat(_TURN % (b"0", b',"tool_calls":[{},{},{},{},{},{},{}]'), size)),
    "turns with wrong types": lambda size: _turns(_repeat(_TURN % (b"-1", b',"tool_call_id":0,"content":0'), size)),
    "numbers as attributions": lambda size: _attribution(_repeat(b"0", size)),
    "numbers as choices": lambda size: _choices(_repeat(b"0", size)),
    "many good turns, one bad": lambda size: _turns(_repeat(_TURN % (b"0", b""), size)[:-1] + b",{}]"),
    "ids that are numbers": lambda size: _tool_call_id(_repeat(b"0", size)),
    "unknown keys of a closed root": lambda size: _messages(b"[]," + _numbered(b'"zz%s":0', size)[1:-1]),
    "numbers for texts in metadata": lambda size: _texts(_numbered(b'"%s":0', size)),
    "objects for texts in arguments": lambda size: _arguments(_numbered(b'"%s":{"b":0,"a":[]}', size)),
    "empty messages": lambda size: _messages(_repeat(b"{}", size)),
    "messages with wrong types": lambda size: _messages(_repeat(_TURN % (b"-1", b',"tool_call_id":""'), size)),
    "numbers as references": lambda size: _references(_repeat(b"0", size)),
    "numbers as answers": lambda size: _answers(_repeat(b"0", size)),
    # What repairs are for, and what looks like it
    "turns with nulls": lambda size: _turns(_repeat(_TURN % (b"0", b',"tool_call_id":null'), size)),
    "turns with nulls, one without a role": lambda size: _turns(
        _repeat(_TURN % (b"0", b',"tool_call_id":null'), size)[:-1] + b',{"turn_idx":0,"role":7}]'
    ),
    "turns with numbers as text": lambda size: _turns(_repeat(_TURN % (b'"7"', b""), size)),
    "turns beside an output": lambda size: _beside(_repeat(_TURN % (b"0", b',"z":{"b":0,"a":0}'), size)),
    "metadata of infinities": lambda size: _texts(_numbered(b'"%s":1e999', size)),
    "metadata of arrays of infinities": lambda size: _texts(b'{"x":' + _repeat(b"1e999", size) + b"}"),
    "taken names": lambda size: _taken(_numbered(b'"output_%s":""', size)),
    # Flaws of the JSON
    "one key many times": lambda size: _metadata(_repeat(b'"k":0', size, b"{}")),
    "many keys twice": lambda size: _metadata(_twice(_numbered(b'"%s":0', size // 2))),
    "objects with a key twice": lambda size: _metadata(b'{"x":' + _repeat(b'{"":0,"":0}', size) + b"}"),
    "infinities": lambda size: _unknown(_repeat(b"1e999", size)),
    "infinities below 250 long keys": lambda size: _unknown(_deep(_repeat(b"1e999", size), b"k" * 100)),
    "infinities below a long key": lambda size: _unknown(_long_key(size // 2, _repeat(b"NaN", size // 2))),
    "half surrogate pairs": lambda size: _unknown(_repeat(rb'"\ud800"', size)),
    "invalid UTF-8": lambda size: _raw(b'"' + b"\xff" * size + b'"'),
    "an open string": lambda size: _raw(b'"' + b"x" * size),
    "too deep": lambda size: _unknown(b"[" * (size // 2) + b"]" * (size // 2)),
    "escaped quotes": lambda size: _raw(b'"' + rb"\"[" * (size // 3) + b'"'),
    # Valid records
    "empty arrays": lambda size: _unknown(_repeat(b"[]", size)),
    "empty objects": lambda size: _metadata(b'{"x":' + _repeat(b"{}", size) + b"}"),
    "floats": lambda size: _unknown(_repeat(b"1.5", size)),
    "integers of 20 digits": lambda size: _unknown(_repeat(b"7" * 20, size)),
    "integers of 5,000 digits": lambda size: _unknown(_repeat(b"7" * 5_000, size)),
    "integral floats": lambda size: _turns(_repeat(_TURN % (b"1.0", b""), size)),
    "many keys": lambda size: _metadata(_numbered(b'"%s":0', size)),
    "many unknown keys": lambda size: _root(_numbered(b'"zz%s":0', size)),
    "unknown keys in turns": lambda size: _turns(_numbered(b'{"turn_idx":0,"role":"","z%s":0}', size, b"[]")),
    "deep values": lambda size: _unknown(_repeat(b"[" * 200 + b"]" * 200, size)),
    "deep objects": lambda size: _unknown(_repeat(_deep(b"0"), size)),
    "escapes": lambda size: _raw(b'"' + rb"\u0000" * (size // 6) + b'"'),
    "escaped keys": lambda size: _root(_numbered(rb'"\u007a\u003a%s":0', size)),
    "one emoji": lambda size: _raw(b'"' + b"x" * size + "😀".encode() + b'"'),
    "nulls": lambda size: _turns(_repeat(_TURN % (b"0", b',"content":null'), size)),
    "a question with a wrong hash": lambda size: _asked(b'"' + "é".encode() * (size // 2) + b'"'),
    "references with a wrong hash": lambda size: _wrongly_hashed(_repeat('"é"'.encode(), size)),
    "many references": lambda size: _references(_repeat(b'""', size)),
    "many answers": lambda size: _answers(_repeat(b'"x"', size)),
    "many texts in metadata": lambda size: _texts(_numbered(b'"%s":""', size)),
    "nulls in messages": lambda size: _messages(_repeat(_TURN % (b"0", b',"content":null,"tool_calls":null'), size)),
    "unknown keys in messages": lambda size: _messages(_numbered(b'{"turn_idx":0,"role":"","z%s":0}', size, b"[]")),
    # Warnings
    "attributions beyond the last turn": lambda size: _attribution(_repeat(_CLAIM, size)),
    "ids of no tool call": lambda size: _tool_call_id(_repeat(b'""', size)),
    "turns with ids of no tool call": lambda size: _turns(_repeat(_TURN % (b"0", b',"tool_call_id":""'), size)),
    # Many lines
    "short invalid lines": lambda size: b"{}\n" * (size // 3),
    "short lines without JSON": lambda size: b"x\n" * (size // 2),
    "versions by turns": _versions,
}  # fmt: skip


def hostile(kind: str, size: int) -> bytes:
    """Return about `size` bytes of lines of a kind."""
    return KINDS[kind](size)
