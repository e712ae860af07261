"""The set `ask` of the benchmarks: its targets, and that its trials run. No test measures time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")
pytest.importorskip("duckdb", reason="needs the extra `sql`")

from bench import corpora, trials
from bench.ask_figures import ASK_FIGURES
from bench.contenders import ASK
from bench.plans import CORPORA, Published
from bench.trials import run_trials
from bench.values import trial_values

TARGETS = {
    "ask: a phrase in all answers": 1.5,
    "ask: an aggregate": 0.5,
    "ask: peak memory, a phrase": 600,
}


def test_figures_have_the_targets_of_the_issue() -> None:
    assert {figure.name: figure.target for figure in ASK_FIGURES} == TARGETS
    assert {figure.set for figure in ASK_FIGURES} == {"ask"}


def test_all_trials_of_the_set_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small corpus."""
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    monkeypatch.setattr(trials, "OUT", tmp_path)
    monkeypatch.setitem(CORPORA, "published-real-x10", Published("ten-lines"))
    wanted = {trial for figure in ASK_FIGURES for trial in figure.trials}
    assert {trial.contender for trial in wanted} == {ASK}
    results = run_trials(sorted(wanted, key=str), rounds=1, notify=lambda _: None)
    assert {trial: result.error for trial, result in results.items() if result.error} == {}
    assert len(trial_values(ASK_FIGURES, results, 1.0)) == len(TARGETS)
