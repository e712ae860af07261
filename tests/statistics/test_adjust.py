"""Adjusted p-values follow their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.statistics.adjust import benjamini_hochberg, holm
from tests.commands.comparing import adjusted
from tests.lazily import Library

scipy_stats: Any = Library("scipy.stats")
p_values = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, 0.05]), max_size=12)


@given(p_values)
def test_benjamini_and_hochberg_by_definition(values: list[float]) -> None:
    """The adjusted p is the least of p · n / rank over all p-values that are not smaller."""
    expected = adjusted(dict(enumerate(values)))
    assert benjamini_hochberg(values) == pytest.approx(
        [expected[index] for index in range(len(values))]
    )


def test_benjamini_and_hochberg_by_scipy() -> None:
    """For a list with ties."""
    values = [0.001, 0.04, 0.04, 0.3, 1.0, 1.0, 0.012]
    assert benjamini_hochberg(values) == pytest.approx(
        list(scipy_stats.false_discovery_control(values))
    )


@given(p_values)
def test_holm_by_definition(values: list[float]) -> None:
    """A p-value is significant if its own adjusted one is: the largest of p · (n - rank) up to it."""
    ascending = sorted(values)
    expected = set()
    for at, value in enumerate(values):
        smaller = [one * (len(values) - rank) for rank, one in enumerate(ascending) if one <= value]
        # Of equal ones, the first decides: the others have smaller factors.
        if max(smaller) <= 0.05:
            expected.add(at)
    found = holm(np.array(values), tests=len(values), alpha=0.05).tolist()
    assert set(found) == expected or any(
        abs(one * k - 0.05) < 1e-12 for one in values for k in range(13)
    )


@given(p_values)
def test_holm_needs_no_p_values_above_alpha(values: list[float]) -> None:
    every = np.array(values)
    known = every[every <= 0.05]
    found = every[holm(every, tests=len(values), alpha=0.05)]
    assert known[holm(known, tests=len(values), alpha=0.05)].tolist() == found.tolist()
