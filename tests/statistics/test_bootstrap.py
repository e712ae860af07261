"""Draws of questions and their intervals, against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastrec.statistics import bootstrap
from fastrec.statistics.bootstrap import DRAWS, draw_means, interval_ends


def test_ends_of_intervals_are_percentiles() -> None:
    random = np.random.default_rng(0)
    for draws in (
        random.random((1000, 3)),
        random.integers(0, 9, (1000, 3)) / 8,
        random.random((999, 1)) * 1e155,
    ):
        assert (interval_ends(draws) == np.percentile(draws, [2.5, 97.5], axis=0)).all()


def test_ends_without_some_draws() -> None:
    draws = np.array([[1.0], [np.nan], [3.0]])
    assert interval_ends(draws) == pytest.approx(np.array([[1.05], [2.95]]))
    random = np.random.default_rng(1)
    draws = random.random((1000, 40))
    draws[random.random(draws.shape) < np.linspace(0, 0.999, 40)] = np.nan
    assert (interval_ends(draws) == np.nanpercentile(draws, [2.5, 97.5], axis=0)).all()
    draws[:, 7] = np.nan
    ends = interval_ends(draws)
    assert np.isnan(ends[:, 7]).all()
    assert np.isnan(ends).sum() == 2


@pytest.mark.parametrize("missing", [False, True])
def test_means_are_those_of_the_drawn_questions(missing: bool, monkeypatch: Any) -> None:
    """All models get the same draws, and a model without an answer in a draw has no mean there."""
    monkeypatch.setattr(bootstrap, "_CELLS", 70)
    random = np.random.default_rng(3)
    values = random.random((7, 3))
    if missing:
        values[1:, 2] = np.nan
    found = draw_means(np.nan_to_num(values), (~np.isnan(values)).astype(float), seed=5)
    drawn = np.random.default_rng([0, 5])
    for row in range(DRAWS):
        if row % 10 == 0:
            places = drawn.integers(0, 7, (10, 7))
        chosen = values[places[row % 10]]
        with np.errstate(all="ignore"):
            expected = np.nansum(chosen, axis=0) / (~np.isnan(chosen)).sum(axis=0)
        assert found[row] == pytest.approx(expected, abs=1e-11, nan_ok=True)
    assert np.isnan(found).any() == missing
