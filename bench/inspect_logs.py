"""A generated log of Inspect: transcripts of agents in a `.eval`, a zip archive with members compressed by zstd.

A sample has its messages, and again as events: every call of the model, every tool, every change of
the state. Events are more than half of the text, and long texts in them are attachments, as Inspect
writes them since 0.3.206.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
import zstandard

from fastrec.commands.generate.text import PhraseTables, Rng, phrase_tables

__all__ = ["write_inspect"]

_MODEL: Final = "lab-1/model-7b"
_START: Final = "2026-05-01T12:00:00+00:00"
_TOOLS: Final = ("bash", "python", "web_search", "text_editor")
_ZSTD: Final = 93  # the method of a member
_LONG: Final = 100  # characters; longer texts in events become attachments
_encode: Final = msgspec.json.Encoder().encode


def write_inspect(seed: int, directory: Path, samples: int) -> tuple[int, int]:
    """Write the log; returns the number of samples and the size of its text."""
    tables = phrase_tables(seed)
    tools = [_tool(Rng(seed), tables, name) for name in _TOOLS]
    solved = 0
    with (directory / "2026-05-01T12-00-00-00-00_agent_log.eval").open("wb") as file:
        archive = _Archive(file)
        archive.add("_journal/start.json", {"version": 2, "eval": _spec(samples), "plan": _plan()})
        for number in range(samples):
            sample = _Sample(Rng((seed << 32) + number), tables, tools).document(number)
            solved += sample["scores"]["checker"]["value"] == "C"
            archive.add(f"samples/task-{number}_epoch_1.json", sample)
        archive.add("header.json", _header(samples, solved))
        archive.finish()
    return samples, archive.text_bytes


class _Sample:
    """The transcript of one sample."""

    def __init__(self, rng: Rng, tables: PhraseTables, tools: list[dict[str, Any]]) -> None:
        self._rng = rng
        self._tables = tables
        self._tools = tools
        self._events: list[dict[str, Any]] = []
        self._attachments: dict[str, str] = {}

    def document(self, number: int) -> dict[str, Any]:
        """The document of a member."""
        rng = self._rng
        write = self._tables.latin[0].write
        task = write(rng, rng.between(40, 120))
        messages = [
            {"id": self._id(), "content": write(Rng(number % 5), 120), "role": "system"},
            {"id": self._id(), "content": task, "source": "input", "role": "user"},
        ]
        self._event(
            "sample_init",
            sample={"input": self._attached(task), "target": "42", "id": f"task-{number}"},
        )
        for _ in range(rng.between(4, 24)):
            self._turn(messages)
        answer = {
            "id": self._id(),
            "content": write(rng, rng.between(10, 60)),
            "source": "generate",
        }
        messages.append({**answer, "role": "assistant", "model": _MODEL})
        usage = {_MODEL: self._usage()}
        score = {
            "value": rng.choice("CI"),
            "answer": str(rng.below(99)),
            "explanation": write(rng, 20),
            "history": [],
        }
        self._event(
            "state",
            changes=[
                {"op": "add", "path": f"/messages/{i}", "value": m}
                for i, m in enumerate(self._refs(messages))
            ],
        )
        self._event(
            "score",
            score=score,
            target="42",
            intermediate=False,
            scorer="checker",
            model_usage=usage,
        )
        output = {"message": messages[-1], "stop_reason": "stop"}
        return {
            "id": f"task-{number}",
            "epoch": 1,
            "input": task,
            "target": "42",
            "messages": messages,
            "output": {
                "model": _MODEL,
                "choices": [output],
                "completion": answer["content"],
                "usage": usage[_MODEL],
            },
            "scores": {"checker": score},
            "metadata": {"level": number % 3},
            "store": {},
            "events": self._events,
            "model_usage": usage,
            "started_at": _START,
            "completed_at": _START,
            "total_time": round(rng.random() * 90, 3),
            "working_time": round(rng.random() * 80, 3),
            "uuid": self._id(),
            "error_retries": [],
            "attachments": self._attachments,
            "events_data": {"messages": self._refs(messages), "calls": []},
        }

    def _turn(self, messages: list[dict[str, Any]]) -> None:
        """Let the model call a tool, and the tool answer."""
        rng = self._rng
        name = rng.choice(_TOOLS)
        code = self._tables.log.write(rng, rng.between(2, 40))
        call = {
            "id": f"call_{rng.bits(64):016x}",
            "function": name,
            "arguments": {"code": code},
            "type": "function",
        }
        content: Any = self._tables.latin[0].write(rng, rng.between(2, 30))
        if rng.chance(0.3):
            thought = {
                "type": "reasoning",
                "reasoning": self._tables.latin[0].write(rng, rng.between(10, 80)),
            }
            content = [thought, {"type": "text", "text": content}]
        turn = {
            "id": self._id(),
            "content": content,
            "source": "generate",
            "role": "assistant",
            "tool_calls": [call],
        }
        output = {
            "model": _MODEL,
            "choices": [{"message": turn, "stop_reason": "tool_calls"}],
            "usage": self._usage(),
        }
        self._event(
            "model",
            model=_MODEL,
            input=[],
            input_refs=[[0, len(messages)]],
            tools=self._tools,
            tool_choice="auto",
            config={"temperature": 0.7},
            output=output,
            call={
                "request": {"model": _MODEL, "tools": self._tools},
                "response": {"id": self._id(), "output": output},
            },
        )
        messages.append({**turn, "model": _MODEL})
        result = self._tables.log.write(rng, rng.long_tail(60, 600))
        self._event("tool", **call, result=self._attached(result), events=[], working_time=0.5)
        messages.append(
            {
                "id": self._id(),
                "content": result,
                "role": "tool",
                "tool_call_id": call["id"],
                "function": name,
            }
        )

    def _event(self, kind: str, **fields: Any) -> None:
        head = {
            "uuid": self._id(),
            "span_id": self._id(),
            "timestamp": _START,
            "working_start": self._rng.random(),
        }
        self._events.append({**head, "event": kind, **fields})

    def _refs(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Messages with long texts replaced by references to attachments."""
        return [
            {**message, "content": self._attached(message["content"])}
            if isinstance(message["content"], str)
            else message
            for message in messages
        ]

    def _attached(self, text: str) -> str:
        if len(text) <= _LONG:
            return text
        name = f"{zlib.crc32(text.encode()):032x}"
        self._attachments[name] = text
        return f"attachment://{name}"

    def _usage(self) -> dict[str, int]:
        read = self._rng.between(500, 9_000)
        written = self._rng.between(5, 900)
        return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}

    def _id(self) -> str:
        return f"{self._rng.bits(104):026x}"


class _Archive:
    """A zip archive whose members are compressed by zstd, which `zipfile` cannot write."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._directory: list[bytes] = []
        self._compress = zstandard.ZstdCompressor(level=3).compress
        self.text_bytes = 0

    def add(self, name: str, document: Any) -> None:
        """Add a member."""
        text = _encode(document)
        place = self._file.tell()
        data = self._compress(text)
        encoded = name.encode()
        common = struct.pack(
            "<3H4s3L2H",
            45,
            0x800,
            _ZSTD,
            bytes(4),
            zlib.crc32(text),
            len(data),
            len(text),
            len(encoded),
            0,
        )
        self._file.write(b"PK\3\4" + common + encoded + data)
        self._directory.append(
            b"PK\1\2"
            + struct.pack("<H", 45)
            + common
            + struct.pack("<3H2L", 0, 0, 0, 0, place)
            + encoded
        )
        self.text_bytes += len(text)

    def finish(self) -> None:
        """Write the directory."""
        place = self._file.tell()
        entries = b"".join(self._directory)
        count = len(self._directory)
        self._file.write(
            entries + b"PK\5\6" + struct.pack("<4H2LH", 0, 0, count, count, len(entries), place, 0)
        )


def _tool(rng: Rng, tables: PhraseTables, name: str) -> dict[str, Any]:
    properties = {"code": {"type": "string", "description": tables.latin[0].write(rng, 12)}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["code"],
        "additionalProperties": False,
    }
    return {"name": name, "description": tables.latin[0].write(rng, 25), "parameters": parameters}


def _spec(samples: int) -> dict[str, Any]:
    return {
        "eval_id": "a1",
        "run_id": "b2",
        "created": _START,
        "task": "agent",
        "task_id": "c3",
        "task_version": 0,
        "dataset": {"name": "tasks", "samples": samples},
        "model": _MODEL,
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
        "scorers": [
            {
                "name": "checker",
                "options": {},
                "metrics": [{"name": "inspect_ai/accuracy", "options": {}}],
            }
        ],
    }


def _plan() -> dict[str, Any]:
    return {"name": "plan", "steps": [{"solver": "react", "params": {}}], "config": {}}


def _header(samples: int, solved: int) -> dict[str, Any]:
    score = {
        "name": "checker",
        "scorer": "checker",
        "scored_samples": samples,
        "unscored_samples": 0,
        "params": {},
        "metrics": {"accuracy": {"name": "accuracy", "value": solved / samples, "params": {}}},
    }
    return {
        "version": 2,
        "status": "success",
        "eval": _spec(samples),
        "plan": _plan(),
        "results": {"total_samples": samples, "completed_samples": samples, "scores": [score]},
        "stats": {"started_at": _START, "completed_at": _START, "model_usage": {}},
    }
