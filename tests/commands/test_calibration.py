"""`calibration`: calibration error and Brier score, against naive code, by a field and by a metric."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean

import pytest

import fastrec
from fastrec.errors import NoMatchError
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

MODEL = "org/a"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers with the same confidence in a field and as a metric; some have none, a wrong one, or
    an error.
    """
    rng = random.Random(8)
    records: list[Record] = []
    for number in range(120):
        stated = round(rng.random(), 3) if number else 1.0
        right = int(rng.random() < 0.3 + 0.5 * stated)
        common = {"sample_id": f"s{number}", "text": f"answer {number}"}
        fields = {"metadata": {"confidence": str(stated), "percent": f"{100 * stated:.1f}"}}
        records.append(
            answer("e", f"q{number}", MODEL, right, evaluation_result_id="acc", **fields, **common)
        )
        records.append(
            answer("e", f"q{number}", MODEL, stated, evaluation_result_id="said", **common)
        )
    odd = [{}, {"confidence": "85"}, {"confidence": "sure"}, {"percent": "9" * 310}]
    for number, metadata in enumerate(odd):
        records.append(
            answer("e", f"odd {number}", MODEL, 1, evaluation_result_id="acc", metadata=metadata)
        )
    failed = {"error": "timeout", "metadata": {"confidence": "0.5"}}
    records.append(answer("e", "failed", MODEL, 1, evaluation_result_id="acc", **failed))
    return make_corpus(tmp_path_factory.mktemp("calibration"), records)


def naive(corpus: Path) -> tuple[float, float]:
    """The calibration error over ten bins, and the Brier score."""
    found = []
    for record in map(json.loads, fastrec.cat(corpus, metric="acc")):
        stated = record.get("metadata", {}).get("confidence", "")
        if stated.startswith(("0.", "1.")) and not record.get("error"):
            found.append((float(stated), float(record["evaluation"]["is_correct"])))
    assert len(found) == 120
    error = 0.0
    for low in range(10):
        some = [
            one
            for one in found
            if low / 10 <= one[0] < (low + 1) / 10 or (low == 9 and one[0] == 1)
        ]
        if some:
            error += (
                len(some)
                / 120
                * abs(fmean(value for value, _ in some) - fmean(right for _, right in some))
            )
    return error, fmean((value - right) ** 2 for value, right in found)


@pytest.mark.parametrize(
    ("field", "left_out"), [("metadata.confidence", 4), ("metadata.percent:100", 4), ("said", 4)]
)
def test_the_numbers_are_those_of_naive_code(corpus: Path, field: str, left_out: int) -> None:
    found = fastrec.calibration(corpus, confidence=field).models
    (one,) = [one for one in found if one.metric == "acc"]
    assert (one.model_id, one.answers, one.left_out) == (MODEL, 120, left_out)
    assert (one.ece, one.brier) == pytest.approx(naive(corpus))
    assert sum(part.answers for part in one.bins) == 120


def test_integers_beyond_doubles_are_left_out(tmp_path: Path) -> None:
    stated = [60, 10**400, -(10**400), 101]
    records = [answer("e", f"q{number}", MODEL, value) for number, value in enumerate(stated)]
    corpus = make_corpus(tmp_path, records)
    [model] = fastrec.calibration(corpus, confidence="evaluation.score:100").models
    assert (model.answers, model.left_out, model.confidence) == (1, 3, 0.6)


def test_text_csv_and_report(corpus: Path, tmp_path: Path) -> None:
    arguments = ("calibration", corpus, "--confidence", "metadata.confidence", "--metric", "acc")
    text = run_here(*arguments).stdout.decode()
    # Once, below all tables.
    assert text.endswith("\nleft out: answers without a confidence on this scale\n")
    lines = run_here(*arguments, "--format", "csv").stdout.decode().splitlines()
    assert (
        lines[0] == "evaluation_name,metric,model_id,answers,left_out,confidence,accuracy,ece,brier"
    )
    assert lines[1].startswith(f"e,acc,{MODEL},120,4,")
    fastrec.report(corpus, tmp_path / "report.html", confidence="said", examples=0)
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Calibration</h2>" in page
    assert f"calibration error {naive(corpus)[0]:.3f}" in page


@pytest.mark.parametrize("field", ["metadata.none", "model_id"])
def test_a_field_without_confidences(corpus: Path, field: str) -> None:
    with pytest.raises(
        NoMatchError, match=f"no answer has the field or metric '{field}' with a number from 0 to 1"
    ):
        fastrec.calibration(corpus, confidence=field)
    assert run_here("report", corpus, "-o", "-", "--confidence", field).returncode == 2
