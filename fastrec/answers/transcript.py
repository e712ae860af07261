"""The conversation in a record: who said what, with reasoning, tool calls and their results.

All schema versions and interaction types have this one form. A single turn is the input, then the output.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Call", "Transcript", "Turn", "transcript_of"]


class Call(msgspec.Struct, kw_only=True):
    """A call of a tool, with what it returned."""

    id: str
    name: str
    arguments: dict[str, str]
    """Values that are no text are JSON."""
    result: str | None = None
    """What the tool returned, if a later turn says so."""
    failed: bool = False
    """Whether the result is an error, as far as it says so."""


class Turn(msgspec.Struct, kw_only=True):
    """One turn of a conversation."""

    number: int
    role: str
    text: str
    reasoning: str = ""
    calls: list[Call] = msgspec.field(default_factory=list)
    answers_call: str | None = None
    """The id of the call whose result this turn is."""


class Transcript(msgspec.Struct, kw_only=True):
    """A conversation, and what it was judged by."""

    question: str
    """The `input.raw`."""
    prompt: str
    """The `input.formatted`; empty if there is none."""
    references: list[str]
    choices: list[str]
    turns: list[Turn]
    """What the model said and did; without the question, if the answer is a single turn."""
    extracted: list[str]
    """What was taken out of the conversation as the answer."""


def transcript_of(record: Any) -> Transcript:
    """Return the conversation of a record of any schema version."""
    raise NotImplementedError
