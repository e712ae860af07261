"""Invalid lines: one row for every reason why a line can be rejected.

A row turns a valid record into a line with exactly one error. Errors that no JSON encoder writes use a placeholder: a
string that is replaced after encoding. `line.too_long` and `hash.mismatch` are missing, because they depend on the
options of the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, zip_longest
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Spelling

__all__ = ["INVALID_LINES", "InvalidLine"]

PLACEHOLDER: Final = "@@hole@@"
DEEP: Final = 300

Change = Callable[[Record], object]


class InvalidLine(NamedTuple):
    """One row: the code, the interaction type it needs (None: any), and the function that makes the line."""

    code: str
    needs: str | None
    line: Callable[[Record, Spelling], bytes]


def _raw(code: str, filler: bytes, section: str = "metadata", key: str = "note") -> InvalidLine:
    """Write the raw bytes `filler` as one value."""

    def line(record: Record, spelling: Spelling) -> bytes:
        record[section] = {**(record.get(section) or {}), key: PLACEHOLDER}
        return spelling.line(record).replace(f'"{PLACEHOLDER}"'.encode(), filler)

    return InvalidLine(code, None, line)


def _broken(change: Callable[[bytes], bytes]) -> InvalidLine:
    """Change the bytes so that they are not JSON."""
    return InvalidLine("json.syntax", None, lambda record, spelling: change(spelling.line(record)))


def _changed(code: str, change: Change, needs: str | None = None) -> InvalidLine:
    """Change the record so that it is JSON but breaks the schema."""

    def line(record: Record, spelling: Spelling) -> bytes:
        change(record)
        return spelling.line(record)

    return InvalidLine(code, needs, line)


def _put(code: str, key: str, value: Any, section: str | None = None, needs: str | None = None) -> InvalidLine:
    """Put a wrong value into a field of the record, or of one of its sections."""
    if section is None:
        return _changed(code, lambda record: record.update({key: value}), needs)
    return _changed(code, lambda record: record[section].update({key: value}), needs)


def _usage(code: str, **counts: Any) -> InvalidLine:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, **counts}
    return _put(code, "token_usage", {key: value for key, value in usage.items() if value is not ...})


def _interleaved(rows: tuple[InvalidLine, ...]) -> tuple[InvalidLine, ...]:
    """Order the rows: the first of every code, then the second of every code, and so on."""
    by_code = [list(group) for _, group in groupby(rows, key=lambda row: row.code)]
    return tuple(row for turn in zip_longest(*by_code) for row in turn if row)


def _call(record: Record) -> Record:
    """Return the first tool call of an agentic record: turn 2, after the system and the user."""
    call: Record = record["interactions"][2]["tool_calls"][0]
    return call


INVALID_LINES: Final = _interleaved(
    (
        _raw("json.utf8", b'"caf\xe9"'),  # Latin-1
        _raw("json.utf8", b'"\xc3"'),  # a truncated character
        _raw("json.utf8", b'"\xed\xa0\xbd"'),  # a surrogate encoded as if it were a character
        _raw("json.utf8", b'"\xc0\xaf"'),  # an overlong encoding
        _raw("json.depth", b"[" * DEEP + b"]" * DEEP),
        _raw("json.depth", b'{"a": ' * DEEP + b"null" + b"}" * DEEP),
        _broken(lambda line: line[: len(line) // 3].decode(errors="ignore").encode()),  # cut between characters
        _broken(lambda line: line + b" " + line),
        _broken(lambda line: line.rstrip()[:-1] + b",}"),
        _broken(lambda line: line.rstrip()[:-1]),
        _broken(lambda line: b"ERROR: worker 3 died, 17 samples lost"),
        _raw("json.syntax", b"True"),
        _raw("json.syntax", b"'single'"),
        _raw("json.syntax", b'"raw \x01 control"'),
        _raw("json.syntax", b"01"),
        _raw("json.syntax", b'"\\x41"'),
        _raw("json.number", b"NaN", "evaluation", "score"),
        _raw("json.number", b"Infinity", "performance", "latency_ms"),
        _raw("json.number", b"-Infinity"),
        _raw("json.number", b"1e999"),
        _raw("json.surrogate", b'"\\ud83d"'),
        _raw("json.surrogate", b'"\\ude00\\ud83d"'),
        _raw("json.surrogate", b'{"\\udc80": 1}'),
        _raw("json.duplicate_key", b'true, "is_correct": true', "evaluation", "is_correct"),
        _raw("json.duplicate_key", b'true, "is_c\\u006frrect": false', "evaluation", "is_correct"),
        _raw("json.duplicate_key", b'{"a": [{"b": 1, "b": 2}]}'),
        InvalidLine("schema.type", None, lambda record, spelling: b"[]"),
        InvalidLine("schema.type", None, lambda record, spelling: b"42"),
        InvalidLine("schema.type", None, lambda record, spelling: b"null"),
        _put("schema.type", "sample_id", 1.5),
        _put("schema.type", "sample_id", None),
        _put("schema.type", "sample_hash", None),
        _put("schema.type", "metadata", None),
        _put("schema.type", "answer_attribution", {}),
        _put("schema.type", "is_correct", "yes", "evaluation"),
        _put("schema.type", "score", "0.9", "evaluation"),
        _put("schema.type", "formatted", None, "input"),
        _put("schema.type", "choices", ["A", 2], "input"),
        _put("schema.type", "error", {"code": 503}),
        _usage("schema.type", total_tokens=True),
        _usage("schema.type", total_tokens=5.5),
        _changed("schema.type", lambda record: record["interactions"][1].update(turn_idx="1"), "multi_turn"),
        _changed("schema.type", lambda record: _call(record).update(arguments="{}"), "agentic"),
        _changed("schema.required", lambda record: record.pop("model_id")),
        _changed("schema.required", lambda record: record.pop("sample_id")),
        _changed("schema.required", lambda record: record.pop("answer_attribution")),
        _changed("schema.required", lambda record: record["input"].pop("reference")),
        _changed("schema.required", lambda record: record["evaluation"].pop("is_correct")),
        _changed("schema.required", lambda record: record["answer_attribution"][0].pop("is_terminal")),
        _changed("schema.required", lambda record: record["interactions"][0].pop("role"), "multi_turn"),
        _changed("schema.required", lambda record: _call(record).pop("name"), "agentic"),
        _usage("schema.required", total_tokens=...),
        _put("schema.enum", "interaction_type", "chat"),
        _put("schema.enum", "interaction_type", "Single_Turn"),
        _usage("schema.minimum", input_tokens=-1),
        _put("schema.minimum", "performance", {"latency_ms": -0.5}),
        _put("schema.minimum", "num_turns", 0, "evaluation"),
        _changed("schema.minimum", lambda record: record["answer_attribution"][0].update(turn_idx=-1)),
        _changed("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=7), "agentic"),
        _changed("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=None), "agentic"),
        _changed("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=["a", 1]), "agentic"),
        _changed("rule.single_turn_output", lambda record: record.pop("output"), "single_turn"),
        _put("rule.single_turn_output", "output", None, needs="single_turn"),
        _put("rule.single_turn_interactions", "interactions", [], needs="single_turn"),
        _changed("rule.multi_turn_interactions", lambda record: record.pop("interactions"), "multi_turn"),
        _put("rule.multi_turn_interactions", "interactions", None, needs="agentic"),
        _put("rule.multi_turn_output", "output", {"raw": "42"}, needs="multi_turn"),
        _put("rule.multi_turn_output", "output", {"raw": "42"}, needs="agentic"),
        _put("rule.metrics_num_turns", "metrics", {}, needs="multi_turn"),
        _put("rule.metrics_num_turns", "metrics", {"turns": 3}, needs="agentic"),
    ),
)
