"""The set `view` of the benchmarks: its targets, and that its trials run. No test measures time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")
pytest.importorskip("starlette", reason="needs the extra `view`")

from bench import corpora, trials, view_figures
from bench.contenders import LEADERBOARD, READING, VIEW
from bench.plans import CORPORA, Published
from bench.trials import run_trials
from bench.values import trial_values
from bench.view_figures import VIEW_FIGURES

TARGETS = {
    "view: leaderboard / decompression": 0.4,
    "view: start": 1.0,
    "view: table of 1,000 questions": 0.3,
    "view: question with 210 answers": 0.5,
    "view: peak memory, leaderboard": 300,
    "view: peak memory, pages": 300,
}


def test_figures_have_the_targets_of_the_issue() -> None:
    assert {figure.name: figure.target for figure in VIEW_FIGURES} == TARGETS
    assert {figure.set for figure in VIEW_FIGURES} == {"view"}


def test_all_trials_of_the_set_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small corpus."""
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    monkeypatch.setattr(trials, "OUT", tmp_path)
    monkeypatch.setitem(CORPORA, view_figures.CORPUS, Published("ten-lines"))
    wanted = {trial for figure in VIEW_FIGURES for trial in figure.trials}
    assert {trial.contender for trial in wanted} == {LEADERBOARD, READING, VIEW}
    results = run_trials(sorted(wanted, key=str), rounds=1, notify=lambda _: None)
    assert {trial: result.error for trial, result in results.items() if result.error} == {}
    assert len(trial_values(VIEW_FIGURES, results, 1.0)) == len(TARGETS)
