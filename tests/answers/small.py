"""Small corpora of records of version 0.3.0 that tests write by hand, and the naive numbers about
them.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastrec

Record = dict[str, Any]
Group = dict[tuple[str, str | None, str], dict[str, list[Record]]]


def answer(evaluation: str, asked: str, model: str, score: float, **more: Any) -> Record:
    """A record; a score from 0.5 on is right. `more` replaces fields; `text` is the output."""
    text = more.pop("text", f"{model} says {score}")
    made: Record = {
        "schema_version": "0.3.0",
        "evaluation_id": f"{evaluation}/run",
        "model_id": model,
        "evaluation_name": evaluation,
        "sample_id": f"id of {asked}",
        "interaction_type": "single_turn",
        "input": {"raw": asked, "reference": ["yes"]},
        "output": {"raw": [text]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score >= 0.5},
    }
    return made | more


def conversation(
    evaluation: str, asked: str, model: str, score: float, messages: list[Record]
) -> Record:
    """A record with several turns."""
    turns = [{"turn_idx": number, **message} for number, message in enumerate(messages)]
    made = answer(evaluation, asked, model, score, interaction_type="agentic", messages=turns)
    del made["output"]
    return made


def make_corpus(folder: Path, records: Iterable[Record]) -> Path:
    """Normalize records."""
    shard = folder / "shard.jsonl"
    shard.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    fastrec.normalize(shard, folder / "corpus", schema="0.3.0")
    return folder / "corpus"


def group(corpus: Path) -> Group:
    """The records of a corpus, by evaluation, metric and question, then by model."""
    found: Group = {}
    for record in map(json.loads, fastrec.cat(corpus)):
        scope = (
            record["evaluation_name"],
            record.get("evaluation_result_id"),
            record["sample_hash"],
        )
        found.setdefault(scope, {}).setdefault(record["model_id"], []).append(record)
    return found


def values(records: dict[str, list[Record]], *, graded: bool) -> dict[str, float]:
    """The value of each model with an answer: the share of right answers, or the mean score."""
    answers = {
        model: [one["evaluation"] for one in some if not one.get("error")]
        for model, some in records.items()
    }
    return {
        model: math.fsum(one["score"] if graded else one["is_correct"] for one in some) / len(some)
        for model, some in answers.items()
        if some
    }


def disagreement(numbers: Iterable[float]) -> float | None:
    """Twice the standard deviation."""
    listed = list(numbers)
    return 2 * statistics.pstdev(listed) if listed else None
