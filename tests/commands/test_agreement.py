"""`compare --metric-pair`: agreement of two graders, by hand, by naive code, and by the textbook
formula.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from fastrec.errors import NoMatchError, UsageError
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
    """40 questions with one answer of each model; one with trials; one with an error.

    One that only `m1` judged.
    """
    rng = random.Random(5)
    records: list[Record] = []
    for number in range(40):
        for model in MODELS:
            right = int(rng.random() < 0.6)
            records += judged(
                number, model, {"m1": right, "m2": right if rng.random() < 0.8 else 1 - right}
            )
    for trial, verdicts in enumerate([{"m1": 1, "m2": 0}, {"m1": 0, "m2": 0}, {"m1": 1}]):
        records += judged(
            50, MODELS[0], verdicts, text="x" * (trial + 1), metadata={"trial": str(trial)}
        )
    records += judged(51, MODELS[0], {"m1": 1, "m2": 1}, error="timeout")
    records += judged(52, MODELS[0], {"m1": 1})
    records += judged(53, MODELS[0], {"m1": 1}, text="one answer") + judged(
        53, MODELS[0], {"m2": 1}, text="another"
    )
    return make_corpus(
        tmp_path_factory.mktemp("agreement"), [*records, answer("other", "q", MODELS[0], 1)]
    )


def pairs_of(corpus: Path) -> dict[str, list[tuple[bool, bool]]]:
    """The verdicts of both metrics on each answer, by question."""
    verdicts: dict[tuple[str, str, str], dict[str, bool]] = {}
    for record in map(json.loads, fastrec.cat(corpus, evaluation="e")):
        if not record.get("error"):
            key = record["sample_hash"], record["model_id"], record["output"]["raw"][0]
            verdicts.setdefault(key, {})[record["evaluation_result_id"]] = record["evaluation"][
                "is_correct"
            ]
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
    found = fastrec.compare(corpus, metric_pair=("m1", "m2"), examples=1000)
    (one,) = found.agreement
    questions = pairs_of(corpus)
    pairs = [pair for some in questions.values() for pair in some]
    assert one.answers == len(pairs) == 82
    cells = [
        pairs.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))
    ]
    assert [one.both_right, one.only_first, one.only_second, one.both_wrong] == cells
    assert one.agreement == pytest.approx((cells[0] + cells[3]) / 82)
    assert one.kappa == pytest.approx(kappa_of(pairs))
    without = [
        kappa_of([p for name, some in questions.items() if name != left for p in some])
        for left in questions
    ]
    mean = sum(without) / len(without)
    error = sqrt((len(without) - 1) / len(without) * sum((value - mean) ** 2 for value in without))
    assert one.kappa_low == pytest.approx(one.kappa - 1.959963984540054 * error)
    assert one.kappa_high == pytest.approx(one.kappa + 1.959963984540054 * error)
    assert len(one.disputed) == cells[1] + cells[2]
    assert sum(answer.right_by == "m1" for answer in one.disputed) == cells[1]
    assert [row["evaluation_name"] for row in found.rows()] == ["e"]


def test_disputed_answers_of_some_outcomes_are_in_the_order_of_the_corpus(corpus: Path) -> None:
    """Not in that of a set of names, which is another one in each process."""
    found = fastrec.compare(corpus, metric_pair=("m1", "m2"), examples=1000, wrong=True)
    order = list(pairs_of(corpus))
    places = [order.index(answer.sample_hash) for answer in found.agreement[0].disputed]
    assert len(places) > 5
    assert places == sorted(places)


def two_epochs(
    question: int, *, text: Callable[[int], str], fields: Callable[[int], Record]
) -> list[Record]:
    """Two answers: `judge` judges both, `match` only that of epoch 1; they agree on it.

    The verdicts differ.
    """
    records = []
    for epoch in (1, 2):
        right = (question + epoch) % 2
        metrics = ["judge", "match"] if epoch == 1 else ["judge"]
        records += judged(
            question, MODELS[0], dict.fromkeys(metrics, right), text=text(epoch), **fields(epoch)
        )
    return records


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param(lambda _: "A", lambda epoch: {"metadata": {"epoch": str(epoch)}}, id="epoch"),
        pytest.param(
            lambda _: "A", lambda epoch: {"metadata": {"trial": f"{chr(67 - epoch)}"}}, id="trial"
        ),
        pytest.param(lambda epoch: "BA"[epoch - 1], lambda _: {}, id="output"),
        pytest.param(
            lambda epoch: "BA"[epoch - 1],
            lambda _: {"metadata": {"epoch": "0"}},
            id="output and epoch",
        ),
    ],
)
def test_metrics_are_compared_on_the_same_answers(
    text: Callable[[int], str], fields: Callable[[int], Record], tmp_path: Path
) -> None:
    """Answers are told apart by trial or output, whatever their order and length.

    One may have only one verdict.
    """
    records = [
        record for number in range(20) for record in two_epochs(number, text=text, fields=fields)
    ]
    corpus = make_corpus(tmp_path, records)
    (found,) = fastrec.compare(corpus, metric_pair=("judge", "match")).agreement
    assert (found.answers, found.agreement, found.kappa) == (20, 1.0, 1.0)
    assert (found.judged_by_first, found.judged_by_second) == (20, 0)
    (turned,) = fastrec.compare(corpus, metric_pair=("match", "judge")).agreement
    assert (turned.answers, turned.agreement, turned.judged_by_first, turned.judged_by_second) == (
        20,
        1.0,
        0,
        20,
    )
    text_of_cli = run_here("compare", corpus, "--metric-pair", "judge", "match").stdout.decode()
    assert "20 answers are judged by M1 only" in text_of_cli


def test_answers_of_other_epochs_are_not_compared(tmp_path: Path) -> None:
    """Not even if they are the same, and the only ones; nor if one verdict is an error."""
    epochs = [{"metadata": {"epoch": str(epoch)}} for epoch in (1, 2)]
    records = judged(0, MODELS[0], {"judge": 1}, **epochs[0]) + judged(
        0, MODELS[0], {"match": 1}, **epochs[1]
    )
    records += judged(1, MODELS[0], {"judge": 1}) + judged(
        1, MODELS[0], {"match": 1}, error="timeout"
    )
    records += judged(2, MODELS[0], {"judge": 1}, text="one", **epochs[0])
    records += judged(2, MODELS[0], {"match": 1}, text="as it was sent", **epochs[0])
    records += judged(3, MODELS[0], {"match": 1})
    (found,) = fastrec.compare(
        make_corpus(tmp_path, records), metric_pair=("judge", "match")
    ).agreement
    assert (found.answers, found.judged_by_first, found.judged_by_second) == (1, 2, 2)


def test_filters_read_the_same_answer(tmp_path: Path) -> None:
    """The `filter` of a harness says how a metric reads an answer, so it tells no answers apart."""
    records = [
        record
        for metric in ("strict", "flexible")
        for record in judged(0, MODELS[0], {metric: 1}, text="A", metadata={"filter": metric})
    ]
    (found,) = fastrec.compare(
        make_corpus(tmp_path, records), metric_pair=("strict", "flexible")
    ).agreement
    assert (found.answers, found.judged_by_first, found.judged_by_second) == (1, 0, 0)


def test_a_hash_that_only_one_metric_splits(tmp_path: Path) -> None:
    """If trials have ids of their own, a metric that judged one of them has it under the hash
    alone.
    """
    records = [
        record
        for number, metrics in ((1, ["judge", "match"]), (2, ["judge"]))
        for record in judged(
            0, MODELS[0], dict.fromkeys(metrics, number % 2), text="A", sample_id=f"q-{number}"
        )
    ]
    (found,) = fastrec.compare(
        make_corpus(tmp_path, records), metric_pair=("judge", "match")
    ).agreement
    assert (found.answers, found.both_right, found.judged_by_first, found.judged_by_second) == (
        1,
        1,
        1,
        0,
    )


def test_text_and_what_may_be_given(corpus: Path) -> None:
    text = run_here(
        "compare", corpus, "--metric-pair", "m1", "m2", "--examples", "1"
    ).stdout.decode()
    assert text.startswith("M1  m1\nM2  m2\n\n")
    assert text.count(" only\n") == 1
    for arguments in (
        [],
        [MODELS[0]],
        [*MODELS, "--metric-pair", "m1", "m2"],
        ["--metric-pair", "m1", "m1"],
    ):
        done = run_here("compare", corpus, *arguments)
        assert (done.returncode, done.stderr[:16]) == (2, b"error: name two ")
    with pytest.raises(UsageError, match="no metric matches 'm3'"):
        fastrec.compare(corpus, metric_pair=("m1", "m3"))
    with pytest.raises(UsageError, match="name two models, A and B, or two metrics"):
        fastrec.compare(corpus, MODELS[0])


def test_metrics_of_different_evaluations(tmp_path: Path) -> None:
    records = [answer(name, "q", "m", 1, evaluation_result_id=name) for name in ("m1", "m2")]
    with pytest.raises(NoMatchError, match="no evaluation has both metrics, m1 and m2"):
        fastrec.compare(make_corpus(tmp_path, records), metric_pair=("m1", "m2"))


def test_the_table_of_questions_finds_them(tmp_path: Path) -> None:
    records = [
        record
        for number, pair in enumerate([(1, 1), (1, 0), (0, 0), (0, 1)])
        for record in judged(number, "m", {"m1": pair[0], "m2": pair[1]})
    ]
    index = open_index(make_corpus(tmp_path, records))
    for metric in ("m1", "m2"):
        query = Query(evaluation_name="e", metric=metric, which="metrics-differ")
        assert {row.sample_id for row in index.page(query).rows} == {"id of q1", "id of q3"}
