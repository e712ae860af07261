"""Filters choose scopes, models and questions; what matches nothing says what there is."""

from __future__ import annotations

import pytest

from fastrec.answers.choosing import choose_model, choose_scopes
from fastrec.answers.table import Query, Scope
from fastrec.errors import UsageError
from fastrec.filters import make_filters

SCOPES = [
    Scope(
        evaluation_name="gsm8k", metric=None, questions=3, models=("org/a", "org/b"), graded=False
    ),
    Scope(evaluation_name="mt", metric="bleu", questions=3, models=("org/a", "x[1]"), graded=True),
    Scope(evaluation_name="mt", metric="chrf", questions=3, models=("x[1]",), graded=True),
]


def test_no_filters_choose_all_scopes_with_all_models() -> None:
    assert choose_scopes(SCOPES, make_filters()) == [
        (one, Query(evaluation_name=one.evaluation_name, metric=one.metric)) for one in SCOPES
    ]
    assert choose_scopes([], make_filters()) == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"model": "org/b"}, {"gsm8k": ("org/b",)}),
        ({"model": "org/*"}, {"gsm8k": (), "mt bleu": ("org/a",)}),
        ({"model": "x[1]"}, {"mt bleu": ("x[1]",), "mt chrf": ()}),
        ({"exclude_model": "org/*"}, {"mt bleu": ("x[1]",), "mt chrf": ()}),
        ({"evaluation": "m*"}, {"mt bleu": (), "mt chrf": ()}),
        ({"exclude_evaluation": "m*"}, {"gsm8k": ()}),
        ({"metric": ["chrf", "bleu"]}, {"mt bleu": (), "mt chrf": ()}),
        ({"metric": ""}, {"gsm8k": ()}),
    ],
)
def test_names_choose_scopes_and_models(
    filters: dict[str, str], found: dict[str, tuple[str, ...]]
) -> None:
    chosen = choose_scopes(SCOPES, make_filters(**filters))  # type: ignore[arg-type]
    names = {
        " ".join(filter(None, (scope.evaluation_name, scope.metric))): query.models
        for scope, query in chosen
    }
    assert names == found


def test_ids_hashes_and_outcomes_choose_questions() -> None:
    (_, query), *_ = choose_scopes(
        SCOPES, make_filters(sample_id=5, hash="ab*", right=True, errors=True)
    )
    assert (query.sample_ids, query.hashes, query.outcomes) == (
        ("5",),
        ("ab*",),
        ("right", "error"),
    )


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"evaluation": "x"}, "no evaluation matches 'x'; available: gsm8k, mt"),
        ({"metric": "x"}, "no metric matches 'x'; available: bleu, chrf"),
        (
            {"metric": "x", "evaluation": "gsm8k"},
            (
                "no metric of the chosen evaluations matches 'x'; the records name no metric "
                "(evaluation_result_id)"
            ),
        ),
        ({"model": ["org/*", "no"]}, "no model matches 'no'; available: org/a, org/b, x[1]"),
        (
            {"exclude_model": "*"},
            (
                "no record matches --exclude-model '*'; evaluations: gsm8k, mt; models: org/a, org/b, "
                "x[1]"
            ),
        ),
    ],
)
def test_what_matches_nothing_says_what_there_is(filters: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_scopes(SCOPES, make_filters(**filters))  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_a_pattern_may_stand_for_one_model() -> None:
    models = ["org/a", "org/a2", "x[1]"]
    assert [choose_model(name, models) for name in ("org/a", "*2", "x[1]")] == [
        "org/a",
        "org/a2",
        "x[1]",
    ]
    with pytest.raises(
        UsageError, match=r"'org/\*' matches 2 models: org/a, org/a2. Name one of them"
    ):
        choose_model("org/*", models)
    with pytest.raises(UsageError, match=r"no model matches 'b'; available: org/a, org/a2, x\[1\]"):
        choose_model("b", models)
    with pytest.raises(UsageError, match="org/09 and 15 more"):
        choose_model("b", [f"org/{number:02}" for number in range(25)])
