"""`compare --metrics`: agreement of two graders, by hand, by naive code, and by the textbook formula."""

from __future__ import annotations

import json
import random
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.answers.index import open_index
from fastrec.answers.table import Query
from fastrec.errors import NoMatchError, UsageError
from fastrec.summary.significance import kappa_interval
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

MODELS = ["org/a", "org/b"]


def judged(question: int, model: str, verdicts: dict[str, int], **more: Any) -> list[Record]:
    """An answer, as several metrics judge it."""
    return [
        answer("e", f"q{question}", model, right, text=more.get("text", "said"), evaluation_result_id=metric,
               **{key: value for key, value in more.items() if key != "text"})
        for metric, right in verdicts.items()
    ]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 questions with one answer of each model; one with trials; one with an error; one that only `m1` judged."""
    rng = random.Random(5)
    records: list[Record] = []
    for number in range(40):
        for model in MODELS:
            right = int(rng.random() < 0.6)
            records += judged(number, model, {"m1": right, "m2": right if rng.random() < 0.8 else 1 - right})
    for trial, verdicts in enumerate([{"m1": 1, "m2": 0}, {"m1": 0, "m2": 0}, {"m1": 1}]):
        records += judged(50, MODELS[0], verdicts, text="x" * (trial + 1), metadata={"trial": str(trial)})
    records += judged(51, MODELS[0], {"m1": 1, "m2": 1}, error="timeout")
    records += judged(52, MODELS[0], {"m1": 1})
    records += judged(53, MODELS[0], {"m1": 1}, text="one answer") + judged(53, MODELS[0], {"m2": 1}, text="another")
    return make_corpus(tmp_path_factory.mktemp("agreement"), [*records, answer("other", "q", MODELS[0], 1)])


def pairs_of(corpus: Path) -> dict[str, list[tuple[bool, bool]]]:
    """The verdicts of both metrics on each answer, by question."""
    verdicts: dict[tuple[str, str, str], dict[str, bool]] = {}
    for record in map(json.loads, fastrec.cat(corpus, evaluation="e")):
        if not record.get("error"):
            key = record["sample_hash"], record["model_id"], record["output"]["raw"][0]
            verdicts.setdefault(key, {})[record["evaluation_result_id"]] = record["evaluation"]["is_correct"]
    found: dict[str, list[tuple[bool, bool]]] = {}
    for (question, _, _), by_metric in verdicts.items():
        if len(by_metric) == 2:
            found.setdefault(question, []).append((by_metric["m1"], by_metric["m2"]))
    return found


def kappa_of(pairs: list[tuple[bool, bool]]) -> float:
    agree = sum(one == other for one, other in pairs) / len(pairs)
    first, second = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    return (agree - chance) / (1 - chance)


def test_the_numbers_are_those_of_naive_code(corpus: Path) -> None:
    found = fastrec.compare(corpus, metrics=("m1", "m2"), examples=1000)
    (one,) = found.agreement
    questions = pairs_of(corpus)
    pairs = [pair for some in questions.values() for pair in some]
    assert one.answers == len(pairs) == 82
    cells = [pairs.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))]
    assert [one.both_right, one.only_first, one.only_second, one.both_wrong] == cells
    assert one.agreement == pytest.approx((cells[0] + cells[3]) / 82)
    assert one.kappa == pytest.approx(kappa_of(pairs))
    without = [kappa_of([p for name, some in questions.items() if name != left for p in some]) for left in questions]
    mean = sum(without) / len(without)
    error = sqrt((len(without) - 1) / len(without) * sum((value - mean) ** 2 for value in without))
    assert one.kappa_low == pytest.approx(one.kappa - 1.959963984540054 * error)
    assert one.kappa_high == pytest.approx(one.kappa + 1.959963984540054 * error)
    assert len(one.disputed) == cells[1] + cells[2]
    assert sum(answer.right_by == "m1" for answer in one.disputed) == cells[1]
    assert [row["evaluation_name"] for row in found.rows()] == ["e"]


def test_kappa_of_a_textbook() -> None:
    """20, 5, 10 and 15 answers: 0.7 agree, 0.5 by chance; the large-sample error (Fleiss, 1969) is close."""
    kappa, low, high = kappa_interval({(1, 0, 0, 0): 20, (0, 1, 0, 0): 5, (0, 0, 1, 0): 10, (0, 0, 0, 1): 15})
    assert kappa == pytest.approx(0.4)
    table, n = [[0.4, 0.1], [0.2, 0.3]], 50
    rows, columns = [0.5, 0.5], [0.6, 0.4]
    same = sum(table[i][i] * (1 - (rows[i] + columns[i]) * 0.6) ** 2 for i in (0, 1))
    other = sum(table[i][j] * (columns[i] + rows[j]) ** 2 for i, j in ((0, 1), (1, 0)))
    error = sqrt((same + 0.36 * other - (0.4 - 0.5 * 0.6) ** 2) / (n * 0.25))
    assert low is not None
    assert high is not None
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)


@pytest.mark.parametrize("table", [{}, {(1, 0, 0, 0): 9}, {(0, 0, 0, 2): 1}])
def test_kappa_is_undefined_if_all_agree_on_one_verdict(table: dict[tuple[int, int, int, int], int]) -> None:
    assert kappa_interval(table) == (None, None, None)


def test_text_and_what_may_be_given(corpus: Path) -> None:
    text = run_here("compare", corpus, "--metrics", "m1", "m2", "--examples", "1").stdout.decode()
    assert text.startswith("M1  m1\nM2  m2\n\n")
    assert text.count(" only\n") == 1
    for arguments in ([], [MODELS[0]], [*MODELS, "--metrics", "m1", "m2"], ["--metrics", "m1", "m1"]):
        done = run_here("compare", corpus, *arguments)
        assert (done.returncode, done.stderr[:16]) == (2, b"error: name two ")
    with pytest.raises(UsageError, match="no metric matches 'm3'"):
        fastrec.compare(corpus, metrics=("m1", "m3"))
    with pytest.raises(UsageError, match="name two models, A and B, or two metrics"):
        fastrec.compare(corpus, MODELS[0])


def test_metrics_of_different_evaluations(tmp_path: Path) -> None:
    records = [answer(name, "q", "m", 1, evaluation_result_id=name) for name in ("m1", "m2")]
    with pytest.raises(NoMatchError, match="no evaluation has both metrics, m1 and m2"):
        fastrec.compare(make_corpus(tmp_path, records), metrics=("m1", "m2"))


def test_the_table_of_questions_finds_them(tmp_path: Path) -> None:
    records = [
        record
        for number, pair in enumerate([(1, 1), (1, 0), (0, 0), (0, 1)])
        for record in judged(number, "m", {"m1": pair[0], "m2": pair[1]})
    ]
    with open_index(make_corpus(tmp_path, records)) as index:
        for metric in ("m1", "m2"):
            query = Query(evaluation_name="e", metric=metric, which="metrics-differ")
            assert {row.sample_id for row in index.page(query).rows} == {"id of q1", "id of q3"}
