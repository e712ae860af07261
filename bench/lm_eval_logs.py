"""A generated log of lm-eval: the samples of two tasks, and the results of their run.

    choices      four continuations of a context, scored with acc and acc_norm: one line per question
    generation   a worked answer, from which two filters extract: a line per question and filter

Lines have about 2 KB, or about 7 KB with examples in the prompts. The context is repeated in the
document and in all requests, as lm-eval does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from fastrec.commands.generate.text import PhraseTable, Rng, phrase_tables

__all__ = ["write_lm_eval", "write_lm_eval_with_shots"]

_DATE: Final = "2026-03-01T12-00-00.000000"
_MODEL: Final = "lab-1/model-7b"
_FILTERS: Final = ("strict-match", "flexible-extract")
_SHOTS: Final = 5
_CONFIGS: Final = {
    "choices": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{ctx}}",
        "doc_to_target": "{{label}}",
    },
    "generation": {
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
    },
}


def write_lm_eval(seed: int, directory: Path, questions: int) -> tuple[int, int]:
    """Write the log; returns the number of samples and the size of its text."""
    return _write(seed, directory, questions, 0)


def write_lm_eval_with_shots(seed: int, directory: Path, questions: int) -> tuple[int, int]:
    """Write a log whose prompts begin with examples."""
    return _write(seed, directory, questions, _SHOTS)


def _write(seed: int, directory: Path, questions: int, shots: int) -> tuple[int, int]:
    tasks = {
        "choices": _choices(seed, questions, shots),
        "generation": _generation(seed, questions, shots),
    }
    results = {}
    samples = 0
    size = 0
    for task, lines in tasks.items():
        totals: dict[str, float] = {}
        with (directory / f"samples_{task}_{_DATE}.jsonl").open("wb") as file:
            for line in lines:
                for metric in line["metrics"]:
                    key = f"{metric},{line['filter']}"
                    totals[key] = totals.get(key, 0.0) + line[metric]
                size += file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                samples += 1
        results[task] = {"alias": task, **{key: total / questions for key, total in totals.items()}}
    document = json.dumps(_document(results, questions), indent=2).encode()
    (directory / f"results_{_DATE}.json").write_bytes(document)
    return samples, size + len(document)


def _choices(seed: int, questions: int, shots: int) -> Iterator[dict[str, Any]]:
    rng = Rng(seed << 1)
    table = phrase_tables(seed).latin[0]
    examples = "".join(f"{table.write(rng, 26)}\n\n" for _ in range(shots))
    for number in range(questions):
        context = table.write(rng, rng.between(12, 28))
        prompt = examples + context
        endings = [table.write(rng, rng.between(3, 9)) for _ in range(4)]
        values = [-round(rng.random() * 60, 4) for _ in endings]
        target = rng.below(4)
        by_length = [value / len(ending) for value, ending in zip(values, endings, strict=True)]
        doc = {
            "ind": number,
            "ctx": context,
            "endings": endings,
            "label": str(target),
            "source_id": f"a~{number}",
        }
        answers = [[str(value), "False"] for value in values]
        yield {
            "doc_id": number,
            "doc": doc,
            "target": str(target),
            "arguments": {
                f"gen_args_{place}": {"arg_0": prompt, "arg_1": f" {ending}"}
                for place, ending in enumerate(endings)
            },
            "resps": [[answer] for answer in answers],
            "filtered_resps": answers,
            "filter": "none",
            "metrics": ["acc", "acc_norm"],
            **_hashes(doc, prompt, str(target)),
            "acc": float(values.index(max(values)) == target),
            "acc_norm": float(by_length.index(max(by_length)) == target),
        }


def _generation(seed: int, questions: int, shots: int) -> Iterator[dict[str, Any]]:
    table = phrase_tables(seed).latin[1]
    rngs = map(Rng, range(shots))
    examples = "".join(f"{_asked(_question(rng, table))} {_answer(rng, table)}\n\n" for rng in rngs)
    for name in _FILTERS:
        rng = Rng((seed << 1) + 1)  # the same questions and answers again
        scores = Rng(len(name))
        for number in range(questions):
            question = _question(rng, table)
            answer = _answer(rng, table)
            doc = {"question": question, "answer": f"{_answer(rng, table)}\n#### {rng.below(999)}"}
            prompt = examples + _asked(question)
            yield {
                "doc_id": number,
                "doc": doc,
                "target": doc["answer"],
                "arguments": {
                    "gen_args_0": {
                        "arg_0": prompt,
                        "arg_1": {"until": ["Question:"], "do_sample": False},
                    }
                },
                "resps": [[answer]],
                "filtered_resps": [answer.rsplit(maxsplit=1)[-1].strip(".")],
                "filter": name,
                "metrics": ["exact_match"],
                **_hashes(doc, prompt, doc["answer"]),
                "exact_match": float(scores.chance(0.4)),
            }


def _question(rng: Rng, table: PhraseTable) -> str:
    return f"{table.write(rng, rng.between(15, 40))}?"


def _asked(question: str) -> str:
    return f"Question: {question}\nAnswer:"


def _answer(rng: Rng, table: PhraseTable) -> str:
    return f"{table.write(rng, rng.between(20, 50))}. The answer is {rng.below(999)}."


def _hashes(doc: dict[str, Any], prompt: str, target: str) -> dict[str, str]:
    texts = {"doc_hash": json.dumps(doc), "prompt_hash": prompt, "target_hash": target}
    return {name: sha256(text.encode()).hexdigest() for name, text in texts.items()}


def _document(results: dict[str, Any], questions: int) -> dict[str, Any]:
    return {
        "results": results,
        "configs": {task: {"task": task, **_CONFIGS[task]} for task in results},
        "versions": dict.fromkeys(results, 1.0),
        "higher_is_better": {
            task: {key.split(",")[0]: True for key in figures} for task, figures in results.items()
        },
        "n-samples": {task: {"original": questions, "effective": questions} for task in results},
        "config": {"model": "hf", "model_args": f"pretrained={_MODEL},dtype=bfloat16"},
        "date": 1772366400.0,
        "lm_eval_version": "0.4.10",
        "model_name": _MODEL,
    }
