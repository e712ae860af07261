"""The driver: runs the steps of `normalize` one after the other, each on the result of the one before.

It holds counts, a sample of keys and where regions begin in runs, but no records. Its memory is bounded, apart from
some kilobytes per task and per part.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import asdict
from xxhash import xxh3_128_hexdigest

from fastrec._version import __version__
from fastrec.build import identity
from fastrec.corpus.manifest import (
    InputEntry,
    Manifest,
    PartEntry,
    RejectsEntry,
    SourcesEntry,
    key_entry,
    tree_hash,
)
from fastrec.corpus.rejects import RejectRange, write_rejects
from fastrec.errors import utf8
from fastrec.normalize.base import Base
from fastrec.normalize.context import RunContext
from fastrec.normalize.keep import Made, keep_work
from fastrec.normalize.kept import Changes, KeptRejects
from fastrec.normalize.line_counts import (
    LineStatistics,
    check_line_counts,
    count_lines,
    hash_document,
    input_entries,
    total_line_counts,
)
from fastrec.normalize.options import RECORDED, Options, why_refused
from fastrec.normalize.parts import make_parts, number_parts
from fastrec.normalize.pass1_driver import SortedShards, sort_shards
from fastrec.normalize.plan import plan_parts
from fastrec.normalize.results import Part, PartSources, repair_documents
from fastrec.sorting.files import read_blocks
from fastrec.sources.shard import Shard
from fastrec.storage import parent_and_name
from fastrec.summary.document import LineCounts, Summary
from fastrec.summary.part_statistics import Census, PartCounts, add_part_counts
from fastrec.summary.summarize import same_run_summary, summarize


def settings_of(options: Options, *, is_auto: bool = False) -> dict[str, Any]:
    """Return everything besides the records that determines the bytes of a corpus."""
    recorded = {name: options.recorded[name] for name in RECORDED}
    recorded |= {name: getattr(options, name) for name in ("max_window", "sort_fields")}
    recorded["filters"] = str(options.filters) or "none"
    limits = options.limits
    cuts = (limits.most_borders, limits.most_parts, limits.fewest_parts, limits.least_part)
    schema = f"auto ({options.target.name})" if is_auto else options.target.name
    return {"build": identity(), "cuts": cuts, "schema": schema, **recorded}


class Corpus(msgspec.Struct, frozen=True):
    """A corpus that is ready to be published."""

    manifest: Manifest
    summary: Summary
    parts_written: int
    changes: Changes  # of the shards since the last run
    gone: int  # shards of the last run that are not there any more
    kept: frozenset[str]  # files that stay for the next run


def make_corpus(shards: Sequence[Shard], context: RunContext, base: Base) -> Corpus:
    """Make a corpus that is ready to be published."""
    options = context.options
    sorted_shards = sort_shards(shards, context, base)
    plan = plan_parts(context, sorted_shards, base)
    pieces = sorted_shards.pieces()
    order = [counts.piece.number for counts in pieces]
    has_same_input = base.lines is not None and order == base.order
    parts, census = make_parts(context, shards, sorted_shards, plan, has_same_input=has_same_input)
    unchanged = {part.fingerprint for part in base.parts}
    is_same = has_same_input and all(part.fingerprint in unchanged for part in parts)
    counts = PartCounts() if is_same else _count_parts(parts, order, context)
    lines = base.lines if is_same and base.lines else counts.lines
    inputs = input_entries(shards, pieces, lines, sorted_shards.decompressed)
    check_line_counts(inputs, parts)
    line_counts = total_line_counts(inputs)
    if is_same:
        summary = Summary.from_json(next(read_blocks(base.summary)))
    else:
        lines_read = count_lines(sorted_shards.results, context.engine, context.limits.part_counts_per_task)
        for part in parts:
            lines_read.codes.update(part.left_out)
        summary = _summarize(options, line_counts, lines_read, counts, census)
    left_out = [f"{part.statistics_prefix}-left-out" for part in parts] if options.leaves_out else []
    rejects = _write_rejects(context, shards, sorted_shards, left_out, base, count=line_counts.rejected)
    skipped = sorted_shards.skipped
    inputs = [entry for number, entry in enumerate(inputs) if number not in skipped]
    errors = [str(error) for _, error in sorted(skipped.items())]
    numbered = number_parts(context, parts)
    refused = why_refused(summary.line_counts, options.gate, context.output.old_marker())
    manifest = _write_documents(
        context,
        numbered,
        summary,
        rejects=rejects.entry if rejects else None,
        inputs=inputs,
        skipped=errors,
        refused=refused,
    )
    kept = frozenset[str]()
    if options.incremental:
        named = {part.fingerprint: part for part in numbered}
        made = Made(shards, sorted_shards, parts, named, lines, summary, rejects)
        kept = keep_work(context, made)
    written = sum(part.fingerprint not in unchanged for part in numbered)
    return Corpus(manifest, summary, written, base.changes, len(base.paths_gone), kept)


def _count_parts(parts: Sequence[Part], order: Sequence[int], context: RunContext) -> PartCounts:
    positions = {number: position for position, number in enumerate(order)}
    path, at_once = context.output.working("order"), context.limits.part_counts_per_task
    return add_part_counts([part.statistics_prefix for part in parts], positions, path, context.engine, at_once)


def _summarize(
    options: Options, line_counts: LineCounts, lines: LineStatistics, counts: PartCounts, census: Census
) -> Summary:
    repaired, repairable = repair_documents(lines.repairs)
    return summarize(
        line_counts,
        lines.codes,
        hash_document(lines, options),
        counts.tally,
        census,
        schema=options.target,
        versions=lines.versions,
        notes=lines.notes,
        repaired=repaired,
        repairable=repairable,
        same_run=same_run_summary(census.same_run),
    )


def _write_rejects(
    context: RunContext,
    shards: Sequence[Shard],
    sorted_shards: SortedShards,
    left_out: Sequence[str],
    base: Base,
    *,
    count: int,
) -> KeptRejects | None:
    """Write the rejected lines, unless they are the same as those of the base."""
    files = {number: result.rejects for result in sorted_shards.results for number in result.numbers}
    names = [utf8(shard.path) for shard in shards]
    ranges = [
        RejectRange(files[counts.piece.number], *counts.rejects, *counts.piece.place, line_base)
        for counts, line_base in sorted_shards.with_line_bases()
        if counts.rejects[1] > counts.rejects[0]
    ]
    used = [(msgspec.structs.replace(piece, path=utf8(piece.path)), names[piece.shard]) for piece in ranges]
    fingerprint = xxh3_128_hexdigest(msgspec.msgpack.encode((used, list(map(utf8, left_out)))))
    name = context.output.named("rejects", ".jsonl.zst")
    if base.rejects and base.rejects.fingerprint == fingerprint:
        path = context.output.reuse(base.rejects.path, name)
        entry = msgspec.structs.replace(base.rejects.entry, file=parent_and_name(path)[1])
        return KeptRejects(fingerprint, path, entry)
    path = context.output.staged(name)
    written = write_rejects(path, ranges, left_out, names)
    if written is None:
        return None
    entry = RejectsEntry(file=name, records=count, bytes=written.bytes, sha256=written.sha256)
    return KeptRejects(fingerprint, path, entry)


def _sources_entry(sources: PartSources) -> SourcesEntry:
    return SourcesEntry(file=parent_and_name(sources.path)[1], bytes=sources.bytes, sha256=sources.sha256)


def _write_documents(
    context: RunContext,
    parts: Sequence[Part],
    summary: Summary,
    *,
    rejects: RejectsEntry | None,
    inputs: list[InputEntry],
    skipped: list[str],
    refused: str | None,
) -> Manifest:
    options, document = context.options, summary.to_json()
    summary_file = context.output.named("summary", ".json")
    manifest = Manifest(
        fastrec=__version__,
        schema=options.target.label,
        options=options.recorded,
        sort_fields=options.sort_fields,
        records=summary.line_counts.kept,
        text_bytes=sum(part.written.text_bytes for part in parts),
        text_xxh3_128=tree_hash("text_xxh3_128", (part.written.text_xxh3_128 for part in parts)),
        parts=[
            PartEntry(
                file=parent_and_name(part.path)[1],
                records=part.records,
                first=key_entry(part.first, options.sort_fields),
                last=key_entry(part.last, options.sort_fields),
                sources=_sources_entry(part.sources) if part.sources else msgspec.UNSET,
                **asdict(part.written),
            )
            for part in parts
        ],
        rejects=rejects,
        summary_file=summary_file,
        summary_sha256=sha256(document).hexdigest(),
        inputs=inputs,
        filtered=sum(entry.filtered for entry in inputs),
        skipped=skipped,
        refused=refused,
    )
    context.output.write(summary_file, document)
    context.output.write_marker(manifest.to_json())
    return manifest
