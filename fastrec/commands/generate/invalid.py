"""Invalid lines: one row for every reason why a line can be rejected; and valid ones with warnings.

A row of `data/invalid.toml` turns a valid record into a line with exactly one error. Errors that
no JSON encoder writes use a placeholder: a string that is replaced after encoding.
`line.too_long` and `hash.mismatch` are missing, because they depend on the options of the reader.
`INVALID_LINES` are for the oldest schema version, `MISTAKES` for later ones: what known producers
get wrong, and contradictions.
"""

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.records import Answer, arranged
from fastrec.commands.generate.text import in_turn, rows_of, table
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import MANY, ONE, Schema

_PLACEHOLDER = "@@hole@@"
_HOLE = b'"@@hole@@"'  # as it is written
_DEEP = 300
_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    # Between characters.
    "@cut": lambda line: line[: len(line) // 3].decode(errors="ignore").encode(),
    "@twice": lambda line: line + b" " + line,
    "@comma": lambda line: line[:-1] + b",}",
    "@open": lambda line: line[:-1],
    "@list": lambda line: line.replace(_HOLE, b"[" * _DEEP + b"]" * _DEEP),
    "@object": lambda line: line.replace(_HOLE, b'{"a": ' * _DEEP + b"null" + b"}" * _DEEP),
    "@turns": bytes,  # the record has other turns, too
}


class Change(NamedTuple):
    """A change of a record, as a row of the table describes it."""

    code: str
    path: str
    types: Sequence[str]
    versions: str
    value: str

    def fits(self, schema: Schema) -> bool:
        """Whether the change makes an invalid record of a version; the oldest has its own table."""
        has_metrics = "evaluation_result_id" in schema.shape.fields
        fitting = {"open": not schema.closed, "closed": schema.closed, "metrics": has_metrics}
        return fitting.get(self.versions, True)

    def line(self, answer: Answer) -> bytes:
        """Change the record of an answer, and write it."""
        record = answer.written()
        schema = answer.schema
        if self.versions:
            record = _with_nulls(record, schema)
        if self.value == "@turns":
            record[DEFAULT_SCHEMA.turns_field] = record[schema.turns_field]
        if self.path:
            self.apply(record, schema)
        line = answer.author.spelling.line(record)
        if self.value in _CHANGES:
            return _CHANGES[self.value](line)
        raw = self.value[1:].encode().decode("unicode_escape").encode("latin-1")
        return line.replace(_HOLE, raw) if self.path else raw

    def apply(self, record: Record, schema: Schema) -> None:
        _change(record, self.path.format(turns=schema.turns_field), self.value)


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
    elif value.startswith("+"):
        owner[key] += int(value)
    else:
        owner[key] = _PLACEHOLDER if value[0] in "=@" else json.loads(value)


def _with_nulls(record: Record, schema: Schema) -> Record:
    """Add nulls that only the record's own version allows: a mistake may be valid in another."""
    if schema.closed:
        record = arranged(record, schema, nulls=True)
        record["input"]["formatted"] = None
    else:
        record.setdefault(schema.turns_field, None)
    return record


def _changes(name: str) -> list[Change]:
    """Make a change for each value in a table of `invalid.toml`."""
    return [
        Change(code, path, types.split() or ONE + MANY, versions, value)
        for code, path, types, versions, *values in rows_of(table("invalid")[name])
        for value in values
    ]


_BY_CODE = groupby(_changes("oldest"), lambda row: row.code)
INVALID_LINES = in_turn([list(group) for _, group in _BY_CODE])
REPAIRABLE = _changes("repairable")  # what `--repair all` fixes
MISTAKES = REPAIRABLE + _changes("contradictions")
WARNINGS = _changes("warnings")
