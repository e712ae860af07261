"""Codes: distinct combinations are those of numpy, whether codes are dense or sparse."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.answers.codes import distinct_of
from fastrec.answers.counts import sums_of_doubles
from fastrec.summary.tally import UNIT_BITS


@pytest.mark.parametrize("size", [1, 2, 50, 10**6, 10**12, 1 << 61])
@pytest.mark.parametrize("records", [0, 1, 2, 500])
def test_distinct_codes_are_numbered_in_order(size: int, records: int) -> None:
    codes = np.random.default_rng(0).integers(0, size, records)
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    found = distinct_of(codes, np.zeros_like(codes))
    assert found.first.tolist() == first.tolist()
    assert found.place.tolist() == place.tolist()


def test_combinations_of_large_codes_stay_apart() -> None:
    codes = np.array([3, 0, 3, 3, 1]) << 60
    others = np.array([1, 1, 0, 1, 5], dtype=np.uint32) << 20
    assert distinct_of(codes, others).place.tolist() == [3, 0, 2, 3, 1]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.floats(allow_nan=False, allow_infinity=False)), max_size=9
    )
)
def testsums_of_doubles_are_exact(values: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in values], dtype=np.int64)
    scores = np.array([score for _, score in values], dtype=np.float64)
    sums, squares = sums_of_doubles(groups, scores, 3)
    for group in range(3):
        own = [Fraction(score) for number, score in values if number == group]
        assert Fraction(sums[group], 1 << UNIT_BITS) == sum(own)
        assert Fraction(squares[group], 1 << 2 * UNIT_BITS) == sum(score**2 for score in own)
