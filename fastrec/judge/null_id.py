"""The repair of `evaluation_result_id: null` on the text of a line, for the fast path.

All lines of some producers have this mistake and no other. The slow path takes five times as long for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fastrec.judge.findings import Finding

__all__ = ["NULL_ID", "is_only_later", "without_null_id"]

NULL_ID: Final = Finding("repair.result_id_null", "$.evaluation_result_id", "null left out")
"""What the slow path reports of this repair."""

_KEY: Final = b'"evaluation_result_id"'
# A comma or the end of the object has to follow: cutting must not turn a line with a missing comma into valid JSON.
_NULL: Final = re.compile(rb'"evaluation_result_id"[ \t\r]*:[ \t\r]*null[ \t\r]*(,|(?=\}))')
_ERROR: Final = "got `null` - at `$.evaluation_result_id`"


def without_null_id(line: bytes, decode: Callable[[bytes], Any]) -> bytes | None:
    """Cut `evaluation_result_id: null` out of a line of the newest version; None if that is not its first mistake.

    A quote inside a string is escaped, so the key cannot be part of a string. `decode` says whether it is at the root.
    """
    match = _NULL.search(line)
    if match is None or line.count(_KEY) != 1:
        return None
    problem = ""
    try:
        decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        problem = str(exc)
    if not problem.endswith(_ERROR):
        return None
    before, after = line[: match.start()], line[match.end() :]
    return before + after if match[1] else before.rstrip().removesuffix(b",") + after


def is_only_later(record: Any) -> bool:
    """Return whether a decoded record of the newest version has something that no version with an open root allows."""
    asked, output, evaluation = record.input, record.output, record.evaluation
    return (
        asked.formatted is None
        or asked.choices is None
        or evaluation.num_turns is None
        or evaluation.tool_calls_count is None
        or record.metadata is None
        or record.sample_hash is None
        or record.messages.__class__ is list
        or bool(output and output.reasoning_trace is None)
    )
