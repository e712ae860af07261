"""Sizes of a response, the same in all formats: characters, turns and tool calls.

    response_characters   characters of what the model said: `output.raw`, all of its texts if it is a list, or the
                          content of all turns of the role `assistant`; without reasoning; nothing if no turn has this
                          role
    turns                 number of turns, of all roles; 1 for single_turn
    tool_calls            number of tool calls in all turns; 0 for single_turn

They are counted in the record itself. What the record claims is in `evaluation.num_turns` and `tool_calls_count`.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["MEASURES", "measure"]

MEASURES: Final = ("response_characters", "turns", "tool_calls")
_MODEL: Final = "assistant"


def measure(output: Any, turns: Any) -> tuple[int | None, int, int]:
    """Return the sizes of a response, in the order of `MEASURES`.

    Args:
        output: The output of a single turn, or nothing.
        turns: A list of turns, or nothing.
    """
    if turns.__class__ is not list:
        return _characters(output.raw) if output else None, 1, 0
    said = [len(turn.content) if turn.content else 0 for turn in turns if turn.role == _MODEL]
    calls = sum([len(turn.tool_calls) for turn in turns if turn.tool_calls])
    return sum(said) if said else None, len(turns), calls


def _characters(raw: str | list[str]) -> int:
    return len(raw) if raw.__class__ is str else sum(map(len, raw))
