"""Tables of `stats` and `leaderboard`: what is left out, digits, captions, units and scales."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fastrec
from tests.answers.small import answer, make_corpus
from tests.running import run_here


def text_of(*arguments: object) -> str:
    done = run_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 models on two evaluations."""
    records = [
        answer(name, f"{name} {number}", f"org/m{model:03}", float(number <= model % 3))
        for name in ("capitals", "sums")
        for number in range(2)
        for model in range(120)
    ]
    return make_corpus(tmp_path_factory.mktemp("many"), records)


def test_a_long_table_ends_with_what_it_leaves_out(many: Path) -> None:
    text = text_of("stats", many, "--no-ranks")
    assert text.count("\n") < 120
    assert text.count("… and 70 more models; `--all` lists all") == 2
    assert text.endswith(
        "\nleft out: 140 of 240 rows; --all shows them, --format json and csv always have all\n"
    )
    whole = text_of("stats", many, "--no-ranks", "--all")
    assert "left out" not in whole
    assert whole.count("org/m") == 240
    assert text_of("stats", many, "--no-ranks", "--format", "markdown").count("org/m") == 240
    document = json.loads(text_of("stats", many, "--no-ranks", "--format", "json"))
    assert sum(len(one["by_model"]) for one in document["evaluations"]) == 240


def test_two_screens_are_not_cut(many: Path) -> None:
    assert "left out" not in text_of("stats", many, "--no-ranks", "--model", "org/m04?")


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four answers of two models to each of six questions."""
    records = [
        answer(
            "agent_x",
            f"task {number}",
            model,
            float((number + trial) % 4 < level),
            metadata={"trial": str(trial)},
        )
        for model, level in (("m/a", 3), ("m/b", 1))
        for number in range(6)
        for trial in range(4)
    ]
    return make_corpus(tmp_path_factory.mktemp("trials"), records)


@pytest.mark.parametrize("output_format", ["text", "markdown", "latex"])
def test_several_k_have_their_own_headings(output_format: str, trials: Path) -> None:
    options = ["--repeats-as", "pass^1..4", "--format", output_format]
    text = text_of("stats", trials, *options)
    heading = next(line for line in text.splitlines() if "pass" in line and "coverage" in line)
    names = re.findall(r"pass(?:\^|\\textasciicircum\{\})(\d)", heading)
    assert names == ["1", "2", "3", "4"]
    assert "accuracy" not in heading


@pytest.mark.parametrize("command", ["stats", "leaderboard"])
def test_a_column_has_one_unit_and_the_wanted_digits(command: str, trials: Path) -> None:
    for digits in (0, 3):
        options = ["--digits", digits, "--format", "markdown", "--caption", "Trials | all"]
        text = text_of(command, trials, *map(str, options))
        assert text.startswith("Table: Trials \\| all\n\n")
        heading, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
        assert len(rows) == 2
        assert "(%)" in heading
        assert not any("%" in row for row in rows)
        value = "75" if digits == 0 else "75.000"
        assert f"| {value} " in rows[0]


@pytest.mark.parametrize("command", ["stats", "leaderboard"])
def test_latex_is_escaped_and_has_a_caption(command: str, trials: Path) -> None:
    text = text_of(command, trials, "--format", "latex", "--caption", "50% of {all}_")
    lines = text.splitlines()
    assert "\\caption{50\\% of \\{all\\}\\_}" in lines
    assert lines.count("\\begin{table}") == lines.count("\\end{table}") == 1
    assert len(re.findall(r"^m/. |& m/. ", text, re.MULTILINE)) == 2
    rows = [line for line in lines if line.endswith("\\\\")]
    assert len({line.count("&") for line in rows}) == 1
    assert "\\begin{table}" not in text_of(command, trials, "--format", "latex")


def scored(folder: Path, values: dict[str, list[float]], name: str = "quality") -> Path:
    folder.mkdir(exist_ok=True)
    records = [
        answer(name, f"q{number}", model, value, evaluation_result_id="judge")
        for model, scores in values.items()
        for number, value in enumerate(scores)
    ]
    return make_corpus(folder, records)


def test_points_of_another_scale_are_its_units(tmp_path: Path) -> None:
    """From 7 to 6 on a scale from 1 to 10 is one point, not a hundred."""
    high = [6.0, 7.0, 8.0] * 4
    low = [value - 1 + (number == 0) / 2 for number, value in enumerate(high)]
    old = scored(tmp_path / "old", {"m/a": high, "m/b": low})
    new = scored(tmp_path / "new", {"m/a": low, "m/b": low})
    (compared,) = fastrec.compare(old, "m/a", "m/b", detect=1).evaluations
    assert compared.other_scale
    text = text_of("compare", old, "m/a", "m/b", "--detect", "1", "--examples", "0")
    assert re.search(r"7\.000 +6\.042 +\+0\.96 ", text)
    assert "a unit of the score if means are below 0 or above 1" in text
    model = fastrec.diff(old, new, fail_on=0.9).models[0]
    assert model.points == pytest.approx(-23 / 24)
    assert model.regressed
    assert not fastrec.diff(old, new, fail_on=1).models[0].regressed
    shares = [
        scored(tmp_path / name, {"m/a": [value / 10 for value in values]})
        for name, values in (("tenth", high), ("less", low))
    ]
    assert fastrec.diff(*shares).models[0].points == pytest.approx(-10 * 23 / 24)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ranks_agree_on_any_scale(sign: float, tmp_path: Path) -> None:
    """One evaluation: the leaderboard ranks as `stats` does, also where no mean counts."""
    values = {
        f"m/{level}": [sign * (level + (number % 3) / 4) for number in range(20)]
        for level in range(4)
    }
    corpus = scored(tmp_path / "corpus", values)
    (one,) = fastrec.stats(corpus).evaluations
    board = fastrec.leaderboard(corpus)
    assert {model.model_id: model.rank for model in one.by_model} == {
        model.model_id: str(model.rank_best) for model in board.models
    }
    assert [model.model_id for model in one.by_model] == [model.model_id for model in board.models]
    assert all(model.mean is None for model in board.models)


def test_one_score_beyond_the_unit_is_no_scale(tmp_path: Path) -> None:
    """A gate must not become a hundred times weaker by a single score."""
    pair = [
        scored(tmp_path / name, {"m/a": [0.5] * 9 + [last]})
        for name, last in (("old", 0.5), ("new", 1.5))
    ]
    assert fastrec.diff(*pair).models[0].points == pytest.approx(10)
