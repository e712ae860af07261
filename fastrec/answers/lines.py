"""What the index takes from a line of a corpus."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.answers.marks import ERROR, RIGHT, WRONG, as_double
from fastrec.judge.parse import parse, spell

__all__ = ["EXCERPT_CHARS", "SEARCH_CHARS", "Asked", "Line", "asked_of", "read_line"]

EXCERPT_CHARS: Final = 200
SEARCH_CHARS: Final = 20_000
"""Characters of an input, and of its references, that a text search looks at."""

Texts = str | list[str] | UnsetType | None


class _Input(msgspec.Struct, gc=False):
    raw: str
    reference: str | list[str]


class _Output(msgspec.Struct, gc=False):
    raw: Texts = UNSET


class _Turn(msgspec.Struct, gc=False):
    content: str | UnsetType | None = UNSET


class _Evaluation(msgspec.Struct, gc=False):
    score: int | float | bool
    is_correct: bool


class _Record(msgspec.Struct, gc=False):
    model_id: str
    evaluation_name: str
    sample_id: Raw
    sample_hash: str
    input: _Input
    evaluation: _Evaluation
    evaluation_result_id: str | UnsetType = UNSET
    output: _Output | UnsetType | None = UNSET
    messages: list[_Turn] | UnsetType | None = UNSET
    interactions: list[_Turn] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


_decode = msgspec.json.Decoder(_Record).decode


class Asked(NamedTuple):
    """What a question asks."""

    excerpt: str
    text: bytes
    """What a text search looks at: UTF-8, without case."""
    chars: int


class Line(NamedTuple):
    """What the index takes from a line."""

    evaluation_name: str
    metric: str | None
    sample_hash: str
    model_id: str
    sample_id: bytes
    """As it is spelled in JSON."""
    flag: int
    """`RIGHT`, `WRONG` or `ERROR`."""
    score: float
    length: int
    """Characters of the output, or of all messages."""
    input: Any


def read_line(line: bytes | bytearray | memoryview) -> Line:
    """Read a line; MsgspecError if it is not a record."""
    try:
        record = _decode(line)
    except msgspec.MsgspecError:  # an integer may have more digits than msgspec decodes
        value = parse(bytes(line))[0]
        if not isinstance(value, dict) or "sample_id" not in value:
            raise
        value["sample_id"] = Raw(spell(value["sample_id"]))
        evaluation = value.get("evaluation")
        if isinstance(evaluation, dict) and isinstance(evaluation.get("score"), int):
            evaluation["score"] = as_double(evaluation["score"])
        record = msgspec.convert(value, _Record)
    judged = record.evaluation
    metric = record.evaluation_result_id
    return Line(
        record.evaluation_name,
        None if metric is UNSET else metric,
        record.sample_hash,
        record.model_id,
        bytes(record.sample_id),
        ERROR if record.error else RIGHT if judged.is_correct else WRONG,
        as_double(judged.score),
        _length(record),
        record.input,
    )


def _length(record: _Record) -> int:
    """Count the characters of the output, or of all messages."""
    turns = record.messages or record.interactions
    if turns:
        return sum([len(turn.content) for turn in turns if turn.content])
    raw = record.output.raw if record.output else None
    return len(raw) if isinstance(raw, str) else sum(map(len, raw or ()))


def asked_of(asked: _Input) -> Asked:
    """Return what the index keeps of an input."""
    references = asked.reference if isinstance(asked.reference, str) else "\0".join(asked.reference)
    text = f"{asked.raw[:SEARCH_CHARS]}\0{references[:SEARCH_CHARS]}".casefold()
    excerpt = " ".join(asked.raw[: 8 * EXCERPT_CHARS].split())[:EXCERPT_CHARS]
    return Asked(excerpt, text.encode(), len(asked.raw))
