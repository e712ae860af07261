"""Writes the logs in `corpora/logs`: two models, two tasks of lm-eval and one of Inspect, with
readable questions.

    python -m tests.import_logs.sample_logs corpora/logs

The same code gives the same bytes. Tests use the functions for logs of their own.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

MODELS = ("acme/small-1b", "acme/large-70b")
DATE = 1767258000.5  # of all runs
STAMP = "2026-01-01T09-00-00.500000"

CAPITALS = [
    ("France", ["Paris", "Lyon", "Nice", "Lille"], 0),
    ("Japan", ["Osaka", "Kyoto", "Tokyo", "Nagoya"], 2),
    ("Australia", ["Sydney", "Canberra", "Perth", "Melbourne"], 1),
    ("Brazil", ["São Paulo", "Rio de Janeiro", "Salvador", "Brasília"], 3),
    ("Türkiye", ["Ankara", "Istanbul", "Izmir", "Bursa"], 0),
    ("Kenya", ["Mombasa", "Nairobi", "Kisumu", "Nakuru"], 1),
    ("Canada", ["Toronto", "Montréal", "Ottawa", "Vancouver"], 2),
    ("Switzerland", ["Zürich", "Genève", "Basel", "Bern"], 3),
]
MISTAKES = {  # country: the wrong choice, by model
    "acme/small-1b": {"Australia": 0, "Türkiye": 1, "Canada": 0, "Switzerland": 0},
    "acme/large-70b": {"Switzerland": 0},
}
APPLES = [
    ("Ana", 12, 5),
    ("Bo", 30, 17),
    ("Chen", 48, 29),
    ("Dina", 7, 7),
    ("Eli", 100, 1),
    ("Fay", 64, 36),
]
SLIPS = {"acme/small-1b": {"Chen": 21, "Fay": 38}, "acme/large-70b": {}}


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )


def choice_row(
    number: int, country: str, cities: list[str], gold: int, picked: int
) -> dict[str, Any]:
    """A line of lm-eval for a multiple-choice question: one request per choice."""
    prompt = f"Question: What is the capital of {country}?\nAnswer:"
    scores = [-1.5 if city == picked else -4.0 - city for city in range(len(cities))]
    return {
        "doc_id": number,
        "doc": {"country": country, "choices": cities, "gold": gold},
        "target": str(gold),
        "arguments": {
            f"gen_args_{city}": {"arg_0": prompt, "arg_1": f" {name}"}
            for city, name in enumerate(cities)
        },
        "resps": [[[str(score), "False"]] for score in scores],
        "filtered_resps": [[str(score), "False"] for score in scores],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": _digest(country),
        "prompt_hash": _digest(prompt),
        "target_hash": _digest(str(gold)),
        "acc": float(picked == gold),
    }


def sum_rows(number: int, name: str, had: int, gave: int, said: int) -> list[dict[str, Any]]:
    """Two lines of lm-eval for a question with a free answer: one per filter."""
    question = f"{name} has {had} apples and gives {gave} of them away. How many are left?"
    prompt = f"Q: {question}\nA:"
    answer = f" {name} starts with {had}. {had} - {gave} = {said}. The answer is {said}."
    strict = f"{said}"
    row = {
        "doc_id": number,
        "doc": {"question": question, "answer": str(had - gave)},
        "target": str(had - gave),
        "arguments": {
            "gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"], "max_gen_toks": 64}}
        },
        "resps": [[answer]],
        "doc_hash": _digest(question),
        "prompt_hash": _digest(prompt),
        "target_hash": _digest(str(had - gave)),
    }
    last = {"filter": "last-number", "filtered_resps": [strict], "metrics": ["exact_match"]}
    whole = {"filter": "whole-text", "filtered_resps": [answer], "metrics": ["exact_match"]}
    return [
        row | last | {"exact_match": float(said == had - gave)},
        row | whole | {"exact_match": 0.0},
    ]


def lm_eval_results(
    model: str, tasks: dict[str, dict[str, Any]], samples: dict[str, int]
) -> dict[str, Any]:
    """A results document of lm-eval."""
    texts = {
        "capitals": "Question: What is the capital of {{country}}?\nAnswer:",
        "apples": "Q: {{question}}\nA:",
    }
    return {
        "results": {task: {"alias": task} | figures for task, figures in tasks.items()},
        "group_subtasks": {task: [] for task in tasks},
        "configs": {
            task: {"task": task, "doc_to_text": texts.get(task, ""), "repeats": 1} for task in tasks
        },
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {task: {"acc": True, "exact_match": True} for task in tasks},
        "n-samples": {
            task: {"original": count, "effective": count} for task, count in samples.items()
        },
        "config": {
            "model": "hf",
            "model_args": f"pretrained={model},dtype=bfloat16",
            "batch_size": "8",
        },
        "git_hash": None,
        "date": DATE,
        "lm_eval_version": "0.4.9",
        "model_source": "hf",
        "model_name": model,
        "model_name_sanitized": model.replace("/", "__"),
    }


def inspect_sample(number: int, name: str, had: int, gave: int, said: int) -> dict[str, Any]:
    """A sample of Inspect: an agent that uses a calculator."""
    question = (
        f"{name} has {had} apples and gives {gave} of them away. How many are left? Use "
        "the calculator."
    )
    call = {
        "id": f"call-{number}",
        "function": "calculate",
        "arguments": {"expression": f"{had} - {gave}"},
    }
    answer = {"role": "assistant", "content": f"{said} apples are left.", "source": "generate"}
    usage = {"input_tokens": 60 + number, "output_tokens": 20, "total_tokens": 80 + number}
    return {
        "id": f"apples/{number}",
        "epoch": 1,
        "input": question,
        "target": str(had - gave),
        "messages": [
            {"role": "system", "content": "You can use tools."},
            {"role": "user", "content": question, "source": "input"},
            {
                "role": "assistant",
                "content": "I will compute it.",
                "source": "generate",
                "tool_calls": [call],
            },
            {
                "role": "tool",
                "content": str(had - gave),
                "tool_call_id": call["id"],
                "function": "calculate",
            },
            answer,
        ],
        "output": {
            "model": "m",
            "choices": [{"message": answer, "stop_reason": "stop"}],
            "usage": usage,
        },
        "scores": {
            "includes": {
                "value": "C" if said == had - gave else "I",
                "answer": f"{said} apples are left.",
                "explanation": "the target is part of the answer"
                if said == had - gave
                else "it is not",
            }
        },
        "metadata": {},
        "store": {},
        "events": [],
        "model_usage": {"m": usage},
        "total_time": 3.0 + number,
        "working_time": 2.0 + number,
        "attachments": {},
    }


def inspect_header(model: str, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What Inspect writes about a finished run."""
    correct = sum(sample["scores"]["includes"]["value"] == "C" for sample in samples)
    metrics = {"accuracy": {"name": "accuracy", "value": correct / len(samples), "params": {}}}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": _digest(f"eval {model}")[:22],
            "run_id": _digest(f"run {model}")[:22],
            "created": "2026-01-01T09:00:00+00:00",
            "task": "apples_with_tools",
            "task_id": _digest("task")[:22],
            "dataset": {"name": "apples", "samples": len(samples)},
            "model": model,
            "config": {"epochs": 1},
            "packages": {"inspect_ai": "0.3.150"},
            "scorers": [{"name": "includes"}],
        },
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [
                {"name": "includes", "scorer": "includes", "params": {}, "metrics": metrics}
            ],
        },
    }


def write_eval(path: Path, header: dict[str, Any], samples: list[dict[str, Any]]) -> None:
    """Write an Inspect log as Inspect did until 0.3.205: a zip with deflated members."""
    members = {
        "_journal/start.json": {"version": header["version"], "eval": header["eval"], "plan": {}}
    }
    members |= {
        f"samples/{sample['id']}_epoch_{sample['epoch']}.json": sample for sample in samples
    }
    members["header.json"] = header
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 9, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, json.dumps(content, ensure_ascii=False, indent=2))


def write_all(directory: Path) -> None:
    """Write the logs of all models."""
    for model in MODELS:
        mistakes = MISTAKES[model]
        slips = SLIPS[model]
        capitals = [
            choice_row(number, country, cities, gold, mistakes.get(country, gold))
            for number, (country, cities, gold) in enumerate(CAPITALS)
        ]
        said = [slips.get(name, had - gave) for name, had, gave in APPLES]
        apples = [row for number, (one, answer) in enumerate(zip(APPLES, said, strict=True))
                  for row in sum_rows(number, *one, answer)]  # fmt: skip
        accuracy = sum(row["acc"] for row in capitals) / len(capitals)
        right = sum(row["exact_match"] for row in apples) / len(APPLES)
        figures = {
            "capitals": {"acc,none": accuracy, "acc_stderr,none": "N/A"},
            "apples": {"exact_match,last-number": right, "exact_match,whole-text": 0.0},
        }
        run = directory / "lm-eval" / model.replace("/", "__")
        write_lines(run / f"samples_capitals_{STAMP}.jsonl", capitals)
        write_lines(run / f"samples_apples_{STAMP}.jsonl", apples)
        results = lm_eval_results(
            model, figures, {"capitals": len(capitals), "apples": len(APPLES)}
        )
        (run / f"results_{STAMP}.json").write_text(
            json.dumps(results, ensure_ascii=False, indent=2), encoding="utf-8"
        )
        samples = [inspect_sample(number, *one, answer)
                   for number, (one, answer) in enumerate(zip(APPLES, said, strict=True), 1)]  # fmt: skip
        name = f"2026-01-01T09-00-00+00-00_apples-with-tools_{_digest(model)[:22]}.eval"
        write_eval(directory / "inspect" / name, inspect_header(model, samples), samples)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
