r"""Which records match: where they can be in the sort order, and how to find them without decoding the text.

A *needle* is a wanted field, with its value and the key of the next field:

    {"schema_version":…,"evaluation_id":…,"model_id":…,"evaluation_name":…,"sample_id":…,"sample_hash":…,"interaction_…
                                         \__ needle of a model __________/

Lines that contain the needle are candidates. The decoded head of a candidate decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from stringzilla import find

from fastrec.corpus.line_head import LineHead, Position, field_bytes, position_maker, read_head
from fastrec.corpus.manifest import PartEntry
from fastrec.errors import UsageError
from fastrec.sorting.keys import METRIC

__all__ = ["Finder", "Selection", "SortRange"]

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_HEXADECIMAL: Final = re.compile(r"-?0x[0-9a-f]+")
_ERROR: Final = b'},"error":"'  # the field before `error` is always an object
_RAREST_FIRST: Final = ("sample_hash", "sample_id", METRIC, "model_id", "evaluation_name")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The filters that a record must match: its value is one of these. An empty filter matches every record."""

    evaluation: tuple[str, ...] = ()
    """The `evaluation_name`."""
    metric: tuple[str, ...] = ()
    """The `evaluation_result_id`."""
    model: tuple[str, ...] = ()
    sample_id: tuple[str, ...] = ()
    """The string, or the integer with these digits."""
    hash: tuple[str, ...] = ()
    where_error: bool = False
    """Whether the record must have an `error` that is not empty."""

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
        self.is_contiguous = not selection.where_error and all(values and len(values) == 1 for values in leading)
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


class _Error(msgspec.Struct):
    error: str = ""


_decode_error = msgspec.json.Decoder(_Error).decode


class Finder:
    """Finds matching lines in text; raises MsgspecError if a candidate is not a line in normal form."""

    def __init__(self, selection: Selection) -> None:
        wanted = selection.values()
        spelled = {field: [_spell(value) for value in values] for field, values in wanted.items()}
        self._sample_ids = spelled.get("sample_id")
        self._texts = [(field, frozenset(values)) for field, values in wanted.items() if field != "sample_id"]
        self._error = selection.where_error
        rarest = next((field for field in _RAREST_FIRST if field in spelled), None)
        self._needles = [field_bytes(rarest, value) for value in spelled[rarest]] if rarest else [_ERROR]

    def lines(self, data: bytearray, end: int) -> Iterator[bytes]:
        """Yield the matching lines of a buffer, with their newlines."""
        found = [find(data, needle, 0, end) for needle in self._needles]
        while (nearest := min((offset for offset in found if offset >= 0), default=-1)) >= 0:
            first = data.rfind(b"\n", 0, nearest) + 1
            beyond = data.find(b"\n", nearest) + 1
            if self.matches(data, first, beyond):
                yield bytes(memoryview(data)[first:beyond])
            for number, offset in enumerate(found):
                if 0 <= offset < beyond:
                    found[number] = find(data, self._needles[number], beyond, end)

    def matches(self, data: bytearray, start: int, end: int) -> bool:
        """Return whether a line matches every filter."""
        head = read_head(data, start)
        return (
            all(getattr(head, field) in texts for field, texts in self._texts)
            and (self._sample_ids is None or bytes(head.sample_id) in self._sample_ids)
            and (not self._error or _decode_error(data[start:end]).error != "")
        )


def _spell(value: int | str) -> bytes:
    try:
        return str(value).encode() if isinstance(value, int) else msgspec.json.encode(value)
    except UnicodeEncodeError as exc:
        raise UsageError(f"no record can have the value {value!r}: it is not valid UTF-8") from exc
