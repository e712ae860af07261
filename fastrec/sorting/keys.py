r"""Sort keys: one `bytes` object per record, so that comparing keys as bytes gives the order of the corpus.

    field            encoded as
    a string         its UTF-8, each NUL as 00 FF, then 00
    sample_id, int   01 for negative, 02 otherwise; the number of bytes; the bytes
    sample_id, str   03, then as a string
    a metric         if there is none, 00; else 01, then as a string

UTF-8 sorts by code point. The end mark 00 is less than any byte of a string, and a NUL within a string is followed by
FF, so a prefix sorts before longer strings. No field begins with FF, so an end mark is never taken for a NUL.

Keys of versions with metrics (`evaluation_result_id`) have that field, too. An evaluation and one of its metrics are a
*scope*, which statistics are about: without a metric it is the evaluation_name, else that, 00, and the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from msgspec import UNSET, UnsetType

from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA

FIELDS: Final = DEFAULT_SCHEMA.sort_fields
"""The fields of a key without metrics, in the default order."""

METRIC_FIELDS: Final = NEWEST_SCHEMA.sort_fields
"""The fields of a key with metrics, in the default order."""

METRIC: Final = METRIC_FIELDS[-1]

_HAS_METRIC: Final = b"\1"
_NEGATIVE, _NATURAL, _STRING = b"\1", b"\2", b"\3"
_LENGTH_BYTES: Final = 4
_LONGEST: Final = 2 ** (8 * _LENGTH_BYTES) - 1


def sort_order(first: Iterable[str], fields: Sequence[str] = FIELDS) -> tuple[str, ...]:
    """The fields given, then all others in the default order."""
    named = tuple(dict.fromkeys(first))
    return (*named, *(field for field in fields if field not in named))


def key_maker(order: Sequence[str] = FIELDS) -> Callable[[Any], bytes]:
    if tuple(order) in _FAST:
        return _FAST[tuple(order)]
    encoders = [(field, _ENCODERS.get(field, _string)) for field in order]
    return lambda record: b"".join([encode(getattr(record, field)) for field, encode in encoders])


def _key(record: Any) -> bytes:
    """If no string holds a NUL, one call encodes them all."""
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
            return text.encode() + _integer(sample_id)
    return b"".join(map(_string, (name, sample_hash, model, evaluation_id))) + encode_sample_id(sample_id)


def _key_with_metric(record: Any) -> bytes:
    """All ids are strings."""
    metric = record.evaluation_result_id
    text = (
        f"{record.evaluation_name}\0{record.sample_hash}\0{record.model_id}\0{record.evaluation_id}\0\3"
        f"{record.sample_id}\0"
    )
    text += "\0" if metric is UNSET else f"\1{metric}\0"
    return text.encode() if text.count("\0") == 6 else _key(record) + _metric(metric)


_FAST: Final = {FIELDS: _key, METRIC_FIELDS: _key_with_metric}


def _string(text: str) -> bytes:
    return text.encode().replace(b"\0", b"\0\xff") + b"\0"


def encode_sample_id(value: int | str) -> bytes:
    return _STRING + _string(value) if isinstance(value, str) else _integer(value)


def _metric(value: str | UnsetType) -> bytes:
    return b"\0" if isinstance(value, UnsetType) else _HAS_METRIC + _string(value)


_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {"sample_id": encode_sample_id, METRIC: _metric}


def _integer(value: int) -> bytes:
    length = (value.bit_length() + 7) // 8
    if value >= 0:
        return _NATURAL + length.to_bytes(_LENGTH_BYTES, "big") + value.to_bytes(length, "big")
    # A negative number with more bytes is smaller, and so is one with a smaller complement.
    complement = value + (1 << 8 * length)
    return _NEGATIVE + (_LONGEST - length).to_bytes(_LENGTH_BYTES, "big") + complement.to_bytes(length, "big")


def key_splitter(order: Sequence[str] = FIELDS) -> Callable[[bytes], Sequence[bytes]]:
    """Make a function that splits a key into five encoded fields, in the default order; the first is the scope."""
    if tuple(order) == FIELDS:
        return _split_default
    if tuple(order) == METRIC_FIELDS:
        return _split_with_metric
    in_default_order = itemgetter(*(tuple(order).index(field) for field in FIELDS))
    if METRIC not in order:
        return lambda key: in_default_order(_split(key, order))
    position = tuple(order).index(METRIC)

    def split(key: bytes) -> Sequence[bytes]:
        fields = _split(key, order)
        name, *others = in_default_order(fields)
        return [_joined(name, fields[position]), *others]

    return split


def _split_default(key: bytes) -> Sequence[bytes]:
    # 00 FF is a NUL within a string or, rarely, part of an integer: both need the slow split.
    return _split(key, FIELDS) if b"\0\xff" in key else key.split(b"\0", 4)


def _split_with_metric(key: bytes) -> Sequence[bytes]:
    if b"\0\xff" in key:
        name, sample_hash, model, evaluation_id, sample_id, metric = _split(key, METRIC_FIELDS)
    else:
        name, sample_hash, model, evaluation_id, sample_id, metric, _ = key.split(b"\0")
        sample_id += b"\0"
    return _joined(name, metric), sample_hash, model, evaluation_id, sample_id


def _joined(name: bytes, metric: bytes) -> bytes:
    return name + b"\0" + metric if metric else name


def _split(key: bytes, order: Sequence[str]) -> list[bytes]:
    fields, position = [], 0
    for field in order:
        end = field_end(key, position, field)
        # A sample_id keeps its end mark, as in the default split.
        fields.append(key[position : end - (field != "sample_id")])
        position = end
    return fields


def field_end(key: bytes, position: int, field: str) -> int:
    """Where a field of a key that begins at `position` ends, including its end mark."""
    if field == "sample_id" and key[position : position + 1] != _STRING:
        body = position + 1 + _LENGTH_BYTES
        head = int.from_bytes(key[position + 1 : body], "big")
        return body + (head if key[position : position + 1] == _NATURAL else _LONGEST - head)
    end = key.index(b"\0", position)
    while key[end + 1 : end + 2] == b"\xff":
        end = key.index(b"\0", end + 2)
    return end + 1


def join_key(fields: Sequence[bytes], order: Sequence[str] = FIELDS) -> bytes:
    """Make a key from five encoded fields in the default order, the first of which is the scope."""
    by_name = dict(zip(FIELDS, fields, strict=True))
    if METRIC in order:
        by_name["evaluation_name"], _, metric = fields[0].partition(b"\0" + _HAS_METRIC)
        by_name[METRIC] = fields[0][len(by_name["evaluation_name"]) + 1 :] and _HAS_METRIC + metric
    return b"".join([by_name[field] + (b"" if field == "sample_id" else b"\0") for field in order])


def scope_of(evaluation: str, metric: str | None) -> bytes:
    """Encode an evaluation and a metric; `split_scope` decodes them.

    >>> split_scope(scope_of("gsm8k", "exact_match"))
    ('gsm8k', 'exact_match')
    """
    return _joined(encode_text(evaluation), b"" if metric is None else _HAS_METRIC + encode_text(metric))


def split_scope(scope: bytes) -> tuple[str, str | None]:
    name, mark, metric = scope.partition(b"\0" + _HAS_METRIC)  # a NUL within a string is followed by FF
    return text_of(name), text_of(metric) if mark else None


def question_of(fields: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The evaluation and the sample_hash of a record, given the fields that a splitter returned."""
    return fields[0].partition(b"\0" + _HAS_METRIC)[0], fields[1]


def is_split(records: Iterable[tuple[Hashable, bytes]]) -> bool:
    """Whether the records of a scope and a sample_hash, given as run and sample_id, are of several questions.

    A run is an evaluation_id of a model. If one run has several samples with this hash, each sample_id is a question.
    Otherwise all records are of one question.

    >>> is_split([("run 1", b"a"), ("run 2", b"b"), ("run 2", b"b")]), is_split([("run 1", b"a"), ("run 1", b"b")])
    (False, True)
    """
    samples = set(records)
    return len({run for run, _ in samples}) < len(samples)


def encode_text(text: str) -> bytes:
    return _string(text)[:-1]


def text_of(field: bytes) -> str:
    return field.replace(b"\0\xff", b"\0").decode()


def sample_id_of(field: bytes) -> int | str:
    if field[:1] == _STRING:
        return text_of(field[1:-1])
    body = field[1 + _LENGTH_BYTES :]
    value = int.from_bytes(body, "big")
    return value if field[:1] == _NATURAL else value - (1 << 8 * len(body))
