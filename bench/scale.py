"""Simulate what a corpus of a billion records costs the driver and the storage.

    python -m bench.scale 1e9               # or several: 1e6 1e9
    python -m bench.scale 1e8 --nights      # and two incremental nights after it
    python -m bench.scale --cores 2 16 64 --measured result.json    # how long runs would take

The driver is the real one, from the plan to the manifest. Shards and workers are simulated: a shard
has only a name and a size, and the engine returns results with the right number and size of keys,
fences, bounds and borders, through pickle as from another process. No record exists.

Each simulated task counts the requests that the real one makes: reads, writes, deletes, renames.
The memory of the driver is the peak memory of this process, simulation included.

With `--nights`, the first run is incremental, too. Nothing has changed in the second one. In the
third one, one small shard has changed, which has records of one question in 400.

With `--cores`, the tasks of each phase get the processor time that `result.json`, the output of
`normalize --format json` on this machine, says for as much text. A phase lasts as long as its tasks
in turns of as many as there are cores, or as long as the driver needs to make them and for their
results. The driver's seconds are measured, its start is that of `result.json`.
"""

import argparse
import contextlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from bench.scale_corpus import RECORD, SimulatedCorpus, shares
from bench.scale_workers import Simulated, SimulatedWorkers
from bench.templates import template
from fastrec.corpus.output import CORPUS
from fastrec.corpus.publish import LocalOutput
from fastrec.normalize.driver import Corpus, make_corpus
from fastrec.normalize.kept import read_kept
from fastrec.normalize.options import Options
from fastrec.normalize.run import run_attempts
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard

_SHARD_TEXT = 64_000_000  # text of a shard, which is compressed to a quarter
_PER_QUESTION = 200  # records of a question
_SIZES = (0.8, 20, 500)  # gigabytes of text, for numbers of cores
# Records of the narrow shard in three nights: it changes before the third one.
NIGHTS = (2_000, 2_000, 2_100)


class _Stop(Progress):
    """Interrupts a run in the middle of pass 2."""

    def __init__(self, parts: int) -> None:
        self._left = parts
        self._stage = ""

    def start(self, stage: str, _: int) -> None:
        self._stage = stage

    def advance(self, *_: int) -> None:
        self._left -= self._stage == "merge"
        if not self._left:
            raise KeyboardInterrupt


class _Output(LocalOutput):
    """An output whose parts do not exist."""

    def __init__(self, folder: str, engine: SimulatedWorkers) -> None:
        super().__init__(Path(folder) / "out", CORPUS, f"{folder}/work")
        self.engine = engine

    def sync(self, path: str) -> None:
        """Do nothing: there is no file."""

    def staged_files(self) -> list[str]:
        return list(self.engine.staged)

    def reuse(self, _: str, name: str) -> str:
        self.engine.result.requests["link"] += 1
        return self.staged(name)

    def keep(self, _: str, name: str, *, linked: bool = True) -> str:
        self.engine.result.requests["link"] += linked
        return self.working(name)


class _Simulation:
    """Runs the driver once or several times, in a temporary directory."""

    def __init__(
        self,
        records: int,
        options: Options,
        folder: str,
        *,
        shard_text: int = _SHARD_TEXT,
        per_question: int = _PER_QUESTION,
    ) -> None:
        lines = shares(records, max(records * RECORD // shard_text, 1))
        self._options = options
        self._corpus = SimulatedCorpus(records, per_question)
        self._shards = [
            _shard(f"2024-{number % 12:02d}/{number:07d}", number, count)
            for number, count in enumerate(lines)
        ]
        self.engine = SimulatedWorkers(self._corpus, lines)
        self._output = _Output(folder, self.engine)
        self._output.prepare(fresh=False)

    def run(self, narrow: int = 0, stop_after: int = 0) -> Simulated:
        """Make the corpus once more.

        `narrow` is the number of records of the narrow shard. `stop_after` so many parts interrupts
        the run and resumes it.
        """
        self._corpus.narrow = narrow
        engine = self.engine
        output = self._output
        result = engine.result = Simulated(records=self._corpus.total, base_bytes=_peak())
        engine.staged.clear()
        started = time.perf_counter()
        with (
            patch("fastrec.summary.part_statistics.read_blocks", engine.blocks_of),
            patch("fastrec.storage.local.LocalStorage.remove", engine.remove),
            patch("fastrec.storage.local.LocalStorage.signature", engine.signature),
        ):
            if stop_after:
                with contextlib.suppress(KeyboardInterrupt):
                    self._drive(_Stop(stop_after))
            corpus = self._drive(Progress())
        result.seconds = time.perf_counter() - started
        result.peak_bytes = _peak()
        result.parts = len(corpus.manifest.parts)
        assert sum(part.records for part in corpus.manifest.parts) == self._corpus.total
        for journal in map(Path, output.journals()):
            result.journal_bytes += journal.stat().st_size
            journal.unlink()
        if self._options.incremental:
            output.keep_files(corpus.kept, frozenset())
            result.kept_bytes = len(corpus.kept)
        return result

    def _drive(self, progress: Progress) -> Corpus:
        count = self._corpus.narrow
        narrow = [_shard("narrow", len(self._shards), count)] if count else []
        return run_attempts(
            make_corpus,
            [*self._shards, *narrow],
            self._options,
            self._output,
            self.engine,
            kept=read_kept(self._output.kept_path),
            progress=progress,
            notice=lambda _: None,
        )


def _shard(name: str, number: int, lines: int) -> Shard:
    path = f"/data/evaluations/{name}.jsonl.zst"
    return Shard(path, lines * RECORD // 4, Format.ZSTD, version=1, file_id=number)


def simulate(
    records: int,
    options: Options,
    narrow: Sequence[int] = (0,),
    *,
    stop_after: int = 0,
    **sizes: Any,
) -> list[Simulated]:
    """Let the driver make a corpus of simulated records once, or in successive nights.

    Args:
        records: Number of records, besides those of the narrow shard.
        options: How to normalize them; several nights are incremental.
        narrow: Number of records of the narrow shard in each night. If it changes, the shard is
            another one.
        stop_after: Interrupt the run after this many parts, and resume it; 0 does not interrupt it.
        **sizes: Bytes of text in a shard (`shard_text`), and records of a question
            (`per_question`).
    """
    options = msgspec.structs.replace(options, incremental=len(narrow) > 1)
    with tempfile.TemporaryDirectory(prefix="fastrec-scale-") as folder:
        simulation = _Simulation(records, options, folder, **sizes)
        return [simulation.run(count, stop_after) for count in narrow]


def simulate_cores(
    gigabytes: float, cores: Sequence[int], measured: dict[str, Any]
) -> Iterator[tuple[int, dict[str, float], float]]:
    """How long a run would take for each number of cores, in seconds by phase.

    The last value is the processor time in total.

    Args:
        gigabytes: Size of the text.
        cores: Numbers of cores, each with a worker. The tasks are the same for all of them.
        measured: The result of `normalize --format json` on some corpus.
    """
    options = Options(schema="0.2.0", jobs=max(cores))
    with tempfile.TemporaryDirectory(prefix="fastrec-scale-") as folder:
        simulation = _Simulation(int(gigabytes * 1e9 / RECORD), options, folder)
        engine = simulation.engine
        engine.jobs = max(cores)
        started = time.process_time()
        simulation.run()
        serial = time.process_time() - started - engine.in_phases
    start = next(phase["seconds"] for phase in measured["phases"] if phase["name"] == "driver")
    scale = gigabytes * 1e9 / measured["text_bytes"]
    for number in cores:
        times = {"driver": start + serial}
        processor = 0.0
        for phase in measured["phases"]:
            if ran := engine.phases.get(phase["name"]):
                needed = phase["cpu_seconds"] * scale
                turns = -(-ran.tasks // number)
                times[phase["name"]] = max(needed / ran.tasks * turns, ran.seconds)
                processor += needed
        yield number, times, processor


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def main() -> None:
    """Simulate, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("records", nargs="*", type=float, default=[1e9], help="number of records, such as 1e9")
    add("--shard-text", type=int, default=_SHARD_TEXT, help="bytes of text in a shard")
    add("--nights", action="store_true", help="simulate incremental nights")
    add("--cores", nargs="+", type=int, help="how long runs would take on so many cores")
    measured = "with --cores: output of `fastrec normalize --format json`"
    add("--measured", type=Path, help=measured)
    given = parser.parse_args()
    page = template("scale.txt")
    if given.cores:
        measured = json.loads(given.measured.read_text())
        print(page.cores_header())
        for size in _SIZES:
            for row in simulate_cores(size, given.cores, measured):
                print(page.cores_row(size, *row), flush=True)
        return
    options = Options(schema="0.2.0", jobs=64, part_size=64 << 20)
    for records in map(int, given.records):
        nights = NIGHTS if given.nights else (0,)
        for result in simulate(records, options, nights, shard_text=given.shard_text):
            print(page.simulated(result, result.records * RECORD), flush=True)


if __name__ == "__main__":
    main()
