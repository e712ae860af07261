"""Which fields of two records differ, found by comparing their lines.

The normal form makes this fast: equal values have equal bytes at every level, and known keys have one order. So the
text that two lines share up to the answer is skipped, and the rest is split into the values of its keys. Only values
that differ are split further. Numbers and strings are compared as they are spelled, without building values.

    {"schema_version":… | ,"evaluation_id":… | ,"model_id":…,"input":… | ,"output":…,"answer_attribution":[…],…}
     compared             left out             compared                  split

Quotes inside a string are escaped, so a key cannot occur there. But a nested object may have the same key. Then the
text from there on has a closing bracket too many, the decoder refuses it, and both lines are decoded from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import msgspec
from msgspec import Raw

from fastrec.corpus.line_head import key_mark
from fastrec.judge.findings import json_path
from fastrec.judge.parse import parse

__all__ = ["Rate", "Value", "compare_lines", "correctness", "rate_maker", "value_of"]

Value = bool | Fraction | None
"""What a record adds to the mean of its question: whether it is right, or its score; None if it is no answer."""

Rate = Callable[[Raw, bool], Value]
"""From the `evaluation` of a record, and whether the record has an error, to its value."""

_RUN, _MODEL, _OUTPUT, _TAIL = map(key_mark, ("evaluation_id", "model_id", "output", "answer_attribution"))

_NO_ERROR = Raw(b"null")
_NO_ERRORS = (_NO_ERROR, Raw(b'""'))

_Object = dict[str, Raw]
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


class _Correctness(msgspec.Struct):
    is_correct: bool


class _Score(msgspec.Struct):
    score: Raw


class _Record(msgspec.Struct):
    evaluation: Raw
    error: str | None = None


_decode_record = msgspec.json.Decoder(_Record).decode
_decode_correctness = msgspec.json.Decoder(_Correctness).decode
_decode_score = msgspec.json.Decoder(_Score).decode


def rate_maker(*, scored: bool, errors_as_wrong: bool) -> Rate:
    """Return the function that reads the value of a record.

    With `errors_as_wrong`, a record with an error is an answer: a wrong one, or with the score that it has.
    """
    if scored:
        return lambda evaluation, failed: (
            None if failed and not errors_as_wrong else _score_of(bytes(_decode_score(evaluation).score))
        )
    of_failed = False if errors_as_wrong else None
    return lambda evaluation, failed: of_failed if failed else _decode_correctness(evaluation).is_correct


correctness = rate_maker(scored=False, errors_as_wrong=False)
"""Whether the answer is right; None if the record has an error."""


@lru_cache(maxsize=4_096)
def _score_of(spelled: bytes) -> Fraction:
    """Return a score exactly as it is spelled: 0.1 is a tenth, not the double next to it.

    So the mean of 0.1 and 0.2 is that of 0 and 0.3, and equal steps have equal sizes.
    """
    if spelled in {b"true", b"false"}:
        return Fraction(spelled == b"true")
    try:
        return Fraction(spelled.decode())
    except ValueError:  # more digits than Python converts by default
        return Fraction(parse(spelled)[0])


def value_of(line: bytes, rate: Rate = correctness) -> Value:
    """Return the value of a record."""
    record = _decode_record(line)
    return rate(record.evaluation, bool(record.error))


def compare_lines(old: bytes, new: bytes, rate: Rate = correctness) -> tuple[list[str], Value, Value]:
    """Compare two records in normal form, each without its newline.

    Returns the paths that differ, each once, without `evaluation_id`, and the values of both. If there are no such
    paths, the values are not looked up.
    """
    found: dict[str, None] = {}
    if not new.startswith(old[: old.find(_RUN) + len(_RUN)]):
        found["$.schema_version"] = None
    start, other = old.find(_MODEL), new.find(_MODEL)
    for cut in (old.rfind(_TAIL), old.find(_OUTPUT, start)):
        if cut > start and new.startswith(old[start:cut], other):
            start, other = cut, other + cut - start
            break
    try:
        before, after = _decode_object(b"{" + old[start + 1 :]), _decode_object(b"{" + new[other + 1 :])
    except msgspec.MsgspecError:
        before, after = _decode_object(old), _decode_object(new)
        del before["evaluation_id"], after["evaluation_id"]
    _compare_objects(before, after, "$", found)
    return (list(found), _value(before, rate), _value(after, rate)) if found else ([], None, None)


def _value(record: _Object, rate: Rate) -> Value:
    """Return the value of a record, of which the fields from `answer_attribution` on are enough."""
    return rate(record["evaluation"], record.get("error", _NO_ERROR) not in _NO_ERRORS)


def _compare_objects(old: _Object, new: _Object, path: str, found: dict[str, None]) -> None:
    for key, value in old.items():
        other = new.get(key)
        if other != value:
            if other is None:
                found[_step(path, key)] = None
            else:
                _compare_values(bytes(value), bytes(other), _step(path, key), found)
    if not new.keys() <= old.keys():
        found.update([(_step(path, key), None) for key in new if key not in old])


def _compare_values(old: bytes, new: bytes, path: str, found: dict[str, None]) -> None:
    """Find what differs in two unequal values; lists of different lengths differ as a whole."""
    kind = old[:1]
    if kind == b"{" == new[:1]:
        _compare_objects(_decode_object(old), _decode_object(new), path, found)
        return
    if kind == b"[" == new[:1]:
        items, others = _decode_array(old), _decode_array(new)
        if len(items) == len(others):
            for item, other in zip(items, others, strict=True):
                if item != other:
                    _compare_values(bytes(item), bytes(other), f"{path}[*]", found)
            return
    found[path] = None


@lru_cache(maxsize=1_024)
def _step(path: str, key: str) -> str:
    return path + json_path((key,))[1:]
