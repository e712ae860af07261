"""The leaderboard against an independent computation with numpy, and its formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from click.testing import CliRunner

import fastrec
from fastrec.answers import leaderboard as implementation
from fastrec.answers.choosing import open_index
from fastrec.cli import cli
from fastrec.limits import Limits, use_limits
from fastrec.statistics import bootstrap
from tests.answers.test_ranks import make_corpus, record
from tests.samples import sample_of
from tests.statistics.test_ranks import naive_ranges, scipy_stats

QUESTIONS = {"A": 60, "B": 25, "C": 40}
METRIC = sample_of("0.3.0")["evaluation_result_id"]
MODELS = ["m1", "m2", "m3", "m4"]


def values_of() -> dict[str, Any]:
    """Values by evaluation, questions × models. m4 lacks C.

    A is binary, B is graded, C has a gap.
    """
    random = np.random.default_rng(7)
    skill = np.array([0.8, 0.7, 0.3, 0.5])
    values = {
        name: (random.uniform(size=(n, 4)) < skill).astype(float) for name, n in QUESTIONS.items()
    }
    values["B"] = np.round(0.5 * values["B"] + random.uniform(0, 0.5, values["B"].shape), 3)
    values["C"][:, 3] = np.nan
    values["C"][:7, 0] = np.nan
    return values


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        record(
            model, number, float(row[at]), evaluation_name=name, metadata={"half": str(number % 2)}
        )
        for name, table in values_of().items()
        for number, row in enumerate(table)
        for at, model in enumerate(MODELS)
        if not np.isnan(row[at])
    ]
    return make_corpus(tmp_path_factory.mktemp("board"), records)


def by_hash(corpus: Path, name: str) -> Any:
    """The values of an evaluation in the order of the corpus, which is that of hashes."""
    numbers: dict[str, int] = {}
    for one in map(json.loads, fastrec.cat(corpus, evaluation=name)):
        numbers.setdefault(one["sample_hash"], int(one["sample_id"].removeprefix("q-")))
    return values_of()[name][[numbers[key] for key in sorted(numbers)]]


def draws_of(values: Any, name: str) -> Any:
    """The same draws, one by one."""
    random = np.random.default_rng([0, crc32(f"{name}\0{METRIC}".encode())])
    chosen = random.integers(0, len(values), (bootstrap.DRAWS, len(values)))
    return np.array([np.nanmean(values[row], axis=0) for row in chosen])


def test_all_numbers_are_those_of_numpy(corpus):
    board = fastrec.leaderboard(corpus)
    tables = {name: by_hash(corpus, name) for name in QUESTIONS}
    with pytest.warns(RuntimeWarning, match="empty slice"):  # m4 on C
        draws = {name: draws_of(table, name) for name, table in tables.items()}
    rows = {row.model_id: row for row in board.models}
    assert [row.group for row in board.models] == [1, 1, 1, 2]
    assert rows["m4"].cells[2] is None
    assert rows["m4"].rank_best is None  # alone in its group
    for at, model in enumerate(MODELS):
        for cell, name in zip(rows[model].cells, QUESTIONS, strict=True):
            if cell:
                assert cell.value == pytest.approx(np.nanmean(tables[name][:, at]))
                assert (cell.low, cell.high) == pytest.approx(
                    np.percentile(draws[name][:, at], [2.5, 97.5])
                )
    group = MODELS[:3]
    means = np.mean([np.nanmean(table[:, :3], axis=0) for table in tables.values()], axis=0)
    drawn = np.mean([table[:, :3] for table in draws.values()], axis=0)
    ranks = np.mean(
        [scipy_stats.rankdata(-np.nanmean(table[:, :3], axis=0)) for table in tables.values()],
        axis=0,
    )
    drawn_ranks = np.mean(
        [scipy_stats.rankdata(-table[:, :3], axis=1) for table in draws.values()], axis=0
    )
    for at, model in enumerate(group):
        row = rows[model]
        assert row.mean.value == pytest.approx(means[at])
        assert (row.mean.low, row.mean.high) == pytest.approx(
            np.percentile(drawn[:, at], [2.5, 97.5])
        )
        assert row.mean_rank.value == pytest.approx(ranks[at])
        ends = np.percentile(drawn_ranks[:, at], [2.5, 97.5])
        assert (row.mean_rank.low, row.mean_rank.high) == pytest.approx(ends)
        assert row.win_share.value == pytest.approx((3 - ranks[at]) / 2)
    assert [
        (rows[model].rank_best, rows[model].rank_worst) for model in group
    ] == naive_ranks_by_mean(tables)
    assert rows["m4"].mean.value == pytest.approx(
        np.mean([tables[name][:, 3].mean() for name in "AB"])
    )


def naive_ranks_by_mean(tables: dict[str, Any]) -> list[tuple[int, int]]:
    """Welch's test of sums of independent means, for each pair, and Holm's method."""
    tests = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        parts = [table[:, first] - table[:, second] for table in tables.values()]
        parts = [part[~np.isnan(part)] for part in parts]
        variances = [part.var(ddof=1) / len(part) / 9 for part in parts]
        degrees = sum(variances) ** 2 / sum(
            v**2 / (len(part) - 1) for v, part in zip(variances, parts, strict=True)
        )
        mean = sum(part.mean() for part in parts) / 3
        tests.append(
            (2 * scipy_stats.t.sf(abs(mean) / sum(variances) ** 0.5, degrees), first, second, mean)
        )
    better = np.zeros((3, 3), dtype=bool)
    for done, (p, first, second, mean) in enumerate(sorted(tests)):
        if p > 0.05 / (3 - done):
            break
        better[(first, second) if mean > 0 else (second, first)] = True
    return [(1 + better[:, at].sum(), 3 - better[at].sum()) for at in range(3)]


def test_cells_have_the_ranks_of_stats(corpus):
    board = fastrec.leaderboard(corpus)
    ranks = {
        model.model_id: (model.cells[0].rank_best, model.cells[0].rank_worst)
        for model in board.models
    }
    assert [ranks[model] for model in MODELS] == naive_ranges(values_of()["A"], lower=False)
    of_stats = {
        one.model_id: (one.rank_best, one.rank_worst)
        for one in fastrec.stats(corpus).evaluations[0].by_model
    }
    assert ranks == of_stats


def test_the_draws_do_not_depend_on_jobs_or_on_other_evaluations(corpus):
    board = fastrec.leaderboard(corpus, jobs=2)
    assert board == fastrec.leaderboard(corpus) == fastrec.open(corpus).leaderboard()
    alone = fastrec.leaderboard(corpus, evaluation="A")
    assert {one.model_id: one.cells[0] for one in alone.models} == {
        one.model_id: one.cells[0] for one in board.models
    }


def test_many_questions_are_drawn_in_bundles(corpus, monkeypatch):
    """Bundles have nearly the same interval as single questions."""
    exact = fastrec.leaderboard(corpus, evaluation="A").models[0].cells[0]
    monkeypatch.setattr(implementation, "BUNDLES", 20)
    monkeypatch.setattr(bootstrap, "_CELLS", 100)
    bundled = fastrec.leaderboard(corpus, evaluation="A").models[0].cells[0]
    assert bundled.value == exact.value
    assert bundled.high - bundled.low == pytest.approx(exact.high - exact.low, rel=0.5)


def test_weights(corpus, tmp_path):
    file = tmp_path / "weights.toml"
    file.write_text("A = 2\nC = 0\n")
    board = fastrec.leaderboard(corpus, weights=file)
    cells = board.models[0].cells
    assert board.models[0].mean.value == pytest.approx((2 * cells[0].value + cells[1].value) / 3)
    by_size = fastrec.leaderboard(corpus, weight_by="questions").models[0]
    assert by_size.mean.value == pytest.approx(
        np.average([cell.value for cell in by_size.cells], weights=[60, 25, 40])
    )
    assert fastrec.leaderboard(corpus, weights={"A": 2, "C": 0}) == board


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"Z": 1}}, "there is no evaluation 'Z' to weight; evaluations: A, B, C"),
        (
            {"weights": {"A": -1}},
            "weights: the weight of 'A' must be a number of at least 0, not -1",
        ),
        (
            {"weights": "nowhere.toml"},
            "nowhere.toml: the weights cannot be read: No such file or directory",
        ),
        ({"weights": {}, "weight_by": "questions"}, "--weights and --weight-by cannot be combined"),
        ({"weight_by": "models"}, "weight_by must be questions, not 'models'"),
        (
            {"primary": "A=f1", "evaluation": "A"},
            "--primary 'A=f1' is no EVALUATION=METRIC of this corpus, which has A=accuracy",
        ),
        ({"min_coverage": -1}, "min_coverage must be between 0 and 100, not -1"),
    ],
)
def test_wrong_arguments(corpus, options, message):
    with pytest.raises(fastrec.UsageError) as caught:
        fastrec.leaderboard(corpus, **options)
    assert str(caught.value) == message


def test_the_primary_metric(tmp_path, monkeypatch):
    """Records name it; a setting names another one."""
    said = {"metric_kind": "judgement", "primary_metric": "true"}
    records = [
        record("m", 1, 1.0, evaluation_result_id="f1"),
        record("m", 1, 0.0, evaluation_result_id="acc"),
    ]
    records += [record("m", 1, 0.5, evaluation_result_id="bleu", metadata=said)]
    corpus = make_corpus(tmp_path, records)
    assert fastrec.leaderboard(corpus).evaluations[0].title == "E · bleu"
    assert fastrec.leaderboard(corpus, metric=["f1", "acc"]).evaluations[0].metric == "acc"
    monkeypatch.chdir(tmp_path)
    Path("fastrec.toml").write_text('[leaderboard]\nprimary = ["E=f*"]\n')
    document = json.loads(
        CliRunner().invoke(cli, ["leaderboard", "corpus", "--format", "json"]).stdout
    )
    assert document["evaluations"][0]["metric"] == "f1"


def test_scores_of_another_scale_or_direction_are_not_in_the_mean(tmp_path):
    records = [record("m", n, 1.0) for n in range(3)]
    records += [
        record("m", n, 0.4, evaluation_name="L", metadata={"lower_is_better": "true"})
        for n in range(3)
    ]
    records += [record("m", n, 7.0, evaluation_name="R") for n in range(3)]
    board = fastrec.leaderboard(make_corpus(tmp_path, records))
    assert [one.weight for one in board.evaluations] == [1, 0, 0]
    assert board.models[0].mean.value == 1.0
    assert board.notes()[-1].endswith(": L ↓, R")


def test_evaluations_of_one_question_prove_nothing(tmp_path):
    models = {"good": 1.0, "bad": 0.0}
    names = [(model, score, f"E{n}") for model, score in models.items() for n in range(8)]
    records = [record(model, 1, score, evaluation_name=name) for model, score, name in names]
    board = fastrec.leaderboard(make_corpus(tmp_path, records))
    assert [(one.model_id, one.rank_best, one.rank_worst) for one in board.models] == [
        ("good", 1, 2),
        ("bad", 1, 2),
    ]


def test_few_answers_do_not_count(tmp_path):
    records = [record("m", n, 0.0) for n in range(10)] + [record("lucky", 3, 1.0)]
    board = fastrec.leaderboard(make_corpus(tmp_path, records))
    assert [(one.model_id, one.group, one.mean and one.mean.value) for one in board.models] == [
        ("m", 1, 0.0),
        ("lucky", 0, None),
    ]
    assert board.table(board.models[1:]) == (["model", "E"], [["lucky", "(100.0%)"]])


def test_groups_are_columns(corpus):
    board = fastrec.leaderboard(corpus, group_by="metadata.half", evaluation="A")
    assert [one.title for one in board.evaluations] == [
        "A [metadata.half: 0]",
        "A [metadata.half: 1]",
    ]
    assert [one.questions for one in board.evaluations] == [30, 30]
    assert board.models[0].cells[0].value == pytest.approx(values_of()["A"][::2, 0].mean())


def test_formats(corpus):
    def run(output_format: str) -> str:
        result = CliRunner().invoke(cli, ["leaderboard", str(corpus), "--format", output_format])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "table 1: 3 models with 3 of 3 evaluations\n  rank  model " in run("text")
    assert "| rank | model | mean (%) |" in run("markdown")
    latex = run("latex")
    assert latex.count("\\begin{tabular}{llrrrrrr}") == 1
    assert "m1 & " in latex
    assert "\\%" in latex
    rows = list(csv.DictReader(io.StringIO(run("csv"))))
    document = json.loads(run("json"))
    assert [float(row["A.low"]) for row in rows] == [
        model["cells"][0]["low"] for model in document["models"]
    ]
    assert rows[3]["C"] == ""
    page = run("html")
    assert page.startswith("<!doctype html>")
    assert page.count("<table") == 2


def test_a_limit_keeps_the_largest_evaluations(corpus):
    """The first page of the viewer and the report show only so many; the others are counted."""
    index = open_index(corpus)
    boards = [implementation.make_leaderboard(index, most=most) for most in (None, 2)]
    assert [[one.title for one in board.evaluations] for board in boards] == [
        ["A", "B", "C"],
        ["A", "C"],
    ]
    assert [board.left_out for board in boards] == [0, 1]
    assert (
        "1 evaluation with fewer questions left out; `fastrec leaderboard` has all."
        in boards[1].notes()
    )
    assert not any("left out" in line for line in boards[0].notes())


def test_cells_of_a_column_have_even_digits(tmp_path: Path) -> None:
    scores = {
        "large": {"m1": 8.5, "m2": 12.25, "m3": 100.0},
        "small": {"m1": 0.5, "m2": 0.25, "m3": 1.0},
    }
    records = [
        record(model, number, value, evaluation_name=name)
        for name, by_model in scores.items()
        for model, value in by_model.items()
        for number in range(3)
    ]
    board = fastrec.leaderboard(make_corpus(tmp_path, records))
    heads, rows = board.table(sorted(board.models, key=lambda model: model.model_id))
    columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
    assert columns["large"] == ("8.50", "12.25", "100.00")
    # A column that counts in the mean has its unit.
    assert columns["small"] == ("50.0%", "25.0%", "100.0%")
    assert [mean.split()[0] for mean in columns["mean"]] == list(columns["small"])


def test_only_the_first_models_of_a_large_table_are_tested(corpus):
    """Cells and means with their intervals are the same.

    What compares all models of a table is left out.
    """
    rows = fastrec.leaderboard(corpus).rows()
    with use_limits(Limits(compared_models=2)):
        limited = fastrec.leaderboard(corpus)
        notes = limited.notes()
    compared = [name for name in rows[0] if name.startswith(("rank", "mean_rank", "win_share"))]
    for row, found in zip(rows, limited.rows(), strict=True):
        assert found == pytest.approx(row | {name: found[name] for name in compared})
    first = [row for row in limited.models if row.group == 1]
    assert [row.rank_best is not None for row in first] == [True, True, False]
    assert {row.mean_rank for row in first} == {row.win_share for row in first} == {None}
    assert {cell.rank_best for row in limited.models for cell in row.cells if cell} == {None}
    assert "tables of more than 2 models: ranks of the first 2; no mean rank and wins." in notes
    assert not any(line.startswith("tables") for line in limited.notes())


def test_tables_that_are_not_in_memory_at_the_same_time_are_the_same(corpus):
    """The tables have 3 and 1 models.

    Evaluations that more models have answered have no ranks of cells.
    """
    board = fastrec.leaderboard(corpus)
    with use_limits(Limits(compared_models=3)):
        limited = fastrec.leaderboard(corpus)
    for row, found in zip(board.rows(), limited.rows(), strict=True):
        assert found == pytest.approx(row)
    for one, other in zip(limited.models[:3], board.models[:3], strict=True):
        ranks = [(cell.rank_best, cell.rank_worst) for cell in one.cells]
        assert ranks == [
            (None, None),
            (None, None),
            (other.cells[2].rank_best, other.cells[2].rank_worst),
        ]
    assert limited.models[0].cells[2].rank_best


def test_too_many_evaluations_are_refused(corpus):
    with use_limits(Limits(board_columns=2)), pytest.raises(fastrec.UsageError) as caught:
        fastrec.leaderboard(corpus)
    assert str(caught.value) == (
        "3 evaluations of 4 models are too many for a leaderboard: it has up to 2 evaluations, "
        "and 1,000,000 cells. "
        "Choose some with --evaluation and --model, or group by a field with fewer values"
    )
    index = open_index(corpus)
    with use_limits(Limits(board_cells=8)):
        with pytest.raises(fastrec.UsageError, match="up to 20,000 evaluations, and 8 cells"):
            implementation.make_leaderboard(index)
        board = implementation.make_leaderboard(index, most=24)  # a page shows what fits
    assert [one.title for one in board.evaluations] == ["A", "C"]
    assert board.left_out == 1


def test_models_without_answers_are_named_so(tmp_path: Path) -> None:
    """Also where any number of answers is enough for a rank."""
    records = [record("m1", 1, 1.0), record("m2", 1, 0.0) | {"error": "no connection"}]
    corpus = make_corpus(tmp_path, records)
    title = "1 model without answers to {}the questions of any evaluation: not ranked"
    for least, share in (("50", "50% of "), ("0", "")):
        done = CliRunner().invoke(cli, ["leaderboard", str(corpus), "--min-coverage", least])
        assert title.format(share) in done.output


def test_a_report_shows_whole_tables_up_to_fifteen_models(tmp_path: Path) -> None:
    """A small first table does not hide all others."""
    evaluations = {"A": ["first", *"abc"], "B": ["first"], "C": [f"m{at}" for at in range(13)]}
    records = [
        record(model, 1, 1.0, evaluation_name=name)
        for name, models in evaluations.items()
        for model in models
    ]
    corpus = make_corpus(tmp_path, records)
    fastrec.report(corpus, tmp_path / "report.html")
    shown = (tmp_path / "report.html").read_text().partition("All 17 models")[0]
    assert "The first 14 of 17 models." in shown
    assert "1 model with 2 of 3 evaluations" in shown
    assert "13 models with 1 of 3 evaluations" in shown
    assert ">3 models with" not in shown
