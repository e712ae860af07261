r"""Sort keys: one `bytes` object per record; their order is that of the corpus.

    field            encoded as
    a string         its UTF-8, each NUL as 00 FF, then 00
    sample_id, int   01 for negative, 02 otherwise; the number of bytes; the bytes
    sample_id, str   03, then as a string
    a metric         if there is none, 00; else 01, then as a string

UTF-8 sorts by code point. The end mark 00 is less than any byte of a string, and a NUL within a
string is followed by FF, so a prefix sorts before longer strings. No field begins with FF, so an
end mark is never taken for a NUL.

Keys of versions with metrics (`evaluation_result_id`) have that field, too. An evaluation and one
of its metrics are a *scope*, which statistics are about: without a metric it is the
evaluation_name, else that, 00, and the metric.

Statistics are grouped by the fields of many keys, as columns: joined keys are split at all NULs at
once, which takes less time than splitting each key.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise
from operator import ne
from typing import Any, Self

from msgspec import UNSET, Struct, UnsetType

from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA

# The fields of a key without metrics, in the default order.
FIELDS = DEFAULT_SCHEMA.sort_fields

# The fields of a key with metrics, in the default order.
METRIC_FIELDS = NEWEST_SCHEMA.sort_fields

METRIC = METRIC_FIELDS[-1]

# A prefix followed by this is greater than all keys with the prefix, and not greater than any key
# after those.
END = b"\xff"

_HAS_METRIC = b"\1"
_NEGATIVE = b"\1"
_NATURAL = b"\2"
_STRING = b"\3"
_LENGTH_BYTES = 4
_LONGEST: int = 2 ** (8 * _LENGTH_BYTES) - 1


def sort_order(first: Iterable[str], fields: Sequence[str] = FIELDS) -> tuple[str, ...]:
    """The fields given, then all others in the default order."""
    named = tuple(dict.fromkeys(first))
    return (*named, *(field for field in fields if field not in named))


def key_maker(order: Sequence[str] = FIELDS) -> Callable[[Any], bytes]:
    if fast := _FAST.get(tuple(order)):
        return fast
    encoders = [(field, field_encoder(field)) for field in order]
    return lambda record: b"".join([encode(getattr(record, field)) for field, encode in encoders])


def _key(record: Any) -> bytes:
    """If no string holds a NUL, one call encodes them all."""
    name = record.evaluation_name
    sample_hash = record.sample_hash
    model = record.model_id
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
    return b"".join(map(_string, (name, sample_hash, model, evaluation_id))) + encode_sample_id(
        sample_id
    )


def _key_with_metric(record: Any) -> bytes:
    """All ids are strings."""
    metric = record.evaluation_result_id
    text = (
        f"{record.evaluation_name}\0{record.sample_hash}\0{record.model_id}\0{record.evaluation_id}\0\3"
        f"{record.sample_id}\0"
    )
    text += "\0" if metric is UNSET else f"\1{metric}\0"
    return text.encode() if text.count("\0") == 6 else _key(record) + _metric(metric)


_FAST = {FIELDS: _key, METRIC_FIELDS: _key_with_metric}


def _string(text: str) -> bytes:
    return text.encode().replace(b"\0", b"\0\xff") + b"\0"


def encode_sample_id(value: int | str) -> bytes:
    return _STRING + _string(value) if isinstance(value, str) else _integer(value)


def _metric(value: str | UnsetType) -> bytes:
    return b"\0" if isinstance(value, UnsetType) else _HAS_METRIC + _string(value)


_ENCODERS = {
    "sample_id": encode_sample_id,
    METRIC: _metric,
}


def field_encoder(field: str) -> Callable[[Any], bytes]:
    """The function from a value of a field to what a key has of it; UNSET is no metric."""
    return _ENCODERS.get(field, _string)


def _integer(value: int) -> bytes:
    length = (value.bit_length() + 7) // 8
    if value >= 0:
        return _NATURAL + length.to_bytes(_LENGTH_BYTES, "big") + value.to_bytes(length, "big")
    # A negative number with more bytes is smaller, and so is one with a smaller complement.
    complement = value + (1 << 8 * length)
    return (
        _NEGATIVE
        + (_LONGEST - length).to_bytes(_LENGTH_BYTES, "big")
        + complement.to_bytes(length, "big")
    )


def key_splitter(order: Sequence[str] = FIELDS) -> Callable[[bytes], Sequence[bytes]]:
    """Make a function that splits a key into five encoded fields, in the default order.

    The first is the scope.
    """
    if fast := _FAST_SPLITTERS.get(tuple(order)):
        return fast

    def split(key: bytes) -> Sequence[bytes]:
        fields = dict(zip(order, _split(key, order), strict=True))
        scope = _joined(fields["evaluation_name"], fields.get(METRIC, b""))
        return [scope, *(fields[field] for field in FIELDS[1:])]

    return split


def _split_default(key: bytes) -> Sequence[bytes]:
    # 00 FF is a NUL within a string or, rarely, part of an integer: both need the slow split.
    return _split(key, FIELDS) if b"\0\xff" in key else key.split(b"\0", 4)


def _split_with_metric(key: bytes) -> Sequence[bytes]:
    if b"\0\xff" in key:
        name, *others, metric = _split(key, METRIC_FIELDS)
        return _joined(name, metric), *others
    name, sample_hash, model, evaluation_id, sample_id, metric, _ = key.split(b"\0")
    return _joined(name, metric), sample_hash, model, evaluation_id, sample_id + b"\0"


_FAST_SPLITTERS = {FIELDS: _split_default, METRIC_FIELDS: _split_with_metric}


def _joined(name: bytes, metric: bytes) -> bytes:
    return name + b"\0" + metric if metric else name


def _split(key: bytes, order: Sequence[str]) -> list[bytes]:
    fields = []
    position = 0
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
    return _joined(
        encode_text(evaluation), b"" if metric is None else _HAS_METRIC + encode_text(metric)
    )


def split_scope(scope: bytes) -> tuple[str, str | None]:
    # a NUL within a string is followed by FF
    name, mark, metric = scope.partition(b"\0" + _HAS_METRIC)
    return text_of(name), text_of(metric) if mark else None


def is_split(records: Iterable[tuple[Hashable, bytes]]) -> bool:
    """Whether the records of a scope and a sample_hash are of several questions.

    Each record is given as its run and its sample_id.

    A run is an evaluation_id of a model. If one run has several samples with this hash, each
    sample_id is a question. Otherwise all records are of one question.

    >>> is_split([("run 1", b"a"), ("run 2", b"b"), ("run 2", b"b")])
    False
    >>> is_split([("run 1", b"a"), ("run 1", b"b")])
    True
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


# The fields of many keys, as columns

_MANY = 1_000  # keys of one question


class KeyColumns(Struct):
    """The encoded fields of several keys, as `key_splitter` returns them."""

    scopes: list[bytes] = []
    hashes: list[bytes] = []
    models: list[bytes] = []
    evaluation_ids: list[bytes] = []
    sample_ids: list[bytes] = []
    # Where each group ends: keys in a row with the same scope, sample_hash and sample_id.
    ends: list[int] = []

    @classmethod
    def of(cls, fields: Iterable[Sequence[bytes]]) -> Self:
        columns = list(map(list, zip(*fields, strict=True)))
        return cls.grouped(columns) if columns else cls()

    @classmethod
    def grouped(cls, columns: list[list[bytes]]) -> Self:
        """Find the groups of keys, given all columns but `ends`."""
        scopes, hashes, models, evaluation_ids, sample_ids = columns
        groups = list(zip(hashes, sample_ids, scopes, strict=True))
        ends = compress(range(1, len(groups)), map(ne, groups, islice(groups, 1, None)))
        return cls(scopes, hashes, models, evaluation_ids, sample_ids, [*ends, len(groups)])

    def __len__(self) -> int:
        return len(self.scopes)

    def __iadd__(self, other: Self) -> Self:
        before = len(self.scopes)
        self.ends += [before + end for end in other.ends]
        for name in self.__struct_fields__[:-1]:
            getattr(self, name).extend(getattr(other, name))
        return self

    def groups(self) -> Iterator[tuple[int, int]]:
        return pairwise([0, *self.ends])


def column_splitter(order: Sequence[str] = FIELDS) -> Callable[[Sequence[bytes]], KeyColumns]:
    split = key_splitter(order)
    width = len(order)
    if tuple(order) not in _FAST:
        return lambda keys: KeyColumns.of(map(split, keys))

    def split_all(keys: Sequence[bytes]) -> KeyColumns:
        """Split keys at all NULs at once, if these are end marks; else one by one."""
        joined = b"".join(keys)
        fields = joined.split(b"\0")
        sample_ids = fields[4::width]
        # All but integers and escaped NULs: up to the first key with one of those, every field is
        # where it should be.
        least = min(sample_ids, default=b"")
        if b"\0\xff" in joined or len(fields) != width * len(keys) + 1 or least < b"\3":
            return KeyColumns.of(map(split, keys))
        scopes, hashes, models, evaluation_ids = (fields[at:-1:width] for at in range(4))
        if width > len(FIELDS):
            scopes = list(map(_joined, scopes, fields[5::width]))
        columns = [scopes, hashes, models, evaluation_ids, [id_ + b"\0" for id_ in sample_ids]]
        # of one question: the same values need memory only once
        if len(keys) > _MANY and hashes[0] == hashes[-1]:
            known: dict[bytes, bytes] = {}
            columns = [[known.setdefault(value, value) for value in column] for column in columns]
        return KeyColumns.grouped(columns)

    return split_all
