"""A corpus to look at, and the real server in a thread."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import fastrec
from fastrec.commands.view import work
from fastrec.commands.view.server import View
from tests.samples import question, sample, sample_of

MARKUP = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
QUOTES = '" onmouseover="window.hacked = 1" autofocus onfocus="window.hacked = 1" x=\''
LINK = "javascript:window.hacked=1"
STEERING = "a\u202eb\x1b[31m\u2028\0\r\n\\x41\\2"
HOSTILE = (MARKUP, QUOTES, LINK, STEERING)
MODELS = ("org/a", "org/b", "org/c")
# For each question, whether a, b and c are right.
VERDICTS = ((1, 1, 1), (0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0))


def plain_records() -> list[dict[str, Any]]:
    """Five questions that three models answer; in the fourth, c has an error.

    B answers the last one twice.
    """
    records = []
    for number, verdicts in enumerate(VERDICTS):
        for model, right in zip(MODELS, verdicts, strict=True):
            record = sample(
                model_id=model,
                evaluation_name="sums",
                evaluation_id=f"sums/{model}",
                sample_id=f"q{number}",
                input=question(number),
                evaluation={"score": float(right), "is_correct": bool(right)},
                error="out of memory" if (number, model) == (3, "org/c") else None,
                output={
                    "raw": f"{model} says that the answer to question {number} is "
                    f"{7 * number + 1 - right}"
                },
            )
            records.append(record)
    again = {
        **records[-2],
        "output": {"raw": "It is 28 after all"},
        "evaluation": {"score": 1.0, "is_correct": True},
    }
    return [*records, again]


def agent_record() -> dict[str, Any]:
    """A transcript with reasoning, two failed calls and a long result."""
    call = {"id": "c1", "name": "search", "arguments": {"query": "6 x 7", "limit": 3}}
    turns = [
        {"turn_idx": 0, "role": "system", "content": "Use the tools."},
        {"turn_idx": 1, "role": "user", "content": "What is 6 x 7?"},
        {"turn_idx": 2, "role": "assistant", "content": "I look it up", "reasoning_trace": "secret thought",
         "tool_calls": [call, {**call, "id": "c2", "name": "calculate"}]},
        {"turn_idx": 3, "role": "tool", "content": "Error: no network", "tool_call_id": "c1"},
        {"turn_idx": 4, "role": "tool", "content": "needle " * 200, "tool_call_id": "c2"},
        {"turn_idx": 5, "role": "assistant", "content": "", "tool_calls": [{**call, "id": "c3"}]},
        {"turn_idx": 6, "role": "tool", "content": "Error: timeout", "tool_call_id": "c3"},
        {"turn_idx": 7, "role": "assistant", "content": "It is 42, says the needle"},
    ]  # fmt: skip
    names = {
        "evaluation_name": "agents",
        "evaluation_id": "agents/1",
        "model_id": "org/a",
        "sample_id": "task-1",
    }
    return sample("agentic", **names, interactions=turns, error=None)


def hostile_records() -> list[dict[str, Any]]:
    """Records in which every text tries to be something else."""
    records = []
    for text in (*HOSTILE, "m" * 3_000):
        names = dict.fromkeys(("model_id", "evaluation_name", "evaluation_id", "sample_id"), text)
        asked = {"raw": text * 3, "formatted": text, "reference": text, "choices": [text, "b"]}
        single = sample(
            **names, input=asked, output={"raw": text, "reasoning_trace": text}, error=text
        )
        other = {
            **single,
            "model_id": f"{text}2",
            "output": {"raw": text + "x"},
            "metadata": {text: text},
        }
        turns = [
            {"turn_idx": 0, "role": "assistant", "content": text, "reasoning_trace": text,
             "tool_calls": [{"id": text, "name": text, "arguments": {text: text}}]},
            {"turn_idx": 1, "role": "tool", "content": text, "tool_call_id": text},
        ]  # fmt: skip
        agent = {
            **sample("agentic", **names, input=asked, error=None),
            "model_id": f"{text}3",
            "interactions": turns,
        }
        records += [single, other, agent]
    return records


def metric_records() -> list[dict[str, Any]]:
    """One question with two metrics, the second of them graded."""
    names = {"evaluation_name": "graded", "evaluation_id": "graded/1", "sample_id": "g1"}
    return [
        sample_of("0.3.0", model_id=model, evaluation_result_id=metric, error=None,
                  evaluation={"score": score, "is_correct": right}, **names)
        for model, score in (("org/a", 0.25), ("org/b", 0.75))
        for metric, score, right in (("accuracy", float(score > 0.5), score > 0.5), ("f1", score, score > 0.5))
    ]  # fmt: skip


def make_corpus(folder: Path, records: list[dict[str, Any]], name: str = "corpus") -> Path:
    """Normalize some records."""
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    fastrec.normalize(folder / f"{name}.jsonl", folder / name)
    return folder / name


@contextlib.contextmanager
def serving(corpus: Path | str, **options: Any) -> Iterator[View]:
    """The real server, in a thread. Its pages wait long, so that they are complete."""
    with patch.object(work, "_PATIENCE", 30), fastrec.view(corpus, **options) as opened:
        thread = threading.Thread(target=opened.serve)
        thread.start()
        try:
            yield opened
        finally:
            opened.stop()
            thread.join(10)
            assert not thread.is_alive()


class Client:
    """Sends requests to a server as they are given, without help of a browser."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname
        assert parts.port
        self.port, self.prefix = parts.port, parts.path.rstrip("/")

    def send(
        self, path: str, method: str = "GET", *, form: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True)
            for name, value in ({"Host": f"127.0.0.1:{self.port}"} | headers).items():
                connection.putheader(name, value)
            if form:
                connection.putheader("Content-Length", str(len(form)))
            connection.endheaders(form or None)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, named, answer.read().decode()

    def page(self, path: str, status: int = 200) -> str:
        """Return a page below the token."""
        found, _, body = self.send(path if path.startswith(self.prefix) else f"{self.prefix}{path}")
        assert found == status, body
        return body
