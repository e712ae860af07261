"""Invalid lines: one row for every reason why a line can be rejected.

A row turns a valid record into a line with exactly one error. Errors that no JSON encoder writes use a placeholder: a
string that is replaced after encoding. `line.too_long` and `hash.mismatch` are missing, because they depend on the
options of the reader. `INVALID_LINES` are for the oldest schema version, `MISTAKES` for later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Spelling
from fastrec.commands.generate.records import arranged
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import MANY, ONE, Schema

_PLACEHOLDER: Final = "@@hole@@"
_DEEP: Final = 300
_NOTE: Final = "metadata.note"
_USAGE: Final = {"input_tokens": 3, "output_tokens": 2}
_CALL: Final = "interactions.2.tool_calls.0"  # the first tool call of an agentic record, after the system and the user
_ANSWERED: Final = "interactions.3.tool_call_id"
_CHAT: Final = ("multi_turn",)
_AGENT: Final = ("agentic",)
_closed: Final = attrgetter("closed")


def _any(_: Schema) -> bool:
    return True


def _open(schema: Schema) -> bool:
    return not schema.closed


class InvalidLine(NamedTuple):
    """One row: the code (`{turns}` is what a version calls them), interaction types, what makes the line, versions."""

    code: str
    types: tuple[str, ...]
    line: Callable[[Record, Schema, Spelling], bytes]
    fits: Callable[[Schema], bool] = _any


def _bytes(code: str, change: Callable[[bytes], bytes]) -> InvalidLine:
    return InvalidLine(code, ONE + MANY, lambda record, _, spelling: change(spelling.line(record)))


def _put(
    code: str,
    path: str,
    *values: Any,
    types: tuple[str, ...] = ONE + MANY,
    fits: Callable[[Schema], bool] = _any,
) -> Iterator[InvalidLine]:
    """Make a row for each value: it replaces the one at `path`, such as `interactions.0.role`.

    `...` removes what is there, and bytes are written as they are. A missing object is made.
    """
    for value in values:

        def line(record: Record, schema: Schema, spelling: Spelling, value: Any = value) -> bytes:
            *parents, key = path.format(turns=schema.turns_field).split(".")
            owner: Any = record
            for name in parents:
                if name.isdigit():
                    owner = owner[int(name)]
                else:
                    owner[name] = owner.get(name) or {}
                    owner = owner[name]
            if not isinstance(value, bytes):
                owner[key] = value
                if value is ...:
                    del owner[key]
                return spelling.line(record)
            owner[key] = _PLACEHOLDER
            return spelling.line(record).replace(f'"{_PLACEHOLDER}"'.encode(), value)

        yield InvalidLine(code, types, line, fits)


def _interleaved(*rows: InvalidLine) -> tuple[InvalidLine, ...]:
    """Order the rows: the first of every code, then the second of every code, and so on."""
    by_code = [list(group) for _, group in groupby(rows, key=lambda row: row.code)]
    return tuple(row for turn in zip_longest(*by_code) for row in turn if row)


INVALID_LINES: Final = _interleaved(
    # Latin-1, a truncated character, a surrogate encoded as if it were a character, an overlong encoding
    *_put("json.utf8", _NOTE, b'"caf\xe9"', b'"\xc3"', b'"\xed\xa0\xbd"', b'"\xc0\xaf"'),
    *_put("json.depth", _NOTE, b"[" * _DEEP + b"]" * _DEEP, b'{"a": ' * _DEEP + b"null" + b"}" * _DEEP),
    _bytes("json.syntax", lambda line: line[: len(line) // 3].decode(errors="ignore").encode()),  # between characters
    _bytes("json.syntax", lambda line: line + b" " + line),
    _bytes("json.syntax", lambda line: line.rstrip()[:-1] + b",}"),
    _bytes("json.syntax", lambda line: line.rstrip()[:-1]),
    _bytes("json.syntax", lambda line: b"ERROR: worker 3 died, 17 samples lost"),
    *_put("json.syntax", _NOTE, b"True", b"'single'", b'"raw \x01 control"', b"01", b'"\\x41"'),
    *_put("json.number", "evaluation.score", b"NaN"),
    *_put("json.number", "performance.latency_ms", b"Infinity"),
    *_put("json.number", _NOTE, b"-Infinity", b"1e999"),
    *_put("json.surrogate", _NOTE, b'"\\ud83d"', b'"\\ude00\\ud83d"', b'{"\\udc80": 1}'),
    *_put("json.duplicate_key", "evaluation.is_correct", b'true, "is_correct": true'),
    *_put("json.duplicate_key", "evaluation.is_correct", b'true, "is_c\\u006frrect": false'),
    *_put("json.duplicate_key", _NOTE, b'{"a": [{"b": 1, "b": 2}]}'),
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
    *_put("schema.type", "interactions.1.turn_idx", "1", types=_CHAT),
    *_put("schema.type", f"{_CALL}.arguments", "{}", types=_AGENT),
    *_put("schema.required", "model_id", ...),
    *_put("schema.required", "sample_id", ...),
    *_put("schema.required", "answer_attribution", ...),
    *_put("schema.required", "input.reference", ...),
    *_put("schema.required", "evaluation.is_correct", ...),
    *_put("schema.required", "answer_attribution.0.is_terminal", ...),
    *_put("schema.required", "interactions.0.role", ..., types=_CHAT),
    *_put("schema.required", f"{_CALL}.name", ..., types=_AGENT),
    *_put("schema.required", "token_usage", _USAGE),
    *_put("schema.enum", "interaction_type", "chat", "Single_Turn"),
    *_put("schema.minimum", "token_usage", {"input_tokens": -1, "output_tokens": 2, "total_tokens": 5}),
    *_put("schema.minimum", "performance", {"latency_ms": -0.5}),
    *_put("schema.minimum", "evaluation.num_turns", 0),
    *_put("schema.minimum", "answer_attribution.0.turn_idx", -1),
    *_put("schema.one_of", _ANSWERED, 7, None, ["a", 1], types=_AGENT),
    *_put("rule.single_turn_output", "output", ..., None, types=ONE),
    *_put("rule.single_turn_interactions", "interactions", [], types=ONE),
    *_put("rule.multi_turn_interactions", "interactions", ..., types=_CHAT),
    *_put("rule.multi_turn_interactions", "interactions", None, types=_AGENT),
    *_put("rule.multi_turn_output", "output", {"raw": "42"}, types=_CHAT),
    *_put("rule.multi_turn_output", "output", {"raw": "42"}, types=_AGENT),
    *_put("rule.metrics_num_turns", "metrics", {}, types=_CHAT),
    *_put("rule.metrics_num_turns", "metrics", {"turns": 3}, types=_AGENT),
)


# Later versions: what known producers get wrong, and contradictions. A row changes a valid record of some version. A
# mistake in one version may be valid in another one, so the record also has nulls that only its own version allows, as
# real records do.


def _with_nulls(row: InvalidLine) -> InvalidLine:
    def line(record: Record, schema: Schema, spelling: Spelling) -> bytes:
        if schema.closed:
            record = arranged(record, schema.shape, nulls=True)
            record["input"] = {**record["input"], "formatted": None}
        else:
            record.setdefault(schema.turns_field, None)
        return row.line(record, schema, spelling)

    return row._replace(line=line)


def _with_other_turns(record: Record, schema: Schema, spelling: Spelling) -> bytes:
    """Add the turns of another version beside those of the record's own."""
    fields = {DEFAULT_SCHEMA.turns_field, NEWEST_SCHEMA.turns_field} - {schema.turns_field}
    return spelling.line({**record, fields.pop(): record[schema.turns_field]})


_TURN: Final = {"turn_idx": 0, "role": "user", "content": "?"}
_REPAIRABLE: Final = (
    *_put(
        "schema.type", "evaluation_result_id", None, fits=lambda schema: "evaluation_result_id" in schema.shape.fields
    ),
    *_put("schema.type", "metadata.attempts", 3, fits=_closed),
    *_put("schema.type", "{turns}.2.tool_calls.0.arguments.limit", 7, types=_AGENT, fits=_closed),
    *_put("schema.type", "performance.additional_details.retries", 2, fits=_closed),
    *_put("json.number", "evaluation.score", b"NaN"),
    *_put("schema.type", "evaluation.score", "0.5"),
    *_put("schema.type", "evaluation.score", True, fits=_closed),
    *_put("schema.type", "evaluation.is_correct", "true", 1),
    *_put("schema.type", "performance.latency_ms", "3"),
    *_put("schema.type", "{turns}.0.turn_idx", "0", types=MANY),
    *_put("schema.type", "sample_hash", None, fits=_open),
    *_put("schema.type", "metadata", None, fits=_open),
    *_put("schema.type", "input.formatted", None, fits=_open),
    *_put("schema.one_of", "{turns}.3.tool_call_id", None, types=_AGENT, fits=_open),
    *_put("rule.single_turn_{turns}", "{turns}", [_TURN], types=ONE),
    *_put("rule.multi_turn_output", "output.raw", ["42"], types=MANY, fits=_closed),
)
REPAIRABLE: Final = tuple(map(_with_nulls, _REPAIRABLE))  # what `--repair all` fixes

_CONTRADICTIONS: Final = (
    *_put("schema.unknown_key", "run_details", {"retries": 1}, fits=_closed),
    *_put("rule.multi_turn_{turns}", "{turns}", None, types=MANY),
    InvalidLine("version.contradiction", MANY, _with_other_turns, fits=_closed),
    *_put("schema.enum", "interaction_type", "chat"),
)
# One row of the oldest version for each code that is the same in all versions; the first ones have one of each code.
_FIRST: Final = INVALID_LINES[: len({row.code for row in INVALID_LINES})]
MISTAKES: Final = (
    *REPAIRABLE,
    *map(_with_nulls, _CONTRADICTIONS),
    *(row for row in _FIRST if row.code.startswith("json.")),
)
