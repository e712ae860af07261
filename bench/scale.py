"""Simulate what a corpus of a billion records costs the driver and the storage.

    python -m bench.scale 1e9          # or several: 1e6 1e9

The driver is the real one, from the plan to the manifest. Shards and workers are simulated: a shard has only a name and
a size, and the engine returns results with the right number and size of keys, fences, samples and bounds, through
pickle as from another process. No record exists.

Each simulated task counts the requests that the real one makes: reads, writes, deletes, renames. The memory of the
driver is the peak memory of this process, simulation included.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from unittest.mock import patch

from bench.scale_workers import RECORD, Charged, SimulatedWorkers, fingerprint_of
from fastrec.corpus.local_output import LocalOutput
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.output import CORPUS
from fastrec.normalize.context import RunContext
from fastrec.normalize.driver import make_corpus, purpose_of
from fastrec.normalize.journal import Journal
from fastrec.normalize.options import Options
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard

__all__ = ["Simulated", "main", "simulate"]

_SHARD_TEXT: Final = 64_000_000  # text of a shard, which is compressed to a quarter


class Simulated(Charged, kw_only=True):
    """The result of a simulation."""

    journal_bytes: int = 0
    seconds: float = 0.0
    base_bytes: int = 0
    """Peak memory before the simulation."""
    stopped_bytes: int = 0
    """Peak memory until the run was interrupted, if it was."""
    peak_bytes: int = 0


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


def simulate(
    records: int, options: Options, *, shard_text: int = _SHARD_TEXT, seed: int = 0, stop_after: int = 0
) -> Simulated:
    """Let the driver make a corpus of simulated records.

    Args:
        records: Number of records.
        options: How to normalize them.
        shard_text: Bytes of text in a shard.
        seed: Seed of the simulation.
        stop_after: Interrupt the run after this many parts, and resume it; 0 does not interrupt it.
    """
    result = Simulated(records=records, base_bytes=_peak())
    started = time.perf_counter()
    count = max(records * RECORD // shard_text, 1)
    lines = [records * (number + 1) // count - records * number // count for number in range(count)]
    shards = [
        Shard(f"/data/evaluations/2024-{number % 12:02d}/{number:07d}.jsonl.zst", some * RECORD // 4, Format.ZSTD)
        for number, some in enumerate(lines)
    ]
    with tempfile.TemporaryDirectory(prefix="fastrec-scale-") as folder:
        output = LocalOutput(Path(folder) / "out", CORPUS, f"{folder}/work")
        output.prepare(fresh=False)
        engine = SimulatedWorkers(result, lines, random.Random(seed))
        with (
            patch("fastrec.sorting.key_sample.fingerprint", fingerprint_of),
            patch("fastrec.normalize.driver.cut_keys", engine.cut),
            patch("fastrec.summary.part_statistics.read_blocks", engine.blocks_of),
            patch("fastrec.summary.lists.read_blocks", engine.blocks_of),
            patch("fastrec.storage.local.LocalStorage.remove", engine.remove),
        ):
            if stop_after:
                with contextlib.suppress(KeyboardInterrupt):
                    _drive(shards, options, output, engine, _Stop(stop_after))
                result.stopped_bytes = _peak()
            manifest = _drive(shards, options, output, engine, Progress())
        result.journal_bytes = Path(output.working("journal")).stat().st_size
    assert sum(part.records for part in manifest.parts) == records
    assert len(manifest.parts) == result.parts
    result.peak_bytes = _peak()
    result.seconds = time.perf_counter() - started
    return result


def _drive(
    shards: list[Shard], options: Options, output: LocalOutput, engine: SimulatedWorkers, progress: Progress
) -> Manifest:
    with Journal(output.working("journal"), purpose_of(options)) as journal:
        return make_corpus(shards, RunContext(options, output, engine, journal, progress, lambda _: None))[0]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _rows(result: Simulated) -> Iterator[tuple[str, str]]:
    yield "records", f"{result.records:,}"
    yield "text", f"{result.records * RECORD / 1e9:,.1f} GB"
    yield "tasks of pass 1", f"{result.tasks:,}"
    yield "runs", f"{result.runs:,}"
    yield "runs after each round", ", ".join(f"{count:,}" for count in result.merges) or "no rounds"
    yield "parts", f"{result.parts:,}"
    yield "runs × parts", f"{result.slices:,}"
    yield "sampled", f"1 in {result.one_in:,}: {result.sampled:,}, or {result.sampled / result.parts:,.0f} to a part"
    yield "read, written", f"{result.bytes_read / 1e9:,.1f} GB, {result.bytes_written / 1e9:,.1f} GB"
    for name, count in sorted(result.requests.items()):
        yield {"object": "objects made"}.get(name, f"requests: {name}"), f"{count:,}"
    total = sum(count for name, count in result.requests.items() if name != "object")
    yield "requests", f"{total:,}"
    yield "journal", f"{result.journal_bytes / 1e6:,.1f} MB"
    if result.stopped_bytes:
        yield "driver until stopped", f"{result.stopped_bytes / 2**20:,.0f} MiB at most"
    yield "driver", f"{result.peak_bytes / 2**20:,.0f} MiB at most, {result.base_bytes / 2**20:,.0f} MiB before"
    yield "simulated in", f"{result.seconds:,.0f} s"


def main() -> None:
    """Simulate, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="*", type=float, default=[1e9], help="number of records, such as 1e9")
    parser.add_argument("--part-size", type=int, default=64 << 20, help="bytes of text in a part")
    parser.add_argument("--shard-text", type=int, default=_SHARD_TEXT, help="bytes of text in a shard")
    parser.add_argument(
        "--stop-after", type=int, default=0, help="parts after which the run is interrupted and resumed"
    )
    given = parser.parse_args()
    for records in given.records:
        options = Options(jobs=64, part_size=given.part_size)
        for name, value in _rows(
            simulate(int(records), options, shard_text=given.shard_text, stop_after=given.stop_after)
        ):
            print(f"{name:<24} {value}")
        print()


if __name__ == "__main__":
    main()
