r"""The head of a line: the fields that a record is sorted by, read without decoding the rest of the line.

A line in normal form begins with fields that are always in this order, and never hold an object:

    {"schema_version":…,"evaluation_id":…,"model_id":…,"evaluation_name":…,"sample_id":…,"sample_hash":…,"interaction_…
     \______________________________________________ head _____________________________________________/
                                        \______________________ key ___________________________________/

All of them are always present, but for the metric (`evaluation_result_id`), which later versions have after
`evaluation_name`. Quotes inside a string are escaped, so the first `,"interaction_type":` of a line ends its head. The
*key* is the head without the run (`evaluation_id`), as it is spelled in the line: equal bytes are equal fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.corpus.manifest import KeyEntry
from fastrec.judge.parse import parse
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.sorting.keys import METRIC

__all__ = ["LineHead", "Position", "PositionOf", "decode_sample_id", "field_bytes", "key_mark", "key_of"]
__all__ += ["position_maker", "read_head"]

Position = tuple[Any, ...]
"""Where a record belongs in the sort order: the values of some sort fields, which compare as records are sorted."""


class LineHead(msgspec.Struct, gc=False):
    """The fields that records are sorted by."""

    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: Raw
    """As it is spelled: equal ids are spelled alike, and an integer may have more digits than msgspec decodes."""
    sample_hash: str
    evaluation_result_id: str | UnsetType = UNSET

    def decoded_sample_id(self) -> int | str:
        """Decode the `sample_id`."""
        return decode_sample_id(self.sample_id)


PositionOf = Callable[[LineHead | KeyEntry], Position]

_decode_head = msgspec.json.Decoder(LineHead).decode
_decode_sample_id = msgspec.json.Decoder(int | str).decode


def decode_sample_id(spelled: Raw | bytes) -> int | str:
    """Decode a `sample_id`, as it is spelled in a line."""
    try:
        value: int | str = _decode_sample_id(spelled)
    except msgspec.MsgspecError:  # more digits than msgspec decodes
        value = parse(bytes(spelled))[0]
    return value


def key_mark(field: str) -> bytes:
    """Return the bytes that separate a field from the one before it."""
    return f',"{field}":'.encode()


_KEY_START: Final = key_mark("model_id")
_HEAD_END: Final = key_mark(DEFAULT_SCHEMA.head_fields[-1])


def read_head(data: bytes | bytearray, start: int = 0) -> LineHead:
    """Decode the head of the line that begins at `start`; MsgspecError if it is not a line in normal form."""
    end = data.find(_HEAD_END, start)
    return _decode_head(data[start : max(start, end)] + b"}")


def key_of(data: bytes | bytearray, start: int = 0) -> bytes:
    """Return the key of the line that begins at `start`; nothing is decoded."""
    begin = data.find(_KEY_START, start)
    return bytes(data[begin : data.find(_HEAD_END, begin)])


def field_bytes(field: str, spelled: bytes) -> bytes:
    """Return what a line with this value in a field of its head contains: the field, and the start of the next one.

    Inside a string the quotes would be escaped, so these bytes rarely occur elsewhere in a line.
    """
    return key_mark(field)[1:] + spelled + b',"'


def position_maker(fields: Sequence[str]) -> PositionOf:
    """Return the function from a head, or from a key of the manifest, to its position by some sort fields."""
    if len(fields) > 1 and _POSITIONS.keys().isdisjoint(fields):
        return attrgetter(*fields)
    values: list[Callable[[Any], Any]] = [_POSITIONS.get(field) or attrgetter(field) for field in fields]
    return lambda head: tuple([value(head) for value in values])


def _sample_position(head: LineHead | KeyEntry) -> tuple[bool, int | str]:
    """Sort integers by value and before strings."""
    value = head.decoded_sample_id() if isinstance(head, LineHead) else head.sample_id
    return isinstance(value, str), value


def _metric_position(head: LineHead | KeyEntry) -> tuple[bool, str]:
    """Sort records without a metric before others."""
    value = head.evaluation_result_id
    return (True, value) if isinstance(value, str) else (False, "")


_POSITIONS: Final[dict[str, Callable[[Any], Any]]] = {"sample_id": _sample_position, METRIC: _metric_position}
