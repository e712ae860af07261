"""Invalid lines of versions after the oldest one: what known producers get wrong, and contradictions.

A row changes a valid record of some version. A mistake in one version may be valid in another one, so the record also
has nulls that only its own version allows, as real records do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.invalid import INVALID_LINES
from fastrec.commands.generate.producers import Record, Spelling
from fastrec.commands.generate.versions import with_nulls
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import MANY, ONE, Schema

__all__ = ["MISTAKES", "REPAIRABLE", "Mistake"]

ALL: Final = ONE + MANY
PLACEHOLDER: Final = "@@score@@"


class Mistake(NamedTuple):
    """One row: the code (`{turns}` is what a version calls them), the interaction types, the versions, the change."""

    code: str
    types: tuple[str, ...]
    fits: Callable[[Schema], bool]
    line: Callable[[Record, Schema, Spelling], bytes]

    def code_in(self, schema: Schema) -> str:
        """Return the code of the error in a version."""
        return self.code.format(turns=schema.turns_field)


def _any(_: Schema) -> bool:
    return True


def _closed(schema: Schema) -> bool:
    return schema.closed


def _open(schema: Schema) -> bool:
    return not schema.closed


def _has_metrics(schema: Schema) -> bool:
    return "evaluation_result_id" in schema.shape.fields


def _row(
    code: str,
    change: Callable[[Record, Schema], object],
    types: tuple[str, ...] = ALL,
    fits: Callable[[Schema], bool] = _any,
) -> Mistake:
    def line(record: Record, schema: Schema, spelling: Spelling) -> bytes:
        if schema.closed:
            record = with_nulls(record, schema)
            record["input"] = {**record["input"], "formatted": None}
        else:
            record.setdefault(schema.turns_field, None)
        change(record, schema)
        return spelling.line(record).replace(f'"{PLACEHOLDER}"'.encode(), b"NaN")

    return Mistake(code, types, fits, line)


def _set(code: str, path: str, value: Any, **options: Any) -> Mistake:
    """Make a row that sets a value: `{turns}` in the path is what the version calls them, a missing object is made."""

    def change(record: Record, schema: Schema) -> None:
        *parents, key = path.format(turns=schema.turns_field).split(".")
        owner: Any = record
        for name in parents:
            if name.isdigit():
                owner = owner[int(name)]
            else:
                owner[name] = owner.get(name) or {}
                owner = owner[name]
        owner[key] = value

    return _row(code, change, **options)


def _set_other_turns(record: Record, schema: Schema) -> None:
    """Add the turns of another version beside those of the record's own."""
    fields = {DEFAULT_SCHEMA.turns_field, NEWEST_SCHEMA.turns_field} - {schema.turns_field}
    record[fields.pop()] = record[schema.turns_field]


def _common() -> Iterator[Mistake]:
    """Yield one row of the oldest version for each code that is the same in all versions."""
    seen = set()
    for row in INVALID_LINES:
        if row.code.startswith("json.") and row.code not in seen:
            seen.add(row.code)
            yield Mistake(row.code, ALL, _any, _ignore_schema(row.line))


def _ignore_schema(line: Callable[[Record, Spelling], bytes]) -> Callable[[Record, Schema, Spelling], bytes]:
    return lambda record, _, spelling: line(record, spelling)


REPAIRABLE: Final = (
    _set("schema.type", "evaluation_result_id", None, fits=_has_metrics),
    _set("schema.type", "metadata.attempts", 3, fits=_closed),
    _set("schema.type", "{turns}.2.tool_calls.0.arguments.limit", 7, types=("agentic",), fits=_closed),
    _set("schema.type", "performance.additional_details.retries", 2, fits=_closed),
    _set("json.number", "evaluation.score", PLACEHOLDER),
    _set("schema.type", "evaluation.score", "0.5"),
    _set("schema.type", "evaluation.score", True, fits=_closed),
    _set("schema.type", "evaluation.is_correct", "true"),
    _set("schema.type", "evaluation.is_correct", 1),
    _set("schema.type", "performance.latency_ms", "3"),
    _set("schema.type", "{turns}.0.turn_idx", "0", types=MANY),
    _set("schema.type", "sample_hash", None, fits=_open),
    _set("schema.type", "metadata", None, fits=_open),
    _set("schema.type", "input.formatted", None, fits=_open),
    _set("schema.one_of", "{turns}.3.tool_call_id", None, types=("agentic",), fits=_open),
    _set("rule.single_turn_{turns}", "{turns}", [{"turn_idx": 0, "role": "user", "content": "?"}], types=ONE),
    _set("rule.multi_turn_output", "output.raw", ["42"], types=MANY, fits=_closed),
)
"""What `--repair all` fixes."""

MISTAKES: Final = (
    *REPAIRABLE,
    _set("schema.unknown_key", "run_details", {"retries": 1}, fits=_closed),
    _set("rule.multi_turn_{turns}", "{turns}", None, types=MANY),
    _row("version.contradiction", _set_other_turns, types=MANY),
    _set("schema.enum", "interaction_type", "chat"),
    *_common(),
)
"""All rows."""
