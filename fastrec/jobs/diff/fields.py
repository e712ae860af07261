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


_SAME = Compared([], None)


def is_correct(line: bytes) -> bool:
    """Return the verdict of a record."""
    return _decode_record(line).evaluation.is_correct


def compare_lines(old: bytes, new: bytes) -> Compared:
    """Compare two records in normal form, each without its newline."""
    try:
        return _compare_pieces(old, new)
    except msgspec.MsgspecError:
        before, after = _decode_object(old), _decode_object(new)
        return _compared(before, after, before, after)


def _compare_pieces(old: bytes, new: bytes) -> Compared:
    old_model, new_model = old.find(_MODEL), new.find(_MODEL)
    same_version = old[: old.find(_RUN)] == new[: new.find(_RUN)]
    if same_version and old[old_model:] == new[new_model:]:
        return _SAME
    old_tail, new_tail = old.rfind(_TAIL), new.rfind(_TAIL)
    before: _Object = {}
    after: _Object = {}
    if not same_version or old[old_model:old_tail] != new[new_model:new_tail]:
        before = _decode_object(old[:old_tail] + b"}")
        after = _decode_object(new[:new_tail] + b"}")
    last_before = _decode_object(b"{" + old[old_tail + 1 :])
    last_after = _decode_object(b"{" + new[new_tail + 1 :])
    return _compared({**before, **last_before}, {**after, **last_after}, last_before, last_after)


def _compared(before: _Object, after: _Object, last_before: _Object, last_after: _Object) -> Compared:
    found: dict[str, None] = {}
    before.pop("evaluation_id", None)
    after.pop("evaluation_id", None)
    _compare_objects(before, after, "$", found)
    was, now = last_before["evaluation"], last_after["evaluation"]
    flip = None
    if was != now:
        right, right_now = _decode_evaluation(was).is_correct, _decode_evaluation(now).is_correct
        flip = None if right == right_now else right_now
    return Compared(list(found), flip)


def _compare_objects(old: _Object, new: _Object, path: str, found: dict[str, None]) -> None:
    for key, value in old.items():
        other = new.get(key)
        if other is None:
            found[_step(path, key)] = None
        elif other != value:
            _compare_values(bytes(value), bytes(other), _step(path, key), found)
    for key in new:
        if key not in old:
            found[_step(path, key)] = None


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
