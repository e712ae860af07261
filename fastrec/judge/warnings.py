"""Warnings: what is odd about a valid record. A row a warning; none of them changes a verdict.

Each row is a function from a record to the places and messages of what it finds. A row that only speaks of
conversations is not asked about single turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from fastrec.judge.findings import Finding, describe
from fastrec.schemas.v0_2_0 import Interaction, Record

__all__ = ["ROWS", "warnings_of"]

Row = Callable[[Record, list[Interaction]], Iterator[tuple[str, str]]]


def _num_turns_missing(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    if record.evaluation.num_turns is UNSET:
        yield "$.evaluation.num_turns", f"expected the number of turns, {len(turns):,}, found nothing"


def _num_turns(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    given = record.evaluation.num_turns
    if given is not UNSET and given != len(turns):
        yield (
            "$.evaluation.num_turns",
            f"expected the number of turns, {len(turns):,}, found {describe(given)}",
        )


def _tool_calls_count(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    given = record.evaluation.tool_calls_count
    if given is not UNSET:
        count = sum(len(turn.tool_calls) for turn in turns if turn.tool_calls)
        if given != count:
            yield (
                "$.evaluation.tool_calls_count",
                f"expected the number of tool calls, {count:,}, found {describe(given)}",
            )


def _turn_idx(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    for index, turn in enumerate(turns):
        if turn.turn_idx != index:
            yield f"$.interactions[{index}].turn_idx", f"expected {index}, found {describe(turn.turn_idx)}"
            return  # one gap shifts all that follow


def _attribution_turn(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    last = max(len(turns) - 1, 0)
    for index, attribution in enumerate(record.answer_attribution):
        if attribution.turn_idx > last:
            path = f"$.answer_attribution[{index}].turn_idx"
            yield path, f"expected at most the last turn, {last}, found {describe(attribution.turn_idx)}"


def _tool_call_id(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    calls: set[str] = set()
    for index, turn in enumerate(turns):
        if turn.tool_calls:
            calls.update(call.id for call in turn.tool_calls)
        answered = turn.tool_call_id
        if answered is not UNSET:
            for call in [answered] if isinstance(answered, str) else answered:
                if call not in calls:
                    yield (
                        f"$.interactions[{index}].tool_call_id",
                        "expected the id of an earlier tool call, found another",
                    )


def _total_tokens(record: Record, turns: list[Interaction]) -> Iterator[tuple[str, str]]:
    usage = record.token_usage
    if usage:
        total = usage.input_tokens + usage.output_tokens
        if usage.total_tokens != total:
            yield "$.token_usage.total_tokens", "expected input_tokens + output_tokens, found another sum"


ROWS: Final[dict[str, Row]] = {
    "warn.num_turns_missing": _num_turns_missing,
    "warn.num_turns": _num_turns,
    "warn.tool_calls_count": _tool_calls_count,
    "warn.turn_idx": _turn_idx,
    "warn.attribution_turn": _attribution_turn,
    "warn.tool_call_id": _tool_call_id,
    "warn.total_tokens": _total_tokens,
}
_OF_CONVERSATIONS: Final = (
    "warn.num_turns_missing",
    "warn.num_turns",
    "warn.tool_calls_count",
    "warn.turn_idx",
    "warn.tool_call_id",
)
_SINGLE_TURN: Final = [(code, row) for code, row in ROWS.items() if code not in _OF_CONVERSATIONS]
_CONVERSATION: Final = list(ROWS.items())


def warnings_of(record: Record, given_hash: str | UnsetType, computed_hash: str) -> list[Finding]:
    """List what is odd about a valid record; the hashes are the `sample_hash` it came with and what it ought to be."""
    turns = record.interactions or []
    found = [
        Finding(code, path, message)
        for code, row in (_SINGLE_TURN if record.interaction_type == "single_turn" else _CONVERSATION)
        for path, message in row(record, turns)
    ]
    if given_hash is not UNSET and given_hash != computed_hash:
        found.append(
            Finding(
                "warn.sample_hash",
                "$.sample_hash",
                "expected the hash of input.raw + input.reference, found another",
            )
        )
    return found
