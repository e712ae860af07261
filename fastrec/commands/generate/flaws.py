"""The rejects: every way to be rejected that a line can have by itself, one row each.

A row takes a valid record and a way to spell it, and gives back a line with one flaw and no other. Flaws that
no writer of JSON would spell go through a hole: a string put where the flaw belongs, replaced after spelling.
`line.too_long` and `hash.mismatch` are not here: whether they apply depends on the options of the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record, Spelling

__all__ = ["FLAWS", "Flaw"]

HOLE: Final = "@@hole@@"
DEEP: Final = 300

Spoil = Callable[[Record], object]


class Flaw(NamedTuple):
    """One row: the code, the interaction type it needs (None: any), and what makes the line."""

    code: str
    needs: str | None
    line: Callable[[Record, Spelling], bytes]


def _hole(code: str, filler: bytes, section: str = "metadata", key: str = "note") -> Flaw:
    """`filler` as the raw spelling of one value."""

    def line(record: Record, spelling: Spelling) -> bytes:
        record[section] = {**(record.get(section) or {}), key: HOLE}
        return spelling.line(record).replace(f'"{HOLE}"'.encode(), filler)

    return Flaw(code, None, line)


def _cut(change: Callable[[bytes], bytes]) -> Flaw:
    """Bytes that are not JSON any more."""
    return Flaw("json.syntax", None, lambda record, spelling: change(spelling.line(record)))


def _spoil(code: str, spoil: Spoil, needs: str | None = None) -> Flaw:
    """A value that JSON can say and the schema does not allow."""

    def line(record: Record, spelling: Spelling) -> bytes:
        spoil(record)
        return spelling.line(record)

    return Flaw(code, needs, line)


def _put(code: str, key: str, value: Any, section: str | None = None, needs: str | None = None) -> Flaw:
    """A wrong value in one field of the record, or of one of its sections."""
    if section is None:
        return _spoil(code, lambda record: record.update({key: value}), needs)
    return _spoil(code, lambda record: record[section].update({key: value}), needs)


def _usage(code: str, **counts: Any) -> Flaw:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, **counts}
    return _put(code, "token_usage", {key: value for key, value in usage.items() if value is not ...})


def _rounds(flaws: tuple[Flaw, ...]) -> tuple[Flaw, ...]:
    """The first row of every code, then the second rows, and so on: each code appears as early as it can."""
    seen: dict[str, int] = {}
    turns = []
    for flaw in flaws:
        seen[flaw.code] = seen.get(flaw.code, 0) + 1
        turns.append(seen[flaw.code])
    return tuple(flaw for _, flaw in sorted(zip(turns, flaws, strict=True), key=lambda pair: pair[0]))


def _call(record: Record) -> Record:
    """The first tool call of an agentic record: turn 2, after the system and the user."""
    call: Record = record["interactions"][2]["tool_calls"][0]
    return call


FLAWS: Final = _rounds(
    (
        _hole("json.utf8", b'"caf\xe9"'),  # Latin-1
        _hole("json.utf8", b'"\xc3"'),  # cut in the middle of a character
        _hole("json.utf8", b'"\xed\xa0\xbd"'),  # a surrogate spelled as if it were a character
        _hole("json.utf8", b'"\xc0\xaf"'),  # longer than it needs to be
        _hole("json.depth", b"[" * DEEP + b"]" * DEEP),
        _hole("json.depth", b'{"a": ' * DEEP + b"null" + b"}" * DEEP),
        _cut(lambda line: line[: len(line) // 3].decode(errors="ignore").encode()),  # cut between characters
        _cut(lambda line: line + b" " + line),
        _cut(lambda line: line.rstrip()[:-1] + b",}"),
        _cut(lambda line: line.rstrip()[:-1]),
        _cut(lambda line: b"ERROR: worker 3 died, 17 samples lost"),
        _hole("json.syntax", b"True"),
        _hole("json.syntax", b"'single'"),
        _hole("json.syntax", b'"raw \x01 control"'),
        _hole("json.syntax", b"01"),
        _hole("json.syntax", b'"\\x41"'),
        _hole("json.number", b"NaN", "evaluation", "score"),
        _hole("json.number", b"Infinity", "performance", "latency_ms"),
        _hole("json.number", b"-Infinity"),
        _hole("json.number", b"1e999"),
        _hole("json.surrogate", b'"\\ud83d"'),
        _hole("json.surrogate", b'"\\ude00\\ud83d"'),
        _hole("json.surrogate", b'{"\\udc80": 1}'),
        _hole("json.duplicate_key", b'true, "is_correct": true', "evaluation", "is_correct"),
        _hole("json.duplicate_key", b'true, "is_c\\u006frrect": false', "evaluation", "is_correct"),
        _hole("json.duplicate_key", b'{"a": [{"b": 1, "b": 2}]}'),
        Flaw("schema.type", None, lambda record, spelling: b"[]"),
        Flaw("schema.type", None, lambda record, spelling: b"42"),
        Flaw("schema.type", None, lambda record, spelling: b"null"),
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
        _spoil("schema.type", lambda record: record["interactions"][1].update(turn_idx="1"), "multi_turn"),
        _spoil("schema.type", lambda record: _call(record).update(arguments="{}"), "agentic"),
        _spoil("schema.required", lambda record: record.pop("model_id")),
        _spoil("schema.required", lambda record: record.pop("sample_id")),
        _spoil("schema.required", lambda record: record.pop("answer_attribution")),
        _spoil("schema.required", lambda record: record["input"].pop("reference")),
        _spoil("schema.required", lambda record: record["evaluation"].pop("is_correct")),
        _spoil("schema.required", lambda record: record["answer_attribution"][0].pop("is_terminal")),
        _spoil("schema.required", lambda record: record["interactions"][0].pop("role"), "multi_turn"),
        _spoil("schema.required", lambda record: _call(record).pop("name"), "agentic"),
        _usage("schema.required", total_tokens=...),
        _put("schema.enum", "interaction_type", "chat"),
        _put("schema.enum", "interaction_type", "Single_Turn"),
        _usage("schema.minimum", input_tokens=-1),
        _put("schema.minimum", "performance", {"latency_ms": -0.5}),
        _put("schema.minimum", "num_turns", 0, "evaluation"),
        _spoil("schema.minimum", lambda record: record["answer_attribution"][0].update(turn_idx=-1)),
        _spoil("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=7), "agentic"),
        _spoil("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=None), "agentic"),
        _spoil("schema.one_of", lambda record: record["interactions"][3].update(tool_call_id=["a", 1]), "agentic"),
        _spoil("rule.single_turn_output", lambda record: record.pop("output"), "single_turn"),
        _put("rule.single_turn_output", "output", None, needs="single_turn"),
        _put("rule.single_turn_interactions", "interactions", [], needs="single_turn"),
        _spoil("rule.multi_turn_interactions", lambda record: record.pop("interactions"), "multi_turn"),
        _put("rule.multi_turn_interactions", "interactions", None, needs="agentic"),
        _put("rule.multi_turn_output", "output", {"raw": "42"}, needs="multi_turn"),
        _put("rule.multi_turn_output", "output", {"raw": "42"}, needs="agentic"),
        _put("rule.metrics_num_turns", "metrics", {}, needs="multi_turn"),
        _put("rule.metrics_num_turns", "metrics", {"turns": 3}, needs="agentic"),
    ),
)
