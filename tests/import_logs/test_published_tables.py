"""Published results, imported with the commands of docs/import.md: the figures are those published."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

import pytest

import fastrec
from tests.docs.running import Scene, printed_by
from tests.docs.snippets import Block, commands_of, is_alike, sections

SHARED = Path(fastrec.__file__).parents[2] / "shared" / "logs"
SOURCES = ("wildbench", "mathvista", "zeroeval", "tau_bench")

pytestmark = pytest.mark.skipif(
    not all((SHARED / name).is_dir() for name in SOURCES), reason="needs published results"
)


def block() -> Block:
    [found] = sections()["docs/import.md: Published results"]
    return found


def published(name: str) -> Any:
    return json.loads((SHARED / name).read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where the commands of the page have run."""
    path = tmp_path_factory.mktemp("published")
    for name in SOURCES:
        (path / name).symlink_to(SHARED / name)
    printed = printed_by(Scene(path), block())
    for command, found in zip(commands_of(block().text), printed, strict=True):
        assert is_alike(command.output, found)
    return path


def test_wildbench(folder: Path) -> None:
    [evaluation] = fastrec.stats(folder / "wildbench-corpus").evaluations
    [model] = evaluation.by_model
    stated = published("wildbench/score.json")["gemma-2b-it"]
    assert (model.mean_score, model.answers) == (stated["score"], stated["total"])


def test_mathvista(folder: Path) -> None:
    stated = published("mathvista/results/bard/scores_bard.json")
    for field, groups in stated.items():
        name = [] if field == "average" else [f"metadata.{field}"]
        found = fastrec.stats(folder / "mathvista-corpus", group_by=name)
        counts = {
            (evaluation.group or {}).get(name[0]) if name else None: evaluation.by_model[0]
            for evaluation in found.evaluations
        }
        for value, figure in groups.items() if name else [(None, groups)]:
            model = counts[value]
            assert (model.correct, model.answers) == (figure["correct"], figure["total"])


def test_zeroeval(folder: Path) -> None:
    found = fastrec.stats(folder / "zeroeval-scored", metric="answer").evaluations[0].by_model
    accuracies = {model.model_id.partition("/")[2]: model.accuracy for model in found}
    for stated in published("zeroeval/gsm.summary.json"):
        accuracy = accuracies[stated["Model"]]
        assert accuracy is not None
        assert f"{100 * accuracy:.2f}" == stated["Acc"]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_tau_bench(folder: Path, k: int) -> None:
    """The chance that k of the trials of a task succeed, by the formula of the paper."""
    trials: dict[int, list[bool]] = {}
    for row in published("tau_bench/gpt-4o-airline.json"):
        trials.setdefault(row["task_id"], []).append(row["reward"] == 1)
    chances = [comb(sum(won), k) / comb(len(won), k) for won in trials.values()]
    found = fastrec.stats(folder / "tau-corpus", metric="reward", repeats_as=f"pass^{k}")
    assert found.evaluations[0].by_model[0].accuracy == pytest.approx(sum(chances) / len(chances))
