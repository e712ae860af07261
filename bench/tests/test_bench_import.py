"""The set `import` of the benchmarks: the logs that it generates. No test measures time."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import zstandard

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")

from bench import corpora, trials
from bench.contenders import IMPORT, LOG_FLOOR
from bench.import_figures import IMPORT_FIGURES
from bench.logs import WRITERS, files_in
from bench.measure import Measured
from bench.plans import CORPORA, Logged
from bench.table_logs import TABLE_OPTIONS
from bench.trials import Trial, run_trials
from bench.values import trial_values
from fastrec.commands.import_logs import import_logs

SIZES = {"lm-eval": 30, "lm-eval-shots": 10, "inspect": 4, "helm": 12, "table": 20}
KINDS = list(SIZES)


def write(kind: str, directory: Path, seed: int = 3) -> tuple[int, int]:
    directory.mkdir()
    return WRITERS[kind](seed, directory, SIZES[kind])


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in files_in(directory)}


@pytest.fixture
def small_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of the set, but small, and cached elsewhere."""
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    monkeypatch.setattr(trials, "OUT", tmp_path)
    for kind, size in SIZES.items():
        monkeypatch.setitem(CORPORA, f"logs-{kind}", Logged(kind, seed=3, size=size))


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_imported_and_its_figures_are_reproduced(kind: str, tmp_path: Path):
    samples, size = write(kind, tmp_path / "log")
    options = zip(TABLE_OPTIONS[::2], TABLE_OPTIONS[1::2], strict=True) if kind == "table" else ()
    meaning = {option[2:].replace("-", "_"): value for option, value in options}
    result = import_logs(tmp_path / "log", tmp_path / "out", **meaning)
    assert {log.harness for log in result.logs} == {kind.removesuffix("-shots")}
    assert sum(log.samples for log in result.logs) == samples
    assert not result.bad_logs
    assert not any(log.errors or log.disagreements for log in result.logs)
    assert all(
        log.comparisons or kind == "table" for log in result.logs
    )  # a table states no figures
    if kind != "inspect":
        assert size == sum(map(len, content(tmp_path / "log").values()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_log(kind: str, tmp_path: Path):
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        write(kind, tmp_path / name, seed)
    assert content(tmp_path / "one") == content(tmp_path / "two") != content(tmp_path / "other")


def test_lines_of_lm_eval_have_about_two_kilobytes(tmp_path: Path):
    samples, size = write("lm-eval", tmp_path / "log")
    assert 1_500 < size / samples < 3_000
    samples, size = write("lm-eval-shots", tmp_path / "long")
    assert 5_000 < size / samples < 9_000


def test_events_are_most_of_the_text_of_inspect(tmp_path: Path):
    """Members are compressed by zstd, and have the events of the sample."""
    _, size = write("inspect", tmp_path / "log")
    (path,) = files_in(tmp_path / "log")
    with ZipFile(path) as archive:
        members = archive.infolist()
    assert {member.compress_type for member in members} == {93}
    assert sum(member.file_size for member in members) == size
    member = next(member for member in members if member.filename.startswith("samples/"))
    place = member.header_offset + 30 + len(member.filename)
    data = path.read_bytes()[place : place + member.compress_size]
    sample = json.loads(zstandard.decompress(data))
    assert len(json.dumps(sample["events"])) > len(json.dumps(sample)) / 2


def test_documents_of_helm_are_indented(tmp_path: Path):
    write("helm", tmp_path / "log")
    text = (tmp_path / "log" / "stories" / "per_instance_stats.json").read_text()
    assert json.dumps(json.loads(text), indent=2) == text
    text = (tmp_path / "log" / "stories" / "scenario_state.json").read_text()
    assert text.startswith('{\n  "adapter_spec": {')
    assert '\n    },\n    {\n      "instance": {\n' in text
    json.loads(text)


def test_figures_have_the_targets_of_the_issue():
    targets = {figure.name: figure.target for figure in IMPORT_FIGURES}
    assert targets["import, lm-eval"] == targets["import, lm-eval-shots"] == 150
    assert targets["import, inspect"] == 100
    assert targets["import, helm"] == targets["import, table"] == 60
    assert {target for name, target in targets.items() if "peak memory" in name} == {200}


@pytest.mark.usefixtures("small_logs")
def test_all_trials_of_the_set_run():
    wanted = {trial for figure in IMPORT_FIGURES for trial in figure.trials}
    assert {trial.contender for trial in wanted} == {IMPORT, LOG_FLOOR}
    results = run_trials(sorted(wanted, key=str), rounds=1, notify=lambda _: None)
    assert {trial: result.error for trial, result in results.items() if result.error} == {}
    assert all(result.output_bytes for result in results.values())
    assert all(value.value for value in trial_values(IMPORT_FIGURES, results, 1.0))


@pytest.mark.usefixtures("small_logs")
def test_a_throughput_is_compared_relative_to_the_calibration():
    figure = next(figure for figure in IMPORT_FIGURES if figure.name == "import, helm")
    results = {Trial(IMPORT, "logs-helm"): Measured(seconds=2.0, cpu_seconds=2.0, peak_bytes=1)}
    (value,) = trial_values([figure], results, 0.5)
    assert value.value == pytest.approx(corpora.corpus("logs-helm").text_bytes / 2e6)
    assert value.relative == pytest.approx(value.value / 2)
