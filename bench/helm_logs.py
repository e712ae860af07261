"""A generated run of HELM: indented JSON, with the tokens of every completion.

scenario_state.json       what was asked and answered; tokens with their log-probabilities are most of the text
per_instance_stats.json   all metrics of every instance
stats.json                their means
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fastrec.commands.generate.text import Rng, phrase_tables

__all__ = ["write_helm"]

_MODEL: Final = "lab-1/model-7b"
_SCORES: Final = (
    "exact_match",
    "quasi_exact_match",
    "prefix_exact_match",
    "quasi_prefix_exact_match",
    "f1_score",
)
_COUNTS: Final = (
    "num_references",
    "num_train_trials",
    "num_prompt_tokens",
    "num_completion_tokens",
    "num_output_tokens",
    "inference_runtime",
    "batch_size",
    "finish_reason_stop",
    "num_train_instances",
    "prompt_truncated",
    "logprob",
    "num_bytes",
)
_ADAPTER: Final = {
    "method": "generation",
    "model": _MODEL,
    "model_deployment": _MODEL,
    "num_outputs": 1,
}
_RUN: Final = {
    "name": f"stories:model={_MODEL.replace('/', '_')}",
    "scenario_spec": {"class_name": "helm.benchmark.scenarios.stories.StoriesScenario", "args": {}},
    "adapter_spec": _ADAPTER,
    "metric_specs": [],
    "groups": ["stories"],
}


def write_helm(seed: int, directory: Path, instances: int) -> tuple[int, int]:
    """Write the run; returns the number of instances and the size of its text."""
    folder = directory / "stories"
    folder.mkdir()
    head = _indented({"adapter_spec": _ADAPTER, "request_states": []}).removesuffix(b"[]\n}")
    states = _array(_state(Rng((seed << 32) + number), seed, number) for number in range(instances))
    totals: dict[str, float] = {}
    with (folder / "scenario_state.json").open("wb") as file:
        file.write(head)
        for piece in states:
            file.write(piece.replace(b"\n", b"\n  "))
        file.write(b"\n}")
    with (folder / "per_instance_stats.json").open("wb") as file:
        file.writelines(
            _array(
                _stats(Rng((seed << 33) + number), number, totals) for number in range(instances)
            )
        )
    means = [_stat(name, total / instances) for name, total in totals.items()]
    for name, document in (("run_spec", _RUN), ("scenario", {"name": "stories"}), ("stats", means)):
        (folder / f"{name}.json").write_bytes(_indented(document))
    return instances, sum(path.stat().st_size for path in folder.iterdir())


def _indented(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _array(items: Iterable[Any]) -> Iterator[bytes]:
    """An indented array, piece by piece."""
    separator = b"["
    for item in items:
        yield separator + _indented([item])[1:-2]
        separator = b","
    yield b"\n]"


def _state(rng: Rng, seed: int, number: int) -> dict[str, Any]:
    """A request and its result."""
    table = phrase_tables(seed).latin[0]
    question = table.write(rng, rng.between(10, 60))
    reference = table.write(rng, 5)
    words = table.write(rng, rng.between(20, 90)).split(" ")
    tokens = [{"text": f" {word}", "logprob": -round(rng.random() * 5, 6)} for word in words]
    text = "".join(f" {word}" for word in words)
    completion = {"text": text, "logprob": -round(rng.random() * 99, 6), "tokens": tokens}
    return {
        "instance": {
            "input": {"text": question},
            "references": [{"output": {"text": reference}, "tags": ["correct"]}],
            "split": "test",
            "id": f"id{number}",
        },
        "train_trial_index": 0,
        "request": {
            "model_deployment": _MODEL,
            "model": _MODEL,
            "embedding": False,
            "prompt": f"{table.write(Rng(seed), 60)}\n\nQuestion: {question}\nAnswer:",
            "temperature": 0.0,
            "num_completions": 1,
            "top_k_per_token": 1,
            "max_tokens": 200,
            "stop_sequences": ["\n"],
            "echo_prompt": False,
            "top_p": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
        },
        "result": {
            "success": True,
            "embedding": [],
            "completions": [completion],
            "cached": False,
            "request_time": round(rng.random() * 3, 6),
            "request_datetime": 1772366400 + number,
        },
        "num_train_instances": 0,
        "prompt_truncated": False,
    }


def _stats(rng: Rng, number: int, totals: dict[str, float]) -> dict[str, Any]:
    """All metrics of an instance; adds them up."""
    values = {name: float(rng.below(900)) for name in _COUNTS} | {
        name: float(rng.chance(0.3)) for name in _SCORES
    }
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + value
    stats = [_stat(name, value) for name, value in values.items()]
    return {"instance_id": f"id{number}", "train_trial_index": 0, "stats": stats}


def _stat(name: str, value: float) -> dict[str, Any]:
    numbers = {
        "sum": value,
        "sum_squared": value * value,
        "min": value,
        "max": value,
        "mean": value,
    }
    return {
        "name": {"name": name, "split": "test"},
        "count": 1,
        **numbers,
        "variance": 0.0,
        "stddev": 0.0,
    }
