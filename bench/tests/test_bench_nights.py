"""The benchmark of incremental nights: piles, snapshots, comparison with full runs, figures.

No test measures time.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

pytest.importorskip("psutil", reason="needs the dependencies of the benchmarks")

from bench import corpora, nights
from bench.figures import FIGURES, Value, trial_values, trials_of
from bench.measure import Job, Measured
from bench.nights import (
    CORPUS,
    FIRST,
    FULL,
    NIGHTS,
    SMALL,
    TEN_TIMES,
    WEEK,
    Desk,
    in_full,
    run_nights,
    run_week,
    week_plot,
)
from bench.piles import Change, Snapshot, Stock, lay_out
from bench.real import shard_lines
from bench.trials import Trial
from tests.samples import sample

RECORDS = 20
RUN = Measured(seconds=1.0, cpu_seconds=1.0, peak_bytes=1)
DAYS = [name for day in WEEK for name in (in_full(day), day)]
ALL_KINDS = {"new evaluation": 1, "large model": 1, "changed shard": 1, "removed shard": 1}


@pytest.fixture(autouse=True)
def _small_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures refer to the text of a corpus, which is small here."""
    monkeypatch.setattr(corpora, "OUT", tmp_path)
    monkeypatch.setitem(corpora.CORPORA, CORPUS, corpora.CORPORA["ten-lines"])


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    """A pile of two versions of three models: two on a large evaluation, one on a small one."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    paths = []
    for version in range(2):
        for model, evaluation, records in (
            ("a", "large", RECORDS),
            ("b", "large", RECORDS),
            ("c", "small", 2),
        ):
            names = {"evaluation_name": evaluation, "model_id": f"v{version}-{model}"}
            lines = [json.dumps(sample(**names, sample_id=str(n))) for n in range(records)]
            paths.append(folder / f"v{version}-{model}.jsonl.zst")
            paths[-1].write_bytes(zstandard.compress("\n".join([*lines, ""]).encode()))
    size = sum(len(line) + 1 for path in paths for line in shard_lines(path))
    return Stock(paths, tmp_path / "stock", size)


def seen(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What fastrec compares of every file in a directory."""
    about = {
        str(path.relative_to(folder)): path.stat() for path in folder.rglob("*") if path.is_file()
    }
    return {name: (each.st_size, each.st_mtime_ns, each.st_ino) for name, each in about.items()}


def sorting(spoiled: Callable[[int], bool] = lambda _: False) -> Callable[[Job], Measured]:
    """A stand-in for `normalize`: it sorts all lines, and adds one in spoiled nights."""
    done: list[Job] = []

    def execute(job: Job) -> Measured:
        lines = sorted(line for path in job.shards() for line in shard_lines(Path(path)))
        corpus, work = (Path(job.output) / name for name in ("corpus", ".corpus.fastrec-work"))
        corpus.mkdir(exist_ok=True)
        if "--incremental" in job.options:
            done.append(job)
            work.mkdir(exist_ok=True)
            (work / "kept").write_bytes(b"kept")
            if spoiled(len(done)):
                lines.append(b"{}")
        (corpus / "part-00000.jsonl").write_bytes(b"\n".join(lines))
        return RUN

    return execute


def test_a_pile_can_be_laid_out_again_with_the_same_inodes_and_times(
    stock: Stock, tmp_path: Path
) -> None:
    pile = tmp_path / "pile"
    lay_out(stock.base, pile)
    before = seen(pile)
    lay_out(stock.after(stock.base, ALL_KINDS), pile)
    assert seen(pile) != before
    lay_out(stock.base, pile)
    assert seen(pile) == before


@pytest.mark.parametrize(
    ("change", "new", "other", "gone"),
    [
        ({}, 0, 0, 0),
        ({"new evaluation": 1}, 1, 0, 0),
        ({"large model": 2}, 2, 0, 0),
        ({"small model": 3}, 3, 0, 0),
        ({"changed shard": 1}, 0, 1, 0),
        ({"removed shard": 2}, 0, 0, 2),
    ],
)
def test_a_change_adds_changes_and_removes_shards(
    stock: Stock, change: Change, new: int, other: int, gone: int
) -> None:
    pile = stock.after(stock.base, change)
    assert len(pile.keys() - stock.base.keys()) == new
    assert len(stock.base.keys() - pile.keys()) == gone
    assert sum(pile[name] != path for name, path in stock.base.items() if name in pile) == other


def test_new_shards_are_other_records(stock: Stock) -> None:
    """A new model or evaluation has names of its own, so that no record is a duplicate."""
    pile = stock.after(stock.base, {"new evaluation": 1, "large model": 1, "small model": 1})
    names = Counter(
        (record["evaluation_name"], record["model_id"], record["sample_id"])
        for path in pile.values()
        for record in map(json.loads, shard_lines(path))
    )
    assert set(names.values()) == {1}
    evaluations = Counter(evaluation for evaluation, _, _ in names)
    assert evaluations == {"large": 5 * RECORDS, "small": 6, "small-1": 2}


def test_ten_times_the_records_are_in_as_many_shards(stock: Stock) -> None:
    one = stock.first_versions()
    joined = stock.joined_versions()
    assert len(one) == len(joined) == 3
    assert [
        sum(len(list(shard_lines(path))) for path in pile.values()) for pile in (one, joined)
    ] == [42, 84]


def test_a_snapshot_restores_inodes_times_and_files_written_in_place(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "work").mkdir(parents=True)
    (state / "work" / "journal").write_bytes(b"one\n")
    (state / "part").write_bytes(b"part")
    os.link(state / "part", state / "work" / "part")
    before = seen(state)
    snapshot = Snapshot(state, tmp_path / "store")
    for _ in range(2):
        with (state / "work" / "journal").open("ab") as file:
            file.write(b"two\n")
        (state / "part").unlink()
        (state / "new").touch()
        snapshot.restore()
        assert seen(state) == before
        assert (state / "work" / "journal").read_bytes() == b"one\n"


def results_of(runs: dict[str, Measured]) -> dict[Trial, Measured]:
    return {Trial(night, CORPUS): run for night, run in runs.items()}


def values_of(runs: dict[str, Measured]) -> dict[str, Value]:
    """The figures by name; other nights than those in `runs` are as long as a full run."""
    figures = [figure for figure in FIGURES if figure.set == "nights"]
    results = dict.fromkeys(trials_of(figures), RUN) | results_of(runs)
    return {value.name: value for value in trial_values(figures, results, 1.0)}


def test_nights_are_compared_with_full_runs(
    stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong night fails its figure, even if the same night is right in another round."""
    right: dict[str, Measured] = {}
    monkeypatch.setattr(nights, "execute_normalize", sorting())
    run_nights(right, stock, tmp_path / "right", rounds=2)
    assert list(right) == [FULL, FIRST, *NIGHTS, SMALL, TEN_TIMES]
    assert all(run.error is None for run in right.values())
    assert right[FIRST].output_bytes == 4
    wrong: dict[str, Measured] = {}
    monkeypatch.setattr(nights, "execute_normalize", sorting(lambda number: number == 4))
    run_nights(wrong, stock, tmp_path / "wrong", rounds=2)
    failed = {name: run.error for name, run in wrong.items() if run.error}
    assert failed == {list(NIGHTS)[2]: "differs from a full run: part-00000.jsonl"}
    values = values_of(wrong)
    assert values[f"night: {list(NIGHTS)[2]}"].value is None
    assert values["night: nothing changed"].reached is False


def test_a_week_has_seven_nights_and_a_picture(
    stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    week: dict[str, Measured] = {}
    monkeypatch.setattr(nights, "execute_normalize", sorting())
    run_week(week, stock, tmp_path / "right", rounds=1)
    assert list(week) == DAYS
    assert values_of(week)["night: a week"].value == 1.0
    drawn = week_plot(results_of(week))
    assert drawn.count("<rect") == 1 + 2 + 2 * len(WEEK)
    assert "1 removed shard" in drawn
    assert "href" not in drawn
    failed = {**week, in_full("Thu"): msgspec.structs.replace(week["Thu"], error="killed")}
    assert week_plot(results_of(failed)) == ""
    assert values_of(failed)["night: a week"].error == "Thu, full run: killed"


def test_nights_of_fastrec_itself(stock: Stock, tmp_path: Path) -> None:
    """Whole processes on a tiny pile; the name of their directory has spaces, as some have."""
    desk = Desk(tmp_path / "nothing changed, a tenth")
    assert desk.first(stock.base).error is None
    before = desk.snapshot()
    for change in ({}, ALL_KINDS):
        before.restore()
        assert desk.night(stock.after(stock.base, change)).error is None
