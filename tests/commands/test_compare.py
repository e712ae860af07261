"""`fastrec compare`: counts and p-values that naive code and scipy agree with, and the
distinguishing questions.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.compare import ComparedEvaluation
from fastrec.errors import UsageError
from tests.answers.small import Record, answer, group, make_corpus, values
from tests.running import run_here

MODELS = [f"org/m{number}" for number in range(5)]
A, B = MODELS[:2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluations for each of the tests, with gaps and errors; read-only."""
    rng = random.Random(2)

    def records() -> Iterator[Record]:
        for number in range(60):
            for model in MODELS:
                better = 0.7 if model == A else 0.4
                error = {"error": "timeout"} if rng.random() < 0.1 else {}
                if rng.random() < 0.9:
                    yield answer(
                        "binary", f"question {number}", model, int(rng.random() < better), **error
                    )
                for trial in "12":
                    score = int(rng.random() < better)
                    yield answer(
                        "repeats", f"question {number}", model, score, metadata={"trial": trial}
                    )
                score = round(rng.random() * better, 2)
                yield answer(
                    "graded", f"question {number}", model, score, evaluation_result_id="f1"
                )
        yield answer("alone", "only A has answered", A, 1)
        yield answer("errors", "both have failed", A, 1, error="x")
        yield answer("errors", "both have failed", B, 1, error="x")

    return make_corpus(tmp_path_factory.mktemp("compare"), records())


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return run_here("compare", *arguments)


def pairs_of(corpus: Path, evaluation: str) -> dict[str, tuple[float, float]]:
    """The values of A and B on the questions that both have answered, by hash."""
    found = {}
    for (name, _, sample_hash), records in group(corpus).items():
        each = values(records, graded=name == "graded")
        if name == evaluation and A in each and B in each:
            found[sample_hash] = each[A], each[B]
    return found


def scope_of(corpus: Path, evaluation: str, **options: Any) -> ComparedEvaluation:
    (found,) = fastrec.compare(corpus, A, B, evaluation=evaluation, **options).evaluations
    return found


@pytest.mark.parametrize("evaluation", ["binary", "repeats", "graded"])
def test_the_counts_are_those_of_a_naive_count(corpus: Path, evaluation: str) -> None:
    found = scope_of(corpus, evaluation)
    pairs = pairs_of(corpus, evaluation).values()
    assert found.graded is (evaluation == "graded")
    assert found.questions == len(pairs)
    assert found.wins == sum(a > b for a, b in pairs)
    assert found.losses == sum(a < b for a, b in pairs)
    assert found.wins + found.losses + found.ties == found.questions
    assert found.a == pytest.approx(sum(a for a, _ in pairs) / len(pairs))
    assert found.b == pytest.approx(sum(b for _, b in pairs) / len(pairs))
    assert found.difference == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))


def test_questions_of_one_model_are_counted(corpus: Path) -> None:
    each = [
        values(records, graded=False)
        for (name, _, _), records in group(corpus).items()
        if name == "binary"
    ]
    found = scope_of(corpus, "binary")
    assert found.only_a == sum(A in one and B not in one for one in each) > 0
    assert found.only_b == sum(B in one and A not in one for one in each) > 0


def test_the_p_values_are_those_of_scipy(corpus: Path) -> None:
    stats = pytest.importorskip("scipy.stats")
    numpy = pytest.importorskip("numpy")
    found = fastrec.compare(corpus, A, B)
    by_name = {one.evaluation_name: one for one in found.evaluations}
    binary = by_name["binary"]
    expected = stats.binomtest(binary.wins, binary.wins + binary.losses).pvalue
    assert (binary.test, binary.p) == ("mcnemar", pytest.approx(expected))
    for name in ("repeats", "graded"):
        one = by_name[name]
        pairs = pairs_of(corpus, name).values()
        differences = [a - b for a, b in pairs]
        assert (one.test, one.p) == ("t", pytest.approx(stats.ttest_1samp(differences, 0).pvalue))
        signs = numpy.random.default_rng(1).choice([-1, 1], (50_000, len(differences)))
        as_far = abs(signs @ numpy.array(differences)) >= abs(sum(differences)) - 1e-9
        assert one.p == pytest.approx(as_far.mean(), abs=0.02)
    tested = [one for one in found.evaluations if one.p is not None]
    adjusted = stats.false_discovery_control([one.p for one in tested])
    assert [one.p_adjusted for one in tested] == pytest.approx(list(adjusted))


def test_shares_of_several_answers_are_exact(tmp_path: Path) -> None:
    """Thirds are no doubles; the exact test counts them as thirds."""
    records = [
        answer("e", f"q{number}", model, int(trial < right), metadata={"trial": str(trial)})
        for number in range(6)
        for model, right in ((A, 2 if number < 5 else 0), (B, 1))
        for trial in range(3)
    ]
    found = scope_of(make_corpus(tmp_path, records), "e")
    assert (found.test, found.p, found.wins, found.losses) == ("mcnemar", 2 * (1 + 6) / 64, 5, 1)


def test_means_of_several_scores_are_exact(tmp_path: Path) -> None:
    """The mean of 0.1 and 0.2 is that of 0 and 0.3, though not as doubles."""
    records = [
        answer("e", f"q{number}", model, score, metadata={"trial": str(trial)})
        for number in range(6)
        for model, better in ((A, True), (B, False))
        for trial, score in enumerate(
            ((0.5, 0.9) if better else (0, 0.1)) if number < 4 else (0.1, 0.2)[::-1]
        )
        for score in [score if number < 4 or better else (0, 0.3)[trial]]
    ]
    found = scope_of(make_corpus(tmp_path, records), "e")
    assert (found.test, found.p, found.wins, found.ties) == ("mcnemar", 2 / 2**4, 4, 2)
    assert found.difference == 4 * 0.65 / 6


def test_examples_are_those_on_which_the_others_agree(tmp_path: Path) -> None:
    """Questions that A wins and questions that B wins take turns.

    Each time, the one with the clearest majority.
    """
    rows = {  # A, B, then four others
        "A, others half": (1, 0, 1, 1, 0, 0),
        "A, others wrong": (1, 0, 0, 0, 0, 0),
        "A, others mostly right": (1, 0, 1, 1, 1, 0),
        "B, others right": (0, 1, 1, 1, 1, 1),
        "B, others half": (0, 1, 1, 1, 0, 0),
        "tie": (1, 1, 0, 0, 0, 0),
    }
    models = [A, B, *(f"other/{number}" for number in range(4))]
    corpus = make_corpus(
        tmp_path,
        [
            answer("e", asked, model, one)
            for asked, row in rows.items()
            for model, one in zip(models, row, strict=True)
        ],
    )
    found = scope_of(corpus, "e", examples=9)
    order = [
        "A, others wrong",
        "B, others right",
        "A, others mostly right",
        "B, others half",
        "A, others half",
    ]
    assert [one.question.question for one in found.examples] == order
    assert [(one.a, one.b, one.others, one.others_value) for one in found.examples[:3]] == [
        (1, 0, 4, 0), (0, 1, 4, 1), (1, 0, 4, 0.75),
    ]  # fmt: skip
    assert [one.question.question for one in scope_of(corpus, "e", examples=2).examples] == order[
        :2
    ]
    assert {one.model_id for example in found.examples for one in example.question.answers} == {
        A,
        B,
    }
    only = scope_of(corpus, "e", examples=1, model="other/[03]").examples[0]
    assert (only.question.question, only.others, only.others_value) == ("A, others wrong", 2, 0)


def test_graded_examples_have_the_largest_differences(corpus: Path) -> None:
    pairs = pairs_of(corpus, "graded")
    examples = scope_of(corpus, "graded", examples=4).examples
    wins = sorted((a - b for a, b in pairs.values()), reverse=True)
    assert [one.a - one.b for one in examples] == [wins[0], wins[-1], wins[1], wins[-2]]
    for one in examples:
        assert (one.a, one.b) == pairs[one.question.sample_hash]


def test_without_common_questions_there_is_no_p_value(corpus: Path) -> None:
    found = fastrec.compare(corpus, A, B, evaluation=["alone", "errors"])
    assert [(one.evaluation_name, one.missing) for one in found.uncompared] == [("alone", [B])]
    (errors,) = found.evaluations
    assert (errors.questions, errors.p, errors.p_adjusted, errors.a, errors.examples) == (
        0,
        None,
        None,
        None,
        [],
    )


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("x", B, "no model matches 'x'; available: org/m0"),
        (A, "org/*", r"'org/\*' matches 5 models: org/m0, org/m1"),
        (A, "*m0", r"'org/m0' and '\*m0' are the same model, org/m0"),
    ],
)
def test_a_and_b_must_be_two_models(corpus: Path, a: str, b: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fastrec.compare(corpus, a, b)
    assert run(corpus, a, b).returncode == 2


def test_the_text(tmp_path: Path) -> None:
    """A small corpus, in full; hostile names cannot control a terminal."""
    hostile = "org/\x1b[31mb\u202e"
    records = [answer("sums", f"{number} + 1?", "org/a", 1, sample_id=number) for number in "123"]
    records += [
        answer("sums", f"{number} + 1?", hostile, int(number == "1"), sample_id=number)
        for number in "123"
    ]
    corpus = make_corpus(tmp_path, [*records, answer("talk", "hi", "org/a", 1)])
    lines = run(corpus, "*a", hostile, "--examples", "1").stdout.decode().splitlines()
    assert lines[:9] == [
        "A  org/a",
        "B  org/\\x1b[31mb\\u202e",
        "",
        "  evaluation  questions       A      B  points  wins  losses  ties       p  adjusted p",
        "  sums                3  100.0%  33.3%  +66.67     2       0     1  0.5000      0.5000",
        "  p: exact McNemar test; wins: A is better",
        (
            "  sums: too few questions differ to tell what is detected with 80% power at p < 0.05; "
            "to detect 66.7 takes 11 questions"
        ),
        "  not compared: 1 evaluation without records of both models: talk",
        "",
    ]
    assert lines[9] == "sums, example 1: A 100.0%, B 0.0%"
    assert lines[10].startswith("sample 2, hash ")
    assert lines[11:] == [
        "question",
        "  2 + 1?",
        "reference",
        "  yes",
        "",
        "A  org/a  right score 1",
        "  org/a says 1",
        "",
        "B  org/\\x1b[31mb\\u202e  wrong score 0",
        "  org/\\x1b[31mb\\u202e says 0",
    ]


def test_json(corpus: Path) -> None:
    done = run(corpus, A, B, "--format", "json", "--examples", "1")
    found = json.loads(done.stdout)
    assert (done.returncode, found["a"], found["b"]) == (0, A, B)
    assert [one["evaluation_name"] for one in found["evaluations"]] == [
        "binary",
        "errors",
        "graded",
        "repeats",
    ]
    assert [len(one["examples"]) for one in found["evaluations"]] == [1, 0, 1, 1]


def test_the_chance_to_detect_a_difference(corpus: Path) -> None:
    """It grows with the difference, and the text says it."""
    first, second = fastrec.open(corpus).models[:2]
    small, large = (
        fastrec.compare(corpus, first, second, detect=points, examples=0) for points in (1, 40)
    )
    assert (small.detect, large.detect) == (1, 40)
    chances = [
        (few.chance, many.chance)
        for few, many in zip(small.evaluations, large.evaluations, strict=True)
        if few.chance is not None and many.chance is not None
    ]
    assert chances
    assert all(few <= many for few, many in chances)
    text = run_here("compare", corpus, first, second, "--detect", "40").stdout.decode()
    assert "the chance to find a difference of 40 points is " in text
    assert run_here("compare", corpus, first, second, "--detect", "0").returncode == 2


def test_evaluations_beyond_the_first_are_counted(tmp_path: Path) -> None:
    """Five say what they detect; the text counts the others."""
    records = [
        answer(evaluation, "1 + 1?", model, 1) for evaluation in "abcdefg" for model in ("x", "y")
    ]
    text = run(make_corpus(tmp_path, records), "x", "y").stdout.decode()
    assert text.count("too few questions differ to tell what is detected") == 5
    assert "  … and 2 more evaluations; --format json lists all\n" in text
