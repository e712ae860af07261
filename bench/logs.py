"""Large logs of harnesses, generated from a seed.

`logs.json` has the documents of the harnesses, with what is drawn for each of them; the writers
make as many as are wanted, and state their means.

    lm-eval   the samples of two tasks and the results of their run: four continuations with two
              metrics, and a worked answer from which two filters extract. Lines have about 2 KB, or
              about 7 KB with examples in the prompts
    Inspect   transcripts of agents in a `.eval`: messages, and again as events, which are more than
              half of the text; output of tools is in attachments, as Inspect writes since 0.3.206
    HELM      indented JSON; tokens with their log-probabilities are most of the text
    a table   CSV with a question, an answer of 1 KB, its verdict and two columns of metadata
"""

import csv
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import msgspec
import zstandard

from bench.documents import Document, Documents
from bench.templates import table

ANSWERS = "answers.csv"
_DATE = "2026-03-01T12-00-00.000000"
_ZSTD = 93  # the method of a member of a zip archive
_TEMPLATES = table("logs.json")
_encode = msgspec.json.Encoder().encode


def _write_lm_eval(seed: int, directory: Path, questions: int, shots: int = 0) -> tuple[int, int]:
    run = Documents(_TEMPLATES["lm-eval"], seed)
    examples = "".join(run.make("example")["text"] for _ in range(shots))
    facts = {"questions": questions, "examples": examples}
    results = {}
    size = 0
    for task, filters in _TEMPLATES["lm-eval"]["tasks"].items():
        totals: Counter[str] = Counter()
        with (directory / f"samples_{task}_{_DATE}.jsonl").open("wb") as file:
            for filter_ in filters:
                for number in range(questions):
                    harness = Documents(_TEMPLATES["lm-eval"], seed, number)
                    line = harness.make(task, number=number, filter=filter_, **facts)
                    for metric in line["metrics"]:
                        totals[f"{metric},{filter_}"] += line[metric]
                    size += file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        means = {metric: total / questions for metric, total in totals.items()}
        results[task] = {"alias": task, **means}
    document = run.make("results", results=results, **facts)
    path = directory / f"results_{_DATE}.json"
    size += path.write_bytes(json.dumps(document, indent=2).encode())
    return questions * sum(map(len, _TEMPLATES["lm-eval"]["tasks"].values())), size


def _write_inspect(seed: int, directory: Path, samples: int) -> tuple[int, int]:
    compress = zstandard.ZstdCompressor(level=3).compress
    run = Documents(_TEMPLATES["inspect"], seed)
    facts = {"samples": samples, "plan": run.make("plan"), "tools": run.make("tools")}
    facts["spec"] = run.make("spec", **facts)
    solved = size = 0
    with ZipFile(directory / "2026-05-01T12-00-00-00-00_agent_log.eval", "w") as archive:

        def add(name: str, document: Any) -> int:
            text = _encode(document)
            member = ZipInfo(name)
            archive.writestr(member, compress(text))
            # `zipfile` has no zstd before Python 3.14; what counts is the directory at the end.
            member.compress_type = _ZSTD
            member.CRC = zlib.crc32(text)
            member.file_size = len(text)
            return len(text)

        size += add("_journal/start.json", run.make("start", **facts))
        for number in range(samples):
            harness = Documents(_TEMPLATES["inspect"], seed, number)
            sample = _transcript(harness, {"number": number, **facts})
            solved += sample["scores"]["checker"]["value"] == "C"
            size += add(f"samples/task-{number}_epoch_1.json", sample)
        size += add("header.json", run.make("header", accuracy=solved / samples, **facts))
    return samples, size


def _transcript(harness: Documents, facts: Document) -> Any:
    """A sample: its turns are in its messages and again in its events, with attachments."""
    facts |= harness.make("facts")
    pieces = harness.make("turns", **facts)
    turns = [pieces["first"], *pieces["turns"], pieces["last"]]
    for name in turns[0]:
        facts[name] = list(chain.from_iterable(turn[name] for turn in turns))
    facts["attachments"] = dict(facts["attachments"])
    return harness.make("sample", **facts)


def _write_helm(seed: int, directory: Path, instances: int) -> tuple[int, int]:
    run = Documents(_TEMPLATES["helm"], seed)
    facts = run.make("facts")
    totals: Counter[str] = Counter()
    states = []
    stats = []
    for number in range(instances):
        harness = Documents(_TEMPLATES["helm"], seed, number)
        states.append(msgspec.Raw(_encode(harness.make("state", number=number, **facts))))
        values = harness.make("values")
        totals.update(values)
        each = [_stat(harness, name, value) for name, value in values.items()]
        stats.append(msgspec.Raw(_encode(harness.make("stats", number=number, stats=each))))
    means = [_stat(run, name, total / instances) for name, total in totals.items()]
    documents = run.make("documents", states=states, instances=stats, means=means)
    folder = directory / "stories"
    folder.mkdir()
    size = 0
    for name, document in documents.items():
        text = msgspec.json.format(_encode(document), indent=2)
        size += (folder / f"{name}.json").write_bytes(text)
    return instances, size


def _stat(harness: Documents, name: str, value: float) -> Any:
    return harness.make("stat", name=name, value=value, square=value * value)


def _write_table(seed: int, directory: Path, rows: int) -> tuple[int, int]:
    harness = Documents(_TEMPLATES["table"], seed)
    path = directory / ANSWERS
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _TEMPLATES["table"]["names"])
        writer.writeheader()
        for number in range(rows):
            question, model = divmod(number, 4)
            row = harness.make("row", question=question, model=model, subject=number % 20)
            writer.writerow(row)
    return rows, path.stat().st_size


# What writes a log of some size into a directory, and returns its samples and bytes of text.
WRITERS: Mapping[str, Callable[[int, Path, int], tuple[int, int]]] = {
    "lm-eval": _write_lm_eval,
    "lm-eval-shots": partial(_write_lm_eval, shots=5),
    "inspect": _write_inspect,
    "helm": _write_helm,
    "table": _write_table,
}


def files_in(directory: Path) -> list[Path]:
    """The files of a log, without what describes it."""
    paths = directory.rglob("*")
    return sorted(path for path in paths if path.is_file() and path.name != "corpus.json")
