"""Line counts of a run: in total, per shard and by code, added up from the results of both passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec
from msgspec.structs import asdict

from fastrec.corpus.manifest import InputEntry
from fastrec.engine.base import Engine
from fastrec.errors import FastrecError, utf8
from fastrec.normalize.options import Options
from fastrec.normalize.results import (
    FilteredOutNames,
    Part,
    PieceCounts,
    PieceStatistics,
    RepairCounts,
    SortResult,
    WrongHash,
    hash_examples,
)
from fastrec.sorting.files import read_blocks
from fastrec.sorting.keys import sample_id_of
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.summary.document import HashExample, LineCounts, SampleHashes, json_safe
from fastrec.summary.part_statistics import LinesByPiece
from fastrec.summary.rows import Sums
from fastrec.summary.summarize import hash_counts

Recipes = Counter[tuple[str, str, str]]
"""Valid lines by evaluation_name, model_id and the recipe of the given hash."""


class LineStatistics(Sums):
    """The statistics of the lines of all pieces, or of some."""

    codes: Counter[str] = msgspec.field(default_factory=Counter)  # rejected lines by the code of their first error
    versions: Counter[str] = msgspec.field(default_factory=Counter)  # valid lines by their schema version
    notes: Counter[str] = msgspec.field(default_factory=Counter)  # valid lines by the code of a note
    recipes: Recipes = msgspec.field(default_factory=Counter)
    wrong_hashes: list[WrongHash] = msgspec.field(default_factory=list)
    repairs: RepairCounts = msgspec.field(default_factory=RepairCounts)
    filtered_out: FilteredOutNames = msgspec.field(default_factory=FilteredOutNames)

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.wrong_hashes = hash_examples(self.wrong_hashes)
        return self


def count_lines(results: Sequence[SortResult], engine: Engine, at_once: int) -> LineStatistics:
    """Add up the statistics of all pieces; many files are read in tasks of some."""
    wanted = [(result.statistics, frozenset(result.numbers)) for result in results if result.pieces]
    if len(wanted) <= at_once:
        return _read_statistics(wanted)
    total = LineStatistics()
    groups = (wanted[first : first + at_once] for first in range(0, len(wanted), at_once))
    for _, counted in engine.run(_read_statistics, groups):
        total += counted
    return total


def _read_statistics(wanted: Iterable[tuple[str, frozenset[int]]]) -> LineStatistics:
    """Add up the statistics of some pieces, given the files and the numbers. Runs in a worker if there are many."""
    total = LineStatistics()
    for path, numbers in wanted:
        for block in read_blocks(path):
            one = _decode(block)
            if one.number in numbers:
                total.codes.update(one.codes)
                total.versions.update(one.versions)
                total.notes.update(one.notes)
                for evaluation, model, recipe, count in one.recipes:
                    total.recipes[evaluation, model, recipe] += count
                total.wrong_hashes = hash_examples(total.wrong_hashes + one.wrong_hashes)
                total.repairs += one.repairs
                total.filtered_out += one.filtered_out
    total.versions = +total.versions  # without versions that were only tried
    return total


_decode = msgspec.json.Decoder(PieceStatistics).decode


def hash_document(lines: LineStatistics, options: Options) -> SampleHashes:
    """Say how given sample hashes compared with computed ones."""
    examples = [
        HashExample(**asdict(example) | {"sample_id": json_safe(sample_id_of(example.sample_id))})
        for example in lines.wrong_hashes
    ]
    return hash_counts(options.hash_algorithm, options.target, lines.recipes, examples)


def input_entries(
    shards: Sequence[Shard], pieces: Sequence[PieceCounts], lines: LinesByPiece, decompressed: Mapping[int, ReadStats]
) -> list[InputEntry]:
    """Return the line counts of each shard; `decompressed` has the shards that the driver read."""
    totals: list[Counter[str]] = [Counter() for _ in shards]
    repaired: list[Counter[str]] = [Counter() for _ in shards]
    shard_of: dict[int, int] = {}  # by number of a piece
    for counts in pieces:
        shard = shard_of[counts.piece.number] = counts.piece.shard
        totals[shard].update(
            text_bytes=counts.read.text_bytes,
            lines=counts.lines - counts.filtered,
            blank=counts.blank,
            rejected=counts.rejected,
            filtered=counts.filtered,
        )
        repaired[shard].update(counts.repaired)
    for shard, stats in decompressed.items():
        totals[shard]["text_bytes"] = stats.text_bytes
    for name, counted in (("kept", lines.kept), ("duplicates", lines.duplicates), ("rejected", lines.left_out)):
        for number, count in counted.items():
            if count:
                totals[shard_of[number]][name] += count
    return [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            **{name: total[name] for name in ("text_bytes", *LineCounts.__struct_fields__, "filtered")},
            repaired=dict(sorted(repairs.items())),
        )
        for shard, total, repairs in zip(shards, totals, repaired, strict=True)
    ]


def total_line_counts(inputs: Sequence[InputEntry]) -> LineCounts:
    """Return the line counts of the corpus."""
    return LineCounts(**{name: sum(getattr(entry, name) for entry in inputs) for name in LineCounts.__struct_fields__})


def check_line_counts(inputs: Sequence[InputEntry], parts: Sequence[Part]) -> None:
    """Refuse to publish a corpus that does not account for every line."""
    for entry in inputs:
        if entry.lines != entry.kept + entry.duplicates + entry.rejected + entry.blank:
            raise _bug(
                f"the line counts of {entry.path} do not add up: {entry.lines:,} lines, but {entry.kept:,} kept + "
                f"{entry.duplicates:,} duplicates + {entry.rejected:,} rejected + {entry.blank:,} blank"
            )
    kept, records = sum(entry.kept for entry in inputs), sum(part.records for part in parts)
    if kept != records:
        raise _bug(f"the line counts do not add up: {kept:,} lines kept, but {records:,} records in the parts")


def _bug(reason: str) -> FastrecError:
    return FastrecError(f"{reason}; nothing was published. This is a bug in fastrec: please report it")
