"""The progress line: one estimate for the whole command, on a terminal only, for every command that
reads a lot.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path

import pytest

import fastrec
from fastrec.cli import cli
from fastrec.cli.progress import ProgressLine, make_progress
from fastrec.engine.base import SerialEngine
from fastrec.limits import Limits, use_limits
from fastrec.normalize import run as module
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from tests.check_pairs.trees import Tree
from tests.normalize.normalizing import write
from tests.normalize.test_determinism import mixed_lines

STEP = 1_000_000


class Terminal(io.StringIO):
    """A terminal that remembers what was drawn."""

    def isatty(self) -> bool:
        return True


class Simulated:
    """A command that takes a known time for each megabyte of each stage."""

    def __init__(
        self, *stages: tuple[str, int, float], expected: tuple[str, ...], reused: int = 0
    ) -> None:
        self.now = 0.0
        self.stages = stages
        self.reused = reused
        self.line = ProgressLine(*expected, clock=lambda: self.now)

    def run(self) -> Iterator[tuple[float, float | None, float]]:
        """Yield the share, the estimated and the real remaining time after each megabyte."""
        whole = (
            sum(size * seconds for _, size, seconds in self.stages)
            - self.reused * self.stages[0][2]
        )
        for stage, size, seconds in self.stages:
            self.line.start(stage, size * STEP)
            done = self.reused
            self.reused = 0
            if done:
                self.line.reuse(done * STEP)
            for _ in range(size - done):
                self.now += seconds
                self.line.advance(STEP, 100, 0)
                self.line._update()
                yield self.line.share, self.line.seconds_left(), whole - self.now
            self.line.finish()


@pytest.mark.each_value
@pytest.mark.parametrize("merge", [0.4, 0.85, 1.3])
@pytest.mark.parametrize(
    ("sizes", "expected", "reused"),
    [
        pytest.param({"sort": 200, "merge": 200}, ("sort", "merge"), 0, id="normalize"),
        pytest.param({"sort": 200, "merge": 150}, ("sort", "merge"), 0, id="duplicates"),
        pytest.param(
            {"sort": 200, "round": 200, "merge": 200}, ("sort", "merge"), 0, id="many runs"
        ),
        pytest.param({"sort": 200, "merge": 200}, ("sort", "merge"), 180, id="resumed"),
        pytest.param(
            {"sort": 200, "merge": 200, "count": 200},
            ("sort", "merge", "count"),
            0,
            id="stats --common",
        ),
        pytest.param(
            {"count": 200}, ("sort", "merge", "count"), 0, id="stats --common of a corpus"
        ),
    ],
)
def test_one_estimate_for_the_whole_command(
    sizes: dict[str, int], expected: tuple[str, ...], reused: int, merge: float
) -> None:
    """The percentage only grows, the remaining time is about right, and a new stage does not make
    it jump.
    """
    seconds = {"sort": 1.0, "round": 0.3, "merge": merge, "count": 0.5}
    simulated = Simulated(
        *((name, size, seconds[name]) for name, size in sizes.items()),
        expected=expected,
        reused=reused,
    )
    with redirect_stderr(Terminal()):
        found = list(simulated.run())
    shares = [share for share, _, _ in found]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    guesses = [
        (left, real)
        for share, left, real in found
        if share > 0.05 and left is not None and real > 5
    ]
    assert len(guesses) > len(found) / 2
    assert all(1 / 3 < left / real < 3 for left, real in guesses)
    assert all(
        after < before * 1.5 + 1
        for (before, _), (after, _) in pairwise(guesses)
        if "round" not in sizes
    )


def test_the_last_seconds_of_the_first_pass_are_not_the_last() -> None:
    """The estimate at the end of pass 1 includes pass 2."""
    simulated = Simulated(("sort", 100, 1.0), ("merge", 100, 0.85), expected=("sort", "merge"))
    with redirect_stderr(Terminal()) as terminal:
        _, left, real = list(simulated.run())[98]
    assert left == pytest.approx(real, rel=0.1)
    assert " 54%, 85 s left" in terminal.getvalue()


def test_megabytes_go_on_in_the_second_pass() -> None:
    """The size never falls back to 0 while the bar is at the half: it counts the text of all
    stages.
    """
    simulated = Simulated(("sort", 100, 1.0), ("merge", 80, 1.0), expected=("sort", "merge"))
    with redirect_stderr(Terminal()) as terminal:
        list(simulated.run())
    sizes = [int(size) for size in re.findall(r"  (\d+) MB, ", terminal.getvalue())]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (0, 180)


def test_no_line_without_a_terminal() -> None:
    """A log file gets no progress; neither does a terminal with `quiet`."""
    for stream, quiet in ((Terminal(), True), (io.StringIO(), False)):
        with redirect_stderr(stream), make_progress("sort", quiet=quiet) as line:
            assert line is None
        assert stream.getvalue() == ""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with shards `in` and their corpus `corpus`; read-only."""
    folder = tmp_path_factory.mktemp("progress")
    fastrec.generate(folder / "in", records=40, seed=1, shards=2)
    fastrec.normalize(folder / "in", folder / "corpus")
    Tree(folder / "pairs").add()
    return folder


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        (["normalize", "in", "-o", "OUT"], ["sort", "merge"]),
        (["validate", "in"], ["judge"]),
        (["verify", "corpus"], ["check"]),
        (["check-pairs", "pairs"], ["check"]),
        (["export", "corpus", "-o", "OUT", "--format", "csv"], ["check", "write"]),
        (["stats", "corpus", "--where", "output.raw~a"], ["read"]),
        (["stats", "in", "--common"], ["sort", "merge"]),
    ],
)
def test_every_long_command_shows_its_progress(
    arguments: list[str],
    stages: list[str],
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each stage is drawn, the line is erased at the end, and --no-progress draws nothing."""
    monkeypatch.chdir(corpus)
    for more in ([], ["--no-progress"]):
        out = str(tmp_path / f"out{len(more)}")
        with redirect_stderr(Terminal()) as terminal:
            cli(
                [out if word == "OUT" else word for word in arguments] + more, standalone_mode=False
            )
        drawn = terminal.getvalue().split("\r\x1b[K")
        seen = [text.split()[0] for text in drawn if "records/s" in text]
        assert list(dict.fromkeys(seen)) == ([] if more else stages)
        assert "records/s" not in drawn[-1]


class Recorder(Progress):
    """Remembers how much was expected, and how much is done."""

    def __init__(self) -> None:
        self.stages: dict[str, list[tuple[int, int]]] = {}
        self.total = self.done = 0

    def start(self, stage: str, total_bytes: int) -> None:
        self.total, self.done, self.now = total_bytes, 0, self.stages.setdefault(stage, [])

    def expect(self, total_bytes: int) -> None:
        self.total = total_bytes

    def advance(self, size: int, *_: int) -> None:
        self.done += size
        self.now.append((self.done, self.total))


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_expected_text_follows_what_was_read(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed shards expand more than usual here, and every record is there twice: the totals
    are corrected.
    """
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())
    for number in range(6):
        write(tmp_path / "in" / f"{number}.jsonl", mixed_lines()[:60] * 4, Format.ZSTD)
    recorder = Recorder()
    limits = Limits(task_bytes=1_000, decompressed_chunk_bytes=100_000, small_input=0)
    use_limits(limits)(run)(
        [tmp_path / "in"], tmp_path / "out", Options(jobs=jobs, part_size=20_000), progress=recorder
    )
    for stage, steps in recorder.stages.items():
        assert len(steps) >= 6
        whole, expected = steps[-1]
        assert expected == pytest.approx(whole, rel=0.01)
        # With two jobs, the driver has read these small shards before their first chunk: a rough
        # estimate.
        if stage == "sort" and jobs == 1:
            assert all(total == pytest.approx(whole, rel=0.01) for _, total in steps)


@pytest.mark.parametrize("format_", [Format.PLAIN, Format.ZSTD])
def test_validate_reports_a_large_shard_while_it_is_read(format_: Format, tmp_path: Path) -> None:
    """A compressed shard is a single task, but the line does not stay at 0 %."""
    shard = write(tmp_path / "a.jsonl", [*mixed_lines()[:100], b"{"], format_)
    recorder = Recorder()
    found = use_limits(Limits(chunk_bytes=10_000))(fastrec.validate)(
        [shard, shard], progress=recorder
    )
    steps = recorder.stages["judge"]
    assert len(steps) > 20
    assert steps[-1] == (found.text_bytes, pytest.approx(found.text_bytes, rel=0.01))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
