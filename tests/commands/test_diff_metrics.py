"""`diff` of corpora whose records name a metric: each metric by itself, and graded metrics by their
scores.
"""

from __future__ import annotations

import json
import random
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fastrec.cli import cli
from fastrec.commands.diff import Difference, diff
from fastrec.errors import CorpusError, UsageError
from fastrec.limits import Limits, use_limits
from tests.commands.comparing import corpus_of, found, reference
from tests.commands.test_diff import records_of, rewrite
from tests.samples import sample_of

EIGHT = [f"metric-{number}" for number in range(8)]


def record(
    metric: str | None, number: int, score: float, run: str = "run/1", **changes: Any
) -> dict[str, Any]:
    """A record of a question, scored by a metric; right if the score is at least a half."""
    made = sample_of(
        "0.3.0", sample_id=f"q{number}", evaluation_id=run, evaluation_result_id=metric, error=None
    )
    made |= {"input": {"raw": f"question {number}", "reference": ["42"]}}
    made |= {"evaluation": {"score": score, "is_correct": score >= 0.5}, **changes}
    if metric is None:
        del made["evaluation_result_id"]
    return made


def corpus(folder: Path, name: str, records: list[dict[str, Any]], **options: Any) -> Path:
    return corpus_of(records, folder / name, schema="0.3.0", **options)


def nights_of(
    folder: Path, metric: str | None, was: list[float], now: list[float]
) -> tuple[Path, Path]:
    """Two corpora with one score for each question."""
    old, new = (
        corpus(
            folder,
            name,
            [record(metric, number, score, name) for number, score in enumerate(scores)],
        )
        for name, scores in (("old", was), ("new", now))
    )
    return old, new


def test_eight_metrics_on_ten_samples_are_ten_questions_with_eight_metrics(tmp_path: Path) -> None:
    """No repeats, no question that counts eight times, and no pair of different metrics."""
    dice = random.Random(1)
    scores = {
        (metric, number): float(dice.random() < 0.6) for metric in EIGHT for number in range(10)
    }
    old = corpus(tmp_path, "old", [record(*name, score) for name, score in scores.items()])
    scores |= {("metric-3", number): 1 - scores["metric-3", number] for number in range(4)}
    new = corpus(tmp_path, "new", [record(*name, score, "run/2") for name, score in scores.items()])
    difference = diff(old, new)
    assert [(model.metric, model.questions, model.status) for model in difference.models] == [
        (metric, 10, "compared") for metric in EIGHT
    ]
    assert (
        difference.counts.unchanged,
        difference.counts.changed,
        difference.counts.repeats_old,
    ) == (76, 4, 0)
    assert {model.metric for model in difference.models if model.worse or model.better} == {
        "metric-3"
    }
    assert {name.metric for name in difference.examples.changed} == {"metric-3"}
    assert difference.by[-1] == "evaluation_result_id"
    assert found(difference) == reference(old, new)


def test_a_metric_that_vanished_is_a_failure(tmp_path: Path) -> None:
    """Like a model that vanished; a new metric is not."""
    old = corpus(
        tmp_path,
        "old",
        [record(metric, number, 1.0) for metric in ("a", "b") for number in range(3)],
    )
    new = corpus(
        tmp_path,
        "new",
        [record(metric, number, 1.0) for metric in ("b", "c") for number in range(3)],
    )
    difference = diff(old, new, fail_on=0)
    assert [(model.metric, model.status) for model in difference.models] == [
        ("a", "missing"),
        ("b", "compared"),
        ("c", "new"),
    ]
    assert [(failure.metric, failure.reason) for failure in difference.failures] == [
        ("a", "missing")
    ]
    for pattern in ("a", "arithmetic/a", "arithmetic/a/org/*", "org/model", "arithmetic"):
        allowed = diff(old, new, fail_on=0, allow_missing=pattern)
        assert (allowed.failures, allowed.notices) == ([], [])
    for pattern in ("b", "arithmetic/b/*", "c"):
        assert diff(old, new, fail_on=0, allow_missing=pattern).failed


def test_records_without_a_metric_are_not_compared_with_others(tmp_path: Path) -> None:
    """A notice says why nothing was compared, and the gate does not pass."""
    old = corpus(tmp_path, "old", [record(None, number, 1.0) for number in range(3)])
    new = corpus(tmp_path, "new", [record("accuracy", number, 0.0) for number in range(3)])
    difference = diff(old, new, fail_on=0)
    assert [(model.metric, model.status) for model in difference.models] == [
        (None, "missing"),
        ("accuracy", "new"),
    ]
    assert difference.notices == [
        (
            "'arithmetic' has no metric in common, so nothing of it is compared: OLD has none, NEW "
            "has 'accuracy'"
        )
    ]
    assert difference.failed


def test_a_graded_metric_is_compared_by_score(tmp_path: Path) -> None:
    """Its accuracy only if asked for."""
    pair = nights_of(tmp_path, "f1", [0.9, 0.75, 0.6, 1.0], [0.7, 0.75, 0.55, 0.9])
    model = diff(*pair).models[0]
    assert (model.graded, model.measure, model.test) == (True, "score", "t")
    assert (model.old_score, model.new_score) == (pytest.approx(3.25 / 4), pytest.approx(2.9 / 4))
    assert (model.old_accuracy, model.points, model.worse, model.p) == (None, -8.75, 3, 2 / 8)
    assert [
        (flip.old, flip.new) for flip in sorted(model.flips, key=lambda flip: flip.sample_id)
    ] == [
        (0.9, 0.7),
        (0.6, 0.55),
        (1.0, 0.9),
    ]
    model = diff(*pair, accuracy=True).models[0]
    assert (model.graded, model.measure, model.test) == (True, "accuracy", "mcnemar")
    assert (model.old_accuracy, model.old_score, model.points, model.worse) == (1, None, 0, 0)


def test_a_metric_is_graded_if_it_is_in_one_of_the_corpora(tmp_path: Path) -> None:
    """Both corpora are compared in the same way."""
    pair = nights_of(tmp_path, "f1", [1.0, 0.0], [1.0, 0.25])
    assert [(m.measure, m.old_score, m.new_score) for m in diff(*pair).models] == [
        ("score", 0.5, 0.625)
    ]
    assert [(m.measure, m.points) for m in diff(*pair[::-1]).models] == [("score", -12.5)]


def test_records_without_a_metric_can_be_graded_too(tmp_path: Path) -> None:
    """Also in corpora of the first schema version."""
    for number, version in enumerate(("0.2.0", "0.3.0")):
        old, new = (
            corpus_of(
                [
                    each | {"evaluation": {"score": score, "is_correct": True}}
                    for each in records_of("m", 4)
                ],
                tmp_path / f"{name}{number}",
                schema=version,
            )
            for name, score in (("old", 0.5), ("new", 0.25))
        )
        assert [(m.metric, m.measure, m.points) for m in diff(old, new).models] == [
            (None, "score", -25)
        ]


def test_a_significant_loss_of_score_is_a_regression(tmp_path: Path) -> None:
    """Points are hundredths of the score."""
    pair = nights_of(tmp_path, "f1", [0.5] * 10, [0.25] * 9 + [0.5])
    assert diff(*pair, fail_on=22).regressed
    assert not diff(*pair, fail_on=22.5).failed
    assert not diff(*pair, fail_on=22, p=0.001).failed
    assert not diff(*pair[::-1], fail_on=0).failed


def test_a_lower_score_can_be_better(tmp_path: Path) -> None:
    """Then a rise is the loss: in points, in the counts, in the order of examples, and for the
    gate.
    """
    pair = nights_of(tmp_path, "wer", [0.25] * 10, [0.5] * 9 + [0.125])
    model = diff(*pair).models[0]
    assert (model.points, model.worse, model.better, model.lower_is_better) == (21.25, 1, 9, False)
    assert not diff(*pair, fail_on=0).failed
    for pattern in ("wer", "arithmetic", "arithmetic/*"):
        difference = diff(*pair, fail_on=0, lower_is_better=pattern)
        model = difference.models[0]
        assert (model.points, model.worse, model.better, model.lower_is_better) == (
            -21.25,
            9,
            1,
            True,
        )
        assert (model.flips[0].old, model.flips[0].new) == (0.25, 0.5)
        assert (difference.regressed, difference.notices) == (True, [])
    assert not diff(*pair[::-1], fail_on=0, lower_is_better="wer").failed
    for options in ({"lower_is_better": "typo"}, {"lower_is_better": "wer", "accuracy": True}):
        pattern = options["lower_is_better"]
        difference = diff(*pair, **options)  # type: ignore[arg-type]
        assert difference.notices == [
            f"--lower-is-better {pattern!r} matches nothing that is compared by score"
        ]
        assert not difference.models[0].lower_is_better


def test_scores_of_any_scale_have_a_limit(tmp_path: Path) -> None:
    """A point is a unit of a score above 1."""
    pair = nights_of(tmp_path, "bleu", [40.5] * 10, [38.0] * 10)
    assert diff(*pair, fail_on=2.4).regressed
    assert not diff(*pair, fail_on=2.5).failed
    with pytest.raises(UsageError, match="fail_on is a number of points, at least 0"):
        diff(*pair, fail_on=float("inf"))


@pytest.mark.parametrize("huge", [1e308, -1e308, 10**400, -(10**400)])
def test_a_loss_beyond_doubles_is_a_regression(tmp_path: Path, huge: float) -> None:
    """The gate must see it, although it is no double."""
    pair = nights_of(tmp_path, "f1", [max(huge, 0)] * 7, [min(huge, 0)] * 7)
    model = diff(*pair, fail_on=1).models[0]
    assert model.regressed
    assert model.points is not None
    assert model.points <= -1e308


def test_scores_are_those_that_are_spelled(tmp_path: Path) -> None:
    """0.1 and 0.2 have the same mean as 0.3 and 0, although their sums as doubles differ."""
    trials = {"old": (0.1, 0.2), "new": (0.3, 0.0)}
    pair = [
        corpus(
            tmp_path,
            name,
            [record("f1", 1, score, output={"raw": [f"{name} {score}"]}) for score in scores],
        )
        for name, scores in trials.items()
    ]
    model = diff(*pair).models[0]
    assert (model.questions, model.worse, model.better, model.points) == (1, 0, 0, 0)


def test_many_different_scores_are_compared_with_a_t_test(tmp_path: Path) -> None:
    """Also if they are more than are held in memory, and in several ranges."""
    dice = random.Random(7)
    was = [round(dice.random(), 6) for _ in range(1_200)]
    now = [round(score + dice.random() - 0.52, 6) for score in was]
    pair = [
        corpus(
            tmp_path,
            name,
            [record("f1", number, score, name) for number, score in enumerate(scores)],
            part_size=1 << 18,
        )
        for name, scores in (("old", was), ("new", now))
    ]
    model, other = (
        use_limits(Limits(diff_range_records=number))(diff)(*pair).models[0]
        for number in (1, 10**9)
    )
    assert model == other
    differences = [
        Fraction(str(new)) - Fraction(str(old)) for old, new in zip(was, now, strict=True)
    ]
    assert len(set(differences)) > 1_000
    assert model.test == "t"
    assert (model.worse, model.better) == (
        sum(d < 0 for d in differences),
        sum(d > 0 for d in differences),
    )
    assert model.points == float(100 * sum(differences) / len(differences))
    assert (model.old_score, model.new_score) == (
        pytest.approx(sum(was) / 1_200),
        pytest.approx(sum(now) / 1_200),
    )
    stats = pytest.importorskip("scipy.stats")
    assert model.p == pytest.approx(
        stats.ttest_1samp([float(d) for d in differences], 0).pvalue, rel=1e-9
    )


def test_jobs_do_not_change_the_result(tmp_path: Path) -> None:
    """One process and two give the same document, for several metrics with repeats."""
    dice = random.Random(2)
    pair = [
        corpus(
            tmp_path,
            name,
            [
                record(
                    metric,
                    number,
                    dice.choice([0.0, 0.25, 1.0]),
                    output={"raw": [f"{name} {dice.random()}"]},
                )
                for metric in ("a", "b", None)
                for number in range(60)
                for _ in range(dice.choice([0, 1, 1, 2]))
            ],
        )
        for name in ("old", "new")
    ]
    documents = [use_limits(Limits(small_input=0))(diff)(*pair, jobs=jobs) for jobs in (1, 2)]
    for document in documents:
        document.seconds = 0
    assert documents[0] == documents[1]
    assert documents[0].counts.repeats_old > 5
    assert {model.test for model in documents[0].models} <= {"mcnemar", "t"}


def test_a_changed_score_is_reported(tmp_path: Path) -> None:
    """Each line that is read must have its fingerprint."""
    old, new = (
        corpus(
            tmp_path,
            name,
            [record("f1", number, 0.25, name) for number in range(4)],
            compression="none",
        )
        for name in ("old", "new")
    )
    rewrite(new, lambda data: data.replace(b'"score":0.25', b'"score":0.75', 1))
    with pytest.raises(CorpusError, match="does not have the line that its columns describe"):
        diff(old, new)


# Two schema versions


def test_corpora_of_two_schema_versions_are_refused(tmp_path: Path) -> None:
    """Their hashes differ, so nothing would match.

    The command in the message makes them comparable.
    """
    records = records_of("m", 4)
    old, new = (
        corpus_of(records, tmp_path / version, schema=version) for version in ("0.2.0", "0.3.0")
    )
    for pair in ((old, new), (new, old)):
        with pytest.raises(
            UsageError, match=r"has records of schema 0\.[23]\.0 and .* of 0\.[23]\.0: their hashes"
        ) as caught:
            diff(*pair)
    command = str(caught.value).split("`")[1].replace("UPGRADED", str(tmp_path / "upgraded"))
    assert command == f"fastrec normalize {old} -o {tmp_path / 'upgraded'} --schema 0.3.0"
    assert CliRunner().invoke(cli, shlex.split(command)[1:]).exit_code == 0
    difference = diff(tmp_path / "upgraded", new)
    assert (difference.counts.unchanged, difference.new.records) == (4, 4)


def test_records_without_the_field_cannot_be_compared_by_metric(tmp_path: Path) -> None:
    """With the field, they always are."""
    by = "evaluation_name,sample_hash,model_id,evaluation_result_id"
    old = corpus_of(records_of("m", 2), tmp_path / "old")
    with pytest.raises(UsageError, match=r"records of schema 0.2.0 have no evaluation_result_id"):
        diff(old, old, by=by)
    new = corpus_of(records_of("m", 2), tmp_path / "new", schema="0.3.0")
    assert diff(new, new, by=by).by == tuple(by.split(","))


# On the command line


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two metrics of an evaluation, one of them graded and worse in the second corpus, and one
    evaluation with one.
    """
    folder = tmp_path_factory.mktemp("nights")
    paths = []
    even = [0.0] * 8 + [0.01, -0.01]  # so that not all scores lose the same
    for name, loss, other in (("old", 0.0, 1), ("new", 0.25, 0)):
        records = [
            *(record("exact", number, float(number % 2), name) for number in range(10)),
            *(
                record("f1", number, 0.75 - loss + other * even[number], name)
                for number in range(10)
            ),
            *(record("exact", number, 1.0, name, evaluation_name="logic") for number in range(3)),
        ]
        paths.append(str(corpus(folder, name, records)))
    return paths[0], paths[1]


def test_tables_name_the_metric_where_there_are_several(nights: tuple[str, str]) -> None:
    """Scores have no percent sign, and the legend explains them."""
    result = CliRunner().invoke(cli, ["diff", *nights, "--fail-on", "1", "--examples", "1"])
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    titles = [line for line in lines if line.endswith(": 1 model")]
    assert titles == ["arithmetic · exact: 1 model", "arithmetic · f1: 1 model", "logic: 1 model"]
    row = next(
        line.split()
        for line in lines[lines.index("arithmetic · f1: 1 model") :]
        if "org/model" in line
    )
    assert row == [
        "org/model",
        "10",
        "0.75",
        "0.5",
        "-25.00",
        "10",
        "0",
        "0.0020",
        "0.0059",
        "regressed",
    ]
    assert (
        "old, new: accuracy, or mean score if without %, on the questions that both corpora "
        "answered; a point" in (result.stdout)
    )
    assert (
        "p: exact McNemar test (2 models); paired t-test over scores (1 model). adjusted p: for 3 "
        "models, by "
        "Benjamini and Hochberg"
    ) in lines
    flips = lines.index("worse or better: org/model: arithmetic · f1")
    assert lines[flips + 2].split()[-2:] == ["0.75", "0.5"]
    assert lines[-1].startswith(
        "regression: org/model on arithmetic · f1 lost more than 1 points with adjusted p"
    )


def test_the_legend_names_metrics_whose_lower_scores_are_better(nights: tuple[str, str]) -> None:
    """Only if there are any."""
    assert "lower score" not in CliRunner().invoke(cli, ["diff", *nights]).stdout
    result = CliRunner().invoke(cli, ["diff", *nights, "--lower-is-better", "f1", "--fail-on", "0"])
    assert result.exit_code == 0
    assert (
        "a lower score is better, so a rise is a loss of points: arithmetic · f1\n" in result.stdout
    )


def test_the_accuracy_of_a_graded_metric_is_shown_if_asked_for(nights: tuple[str, str]) -> None:
    """Then nothing is compared by score."""
    result = CliRunner().invoke(cli, ["diff", *nights, "--accuracy", "--fail-on", "1"])
    assert result.exit_code == 0
    assert "score" not in result.stdout.split("changed fields")[0]
    assert result.stdout.count("100.0%") == 4


def test_json_and_markdown_have_the_metric(nights: tuple[str, str]) -> None:
    """JSON always, Markdown where there are several."""
    document = json.loads(CliRunner().invoke(cli, ["diff", *nights, "--format", "json"]).stdout)
    assert [
        (model["evaluation_name"], model["metric"], model["measure"])
        for model in document["models"]
    ] == [
        ("arithmetic", "exact", "accuracy"),
        ("arithmetic", "f1", "score"),
        ("logic", "exact", "accuracy"),
    ]
    assert document["examples"]["changed"][0]["metric"] == "f1"
    assert list(document) == list(Difference.__struct_fields__)
    rows = CliRunner().invoke(cli, ["diff", *nights, "--format", "markdown"]).stdout.splitlines()
    titles = [row.split(":")[0] for row in rows if row.endswith(": 1 model")]
    assert titles == ["**arithmetic · exact**", "**arithmetic · f1**", "**logic**"]
