"""Comparing what a document says with what was found, value by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastrec.judge.findings import describe, json_path

__all__ = ["compare_documents", "expected"]

_ABSENT: Final = object()


def expected(said: Any, found: Any) -> str:
    """Say that a value differs."""
    return f"expected {_described(said)}, found {_described(found)}"


def compare_documents(said: Any, found: Any, steps: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Say each difference between two documents of plain values, with its place."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*said, *found)):
            yield from compare_documents(said.get(key, _ABSENT), found.get(key, _ABSENT), (*steps, key))
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for place, (ours, theirs) in enumerate(zip(said, found, strict=True)):
            yield from compare_documents(ours, theirs, (*steps, place))
    elif said != found:
        yield f"{json_path(steps)}: {expected(said, found)}"


def _described(value: Any) -> str:
    if isinstance(value, str) and len(value) <= 64:
        return value  # a whole checksum
    return "nothing" if value is _ABSENT else describe(value)
