"""Logs of lm-eval that tests write, and their records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import fastrec
from fastrec.commands.import_logs.discover import logs_among
from fastrec.harnesses import lm_eval
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.log import FoundFile, Grouped, Log, LogPlan
from fastrec.harnesses.recognise import head_of, role_in
from tests.harnesses.converting import lines_of

DATE = "2025-03-01T10-00-00.123456"


def digest(value: Any) -> str:
    return sha256(str(value).encode()).hexdigest()


def generation(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A sample of a task that generates text."""
    row = {
        "doc_id": number,
        "doc": {"question": f"What is {number} + 1?", "answer": str(number + 1)},
        "target": str(number + 1),
        "arguments": {
            "gen_args_0": {"arg_0": f"Q: What is {number} + 1?\nA:", "arg_1": {"until": ["\n\n"]}}
        },
        "resps": [[f" It is {number + 1}."]],
        "filtered_resps": [str(number + 1)],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": digest(number),
        "prompt_hash": digest(f"p{number}"),
        "target_hash": digest(f"t{number}"),
        "exact_match": 1.0,
    }
    return row | changes


def choice(
    number: int = 0, likelihoods: Sequence[float] = (-4.0, -3.0, -9.0), **changes: Any
) -> dict[str, Any]:
    """A multiple-choice sample: `acc` picks `no`, and `acc_norm` the longer `not at all`."""
    choices = ["yes", "no", "not at all"][: len(likelihoods)]
    context = f"Question {number}: is it?\nAnswer:"
    answers = [[str(likelihood), "False"] for likelihood in likelihoods]
    row = {
        "doc_id": number,
        "doc": {"question": "is it?", "choices": choices, "label": 1},
        "target": "1",
        "arguments": {
            f"gen_args_{n}": {"arg_0": context, "arg_1": f" {text}"}
            for n, text in enumerate(choices)
        },
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": digest(number),
        "prompt_hash": digest(f"p{number}"),
        "target_hash": digest(f"t{number}"),
        "acc": 1.0,
        "acc_norm": 0.0,
    }
    return row | changes


def old(row: dict[str, Any]) -> dict[str, Any]:
    """A sample as it was before May 2024: no filter, metrics and hashes, arguments as lists, and
    numbers as numbers.
    """
    arguments = [list(request.values()) for request in row["arguments"].values()]
    gone = ("filter", "metrics", "doc_hash", "prompt_hash", "target_hash")
    return {key: value for key, value in row.items() if key not in gone} | {"arguments": arguments}


def results(
    figures: dict[str, Any], task: str = "task", config: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A results document of one task."""
    return {
        "results": {task: {"alias": task, **figures}},
        "configs": {task: {"task": task, "target_delimiter": " ", **(config or {})}},
        "versions": {task: 1.0},
        "n-shot": {task: 0},
        "config": {"model": "hf", "model_args": "pretrained=org/model,dtype=float16"},
        "date": 1740823200.25,
        "lm_eval_version": "0.4.8",
        **more,
    }


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    return path


def write_log(
    directory: Path,
    rows: Sequence[dict[str, Any]],
    document: dict[str, Any],
    task: str = "task",
    date: str = DATE,
) -> Log:
    """Write a log under the names that lm-eval gives it, and return it as it is found."""
    directory.mkdir(exist_ok=True, parents=True)
    write_lines(directory / f"samples_{task}_{date}.jsonl", rows)
    (directory / f"results_{date}.json").write_text(json.dumps(document, indent=2))
    return only_log(directory)


def found_in(directory: Path) -> list[FoundFile]:
    """The files of lm-eval in a directory, by their content."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    roles = [(path, role_in(str(path), head_of(str(path)), ["lm-eval"])) for path in paths]
    return [FoundFile(str(path), path.stat().st_size, role[1]) for path, role in roles if role]


def grouped(directory: Path) -> Grouped:
    return logs_among("lm-eval", found_in(directory))


def only_log(directory: Path) -> Log:
    groups = grouped(directory)
    assert not groups.bad
    assert len(groups.logs) == 1
    return groups.logs[0]


def records_of(log: Log, plan: LogPlan | None = None) -> list[dict[str, Any]]:
    """The records of a log.

    Each is valid, and means that the log states are those of the records.
    """
    plan = plan or lm_eval.plan(log)
    converter = Converter("lm-eval", plan.run)
    lines = [
        line
        for piece in plan.slices
        for one in lm_eval.samples(log, plan.run, piece)
        for _, line in lines_of(converter, one)
    ]
    for line in lines:
        verdict = fastrec.judge(line, schema="0.3.0")
        assert verdict.valid, verdict.errors
        assert not verdict.warnings
    return [json.loads(line) for line in lines]


def record_of(directory: Path, row: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The only record of a log with one sample."""
    (record,) = records_of(write_log(directory, [row], document))
    return record
