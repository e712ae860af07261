"""Read an aggregate: what it states about its samples file and its results.

Only the fields that the check needs are decoded. Other JSON files, such as manifests, are told apart by
`evaluation_results`, which every aggregate has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.commands.check_pairs.names import quoted
from fastrec.judge.findings import Finding
from fastrec.judge.lanes import REFUSALS

__all__ = ["LARGEST", "Aggregate", "Metric", "NotAggregate", "Result", "Stated", "decode_aggregate", "result_findings"]

LARGEST: Final = 64 << 20
"""Bytes of an aggregate; they are a few kilobytes, and a larger file is something else."""


class Stated(msgspec.Struct, frozen=True):
    """What an aggregate states about its samples file: its `detailed_evaluation_results`."""

    file_path: str
    format: str
    hash_algorithm: str | None = None
    checksum: str | None = None
    total_rows: int | None = None


class Metric(msgspec.Struct, frozen=True):
    """What an aggregate says about a metric: its `metric_config`."""

    evaluation_description: str | None = None
    metric_id: str | None = None
    metric_name: str | None = None
    metric_kind: str | None = None
    metric_unit: str | None = None
    score_type: str | None = None
    min_score: float | str | None = None
    max_score: float | str | None = None


class _ScoreDetails(msgspec.Struct, frozen=True):
    score: msgspec.Raw


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Result(msgspec.Struct, frozen=True):
    evaluation_name: str
    score_details: _ScoreDetails
    metric_config: Metric
    evaluation_result_id: str | None = None


class _Aggregate(msgspec.Struct, frozen=True):
    evaluation_id: str
    model_info: _Model
    evaluation_results: list[_Result]
    detailed_evaluation_results: Stated | None = None


class Result(msgspec.Struct, frozen=True):
    """One of the `evaluation_results` of an aggregate."""

    name: str
    """Its `evaluation_name`."""
    id: str | None
    """Its `evaluation_result_id`."""
    metric: Metric
    score: str
    """The score as it is written, so that its decimals are known."""


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate, as far as the check needs it."""

    evaluation_id: str
    model_id: str
    results: tuple[Result, ...]
    stated: Stated | None


class NotAggregate(msgspec.Struct, frozen=True):
    """A file that is no aggregate, or that cannot be used as one."""

    problem: str
    path: str = "$"
    """The JSON path of the problem."""
    is_meant: bool = False
    """The file is meant to be an aggregate: it has `evaluation_results`."""


class _Outline(msgspec.Struct, frozen=True):
    evaluation_results: msgspec.Raw | UnsetType = UNSET


_outline: Final = msgspec.json.Decoder(_Outline).decode
_decode: Final = msgspec.json.Decoder(_Aggregate).decode
_number: Final = msgspec.json.Decoder(float).decode


def decode_aggregate(data: bytes) -> Aggregate | NotAggregate:
    """Decode an aggregate, or say why a file is none."""
    try:
        outline = _outline(data)
    except REFUSALS as exc:
        return NotAggregate(f"not an aggregate: {exc}")
    if outline.evaluation_results is UNSET:
        return NotAggregate("not an aggregate: it has no `evaluation_results`")
    try:
        found = _decode(data)
        for number, result in enumerate(found.evaluation_results):
            problem = _score_problem(bytes(result.score_details.score))
            if problem:
                path = f"$.evaluation_results[{number}].score_details.score"
                return NotAggregate(problem, path, is_meant=True)
    except REFUSALS as exc:
        problem, _, path = str(exc).partition(" - at `")
        return NotAggregate(problem, path.rstrip("`") or "$", is_meant=True)
    results = tuple(
        Result(
            one.evaluation_name, one.evaluation_result_id, one.metric_config, bytes(one.score_details.score).decode()
        )
        for one in found.evaluation_results
    )
    return Aggregate(found.evaluation_id, found.model_info.id, results, found.detailed_evaluation_results)


def _score_problem(text: bytes) -> str:
    """Say what is wrong with a score; empty if it is a number."""
    try:
        _number(text)
    except REFUSALS as exc:
        return str(exc)
    return ""


def result_findings(results: tuple[Result, ...]) -> Iterator[Finding]:
    """Find results that cannot be told apart."""
    seen: set[str] = set()
    for number, result in enumerate(results):
        if result.id is None:
            continue
        if result.id in seen:
            path = f"$.evaluation_results[{number}].evaluation_result_id"
            yield Finding(
                "pair.duplicate_result", path, f"expected another id for each result, found {quoted(result.id)} again"
            )
        seen.add(result.id)
