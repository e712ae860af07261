"""Line counts of a run: in total, per shard and by code, added up from the results of both passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fastrec.corpus.manifest import InputEntry
from fastrec.errors import FastrecError, utf8
from fastrec.normalize.pass1 import PIECES, HashCounts, SortResult
from fastrec.normalize.pass2 import Part
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.summary.document import HashExample, LineCounts, SampleHashes, Summary, json_safe
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
            HashExample(
                evaluation_name=example.evaluation_name,
                model_id=example.model_id,
                sample_id=json_safe(example.sample_id),
                given=example.given,
                computed=example.computed,
            )
            for example in total.examples
        ],
    )


def input_entries(
    shards: Sequence[Shard], results: Iterable[SortResult], counts: PartCounts, decompressed: Mapping[int, ReadStats]
) -> list[InputEntry]:
    """Return the line counts of each shard; `decompressed` has the shards that the driver decompressed."""
    entries = [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            text_bytes=0,
            lines=0,
            kept=0,
            duplicates=0,
            rejected=0,
            blank=0,
        )
        for shard in shards
    ]
    for result in results:
        for piece in result.pieces:
            entry = entries[piece.shard]
            entry.text_bytes += piece.text_bytes
            entry.lines += piece.lines
            entry.blank += piece.blank
            entry.rejected += piece.rejected
        for run in result.runs:
            for number, count in run.dropped.items():
                entries[number // PIECES].duplicates += count
    for shard, stats in decompressed.items():
        entries[shard].text_bytes = stats.text_bytes
    for number, count in counts.copies.items():
        entries[number // PIECES].duplicates += count
    for number, count in counts.tally.sources.items():
        entries[number // PIECES].kept += count
    for number, count in counts.left_out.items():
        entries[number // PIECES].rejected += count
    return entries


def total_line_counts(results: Sequence[SortResult], parts: Sequence[Part], counts: PartCounts) -> LineCounts:
    """Return the line counts of the corpus."""
    pieces = [piece for result in results for piece in result.pieces]
    dropped = sum(sum(run.dropped.values()) for result in results for run in result.runs)
    return LineCounts(
        lines=sum(piece.lines for piece in pieces),
        kept=sum(part.records for part in parts),
        duplicates=dropped + counts.copies.total(),
        rejected=sum(piece.rejected for piece in pieces) + sum(part.left_out.total() for part in parts),
        blank=sum(piece.blank for piece in pieces),
    )


def check_line_counts(summary: Summary, inputs: Iterable[InputEntry]) -> None:
    """Refuse to publish a corpus that does not account for every line."""
    counted: list[tuple[str, LineCounts | InputEntry]] = [("the corpus", summary.line_counts)]
    counted += [(entry.path, entry) for entry in inputs]
    for name, counts in counted:
        if counts.lines != counts.kept + counts.duplicates + counts.rejected + counts.blank:
            raise FastrecError(
                f"the line counts of {name} do not add up: {counts.lines:,} lines, but {counts.kept:,} kept + "
                f"{counts.duplicates:,} duplicates + {counts.rejected:,} rejected + {counts.blank:,} blank; "
                "nothing was published. This is a bug in fastrec: please report it"
            )
