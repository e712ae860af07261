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

from functools import lru_cache

import msgspec
from msgspec import Raw

from fastrec.corpus.line_head import key_mark
from fastrec.judge.findings import json_path

__all__ = ["Verdict", "compare_lines", "verdict_of"]

Verdict = bool | None
"""Whether an answer is right; None for a record with an error, which is no answer."""

_RUN, _MODEL, _OUTPUT, _TAIL = map(key_mark, ("evaluation_id", "model_id", "output", "answer_attribution"))

_NO_ERROR = Raw(b"null")
_NO_ERRORS = (_NO_ERROR, Raw(b'""'))

_Object = dict[str, Raw]
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


class _Evaluation(msgspec.Struct):
    is_correct: bool


class _Record(msgspec.Struct):
    evaluation: _Evaluation
    error: str | None = None


_decode_record = msgspec.json.Decoder(_Record).decode
_decode_evaluation = msgspec.json.Decoder(_Evaluation).decode


def verdict_of(line: bytes) -> Verdict:
    """Return whether the answer of a record is right; None if it has an error."""
    record = _decode_record(line)
    return None if record.error else record.evaluation.is_correct


def compare_lines(old: bytes, new: bytes) -> tuple[list[str], Verdict, Verdict]:
    """Compare two records in normal form, each without its newline.

    Returns the paths that differ, each once, without `evaluation_id`, and the verdicts of both. If there are no such
    paths, the verdicts are not looked up.
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
    return (list(found), _verdict(before), _verdict(after)) if found else ([], None, None)


def _verdict(record: _Object) -> Verdict:
    """Return the verdict of a record, of which the fields from `answer_attribution` on are enough."""
    if record.get("error", _NO_ERROR) not in _NO_ERRORS:
        return None
    return _decode_evaluation(record["evaluation"]).is_correct


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
