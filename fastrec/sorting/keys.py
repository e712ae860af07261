r"""Sort keys: one `bytes` object per record, so that comparing keys as bytes gives the order of the corpus.

    field            encoded as
    a string         its UTF-8, each NUL as 00 FF, then 00
    sample_id, int   01 for negative, 02 otherwise; the number of bytes; the bytes
    sample_id, str   03, then as a string

UTF-8 sorts by code point. The end mark 00 is less than any byte of a string, and a NUL within a string is followed by
FF, so a prefix sorts before longer strings. No field begins with FF, so an end mark is never taken for a NUL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

from fastrec.schemas.registry import DEFAULT_SCHEMA, Record

__all__ = ["FIELDS", "encode_text", "join_key", "key_maker", "key_splitter", "sample_id_of", "sort_order", "text_of"]

FIELDS: Final = DEFAULT_SCHEMA.sort_fields
"""The fields of a key, in the default order."""

_NEGATIVE, _NATURAL, _STRING = b"\1", b"\2", b"\3"
_LENGTH_BYTES: Final = 4
_LONGEST: Final = 2 ** (8 * _LENGTH_BYTES) - 1


def sort_order(first: Iterable[str]) -> tuple[str, ...]:
    """Return all sort fields: those given, then the others in the default order."""
    named = tuple(dict.fromkeys(first))
    return (*named, *(field for field in FIELDS if field not in named))


def key_maker(order: Sequence[str] = FIELDS) -> Callable[[Record], bytes]:
    """Return a function that makes the key of a record."""
    if tuple(order) == FIELDS:
        return _default_key
    encoders = [(field, _sample_id if field == "sample_id" else _string) for field in order]
    return lambda record: b"".join([encode(getattr(record, field)) for field, encode in encoders])


def _default_key(record: Record) -> bytes:
    """Make a key in the default order. If no string holds a NUL, one call encodes them all."""
    name, sample_hash, model = record.evaluation_name, record.sample_hash, record.model_id
    evaluation_id = record.evaluation_id
    sample_id = record.sample_id
    if sample_id.__class__ is str:
        text = f"{name}\0{sample_hash}\0{model}\0{evaluation_id}\0\3{sample_id}\0"
        if text.count("\0") == 5:
            return text.encode()
    else:
        text = f"{name}\0{sample_hash}\0{model}\0{evaluation_id}\0"
        if text.count("\0") == 4:
            return text.encode() + _integer(sample_id)  # type: ignore[arg-type]
    return b"".join(map(_string, (name, sample_hash, model, evaluation_id))) + _sample_id(sample_id)  # type: ignore[arg-type]


def _string(text: str) -> bytes:
    return text.encode().replace(b"\0", b"\0\xff") + b"\0"


def _sample_id(value: int | str) -> bytes:
    return _STRING + _string(value) if isinstance(value, str) else _integer(value)


def _integer(value: int) -> bytes:
    length = (value.bit_length() + 7) // 8
    if value >= 0:
        return _NATURAL + length.to_bytes(_LENGTH_BYTES, "big") + value.to_bytes(length, "big")
    # A negative number with more bytes is smaller, and so is one with a smaller complement.
    complement = value + (1 << 8 * length)
    return _NEGATIVE + (_LONGEST - length).to_bytes(_LENGTH_BYTES, "big") + complement.to_bytes(length, "big")


def key_splitter(order: Sequence[str] = FIELDS) -> Callable[[bytes], Sequence[bytes]]:
    """Return a function that splits a key into its encoded fields, in the default order."""
    if tuple(order) == FIELDS:
        return _split_default
    in_default_order = itemgetter(*(tuple(order).index(field) for field in FIELDS))
    return lambda key: in_default_order(_split(key, order))


def _split_default(key: bytes) -> Sequence[bytes]:
    # 00 FF is a NUL within a string or, rarely, part of an integer: both need the slow split.
    return _split(key, FIELDS) if b"\0\xff" in key else key.split(b"\0", 4)


def _split(key: bytes, order: Sequence[str]) -> list[bytes]:
    fields, position = [], 0
    for field in order:
        if field == "sample_id" and key[position : position + 1] != _STRING:
            head = int.from_bytes(key[position + 1 : position + 1 + _LENGTH_BYTES], "big")
            length = head if key[position : position + 1] == _NATURAL else _LONGEST - head
            end = position + 1 + _LENGTH_BYTES + length
            fields.append(key[position:end])
            position = end
            continue
        end = key.index(b"\0", position)
        while key[end + 1 : end + 2] == b"\xff":
            end = key.index(b"\0", end + 2)
        # A sample_id keeps its end mark, as in the default split.
        fields.append(key[position : end + (field == "sample_id")])
        position = end + 1
    return fields


def join_key(fields: Sequence[bytes], order: Sequence[str] = FIELDS) -> bytes:
    """Make a key from encoded fields in the default order."""
    by_name = dict(zip(FIELDS, fields, strict=True))
    return b"".join([by_name[field] + (b"" if field == "sample_id" else b"\0") for field in order])


def encode_text(text: str) -> bytes:
    """Encode a string as a field of a key; `text_of` decodes it."""
    return _string(text)[:-1]


def text_of(field: bytes) -> str:
    """Decode a string field of a key."""
    return field.replace(b"\0\xff", b"\0").decode()


def sample_id_of(field: bytes) -> int | str:
    """Decode the `sample_id` field of a key."""
    if field[:1] == _STRING:
        return text_of(field[1:-1])
    body = field[1 + _LENGTH_BYTES :]
    value = int.from_bytes(body, "big")
    return value if field[:1] == _NATURAL else value - (1 << 8 * len(body))
