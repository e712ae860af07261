"""Simulated workers: they return results like real ones, and count their storage requests."""

import contextlib
import pickle
import random
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from bench.scale_corpus import RECORD, SimulatedCorpus, shares
from fastrec.corpus.columns import columns_path
from fastrec.corpus.writer import Written
from fastrec.engine.base import OTHER_PHASE, PHASES, Engine
from fastrec.limits import LIMITS
from fastrec.normalize.part_steps import PartTask
from fastrec.normalize.pass1 import SortTask
from fastrec.normalize.plan import MergeTask, Region, RegionTask
from fastrec.normalize.results import LineStatistics, Part, PieceCounts, SortResult
from fastrec.sorting.cuts import write_borders
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.runs import BLOCK_ROWS, Fence, Run
from fastrec.sorting.slices import RunSlice
from fastrec.sources.lines import ReadStats
from fastrec.storage import FileDigest
from fastrec.summary.census import QuestionCounts
from fastrec.summary.part_statistics import Census, LinesByPiece
from fastrec.summary.tally import ModelTally, Tally

_KEY = 150  # bytes of a key
_ROW = 60  # bytes of a row of statistics
_COLUMNS = 15  # bytes of columns of a record
_INDEX = _KEY + _ROW + 18  # bytes of index of a record
_IN_MEMORY = 700  # what pass 1 reckons for a record beside its text
_PART_SHARE = 6  # compression ratio of a part
_KEPT_SHARE = 3  # compression ratio of what is kept for the next run
_CENSUS = 65  # bytes of the census for a record, in each of two lists
_MODELS = 50  # in a part, and in a shard
_COUNTS = 500_000  # bytes of the counts of a part, which name most pieces of the input
_INPUT_READ = 1 << 20  # read of a shard at a time
_BLOCKS_READ = 256 << 10  # read of a file of blocks at a time
_WRITE = 32 << 20  # written at a time where storage takes objects in pieces
_HASH = "0" * 32


class Simulated(msgspec.Struct, kw_only=True):
    """The result of a simulation: what the workers did, and the storage requests for it."""

    records: int = 0
    tasks: int = 0
    runs: int = 0
    merges: list[int] = []  # Runs that each round leaves.
    regions: int = 0
    borders: int = 0
    parts: int = 0
    made: int = 0  # Parts that were made; the others are those of the night before.
    slices: int = 0  # Slices of runs and of old parts that parts are gathered from.
    requests: Counter[str] = msgspec.field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0
    journal_bytes: int = 0
    kept_bytes: int = 0  # Size of the list of kept work.
    seconds: float = 0.0
    base_bytes: int = 0  # Peak memory before the simulation.
    peak_bytes: int = 0


class Phase(msgspec.Struct):
    """The tasks of a phase of a run, and the seconds that the driver takes for them."""

    tasks: int = 0
    seconds: float = 0.0


def reads_of(index_bytes: int, data_bytes: int, stretch: int) -> int:
    """Return about how many reads it takes to gather a slice of a run, its index and its data."""
    # The indexes of all runs take at least a quarter of a window, and their data two thirds: see
    # `gather`.
    index_stretch = max(stretch * index_bytes // max(data_bytes, 1), stretch * 3 // 8, 64)
    index_reads = max(-(-(index_bytes - index_stretch // 2) // index_stretch), 1)
    return index_reads + -(-data_bytes // stretch)


def _stretch(slices: Sequence[RunSlice], window_bytes: int) -> int:
    """How many bytes of each slice are read at a time."""
    return max(window_bytes * 2 // 3 // max(len(slices), 1), 1)


class _PartRange(msgspec.Struct, frozen=True, gc=False):
    """The records of a part."""

    first: int
    last: int
    narrow: int  # records of the narrow shard
    piece: int  # the piece that these are from

    @property
    def records(self) -> int:
        return self.last - self.first + self.narrow


class SimulatedWorkers(Engine):
    """An engine that returns results like real workers, and counts their storage requests.

    Files that the driver itself reads are really written: borders of regions and parts, and
    statistics of pieces.
    """

    jobs = 64

    def __init__(self, corpus: SimulatedCorpus, lines: list[int]) -> None:
        self.phases: dict[str, Phase] = {}
        self.in_phases = 0.0  # seconds, from the first task of each phase to its last result
        self.result = Simulated()
        self.staged: list[str] = []  # Paths of the parts that were made.
        self._corpus = corpus
        self._rng = random.Random(0)
        self._lines = lines  # of each shard but the narrow one
        self._starts = [
            0,
            *accumulate(lines),
        ]  # records are counted as if they came from one shard after the other
        self._pieces = [0] * (len(lines) + 1)  # by shard, the number of its piece
        self._parts: dict[str, _PartRange] = {}  # by the path prefix of their statistics
        models = (f"organization/model-{model:03d}-instruct" for model in range(_MODELS))
        self._recipes = Counter({("evaluation-00", model, "none"): 100 for model in models})

    def run(
        self, task: Callable[[Any], Any], arguments: Iterable[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the results of tasks, pickled as from another process.

        Tasks that are not simulated run as they are. The time between two tasks is the driver's: it
        uses a result, and makes the next task.
        """
        tasks: dict[str, Callable[[Any], Any]] = {
            "sort_pieces": self._sort,
            "merge_some": self._merge,
            "plan_region": self._plan_region,
            "make_part": self._make_part,
            "_partition": self._partition,
            "_count": self._count,
            **dict.fromkeys(("_task_unchanged", "_files_unchanged", "_take_part"), lambda _: True),
        }
        simulated = tasks.get(task.__name__, task)
        if task.__name__ == "merge_some":
            self.result.merges.append(0)
        phase = self.phases.setdefault(PHASES.get(task.__name__, OTHER_PHASE), Phase())
        first = before = time.process_time()
        for number, argument in enumerate(arguments):
            pickle.dumps(argument)
            phase.tasks += 1
            phase.seconds += time.process_time() - before
            result = pickle.loads(pickle.dumps(simulated(argument)))
            before = time.process_time()
            yield number, result
        phase.seconds += time.process_time() - before
        self.in_phases += time.process_time() - first

    def remove(self, *paths: str) -> None:
        """Remove files, most of which are not there."""
        self.result.requests["delete"] += len(paths)
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                Path(path).unlink()

    def signature(self, _path: str) -> str:
        """Return the signature of a file, which never changes."""
        self.result.requests["stat"] += 1
        return "1-2-3"

    def _sort(self, task: SortTask) -> SortResult:
        """Simulate a task of pass 1."""
        name = f"{task.number:06d}-{self._rng.randrange(1 << 32):08x}"
        waiting = 0
        pieces: list[PieceCounts] = []
        runs: list[Run] = []
        statistics: list[tuple[int, LineStatistics]] = []
        are_narrow = [piece.shard == len(self._lines) for piece in task.pieces]
        for piece, is_narrow in zip(task.pieces, are_narrow, strict=True):
            size = piece.slice.shard.size
            self._read(size, _INPUT_READ)
            lines = self._corpus.narrow if is_narrow else self._lines[piece.shard]
            self._pieces[piece.shard] = piece.number
            waiting += lines
            read = ReadStats(
                lines=lines, text_bytes=lines * RECORD, raw_bytes=size, raw_hash=self._hash()
            )
            first, last = sorted(self._keys(2, is_narrow=is_narrow))
            pieces.append(PieceCounts(piece=piece, read=read, first=first, last=last))
            counts = LineStatistics(versions=Counter({"0.2.0": lines}), recipes=self._recipes)
            statistics.append((piece.number, counts))
        while waiting:
            count = min(waiting, task.run_bytes // (RECORD + _IN_MEMORY))
            waiting -= count
            path = f"{task.directory}/run-{name}-{len(runs):04d}"
            runs.append(self._run(path, count, task.most_fences, is_narrow=all(are_narrow)))
        rejects = f"{task.directory}/rejects-{name}"
        path = f"{task.directory}/statistics-{name}"
        size, hash_ = write_blocks(path, statistics, compressed=True)
        self._write(0)
        self._write(size)
        self._read(size, _INPUT_READ)  # by the driver, or by a task that adds them up
        files = [FileDigest(rejects, 0, _HASH), FileDigest(path, size, hash_)]
        self.result.tasks += 1
        self.result.runs += len(runs)
        return SortResult(
            task=task.number,
            pieces=tuple(pieces),
            runs=tuple(runs),
            rejects=rejects,
            statistics=path,
            files=(*(file for run in runs for file in run.files), *files),
        )

    def _keys(self, count: int, *, is_narrow: bool) -> list[bytes]:
        """Return random keys in order.

        Of the narrow shard, the first and the last one are among them.
        """
        corpus = self._corpus
        if not is_narrow:
            return [corpus.key(int(self._rng.random() * corpus.records)) for _ in range(count)]
        first, last = corpus.narrow_first, corpus.narrow_last - 1
        numbers = [first + (last - first) * at // max(count - 1, 1) for at in range(count)]
        return [corpus.key(number, is_narrow=True) for number in numbers]

    def _run(self, path: str, records: int, most_fences: int, *, is_narrow: bool = False) -> Run:
        index_bytes = records * _INDEX
        self._write(records * RECORD)
        self._write(index_bytes)
        rows = range(0, records if most_fences else 0, BLOCK_ROWS)
        keys = sorted(self._keys(len(rows), is_narrow=is_narrow))
        fences = [
            Fence(key, row * _INDEX, row * RECORD) for key, row in zip(keys, rows, strict=True)
        ]
        fences = fences[:: -(-len(rows) // max(most_fences, 1)) or 1]
        return Run(path, records, records * RECORD, index_bytes, fences, self._hash(), self._hash())

    def _merge(self, task: MergeTask) -> Run:
        """Simulate merging runs. Keys are spread evenly."""
        self.result.merges[-1] += 1
        self._gather(task.slices, task.window_bytes)
        records = sum(piece.data_end - piece.data_start for piece in task.slices) // RECORD
        merges = self.result.merges
        run = self._run(f"{task.directory}/merged-{len(merges)}-{merges[-1]:06d}", records, 0)
        if task.regions is None:
            return run
        self._read(1, _INPUT_READ)
        numbers = map(self._corpus.number, next(read_blocks(task.regions)))
        shares = [records * number // self._corpus.records for number in numbers]
        bounds = array("Q")
        for before in (0, *shares, records):
            bounds.extend((before * _INDEX, before * RECORD))
        return msgspec.structs.replace(run, bounds=bounds.tobytes())

    def _plan_region(self, task: RegionTask) -> Region:
        """Simulate planning a region. Its borders are really written."""
        self.result.regions += 1
        first, last = self._corpus.numbers(task.low, task.high)
        is_touched = first < self._corpus.narrow_last and self._corpus.narrow_first < last
        if task.part:
            self._gather_keys(task.slices, task.window_bytes)
            if task.removed:
                self._read(_COUNTS, _BLOCKS_READ)
            if not is_touched:
                return Region(task.part.span[0], task.part.borders, is_unchanged=True)
        self._gather_keys([*task.slices, *task.base], task.window_bytes)
        border, files = self._borders(task.path, first, last)
        return Region(border, task.path) if files else Region()

    def _borders(self, path: str, first: int, last: int) -> tuple[bytes, list[FileDigest]]:
        """Write the borders of a range; return the first one, and the file if there are any."""
        borders = list(self._corpus.borders(first, last))
        if not borders:
            return b"", []
        file = write_borders(path, borders)
        self._write(file.size)
        self._read(file.size, _BLOCKS_READ)
        self.result.borders += len(borders)
        return borders[0][0], [file]

    def _make_part(self, task: PartTask) -> Part:
        """Simulate a task of pass 2."""
        corpus = self._corpus
        first, last = corpus.numbers(task.low, task.high)
        self._gather(task.slices, task.window_bytes, (last - first) * RECORD)
        self.result.made += 1
        self.result.slices += len(task.slices)
        prefix = task.statistics_prefix
        part = self._parts[prefix] = _PartRange(
            first, last, corpus.narrow_in(first, last), self._pieces[-1]
        )
        self.staged.append(task.path)
        text = part.records * RECORD
        census = part.records * _CENSUS
        sizes = {"hash": census, "id": census, "counts": _COUNTS}
        if task.settings.incremental:  # then these files are compressed
            sizes["index"] = part.records * _INDEX
            sizes = {name: size // _KEPT_SHARE for name, size in sizes.items()}
        files = [FileDigest(f"{prefix}-{name}", size, self._hash()) for name, size in sizes.items()]
        if task.settings.incremental:
            _, borders = self._borders(f"{prefix}-borders", first, last)
            files += borders
        columns = FileDigest(columns_path(task.path), part.records * _COLUMNS, _HASH * 2)
        self.staged.append(columns.path)
        packed = text // _PART_SHARE
        for size in (packed, columns.size, *sizes.values()):
            self._write(size)
        self.result.requests["rename"] += 1 + len(files)
        return Part(
            number=task.number,
            fingerprint=task.fingerprint,
            low=task.low,
            written=Written(packed, _HASH * 2, text, _HASH * 2),
            records=part.records,
            first=corpus.key(first),
            last=corpus.key(last - 1),
            left_out={},
            files=tuple(files),
            path=task.path,
            statistics_prefix=prefix,
            index_bytes=sizes.get("index", 0),
            span=(corpus.key(first), corpus.key(last - 1)),
            columns=columns,
        )

    def blocks_of(self, path: str) -> Iterator[Any]:
        """Yield the blocks of a real file, or of the counts of a part."""
        part = self._parts.get(path.removesuffix("-counts"))
        return self._counts_of(part) if part else read_blocks(path)

    def _counts_of(self, part: _PartRange) -> Iterator[Any]:
        """Yield the counts of a part."""
        self._read(_COUNTS, _BLOCKS_READ)
        yield msgspec.structs.astuple(self._lines_of(part))
        tally = Tally()
        records = part.records
        tally.interaction_types[None] = tally.schema_versions["0.2.0"] = records
        for model, share in enumerate(shares(records, _MODELS)):
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
        yield tally.packed()

    def _lines_of(self, part: _PartRange) -> LinesByPiece:
        lines = LinesByPiece()
        if part.narrow:
            lines.kept[part.piece] = part.narrow
        shard = bisect_right(self._starts, part.first) - 1
        first = part.first
        while first < part.last:
            end = min(self._starts[shard + 1], part.last)
            lines.kept[self._pieces[shard]] += end - first
            first = end
            shard += 1
        return lines

    def _partition(self, task: Any) -> str:
        """Simulate partitioning the census of some parts."""
        for prefix in task.prefixes:
            self._read_census(self._parts[prefix].records)
            self.result.bytes_written += 2 * self._parts[prefix].records * _CENSUS
        for _ in range(2 * task.partitions):
            self._write(0)
        return str(task.target)

    def _count(self, task: Any) -> Census:
        """Simulate counting a group of parts, or a partition of a large one."""
        share = self._corpus.total // len(task.prefixes) // LIMITS.census_partitions
        for prefix in task.prefixes:
            self._read_census(self._parts[prefix].records if prefix in self._parts else share)
        return Census({b"evaluation": QuestionCounts(questions=1)})

    def _read_census(self, records: int) -> None:
        """Read both lists of the census of some records."""
        for _ in range(2):
            self._read(records * _CENSUS, _BLOCKS_READ)

    def _gather(self, slices: list[RunSlice], window_bytes: int, most: int | None = None) -> None:
        """Read slices.

        Of runs, only the records of the part are read, which are about `most` bytes together.
        """
        stretch = _stretch(slices, window_bytes)
        held = sum(piece.data_end - piece.data_start for piece in slices if not piece.is_part)
        for piece in slices:
            index = piece.index_end - piece.index_start
            size = piece.data_end - piece.data_start
            if piece.is_part:  # compressed, and read as a whole
                self._read(size // _PART_SHARE, _INPUT_READ)
                self._read(index, _BLOCKS_READ)
                continue
            if most is not None and most < held:
                size = size * most // held
            self.result.requests["read"] += reads_of(index, size, stretch)
            self.result.bytes_read += index + size

    def _gather_keys(self, slices: list[RunSlice], window_bytes: int) -> None:
        for piece in slices:
            self._read(piece.index_end - piece.index_start, _stretch(slices, window_bytes))

    def _read(self, size: int, at_once: int) -> None:
        self.result.requests["read"] += max(-(-size // at_once), 1)
        self.result.bytes_read += size

    def _write(self, size: int) -> None:
        self.result.requests["write"] += max(-(-size // _WRITE), 1)
        self.result.requests["object"] += 1
        self.result.bytes_written += size

    def _hash(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"
