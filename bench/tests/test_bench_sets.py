"""The sets `ask`, `view` and `import`: their logs, and that all trials run.

No test measures time.
"""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import zstandard

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")
pytest.importorskip("duckdb", reason="needs the extra `sql`")
pytest.importorskip("starlette", reason="needs the extra `view`")

from bench import corpora, trials
from bench.corpora import CORPORA
from bench.figures import FIGURES, trial_values, trials_of
from bench.logs import WRITERS, files_in
from bench.trials import run_trials
from fastrec.commands.import_logs import import_logs

BY_NAME = {figure.name: figure for figure in FIGURES}
SIZES = {"lm-eval": 30, "lm-eval-shots": 10, "inspect": 4, "helm": 12, "table": 20}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpora of the sets, but small, and cached elsewhere."""
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    monkeypatch.setattr(trials, "OUT", tmp_path)
    monkeypatch.setitem(CORPORA, "published-real-x10", {"type": "Published", "of": "ten-lines"})
    for kind, size in SIZES.items():
        monkeypatch.setitem(CORPORA, f"logs-{kind}", {**CORPORA[f"logs-{kind}"], "size": size})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("chosen", ["ask", "view", "import"])
def test_all_trials_of_a_set_run(chosen: str) -> None:
    figures = [figure for figure in FIGURES if figure.set == chosen]
    results = run_trials(trials_of(figures), rounds=1)
    assert {trial: result.error for trial, result in results.items() if result.error} == {}
    values = trial_values(figures, results, 1.0)
    assert all(value.value is not None for value in values)
    if chosen == "import":
        assert all(result.output_bytes for result in results.values())


# Logs


def write(kind: str, directory: Path, seed: int = 3) -> tuple[int, int]:
    directory.mkdir()
    return WRITERS[kind](seed, directory, SIZES[kind])


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in files_in(directory)}


@pytest.mark.parametrize("kind", SIZES)
def test_a_log_is_imported_and_its_figures_are_reproduced(kind: str, tmp_path: Path) -> None:
    samples, size = write(kind, tmp_path / "log")
    figure = BY_NAME[f"import, {kind}"]
    words = iter(figure.trials[0].options)
    meaning = {option[2:].replace("-", "_"): next(words) for option in words}
    result = import_logs(tmp_path / "log", tmp_path / "out", **meaning)
    assert {log.harness for log in result.logs} == {kind.removesuffix("-shots")}
    assert sum(log.samples for log in result.logs) == samples
    assert not result.bad_logs
    assert not any(log.errors or log.disagreements for log in result.logs)
    # A table states no figures.
    assert all(log.comparisons or kind == "table" for log in result.logs)
    if kind != "inspect":
        assert size == sum(map(len, content(tmp_path / "log").values()))


@pytest.mark.parametrize("kind", SIZES)
def test_the_same_seed_gives_the_same_log(kind: str, tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        write(kind, tmp_path / name, seed)
    assert content(tmp_path / "one") == content(tmp_path / "two") != content(tmp_path / "other")


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("lm-eval", 1_500, 3_000), ("lm-eval-shots", 5_000, 9_000)]
)
def test_sizes_of_lines_of_lm_eval(kind: str, low: int, high: int, tmp_path: Path) -> None:
    samples, size = write(kind, tmp_path / "log")
    assert low < size / samples < high


def test_events_are_most_of_the_text_of_inspect(tmp_path: Path) -> None:
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
