"""Calibration error and Brier score by hand."""

from __future__ import annotations

import pytest

from fastrec.statistics.calibration import calibrate


def test_two_bins() -> None:
    """Two bins: 0.9 and 0.95 of which one is right, and 0.2, which is wrong."""
    found = calibrate(
        ("e", None, "m"), [(0.9, True), (0.95, False), (0.2, False), (None, True), (1.5, True)]
    )
    assert (found.answers, found.left_out) == (3, 2)
    assert found.ece == pytest.approx((2 * abs(0.925 - 0.5) + 0.2) / 3)
    assert found.brier == pytest.approx((0.01 + 0.95**2 + 0.04) / 3)
    assert [(part.answers, part.accuracy) for part in found.bins] == [(1, 0.0), (2, 0.5)]
    empty = calibrate(("e", None, "m"), [(None, True)])
    assert (empty.answers, empty.ece, empty.brier, empty.bins) == (0, None, None, [])
