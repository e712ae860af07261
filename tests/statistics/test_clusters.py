"""Standard errors, intervals and tests over clusters, by simulation; `docs/leaderboard.md` has
these figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastrec.statistics.clusters import cluster_errors
from fastrec.statistics.intervals import wilson_interval
from fastrec.statistics.p_values import paired_p_values

PAGE = Path(__file__).parents[2] / "docs" / "leaderboard.md"
ACCURACY = 0.7
RUNS = 2_000


def simulate(random: Any, clusters: int, correlation: float) -> tuple[Any, Any]:
    """Verdicts, questions × runs, and the cluster of each question; clusters have 4 to 12."""
    sizes = 4 + np.arange(clusters) % 9
    ease = np.full((clusters, RUNS), ACCURACY)
    if correlation:
        total = 1 / correlation - 1
        ease = random.beta(ACCURACY * total, (1 - ACCURACY) * total, (clusters, RUNS))
    numbers = np.repeat(np.arange(clusters), sizes)
    values = random.random((len(numbers), RUNS)) < ease[numbers]
    return values.astype(np.float64), numbers


def coverage(values: Any, numbers: Any) -> float:
    """How often the 95 % interval of an accuracy has the true one."""
    means = values.mean(axis=0)
    n = len(values)
    hits = 0
    for mean, (error, effective) in zip(
        means.tolist(), cluster_errors([(values, numbers)], means), strict=True
    ):
        low, high = wilson_interval(mean, error, n, n, effective)
        assert low is not None
        assert high is not None
        hits += low <= ACCURACY <= high
    return hits / values.shape[1]


def false_alarms(first: Any, second: Any, numbers: Any) -> float:
    """How often p < 0.05 if two models are as good, but on other clusters."""
    sums = np.add.reduceat(first - second, np.flatnonzero(np.diff(numbers, prepend=-1)))
    sizes = np.where(sums == 0, np.nan, np.abs(sums))
    p_values = paired_p_values(
        np.full(RUNS, len(sums), dtype=np.float64),
        (sums != 0).sum(axis=0).astype(np.float64),
        sums.sum(axis=0) ** 2 / np.maximum((sums**2).sum(axis=0), 1),
        np.nanmin(sizes, axis=0) == np.nanmax(sizes, axis=0),
    )
    return float((p_values < 0.05).mean())


@pytest.mark.each_value
@pytest.mark.parametrize("clusters", [10, 30, 100])
@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.5])
def test_the_page_has_the_coverage_of_intervals(clusters: int, correlation: float) -> None:
    random = np.random.default_rng([clusters, round(10 * correlation)])
    values, numbers = simulate(random, clusters, correlation)
    others, _ = simulate(random, clusters, correlation)
    cells = [str(clusters), f"{correlation:g}"]
    alone = np.arange(len(numbers))
    units = (alone, numbers)
    cells.append("/".join(f"{100 * coverage(values, each):.1f}%" for each in units))
    cells.append("/".join(f"{100 * false_alarms(values, others, each):.1f}%" for each in units))
    assert f"| {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")


def test_one_cluster_says_as_much_as_one_question() -> None:
    ((error, effective),) = cluster_errors(
        [(np.array([[1.0], [0.0], [1.0]]), np.zeros(3, dtype=np.int64))], np.array([2 / 3])
    )
    assert error is None
    assert effective == 1
    assert wilson_interval(0.5, None, 3, 3, effective) == wilson_interval(0.5, None, 1, 1)
