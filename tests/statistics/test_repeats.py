"""Several answers become one value: naive code over choices of trials, votes by hand, exact means."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.errors import UsageError
from fastrec.statistics.repeats import ERROR, RIGHT, WRONG, Trial, match_trials, parse_repeats

trials = st.lists(st.tuples(st.sampled_from([RIGHT, WRONG, ERROR]), st.integers(0, 3)), max_size=7)


@given(trials, st.integers(1, 8), st.booleans())
def test_chances_are_shares_of_all_choices(
    found: list[tuple[int, int]], k: int, errors_as_wrong: bool
) -> None:
    """The unbiased estimate is the share of all choices of K answers with a right one, or with
    right ones only.
    """
    answers = [flag == RIGHT for flag, _ in found if flag != ERROR or errors_as_wrong]
    choices = list(combinations(answers, k))
    some = [Trial(flag, float(flag == RIGHT), said, 1) for flag, said in found]
    for how, check in (("pass@", any), ("pass^", all)):
        value = parse_repeats(f"{how}{k}", errors_as_wrong=errors_as_wrong).value(
            some, graded=False
        )
        assert value == (Fraction(sum(map(check, choices)), len(choices)) if choices else None)


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("xxy", True),
        ("xyy", False),
        ("xy", False),
        ("x", True),
        ("xxyyz", False),
        ("yzx!x", True),
        ("!!x", True),
    ],
)
def test_a_tie_of_votes_is_wrong(said: str, right: bool) -> None:
    flags = {"x": RIGHT, "!": ERROR}
    some = [Trial(flags.get(one, WRONG), 0.0, ord(one), 1) for one in said]
    assert parse_repeats("majority").value(some, graded=True) == right


@given(trials, st.booleans())
def test_means_are_exact(found: list[tuple[int, int]], errors_as_wrong: bool) -> None:
    """Scores are tenths, not the doubles next to them; an error counts with its score, or not at all."""
    some = [Trial(flag, said / 10, said, 1) for flag, said in found]
    tenths = [said for flag, said in found if flag != ERROR or errors_as_wrong]
    value = parse_repeats("mean", errors_as_wrong=errors_as_wrong).value(some, graded=True)
    assert value == (Fraction(sum(tenths), 10 * len(tenths)) if tenths else None)


def test_verdicts_of_the_same_trial_or_output_are_paired() -> None:
    """Those with the same output and trial first; records of different trials never are."""
    one, two = (Trial(RIGHT, 1.0, 0, 7, (("epoch", number),)) for number in "12")
    other = Trial(WRONG, 0.0, 0, 7, (("epoch", "2"),))
    unnumbered = Trial(WRONG, 0.0, 0, 8)
    assert list(match_trials([one, two], [other, unnumbered])) == [
        (two, other),
        (one, None),
        (None, unnumbered),
    ]
    same = Trial(RIGHT, 1.0, 0, 8)
    assert list(match_trials([same], [unnumbered])) == [(same, unnumbered)]


@pytest.mark.parametrize("text", ["", "pass", "pass@0", "pass^-1", "median", "pass@99999"])
def test_what_repeats_may_become(text: str) -> None:
    with pytest.raises(UsageError, match="--repeats-as must be mean"):
        parse_repeats(text)
