"""Decoding lines of a corpus for Parquet: a Struct for the columns, and what has no column.

A corpus has valid records in normal form, so nothing is validated again. Free-form objects are not decoded: their
column gets their text. Most lines have only known keys. A line with unknown keys is decoded twice, once for its columns
and once for its unknown keys, which go to `extra` under their paths:

    {…,"evaluation":{…,"judge":"gpt"},"run":3}   ──▶   extra: {"$.evaluation.judge":"gpt","$.run":3}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from fastrec.judge.arbiter import judge_slowly
from fastrec.judge.findings import Errors, json_path
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import Shape, build
from fastrec.schemas.structs import rewrite_hint

__all__ = ["DecodedRecord", "Decoder"]


class DecodedRecord(NamedTuple):
    """A record, decoded for Parquet."""

    record: Any
    """Has the fields of a record; free-form objects are `Raw`, or dicts after the slow path."""
    extra: dict[str, Any]
    """Values that no column holds, by path."""


class Decoder:
    """Decodes lines; raises MsgspecError or UnicodeDecodeError for a line that is not a record in normal form."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        record = schema.record
        self._strict = msgspec.json.Decoder(_raw_struct(record, forbid=True)).decode
        self._tolerant = msgspec.json.Decoder(_raw_struct(record, forbid=False)).decode
        self._plain = msgspec.json.Decoder().decode
        self._refused = False

    def decode(self, line: bytes) -> DecodedRecord:
        """Decode one line."""
        if not self._refused:  # after a line with unknown keys the next one probably has some too
            try:
                return DecodedRecord(self._strict(line), {})
            except msgspec.ValidationError:
                pass
        try:
            row = DecodedRecord(self._tolerant(line), dict(_unknown(self._plain(line), self._schema.shape, ())))
        except msgspec.ValidationError:
            judged = judge_slowly(line, self._schema)  # if valid, it has an integer of more than 4,300 digits
            if isinstance(judged, Errors):
                raise
            value, _ = judged
            row = DecodedRecord(build(self._schema.record, value), dict(_unknown(value, self._schema.shape, ())))
        self._refused = bool(row.extra)
        return row


def _unknown(value: dict[str, Any], shape: Shape, steps: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the unknown keys of all objects that have a schema, in the order of the text."""
    for key, child in value.items():
        field = shape.fields.get(key)
        if field is None:
            yield json_path((*steps, key), whole=True), child
        elif field.shape is not None and isinstance(child, list):
            for index, item in enumerate(child):
                yield from _unknown(item, field.shape, (*steps, key, index))
        elif field.shape is not None:
            yield from _unknown(child, field.shape, (*steps, key))


def _raw_struct(struct: type[msgspec.Struct], *, forbid: bool) -> type[msgspec.Struct]:
    """Copy a Struct of records, with `Raw` for free-form objects."""

    def replace(hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return _raw_struct(hint, forbid=forbid)
        if get_origin(hint) is dict:
            return msgspec.Raw
        # msgspec takes `Raw | None` for null alone. The normal form has no null in such a field.
        kinds = get_args(hint)
        nullable = type(None) in kinds and any(get_origin(kind) is dict for kind in kinds)
        return msgspec.Raw | msgspec.UnsetType if nullable else hint

    hints = get_type_hints(struct, include_extras=True)
    fields = [
        (field.name, rewrite_hint(hints[field.name], replace), *(() if field.required else (field.default,)))
        for field in msgspec.structs.fields(struct)
    ]
    return msgspec.defstruct(struct.__name__, fields, kw_only=True, gc=False, forbid_unknown_fields=forbid)
