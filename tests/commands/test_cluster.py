"""`--cluster`: standard errors, intervals and tests over clusters of questions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from fastrec.errors import NoMatchError, UsageError
from fastrec.statistics.intervals import Z
from tests.answers import small
from tests.lazily import Library
from tests.sizes import examples

scipy_stats: Any = Library("scipy.stats")
FIELD = "metadata.passage"
MODELS = ("a", "b", "c")


def make_corpus(folder: Path, seed: int, *, alone: bool = False, graded: bool = False) -> Path:
    """30 passages of 1 to 9 questions; a passage is easy or hard, and some questions lack one.

    With `alone`, each question has a passage of its own. The second evaluation has answers of all
    models to all questions. Texts are the same for all seeds, so that corpora can be compared.
    """
    questions = np.random.default_rng(0)
    random = np.random.default_rng(seed)
    records = []
    for evaluation in ("E", "F"):
        for passage in range(30):
            for number in range(int(questions.integers(1, 10))):
                name = f"{passage}.{number}"
                has_passage = questions.random() < 0.9
                ease = [0.2, 0.9][passage % 2]
                for model in MODELS:
                    if evaluation == "E" and random.random() < 0.1:
                        continue
                    score = float(random.random() < ease + 0.1 * MODELS.index(model))
                    if graded:
                        score = score * 0.75 + round(random.random(), 2) / 4
                    one = small.answer(evaluation, name, model, score)
                    if has_passage:
                        label = name if alone else f"passage {passage}"
                        one["metadata"] = {"passage": label}
                    records.append(one)
    folder.mkdir()
    return small.make_corpus(folder, records)


@pytest.fixture(scope="module", params=[False, True], ids=["verdicts", "scores"])
def corpora(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("clusters")
    graded = request.param
    return (
        make_corpus(folder / "old", 1, graded=graded),
        make_corpus(folder / "new", 2, graded=graded),
    )


Values = dict[str, dict[str, tuple[float, float]]]


def values_of(corpus: Path, evaluation: str) -> tuple[Values, dict[str, str]]:
    """Share and score by model and question, and the cluster of each question."""
    values: Values = {model: {} for model in MODELS}
    clusters = {}
    for record in map(json.loads, fastrec.cat(corpus, evaluation=evaluation)):
        name = record["input"]["raw"]
        judged = record["evaluation"]
        values[record["model_id"]][name] = (float(judged["is_correct"]), judged["score"])
        clusters[name] = record.get("metadata", {}).get("passage", f"alone {name}")
    return values, clusters


def cluster_sums(values: dict[str, float], clusters: dict[str, str]) -> np.ndarray[Any, Any]:
    sums: dict[str, float] = {}
    for name, value in values.items():
        sums[clusters[name]] = sums.get(clusters[name], 0.0) + value
    return np.array(list(sums.values()))


def naive_error(values: dict[str, float], clusters: dict[str, str]) -> float:
    mean = sum(values.values()) / len(values)
    sums = cluster_sums({name: value - mean for name, value in values.items()}, clusters)
    return math.sqrt(len(sums) / (len(sums) - 1) * sum(sums**2)) / len(values)


def naive_p(sums: Any) -> float:
    """McNemar's test if all sums that are not 0 have one size, else the t-test with its floor."""
    changed = sums[np.abs(sums) > 1e-9]
    if np.ptp(np.abs(changed)) < 1e-9:
        return float(scipy_stats.binomtest(int((changed > 0).sum()), len(changed), 0.5).pvalue)
    return max(float(scipy_stats.ttest_1samp(sums, 0).pvalue), 2.0 ** (1 - len(changed)))


def naive_wilson(p: float, n: float) -> tuple[float, float]:
    middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n * n))
    return middle - half, middle + half


def test_standard_errors_and_intervals_are_over_clusters(corpora: tuple[Path, Path]) -> None:
    found = fastrec.stats(corpora[0], cluster=FIELD)
    assert found.cluster == FIELD
    for evaluation in found.evaluations:
        values, clusters = values_of(corpora[0], evaluation.evaluation_name)
        assert evaluation.clusters == len(set(clusters.values()))
        for model in evaluation.by_model:
            shares = {name: share for name, (share, _) in values[model.model_id].items()}
            scores = {name: score for name, (_, score) in values[model.model_id].items()}
            error = naive_error(shares, clusters)
            assert model.accuracy_standard_error == pytest.approx(error)
            assert model.score_standard_error == pytest.approx(naive_error(scores, clusters))
            assert model.accuracy is not None
            n = len(shares)
            sizes = cluster_sums(dict.fromkeys(shares, 1.0), clusters)
            effective = model.accuracy * (1 - model.accuracy) * n / (error**2 * (n - 1))
            effective = min(max(effective, n**2 / sum(sizes**2)), n)
            expected = naive_wilson(model.accuracy, effective)
            assert (model.accuracy_low, model.accuracy_high) == pytest.approx(expected)
            assert model.score_high == pytest.approx(
                sum(scores.values()) / n + Z * naive_error(scores, clusters)
            )


def test_tests_are_over_clusters(corpora: tuple[Path, Path]) -> None:
    """All pairs of models (`compare`), and each model in two corpora (`diff`, `trend`)."""
    compared = fastrec.compare(corpora[0], "a", "b", cluster=FIELD, examples=0)
    changed = fastrec.diff(*corpora, cluster=FIELD)
    followed = fastrec.trend(*corpora, cluster=FIELD)
    assert compared.cluster == changed.cluster == followed.cluster == FIELD
    for evaluation in ("E", "F"):
        old, clusters = values_of(corpora[0], evaluation)
        new, _ = values_of(corpora[1], evaluation)

        def p_of(first: dict[str, Any], second: dict[str, Any]) -> tuple[float, int]:
            at = compared.evaluations[0].graded
            both = {
                name: second[name][at] - first[name][at] for name in first.keys() & second.keys()
            }
            sums = cluster_sums(both, clusters)  # noqa: B023 - called in this turn
            return naive_p(sums), len(sums)

        (one,) = [one for one in compared.evaluations if one.evaluation_name == evaluation]
        p, number = p_of(old["b"], old["a"])
        assert one.p == pytest.approx(p)
        assert one.clusters == number < one.questions
        for model in MODELS:
            p, number = p_of(old[model], new[model])
            (row,) = [
                row
                for row in changed.models
                if (row.evaluation_name, row.model_id) == (evaluation, model)
            ]
            assert row.p == pytest.approx(p)
            assert row.clusters == number
            (trend,) = [one for one in followed.evaluations if one.evaluation_name == evaluation]
            (change,) = next(one for one in trend.models if one.model_id == model).changes
            assert change.p == pytest.approx(p)


def test_the_bootstrap_draws_clusters(corpora: tuple[Path, Path]) -> None:
    board = fastrec.leaderboard(corpora[0], cluster=FIELD)
    assert board.cluster == FIELD
    plain = fastrec.leaderboard(corpora[0])
    for at, evaluation in enumerate(board.evaluations):
        for model, other in zip(board.models, plain.models, strict=True):
            cell, without = model.cells[at], other.cells[at]
            assert cell
            assert without
            assert cell.value == without.value
            values, clusters = values_of(corpora[0], evaluation.evaluation_name)
            own = {name: value[evaluation.graded] for name, value in values[model.model_id].items()}
            error = naive_error(own, clusters)
            assert cell.high - cell.low == pytest.approx(2 * Z * error, rel=0.15)
            assert cell.high - cell.low > 1.2 * (without.high - without.low)


def test_ranks_by_mean_are_over_clusters(corpora: tuple[Path, Path]) -> None:
    """Welch's t-test of the sums of clusters, over the mean size of a cluster, and Holm's method."""
    board = fastrec.leaderboard(corpora[0], cluster=FIELD)
    graded = board.evaluations[0].graded
    tests = []
    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        mean = variance = squared = changed = 0.0
        for evaluation in ("E", "F"):
            values, clusters = values_of(corpora[0], evaluation)
            common = values[first].keys() & values[second].keys()
            sums = cluster_sums(
                {
                    name: values[first][name][graded] - values[second][name][graded]
                    for name in common
                },
                clusters,
            )
            sums /= 2 * len(clusters) / len(set(clusters.values()))
            n = len(sums)
            mean += sums.mean()
            variance += sums.var(ddof=1) / n
            squared += (sums.var(ddof=1) / n) ** 2 / (n - 1)
            changed += (np.abs(sums) > 1e-9).sum()
        p = 2 * scipy_stats.t.sf(abs(mean) / math.sqrt(variance), variance**2 / squared)
        tests.append((max(p, 2.0 ** (1 - changed)), first, second, mean))
    worse = dict.fromkeys(MODELS, 0)
    better = dict.fromkeys(MODELS, 0)
    for done, (p, first, second, mean) in enumerate(sorted(tests)):
        if p > 0.05 / (len(tests) - done):
            break
        winner, loser = (first, second) if mean > 0 else (second, first)
        better[winner] += 1
        worse[loser] += 1
    found = {model.model_id: (model.rank_best, model.rank_worst) for model in board.models}
    assert found == {model: (1 + worse[model], 3 - better[model]) for model in MODELS}
    assert len(set(found.values())) > 1


def without_cluster(plain: Any) -> Any:
    """A document as JSON, without what says that questions have clusters."""
    if isinstance(plain, dict):
        left_out = ("cluster", "clusters", "seconds")
        return {key: without_cluster(value) for key, value in plain.items() if key not in left_out}
    return list(map(without_cluster, plain)) if isinstance(plain, list) else plain


@pytest.mark.each_value
@pytest.mark.parametrize("seed", range(examples(2, 3)))
@pytest.mark.parametrize("graded", [False, True])
def test_one_question_per_cluster_changes_no_number(
    seed: int, graded: bool, tmp_path: Path
) -> None:
    old = make_corpus(tmp_path / "old", seed, alone=True, graded=graded)
    new = make_corpus(tmp_path / "new", seed + 10, alone=True, graded=graded)
    commands = [
        ["stats", old],
        ["stats", old, "--common"],
        ["stats", old, "--group-by", "evaluation_id"],
        ["leaderboard", old],
        ["compare", old, "a", "c"],
        ["trend", old, new],
        ["diff", old, new],
    ]
    for command in commands:
        arguments = [*map(str, command), "--format", "json"]
        plain, clustered = (
            CliRunner().invoke(cli, [*arguments, *more]) for more in ([], ["--cluster", FIELD])
        )
        assert plain.exit_code == clustered.exit_code == 0, clustered.output
        assert json.loads(clustered.stdout)["cluster"] == FIELD
        assert without_cluster(json.loads(clustered.stdout)) == without_cluster(
            json.loads(plain.stdout)
        )


def test_every_table_says_so(corpora: tuple[Path, Path]) -> None:
    old, new = map(str, corpora)
    for command in (
        ["stats", old],
        ["leaderboard", old],
        ["compare", old, "a", "b", "--examples", "0"],
        ["trend", old, new],
        ["diff", old, new],
    ):
        found = CliRunner().invoke(cli, [*command, "--cluster", FIELD])
        text = f"over clusters of questions with the same {FIELD}"
        assert text in " ".join(found.output.split())
        assert text not in CliRunner().invoke(cli, command).output


def test_a_question_has_the_cluster_of_its_first_record(tmp_path: Path) -> None:
    """The first record that has the field at all."""
    records = [small.answer("E", str(number), "0", 1.0) for number in range(12)]
    for number in range(12):
        for model in ("a", "b"):
            one = small.answer("E", str(number), model, float((number // 3) % 2 == (model == "a")))
            passage = str(number // 3) if model == "a" or number > 1 else "another"
            records.append(one | {"metadata": {"passage": passage}})
    corpus = small.make_corpus(tmp_path, records)
    notices: list[str] = []
    found = fastrec.stats(corpus, cluster=FIELD, notice=notices.append)
    assert found.evaluations[0].clusters == 4
    text = "2 questions with several values of metadata.passage: the first one counts"
    assert notices == [text]
    fastrec.leaderboard(corpus, cluster=FIELD, notice=notices.append)
    fastrec.compare(corpus, "a", "b", cluster=FIELD, notice=notices.append)
    assert notices == [text] * 3
    assert text in fastrec.diff(corpus, corpus, cluster=FIELD).notices


def test_what_cannot_be_clustered(corpora: tuple[Path, Path]) -> None:
    with pytest.raises(NoMatchError, match="has the field"):
        fastrec.stats(corpora[0], cluster="metadata.video")
    with pytest.raises(UsageError, match="is not a field"):
        fastrec.leaderboard(corpora[0], cluster="metadata.passage:3")
    with pytest.raises(UsageError, match="--errors-as-wrong"):
        fastrec.stats(corpora[0], cluster=FIELD, errors_as_wrong=True)
    with pytest.raises(UsageError, match="--metric-pair"):
        fastrec.compare(corpora[0], metric_pair=["x", "y"], cluster=FIELD)
