"""Simulated workers: they return results like real ones, and count their storage requests."""

from __future__ import annotations

import pickle
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from fastrec.corpus.writer import Written
from fastrec.engine.base import Engine
from fastrec.limits import LIMITS
from fastrec.normalize.pass1 import SortTask
from fastrec.normalize.pass2 import PartTask
from fastrec.normalize.results import Part, PieceCounts, SortResult
from fastrec.normalize.rounds import MergeTask
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import RunSlice
from fastrec.sorting.key_sample import SampledKey, cut_keys
from fastrec.sorting.spill import Fence, Run
from fastrec.sources.lines import ReadStats
from fastrec.storage.digests import FileDigest
from fastrec.summary.census import QuestionCounts
from fastrec.summary.part_statistics import Census, read_part_counts
from fastrec.summary.tally import ModelTally, Tally

__all__ = ["RECORD", "Charged", "SimulatedWorkers", "fingerprint_of", "reads_of"]

RECORD: Final = 1_500  # bytes of text, as in real evaluation records
_KEY: Final = 150  # bytes of a key
_ROW: Final = 60  # bytes of a row of statistics
_IN_MEMORY: Final = 700  # what pass 1 reckons for a record beside its text
_BLOCK_ROWS: Final = 128
_PART_SHARE: Final = 6  # compression ratio of a part
_CENSUS: Final = 65  # bytes of the census for a record, in each of two lists
_MODELS: Final = 50  # in a part
_COUNTS: Final = 500_000  # bytes of the counts of a part, which name most pieces of the input
_INPUT_READ: Final = 1 << 20  # read of a shard at a time
_BLOCKS_READ: Final = 256 << 10  # read of a file of blocks at a time
_WRITE: Final = 32 << 20  # written at a time where storage takes objects in pieces
_HASH: Final = "0" * 32


class Charged(msgspec.Struct, kw_only=True):
    """What the workers did, and the storage requests for it."""

    records: int
    tasks: int = 0
    runs: int = 0
    merges: list[int] = msgspec.field(default_factory=list)
    """Runs that each round leaves."""
    parts: int = 0
    slices: int = 0
    """Slices of runs that parts are gathered from."""
    sampled: int = 0
    one_in: int = 0
    requests: Counter[str] = msgspec.field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0


def reads_of(piece: RunSlice, stretch: int) -> int:
    """Return about how many reads it takes to gather a slice of a run, its index and its data."""
    index_bytes, data_bytes = piece.index_end - piece.index_start, piece.data_end - piece.data_start
    index_stretch = max(stretch * index_bytes // max(data_bytes, 1), 64)
    index_reads = max(-(-(index_bytes - index_stretch // 2) // index_stretch), 1)
    return index_reads + -(-data_bytes // stretch)


class SimulatedWorkers(Engine):
    """An engine that returns results like real workers, and counts their storage requests."""

    jobs = 64

    def __init__(self, result: Charged, lines: list[int], rng: random.Random) -> None:
        self._result = result
        self._rng = rng
        self._lines = lines  # of each shard
        self._left: list[tuple[int, int]] = []  # pieces, and how many of their records are not counted yet
        self._records_of: list[int] = []  # by part

    def run(self, task: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the results of tasks, pickled as from another process."""
        tasks: dict[str, Callable[[Any], Any]] = {
            "sort_pieces": self._sort,
            "merge_some": self._merge,
            "make_part": self._make_part,
            "read_part_counts": read_part_counts,
            "_partition": self._partition,
            "_count": self._count,
            "_task_unchanged": lambda _: True,
            "_files_unchanged": lambda _: True,
            "_take_part": lambda _: True,
            "_sample_run": self._sample_run,
        }
        simulated = tasks[task.__name__]
        if task.__name__ == "merge_some":
            self._result.merges.append(0)
        for number, argument in enumerate(arguments):
            yield number, pickle.loads(pickle.dumps(simulated(argument)))

    def cut(self, sample: Iterable[SampledKey], one_in: int, part_bytes: int, most_parts: int) -> list[bytes]:
        """Cut like the driver, and record the result."""
        result = self._result
        sample = list(sample)
        cuts = cut_keys(sample, one_in, part_bytes, most_parts)
        result.parts, result.one_in, result.sampled = len(cuts) + 1, one_in, len(sample)
        bounds = [result.records * number // result.parts for number in range(result.parts + 1)]
        self._records_of = [end - start for start, end in pairwise(bounds)]
        return cuts

    def remove(self, *paths: str) -> None:
        """Remove files that are not there."""
        self._result.requests["delete"] += len(paths)

    def _sort(self, task: SortTask) -> SortResult:
        """Simulate a task of pass 1."""
        options = task.options
        name = f"{task.number:06d}-{self._rng.randrange(1 << 32):08x}"
        at_once = (options.large_run_bytes if task.large else options.run_bytes) // (RECORD + _IN_MEMORY)
        waiting = 0
        pieces: list[PieceCounts] = []
        runs: list[Run] = []
        rejects = f"{task.directory}/rejects-{name}"
        for piece in task.pieces:
            self._read(piece.slice.shard.size, _INPUT_READ)
            lines = self._lines[piece.shard]
            self._left.append((piece.number, lines))
            waiting += lines
            size, text_hash = piece.slice.shard.size, f"{self._rng.getrandbits(128):032x}"
            read = ReadStats(lines=lines, text_bytes=lines * RECORD, raw_bytes=size, raw_hash=text_hash)
            pieces.append(PieceCounts(piece=piece, read=read))
        while waiting:
            count = min(waiting, at_once)
            waiting -= count
            path = f"{task.directory}/run-{name}-{len(runs):04d}"
            run = self._run(path, count, fenced=task.fenced)
            sample = [self._sampled(task.one_in) for _ in range(self._share(count, task.one_in))]
            runs.append(msgspec.structs.replace(run, sample=sample))
        files = (*(file for run in runs for file in run.files), FileDigest(rejects, 0, _HASH))
        for _ in ("rejects", "recipes"):
            self._write(0)
        self._read(1, _INPUT_READ)
        self._result.tasks += 1
        self._result.runs += len(runs)
        return SortResult(
            task=task.number,
            pieces=tuple(pieces),
            runs=tuple(runs),
            rejects=rejects,
            codes={},
            wrong_hashes=[],
            versions={},
            notes={},
            recipes="",
            is_later=False,
            files=files,
        )

    def _sample_run(self, wanted: tuple[str, int, int]) -> list[SampledKey]:
        """Simulate reading an index. Its keys are new, so a resumed run cannot reuse parts."""
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

    def _merge(self, task: MergeTask) -> Run:
        """Simulate merging runs. Keys are spread evenly, so each part has an equal share."""
        self._result.merges[-1] += 1
        self._gather(task.slices, task.options.wide_window_bytes)
        records = sum(piece.data_end - piece.data_start for piece in task.slices) // RECORD
        run = self._run(f"{task.directory}/merged-{task.number:06d}-{_HASH[:8]}", records, fenced=False)
        if task.cuts is None:
            return run
        self._read(1, _INPUT_READ)
        parts = len(next(read_blocks(task.cuts))) + 1
        bounds = array("Q")
        for part in range(parts + 1):
            bounds.extend((run.index_bytes * part // parts, run.data_bytes * part // parts))
        return msgspec.structs.replace(run, bounds=bounds.tobytes())

    def _make_part(self, task: PartTask) -> Part:
        """Simulate a task of pass 2. All parts have the same number of records."""
        self._gather(task.slices, task.window_bytes)
        self._result.slices += len(task.slices)
        records = self._records_of[task.number]
        self._write(records * RECORD // _PART_SHARE)
        kept = [
            FileDigest(f"{task.census}-{name}", records * _CENSUS, f"{self._rng.getrandbits(128):032x}")
            for name in ("hash", "id", "counts")
        ]
        for size in (records * _CENSUS, records * _CENSUS, _COUNTS):
            self._write(size)
        self._result.requests["rename"] += 1 + len(kept)
        low, high = (key or self._key(self._rng.getrandbits(64)) for key in (task.low, task.high))
        written = Written(records * RECORD // _PART_SHARE, _HASH * 2, records * RECORD, _HASH * 2)
        return Part(task.number, task.made_of, written, records, low, high, {}, tuple(kept), task.path, task.census)

    def blocks_of(self, path: str) -> Iterator[Any]:
        """Yield the blocks of a file that a part has written: its counts, or a list of its census."""
        return self._counts_of(path) if path.endswith("-counts") else self._list_of(path)

    def _counts_of(self, path: str) -> Iterator[Any]:
        """Yield the counts of a part. Line counts must add up, so its records come from the pieces in turn."""
        self._read(_COUNTS, _BLOCKS_READ)
        number = int(path.rpartition("census-")[2].removesuffix("-counts"))
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
        yield tally.packed(), {}, {}

    def _list_of(self, path: str) -> Iterator[Any]:
        """Yield a block of census rows; the driver holds one block of each list."""
        number = int(path.rpartition("census-")[2].split("-")[0])
        self._read(self._records_of[number] * _CENSUS, _BLOCKS_READ)
        counts = (_MODELS,) * 4
        yield [
            (b"evaluation", b"%05d%059d" % (number, row), b"%05d-%d" % (number, row), *counts, bytes(3_000))
            for row in range(20)
        ]

    def _partition(self, task: Any) -> str:
        """Simulate partitioning the census of some parts."""
        for prefix in task.prefixes:
            size = self._records_of[int(prefix.rpartition("census-")[2])] * _CENSUS
            for _ in range(2):
                self._read(size, _BLOCKS_READ)
        for _ in range(2 * task.partitions):
            self._write(0)
        self._result.bytes_written += 2 * _CENSUS * self._result.records * len(task.prefixes) // len(self._records_of)
        return str(task.target)

    def _count(self, task: Any) -> Census:
        """Simulate counting a partition."""
        for _ in range(2 * len(task.prefixes)):
            self._read(self._result.records * _CENSUS // len(task.prefixes) // LIMITS.census_partitions, _BLOCKS_READ)
        return Census({b"evaluation": QuestionCounts(questions=1)})

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
        """Return how many keys are sampled."""
        share = count / one_in
        return max(round(self._rng.gauss(share, share**0.5)), 0)

    def _sampled(self, one_in: int) -> SampledKey:
        size = max(int(self._rng.lognormvariate(7.1, 0.6)), 200)
        return SampledKey(self._key(self._rng.randrange(2**64 // one_in)), size)

    def _key(self, fingerprint: int) -> bytes:
        """Make a random key with a given fingerprint."""
        where = self._rng.getrandbits(192)
        return (
            b"evaluation-%02d\0%048x%016x\0organization/model-%03d-instruct\0evaluation-of-2024-%07d\0\3sample-%07d\0"
            % (where % 40, where, fingerprint, where % _MODELS, where % 9_999_999, where % 9_999_991)
        )


def fingerprint_of(key: bytes) -> int:
    """Return the fingerprint of a simulated key."""
    return int(key[62:78], 16)
