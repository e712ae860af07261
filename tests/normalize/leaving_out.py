"""What `--same-run`, `--conflicts` and `--repeats` leave out of a set of records, slowly and
simply.

Written from the documentation, with the standard library: it shares no code with fastrec.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.normalize.normalizing import integer_of, sort_position

TRIAL_FIELDS = ("epoch", "trial", "seed")  # some of them
IDENTITY = ("evaluation_name", "evaluation_result_id", "sample_id", "model_id", "evaluation_id")


class LeftOut(NamedTuple):
    """What is left out, and what the summary says about it."""

    same_run: list[bytes]
    codes: dict[bytes, str]
    summary: dict[str, Any]


def leave_out(
    lines: Iterable[bytes], order: Sequence[str], *, same_run: str, conflicts: str, repeats: str
) -> LeftOut:
    """Decide about records in normal form without duplicates."""
    records = {line: json.loads(line, parse_int=integer_of) for line in lines}
    left = sorted(records, key=lambda line: sort_position(line, order))
    dropped = []
    pairs = Counter[tuple[Any, ...]]()
    if same_run == "ignore":
        for group in _groups(left, lambda line: _without_run(records[line])):
            dropped += group[1:]
            names = (
                records[group[0]][name] for name in ("evaluation_name", "model_id", "evaluation_id")
            )
            first = tuple(names)
            pairs.update((*first, records[line]["evaluation_id"]) for line in group[1:])
    left = [line for line in left if line not in dropped]
    codes: dict[bytes, str] = {}
    examples: dict[str, list[dict[str, Any]]] = {"repeats": [], "contradictions": []}
    for group in _groups(
        left, lambda line: _spelled([records[line].get(name) for name in IDENTITY])
    ):
        contradictions = [
            some
            for some in _groups(group, lambda line: _answer(records[line]))
            if len({_verdict(records[line]) for line in some}) > 1
        ]
        contradicting = [line for some in contradictions for line in some]
        if len(group) > 1:
            _add(examples["contradictions"], [records[line] for line in contradicting])
            _add(
                examples["repeats"], [records[line] for line in group if line not in contradicting]
            )
        units = _units(group, contradictions, conflicts, codes)
        if repeats == "first":
            codes |= {line: "repeat.not_first" for unit in units[1:] for line in unit}
        elif repeats == "reject" and len(units) > 1:
            codes |= {line: "repeat.rejected" for unit in units for line in unit}
    summary: dict[str, Any] = {kind: _summed(found) for kind, found in examples.items()}
    keys = ("evaluation_name", "model_id", "kept", "dropped")
    runs = [
        {**dict(zip(keys, pair, strict=True)), "records": count}
        for pair, count in sorted(pairs.items())
    ]
    summary["same_run"] = {"records": len(dropped), "runs": runs}
    return LeftOut(dropped, codes, summary)


def _units(
    group: list[bytes], contradictions: list[list[bytes]], conflicts: str, codes: dict[bytes, str]
) -> list[list[bytes]]:
    """Resolve contradictions; what is left in a unit is no repeat of each other."""
    units = [[line] for line in group if not any(line in some for some in contradictions)]
    for some in contradictions:
        if conflicts == "keep":
            units.append(some)
        elif conflicts == "first":
            units.append(some[:1])
            codes |= dict.fromkeys(some[1:], "conflict.not_first")
        else:
            codes |= dict.fromkeys(some, "conflict.rejected")
    return sorted(units, key=lambda unit: group.index(unit[0]))


def _groups(lines: Iterable[bytes], key: Callable[[bytes], Any]) -> list[list[bytes]]:
    groups: dict[Any, list[bytes]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return list(groups.values())


def _spelled(value: Any) -> str:
    return json.dumps(value)


def _without_run(record: dict[str, Any]) -> str:
    return _spelled(
        {
            key: value
            for key, value in record.items()
            if key not in ("evaluation_id", "schema_version")
        }
    )


def _answer(record: dict[str, Any]) -> str:
    metadata = record.get("metadata", {})
    trial = [
        (place.get(name, "absent"), name in place)
        for place in (record, metadata)
        for name in TRIAL_FIELDS
    ]
    outputs = [record.get(name) for name in ("output", "interactions", "messages")]
    return _spelled([record["sample_hash"], outputs, trial])


def _verdict(record: dict[str, Any]) -> tuple[Any, ...]:
    return (
        record["evaluation"]["score"],
        record["evaluation"]["is_correct"],
        record.get("error") or "",
    )


def _add(examples: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    if records:
        first = records[0]
        hashes = sorted({record["sample_hash"] for record in records})
        names = ("evaluation_name", "sample_id", "model_id", "evaluation_id")
        identity = {name: first[name] for name in names} | {
            "metric": first.get("evaluation_result_id")
        }
        examples.append({**identity, "records": len(records), "sample_hashes": hashes})


def _summed(examples: list[dict[str, Any]]) -> dict[str, Any]:
    def position(one: dict[str, Any]) -> tuple[Any, ...]:
        sample_id = one["sample_id"]
        metric = one["metric"]
        by_id = (isinstance(sample_id, str), sample_id)
        return (
            one["evaluation_name"],
            metric is not None,
            metric,
            by_id,
            one["model_id"],
            one["evaluation_id"],
        )

    records = sum(one["records"] for one in examples)
    return {
        "identities": len(examples),
        "records": records,
        "examples": sorted(examples, key=position)[:100],
    }
