"""Invalid lines: one row for every reason why a line can be rejected.

A row turns a valid record into a line with exactly one error. Errors that no JSON encoder writes use a placeholder: a
string that is replaced after encoding. `line.too_long` and `hash.mismatch` are missing, because they depend on the
options of the reader. `INVALID_LINES` are for the oldest schema version, `MISTAKES` for later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import groupby, zip_longest
from operator import getitem
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Spelling
from fastrec.commands.generate.records import arranged
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import MANY, ONE, Schema

_PLACEHOLDER: Final = "@@hole@@"
_DEEP: Final = 300
_USAGE: Final = {"input_tokens": 3, "output_tokens": 2}
_CALL: Final = "interactions.2.tool_calls.0"  # the first tool call of an agentic record, after the system and the user
_ANSWERED: Final = "interactions.3.tool_call_id"


class InvalidLine(NamedTuple):
    """One row: the code, the interaction type it needs (None: any), and the function that makes the line."""

    code: str
    needs: str | None
    line: Callable[[Record, Schema, Spelling], bytes]


def _raw(code: str, *fillers: bytes, section: str = "metadata", key: str = "note") -> Iterator[InvalidLine]:
    """Make a row for each filler: raw bytes that are written as one value."""
    for filler in fillers:

        def line(record: Record, _: Schema, spelling: Spelling, filler: bytes = filler) -> bytes:
            record[section] = {**(record.get(section) or {}), key: _PLACEHOLDER}
            return spelling.line(record).replace(f'"{_PLACEHOLDER}"'.encode(), filler)

        yield InvalidLine(code, None, line)


def _bytes(code: str, change: Callable[[bytes], bytes]) -> InvalidLine:
    return InvalidLine(code, None, lambda record, _, spelling: change(spelling.line(record)))


def _put(code: str, path: str, *values: Any, needs: str | None = None) -> Iterator[InvalidLine]:
    """Make a row for each value: it replaces the one at `path`, such as `interactions.0.role`; `...` removes that."""
    *parents, key = (int(step) if step.isdigit() else step for step in path.split("."))
    for value in values:

        def line(record: Record, _: Schema, spelling: Spelling, value: Any = value) -> bytes:
            owner: Any = reduce(getitem, parents, record)  # type: ignore[arg-type]
            owner[key] = value
            if value is ...:
                del owner[key]
            return spelling.line(record)

        yield InvalidLine(code, needs, line)


def _interleaved(*rows: InvalidLine) -> tuple[InvalidLine, ...]:
    """Order the rows: the first of every code, then the second of every code, and so on."""
    by_code = [list(group) for _, group in groupby(rows, key=lambda row: row.code)]
    return tuple(row for turn in zip_longest(*by_code) for row in turn if row)


INVALID_LINES: Final = _interleaved(
    # Latin-1, a truncated character, a surrogate encoded as if it were a character, an overlong encoding
    *_raw("json.utf8", b'"caf\xe9"', b'"\xc3"', b'"\xed\xa0\xbd"', b'"\xc0\xaf"'),
    *_raw("json.depth", b"[" * _DEEP + b"]" * _DEEP, b'{"a": ' * _DEEP + b"null" + b"}" * _DEEP),
    _bytes("json.syntax", lambda line: line[: len(line) // 3].decode(errors="ignore").encode()),  # between characters
    _bytes("json.syntax", lambda line: line + b" " + line),
    _bytes("json.syntax", lambda line: line.rstrip()[:-1] + b",}"),
    _bytes("json.syntax", lambda line: line.rstrip()[:-1]),
    _bytes("json.syntax", lambda line: b"ERROR: worker 3 died, 17 samples lost"),
    *_raw("json.syntax", b"True", b"'single'", b'"raw \x01 control"', b"01", b'"\\x41"'),
    *_raw("json.number", b"NaN", section="evaluation", key="score"),
    *_raw("json.number", b"Infinity", section="performance", key="latency_ms"),
    *_raw("json.number", b"-Infinity", b"1e999"),
    *_raw("json.surrogate", b'"\\ud83d"', b'"\\ude00\\ud83d"', b'{"\\udc80": 1}'),
    *_raw("json.duplicate_key", b'true, "is_correct": true', section="evaluation", key="is_correct"),
    *_raw("json.duplicate_key", b'true, "is_c\\u006frrect": false', section="evaluation", key="is_correct"),
    *_raw("json.duplicate_key", b'{"a": [{"b": 1, "b": 2}]}'),
    _bytes("schema.type", lambda line: b"[]"),
    _bytes("schema.type", lambda line: b"42"),
    _bytes("schema.type", lambda line: b"null"),
    *_put("schema.type", "sample_id", 1.5, None),
    *_put("schema.type", "sample_hash", None),
    *_put("schema.type", "metadata", None),
    *_put("schema.type", "answer_attribution", {}),
    *_put("schema.type", "evaluation.is_correct", "yes"),
    *_put("schema.type", "evaluation.score", "0.9"),
    *_put("schema.type", "input.formatted", None),
    *_put("schema.type", "input.choices", ["A", 2]),
    *_put("schema.type", "error", {"code": 503}),
    *_put("schema.type", "token_usage", {**_USAGE, "total_tokens": True}, {**_USAGE, "total_tokens": 5.5}),
    *_put("schema.type", "interactions.1.turn_idx", "1", needs="multi_turn"),
    *_put("schema.type", f"{_CALL}.arguments", "{}", needs="agentic"),
    *_put("schema.required", "model_id", ...),
    *_put("schema.required", "sample_id", ...),
    *_put("schema.required", "answer_attribution", ...),
    *_put("schema.required", "input.reference", ...),
    *_put("schema.required", "evaluation.is_correct", ...),
    *_put("schema.required", "answer_attribution.0.is_terminal", ...),
    *_put("schema.required", "interactions.0.role", ..., needs="multi_turn"),
    *_put("schema.required", f"{_CALL}.name", ..., needs="agentic"),
    *_put("schema.required", "token_usage", _USAGE),
    *_put("schema.enum", "interaction_type", "chat", "Single_Turn"),
    *_put("schema.minimum", "token_usage", {"input_tokens": -1, "output_tokens": 2, "total_tokens": 5}),
    *_put("schema.minimum", "performance", {"latency_ms": -0.5}),
    *_put("schema.minimum", "evaluation.num_turns", 0),
    *_put("schema.minimum", "answer_attribution.0.turn_idx", -1),
    *_put("schema.one_of", _ANSWERED, 7, None, ["a", 1], needs="agentic"),
    *_put("rule.single_turn_output", "output", ..., None, needs="single_turn"),
    *_put("rule.single_turn_interactions", "interactions", [], needs="single_turn"),
    *_put("rule.multi_turn_interactions", "interactions", ..., needs="multi_turn"),
    *_put("rule.multi_turn_interactions", "interactions", None, needs="agentic"),
    *_put("rule.multi_turn_output", "output", {"raw": "42"}, needs="multi_turn"),
    *_put("rule.multi_turn_output", "output", {"raw": "42"}, needs="agentic"),
    *_put("rule.metrics_num_turns", "metrics", {}, needs="multi_turn"),
    *_put("rule.metrics_num_turns", "metrics", {"turns": 3}, needs="agentic"),
)


# Later versions: what known producers get wrong, and contradictions. A row changes a valid record of some version. A
# mistake in one version may be valid in another one, so the record also has nulls that only its own version allows, as
# real records do.

_ALL: Final = ONE + MANY
_SCORE_PLACEHOLDER: Final = "@@score@@"


class _Mistake(NamedTuple):
    """One row: the code (`{turns}` is what a version calls them), the interaction types, the versions, the change."""

    code: str
    types: tuple[str, ...]
    fits: Callable[[Schema], bool]
    line: Callable[[Record, Schema, Spelling], bytes]


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
    types: tuple[str, ...] = _ALL,
    fits: Callable[[Schema], bool] = _any,
) -> _Mistake:
    def line(record: Record, schema: Schema, spelling: Spelling) -> bytes:
        if schema.closed:
            record = arranged(record, schema.shape, nulls=True)
            record["input"] = {**record["input"], "formatted": None}
        else:
            record.setdefault(schema.turns_field, None)
        change(record, schema)
        return spelling.line(record).replace(f'"{_SCORE_PLACEHOLDER}"'.encode(), b"NaN")

    return _Mistake(code, types, fits, line)


def _set(code: str, path: str, value: Any, **options: Any) -> _Mistake:
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


def _common() -> Iterator[_Mistake]:
    """Yield one row of the oldest version for each code that is the same in all versions."""
    seen = set()
    for row in INVALID_LINES:
        if row.code.startswith("json.") and row.code not in seen:
            seen.add(row.code)
            yield _Mistake(row.code, _ALL, _any, row.line)


REPAIRABLE: Final = (
    _set("schema.type", "evaluation_result_id", None, fits=_has_metrics),
    _set("schema.type", "metadata.attempts", 3, fits=_closed),
    _set("schema.type", "{turns}.2.tool_calls.0.arguments.limit", 7, types=("agentic",), fits=_closed),
    _set("schema.type", "performance.additional_details.retries", 2, fits=_closed),
    _set("json.number", "evaluation.score", _SCORE_PLACEHOLDER),
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
    _row("version.contradiction", _set_other_turns, types=MANY, fits=_closed),
    _set("schema.enum", "interaction_type", "chat"),
    *_common(),
)
