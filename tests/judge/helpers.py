"""Helpers that judge one line."""

from __future__ import annotations

import json
from typing import Any

from fastrec.judge.batch import Batch
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings


def judge(line: bytes, **options: Any) -> tuple[Batch, bytes]:
    out = bytearray()
    batch = Judge(JudgeSettings(**options)).judge_chunk(line, out)
    assert batch.lines == len(batch.records) + len(batch.rejected) + batch.blank
    return batch, bytes(out)


def codes(line: bytes | dict[str, Any], **options: Any) -> list[str]:
    """Return the error codes of a line; none if it is valid."""
    if isinstance(line, dict):
        line = json.dumps(line).encode()
    batch, _ = judge(line, **options)
    return [finding.code for invalid in batch.rejected for finding in invalid.findings]


def normal(line: bytes | dict[str, Any], **options: Any) -> bytes:
    """Return the normal form of a valid line."""
    if isinstance(line, dict):
        line = json.dumps(line).encode()
    batch, out = judge(line, **options)
    assert not batch.rejected, batch.rejected[0].findings
    return out


def warning_codes(record: dict[str, Any]) -> list[str]:
    batch, _ = judge(json.dumps(record).encode(), warnings=True)
    assert not batch.rejected, batch.rejected[0].findings
    return [finding.code for _, finding in batch.warnings]
