"""Keep the work of a run for the next one: describe it in a document, just before the corpus is published."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.output import Output
from fastrec.corpus.writer import SUFFIXES
from fastrec.errors import DamagedFileError
from fastrec.normalize.context import RunContext
from fastrec.normalize.kept import Kept, KeptFile, KeptRejects, KeptShard, signatures_of, write_kept
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.results import Part, PartSources, SortResult
from fastrec.sorting.files import write_blocks
from fastrec.sources.shard import Shard
from fastrec.storage import FileDigest, is_url
from fastrec.summary.document import Summary
from fastrec.summary.part_statistics import LinesByPiece

_RECENT: Final = 2 * 10**9
"""Nanoseconds. A file that is modified again so soon may keep its modification time, because clocks are coarse."""


class Made(msgspec.Struct, frozen=True):
    """What a run has made."""

    shards: Sequence[Shard]
    sorted_shards: SortedShards
    parts: Sequence[Part]
    numbered: Mapping[str, Part]  # the parts in place, before they are published, by what they are made of
    lines: LinesByPiece
    summary: Summary
    rejects: KeptRejects | None


def keep_work(context: RunContext, made: Made) -> frozenset[str]:
    """Write the document, and return the paths of all files to keep."""
    sorted_shards, rejects = made.sorted_shards, made.rejects
    output = context.output
    suffix, is_linked = SUFFIXES[context.options.compression], context.options.compression != "none"
    kept_parts: list[Part] = []
    for part in made.parts:
        if part.records:
            numbered = made.numbered[part.fingerprint]
            path = output.keep(numbered.path, f"part-{part.fingerprint}{suffix}", linked=is_linked)
            kept_parts.append(replace(part, path=path, sources=_kept_sources(output, numbered)))
        elif part.excluded:
            kept_parts.append(replace(part, sources=None))
    summary = output.working(f"summary-{secrets.token_hex(8)}")  # the old one stays until this work is kept
    written = FileDigest(summary, *write_blocks(summary, [made.summary.to_json()], compressed=True))
    if rejects:
        rejects = replace(rejects, path=output.keep(rejects.path, f"rejects-{rejects.fingerprint}.jsonl.zst"))
    numbers = [number for number in range(len(made.shards)) if number not in sorted_shards.skipped]
    positions = {number: position for position, number in enumerate(numbers)}
    tasks = [_kept_task(result, positions) for result in sorted_shards.results if result.pieces]
    document = Kept(
        settings=context.journal.settings,
        shards=_kept_shards(made, numbers, context.found_at),
        tasks=tasks,
        decompressed={
            positions[number]: stats for number, stats in sorted_shards.decompressed.items() if number in positions
        },
        parts=kept_parts,
        lines=made.lines.packed(),
        order=[counts.piece.number for counts in sorted_shards.pieces()],
        summary=summary,
        rejects=rejects,
        files=_kept_files(context, _files(tasks, kept_parts, written, rejects)),
        next_task=sorted_shards.next_task,
        next_piece=sorted_shards.next_piece,
    )
    output.check()
    try:
        write_kept(output.next_kept_path, document)
    except (UnicodeEncodeError, OverflowError) as exc:
        reason = "a path is not UTF-8" if isinstance(exc, UnicodeEncodeError) else "its list would be too long"
        context.notice(f"this work is not kept for the next run: {reason}")
        return frozenset()
    return frozenset(file.path for file in document.files)


def _kept_sources(output: Output, part: Part) -> PartSources | None:
    """Keep the sources of a part. They may change while the part stays, so their name has their own fingerprint."""
    if part.sources is None:
        return None
    name = xxh3_128_hexdigest(f"{part.fingerprint} {part.sources.names}".encode())
    return replace(part.sources, path=output.keep(part.sources.path, f"sources-{name}.zst"))


def _kept_task(result: SortResult, positions: Mapping[int, int]) -> SortResult:
    pieces = (replace(one, piece=replace(one.piece, shard=positions[one.piece.shard])) for one in result.pieces)
    return replace(result, pieces=tuple(pieces), runs=())


def _kept_shards(made: Made, numbers: Sequence[int], found_at: int) -> list[KeptShard]:
    """Describe the shards, so that the next run can tell whether they changed."""
    hashes, ranges = _hashes(made)
    return [
        KeptShard(
            made.shards[number].path,
            made.shards[number].signature,
            hashes.get(number, ""),
            is_url(made.shards[number].path) or found_at - made.shards[number].version > _RECENT,
            tuple(ranges.get(number, ())),
        )
        for number in numbers
    ]


def _hashes(made: Made) -> tuple[dict[int, str], dict[int, list[tuple[int, int, str]]]]:
    """Return the hash of the bytes of each shard; if it was read in slices, the hashes of its ranges."""
    hashes = {number: stats.raw_hash for number, stats in made.sorted_shards.decompressed.items()}
    ranges: dict[int, list[tuple[int, int, str]]] = {}
    for counts in made.sorted_shards.pieces():
        piece, read = counts.piece, counts.read
        if piece.temporary:
            continue
        if (piece.slice.start, piece.slice.end) == (0, None):
            hashes[piece.shard] = read.raw_hash
        else:
            ranges.setdefault(piece.shard, []).append((read.raw_start, read.raw_bytes, read.raw_hash))
    return hashes, ranges


def _kept_files(context: RunContext, files: Iterable[tuple[str, str]]) -> list[KeptFile]:
    """Describe files, given their paths and hashes; DamagedFileError if one is missing."""
    found = list(files)
    paths = [context.output.before_publishing(path) for path, _ in found]
    signatures = signatures_of(paths, context.engine)
    if "" in signatures:
        raise DamagedFileError(found[signatures.index("")][0], "it is missing")
    return [KeptFile(path, signature, hash_) for (path, hash_), signature in zip(found, signatures, strict=True)]


def _files(
    tasks: Sequence[SortResult], parts: Sequence[Part], summary: FileDigest, rejects: KeptRejects | None
) -> Iterator[tuple[str, str]]:
    """Yield the paths and hashes of all files to keep."""
    for task in tasks:
        yield from ((file.path, file.hash) for file in task.files)
    for part in parts:
        yield from ((file.path, file.hash) for file in part.files)
        if part.records:
            yield part.path, part.written.sha256
        if part.sources:
            yield part.sources.path, part.sources.sha256
    yield summary.path, summary.hash
    if rejects:
        yield rejects.path, rejects.entry.sha256
