r"""Which records match: where they can be in the sort order, and how to find them without decoding the text.

A *needle* is a wanted field, with its value and the key of the next field:

    {"schema_version":…,"evaluation_id":…,"model_id":…,"evaluation_name":…,"sample_id":…,"sample_hash":…,"interaction_…
                                         \__ needle of a model __________/

Lines that contain the needle are candidates. The decoded head of a candidate decides.

The outcome of a record is found in two places. Every record has `"is_correct":`, so if a line has it once, that is it.
An `error` comes after an object; what follows it up to the end of the line is decoded as an object, which succeeds only
if it belongs to the record itself. Otherwise the line is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from stringzilla import find, rfind

from fastrec.corpus.line_head import LineHead, Position, field_bytes, key_mark, position_maker, read_head
from fastrec.corpus.manifest import PartEntry
from fastrec.errors import UsageError
from fastrec.filters import Filters
from fastrec.sorting.keys import METRIC

__all__ = ["SPECIAL", "Finder", "Selection", "SortRange"]

SPECIAL: Final = re.compile(r"[*?\[]")
"""The characters that make a name a pattern."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_HEXADECIMAL: Final = re.compile(r"-?0x[0-9a-f]+")
_ERROR: Final = b'},"error":"'  # the field before `error` is always an object
_CORRECT: Final = b'"is_correct":'
_TRUE: Final = ord("t")
_MOST_NAMES: Final = 16  # more needles than this are slower than decoding every head
_RAREST_FIRST: Final = ("sample_hash", "sample_id", METRIC, "model_id", "evaluation_name")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What a record must match: its value is one of these. No values match every record."""

    evaluation: tuple[str, ...] = ()
    """The `evaluation_name`."""
    metric: tuple[str, ...] = ()
    """The `evaluation_result_id`."""
    model: tuple[str, ...] = ()
    sample_id: tuple[str, ...] = ()
    """The string, or the integer with these digits."""
    hash: tuple[str, ...] = ()
    right: bool = False
    wrong: bool = False
    errors: bool = False
    """Outcomes, any of which will do; a record with an `error` that is not empty is neither right nor wrong."""
    rest: Filters = Filters()
    """Patterns that a record must match, too: of ids and hashes, and of names that are not known."""

    @property
    def chooses_outcomes(self) -> bool:
        """Whether the outcome of a record matters."""
        return self.right or self.wrong or self.errors

    def values(self) -> dict[str, tuple[int | str, ...]]:
        """Return the values that match, by field of the head; fields without a filter are left out."""
        texts = {
            "evaluation_name": self.evaluation,
            METRIC: self.metric,
            "sample_hash": self.hash,
            "model_id": self.model,
        }
        values: dict[str, tuple[int | str, ...]] = {name: found for name, found in texts.items() if found}
        if self.sample_id:
            values["sample_id"] = (*map(int, filter(_INTEGER.fullmatch, self.sample_id)), *self.sample_id)
        return values


class SortRange:
    """Where matching records can be in the sort order."""

    def __init__(self, selection: Selection, sort_fields: Sequence[str]) -> None:
        wanted: dict[str, Sequence[Any]] = {**selection.values()}
        if "sample_id" in wanted:  # a position has integers before strings
            wanted["sample_id"] = [(isinstance(value, str), value) for value in wanted["sample_id"]]
        if METRIC in wanted:  # it has records without a metric before all others
            wanted[METRIC] = [(True, value) for value in wanted[METRIC]]
        self._sort_fields = tuple(sort_fields)
        self._is_impossible = not wanted.keys() <= {*sort_fields}
        self._position_of = position_maker(sort_fields)
        self._allowed = [wanted.get(field) for field in sort_fields]
        leading = self._allowed[: len(wanted)]
        is_exact = not selection.chooses_outcomes and not selection.rest
        self.is_contiguous = is_exact and all(values and len(values) == 1 for values in leading)
        """Whether the matching records are exactly those of one stretch of the corpus."""
        self.can_end_early = any(self._allowed[:2])
        """Whether checking for the last possible match is worth its time."""

    def may_be_in(self, part: PartEntry) -> bool:
        """Return whether a part may have a matching record."""
        if self._is_impossible:  # records of this schema version have no metrics
            return False
        first = list(self._position_of(part.first))
        # The manifest has huge integers as hexadecimal strings. They sort after all integers, which is harmless for
        # a last key, but wrong for a first one.
        sample_id = part.first.sample_id
        if isinstance(sample_id, str) and _HEXADECIMAL.fullmatch(sample_id):
            first[self._sort_fields.index("sample_id")] = ()
        return _overlaps(self._allowed, tuple(first), self._position_of(part.last))

    def may_follow(self, head: LineHead, part: PartEntry) -> bool:
        """Return whether a matching record may be at a line of a part or after it."""
        return _overlaps(self._allowed, self._position_of(head), self._position_of(part.last))


def _overlaps(allowed: Sequence[Sequence[Any] | None], low: Position | None, high: Position | None) -> bool:
    """Return whether a position from `low` to `high` can have allowed values; a field without any may have all.

    A bound is None if the fields before this one have already passed it.
    """
    if not allowed or (low is None and high is None):
        return True
    values, rest = allowed[0], allowed[1:]
    if values is None:
        if low and high and low[0] == high[0]:
            return _overlaps(rest, low[1:], high[1:])
        return low is None or high is None or low[0] < high[0]
    return any(
        _overlaps(rest, low[1:] if low and value == low[0] else None, high[1:] if high and value == high[0] else None)
        for value in values
        if (low is None or value >= low[0]) and (high is None or value <= high[0])
    )


class _Evaluation(msgspec.Struct):
    is_correct: bool


class _Tail(msgspec.Struct):
    error: str = ""


class _Outcome(_Tail, kw_only=True):
    evaluation: _Evaluation


_decode_error = msgspec.json.Decoder(_Tail).decode
_decode_outcome = msgspec.json.Decoder(_Outcome).decode


class Finder:
    """Finds matching lines in text; raises MsgspecError if a candidate is not a line in normal form."""

    def __init__(self, selection: Selection) -> None:
        wanted = selection.values()
        spelled = {field: [_spell(value) for value in values] for field, values in wanted.items()}
        self._sample_ids = spelled.get("sample_id")
        self._texts = [(field, frozenset(values)) for field, values in wanted.items() if field != "sample_id"]
        self._rest = selection.rest
        self._outcomes = Filters(right=selection.right, wrong=selection.wrong, errors=selection.errors)
        self._needles = _needles(spelled, selection)

    def lines(self, data: bytearray, end: int) -> Iterator[bytes]:
        """Yield the matching lines of a buffer, with their newlines."""
        if not self._needles:
            yield from self._all_lines(data, end)
            return
        found = [find(data, needle, 0, end) for needle in self._needles]
        while (nearest := min((offset for offset in found if offset >= 0), default=-1)) >= 0:
            first = data.rfind(b"\n", 0, nearest) + 1
            beyond = data.find(b"\n", nearest) + 1
            if self.matches(data, first, beyond):
                yield bytes(memoryview(data)[first:beyond])
            for number, offset in enumerate(found):
                if 0 <= offset < beyond:
                    found[number] = find(data, self._needles[number], beyond, end)

    def _all_lines(self, data: bytearray, end: int) -> Iterator[bytes]:
        """Do the same without needles: look at every line. Matching lines that are adjacent come in one piece."""
        first = start = 0
        while start < end:
            beyond = data.find(b"\n", start, end) + 1
            if not self.matches(data, start, beyond):
                if first < start:
                    yield bytes(memoryview(data)[first:start])
                first = beyond
            start = beyond
        if first < end:
            yield bytes(memoryview(data)[first:end])

    def matches(self, data: bytearray, start: int, end: int) -> bool:
        """Return whether a line matches every filter."""
        head = read_head(data, start)
        return (
            all(getattr(head, field) in texts for field, texts in self._texts)
            and (self._sample_ids is None or bytes(head.sample_id) in self._sample_ids)
            and (not self._rest or self._accepts(head))
            and (not self._outcomes or self._accepts_outcome(data, start, end))
        )

    def _accepts(self, head: LineHead) -> bool:
        """Return whether the patterns match."""
        rest, metric = self._rest, head.evaluation_result_id
        return (
            rest.accepts_evaluation(head.evaluation_name)
            and rest.accepts_metric(metric if isinstance(metric, str) else None)
            and rest.accepts_model(head.model_id)
            and rest.accepts_hash(head.sample_hash)
            and (not rest.sample_id or rest.accepts_sample_id(head.decoded_sample_id()))
        )

    def _accepts_outcome(self, data: bytearray, start: int, end: int) -> bool:
        """Return whether the outcome of a line matches."""
        accepts, error = self._outcomes.accepts_outcome, rfind(data, _ERROR, start, end)
        try:
            has_error = error >= 0 and _decode_error(b"{" + data[error + 2 : end]).error != ""
            if has_error:
                return accepts(is_correct=False, has_error=True)
            found = find(data, _CORRECT, start, end)
            after = found + len(_CORRECT)
            if found >= 0 and find(data, _CORRECT, after, end) < 0:
                return accepts(is_correct=data[after] == _TRUE, has_error=False)
        except msgspec.MsgspecError:
            pass  # the error of an inner object
        record = _decode_outcome(memoryview(data)[start:end])
        return accepts(is_correct=record.evaluation.is_correct, has_error=bool(record.error))


def _needles(spelled: Mapping[str, Sequence[bytes]], selection: Selection) -> list[bytes]:
    """Return what every matching line has one of; empty if nothing is worth searching for."""
    rest = selection.rest
    for field in _RAREST_FIRST:
        values = spelled.get(field, ())
        if values and (len(values) <= _MOST_NAMES or field in ("sample_hash", "sample_id")):
            return [field_bytes(field, value) for value in values]
        patterns = rest.hash if field == "sample_hash" else rest.sample_id if field == "sample_id" else ()
        starts = [_spell(SPECIAL.split(pattern, maxsplit=1)[0])[:-1] for pattern in patterns]
        if patterns and all(len(start) > 1 for start in starts):
            numbers = [start[1:] for start in starts] if field == "sample_id" else []
            return [key_mark(field)[1:] + start for start in (*starts, *numbers)]
    needles = [_ERROR] if selection.errors else []
    if selection.right != selection.wrong:
        needles.append(_CORRECT + (b"true" if selection.right else b"false"))
    return [] if selection.right and selection.wrong else needles


def _spell(value: int | str) -> bytes:
    try:
        return str(value).encode() if isinstance(value, int) else msgspec.json.encode(value)
    except UnicodeEncodeError as exc:
        raise UsageError(f"no record can have the value {value!r}: it is not valid UTF-8") from exc
