"""Small logs of Inspect that the tests write, and what becomes of them."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zstandard

import fastrec
from fastrec.harnesses import inspect
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.inspect import LogSlice
from fastrec.harnesses.log import FoundFile, Log, LogPlan
from fastrec.harnesses.recognise import head_of
from tests.harnesses.converting import lines_of, role_of

STORED = 0
DEFLATE = 8
ZSTD = 93
# A real log has results of calls that it does not have, and the total of tokens may include cached
# ones.
UNAVOIDABLE = {"warn.tool_call_id", "warn.total_tokens"}


class Imported(NamedTuple):
    """A log, and the records that it became."""

    plan: LogPlan
    records: list[dict[str, Any]]
    converter: Converter

    def by_metric(self, **wanted: str) -> dict[str, dict[str, Any]]:
        """The records of one sample."""
        found = [
            one for one in self.records if wanted.items() <= {**one, **one["metadata"]}.items()
        ]
        assert len({one["evaluation_result_id"] for one in found}) == len(found)
        return {one["evaluation_result_id"]: one for one in found}


def log_at(path: str | Path) -> Log:
    """The log in a file, which must be one of Inspect."""
    name = str(path)
    role = role_of("inspect", head_of(name), name)
    assert role is not None
    return Log("inspect", name, (FoundFile(name, 0, role),))


def imported(path: str | Path) -> Imported:
    """Import a log; every record has to be valid."""
    log = log_at(path)
    plan = inspect.plan(log)
    converter = Converter("inspect", plan.run)
    records = []
    for piece in msgspec.msgpack.decode(msgspec.msgpack.encode(plan.slices), type=list[LogSlice]):
        for sample in inspect.samples(log, plan.run, piece):
            for _, line in lines_of(converter, sample):
                verdict = fastrec.judge(line)
                assert verdict.valid, verdict
                assert not {finding.code for finding in verdict.warnings} - UNAVOIDABLE, (
                    verdict.warnings
                )
                records.append(json.loads(line))
    return Imported(plan, records, converter)


def only(path: str | Path) -> dict[str, Any]:
    """The only record of a log."""
    (record,) = imported(path).records
    return record


def entry(
    scorer: str, name: str = "", reducer: str | None = None, **metrics: float
) -> dict[str, Any]:
    """An entry of the results."""
    figures = {metric: {"name": metric, "value": value} for metric, value in metrics.items()}
    found = {"name": name or scorer, "scorer": scorer, "reducer": reducer, "metrics": figures}
    return {key: value for key, value in found.items() if value is not None}


def header(
    *entries: dict[str, Any], samples: int = 1, epochs: int | None = 1, **others: Any
) -> dict[str, Any]:
    """The header of a run that succeeded."""
    spec = {
        "run_id": "run1",
        "eval_id": "eval1",
        "created": "2025-02-07T12:00:00+00:00",
        "task": "arithmetic",
        "task_id": "task1",
        "dataset": {"name": "sums"},
        "model": "mockllm/model",
        "config": {"epochs": epochs} if epochs else {},
        "packages": {"inspect_ai": "0.3.100"},
    }
    results = {"total_samples": samples, "completed_samples": samples, "scores": list(entries)}
    found = {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"name": "plan"},
        "results": results,
    }
    return found | others


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "source": "input"}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def assistant(content: Any, *calls: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "source": "generate"}
    return message | ({"tool_calls": list(calls)} if calls else {})


def tool(content: Any, call: str, **others: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": call, "function": "bash"} | others


def sample(identity: Any = 1, **others: Any) -> dict[str, Any]:
    """A sample with one question, one answer and the score C."""
    found = {
        "id": identity,
        "epoch": 1,
        "input": "What is 6 x 7?",
        "target": "42",
        "messages": [user("What is 6 x 7?"), assistant("It is 42.")],
        "output": {
            "model": "model",
            "choices": [{"message": assistant("It is 42."), "stop_reason": "stop"}],
        },
        "scores": {"match": {"value": "C"}},
        "events": [{"event": "model", "output": {"choices": []}, "uuid": "…"}],
    }
    return {key: value for key, value in (found | others).items() if value is not None}


def scored(value: Any, **others: Any) -> dict[str, Any]:
    """A sample with this score."""
    return sample(scores={"match": {"value": value}}, **others)


def conversation(*messages: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A sample with these messages; the last one is the output."""
    return sample(
        messages=list(messages), output={"choices": [{"message": messages[-1]}]}, **others
    )


def write_json(
    path: Path, *samples: dict[str, Any], head: dict[str, Any] | None = None, indent: int | None = 2
) -> Path:
    """Write a `.json` log."""
    document = (head or header(entry("match"), samples=len(samples))) | {"samples": list(samples)}
    path.write_text(json.dumps(document, indent=indent))
    return path


def write_eval(
    path: Path,
    *samples: dict[str, Any],
    head: dict[str, Any] | None = None,
    method: int = ZSTD,
    frames: int = 1,
) -> Path:
    """Write a `.eval` log."""
    members: list[tuple[str, Any]] = [("_journal/start.json", {"version": 2})]
    members += [(f"samples/{one['id']}_epoch_{one['epoch']}.json", one) for one in samples]
    summaries = [{"id": one["id"], "epoch": one["epoch"]} for one in samples]
    members += [
        ("summaries.json", summaries),
        ("header.json", head or header(entry("match"), samples=len(samples))),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive(members, method, frames))
    return path


def archive(
    members: Iterable[tuple[str, Any]], method: int = ZSTD, frames: int = 1, **forged: int
) -> bytes:
    """Return a zip archive; `forged` replaces what the directory says about each member."""
    data = b""
    directory = []
    for name, content in members:
        text = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
        compressed = _compress(text, method, frames)
        title = name.encode()
        says = {
            "crc": zlib.crc32(text),
            "compressed": len(compressed),
            "size": len(text),
            "flags": 0x800,
        } | forged
        fixed = (
            says["flags"],
            method,
            0,
            0x21,
            says["crc"],
            says["compressed"],
            says["size"],
            len(title),
        )
        offset = len(data)
        data += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 63, *fixed, 0) + title + compressed
        directory.append(
            struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 63, 63, *fixed, 0, 0, 0, 0, 0, offset)
            + title
        )
    listing = b"".join(directory)
    count = len(directory)
    return (
        data
        + listing
        + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(listing), len(data), 0)
    )


def _compress(text: bytes, method: int, frames: int) -> bytes:
    if method == STORED:
        return text
    if method == DEFLATE:
        deflater = zlib.compressobj(wbits=-15)
        return deflater.compress(text) + deflater.flush()
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in _parts(text, frames))


def _parts(text: bytes, count: int) -> Sequence[bytes]:
    size = -(-len(text) // count) or 1
    return [text[start : start + size] for start in range(0, len(text), size)] or [b""]
