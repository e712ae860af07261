"""Variations of a valid record that are still valid: unknown keys, warnings, duplicates, conflicts.

`add_unknown_keys` and the rows of `WARNINGS` change a record in place. `respelled` and `answered_again` return a
second record and leave the first one unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.records import WRONG_HASH
from fastrec.commands.generate.text import Rng
from fastrec.commands.generate.writer import Question, Writer

__all__ = ["WARNINGS", "WarningRow", "add_unknown_keys", "answered_again", "respelled"]

# The last two sort differently by code point and by UTF-16 unit.
UNKNOWN_KEYS: Final = ("harness", "Zone", "_private", "a b", "", "ключ", "raw_score", "\uff5a", "😀")
NULLABLE: Final = ("output", "interactions", "token_usage", "performance", "error")


class WarningRow(NamedTuple):
    """One warning: its code, the interaction types that can have it, and the change that causes it."""

    code: str
    types: tuple[str, ...]
    apply: Callable[[Record], object]


CONVERSATIONS: Final = ("multi_turn", "agentic")
ALL: Final = ("single_turn", *CONVERSATIONS)
USAGE: Final = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 43}


def _count_one_more_call(record: Record) -> None:
    record["evaluation"]["tool_calls_count"] += 1


def _shift_turns(record: Record) -> None:
    for turn in record["interactions"]:
        turn["turn_idx"] += 1


WARNINGS: Final = (
    WarningRow("warn.num_turns_missing", CONVERSATIONS, lambda record: record["evaluation"].pop("num_turns")),
    WarningRow(
        "warn.num_turns",
        CONVERSATIONS,
        lambda record: record["evaluation"].update(num_turns=len(record["interactions"]) + 3),
    ),
    WarningRow("warn.tool_calls_count", CONVERSATIONS, _count_one_more_call),
    WarningRow("warn.turn_idx", CONVERSATIONS, _shift_turns),
    WarningRow(
        "warn.attribution_turn",
        CONVERSATIONS,
        lambda record: record["answer_attribution"][0].update(turn_idx=len(record["interactions"]) + 5),
    ),
    WarningRow(
        "warn.tool_call_id", ("agentic",), lambda record: record["interactions"][3].update(tool_call_id="call_nobody")
    ),
    WarningRow("warn.total_tokens", ALL, lambda record: record.update(token_usage=dict(USAGE))),
    WarningRow("warn.sample_hash", ALL, lambda record: record.update(sample_hash=WRONG_HASH)),
    WarningRow("version.unknown", ALL, lambda record: record.update(schema_version="v2")),
    WarningRow("version.mismatch", ALL, lambda record: record.update(schema_version="0.3.0")),
)


def add_unknown_keys(rng: Rng, record: Record) -> None:
    """Add keys that the schema does not name to one to three objects of the record."""
    objects = [record, record["input"], record["evaluation"], record["answer_attribution"][0]]
    objects += [record[key] for key in ("output", "token_usage", "performance") if record.get(key)]
    for turn in (record.get("interactions") or ())[:6]:
        objects.append(turn)
        objects += turn.get("tool_calls") or ()
    for _ in range(rng.between(1, 3)):
        rng.choice(objects)[rng.choice(UNKNOWN_KEYS)] = _any_value(rng, 3)
    if rng.chance(0.02):
        record['quote"d'] = _any_value(rng, 1)
    if rng.chance(0.2):  # the one unknown key that the schema has a rule for
        record["metrics"] = rng.choice(({"num_turns": 1}, {"num_turns": "many", "b": 1, "a": 2}, [], None, 0.25))


def _any_value(rng: Rng, depth: int) -> Any:
    kind = rng.below(9 if depth else 7)
    if kind == 7:
        return [_any_value(rng, depth - 1) for _ in range(rng.below(4))]
    if kind == 8:
        return {rng.choice(UNKNOWN_KEYS): _any_value(rng, depth - 1) for _ in range(rng.between(1, 4))}
    return (None, True, rng.bits(80), -rng.below(100), round(rng.random(), 4), 1.0, f"“{rng.bits(32):x}”")[kind]


def respelled(record: Record, question: Question) -> Record:
    """Return a record with the same normal form: with or without nulls and a hash, and `1.0` for `1`."""
    copy = {key: value for key, value in record.items() if value is not None or key not in NULLABLE}
    if len(copy) == len(record):
        copy.update((key, None) for key in NULLABLE if key not in record)
    if copy.get("sample_hash") == question.sample_hash:
        del copy["sample_hash"]
    elif "sample_hash" not in copy:
        copy["sample_hash"] = question.sample_hash
    first, *others = record["answer_attribution"]
    copy["answer_attribution"] = [{**first, "turn_idx": float(first["turn_idx"])}, *others]
    return copy


def answered_again(rng: Rng, writer: Writer, record: Record, question: Question) -> Record:
    """Return a record with the same identity and another answer: a conflict."""
    correct = not record["evaluation"]["is_correct"]
    answer, changes = writer.another_answer(rng, question, correct=correct)
    copy = {**record, **changes}
    if record["interaction_type"] == "single_turn":
        copy["output"] = {**record["output"], "raw": answer}
    else:
        *turns, last = record["interactions"]
        copy["interactions"] = [*turns, {**last, "content": answer}]
    copy["evaluation"] = {**record["evaluation"], "score": correct, "is_correct": correct}
    return copy
