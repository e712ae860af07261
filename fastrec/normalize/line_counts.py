"""Line counts of a run: in total, per shard and by code, added up from the results of both passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict

from fastrec.corpus.manifest import InputEntry
from fastrec.engine.base import Engine
from fastrec.errors import FastrecError, utf8
from fastrec.normalize.options import Options
from fastrec.normalize.results import PIECES, Part, SortResult, hash_examples
from fastrec.sorting.files import read_blocks
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.summary.document import HashExample, LineCounts, SampleHashes, json_safe
from fastrec.summary.part_statistics import PartCounts
from fastrec.summary.summarize import hash_counts

__all__ = [
    "check_line_counts",
    "count_codes",
    "count_hashes",
    "count_versions",
    "input_entries",
    "total_line_counts",
]

Recipes = Counter[tuple[str, str, str]]
"""Valid lines by evaluation_name, model_id and the recipe of the given hash."""


def count_codes(results: Iterable[SortResult], parts: Iterable[Part]) -> Counter[str]:
    """Count rejected lines by the code of their first error."""
    codes: Counter[str] = Counter()
    for counted in (*(result.codes for result in results), *(part.left_out for part in parts)):
        codes.update(counted)
    return codes


def count_versions(results: Iterable[SortResult]) -> tuple[Counter[str], Counter[str]]:
    """Count valid lines by their schema version, and by the code of a note."""
    versions: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for result in results:
        versions.update(result.versions)
        notes.update(result.notes)
    return +versions, notes  # without versions that were only tried


def count_hashes(results: Sequence[SortResult], options: Options, engine: Engine) -> SampleHashes:
    """Count how given sample hashes compared with computed ones."""
    examples = [
        HashExample(**asdict(example) | {"sample_id": json_safe(example.sample_id)})
        for example in hash_examples(example for result in results for example in result.wrong_hashes)
    ]
    recipes = _count_recipes(results, engine, options.limits.part_counts_per_task)
    return hash_counts(options.hash, options.target, recipes, examples)


def _count_recipes(results: Iterable[SortResult], engine: Engine, at_once: int) -> Recipes:
    """Count valid lines by evaluation, model and recipe of the given hash; many files are read in tasks of some."""
    paths = [result.recipes for result in results if result.recipes]
    if len(paths) <= at_once:
        return _read_recipes(paths)
    total: Recipes = Counter()
    groups = (paths[first : first + at_once] for first in range(0, len(paths), at_once))
    for _, counted in engine.run(_read_recipes, groups):
        total.update(counted)
    return total


def _read_recipes(paths: Sequence[str]) -> Recipes:
    """Add up the counts of some tasks. Runs in a worker if there are many."""
    total: Recipes = Counter()
    for path in paths:
        for recipe, count in next(read_blocks(path)):
            total[tuple(recipe)] += count
    return total


def input_entries(
    shards: Sequence[Shard], results: Sequence[SortResult], counts: PartCounts, decompressed: Mapping[int, ReadStats]
) -> list[InputEntry]:
    """Return the line counts of each shard; `decompressed` has the shards that the driver decompressed."""
    totals: list[Counter[str]] = [Counter() for _ in shards]
    repaired: list[Counter[str]] = [Counter() for _ in shards]
    for piece in (piece for result in results for piece in result.pieces):
        totals[piece.piece.shard].update(
            text_bytes=piece.read.text_bytes, lines=piece.lines, blank=piece.blank, rejected=piece.rejected
        )
        repaired[piece.piece.shard].update(piece.repaired)
    for shard, stats in decompressed.items():
        totals[shard]["text_bytes"] = stats.text_bytes
    by_piece = [("duplicates", run.dropped) for result in results for run in result.runs]
    by_piece += [("duplicates", counts.copies), ("kept", counts.tally.sources), ("rejected", counts.left_out)]
    for name, counted in by_piece:
        for number, count in counted.items():
            totals[number // PIECES][name] += count
    return [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            **{name: total[name] for name in ("text_bytes", *LineCounts.__struct_fields__)},
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
