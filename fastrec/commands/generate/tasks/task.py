"""A task: a question together with the answers that models of any ability give to it.

A model gives a right answer with some probability, in one of four styles. A wrong answer has a visible cause: a slip in
one step, another choice, a result that was misread.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Record
from fastrec.commands.generate.text import Rng

__all__ = ["STYLES", "Given", "Task", "TaskMaker", "Trial", "call", "day", "said", "table", "tool_output"]

STYLES: Final = 4
"""How models write, by number: 0 briefly, 1 friendly, 2 step by step, 3 in Markdown and LaTeX."""


class Trial(NamedTuple):
    """One attempt of a model: its probability of being right, and its style."""

    rng: Rng
    ability: float
    style: int

    def succeeds(self) -> bool:
        """Return whether the answer, or one point of it, is right."""
        return self.rng.chance(self.ability)


class Given(NamedTuple):
    """A model's answer to a task; `turns` are those before the answer, without `turn_idx`."""

    text: str
    extracted: str
    score: float
    """From 0 to 1: the share of what was asked for."""
    reasoning: str
    turns: Sequence[Record] = ()


class Task(NamedTuple):
    """A question, and a function that answers it."""

    raw: str
    reference: str
    subject: str
    tags: Sequence[str]
    answer: Callable[[Trial], Given]
    choices: list[str] | None = None
    also: str = ""


TaskMaker = Callable[[Rng, int], Task]
"""Makes the task with a number, random in everything else. Neighbouring numbers give different kinds of tasks."""


def table(name: str) -> dict[str, Any]:
    """Read a table of texts."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def said(role: str, content: str) -> Record:
    """Return a turn of a conversation."""
    return {"role": role, "content": content}


def call(rng: Rng, name: str, **arguments: Any) -> Record:
    """Return the call of a tool."""
    made: Record = {"id": f"call_{rng.bits(48):012x}", "name": name}
    if arguments:
        made["arguments"] = arguments
    return made


def tool_output(content: str, *calls: Record) -> Record:
    """Return the turn with what tools answered to calls of one turn."""
    ids = [made["id"] for made in calls]
    return {"role": "tool", "content": content, "tool_call_id": ids[0] if len(ids) == 1 else ids}


def day(rng: Rng) -> str:
    """Return a date of 2026."""
    return f"2026-{rng.between(1, 12):02d}-{rng.between(1, 28):02d}"
