"""Which cases of a test run: few, but each kind, and the same in every run."""

from __future__ import annotations

import itertools

import pytest

from tests.sizes import LONG, chosen, covering

SIZES = {"a": 5, "b": 4, "c": 3}
CASES = [
    dict(zip(SIZES, numbers, strict=True))
    for numbers in itertools.product(*map(range, SIZES.values()))
]


@pytest.mark.parametrize(("ways", "most"), [(1, 6), (2, 30), (3, 60)])
def test_every_combination_of_values_occurs(ways: int, most: int) -> None:
    """Each value with 1, each pair with 2, all cases with 3: with few cases more than are
    necessary.
    """
    kept = covering(CASES, ways, "test")
    assert len(kept) <= most
    for names in itertools.combinations(SIZES, ways):
        found = {tuple(CASES[number][name] for name in names) for number in kept}
        assert found == set(itertools.product(*(range(SIZES[name]) for name in names)))


def test_a_test_with_one_parameter_keeps_all_cases() -> None:
    """Each case is a value of its own."""
    for ways in (1, 2):
        assert covering([{"a": number} for number in range(7)], ways, "test") == set(range(7))


def test_the_name_decides() -> None:
    """The same name gives the same cases, another one gives others."""
    one, same, other = (covering(CASES, 1, name) for name in ("one", "one", "other"))
    assert one == same != other
    assert (
        chosen(range(100), 10, "one")
        == chosen(range(100), 10, "one")
        != chosen(range(100), 10, "other")
    )


def test_a_sample_has_both_ends() -> None:
    """It has as many cases as asked for, in order, or all if there are fewer."""
    found = chosen(range(100), 10, "test")
    assert (len(found), found[0], found[-1]) == (10, 0, 99)
    assert found == sorted(set(found))
    assert chosen(range(5), 10, "test") == list(range(5))


@pytest.mark.each_value
@pytest.mark.parametrize("one", range(5))
@pytest.mark.parametrize(("two", "three"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_mark_leaves_out_cases(
    one: int, two: int, three: int, request: pytest.FixtureRequest
) -> None:
    """Names in one `parametrize` are one parameter, so none of their rows is left out."""
    name = request.node.originalname
    cases = [
        item.callspec.params
        for item in request.session.items
        if getattr(item, "originalname", "") == name
    ]
    assert {"one": one, "two": two, "three": three} in cases
    if LONG:
        assert len(cases) in (1, 20)
    else:
        assert len(cases) <= 6
    if len(cases) > 1:  # else somebody asked for one case
        assert len({case["one"] for case in cases}) == 5
        assert len({(case["two"], case["three"]) for case in cases}) == 4
