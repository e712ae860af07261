"""A plain reading of the lines of a corpus, to compare tables with."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from fastrec.sorting.keys import is_split
from tests import strategies

_FEW = {
    "evaluation_name": st.sampled_from(["e", "é/\n"]),
    "model_id": st.sampled_from(["m", "org/m", ""]),
    "evaluation_id": st.sampled_from(["r1", "r2"]),
    "sample_id": st.sampled_from([1, "1", -5, 10**30, "é\u2028", "=1"]),
    "input": st.sampled_from([{"raw": "q", "reference": "r"}, {"raw": "=q\x00", "reference": ""}]),
    "evaluation": st.builds(
        lambda score, is_correct: {"score": score, "is_correct": is_correct},
        st.booleans()
        | st.sampled_from(
            [0, 1, 0.5, -0.0, 1e22, 10**22, 1e300, 10**400, -(10**400), 2**53 + 1, 1e-7]
        )
        | strategies.floats,
        st.booleans(),
    ),
    "error": st.sampled_from(["", "failed,\n"]),
}
_OPTIONAL = st.lists(st.sampled_from(sorted(_FEW)), max_size=len(_FEW))


def _mix(record: dict[str, Any], few: dict[str, Any], own: Sequence[str]) -> dict[str, Any]:
    known = {name: value for name, value in few.items() if name not in own}
    return {name: value for name, value in record.items() if name != "sample_hash"} | known


hostile_records = st.builds(_mix, strategies.records, st.fixed_dictionaries(_FEW), _OPTIONAL)
"""Random records, many of which share questions, models and runs."""


def question_names(records: Sequence[dict[str, Any]]) -> list[str]:
    """The name of the question of each record."""
    samples = defaultdict(list)
    for record in records:
        run = record["model_id"], record["evaluation_id"]
        samples[_scope(record)].append((run, json.dumps(record["sample_id"]).encode()))
    split = {scope for scope, some in samples.items() if is_split(some)}
    return [
        record["sample_hash"]
        + (f"/{json.dumps(record['sample_id'], ensure_ascii=False)}" * (_scope(record) in split))
        for record in records
    ]


def _scope(record: dict[str, Any]) -> tuple[str, str | None, str]:
    return record["evaluation_name"], record.get("evaluation_result_id"), record["sample_hash"]


def double(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _Json(value)


class _Json:
    """A value that is equal to its spellings in JSON."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and repr(json.loads(other)) == repr(self._value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value)


def answers_of(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """The rows of the table `answers`, without sources."""
    records = [json.loads(line) for line in lines]
    trials: Counter[tuple[Any, ...]] = Counter()
    rows = []
    for record, question in zip(records, question_names(records), strict=True):
        identity = (
            record["evaluation_name"],
            record.get("evaluation_result_id"),
            question,
            record["model_id"],
        )
        trials[identity] += 1
        turns = record.get("messages") or record.get("interactions") or []
        reference = record["input"]["reference"]
        usage = record.get("token_usage") or {}
        raw = (record.get("output") or {}).get("raw", [])
        said = [turn.get("content") for turn in turns if turn["role"] == "assistant"]
        metadata = record.get("metadata")
        rows.append(
            {
                "evaluation": record["evaluation_name"],
                "metric": record.get("evaluation_result_id"),
                "model": record["model_id"],
                "question": question,
                "sample_id": str(record["sample_id"]),
                "input": record["input"]["raw"],
                "reference": reference if isinstance(reference, str) else "\n".join(reference),
                "output": "\n".join(
                    [*([raw] if isinstance(raw, str) else raw), *filter(None, said)]
                ),
                "correct": record["evaluation"]["is_correct"],
                "score": double(record["evaluation"]["score"]),
                "tokens_in": _count(usage.get("input_tokens")),
                "tokens_out": _count(usage.get("output_tokens")),
                "latency_ms": double((record.get("performance") or {}).get("latency_ms")),
                "error": record.get("error") or None,
                "turns": 1 if record["interaction_type"] == "single_turn" else len(turns),
                "tool_calls": sum(len(turn.get("tool_calls") or ()) for turn in turns),
                "metadata": [(name, _text(value)) for name, value in metadata.items()]
                if metadata
                else None,
                "trial": trials[identity],
            }
        )
    return rows


def _count(value: int | None) -> int | None:
    return value if value is not None and value < 2**63 else None


def matrix_of(
    lines: Sequence[bytes],
) -> tuple[list[list[str]], dict[str, dict[str, tuple[str, str]]]]:
    """The rows of `samples.csv` of records without metrics, and by model and column: score and
    verdict.
    """
    records = [json.loads(line) for line in lines]
    columns: dict[tuple[str, str, str], list[str]] = {}
    cells: dict[str, dict[str, tuple[str, str]]] = {}
    for record, line, question in zip(records, lines, question_names(records), strict=True):
        evaluation = record["evaluation_name"]
        sample_hash = record["sample_hash"]
        column = f"{evaluation}/{question}"
        row = [column, evaluation, sample_hash, str(record["sample_id"])]
        columns.setdefault((evaluation, sample_hash, question), row)
        of_model = cells.setdefault(record["model_id"], {})
        if not record.get("error"):
            verdict = str(int(record["evaluation"]["is_correct"]))
            of_model.setdefault(column, (_score(line), verdict))
    return [columns[key] for key in sorted(columns)], cells


def _score(line: bytes) -> str:
    """The score of a record with the digits of the line, and a decimal point or an exponent."""
    numbers = json.loads(line, parse_int=lambda digits: f"{digits}.0", parse_float=str)
    score = numbers["evaluation"]["score"]
    return {True: "1.0", False: "0.0"}[score] if isinstance(score, bool) else score
