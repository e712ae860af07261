"""Which fields of two records differ, from their lines alone.

Normal form is what makes this quick: equal values are equal bytes, at every level, and known keys stand in one order.
So lines are cut at keys that every record has, only pieces that differ are decoded, and of them only the branches that
differ are followed; no value is ever built, numbers and texts are compared as they are spelled.

    {"schema_version":… | ,"evaluation_id":… | ,"model_id":…,"input":…,"output":… | ,"answer_attribution":[…],…}
     compared             left out             compared                             compared

The quotes of a key cannot stand inside of a string, where they are escaped. But a nested object may have the same key:
then a piece has a bracket too many or too few, which the decoder refuses, and the two lines are decoded whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw

from fastrec.stages.judge.findings import json_path

__all__ = ["Compared", "compare_lines", "is_correct"]

_RUN, _MODEL, _TAIL = b',"evaluation_id":"', b',"model_id":"', b',"answer_attribution":['

_Object = dict[str, Raw]
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


class _Evaluation(msgspec.Struct):
    is_correct: bool


class _Record(msgspec.Struct):
    evaluation: _Evaluation


_decode_record = msgspec.json.Decoder(_Record).decode
_decode_evaluation = msgspec.json.Decoder(_Evaluation).decode


class Compared(NamedTuple):
    """How two records differ."""

    paths: list[str]
    """The fields that differ, each once; `evaluation_id` is not looked at."""
    flip: bool | None
    """True: wrong before, right now; False: the other way round; None: the same verdict."""


def is_correct(line: bytes) -> bool:
    """Return the verdict of a record."""
    return _decode_record(line).evaluation.is_correct


def compare_lines(old: bytes, new: bytes) -> Compared:
    """Compare two records in normal form, each without its newline."""
    try:
        return _compare_pieces(old, new)
    except msgspec.MsgspecError:
        before, after = _decode_object(old), _decode_object(new)
        del before["evaluation_id"], after["evaluation_id"]
        found: dict[str, None] = {}
        _compare_objects(before, after, "$", found)
        return Compared(list(found), _flip(before, after))


def _compare_pieces(old: bytes, new: bytes) -> Compared:
    found: dict[str, None] = {}
    if old[: old.find(_RUN)] != new[: new.find(_RUN)]:
        found["$.schema_version"] = None
    old_model, new_model = old.find(_MODEL), new.find(_MODEL)
    old_tail, new_tail = old.rfind(_TAIL), new.rfind(_TAIL)
    middle, other = old[old_model:old_tail], new[new_model:new_tail]
    if middle != other:
        _compare_objects(_decode_object(b"{%b}" % middle[1:]), _decode_object(b"{%b}" % other[1:]), "$", found)
    last, other = old[old_tail:], new[new_tail:]
    if last == other:
        return Compared(list(found), None)
    before, after = _decode_object(b"{" + last[1:]), _decode_object(b"{" + other[1:])
    _compare_objects(before, after, "$", found)
    return Compared(list(found), _flip(before, after))


def _flip(old: _Object, new: _Object) -> bool | None:
    was, now = old["evaluation"], new["evaluation"]
    if was == now:
        return None
    right = _decode_evaluation(now).is_correct
    return None if right == _decode_evaluation(was).is_correct else right


def _compare_objects(old: _Object, new: _Object, path: str, found: dict[str, None]) -> None:
    common = 0
    for key, value in old.items():
        other = new.get(key)
        if other is None:
            found[_step(path, key)] = None
            continue
        common += 1
        if other != value:
            _compare_values(bytes(value), bytes(other), _step(path, key), found)
    if common < len(new):
        found.update(dict.fromkeys(_step(path, key) for key in new if key not in old))


def _compare_values(old: bytes, new: bytes, path: str, found: dict[str, None]) -> None:
    """Name what differs in two values that are not equal; a list that changed its length differs as a whole."""
    kind = old[:1]
    if kind == new[:1] == b"{":
        _compare_objects(_decode_object(old), _decode_object(new), path, found)
        return
    if kind == new[:1] == b"[":
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
