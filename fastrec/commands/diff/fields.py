"""Comparing records field by field, by their lines.

The normal form makes this fast: equal values have equal bytes at every level. So a line is split
into the values of its keys, and only values that differ are split further. Numbers and strings are
compared as they are spelled.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Raw, Struct

from fastrec.answers.codes import Array
from fastrec.corpus.reader import lines_of, open_columns
from fastrec.corpus.scan import PartFile, decoding
from fastrec.engine.base import collector_off
from fastrec.errors import shown
from fastrec.judge.findings import json_path
from fastrec.judge.parse import decoded
from fastrec.limits import current_limits
from fastrec.schemas.view import json_decoder
from fastrec.where import said, values_of

OTHER_FIELDS = "(other fields)"

_VERDICT = frozenset({"$.evaluation.score", "$.evaluation.is_correct"})
_LABEL = ("original_score", "original_is_correct", "label_by", "label_at", "label_reason")

# Why a right answer became a wrong one (`ModelDifference.losses`).
CAUSES = (
    "error", "same_output", "cut_short", "no_value", "other_value", "other_output",
)  # fmt: skip
_EXTRACTED = ("answer_attribution", "extracted_value")
_LIMITS = ("length", "max_tokens", "max_output_tokens", "model_length")  # finish reasons

_Object = dict[str, Raw]


split_object = json_decoder(_Object)
_decode_array = json_decoder(list[Raw])


class PartLines(NamedTuple):
    """Some lines of a part."""

    part: PartFile
    positions: Array


class LinesTask(Struct, frozen=True):
    """Pairs of lines to compare, in the order of OLD."""

    old: list[PartLines]
    new: list[PartLines]  # in the order of NEW
    places: Array  # of each pair: the place of the line of NEW among these
    lost: Array  # of each pair: whether the answer was right in OLD and is not in NEW
    examples: int

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(lines.part.path) for lines in self.old + self.new)}"


Kind = Literal["unchanged", "changed", "relabelled"]


class LineChange(NamedTuple):
    """How the lines of a pair differ."""

    kind: Kind
    paths: Sequence[str]  # only of the first examples of a kind
    cause: str | None  # of a loss


@collector_off()
def compare_lines(task: LinesTask) -> tuple[list[LineChange], Counter[str]]:
    """Compare pairs of lines, and count in how many pairs each path differs. Runs in a worker."""
    changes = []
    fields = Counter[str]()
    kinds = Counter[Kind]()
    most = current_limits().diff_fields
    with decoding(task.new[0].part):
        for is_lost, (before, after) in zip(task.lost.tolist(), _read_pairs(task), strict=True):
            old, new = map(split_object, (before, after))
            paths = compare_records(old, new)
            for path in paths:
                is_counted = path in fields or len(fields) < most
                fields[path if is_counted else OTHER_FIELDS] += 1
            kind: Kind = "changed" if paths else "unchanged"
            if is_relabelled(old, new, paths):
                kind = "relabelled"
            kinds[kind] += 1
            listed = paths if kinds[kind] <= task.examples else []
            cause = cause_of_loss(before, after) if is_lost else None
            changes.append(LineChange(kind, listed, cause))
    return changes, fields


def _read_pairs(task: LinesTask) -> Iterator[tuple[bytes, bytes]]:
    # Of NEW; only the lines of one question may have another order than in OLD.
    waiting: dict[int, bytes] = {}
    new_lines = enumerate(_read_lines(task.new))
    for place, old in zip(task.places.tolist(), _read_lines(task.old), strict=True):
        while place not in waiting:
            waiting.update([next(new_lines)])
        yield old, waiting.pop(place)


def _read_lines(lines: Sequence[PartLines]) -> Iterator[bytes]:
    for part, positions in lines:
        yield from lines_of(part, open_columns(part), positions.tolist())


def compare_records(old: _Object, new: _Object) -> list[str]:
    """Return the paths in which two records differ, each once, without `evaluation_id`."""
    paths = dict.fromkeys(_differences(old, new, "$"))
    paths.pop("$.evaluation_id", None)
    return list(paths)


def is_relabelled(old: _Object, new: _Object, paths: Sequence[str]) -> bool:
    """Whether a label changed the verdict: only NEW has this label in its metadata."""
    if _VERDICT.isdisjoint(paths):
        return False
    was, now = (split_object(record.get("metadata", b"{}")) for record in (old, new))
    return any(name in now and now[name] != was.get(name) for name in _LABEL)


def cause_of_loss(old: bytes, new: bytes) -> str:
    """Why a right answer became a wrong one: the first of `CAUSES` that applies."""
    was, now = map(decoded, (old, new))
    before, after = ("\n".join(said(record)) for record in (was, now))
    value, other = (list(values_of(record, _EXTRACTED)) for record in (was, now))
    metadata = now.get("metadata") or {}
    reason = metadata.get("stop_reason") or metadata.get("finish_reason")
    applies = (
        now.get("error"),
        before == after,
        reason in _LIMITS or before.startswith(after),
        any(value) and not any(other),
        any(other) and value != other,
        True,
    )
    return next(cause for cause, is_true in zip(CAUSES, applies, strict=True) if is_true)


def _differences(old: _Object, new: _Object, path: str) -> Iterator[str]:
    """Yield the paths in which two objects differ."""
    for key in old | new:
        value = old.get(key)
        other = new.get(key)
        if value is None or other is None:
            yield _step(path, key)
        elif value != other:
            yield from _differences_within(bytes(value), bytes(other), _step(path, key))


def _differences_within(old: bytes, new: bytes, path: str) -> Iterator[str]:
    """Yield what differs in two unequal values; lists of different lengths differ as a whole."""
    kinds = old[:1] + new[:1]
    if kinds == b"{{":
        yield from _differences(split_object(old), split_object(new), path)
        return
    if kinds == b"[[":
        items = _decode_array(old)
        others = _decode_array(new)
        if len(items) == len(others):
            for item, other in zip(items, others, strict=True):
                if item != other:
                    yield from _differences_within(bytes(item), bytes(other), f"{path}[*]")
            return
    yield path


@lru_cache(maxsize=1_024)
def _step(path: str, key: str) -> str:
    return path + json_path((key,))[1:]
