"""`diff(fail_on=…)`: what is a failure, and what is excepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastrec.commands.diff import Difference, _find_scopes, diff
from tests.commands.comparing import corpus_of
from tests.commands.test_diff import records_of, trials, worsened


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An old corpus of two models on two evaluations, and some that are compared with it.

    Read-only.
    """
    folder = tmp_path_factory.mktemp("nights")
    records = [*records_of(), *records_of("m", 20, evaluation_name="logic")]
    corpora = {
        "old": records,
        "worse": worsened(records, 9),
        "without a model": [record for record in records if record["model_id"] != "org/n"],
        "without an evaluation": records_of(),
        "two questions less": [record for record in records if record["sample_id"] > 1],
        "more": [*records, *records_of("o"), *records_of("m", 2, evaluation_name="new")],
        "nothing": [],
    }
    return {
        name: corpus_of(some, folder / name.replace(" ", "-")) for name, some in corpora.items()
    }


def reasons(difference: Difference) -> list[tuple[str, str, str]]:
    return [
        (failure.evaluation_name, failure.model_id, failure.reason)
        for failure in difference.failures
    ]


@pytest.mark.parametrize(
    ("fail_on", "p", "p_adjust", "regressed"),
    [
        (None, 0.05, "bh", False),
        (0, 0.05, "bh", True),
        (22.4, 0.05, "bh", True),
        (22.5, 0.05, "bh", False),
        (1, 0.012, "bh", True),  # p = 2/512, times three models, is 0.0117
        (1, 0.011, "bh", False),
        (1, 0.004, "none", True),
        (1, 2 / 512, "none", False),
        (1, 1, "none", True),
    ],
)
def test_a_regression_is_a_significant_loss_beyond_the_limit(
    nights: dict[str, Path], fail_on: float | None, p: float, p_adjust: Any, regressed: bool
) -> None:
    """More points than `fail_on` and a p-value below `p`, both strictly.

    By default the adjusted p-value.
    """
    difference = diff(nights["old"], nights["worse"], fail_on=fail_on, p=p, p_adjust=p_adjust)
    assert difference.regressed is difference.failed is regressed
    assert reasons(difference) == [("arithmetic", "org/m", "regressed")] * regressed
    assert not diff(nights["worse"], nights["old"], fail_on=fail_on, p=p, p_adjust=p_adjust).failed


def test_p_values_are_adjusted_for_the_number_of_models_that_were_compared(
    nights: dict[str, Path],
) -> None:
    """Models that are only in one corpus do not count."""
    models = diff(nights["old"], nights["worse"]).models
    assert [(model.p, model.p_adjusted) for model in models] == [(2 / 512, 6 / 512), (1, 1), (1, 1)]
    assert [model.p_adjusted for model in diff(nights["old"], nights["more"]).models] == [
        1,
        1,
        None,
        1,
        None,
    ]


@pytest.mark.parametrize(
    ("new", "missing"),
    [
        ("without a model", [("arithmetic", "org/n")]),
        ("without an evaluation", [("logic", "org/m")]),
        ("nothing", [("arithmetic", "org/m"), ("arithmetic", "org/n"), ("logic", "org/m")]),
        ("more", []),
        ("old", []),
    ],
)
def test_a_model_that_vanished_is_a_failure(
    nights: dict[str, Path], new: str, missing: list[Any]
) -> None:
    """A new one is not; without `fail_on`, nothing is a failure."""
    difference = diff(nights["old"], nights[new], fail_on=0)
    assert reasons(difference) == [(*name, "missing") for name in missing]
    assert difference.failed is bool(missing)
    assert [
        (m.evaluation_name, m.model_id) for m in difference.models if m.status == "missing"
    ] == missing
    assert not diff(nights["old"], nights[new]).failures


@pytest.mark.parametrize(
    ("min_compared", "incomplete"), [(100, 3), (95.1, 3), (95, 1), (90, 0), (0, 0)]
)
def test_a_model_of_which_too_little_was_compared_is_a_failure(
    nights: dict[str, Path], min_compared: float, incomplete: int
) -> None:
    """Of 40 questions 38 were compared, that is 95 %, and of 20 questions 18."""
    difference = diff(
        nights["old"], nights["two questions less"], fail_on=0, min_compared=min_compared
    )
    assert [failure.reason for failure in difference.failures] == ["incomplete"] * incomplete
    if incomplete:
        assert difference.failures[-1].message == "was compared on 18 of 20 questions only"


def nights_of(folder: Path, was: str, now: str) -> list[Path]:
    """Ten questions of a model; the verdicts of the first ones are given, the others are right."""
    return [
        corpus_of(
            [
                record
                for number, verdict in enumerate(f"{some:+<10}")
                for record in trials(verdict, run, number)
            ],
            folder / run,
        )
        for run, some in (("old", was), ("new", now))
    ]


@pytest.mark.parametrize(
    ("was", "now", "messages"),
    [
        ("+", "!", ["was compared on 9 of 10 questions only (0 errors in OLD, 1 in NEW)"]),
        ("!", "+", []),  # cannot be worse than before
        ("!", "!", []),
        ("!" * 10, "!" * 10, []),
        ("!" * 10, "+", []),
    ],
)
def test_a_question_that_now_has_errors_only_was_not_compared(
    tmp_path: Path, was: str, now: str, messages: list[str]
) -> None:
    """What OLD answered must be compared.

    A question without an answer in OLD has nothing to lose.
    """
    nights = nights_of(tmp_path, was, now)
    assert [model.status for model in diff(*nights).models] == [
        "unanswered" if was == "!" * 10 else "incomplete" if messages else "compared"
    ]
    assert [failure.message for failure in diff(*nights, fail_on=0).failures] == messages
    assert not diff(*nights, fail_on=0, errors_as_wrong=True).failed
    assert not diff(*nights, fail_on=0, min_compared=0).failed


@pytest.mark.parametrize(
    ("patterns", "failures"),
    [
        ([], 3),
        (["org/n"], 2),
        (["org/*"], 0),
        (["logic"], 2),
        (["logic/org/m"], 2),
        (["arithmetic/*", "logic/org/?"], 0),
        (["ORG/N"], 3),
    ],
)
def test_some_models_may_be_missing(
    nights: dict[str, Path], patterns: list[str], failures: int
) -> None:
    """Patterns match the model, the evaluation, or both."""
    for new in ("nothing", "two questions less"):
        difference = diff(
            nights["old"], nights[new], fail_on=0, min_compared=99, allow_missing=patterns
        )
        assert len(difference.failures) == failures


def test_a_model_that_may_be_missing_may_not_regress(nights: dict[str, Path]) -> None:
    """The patterns except from nothing else."""
    assert diff(nights["old"], nights["worse"], fail_on=1, allow_missing=["*"]).regressed


def test_a_pattern_that_matches_nothing_gives_a_notice(nights: dict[str, Path]) -> None:
    """It may be misspelled. A model that only NEW has does not count."""
    difference = diff(
        nights["old"], nights["more"], fail_on=0, allow_missing=["org/m", "typo", "org/o"]
    )
    assert difference.notices == [
        f"--allow-missing '{pattern}' matches no model and no evaluation of OLD"
        for pattern in ("typo", "org/o")
    ]


def test_a_name_with_brackets_matches_itself() -> None:
    """As in all filters: `acc[0]` is the metric of this name, and also `acc0`."""
    scored = {("exam", "acc[0]"), ("exam", "acc0"), ("exam", "acc1"), ("quiz", None)}
    assert _find_scopes(["acc[0]"], scored) == ({("exam", "acc[0]"), ("exam", "acc0")}, [])
    assert _find_scopes(["exam/*", "quiz"], scored) == (scored, [])
