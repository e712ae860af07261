"""Invalid lines: one row for every reason why a line can be rejected; and valid ones with warnings.

A change of `data/invalid.toml` turns a valid record into a line with exactly one error. Errors that
no JSON encoder writes use a placeholder: a string that is replaced after encoding.
`line.too_long` and `hash.mismatch` are missing, because they depend on the options of the reader.
`INVALID_LINES` are for the oldest schema version, `MISTAKES` for later ones: what known producers
get wrong, and contradictions.
"""

import json
from itertools import groupby
from typing import Any

from msgspec import Struct, convert

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.records import Answer, arranged
from fastrec.commands.generate.text import in_turn, table
from fastrec.schemas.schema import MANY, ONE, Schema

_PLACEHOLDER = "@@hole@@"
_HOLE = b'"@@hole@@"'  # as it is written
_DEEP = 300


class Change(Struct, frozen=True):
    """A change of a record, as `data/invalid.toml` describes it."""

    code: str
    value: str
    path: str = ""
    types: tuple[str, ...] = ONE + MANY
    versions: str = ""

    def fits(self, schema: Schema) -> bool:
        """Whether the change makes an invalid record of a version; the oldest has its own table."""
        return self.versions in ("", "any", *schema.shape.fields)

    def line(self, answer: Answer) -> bytes:
        """Change the record of an answer, and write it."""
        record = answer.written()
        schema = answer.author.schema
        if self.versions:
            record = _with_nulls(record, schema)
        if self.path:
            self.apply(record, schema)
        line = answer.author.spelling.line(record)
        if self.value[0] != "=":
            return line
        raw = _raw(self.value[1:], line)
        return line.replace(_HOLE, raw) if self.path else raw

    def apply(self, record: Record, schema: Schema) -> None:
        _change(record, self.path.format(turns=schema.turns_field), self.value)


def _raw(text: str, line: bytes) -> bytes:
    """The bytes that a text with escapes describes, which may have parts of the line."""
    template = text.encode().decode("unicode_escape").encode("latin-1")
    return template % {
        b"line": line,
        b"most": line[:-1],
        b"third": line[: len(line) // 3].decode(errors="ignore").encode(),  # of characters
        b"lists": b"[" * _DEEP + b"]" * _DEEP,
        b"objects": b'{"a": ' * _DEEP + b"null" + b"}" * _DEEP,
    }


def _change(owner: Any, path: str, value: str) -> None:
    key, _, rest = path.partition(".")
    if key == "*":
        for item in owner:
            _change(item, rest, value)
    elif key.isdigit():
        _change(owner[int(key)], rest, value)
    elif rest:
        owner[key] = owner.get(key) or {}  # a missing object is made
        _change(owner[key], rest, value)
    elif value == "...":
        owner.pop(key, None)
    elif value[0] == "+":
        owner[key] += int(value)
    elif value[0] == "@":
        owner[key] = owner[value[1:]]
    else:
        owner[key] = _PLACEHOLDER if value[0] == "=" else json.loads(value)


def _with_nulls(record: Record, schema: Schema) -> Record:
    """Add nulls that only the record's own version allows: a mistake may be valid in another."""
    if schema.closed:
        record = arranged(record, schema, nulls=True)
        record["input"]["formatted"] = None
    else:
        record.setdefault(schema.turns_field, None)
    return record


def _changes(name: str) -> list[Change]:
    return convert(table("invalid")[name], list[Change])


_BY_CODE = groupby(_changes("oldest"), lambda change: change.code)
INVALID_LINES = in_turn([list(group) for _, group in _BY_CODE])
REPAIRABLE = _changes("repairable")  # what `--repair all` fixes
MISTAKES = REPAIRABLE + _changes("contradictions")
WARNINGS = _changes("warnings")
