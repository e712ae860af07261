"""What may happen to a valid record and leave it valid: strange keys, doubtful counts, copies, reruns.

Strange keys and doubts change the record in place, before it is spelled. `respelled` and `rerun` make a
second record out of one that has been written, and leave the first one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.dice import Dice
from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.questions import Question
from fastrec.commands.generate.records import WRONG_HASH

__all__ = ["DOUBTS", "Doubt", "add_strange_keys", "rerun", "respelled"]

# The last two come in one order by code point and in the other by UTF-16 unit.
STRANGE_KEYS: Final = (
    "harness",
    "Zone",
    "_private",
    "a b",
    "",
    "ключ",
    "raw_score",
    "\uff5a",
    "😀",
)
NULLABLE: Final = ("output", "interactions", "token_usage", "performance", "error")


class Doubt(NamedTuple):
    """One warning: its code, the interaction types that can have it, and how it comes to a record."""

    code: str
    kinds: tuple[str, ...]
    raise_in: Callable[[Record], object]


CONVERSATIONS: Final = ("multi_turn", "agentic")
ALL: Final = ("single_turn", *CONVERSATIONS)
USAGE: Final = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 43}


def _shift(record: Record) -> None:
    for turn in record["interactions"]:
        turn["turn_idx"] += 1


DOUBTS: Final = (
    Doubt("warn.num_turns_missing", CONVERSATIONS, lambda record: record["evaluation"].pop("num_turns")),
    Doubt(
        "warn.num_turns",
        CONVERSATIONS,
        lambda record: record["evaluation"].update(num_turns=len(record["interactions"]) + 3),
    ),
    Doubt(
        "warn.tool_calls_count",
        CONVERSATIONS,
        lambda record: record["evaluation"].update(tool_calls_count=record["evaluation"]["tool_calls_count"] + 1),
    ),
    Doubt("warn.turn_idx", CONVERSATIONS, _shift),
    Doubt(
        "warn.attribution_turn",
        CONVERSATIONS,
        lambda record: record["answer_attribution"][0].update(turn_idx=len(record["interactions"]) + 5),
    ),
    Doubt(
        "warn.tool_call_id",
        ("agentic",),
        lambda record: record["interactions"][3].update(tool_call_id="call_nobody"),
    ),
    Doubt("warn.total_tokens", ALL, lambda record: record.update(token_usage=dict(USAGE))),
    Doubt("warn.sample_hash", ALL, lambda record: record.update(sample_hash=WRONG_HASH)),
)


def add_strange_keys(dice: Dice, record: Record) -> None:
    """Keys that the schema does not name, in one to three of the record's objects."""
    places = [record, record["input"], record["evaluation"], record["answer_attribution"][0]]
    places += [record[key] for key in ("output", "token_usage", "performance") if record.get(key)]
    for turn in (record.get("interactions") or ())[:6]:
        places.append(turn)
        places += turn.get("tool_calls") or ()
    for _ in range(dice.between(1, 3)):
        dice.pick(places)[dice.pick(STRANGE_KEYS)] = _anything(dice, 3)
    if dice.chance(0.02):
        record['quote"d'] = _anything(dice, 1)
    if dice.chance(0.2):  # the one unknown key that the schema has a rule for
        record["metrics"] = dice.pick(({"num_turns": 1}, {"num_turns": "many", "b": 1, "a": 2}, [], None, 0.25))


def _anything(dice: Dice, depth: int) -> Any:
    throw = dice.below(9 if depth else 7)
    if throw == 7:
        return [_anything(dice, depth - 1) for _ in range(dice.below(4))]
    if throw == 8:
        return {dice.pick(STRANGE_KEYS): _anything(dice, depth - 1) for _ in range(dice.between(1, 4))}
    return (None, True, dice.bits(80), -dice.below(100), round(dice.roll(), 4), 1.0, f"“{dice.bits(32):x}”")[throw]


def respelled(record: Record, question: Question) -> Record:
    """The same record to any reader: nulls for nothing or the reverse, a hash or none, `1.0` for `1`."""
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


def rerun(dice: Dice, record: Record, question: Question) -> Record:
    """The same question to the same model in the same run, and another answer: a conflict."""
    copy = dict(record)
    answer = question.table.write(dice, dice.tail(40, 400))
    if record["interaction_type"] == "single_turn":
        copy["output"] = {**record["output"], "raw": f"{answer} ({dice.bits(32):08x})"}
    else:
        *turns, last = record["interactions"]
        copy["interactions"] = [*turns, {**last, "content": f"{answer} ({dice.bits(32):08x})"}]
    correct = not record["evaluation"]["is_correct"]
    copy["evaluation"] = {**record["evaluation"], "score": correct, "is_correct": correct}
    return copy
