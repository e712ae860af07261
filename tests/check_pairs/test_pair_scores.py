"""`check-pairs`: whether the rows reproduce the score of a result, and which scores cannot be
compared.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from fastrec.commands.check_pairs import compare_score
from fastrec.commands.check_pairs.rows import Tally
from fastrec.judge.aggregate import Metric, Result, ScoreDetails
from fastrec.judge.findings import Finding
from tests.check_pairs.trees import SCORES, Tree, result, row, rows

ACCURACY = Metric(metric_name="accuracy", min_score=0, max_score=1)
PERCENT = Metric(metric_name="accuracy", min_score=0, max_score=100)


def compared(
    score: str, tally: Tally, metric: Metric = ACCURACY, failed: Tally | None = None, **more: Any
) -> str:
    """`same`, `different`, or why a score is not compared."""
    result = Result("gsm8k", ScoreDetails(Raw(score.encode())), metric, more.get("id"))
    found = compare_score(result, 0, tally, failed or Tally())
    return "same" if found is None else "different" if isinstance(found, Finding) else found


def of(*scores: float) -> Tally:
    return Tally(len(scores), sum(scores), sum(score == 1 for score in scores))


TWO_THIRDS = of(1, 1, 0)


@pytest.mark.parametrize(
    ("score", "tally", "verdict"),
    [
        ("0.6666666666666666", TWO_THIRDS, "same"),
        ("0.6666666865348816", TWO_THIRDS, "same"),
        ("0.66666712", TWO_THIRDS, "different"),
        ("0.666667", TWO_THIRDS, "same"),
        ("0.6667", TWO_THIRDS, "same"),
        ("0.67", TWO_THIRDS, "same"),
        ("0.7", TWO_THIRDS, "different"),
        ("6.67e-1", TWO_THIRDS, "same"),
        ("0.66", TWO_THIRDS, "different"),
        ("0.6666", TWO_THIRDS, "different"),
        ("0.66667", TWO_THIRDS, "same"),
        ("0.66666", TWO_THIRDS, "different"),
        ("0.666", TWO_THIRDS, "different"),
        ("0.66667000", TWO_THIRDS, "different"),
        ("0.7", of(1, 1, 1, 0), "different"),
        ("0.75", of(1, 1, 1, 0), "same"),
        ("0.8", of(1, 1, 1, 0), "different"),
        ("0.5", of(*[1] * 54, *[0] * 46), "different"),
        ("0.5", of(*[1] * 499, *[0] * 501), "same"),
        ("7.9", of(7.9, 7.96), "same"),
        ("7.9", of(7.9, 8.2), "different"),
        ("0.12", of(0.125), "same"),
        ("0.13", of(0.125), "same"),
        ("1", of(1, 1), "same"),
        ("1.0", of(1, 1), "same"),
        ("1.0", of(*[1] * 99, 0), "different"),
        ("1", of(1, 0, 1), "different"),
        ("0.0", of(*[0] * 99, 1), "different"),
        ("0", of(0, 0), "same"),
        ("-0.0", of(0, 0), "same"),
        ("66.67", TWO_THIRDS, "different"),
        ("3.25", of(3, 3.5), "same"),
        ("-1.5", of(-1, -2), "same"),
        ("0.5", Tally(), "no rows"),
        ("0.5", of(1e308, 1e308), "too large"),
        ("0.5", of(float("inf")), "too large"),
    ],
)
def test_rounding(score: str, tally: Tally, verdict: str) -> None:
    """A score has as many decimals as are written, one out of 1 at least two.

    Whole numbers are exact.
    """
    assert compared(score, tally) == verdict


def test_scores_below_one_of_a_wider_range() -> None:
    """They have the decimals that are written."""
    assert compared("0.7", TWO_THIRDS, Metric(max_score=10.0)) == "same"
    assert compared("0.7", TWO_THIRDS, Metric(max_score=1.0)) == "different"
    assert compared("0.7", TWO_THIRDS, Metric(max_score="Infinity")) == "different"


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("score", "tally", "verdict"),
    [
        ("66.66666666666667", TWO_THIRDS, "same"),
        ("66.67", TWO_THIRDS, "same"),
        ("66.7", TWO_THIRDS, "same"),
        ("67", TWO_THIRDS, "same"),
        ("67.0", TWO_THIRDS, "different"),
        ("66", TWO_THIRDS, "different"),
        ("66.6", TWO_THIRDS, "different"),
        ("75.5", of(76, 75), "same"),
        ("0.67", TWO_THIRDS, "same"),
        ("100", of(1, 1), "same"),
        ("100.0", of(*[1] * 99, 0), "different"),
    ],
)
@pytest.mark.parametrize(
    "metric",
    [PERCENT, Metric(metric_unit="percent"), Metric(metric_unit="%", max_score="Infinity")],
)
def test_percentages(score: str, tally: Tally, verdict: str, metric: Metric) -> None:
    """The range or the unit says that a score is one; rows may be out of 1 or out of 100."""
    assert compared(score, tally, metric) == verdict


def test_a_percentage_that_is_not_stated(tmp_path: Path) -> None:
    """The message says so."""
    tree = Tree(tmp_path)
    tree.add(None, result(75.0))
    out_of_bounds, group = tree.check().groups
    assert (group.code, out_of_bounds.code) == ("pair.score", "pair.out_of_bounds")
    assert group.path == out_of_bounds.path == "$.evaluation_results[0].score_details.score"
    assert group.message == (
        "expected the mean of 4 rows, 0.75, found 75.0; it is 100 times the mean, but max_score "
        "is not 100"
    )


@pytest.mark.parametrize(
    ("score", "verdict"), [("0.5", "same"), ("0.4", "same"), ("0.6", "same"), ("0.7", "different")]
)
def test_rows_with_errors(score: str, verdict: str) -> None:
    """They count as their score, as 0, or not at all: harnesses differ."""
    tally = Tally(8, 4.0, 4)
    failed = Tally(2, 2.0, 0)
    assert compared(score, tally, failed=failed) == verdict


def test_only_errors() -> None:
    assert compared("0.0", Tally(), failed=Tally(3)) == "same"
    assert compared("0.5", Tally(), failed=Tally(3)) == "different"


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        (Metric(metric_name="accuracy"), "same"),
        (Metric(metric_id="lm_eval.exact_match"), "same"),
        (Metric(metric_kind="accuracy", metric_name="x"), "same"),
        (Metric(evaluation_description="Accuracy on GSM8K"), "same"),
        (Metric(score_type="binary"), "same"),
        (Metric(metric_name="quality"), "different"),
        (Metric(), "different"),
    ],
)
def test_correct_answers_count_for_metrics_like_accuracy(metric: Metric, verdict: str) -> None:
    """The scores of these rows are something else, such as a log-likelihood."""
    assert compared("0.5", Tally(rows=4, score=-17.0, correct=2), metric) == verdict


@pytest.mark.parametrize(
    "name",
    re.findall(
        r"\S+",
        "bleu BLEU-4 corpus_bleu chrf++ ter f1 macro_f1 f1-score ROUGE-L rougeLsum rouge1 "
        "word_perplexity mcc std "
        "bits_per_byte matthews_corrcoef pearson-r Spearman stderr acc_stderr pass@5 pass@10 "
        "pass_at_k pass^3 maj@64 "
        "elo_rating median_score auroc length_controlled_lc exact_match@5 brier_max "
        "weighted-accuracy",
    ),
)
def test_metrics_that_are_no_means(name: str) -> None:
    """They are not compared if they differ, and count as reproduced if they do not."""
    assert compared("0.9", TWO_THIRDS, Metric(metric_name=name)) == "not a mean"
    assert (
        compared("0.9", TWO_THIRDS, Metric(evaluation_description=f"the {name} of GSM8K"))
        == "not a mean"
    )
    assert compared("0.9", TWO_THIRDS, Metric(), id=f"gsm8k#{name}") == "not a mean"
    assert compared("0.667", TWO_THIRDS, Metric(metric_name=name)) == "same"


@pytest.mark.parametrize(
    "name",
    re.findall(
        r"\S+",
        "accuracy acc acc_norm exact_match em pass@1 pass_rate mean mean_score win_rate "
        "quasi_exact_match math_equiv "
        "reward score ifeval_strict_accuracy mrr ndcg harmlessness normalized-accuracy llm_judge "
        "brier_score",
    ),
)
def test_metrics_that_are_means(name: str) -> None:
    assert compared("0.9", TWO_THIRDS, Metric(metric_name=name)) == "different"


def test_names_of_evaluations_are_no_names_of_metrics(tmp_path: Path) -> None:
    """An evaluation called word_count is no count, if the metric has a name."""
    tree = Tree(tmp_path)
    tree.add(rows(evaluation_name="word_count"), result(0.9, name="word_count"))
    assert tree.codes() == {"pair.score": 1}


def test_results_are_compared_one_by_one(tmp_path: Path) -> None:
    """A sample that is scored by several metrics has a row for each."""
    tree = Tree(tmp_path)
    lines = [
        line
        for name, scores in {"a": (1, 0), "b": (0.25, 0.5), "c": (0, 0)}.items()
        for line in rows(*scores, result=name)
    ]
    results = [
        result(0.5, "a"),
        result(0.375, "b"),
        result(0.1, "c"),
        result(0.3, "d"),
        result(7.5, "e", metric_name="elo", max_score="Infinity"),
    ]
    tree.add(lines, *results)
    found = tree.check()
    assert found.codes == {"pair.score": 1}
    assert found.groups[0].path == "$.evaluation_results[2].score_details.score"
    assert (found.results, found.reproduced, found.different, found.not_compared) == (
        5,
        2,
        1,
        {"no rows": 2},
    )


def test_scores_that_no_double_can_hold(tmp_path: Path) -> None:
    """An integer of any length is a valid score, in rows and in an aggregate."""
    tree = Tree(tmp_path)
    path = tree.add([row(0, 10**400), row(1, 1)], result(0.5))
    assert tree.check().not_compared == {"too large": 1}
    document = json.loads(path.read_text())
    for text in ("1" + "0" * 400, "1e400", "1" * 5_000):
        path.write_text(json.dumps(document).replace('"score": 0.5', f'"score": {text}'))
        found = tree.check()
        assert found.bad_files == []
        assert found.codes in ({}, {"pair.aggregate": 1})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.integers(2, 12))
def test_a_rounded_mean_agrees(scores: list[float], decimals: int) -> None:
    """Whatever the number of decimals; and a mean that is off by more than rounding does not."""
    mean = sum(scores) / len(scores)
    assert compared(f"{mean:.{decimals}f}", of(*scores)) in (
        "same",
        "different" if round(mean, decimals) in (0, 1) else "",
    )
    assert compared(repr(mean), of(*scores)) == "same"
    assert (
        compared(f"{mean + 2.5 * 10.0**-decimals + 2e-6:.{decimals}f}", of(*scores)) == "different"
    )


ERROR_OF_ROWS = statistics.stdev(SCORES) / 2
ERROR_OF_ALL = statistics.stdev([*SCORES, 0.0]) / math.sqrt(5)


@pytest.mark.parametrize(
    ("stated", "more", "is_wrong"),
    [
        ({"value": ERROR_OF_ROWS, "method": "analytic"}, {"num_samples": 4}, False),
        ({"value": ERROR_OF_ROWS}, {}, False),
        ({"value": round(ERROR_OF_ROWS, 3)}, {}, False),
        ({"value": ERROR_OF_ALL}, {"num_samples": 5}, False),
        ({"value": statistics.pstdev(SCORES) / 2}, {}, False),
        ({"value": 2 * ERROR_OF_ROWS, "method": "analytic"}, {"num_samples": 4}, True),
        ({"value": statistics.stdev(SCORES)}, {}, True),
        ({"value": 0.0}, {}, True),
        ({"value": -ERROR_OF_ROWS}, {}, True),
        ({"value": 0.9, "method": "bootstrap"}, {}, False),  # depends on random numbers
        (
            {"value": 0.9},
            {"num_samples": 2},
            False,
        ),  # repeats: the errors of their means are something else
        ({"value": "0.9"}, {}, None),  # not valid by the schema
        ({"value": None}, {}, None),
        (0.9, {}, None),
    ],
)
def test_standard_errors(
    tmp_path: Path, stated: Any, more: dict[str, Any], is_wrong: bool | None
) -> None:
    """It is that of the mean of the rows, with or without errors, and with n or n - 1 under the
    root.
    """
    tree = Tree(tmp_path)
    of_rows = result(0.75)
    of_rows["score_details"]["uncertainty"] = {"standard_error": stated, **more}
    tree.add([*rows(), row(9, 0.0, error="timeout")], of_rows)
    found = tree.check()
    codes = {True: ["pair.standard_error"], False: [], None: ["pair.schema"]}[is_wrong]
    assert list(found.codes) == codes
    if is_wrong:
        path = "$.evaluation_results[0].score_details.uncertainty.standard_error.value"
        assert found.groups[0].path == path


@pytest.mark.parametrize(
    ("scores", "value", "is_wrong"),
    [
        ([75.0, 25.0], 25.0, False),
        ([0.75, 0.25], 25.0, False),
        ([0.3] * 10, 0.0, False),
        ([0.3] * 10, 0.1, True),
        ([1000.25, 1000.5, 1000.75], 0.25 / math.sqrt(3), False),
        ([1000.25, 1000.5, 1000.75], 0.2, True),
        ([1e200, 1e200], 7.0, False),
        ([1.0], 7.0, False),
    ],
)
def test_standard_errors_of_other_scores(
    tmp_path: Path, scores: list[float], value: float, is_wrong: bool
) -> None:
    """Percentages, scores that are all the same or far from 0, and those that cannot be compared."""
    tree = Tree(tmp_path)
    of_rows = result(
        statistics.fmean(scores), max_score="Infinity", metric_name="score", metric_unit="percent"
    )
    of_rows["score_details"]["uncertainty"] = {"standard_error": {"value": value}}
    tree.add(rows(*scores), of_rows)
    assert tree.codes() == ({"pair.standard_error": 1} if is_wrong else {})
