"""`--repeats-as`: numbers by hand for four trials, naive code over choices of trials, and the
trials of tau-bench.
"""

from __future__ import annotations

import io
import json
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import zstandard

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from fastrec.answers.values import value_rows
from fastrec.errors import NoMatchError, UsageError
from fastrec.statistics.repeats import parse_repeats
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

A = "org/a"
B = "org/b"
TAU = Path(__file__).parents[3] / "shared" / "real" / "tau" / "gpt-4o-airline_samples.jsonl.zst"

# Of each question, the extracted answers of the trials; x is the right one, ! an error, which is no
# answer.
TRIALS = {
    A: ["xxxx", "xxxy", "xxyy", "yzxw", "yyyy", "xx!y"],
    B: ["xyyy", "xyyy", "xyyy", "xyyy", "xyyy"],
}


def trial(question: int, model: str, number: int, said: str, **more: Any) -> Record:
    attribution = {
        "turn_idx": 0,
        "source": "output.raw",
        "extraction_method": "regex",
        "is_terminal": True,
    }
    error = {"error": "timeout"} if said == "!" else {}
    metadata = {"trial": str(number), "half": str(question % 2)}
    fields = {"metadata": metadata, "answer_attribution": [attribution | {"extracted_value": said}]}
    text = f"{9 - number} {said}"  # so the order of the corpus is not that of trials
    return answer(
        "tau", f"q{question}", model, int(said == "x"), text=text, **fields, **error, **more
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        trial(question, model, number, said)
        for model, questions in TRIALS.items()
        for question, trials in enumerate(questions)
        for number, said in enumerate(trials)
    ]
    return make_corpus(tmp_path_factory.mktemp("repeats"), records)


def of_a(corpus: Path, how: str, **options: Any) -> tuple[float | None, int, float]:
    (evaluation,) = fastrec.stats(corpus, repeats_as=how, **options).evaluations
    (model,) = [model for model in evaluation.by_model if model.model_id == A]
    assert model.accuracy == model.mean_score
    return model.accuracy, model.questions, model.coverage


@pytest.mark.parametrize(
    ("how", "values"),
    [
        # 4, 3, 2, 1 and 0 of 4 trials are right; 2 of the 3 answers to the last question.
        ("mean", [1, 3 / 4, 2 / 4, 1 / 4, 0, 2 / 3]),
        ("pass@1", [1, 3 / 4, 2 / 4, 1 / 4, 0, 2 / 3]),
        ("pass^1", [1, 3 / 4, 2 / 4, 1 / 4, 0, 2 / 3]),
        ("pass@2", [1, 1, 1 - 1 / 6, 1 - 3 / 6, 0, 1]),
        ("pass^2", [1, 3 / 6, 1 / 6, 0, 0, 1 / 3]),
        ("pass@3", [1, 1, 1, 1 - 1 / 4, 0, 1]),
        ("pass^3", [1, 1 / 4, 0, 0, 0, 0]),
        ("pass@4", [1, 1, 1, 1, 0]),
        ("pass^4", [1, 0, 0, 0, 0]),
        ("majority", [1, 1, 0, 0, 0, 1]),
        ("first", [1, 1, 1, 0, 0, 1]),
    ],
)
def test_four_trials_by_hand(corpus: Path, how: str, values: list[float]) -> None:
    accuracy, questions, coverage = of_a(corpus, how)
    assert (accuracy, questions) == (pytest.approx(fmean(values)), len(values))
    assert coverage == len(values) / 6
    (evaluation,) = fastrec.stats(corpus, repeats_as=how, model=A).evaluations
    error = stdev(values) / len(values) ** 0.5
    assert evaluation.by_model[0].accuracy_standard_error == pytest.approx(error)


def test_errors_as_wrong_are_trials(corpus: Path) -> None:
    assert of_a(corpus, "pass^4", errors_as_wrong=True)[:2] == (pytest.approx(1 / 6), 6)
    assert of_a(corpus, "pass@3", errors_as_wrong=True)[0] == pytest.approx((3 + 3 / 4 + 0 + 1) / 6)


@pytest.mark.parametrize("errors_as_wrong", [False, True])
def test_answers_are_those_to_the_questions_that_count(
    errors_as_wrong: bool, tmp_path: Path
) -> None:
    """25 questions have five trials, 17 have one, and one has four and an error, which may count as
    wrong.
    """
    said = [*["xxxxy"] * 25, *["x"] * 17, "xxxx!"]
    records = [
        trial(question, A, number, one)
        for question, trials in enumerate(said)
        for number, one in enumerate(trials)
    ]
    corpus = make_corpus(tmp_path, records)
    (evaluation,) = fastrec.stats(
        corpus, repeats_as="pass@5", errors_as_wrong=errors_as_wrong
    ).evaluations
    (model,) = evaluation.by_model
    questions = 25 + errors_as_wrong
    assert (model.questions, model.answers, model.correct) == (
        questions,
        5 * questions,
        4 * questions,
    )
    assert (model.answers_per_question, model.records, model.errors) == (5, len(records), 1)
    assert model.accuracy_low is not None
    (evaluation,) = fastrec.stats(
        corpus, repeats_as="first", errors_as_wrong=errors_as_wrong
    ).evaluations
    (model,) = evaluation.by_model
    assert (model.questions, model.answers) == (43, 25 * 5 + 17 + 4 + errors_as_wrong)


@pytest.mark.parametrize("attribution", ["none", "empty"])
def test_a_majority_of_outputs_if_nothing_was_extracted(attribution: str, tmp_path: Path) -> None:
    """x has two votes, y and z have one each: without extracted values, outputs are compared, not
    their reasoning.
    """
    fields: dict[str, Any] = {
        "turn_idx": 0,
        "source": "output.raw",
        "extraction_method": "regex",
        "is_terminal": True,
    }
    values = {"none": [], "empty": [fields | {"extracted_value": ""}]}
    records = [
        answer(
            "e", question, A, int(said == right), metadata={"epoch": str(number)},
            answer_attribution=values[attribution], output={"raw": [said], "reasoning_trace": [f"{number}"]},
        )
        for question, right in (("q0", "x"), ("q1", "y"))
        for number, said in enumerate("yxzx")
    ]  # fmt: skip
    corpus = make_corpus(tmp_path, records)
    index = open_index(corpus)
    values_of = value_rows(
        index, Query(evaluation_name="e"), [A], repeats=parse_repeats("majority")
    )
    rows = {row.name: row.sample_id for row in index.page(Query(evaluation_name="e")).rows}
    assert {rows[name]: value for name, (value,) in values_of.items()} == {
        "id of q0": 1,
        "id of q1": 0,
    }


def test_graded_scores(tmp_path: Path) -> None:
    """Of several scores, the first counts with its score.

    Passing counts right answers, whatever the scores.
    """
    records = [
        answer("e", f"q{number}", A, score, metadata={"epoch": str(epoch)})
        for number, scores in enumerate([(0.25, 0.5, 1), (0.75, 0.25, 0)])
        for epoch, score in zip((11, 2, 30), scores, strict=True)
    ]
    corpus = make_corpus(tmp_path, records)
    found = {}
    for how in ("mean", "first", "pass@2"):
        (evaluation,) = fastrec.stats(corpus, repeats_as=how).evaluations
        found[how] = (
            evaluation.graded,
            evaluation.by_model[0].accuracy,
            evaluation.by_model[0].mean_score,
        )
    assert found["mean"] == (True, 0.5, pytest.approx((1.75 + 1) / 6))
    assert found["first"] == (True, 0.5, (0.5 + 0.25) / 2)
    assert found["pass@2"] == (
        False,
        pytest.approx((1 + 2 / 3) / 2),
        pytest.approx((1 + 2 / 3) / 2),
    )


def test_scores_of_first_answers(tmp_path: Path) -> None:
    """They may be other than the verdicts, also if they are 0 and 1."""
    records = [
        answer("e", f"q{number}", A, 1.0, metadata={"epoch": str(epoch)})
        | {"evaluation": {"score": 1.0, "is_correct": False}}
        for number in range(4)
        for epoch in (1, 2)
    ]
    corpus = make_corpus(tmp_path, records)
    for how in ("mean", "first"):
        [model] = fastrec.stats(corpus, repeats_as=how).evaluations[0].by_model
        assert (model.accuracy, model.mean_score) == (0, 1), how


def test_compare(corpus: Path) -> None:
    """B has 1 of 4 right each time: pass^1 is 1/4, pass^2 is 0."""
    found = {
        how: fastrec.compare(corpus, A, B, repeats_as=how).evaluations[0]
        for how in ("mean", "pass^2", "pass^4")
    }
    assert (found["mean"].wins, found["mean"].losses, found["mean"].ties) == (3, 1, 1)
    assert (found["pass^2"].wins, found["pass^2"].losses, found["pass^2"].ties) == (3, 0, 2)
    assert found["pass^2"].difference == pytest.approx((1 + 3 / 6 + 1 / 6) / 5)
    assert (found["pass^2"].test, found["pass^2"].p) == ("t", 2 / 2**3)
    assert (found["pass^4"].a, found["pass^4"].b) == (1 / 5, 0)
    text = run_here(
        "compare", corpus, A, B, "--repeats-as", "pass^2", "--examples", "0"
    ).stdout.decode()
    assert "  pass^2: the chance that all of 2 answers to a question would be right" in text


def test_verdicts_are_better_if_right_whatever_scores_are(tmp_path: Path) -> None:
    """A metric whose lower scores are better has verdicts, too."""
    records = [
        answer("e", f"q{number}", model, score, metadata={"epoch": str(epoch)})
        | {"evaluation": {"score": score, "is_correct": model == A}}
        for number in range(8)
        for model, score in ((A, 0.125), (B, 0.5))
        for epoch in (1, 2)
    ]
    corpus = make_corpus(tmp_path, records)
    for record in records:
        record["metadata"] |= {"lower_is_better": "true"}
    (tmp_path / "said").mkdir()
    said = make_corpus(tmp_path / "said", records)
    for how, difference in {"mean": -0.375, "pass@2": 1.0, "majority": 1.0}.items():
        [found] = fastrec.compare(corpus, A, B, lower_is_better="e", repeats_as=how).evaluations
        assert (found.wins, found.losses, found.difference) == (8, 0, difference)
        assert found.lower_is_better == (how == "mean")
        assert {example.a - example.b for example in found.examples} == {difference}
        for results in (
            fastrec.stats(corpus, lower_is_better="e", repeats_as=how),
            fastrec.stats(said, repeats_as=how),
        ):
            [evaluation] = results.evaluations
            assert [model.model_id for model in evaluation.by_model] == [A, B]
            assert evaluation.lower_is_better == (how == "mean")
    with pytest.raises(UsageError, match="'f' matches no metric and no evaluation"):
        fastrec.stats(corpus, lower_is_better="f", repeats_as="majority")


def test_text_groups_and_report(corpus: Path, tmp_path: Path) -> None:
    text = run_here("stats", corpus, "--repeats-as", "majority").stdout.decode()
    assert "If two answers are as frequent, the question counts as wrong." in text
    grouped = fastrec.stats(corpus, repeats_as="pass^2", group_by="metadata.half", model=A)
    assert {
        one.group["metadata.half"]: one.by_model[0].accuracy
        for one in grouped.evaluations
        if one.group
    } == {
        "0": pytest.approx((1 + 1 / 6 + 0) / 3),
        "1": pytest.approx((3 / 6 + 0 + 1 / 3) / 3),
    }
    fastrec.report(corpus, tmp_path / "report.html", repeats_as="pass^2", examples=1)
    page = (tmp_path / "report.html").read_text()
    assert "accuracy and score are pass^2" in page
    assert f"{fmean([1, 3 / 6, 1 / 6, 0, 0, 1 / 3]):.1%}" in page


@pytest.mark.parametrize("how", ["pass", "pass@0", "pass^-1", "best", "", "pass@4 "])
def test_what_it_may_be(corpus: Path, how: str) -> None:
    with pytest.raises(UsageError, match="--repeats-as must be mean, pass@K"):
        fastrec.stats(corpus, repeats_as=how)
    assert run_here("compare", corpus, A, B, "--repeats-as", how).returncode == 2


def test_too_few_answers_and_common_questions(corpus: Path) -> None:
    with pytest.raises(
        NoMatchError, match=r"no model has 5 answers to a question, which pass\^5 needs"
    ):
        fastrec.stats(corpus, repeats_as="pass^5")
    with pytest.raises(UsageError, match="--common"):
        fastrec.stats(corpus, repeats_as="first", common=True)


def test_show_has_all_trials(corpus: Path) -> None:
    text = run_here("show", corpus, "id of q1", "--model", A).stdout.decode()
    assert f"{A}: ✗✓✓✓ (3 of 4 right)\n" in text  # in the order of the corpus, as the answers below
    index = open_index(corpus)
    query = Query(evaluation_name="tau")
    (row, *_) = index.find("id of q1")
    assert index.trials(query, row.name)[A] == ["right", "right", "right", "wrong"]
    assert index.trials(query, "none") == {}


@pytest.mark.skipif(not TAU.exists(), reason="the records of tau-bench are not here")
def test_tau_bench(tmp_path: Path) -> None:
    """The formula of tau-bench, C(c, k) / C(n, k) per task, over the trials that there are."""
    lines = io.TextIOWrapper(
        zstandard.ZstdDecompressor().stream_reader(TAU.open("rb")), encoding="utf-8"
    )
    tasks: dict[int, list[bool]] = {}
    for record in sorted(map(json.loads, lines), key=lambda one: one["metadata"]["trial"]):
        tasks.setdefault(record["sample_id"], []).append(record["evaluation"]["is_correct"])
    fastrec.normalize(TAU, tmp_path / "corpus")
    for k in (1, 2):
        expected = [
            fmean(map(all, combinations(right, k))) for right in tasks.values() if len(right) >= k
        ]
        (evaluation,) = fastrec.stats(tmp_path / "corpus", repeats_as=f"pass^{k}").evaluations
        assert evaluation.by_model[0].accuracy == pytest.approx(fmean(expected))
        assert evaluation.by_model[0].questions == len(expected)
    (evaluation,) = fastrec.stats(tmp_path / "corpus", repeats_as="first").evaluations
    assert evaluation.by_model[0].accuracy == fmean(right[0] for right in tasks.values()) == 0.42


def test_several_k_in_one_table(corpus: Path) -> None:
    """Each is what it is alone, also in groups; the last one ranks."""
    for group_by in ((), ("metadata.half",)):
        found = fastrec.stats(corpus, repeats_as="pass^1..3", group_by=group_by).evaluations
        for k in (1, 2, 3):
            alone = fastrec.stats(corpus, repeats_as=f"pass^{k}", group_by=group_by).evaluations
            assert len(alone) == len(found)
            for one, other in zip(found, alone, strict=True):
                expected = {model.model_id: model.accuracy for model in other.by_model}
                values = {
                    model.model_id: model.series.get(f"pass^{k}", model.accuracy)
                    for model in one.by_model
                }
                assert values == expected
    text = run_here("stats", corpus, "--repeats-as", "pass^1..3").stdout.decode()
    header = next(line for line in text.splitlines() if "coverage" in line)
    assert header.index("pass^1") < header.index("pass^2") < header.index("pass^3")
    csv = run_here("stats", corpus, "--repeats-as", "pass^1..3", "--format", "csv").stdout.decode()
    assert csv.splitlines()[0].endswith("unranked,pass^1,pass^2")
    assert run_here("stats", corpus, "--repeats-as", "pass^3..x").returncode == 2
    assert run_here("stats", corpus, "--repeats-as", "mean..3").returncode == 2
