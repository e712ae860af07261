"""Invalid lines: one row for every reason why a line can be rejected.

A row turns a valid record into a line with exactly one error; `invalid.toml` has the rows. Errors
that no JSON encoder writes use a placeholder: a string that is replaced after encoding.
`line.too_long` and `hash.mismatch` are missing, because they depend on the options of the reader.
`INVALID_LINES` are for the oldest schema version, `MISTAKES` for later ones: what known producers
get wrong, and contradictions.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Spelling
from fastrec.commands.generate.records import arranged
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import MANY, ONE, Schema

_PLACEHOLDER: Final = "@@hole@@"
_DEEP: Final = 300
_TYPES: Final = {
    "": ONE + MANY,
    "one": ONE,
    "many": MANY,
    "chat": ("multi_turn",),
    "agent": ("agentic",),
}
_FITS: Final[dict[str, Callable[[Schema], bool]]] = {
    "": lambda _: True,
    "closed": lambda schema: schema.closed,
    "open": lambda schema: not schema.closed,
    "metrics": lambda schema: "evaluation_result_id" in schema.shape.fields,
}
_BYTES: Final = {
    "@list": b"[" * _DEEP + b"]" * _DEEP,
    "@object": b'{"a": ' * _DEEP + b"null" + b"}" * _DEEP,
}
_CHANGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "@cut": lambda line: (
        line[: len(line) // 3].decode(errors="ignore").encode()
    ),  # between characters
    "@twice": lambda line: line + b" " + line,
    "@comma": lambda line: line.rstrip()[:-1] + b",}",
    "@open": lambda line: line.rstrip()[:-1],
}


class InvalidLine(NamedTuple):
    """One row: the code (`{turns}` is what a version calls them), interaction types, what makes the line, versions."""

    code: str
    types: tuple[str, ...]
    line: Callable[[Record, Schema, Spelling], bytes]
    fits: Callable[[Schema], bool]


def _rows(text: str) -> Iterator[InvalidLine]:
    """Make a row for each value in a table of `invalid.toml`."""
    for row in text.strip().splitlines():
        code, path, types, fits, *values = map(str.strip, row.split("|"))
        for value in values:
            yield InvalidLine(code, _TYPES[types], _line_maker(path, value), _FITS[fits])


def _line_maker(path: str, spelled: str) -> Callable[[Record, Schema, Spelling], bytes]:
    if spelled == "@other turns":
        return _with_other_turns
    if change := _CHANGES.get(spelled):
        return lambda record, _, spelling: change(spelling.line(record))
    is_raw = spelled.startswith(("=", "@"))
    raw = _BYTES.get(spelled) or spelled[1:].encode().decode("unicode_escape").encode("latin-1")
    if not path:
        return lambda *_: raw
    value = _PLACEHOLDER if is_raw else ... if spelled == "..." else json.loads(spelled)

    def line(record: Record, schema: Schema, spelling: Spelling) -> bytes:
        *parents, key = path.format(turns=schema.turns_field).split(".")
        owner: Any = record
        for name in parents:
            if name.isdigit():
                owner = owner[int(name)]
            else:  # a missing object is made
                owner[name] = owner.get(name) or {}
                owner = owner[name]
        owner[key] = value
        if value is ...:
            del owner[key]
        written = spelling.line(record)
        return written.replace(f'"{_PLACEHOLDER}"'.encode(), raw) if is_raw else written

    return line


def _with_other_turns(record: Record, schema: Schema, spelling: Spelling) -> bytes:
    """Add the turns of another version beside those of the record's own."""
    fields = {DEFAULT_SCHEMA.turns_field, NEWEST_SCHEMA.turns_field} - {schema.turns_field}
    return spelling.line({**record, fields.pop(): record[schema.turns_field]})


def _with_nulls(row: InvalidLine) -> InvalidLine:
    """Add nulls that only the record's own version allows, as real records have: a mistake may be valid in another."""

    def line(record: Record, schema: Schema, spelling: Spelling) -> bytes:
        if schema.closed:
            record = arranged(record, schema.shape, nulls=True)
            record["input"] = {**record["input"], "formatted": None}
        else:
            record.setdefault(schema.turns_field, None)
        return row.line(record, schema, spelling)

    return row._replace(line=line)


_TABLES: Final = tomllib.loads(Path(__file__).with_name("invalid.toml").read_text(encoding="utf-8"))
_BY_CODE: Final = [
    list(group) for _, group in groupby(_rows(_TABLES["oldest"]), key=lambda row: row.code)
]
# The first row of every code, then the second of every code, and so on.
INVALID_LINES: Final = tuple(row for turn in zip_longest(*_BY_CODE) for row in turn if row)
REPAIRABLE: Final = tuple(
    map(_with_nulls, _rows(_TABLES["repairable"]))
)  # what `--repair all` fixes
MISTAKES: Final = (
    *REPAIRABLE,
    *map(_with_nulls, _rows(_TABLES["contradictions"])),
    # One row of the oldest version for each code that is the same in all versions.
    *(rows[0] for rows in _BY_CODE if rows[0].code.startswith("json.")),
)
