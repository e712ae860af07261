"""The columns of a part by a plain reading of its lines, and a plain reader of the file."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from xxhash import xxh3_64_intdigest

from fastrec.judge.parse import spell

CODED = {
    "evaluation": "evaluation_name",
    "metric": "evaluation_result_id",
    "model": "model_id",
    "run": "evaluation_id",
    "hash": "sample_hash",
    "sample_id": "sample_id",
    "interaction_type": "interaction_type",
    "schema_version": "schema_version",
}
NOTES = {"judgement": 4, "cost": 8, "bookkeeping": 16}


def read_columns(path: Path) -> dict[str, Any]:
    """Read all frames of a file of columns, as docs/files.md describes it."""
    data = path.read_bytes()
    assert data[:8] == b"fastrec\1"
    end = 12 + int.from_bytes(data[8:12], "little")
    header = json.loads(zstandard.decompress(data[12:end]))
    columns: dict[str, Any] = {"header": header}
    for name, kind, size in header["frames"]:
        content = zstandard.decompress(data[end : end + size])
        columns[name] = (
            json.loads(content) if kind == "json" else np.frombuffer(content, f"<{kind}")
        )
        end += size
    assert end == len(data)
    return columns


def check_columns(path: Path, lines: Sequence[bytes], text_hash: str, *, has_metrics: bool) -> None:
    """Compare the columns of a part with its lines, which include their newlines."""
    columns = read_columns(path)
    records = [decode(line) for line in lines]
    assert columns["header"]["records"] == len(records)
    assert columns["header"]["text_xxh3_128"] == text_hash
    for name, field in CODED.items():
        values = [long_integer(value) for value in columns[f"values.{name}"]]
        expected = [
            record.get(field) if has_metrics or name != "metric" else None for record in records
        ]
        assert [values[code] for code in columns[name]] == expected, name
        assert len(values) == len({(type(value), value) for value in values}), name
    for name, expected in plain_numbers(records, lines).items():
        exact = {int(at): int(digits, 16) for at, digits in columns["exact"].get(name, {}).items()}
        found = columns[name].tolist()
        for at, (value, number) in enumerate(zip(expected, found, strict=True)):
            if value is None:
                assert math.isnan(number), name
            elif at in exact:
                assert exact[at] == value, name
                assert number != value, name
            else:
                assert number == value, name
    check_metadata(columns, [record.get("metadata") or {} for record in records])


@contextmanager
def long_integers() -> Iterator[None]:
    """Let Python read and print integers of any length."""
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(most)


def decode(line: bytes) -> dict[str, Any]:
    with long_integers():
        record: dict[str, Any] = json.loads(line)
    return record


def long_integer(value: Any) -> Any:
    return int(value["integer"], 16) if isinstance(value, dict) else value


def plain_numbers(
    records: Sequence[dict[str, Any]], lines: Sequence[bytes]
) -> dict[str, list[Any]]:
    """The values of each column of numbers; None for a latency that is not known."""
    usages = [record.get("token_usage") for record in records]
    numbers: dict[str, list[Any]] = {
        "correct": [record["evaluation"]["is_correct"] for record in records],
        "error": [bool(record.get("error")) for record in records],
        "score": [record["evaluation"]["score"] for record in records],
        "turns": [
            1 if turns_of(record) is None else len(turns_of(record) or ()) for record in records
        ],
        "tool_calls": [
            sum(len(turn.get("tool_calls") or ()) for turn in turns_of(record) or ())
            for record in records
        ],
        "has_tokens": [usage is not None for usage in usages],
        "latency_ms": [(record.get("performance") or {}).get("latency_ms") for record in records],
        "input_characters": [len(record["input"]["raw"]) for record in records],
        "response_characters": [sum(map(len, said(record))) for record in records],
        "notes": [notes_of(record.get("metadata") or {}) for record in records],
        "bytes": list(map(len, lines)),
        "fingerprint": list(map(xxh3_64_intdigest, lines)),
    }
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        numbers[name] = [usage[name] if usage else 0 for usage in usages]
    return numbers


def turns_of(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    name = "interactions" if isinstance(record["input"]["reference"], str) else "messages"
    turns: list[dict[str, Any]] | None = record.get(name)
    return turns


def said(record: dict[str, Any]) -> list[str]:
    raw = (record.get("output") or {}).get("raw", [])
    texts = [raw] if isinstance(raw, str) else list(raw)
    for turn in turns_of(record) or ():
        if turn["role"] == "assistant" and turn.get("content"):
            texts.append(turn["content"])
    return texts


def notes_of(metadata: dict[str, Any]) -> int:
    kind = metadata.get("metric_kind")
    notes = NOTES.get(kind, 0) if isinstance(kind, str) else 0
    notes += metadata.get("lower_is_better") in ("true", True)
    notes += 2 * (metadata.get("primary_metric") in ("true", True))
    return notes


def check_metadata(columns: dict[str, Any], metadata: Sequence[dict[str, Any]]) -> None:
    """A key has a column if it is among the first 64, and has at most 255 values of at most 128
    bytes each.
    """
    keys = list(dict.fromkeys(key for some in metadata for key in sorted(some)))
    coded = {}
    for key in keys[:64]:
        values = list(dict.fromkeys(spell(some[key]) for some in metadata if key in some))
        if len(values) <= 255 and max(map(len, values)) <= 128:
            coded[key] = values
    frames = [
        name
        for name, kind, _ in columns["header"]["frames"]
        if name.startswith("metadata.") and kind != "json"
    ]
    assert frames == [f"metadata.{key}" for key in coded]
    others = [key for key in keys[:64] if key not in coded]
    assert columns["metadata"] == {"keys": others, "more": len(keys) > 64}
    for key, values in coded.items():
        missing, *known = columns[f"values.metadata.{key}"]
        assert missing is None
        assert list(map(spell, known)) == values
        expected = [values.index(spell(some[key])) + 1 if key in some else 0 for some in metadata]
        assert columns[f"metadata.{key}"].tolist() == expected
