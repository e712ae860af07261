"""Line counts of a run: in total, per shard and by code, added up from the results of both passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fastrec.corpus.manifest import InputEntry
from fastrec.errors import FastrecError, utf8
from fastrec.normalize.pass1 import PIECES
from fastrec.normalize.pass1_result import HashCounts, SortResult
from fastrec.normalize.pass2 import Part
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.summary.document import HashExample, LineCounts, SampleHashes, json_safe
from fastrec.summary.part_counts import PartCounts

__all__ = ["check_line_counts", "count_codes", "count_hashes", "input_entries", "total_line_counts"]


def count_codes(results: Iterable[SortResult], parts: Iterable[Part]) -> Counter[str]:
    """Count rejected lines by the code of their first error."""
    codes: Counter[str] = Counter()
    for result in results:
        codes.update(result.codes)
    for part in parts:
        codes.update(part.left_out)
    return codes


def count_hashes(results: Sequence[SortResult], algorithm: str) -> SampleHashes:
    """Count how given sample hashes compared with computed ones."""
    total = HashCounts()
    for result in results:
        hashes = result.hashes
        total.add(hashes.verified, hashes.filled, hashes.replaced, hashes.examples)
    return SampleHashes(
        algorithm=algorithm,
        verified=total.verified,
        filled=total.filled,
        replaced=total.replaced,
        examples=[
            HashExample(**msgspec.structs.asdict(example) | {"sample_id": json_safe(example.sample_id)})
            for example in total.examples
        ],
    )


def input_entries(
    shards: Sequence[Shard], results: Sequence[SortResult], counts: PartCounts, decompressed: Mapping[int, ReadStats]
) -> list[InputEntry]:
    """Return the line counts of each shard; `decompressed` has the shards that the driver decompressed."""
    entries = [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            text_bytes=0,
            **dict.fromkeys(LineCounts.__struct_fields__, 0),
        )
        for shard in shards
    ]
    for result in results:
        for piece in result.pieces:
            for name in ("text_bytes", "lines", "blank", "rejected"):
                _add(entries[piece.shard], name, getattr(piece, name))
    for shard, stats in decompressed.items():
        entries[shard].text_bytes = stats.text_bytes
    by_piece = [("duplicates", run.dropped) for result in results for run in result.runs]
    by_piece += [("duplicates", counts.copies), ("kept", counts.tally.sources), ("rejected", counts.left_out)]
    for name, counted in by_piece:
        for number, count in counted.items():
            _add(entries[number // PIECES], name, count)
    return entries


def _add(entry: InputEntry, name: str, count: int) -> None:
    setattr(entry, name, getattr(entry, name) + count)


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
