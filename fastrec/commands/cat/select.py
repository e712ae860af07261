r"""Which records are wanted: where in the order they can stand, and how to find them in text without decoding it.

A line in normal form begins with fields that are always there, always in this order, and hold no object:

    {"schema_version":…,"evaluation_id":…,"model_id":…,"evaluation_name":…,"sample_id":…,"sample_hash":…,"interaction_…
                                         \__ needle of a model __________/

A needle is a wanted field with the key that follows it. Inside of a string its quotes would be escaped, so it hardly
ever occurs elsewhere. Lines that hold it are candidates; the head of a candidate is decoded and decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from stringzilla import find

from fastrec.corpus.manifest import KeyEntry, PartEntry
from fastrec.errors import UsageError

__all__ = ["Finder", "Place", "Ranges", "Selection"]

Place = tuple[Any, ...]
"""What a record is sorted by, in the order of the corpus: comparable."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_HEXADECIMAL: Final = re.compile(r"-?0x[0-9a-f]+")
_HEAD_END: Final = b',"interaction_type":'
_ERROR: Final = b'},"error":"'  # what stands before `error` is always an object
_NEXT_KEY: Final = {
    "model_id": b',"evaluation_name":',
    "evaluation_name": b',"sample_id":',
    "sample_id": b',"sample_hash":',
    "sample_hash": _HEAD_END,
}
_BEST_FIRST: Final = ("sample_hash", "sample_id", "model_id", "evaluation_name")
"""The rarer a needle, the fewer candidates."""

_spell = msgspec.json.encode


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What a record must be like; what is None is not asked for."""

    evaluation: str | None = None
    """The `evaluation_name`."""
    model: str | None = None
    sample_id: str | None = None
    """The string, or the integer that is spelled so."""
    hash: str | None = None
    where_error: bool = False
    """Whether it must have an `error` that is not empty."""

    def wanted(self) -> dict[str, tuple[int | str, ...]]:
        """The values that each field of a key may have; all if it is not listed."""
        texts = {
            "evaluation_name": self.evaluation,
            "sample_hash": self.hash,
            "model_id": self.model,
            "sample_id": self.sample_id,
        }
        values: dict[str, tuple[int | str, ...]] = {name: (text,) for name, text in texts.items() if text is not None}
        if self.sample_id is not None and _INTEGER.fullmatch(self.sample_id):
            values["sample_id"] = (int(self.sample_id), self.sample_id)
        return values


class Ranges:
    """Where in the order wanted records can stand."""

    def __init__(self, selection: Selection, order: Sequence[str]) -> None:
        wanted = selection.wanted()
        self._order = tuple(order)
        self._allowed = [
            sorted(_comparable(value) for value in wanted[field]) if field in wanted else None for field in order
        ]
        leading = self._allowed[: len(wanted)]
        self.is_stretch = not selection.where_error and all(values and len(values) == 1 for values in leading)
        """Whether the wanted records are just those of one stretch of the corpus."""
        self.can_end = any(self._allowed[:2])
        """Whether it is worth a look, now and then, if wanted records can still follow."""

    def holds(self, part: PartEntry) -> bool:
        """Whether a part may hold a wanted record."""
        return self.meets(self._place_of_entry(part.first, lowest=True), self.end_of(part))

    def end_of(self, part: PartEntry) -> Place:
        """The last place of a part."""
        return self._place_of_entry(part.last)

    def meets(self, low: Place, high: Place) -> bool:
        """Whether a wanted record may stand between two places, or at one of them."""
        return self._meets(low, high, 0, above_low=False, below_high=False)

    def _meets(self, low: Place, high: Place, depth: int, *, above_low: bool, below_high: bool) -> bool:
        """The same for fields from `depth` on: those before it may leave the two places behind already."""
        if depth == len(self._allowed) or (above_low and below_high):
            return True
        first, last, allowed = low[depth], high[depth], self._allowed[depth]
        if allowed is None:
            if not above_low and not below_high and first == last:
                return self._meets(low, high, depth + 1, above_low=False, below_high=False)
            return above_low or below_high or first < last
        return any(
            self._meets(
                low, high, depth + 1, above_low=above_low or value > first, below_high=below_high or value < last
            )
            for value in allowed
            if (above_low or value >= first) and (below_high or value <= last)
        )

    def place_of(self, head: Head) -> Place | None:
        """The place of a record; None if its `sample_id` is too long to be compared."""
        try:
            return tuple(_comparable(msgspec.json.decode(getattr(head, field))) for field in self._order)
        except msgspec.MsgspecError:
            return None

    def _place_of_entry(self, key: KeyEntry, *, lowest: bool = False) -> Place:
        place = [_comparable(getattr(key, field)) for field in self._order]
        # Of a huge integer the manifest has hexadecimal digits, which stand behind it: too late only for a first key.
        if lowest and isinstance(key.sample_id, str) and _HEXADECIMAL.fullmatch(key.sample_id):
            place[self._order.index("sample_id")] = ()
        return tuple(place)


def _comparable(value: int | str) -> tuple[int | str, ...]:
    return (1, value) if isinstance(value, str) else (0, value)


class Head(msgspec.Struct):
    """The fields of a line that are needed here, as they are spelled in it."""

    evaluation_id: msgspec.Raw
    model_id: msgspec.Raw
    evaluation_name: msgspec.Raw
    sample_id: msgspec.Raw
    sample_hash: msgspec.Raw


class _Error(msgspec.Struct):
    error: str = ""


_decode_head = msgspec.json.Decoder(Head).decode
_decode_error = msgspec.json.Decoder(_Error).decode


class Finder:
    """Finds wanted lines in text; raises MsgspecError where a line is not one that fastrec writes."""

    def __init__(self, selection: Selection) -> None:
        self._spelled = {field: [_spelled(value) for value in values] for field, values in selection.wanted().items()}
        self._error = selection.where_error
        self._needles = [_ERROR]
        for field in _BEST_FIRST:
            if field in self._spelled:
                key, behind = _spell(field) + b":", _NEXT_KEY[field]
                self._needles = [key + value + behind for value in self._spelled[field]]
                break

    def head(self, data: bytearray, start: int) -> Head:
        """Decode the beginning of the line that starts there."""
        end = data.find(_HEAD_END, start)
        return _decode_head(data[start : max(end, start)] + b"}")

    def lines(self, data: bytearray, end: int) -> Iterator[bytes]:
        """Give the wanted ones of some whole lines, newlines included."""
        places = [find(data, needle, 0, end) for needle in self._needles]
        while (found := min((place for place in places if place >= 0), default=-1)) >= 0:
            first = data.rfind(b"\n", 0, found) + 1
            beyond = data.find(b"\n", found) + 1
            if self.wants(data, first, beyond):
                yield bytes(memoryview(data)[first:beyond])
            for number, place in enumerate(places):
                if 0 <= place < beyond:
                    places[number] = find(data, self._needles[number], beyond, end)

    def wants(self, data: bytearray, start: int, end: int) -> bool:
        """Tell whether a line is wanted."""
        head = self.head(data, start)
        if not all(bytes(getattr(head, field)) in values for field, values in self._spelled.items()):
            return False
        return not self._error or _decode_error(data[start:end]).error != ""


def _spelled(value: int | str) -> bytes:
    try:
        return str(value).encode() if isinstance(value, int) else _spell(value)
    except UnicodeEncodeError as exc:
        raise UsageError(f"{value!r} is not text that a record can hold: it is not UTF-8") from exc
