"""Cohen's kappa and its interval, by a textbook."""

from __future__ import annotations

from math import sqrt

import pytest

from fastrec.statistics.agreement import kappa_interval


def test_kappa_of_a_textbook() -> None:
    """20, 5, 10 and 15 answers: 0.7 agree, 0.5 by chance.

    The large-sample error (Fleiss, 1969) is close.
    """
    kappa, low, high = kappa_interval(
        {(1, 0, 0, 0): 20, (0, 1, 0, 0): 5, (0, 0, 1, 0): 10, (0, 0, 0, 1): 15}
    )
    assert kappa == pytest.approx(0.4)
    table = [[0.4, 0.1], [0.2, 0.3]]
    n = 50
    rows, columns = [0.5, 0.5], [0.6, 0.4]
    same = sum(table[i][i] * (1 - (rows[i] + columns[i]) * 0.6) ** 2 for i in (0, 1))
    other = sum(table[i][j] * (columns[i] + rows[j]) ** 2 for i, j in ((0, 1), (1, 0)))
    error = sqrt((same + 0.36 * other - (0.4 - 0.5 * 0.6) ** 2) / (n * 0.25))
    assert low is not None
    assert high is not None
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)


@pytest.mark.parametrize("table", [{}, {(1, 0, 0, 0): 9}, {(0, 0, 0, 2): 1}])
def test_kappa_is_undefined_if_all_agree_on_one_verdict(
    table: dict[tuple[int, int, int, int], int],
) -> None:
    assert kappa_interval(table) == (None, None, None)
