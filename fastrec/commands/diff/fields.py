"""Which fields of two records differ, from their lines alone.

Normal form is what makes this quick: equal values are equal bytes, at every level, and known keys stand in one order.
So what two lines have in common up to the answer is passed over, the rest is cut into the values of its keys, and only
those that differ are followed; no value is ever built, numbers and texts are compared as they are spelled.

    {"schema_version":… | ,"evaluation_id":… | ,"model_id":…,"input":… | ,"output":…,"answer_attribution":[…],…}
     compared             left out             compared                  taken apart

The quotes of a key cannot stand inside of a string, where they are escaped. But a nested object may have the same key:
then what begins there has a bracket too many, which the decoder refuses, and the two lines are taken apart whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw

from fastrec.judge.findings import json_path

__all__ = ["Compared", "compare_lines", "is_correct"]

_RUN, _MODEL, _OUTPUT, _TAIL = b',"evaluation_id":"', b',"model_id":"', b',"output":{', b',"answer_attribution":['

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
    return Compared(list(found), _flip(before, after))


def _flip(old: _Object, new: _Object) -> bool | None:
    was, now = old["evaluation"], new["evaluation"]
    if was == now:
        return None
    right = _decode_evaluation(now).is_correct
    return None if right == _decode_evaluation(was).is_correct else right


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
    """Name what differs in two values that are not equal; a list that changed its length differs as a whole."""
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
