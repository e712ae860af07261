"""`fastrec corrected`: scores corrected by labels, and samples to label."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.errors import UsageError
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

QUESTIONS = 80
MODELS = ("org/a", "org/b", "org/c")


def truth(record: Record) -> bool:
    """What people say: the grader is wrong about every fifth question that it finds right."""
    number = int(record["input"]["raw"].split()[-1])
    return bool(record["evaluation"]["is_correct"]) and number % 5 > 0


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One answer to each question; of org/c two, in two epochs."""
    rng = random.Random(4)
    records: list[Record] = []
    for number in range(QUESTIONS):
        for model in MODELS:
            for epoch in (1, 2) if model == "org/c" else (1,):
                right = float(rng.random() < 0.7)
                more = {"metadata": {"epoch": str(epoch)}, "text": f"{right} {epoch}"}
                records.append(answer("exam", f"number {number}", model, right, **more))
        records.append(answer("rated", f"number {number}", "org/a", rng.random() * 10))
    failed = answer("exam", "number 1000", "org/a", 0, error="timeout")
    return make_corpus(tmp_path_factory.mktemp("corrected"), [*records, failed])


def fill_in(lines: Sequence[dict[str, Any]], corpus: Path, path: Path) -> Path:
    """Label proposed answers as `truth` says; the lines have no verdict of the grader."""
    records = {
        (record["model_id"], record["sample_hash"], record.get("metadata", {}).get("epoch")): record
        for record in map(json.loads, fastrec.cat(corpus, evaluation="exam"))
    }
    for line in lines:
        record = records[line["model"], line["question"], line["trial"].get("epoch")]
        line["is_correct"] = truth(record)
        assert line["text"]["input"] == record["input"]["raw"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def proposed(corpus: Path, path: Path, number: int, **more: Any) -> list[dict[str, Any]]:
    found = fastrec.corrected(corpus, propose=number, output=path, evaluation="exam", **more)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert found.proposed == len(lines) == number
    return lines


def naive(
    corpus: Path, lines: Sequence[dict[str, Any]], model: str, *, pooled: bool
) -> list[float]:
    """Raw score, corrected score, and half of the interval, over questions."""
    graded: dict[str, list[bool]] = {}
    differences: dict[tuple[str, str], list[int]] = {}
    for record in map(json.loads, fastrec.cat(corpus, evaluation="exam")):
        if record.get("error"):
            continue
        is_correct = record["evaluation"]["is_correct"]
        key = record["model_id"], record["sample_hash"]
        if record["model_id"] == model:
            graded.setdefault(record["sample_hash"], []).append(is_correct)
        for line in lines:
            epoch = line["trial"]["epoch"]
            if (line["model"], line["question"]) == key and record["metadata"]["epoch"] == epoch:
                differences.setdefault(key, []).append(line["is_correct"] - is_correct)
    means = [statistics.fmean(some) for some in graded.values()]
    used = [statistics.fmean(d) for key, d in differences.items() if pooled or key[0] == model]
    raw = statistics.fmean(means)
    spread = statistics.pvariance(used) + 1 / len(used)
    variance = statistics.variance(means) / len(means) + spread / len(used)
    return [raw, raw + statistics.fmean(used), 1.96 * math.sqrt(variance)]


@pytest.mark.parametrize("pooled", [False, True])
def test_the_estimate_is_that_of_plain_code(corpus: Path, tmp_path: Path, pooled: bool) -> None:
    lines = proposed(corpus, tmp_path / "lines.jsonl", 60)
    labels = fill_in(lines, corpus, tmp_path / "labels.jsonl")
    found = fastrec.corrected(corpus, labels=labels, pooled=pooled, evaluation="exam")
    assert (found.labels, found.unused, found.unfilled) == (60, 0, 0)
    assert [model.model_id for model in found.models] == list(MODELS)
    for model in found.models:
        raw, mean, half = naive(corpus, lines, model.model_id, pooled=pooled)
        assert model.raw == pytest.approx(raw)
        assert model.corrected == pytest.approx(mean)
        assert model.low is not None
        assert model.corrected is not None
        assert model.corrected - model.low == pytest.approx(half, rel=1e-4)
    stats = fastrec.stats(corpus, evaluation="exam").evaluations[0].by_model
    accuracies = {model.model_id: model.accuracy for model in stats}
    assert {model.model_id: model.raw for model in found.models} == pytest.approx(accuracies)


def test_so_many_labels_halve_the_interval(corpus: Path, tmp_path: Path) -> None:
    lines = proposed(corpus, tmp_path / "lines.jsonl", 24)
    labels = fill_in(lines, corpus, tmp_path / "labels.jsonl")
    model = fastrec.corrected(corpus, labels=labels, evaluation="exam").models[0]
    _, _, half = naive(corpus, lines, "org/a", pooled=False)
    assert model.to_halve is not None
    graded = statistics.variance([float(n < model.raw * 80) for n in range(80)]) / 80
    spread = ((half / 1.96) ** 2 - graded) * model.labels

    def width(number: int) -> float:
        return math.sqrt(graded + spread / number)

    assert width(model.to_halve) <= half / 1.96 / 2 * 1.001 < width(model.to_halve - 1) * 1.01


def test_a_sample_has_its_share_of_each_model_and_verdict(corpus: Path, tmp_path: Path) -> None:
    answers = Counter(
        (record["model_id"], record["evaluation"]["is_correct"])
        for record in map(json.loads, fastrec.cat(corpus, evaluation="exam"))
        if not record.get("error")
    )
    records = {
        (record["model_id"], record["sample_hash"], record["metadata"]["epoch"]): record
        for record in map(json.loads, fastrec.cat(corpus, evaluation="exam", where="!error?"))
    }
    seen: Counter[Any] = Counter()
    for seed in range(3):
        lines = proposed(corpus, tmp_path / f"{seed}.jsonl", 50, seed=seed)
        keys = {(line["model"], line["question"], line["trial"]["epoch"]) for line in lines}
        assert len(keys) == 50
        shares = Counter((key[0], records[key]["evaluation"]["is_correct"]) for key in keys)
        for group, number in answers.items():
            assert abs(shares[group] - 50 * number / answers.total()) < 2
        seen.update(keys)
    assert len(seen) > 100  # another seed gives another sample
    proposed(corpus, tmp_path / "again.jsonl", 50, seed=2)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()


def test_the_next_sample_is_without_labelled_answers(corpus: Path, tmp_path: Path) -> None:
    first = proposed(corpus, tmp_path / "lines.jsonl", 100)
    labels = fill_in(first, corpus, tmp_path / "labels.jsonl")
    lines = proposed(corpus, tmp_path / "more.jsonl", 220, labels=labels)
    done, more = (
        {(line["model"], line["question"], line["trial"]["epoch"]) for line in some}
        for some in (first, lines)
    )
    assert not done & more
    assert len(done | more) == 4 * QUESTIONS


def test_lines_that_are_not_filled_in_are_skipped(corpus: Path, tmp_path: Path) -> None:
    lines = proposed(corpus, tmp_path / "lines.jsonl", 40)
    labels = tmp_path / "lines.jsonl"
    other = {"evaluation": "exam", "model": "org/x", "question": "abcdef", "is_correct": True}
    fill_in(lines[:30], corpus, labels)
    with labels.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in [*lines[30:], other])
    found = fastrec.corrected(corpus, labels=labels, evaluation="exam")
    assert (found.labels, found.unused, found.unfilled) == (31, 1, 10)
    labelled = {(line["model"], line["question"]) for line in lines[:30]}
    assert sum(model.labels for model in found.models) == len(labelled)
    result = run_here("corrected", corpus, "--labels", labels, "--evaluation", "exam")
    assert "31 labels, 1 that fit no answer; 10 lines without a verdict" in result.stderr.decode()
    result = run_here("normalize", corpus, "-o", tmp_path / "out", "--labels", labels)
    assert "10 lines without a verdict, not filled in yet" in result.stderr.decode()
    with pytest.raises(UsageError, match="has the verdicts of labels"):
        fastrec.corrected(tmp_path / "out", labels=labels)


def test_scores_are_corrected_by_scores(corpus: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    records = [json.loads(line) for line in fastrec.cat(corpus, evaluation="rated")][:20]
    lines = [
        {
            "evaluation": "rated",
            "model": "org/a",
            "sample_id": record["sample_id"],
            "score": record["evaluation"]["score"] - 1.5,
        }
        for record in records
    ]
    lines.append(lines[0] | {"sample_id": "id of number 79", "score": None, "is_correct": True})
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (model,) = fastrec.corrected(corpus, labels=labels, evaluation="rated").models
    assert model.labels == 20
    assert model.corrected == pytest.approx(model.raw - 1.5)
    fastrec.corrected(corpus, tmp_path / "lines.jsonl", propose=5, evaluation="rated")
    for line in map(json.loads, (tmp_path / "lines.jsonl").read_text().splitlines()):
        assert line["score"] is None
        assert "is_correct" not in line


def test_text_csv_and_what_is_refused(corpus: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    arguments = ("corrected", corpus, "--evaluation", "exam")
    result = run_here(*arguments, "--propose", "30", "-o", lines)
    assert "30 answers to label in" in result.stderr.decode()
    fill_in([json.loads(line) for line in lines.read_text().splitlines()], corpus, lines)
    text = run_here(*arguments, "--labels", lines).stdout.decode()
    assert "95% interval" in text
    assert "to halve: labels in all that halve the interval" in text
    header, *rows = (
        run_here(*arguments, "--labels", lines, "--format", "csv").stdout.decode().splitlines()
    )
    assert header.startswith(
        "evaluation_name,metric,model_id,graded,questions,labels,raw,corrected"
    )
    assert len(rows) == len(MODELS)
    before = lines.read_bytes()
    result = run_here(*arguments, "--propose", "30", "-o", lines)
    assert result.returncode == 2
    assert b"lines.jsonl exists; choose another file, or add --overwrite" in result.stderr
    assert lines.read_bytes() == before
    assert run_here(*arguments, "--propose", "5", "-o", lines, "--overwrite").returncode == 0
    assert lines.read_bytes().count(b"\n") == 5
    assert run_here(*arguments, "--propose", "30").returncode == 2
    assert run_here(*arguments).returncode == 2
