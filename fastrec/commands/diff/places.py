r"""Where a record stands in the order of its corpus, and by what it finds its partner in another.

    order    evaluation_name · sample_hash · model_id · evaluation_id · sample_id · the record's bytes
    by       evaluation_name · sample_hash · model_id ·                 sample_id
             \___________ place ____________/                 \_ rest _/

The fields that lead the order and are compared by are a record's *place*. Both corpora are sorted by it, so they are
merged place by place; a place holds the records of one sample of one model, a handful, which are then told apart by
the rest. In a line in normal form those fields come first, so that a short stretch of it is all that has to be decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Raw

from fastrec.commands.diff.document import RecordName, json_safe
from fastrec.errors import UsageError
from fastrec.judge.parse import parse
from fastrec.sorting.keys import FIELDS

__all__ = [
    "BY",
    "Head",
    "Place",
    "check_by",
    "cut_fields",
    "evaluation_in",
    "model_in",
    "name_of",
    "place_fields",
    "place_maker",
    "read_head",
    "read_key",
]

BY: Final = ("evaluation_name", "sample_hash", "model_id", "sample_id")
"""What records are compared by unless told otherwise: all of the sort key but the run, which is another every night."""

_MODEL: Final = b',"model_id":"'
_NAME: Final = b',"evaluation_name":"'
_SAMPLE: Final = b',"sample_id":'
_END: Final = b',"interaction_type":"'

Place = tuple[Any, ...]


class Head(msgspec.Struct, gc=False):
    """The fields by which records are sorted."""

    evaluation_id: str
    model_id: str
    evaluation_name: str
    sample_id: Raw
    """As it is spelled: equal ids are spelled the same, and one may have more digits than Python cares to read."""
    sample_hash: str


_decode_head = msgspec.json.Decoder(Head).decode
_decode_sample_id = msgspec.json.Decoder(int | str).decode


def read_head(data: bytes | bytearray, start: int) -> Head:
    """Read the head of the line that starts there; msgspec raises a MsgspecError if there is none."""
    return _decode_head(data[start : data.find(_END, start)] + b"}")


def read_key(data: bytes | bytearray, start: int) -> bytes:
    """Return all of a head but the run, as it is spelled: equal bytes are equal fields, and nothing is decoded."""
    begin = data.find(_MODEL, start)
    return bytes(data[begin : data.find(_END, begin)])


def model_in(key: bytes) -> bytes:
    """Return the beginning of a key up to the end of `model_id`."""
    return key[: key.find(_NAME) + len(_NAME)]


def evaluation_in(key: bytes) -> bytes:
    """Return the beginning of a key up to the end of `evaluation_name`."""
    return key[: key.find(_SAMPLE)]


def check_by(by: Sequence[str]) -> tuple[str, ...]:
    """Check what records are to be compared by, and give it in the default order of the fields."""
    for field in by:
        if field not in FIELDS:
            raise UsageError(f"records cannot be compared by {field!r}; the fields are {', '.join(FIELDS)}")
    if not {"evaluation_name", "model_id"} <= set(by) or not {"sample_hash", "sample_id"} & set(by):
        raise UsageError(
            "records must be compared by evaluation_name, model_id and at least one of sample_hash and sample_id, not "
            f"by {', '.join(by) or 'nothing'}"
        )
    return tuple(field for field in FIELDS if field in by)


def place_fields(order: Sequence[str], by: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a place: those that lead the order and are compared by."""
    count = next((number for number, field in enumerate(order) if field not in by), len(order))
    return tuple(order[:count])


def cut_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a place at which a corpus may be cut: those before `sample_id`, which has two kinds."""
    return tuple(fields[: fields.index("sample_id")] if "sample_id" in fields else fields)


def place_maker(fields: Sequence[str]) -> Callable[[Head], Place]:
    """Return the function from a head to its place, which compares as records are sorted."""
    if "sample_id" not in fields:
        return attrgetter(*fields)
    return lambda head: tuple(
        [_sample_place(head.sample_id) if field == "sample_id" else getattr(head, field) for field in fields]
    )


def _sample_place(raw: Raw) -> tuple[bool, int | str]:
    """Integers by value, before strings."""
    value = _sample_id(raw)
    return isinstance(value, str), value


def _sample_id(raw: Raw) -> int | str:
    value: int | str
    try:
        value = _decode_sample_id(raw)
    except msgspec.MsgspecError:  # more digits than msgspec reads
        value = parse(bytes(raw))[0]
    return value


def name_of(line: bytes) -> RecordName:
    """Name a record."""
    head = read_head(line, 0)
    return RecordName(
        evaluation_name=head.evaluation_name,
        model_id=head.model_id,
        sample_id=json_safe(_sample_id(head.sample_id)),
        sample_hash=head.sample_hash,
        evaluation_id=head.evaluation_id,
    )
