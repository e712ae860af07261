"""Merging runs between the passes does not change the corpus."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fastrec.engine.base import SerialEngine
from fastrec.errors import ShardError
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1_driver, plan
from fastrec.normalize import run as module
from fastrec.normalize.options import FEW_FENCES
from fastrec.normalize.pass1 import SortTask, sort_pieces
from fastrec.normalize.plan import MergeTask, merge_some
from fastrec.normalize.results import SortResult
from fastrec.normalize.run import normalize
from fastrec.progress import Progress
from fastrec.sorting.keys import FIELDS, KeyColumns
from fastrec.sorting.runs import Run
from fastrec.sources.formats import Format
from fastrec.summary import part_statistics as census
from fastrec.summary.census import census_of_part
from fastrec.summary.same_run import slices_of, superseded_in
from fastrec.summary.tally import NO_OUTCOME
from tests.normalize.normalizing import normalized, shuffled_shards, write
from tests.normalize.test_determinism import PART, mixed_lines
from tests.normalize.test_failures import lines_of
from tests.normalize.test_resume import add_first, change, everything, interrupt, nothing, remove
from tests.sizes import few_of


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Nine shards with duplicates, conflicts and invalid lines."""
    lines = mixed_lines()
    return list(shuffled_shards([*lines, *lines[:20]], 9, tmp_path_factory.mktemp("pile")))


MERGE_EARLY = Limits(
    unmerged_runs=2,
    merged_runs=2,
    merge_fan_in=3,
    least_merge_fan_in=2,
    census_fan_in=2,
    census_partitions=3,
    part_counts_per_task=2,
)
"""Merge runs even if there are few, and count the census and the parts in tasks."""
SMALL_RUNS = replace(
    MERGE_EARLY, task_bytes=20_000, run_bytes=30_000, window_bytes=3_000, read_bytes=4
)
"""Also spill runs of a few records, and merge a few records at a time."""


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[MergeTask]:
    """The merge tasks that run in this process."""
    tasks: list[MergeTask] = []

    def note(task: MergeTask) -> Run:
        tasks.append(task)
        return merge_some(task)

    monkeypatch.setattr(plan, "merge_some", note)
    return tasks


@pytest.mark.parametrize("conflicts", ["keep", "first", "reject"])
def test_merging_runs_does_not_change_the_corpus(
    conflicts: str, pile: list[Path], tmp_path: Path, merged: list[MergeTask]
) -> None:
    """Dozens of runs, merged in groups of three in several rounds, give the same parts, rejects and
    counts.
    """
    other = normalized(
        pile, tmp_path / "other", part_size=PART, conflicts=conflicts, repeats=conflicts
    )
    assert not merged
    corpus = normalized(
        pile,
        tmp_path / "out",
        part_size=PART,
        conflicts=conflicts,
        repeats=conflicts,
        limits=SMALL_RUNS,
    )
    assert [task.regions is None for task in merged].count(True) > 3, "there was only one round"
    assert max(len(task.slices) for task in merged) == 3
    assert corpus.same_for_all == other.same_for_all
    assert corpus.rejects == other.rejects
    assert corpus.manifest == other.manifest
    assert corpus.line_counts["duplicates"] > 10


def test_rounds_in_several_processes(tmp_path: Path) -> None:
    """A pool gives the same bytes, also with filters."""
    check_rounds(tmp_path, jobs=2)


def check_rounds(tmp_path: Path, **engine: Any) -> None:
    """Check that rounds in an engine give the same bytes as without rounds in this process."""
    stages = Stages()
    content: dict[str, Any] = {
        "part_size": PART,
        "conflicts": "first",
        "repeats": "first",
        "hash": "[!0]*",
    }
    pile = list(shuffled_shards(mixed_lines()[:60], 5, tmp_path / "in"))
    other = normalized(pile, tmp_path / "other", **content)
    limits = replace(MERGE_EARLY, small_input=0, task_bytes=20_000)
    corpus = normalized(pile, tmp_path / "out", stages, **content, limits=limits, **engine)
    assert "round" in stages.seen
    assert corpus.same_for_all == other.same_for_all
    assert corpus.rejects == other.rejects


@pytest.mark.parametrize("most", few_of([1, 20, 50, 100], 2, "limited borders"))
def test_limited_borders_give_the_same_cuts_everywhere(most: int, tmp_path: Path) -> None:
    """Even if there are too many borders to hold, shards, tasks and their order do not change the
    cuts.
    """
    borders = {"most_borders": most}
    limits = Limits(**borders)
    pile = list(shuffled_shards(mixed_lines()[:120], 9, tmp_path / "pile"))
    corpora = [normalized(pile, tmp_path / "one", part_size=PART, limits=limits)]
    limits = Limits(task_bytes=5_000, **borders)
    corpora.append(normalized(pile[::-1], tmp_path / "two", part_size=PART, limits=limits))
    shards = list(shuffled_shards(mixed_lines()[119::-1], 3, tmp_path / "in"))
    corpora.append(
        normalized(
            shards, tmp_path / "three", part_size=PART, limits=replace(SMALL_RUNS, **borders)
        )
    )
    assert len({tuple(corpus.same_for_all.items()) for corpus in corpora}) == 1
    assert (len(corpora[0].parts) > 1) is (most > 1)


def test_a_bad_shard_does_not_move_the_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of a skipped shard do not count for the sizes that decide where parts begin."""
    limits = Limits(task_bytes=500, decompressed_chunk_bytes=20_000, small_input=0)
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())
    good = write(tmp_path / "in" / "good.jsonl", mixed_lines()[:50])
    bad = write(tmp_path / "in" / "bad.jsonl", mixed_lines()[50:120], Format.ZSTD)
    bad.write_bytes(bad.read_bytes()[:-9])
    options: dict[str, Any] = {"part_size": 5_000, "limits": limits}
    corpus = normalized([good, bad], tmp_path / "out", skip_bad_shards=True, jobs=2, **options)
    alone = normalized(good, tmp_path / "alone", **options)
    assert corpus.manifest["skipped"]
    assert len(alone.parts) > 3
    assert [part.read_bytes() for part in corpus.parts] == [
        part.read_bytes() for part in alone.parts
    ]


@pytest.mark.parametrize("engine_jobs", [1, 2])
def test_runs_of_streams_are_merged_too(
    engine_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that cannot be reused after an interruption are merged with the others."""
    limits = replace(SMALL_RUNS, small_input=0, decompressed_chunk_bytes=10_000)
    data = b"".join(line + b"\n" for line in mixed_lines()[:50])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    shards = [
        write(tmp_path / "a.jsonl", mixed_lines()[50:100], Format.GZIP),
        write(tmp_path / "b.jsonl", mixed_lines()[100:]),
    ]
    corpus = normalized(
        [*shards, "-"], tmp_path / "out", part_size=PART, jobs=engine_jobs, limits=limits
    )
    monkeypatch.undo()
    expected = normalized(
        write(tmp_path / "all.jsonl", mixed_lines()), tmp_path / "expected", part_size=PART
    )
    assert corpus.same_for_all == expected.same_for_all


def test_the_driver_drops_the_fences_of_runs_that_will_be_merged(
    pile: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there are too many runs, fences are neither requested nor kept.

    Checksums of runs are never kept.
    """
    held: list[tuple[int, int]] = []
    requested: list[int] = []

    class Watched(pass1_driver._Pass1):
        def _add(self, result: SortResult) -> None:
            super()._add(result)
            results = self._finished
            fences = sum(len(run.fences) for result in results for run in result.runs)
            files = {file for result in results for file in result.files}
            kept = {path for result in results for path in (result.rejects, result.statistics)}
            held.append((fences, sum(file.path not in kept for file in files)))

    def sort(task: SortTask) -> SortResult:
        requested.append(task.most_fences)
        return sort_pieces(task)

    monkeypatch.setattr(pass1_driver, "_Pass1", Watched)
    monkeypatch.setattr(pass1_driver, "sort_pieces", sort)
    normalized(pile, tmp_path / "out", part_size=PART, limits=SMALL_RUNS)
    assert requested[0] > requested[-1] == FEW_FENCES
    assert held[-1] == (0, 0)
    assert {files for _, files in held} == {0}


# Resume


def make_shards(folder: Path) -> Path:
    """Eight shards, a task each, with duplicates within and across them, and many parts."""
    for number, name in enumerate("bcdefghi"):
        some = [*mixed_lines()[number * 10 : number * 10 + 10], *lines_of("same", 3)]
        write(folder / f"{name}.jsonl", some, Format.ZSTD if name in "ce" else Format.PLAIN)
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Eight shards, to be changed."""
    return make_shards(tmp_path / "in")


@pytest.fixture(scope="module")
def same_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same shards; read-only."""
    return make_shards(tmp_path_factory.mktemp("shards") / "in")


LIMITS = replace(SMALL_RUNS, task_bytes=5_000)
OPTIONS: dict[str, Any] = {
    "part_size": PART,
    "conflicts": "first",
    "repeats": "first",
    "limits": LIMITS,
}


@pytest.fixture(scope="module")
def whole(
    same_shards: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], int]:
    """The files that an undisturbed run makes of these shards, and the number of its merge tasks."""
    tasks: list[MergeTask] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "merge_some", lambda task: (tasks.append(task), merge_some(task))[1])
        corpus = normalized(same_shards, tmp_path_factory.mktemp("whole") / "out", **OPTIONS)
    return everything(corpus), len(tasks)


def work_of(out: Path) -> set[str]:
    return {
        path.name.split("-")[0] for path in (out.parent / f".{out.name}.fastrec-work").iterdir()
    }


@pytest.mark.parametrize(
    "count", few_of(range(1, 12), 3, "test_a_run_resumes_in_the_middle_of_a_round")
)
def test_a_run_resumes_in_the_middle_of_a_round(
    *,
    count: int,
    same_shards: Path,
    whole: tuple[dict[str, bytes], int],
    tmp_path: Path,
    merged: list[MergeTask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever merging is interrupted, the next run merges the rest, sorts nothing, and gives the
    same bytes.
    """
    files, total = whole
    assert total > 6
    if count > total:
        return
    interrupt(same_shards, tmp_path / "out", count, "round", **OPTIONS)
    assert len(merged) == count
    assert "merged" in work_of(tmp_path / "out")
    monkeypatch.setattr(pass1_driver, "sort_pieces", None)  # nothing may be sorted
    assert everything(normalized(same_shards, tmp_path / "out", **OPTIONS)) == files
    assert len(merged) <= total + 2  # groups may differ, but no merge is repeated


def test_merged_runs_are_removed(shards: Path, tmp_path: Path) -> None:
    """Runs are removed as soon as the journal has the run that replaces them."""
    interrupt(shards, tmp_path / "out", 1, "merge", **OPTIONS)
    names = [path.name for path in (tmp_path / ".out.fastrec-work").iterdir()]
    assert not [name for name in names if name.startswith("run-")]
    assert (
        len([name for name in names if name.startswith("merged-") and name.endswith(".index")]) == 2
    )


@pytest.mark.each_value
@pytest.mark.parametrize(
    "deed", [nothing, add_first, change, remove], ids=lambda deed: deed.__name__
)
@pytest.mark.parametrize(("stage", "count"), [("round", 2), ("round", 5), ("merge", 1)])
def test_shards_may_change_after_a_round(
    stage: str, count: int, deed: Callable[[Path], str], shards: Path, tmp_path: Path
) -> None:
    """Merged runs with records of a changed shard are discarded; others are reused."""
    interrupt(shards, tmp_path / "out", count, stage, **OPTIONS)
    deed(shards)
    corpus = normalized(shards, tmp_path / "out", **OPTIONS)
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh", **OPTIONS))


def test_a_bad_shard_may_become_readable_after_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of a skipped shard are not in merged runs, which are not reused once the shard can be
    read.
    """
    folder = write(tmp_path / "in" / "a.jsonl", mixed_lines()[:10]).parent
    write(folder / "b.jsonl", mixed_lines()[10:20])
    failed: list[str] = []

    def fail(task: SortTask) -> SortResult:
        """The last range of a shard cannot be read."""
        result = sort_pieces(task)
        pieces = []
        for counts in result.pieces:
            is_bad = counts.piece.source.endswith("b.jsonl") and counts.piece.slice.end is None
            failed.extend([counts.piece.source] * is_bad)
            error = ShardError(counts.piece.source, "a transient error") if is_bad else None
            pieces.append(replace(counts, error=error))
        return replace(result, pieces=tuple(pieces))

    with monkeypatch.context() as patch:
        patch.setattr(pass1_driver, "sort_pieces", fail)
        interrupt(folder, tmp_path / "out", 1, "merge", skip_bad_shards=True, **OPTIONS)
    assert len(failed) == 1
    corpus = normalized(folder, tmp_path / "out", **OPTIONS)
    assert everything(corpus) == everything(normalized(folder, tmp_path / "fresh", **OPTIONS))


@pytest.mark.each_value
@pytest.mark.parametrize("how", ["damaged", "gone"])
@pytest.mark.parametrize("suffix", ["", ".index"])
def test_a_damaged_merged_run_is_repeated(
    how: str, suffix: str, same_shards: Path, whole: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    """If a merged run is damaged, the tasks whose runs it replaced are repeated."""
    for count, stage in ((3, "round"), (1, "merge")):
        out = tmp_path / stage
        interrupt(same_shards, out, count, stage, **OPTIONS)
        work = tmp_path / f".{stage}.fastrec-work"
        path = min(
            path for path in work.glob("merged-*") if (path.suffix == ".index") is bool(suffix)
        )
        if how == "gone":
            path.unlink()
        else:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        assert everything(normalized(same_shards, out, **OPTIONS)) == whole[0]


def test_several_interruptions_in_a_row(shards: Path, tmp_path: Path) -> None:
    """A run that is interrupted in every stage, with a new shard in between, still completes."""
    stages = [
        ("sort", 3),
        ("sort", 9),
        *[("round", 1)] * 4,
        ("merge", 2),
        ("sort", 5),
        ("merge", 4),
    ]
    for number, (stage, count) in enumerate(stages):
        if number == 4:
            write(shards / "a.jsonl", lines_of("a"))
        interrupt(shards, tmp_path / "out", count, stage, **OPTIONS)
    corpus = normalized(shards, tmp_path / "out", **OPTIONS)
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh", **OPTIONS))


def test_runs_without_fences_are_always_merged(
    shards: Path, tmp_path: Path, merged: list[MergeTask]
) -> None:
    """Runs of an interrupted run with more shards have no fences, so they are merged even if they
    are few.
    """
    interrupt(shards, tmp_path / "out", 1, "round", **OPTIONS)
    for name in "bcdefg":
        next(shards.glob(f"{name}.*")).unlink()
    options = {**OPTIONS, "limits": replace(LIMITS, unmerged_runs=1_000)}
    corpus = normalized(shards, tmp_path / "out", **options)
    assert merged
    merged.clear()
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh", **options))
    assert not merged


class Stages(Progress):
    """Records the stages of a run."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def start(self, stage: str, _: int) -> None:
        self.seen.append(stage)


def test_small_corpora_need_no_merging(pile: list[Path], tmp_path: Path) -> None:
    """If there are few runs, none are merged between the passes."""
    stages = Stages()
    normalize(pile, tmp_path / "out", progress=stages)
    assert stages.seen == ["sort", "merge"]


# The census in tasks

words = st.sampled_from([b"a", b"b", b"c"])
fields = st.tuples(
    st.sampled_from([b"e", b"f"]), words, words, st.sampled_from([b"r", b"s"]), words
)


@given(
    st.lists(st.lists(fields, max_size=12), min_size=1, max_size=7),
    st.sampled_from([None, "first", "reject"]),
)
def test_a_census_in_tasks_counts_the_same(parts: list[list[Any]], repeats: Any) -> None:
    """Partitioned lists give the same counts, examples and superseded records as lists counted by
    one process.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        prefixes = [f"{folder}/census-{number}" for number in range(len(parts))]
        for prefix, some in zip(prefixes, parts, strict=True):
            lists = census_of_part(KeyColumns.of(some), [NO_OUTCOME] * len(some))
            for name, rows in zip(census._LISTS, lists, strict=True):
                census.write_rows(f"{prefix}-{name}", rows)
        patch.setattr(census, "IDENTITY_EXAMPLES", 3)
        rule = repeats and census.RepeatsRule(
            FIELDS, repeats, without_contradictions=False, path=f"{folder}/superseded records"
        )
        one = census.read_census(prefixes, rule)
        with use_limits(Limits(census_fan_in=2, census_partitions=3)):
            [many] = census.count_census([prefixes], folder, SerialEngine(), rule)
        superseded = [
            list(superseded_in(slices_of(found.superseded, None, None), None, None))
            for found in (one, many)
        ]
        assert superseded[0] == superseded[1]
        one.superseded = many.superseded = []
        assert many == one
        file = census.write_census(f"{folder}/superseded records, counted", one)
        assert census.kept_census(file.path) == one
        written = [
            path
            for path in Path(folder).iterdir()
            if not path.name.startswith("superseded records")
        ]
        assert len(written) == 2 * len(parts), "partitions are left behind"
