"""The driver: runs the steps of `normalize` one after the other, each on the result of the one before.

It holds counts, a sample of keys and where parts begin in runs, but no records. Its memory is bounded, apart from some
kilobytes per task and per part.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec.structs import asdict

from fastrec._version import __version__
from fastrec.build import identity
from fastrec.corpus.manifest import InputEntry, Manifest, PartEntry, RejectsEntry, key_entry, tree_hash
from fastrec.corpus.rejects import RejectRange, write_rejects
from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.gate import why_refused
from fastrec.normalize.line_counts import (
    check_line_counts,
    count_codes,
    count_hashes,
    count_versions,
    input_entries,
    total_line_counts,
)
from fastrec.normalize.options import RECORDED, Options
from fastrec.normalize.parts import close_gaps, make_parts
from fastrec.normalize.pass1_driver import SortedShards, sort_shards
from fastrec.normalize.repairs import repair_documents
from fastrec.normalize.results import Part
from fastrec.normalize.rounds import merge_rounds
from fastrec.sorting.key_sample import cut_keys
from fastrec.sources.shard import Shard
from fastrec.summary.document import Summary
from fastrec.summary.part_statistics import add_part_counts
from fastrec.summary.summarize import same_run_summary, summarize

__all__ = ["make_corpus", "purpose_of"]


def purpose_of(options: Options, *, is_auto: bool = False) -> dict[str, Any]:
    """Return everything besides the records that determines the bytes of a corpus."""
    recorded = {name: getattr(options, name) for name in (*RECORDED, "max_window", "sort_fields")}
    limits = options.limits
    cuts = (limits.sample_one_in, limits.sampled_keys, limits.most_parts)
    schema = f"auto ({options.target.name})" if is_auto else options.target.name
    return {"build": identity(), "cuts": cuts, "schema": schema, **recorded}


def make_corpus(shards: Sequence[Shard], context: RunContext) -> tuple[Manifest, Summary]:
    """Make a corpus that is ready to be published."""
    options, limits = context.options, context.limits
    sorted_shards, sample = sort_shards(shards, context)
    cuts = cut_keys(sample.keys, sample.one_in, options.part_size, limits.most_parts)
    del sample  # it may take 160 MB
    runs, copies = merge_rounds(context, sorted_shards, cuts)
    parts, census = make_parts(context, shards, sorted_shards, runs, cuts)
    prefixes = [part.census for part in parts]
    counts = add_part_counts(prefixes, context.engine, limits.part_counts_per_task)
    counts.copies.update(copies)
    results, skipped = sorted_shards.results, sorted_shards.skipped
    inputs = input_entries(shards, results, counts, sorted_shards.decompressed)
    check_line_counts(inputs, parts)
    versions, notes = count_versions(results)
    repaired, repairable = repair_documents(result.repairs for result in results)
    summary = summarize(
        total_line_counts(inputs),
        count_codes(results, parts),
        count_hashes(results, options, context.engine),
        counts.tally,
        census,
        schema=options.target,
        versions=versions,
        notes=notes,
        repaired=repaired,
        repairable=repairable,
        same_run=same_run_summary(census.same_run),
    )
    rejects = _write_rejects(context, shards, sorted_shards, prefixes, summary.line_counts.rejected)
    inputs = [entry for number, entry in enumerate(inputs) if number not in skipped]
    errors = [str(error) for _, error in sorted(skipped.items())]
    parts = close_gaps(context, parts)
    refused = why_refused(summary.line_counts, options.gate, context.output.old_marker())
    manifest = _write_documents(
        context, parts, summary, rejects=rejects, inputs=inputs, skipped=errors, refused=refused
    )
    return manifest, summary


def _write_rejects(
    context: RunContext, shards: Sequence[Shard], sorted_shards: SortedShards, prefixes: Sequence[str], count: int
) -> RejectsEntry | None:
    files = {number: result.rejects for result in sorted_shards.results for number in result.numbers}
    ranges = []
    for counts, base in sorted_shards.with_line_bases():
        piece = counts.piece
        start = piece.offset + piece.slice.start
        ranges.append(RejectRange(files[piece.number], *counts.rejects, piece.shard, start, base))
    left_out = [f"{prefix}-left-out" for prefix in prefixes] if context.options.leaves_out else []
    name = context.output.named("rejects", ".jsonl.zst")
    written = write_rejects(context.output.staged(name), ranges, left_out, [utf8(shard.path) for shard in shards])
    if written is None:
        return None
    return RejectsEntry(file=name, records=count, bytes=written.bytes, sha256=written.sha256)


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
        options={name: getattr(options, name) for name in RECORDED},
        sort_fields=options.sort_fields,
        records=summary.line_counts.kept,
        text_bytes=sum(part.written.text_bytes for part in parts),
        text_sha256=tree_hash(part.written.text_sha256 for part in parts),
        parts=[
            PartEntry(
                file=context.part_name(part.number),
                records=part.records,
                first=key_entry(part.first, options.sort_fields),
                last=key_entry(part.last, options.sort_fields),
                **asdict(part.written),
            )
            for part in parts
        ],
        rejects=rejects,
        summary_file=summary_file,
        summary_sha256=sha256(document).hexdigest(),
        inputs=inputs,
        skipped=skipped,
        refused=refused,
    )
    context.output.write(summary_file, document)
    context.output.write_marker(manifest.to_json())
    return manifest
