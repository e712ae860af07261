"""What a corpus of a billion records would ask of the driver and of the storage: a simulation on generated indexes.

    python -m bench.scale 1e9          # or several: 1e6 1e9

The driver is the real one, from the plan to the manifest: it cuts shards into tasks, gathers the sample, chooses cuts,
plans rounds of merging, orders parts, takes the census, adds up the books, and keeps its journal. What is simulated are
the shards, of which there are only names and sizes, and the workers: an engine that gives back what they would, with
keys, fences, samples and bounds of the right number and size, through pickle as from another process. No record exists.

Each simulated task is charged the requests that the real one makes: reads, writes, deletes, renames. How much memory the
driver takes is what this process takes at most, simulation included.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import random
import resource
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec

from fastrec.jobs.manifest import Manifest
from fastrec.jobs.normalize import NoProgress, Options
from fastrec.jobs.normalize.census import Census
from fastrec.jobs.normalize.driver import Normalizer, purpose_of
from fastrec.jobs.normalize.journal import Journal
from fastrec.jobs.normalize.kept import Kept
from fastrec.jobs.normalize.merging import MergeOrder
from fastrec.jobs.normalize.pass1 import Order, PieceBooks, Sorted
from fastrec.jobs.normalize.pass2 import Part, PartOrder
from fastrec.jobs.normalize.rejects import RejectRange
from fastrec.jobs.publish import Kind, Workplace
from fastrec.stages.runs import Fence, Run, RunSlice, Sampled, cut_keys, index_of, read_blocks
from fastrec.stages.shards import Format, Shard, Written
from fastrec.stages.summary import ModelTally, Samples, Tally

__all__ = ["Simulated", "main", "reads_of", "simulate"]

RECORD: Final = 1_500  # bytes of text, as in real evaluation records
_KEY: Final = 150  # bytes of a key
_ROW: Final = 60  # bytes of a row of statistics
_IN_MEMORY: Final = 700  # what pass 1 reckons for a record beside its text
_BLOCK_ROWS: Final = 128
_SHARD_TEXT: Final = 64_000_000  # text of a shard, which is compressed to a quarter
_PART_SHARE: Final = 6  # text is so many times what it is compressed to in a part
_CENSUS: Final = 65  # bytes of the census for a record, in each of two lists
_MODELS: Final = 50  # in a part
_BOOKS: Final = 20_000  # bytes of the books of a part
_INPUT_READ: Final = 1 << 20  # read of a shard at a time
_BLOCKS_READ: Final = 256 << 10  # read of a file of blocks at a time
_WRITE: Final = 32 << 20  # written at a time where storage takes objects in pieces
_HASH: Final = "0" * 32


class Simulated(msgspec.Struct, kw_only=True):
    """What came of it."""

    records: int
    tasks: int = 0
    runs: int = 0
    merges: list[int] = msgspec.field(default_factory=list)
    """Runs that each round leaves."""
    parts: int = 0
    slices: int = 0
    """Stretches of runs that parts are gathered from."""
    sampled: int = 0
    one_in: int = 0
    requests: Counter[str] = msgspec.field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0
    journal_bytes: int = 0
    seconds: float = 0.0
    base_bytes: int = 0
    """What the process took before it began."""
    stopped_bytes: int = 0
    """What it took until it was stopped, if it was."""
    peak_bytes: int = 0


class _Stop(NoProgress):
    """Ends a run in the middle of the second pass."""

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
    """Let the driver make a corpus of so many records, all of them made up.

    Args:
        records: How many.
        options: How to normalize them.
        shard_text: Bytes of text in a shard.
        seed: For what is made up.
        stop_after: Stop after so many parts, and let the next run go on from the journal; 0 is to go through.
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
        place = Workplace(Path(folder) / "out", Kind("a corpus", "manifest.json"), f"{folder}/work")
        place.prepare(fresh=False)
        engine = _Workers(result, lines, random.Random(seed))
        with (
            patch("fastrec.stages.runs.sample.fingerprint", _made_up_fingerprint),
            patch("fastrec.jobs.normalize.driver.cut_keys", engine.cut),
            patch("fastrec.jobs.normalize.partbooks.read_blocks", engine.books_of),
            patch("fastrec.jobs.normalize.rounds.remove", engine.remove),
            patch("fastrec.jobs.normalize.census.read_blocks", engine.list_of),
            patch("fastrec.jobs.normalize.census.remove", engine.remove),
        ):
            if stop_after:
                with contextlib.suppress(KeyboardInterrupt):
                    _drive(shards, options, place, engine, _Stop(stop_after))
                result.stopped_bytes = _peak()
            manifest = _drive(shards, options, place, engine, NoProgress())
        result.journal_bytes = Path(place.working("journal")).stat().st_size
    assert sum(part.records for part in manifest.parts) == records
    assert len(manifest.parts) == result.parts
    result.peak_bytes = _peak()
    result.seconds = time.perf_counter() - started
    return result


def _drive(shards: list[Shard], options: Options, place: Workplace, engine: _Workers, progress: NoProgress) -> Manifest:
    with Journal(place.working("journal"), purpose_of(options)) as journal:
        driver = Normalizer(shards, options, place, engine, progress=progress, journal=journal, notice=lambda _: None)
        return driver.run()[0]


def reads_of(piece: RunSlice, stretch: int) -> int:
    """Say how many reads it takes to gather a slice of a run, its index and its data: at most, but for a few."""
    index_bytes, data_bytes = piece.index_end - piece.index_start, piece.data_end - piece.data_start
    index_stretch = max(stretch * index_bytes // max(data_bytes, 1), 64)
    index_reads = max(-(-(index_bytes - index_stretch // 2) // index_stretch), 1)
    return index_reads + -(-data_bytes // stretch)


class _Workers:
    """An engine that gives back what workers would, and charges what they would ask of the storage."""

    jobs = 64

    def __init__(self, result: Simulated, lines: list[int], rng: random.Random) -> None:
        self._result = result
        self._rng = rng
        self._lines = lines  # of each shard
        self._left: list[tuple[int, int]] = []  # pieces, and how many of their records are in no books yet
        self._records_of: list[int] = []  # by part

    def run(self, task: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        tasks: dict[str, Callable[[Any], Any]] = {
            "sort_pieces": self._sort,
            "merge_some": self._merge,
            "make_part": self._make_part,
            "_deal": self._deal,
            "_count": self._count,
            "_task_holds": lambda _: True,
            "_files_hold": lambda _: True,
            "_part_holds": lambda _: True,
            "_sample_again": self._sample_again,
        }
        simulated = tasks[task.__name__]
        if task.__name__ == "merge_some":
            self._result.merges.append(0)
        for number, argument in enumerate(arguments):
            yield number, pickle.loads(pickle.dumps(simulated(argument)))

    def reach(self, directories: Iterable[str]) -> None:
        """Nobody has to reach anything."""

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def cut(self, sample: Iterable[Sampled], one_in: int, part_bytes: int) -> list[bytes]:
        """Cut as the driver does, and note what comes of it."""
        result = self._result
        sample = list(sample)
        cuts = cut_keys(sample, one_in, part_bytes)
        result.parts, result.one_in, result.sampled = len(cuts) + 1, one_in, len(sample)
        bounds = [result.records * number // result.parts for number in range(result.parts + 1)]
        self._records_of = [end - start for start, end in pairwise(bounds)]
        return cuts

    def remove(self, _: str) -> None:
        """Remove a file that is not there."""
        self._result.requests["delete"] += 1

    def _sort(self, order: Order) -> Sorted:
        """Sort shards of which only the size is known."""
        result = Sorted(order.number)
        options = order.options
        name = f"{order.number:06d}-{self._rng.randrange(1 << 32):08x}"
        at_once = (options.large_run_bytes if order.large else options.run_bytes) // (RECORD + _IN_MEMORY)
        waiting = 0
        rejects = f"{order.directory}/rejects-{name}"
        for piece in order.pieces:
            self._read(piece.slice.shard.size, _INPUT_READ)
            lines = self._lines[piece.shard]
            self._left.append((piece.number, lines))
            waiting += lines
            books = PieceBooks(piece.number, piece.shard, 0, lines, text_bytes=lines * RECORD)
            books.raw_bytes, books.raw_hash = piece.slice.shard.size, f"{self._rng.getrandbits(128):032x}"
            result.books.append(books)
            result.rejects.append(RejectRange(rejects, 0, 0, piece.shard, 0))
        result.verified = waiting
        while waiting:
            count = min(waiting, at_once)
            waiting -= count
            path = f"{order.directory}/run-{name}-{len(result.runs):04d}"
            run = self._run(path, count, fenced=order.fenced)
            sample = [self._sampled(order.one_in) for _ in range(self._share(count, order.one_in))]
            result.runs.append(msgspec.structs.replace(run, sample=sample))
            result.kept += [Kept(path, run.data_bytes, run.data_hash)]
            result.kept += [Kept(index_of(path), run.index_bytes, run.index_hash)]
        result.kept.append(Kept(rejects, 0, _HASH))
        self._write(0)
        self._read(1, _INPUT_READ)
        self._result.tasks += 1
        self._result.runs += len(result.runs)
        return result

    def _sample_again(self, wanted: tuple[str, int, int]) -> list[Sampled]:
        """Read an index again. Other keys are made up, so what is found of an earlier run holds but for its parts."""
        _, index_bytes, one_in = wanted
        self._read(index_bytes, _INPUT_READ)
        return [self._sampled(one_in) for _ in range(self._share(index_bytes // (_KEY + _ROW + 10), one_in))]

    def _run(self, path: str, records: int, *, fenced: bool) -> Run:
        index_bytes = records * (_KEY + _ROW + 10)
        self._write(records * RECORD)
        self._write(index_bytes)
        rows = range(0, records if fenced else 0, _BLOCK_ROWS)
        keys = sorted(self._key(self._rng.getrandbits(64)) for _ in rows)
        fences = [Fence(key, row * (_KEY + _ROW + 10), row * RECORD) for key, row in zip(keys, rows, strict=True)]
        hashes = (f"{self._rng.getrandbits(128):032x}", f"{self._rng.getrandbits(128):032x}")
        return Run(path, records, records * RECORD, index_bytes, fences, [], {}, *hashes)

    def _merge(self, order: MergeOrder) -> Run:
        """Merge runs: all of them have keys from everywhere, so each part has its share in the merged one."""
        self._result.merges[-1] += 1
        self._gather(order.slices, order.options.wide_window_bytes)
        records = sum(piece.data_end - piece.data_start for piece in order.slices) // RECORD
        run = self._run(f"{order.directory}/merged-{order.number:06d}-{_HASH[:8]}", records, fenced=False)
        if order.cuts is None:
            return run
        self._read(1, _INPUT_READ)
        parts = len(next(read_blocks(order.cuts))) + 1
        bounds = array("Q")
        for part in range(parts + 1):
            bounds.extend((run.index_bytes * part // parts, run.data_bytes * part // parts))
        return msgspec.structs.replace(run, bounds=bounds.tobytes())

    def _make_part(self, order: PartOrder) -> Part:
        """Make a part; all have the same number of records."""
        self._gather(order.slices, order.window_bytes)
        self._result.slices += len(order.slices)
        records = self._records_of[order.number]
        self._write(records * RECORD // _PART_SHARE)
        kept = [
            Kept(f"{order.census}-{name}", records * _CENSUS, f"{self._rng.getrandbits(128):032x}")
            for name in ("hash", "id", "books")
        ]
        for size in (records * _CENSUS, records * _CENSUS, _BOOKS):
            self._write(size)
        self._result.requests["rename"] += 1 + len(kept)
        low, high = (key or self._key(self._rng.getrandbits(64)) for key in (order.low, order.high))
        written = Written(records * RECORD // _PART_SHARE, _HASH * 2, records * RECORD, _HASH * 2)
        return Part(order.number, written, records, low, high, kept=kept)

    def books_of(self, path: str) -> Iterator[Any]:
        """Give the books of a part: they must balance, so its records come from the pieces in turn."""
        self._read(_BOOKS, _BLOCKS_READ)
        number = int(path.rpartition("census-")[2].removesuffix("-books"))
        records = self._records_of[number]
        tally = Tally()
        tally.interaction_types["single_turn"] = tally.schema_versions["0.2.0"] = records
        for model in range(_MODELS):
            share = records * (model + 1) // _MODELS - records * model // _MODELS
            latency = Counter({600 + 7 * bucket + model: 3 for bucket in range(40)})
            right = share // 2
            tally.models[b"evaluation", b"model-%03d" % model] = ModelTally(
                records=share,
                correct=right,
                score=right << 1_074,
                score_squared=right << 2_148,
                latency=latency,
                first=b"\3a\0",
                last=b"\3z\0",
            )
        while records:
            piece, left = self._left.pop()
            taken = min(left, records)
            tally.sources[piece] += taken
            records -= taken
            if left > taken:
                self._left.append((piece, left - taken))
        yield tally.packed(), [], []

    def list_of(self, path: str) -> Iterator[Any]:
        """Give a list of the census, if the driver itself counts: a block of it is what it holds of each at a time."""
        number = int(path.rpartition("census-")[2].split("-")[0])
        self._read(self._records_of[number] * _CENSUS, _BLOCKS_READ)
        yield [
            (b"evaluation", b"%05d%059d" % (number, row), b"%05d-%d" % (number, row), _MODELS, False, bytes(3_000))
            for row in range(20)
        ]

    def _deal(self, order: Any) -> str:
        """Deal out what some parts have listed."""
        for prefix in order.prefixes:
            size = self._records_of[int(prefix.rpartition("census-")[2])] * _CENSUS
            for _ in range(2):
                self._read(size, _BLOCKS_READ)
        for _ in range(2 * order.deals):
            self._write(0)
        self._result.bytes_written += 2 * _CENSUS * self._result.records * len(order.prefixes) // len(self._records_of)
        return str(order.to)

    def _count(self, order: Any) -> Census:
        """Count what was dealt out."""
        for _ in range(2 * len(order.prefixes)):
            self._read(self._result.records * _CENSUS // len(order.prefixes) // 32, _BLOCKS_READ)
        return Census({b"evaluation": Samples(samples=1)})

    def _gather(self, slices: list[RunSlice], window_bytes: int) -> None:
        stretch = max(window_bytes * 2 // 3 // max(len(slices), 1), 1)
        for piece in slices:
            self._result.requests["read"] += reads_of(piece, stretch)
            self._result.bytes_read += piece.index_end - piece.index_start + piece.data_end - piece.data_start

    def _read(self, size: int, at_once: int) -> None:
        self._result.requests["read"] += max(-(-size // at_once), 1)
        self._result.bytes_read += size

    def _write(self, size: int) -> None:
        self._result.requests["write"] += max(-(-size // _WRITE), 1)
        self._result.requests["object"] += 1
        self._result.bytes_written += size

    def _share(self, count: int, one_in: int) -> int:
        """How many of so many keys are sampled."""
        share = count / one_in
        return max(round(self._rng.gauss(share, share**0.5)), 0)

    def _sampled(self, one_in: int) -> Sampled:
        size = max(int(self._rng.lognormvariate(7.1, 0.6)), 200)
        return Sampled(self._key(self._rng.randrange(2**64 // one_in)), size)

    def _key(self, fingerprint: int) -> bytes:
        """Make up a key of a given fingerprint, somewhere among all keys."""
        where = self._rng.getrandbits(192)
        return (
            b"evaluation-%02d\0%048x%016x\0organization/model-%03d-instruct\0evaluation-of-2024-%07d\0\3sample-%07d\0"
            % (where % 40, where, fingerprint, where % _MODELS, where % 9_999_999, where % 9_999_991)
        )


def _made_up_fingerprint(key: bytes) -> int:
    """Read the fingerprint that a key was made up for."""
    return int(key[62:78], 16)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _told(result: Simulated) -> Iterator[tuple[str, str]]:
    yield "records", f"{result.records:,}"
    yield "text", f"{result.records * RECORD / 1e9:,.1f} GB"
    yield "tasks of pass 1", f"{result.tasks:,}"
    yield "runs", f"{result.runs:,}"
    yield "runs after each round", ", ".join(f"{count:,}" for count in result.merges) or "no rounds"
    yield "parts", f"{result.parts:,}"
    yield "runs × parts", f"{result.slices:,}"
    yield (
        "sampled",
        f"{result.sampled:,} records, 1 in {result.one_in:,}: {result.sampled / result.parts:,.0f} to a part",
    )
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
    """Simulate, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="*", type=float, default=[1e9], help="how many, such as 1e9")
    parser.add_argument("--part-size", type=int, default=64 << 20, help="bytes of text in a part")
    parser.add_argument("--shard-text", type=int, default=_SHARD_TEXT, help="bytes of text in a shard")
    parser.add_argument(
        "--stop-after", type=int, default=0, help="parts after which to stop and go on from the journal"
    )
    given = parser.parse_args()
    for records in given.records:
        options = Options(jobs=64, part_size=given.part_size)
        for name, value in _told(
            simulate(int(records), options, shard_text=given.shard_text, stop_after=given.stop_after)
        ):
            print(f"{name:<24} {value}")
        print()


if __name__ == "__main__":
    main()
