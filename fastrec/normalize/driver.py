"""The driver: runs the steps of `normalize` one after the other.

    pass 1 ──▶ plan ──▶ pass 2 ──▶ line counts ──▶ summary ──▶ rejected lines ──▶ gate ──▶ manifest
    ──▶ kept work

It holds counts, a sample of keys and where regions begin in runs, but no records. Its memory is
bounded, apart from some kilobytes per task and per part.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace
from xxhash import xxh3_128_hexdigest

from fastrec._version import __version__
from fastrec.corpus.manifest import (
    InputEntry,
    Manifest,
    PartEntry,
    RejectsEntry,
    SideFileEntry,
    key_entry,
    tree_hash,
)
from fastrec.corpus.rejects import RejectRange, write_rejects
from fastrec.corpus.scan import PartFile
from fastrec.corpus.secrets import ChosenTask, list_secrets, search_part
from fastrec.corpus.trust import taken_on_trust
from fastrec.corpus.writer import SUFFIXES
from fastrec.engine.base import Phase
from fastrec.errors import DamagedFileError, FastrecError, counted, utf8
from fastrec.json_documents import sorted_counts
from fastrec.normalize.context import RunContext
from fastrec.normalize.corrections import fix_counts, label_counts, unused_rules
from fastrec.normalize.kept import (
    Base,
    Kept,
    KeptFile,
    KeptShard,
    signatures_of,
)
from fastrec.normalize.options import Options
from fastrec.normalize.parts import make_parts, number_parts
from fastrec.normalize.pass1_driver import SortedShards, sort_shards
from fastrec.normalize.plan import plan_parts
from fastrec.normalize.results import (
    LineStatistics,
    Part,
    PieceCounts,
    SortResult,
    count_lines,
    repair_documents,
)
from fastrec.schemas.view import REFUSALS
from fastrec.sorting.files import framed, read_blocks, write_blocks
from fastrec.sorting.keys import sample_id_of
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shards
from fastrec.storage import FileDigest, base_name, is_url
from fastrec.summary.document import (
    HashExample,
    LineCounts,
    Summary,
    filled,
    json_safe,
)
from fastrec.summary.part_statistics import Census, LinesByPiece, PartCounts, add_part_counts
from fastrec.summary.summarize import hash_counts, same_run_summary, summarize

_REJECTS = "rejects", ".jsonl.zst"
_COUNTED = ("text_bytes", *LineCounts.__struct_fields__, "filtered")  # of each shard
# Nanoseconds. A file that is modified again so soon may keep its modification time, because clocks
# are coarse.
_RECENT = 2 * 10**9


class Corpus(Struct, frozen=True):
    manifest: Manifest
    summary: Summary
    parts_written: int
    base: Base
    kept: bytes  # the list of what stays for the next run; empty if nothing does
    kept_files: frozenset[str]
    phases: tuple[Phase, ...] = ()


class _Results(NamedTuple):
    """What the documents say, besides the parts."""

    inputs: list[InputEntry]
    summary: Summary
    rejects: RejectsEntry | None


def make_corpus(shards: Shards, context: RunContext, base: Base) -> Corpus:
    sorted_shards = sort_shards(shards, context, base)
    plan = plan_parts(context, sorted_shards, base)
    parts, census = make_parts(context, shards, sorted_shards, plan)
    if base.is_same:
        results = _last_results(context, base)
    else:
        results = _new_results(context, shards, sorted_shards, parts, census)
    _check_labels(context.options, results.summary)
    numbered = number_parts(context, parts)
    manifest = _write_documents(context, shards, sorted_shards, numbered, results)
    kept = b""
    kept_files = frozenset[str]()
    if context.options.incremental:
        kept_parts = _keep_parts(context, parts, numbered)
        kept, kept_files = _keep_work(context, shards, sorted_shards, kept_parts, results)
    unchanged = {part.fingerprint for part in base.parts}
    written = sum(part.fingerprint not in unchanged for part in numbered)
    return Corpus(manifest, results.summary, written, base, kept, kept_files)


def _last_results(context: RunContext, base: Base) -> _Results:
    """The results of the last run, which had the same shards."""
    rejects = base.rejects
    if rejects:
        path = context.output.reuse(rejects.file, context.output.named(*_REJECTS))
        rejects = replace(rejects, file=base_name(path))
    summary = Summary.from_json(b"".join(read_blocks(base.summary)))
    return _Results(base.inputs, summary, rejects)


def _new_results(
    context: RunContext,
    shards: Shards,
    sorted_shards: SortedShards,
    parts: Sequence[Part],
    census: Census,
) -> _Results:
    pieces = sorted_shards.pieces()
    positions = {counts.piece.number: position for position, counts in enumerate(pieces)}
    prefixes = [part.statistics_prefix for part in parts]
    counts = add_part_counts(prefixes, positions, context.output.working("order"), context.engine)
    inputs = input_entries(shards, pieces, counts.lines, sorted_shards.decompressed)
    _check_line_counts(inputs, parts)
    inputs = [entry for number, entry in enumerate(inputs) if number not in sorted_shards.skipped]
    lines = count_lines(sorted_shards.results, context.engine)
    for part in parts:
        lines.codes.update(part.left_out)
    summary = _summarize(context, inputs, lines, counts, census)
    rejected = summary.line_counts.rejected
    rejects = _write_rejects(context, shards, sorted_shards, parts, rejected)
    return _Results(inputs, summary, rejects)


def _check_labels(options: Options, summary: Summary) -> None:
    labels = summary.labels
    if options.strict_labels and labels and (labels.unmatched or labels.ambiguous):
        raise FastrecError(
            f"--strict-labels: {counted(labels.unmatched, 'label')} without a record and "
            f"{labels.ambiguous:,} with several records; nothing was published. Correct "
            f"{options.labels}"
        )


def input_entries(
    shards: Shards,
    pieces: Sequence[PieceCounts],
    lines: LinesByPiece,
    decompressed: Mapping[int, ReadStats],
) -> list[InputEntry]:
    """The line counts of each shard; `decompressed` has the shards that the driver read."""
    totals: list[Counter[str]] = [Counter() for _ in shards]
    repaired: list[Counter[str]] = [Counter() for _ in shards]
    for counts in pieces:
        number = counts.piece.number
        totals[counts.piece.shard].update(
            text_bytes=counts.read.text_bytes,
            lines=counts.lines - counts.filtered,
            kept=lines.kept[number],
            duplicates=lines.duplicates[number],
            rejected=counts.rejected + lines.left_out[number],
            blank=counts.blank,
            filtered=counts.filtered,
        )
        repaired[counts.piece.shard].update(counts.repaired)
    for number, stats in decompressed.items():
        totals[number]["text_bytes"] = stats.text_bytes
    return [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            repaired=sorted_counts(repairs),
            **{name: total[name] for name in _COUNTED},
        )
        for shard, total, repairs in zip(shards, totals, repaired, strict=True)
    ]


def _check_line_counts(inputs: Sequence[InputEntry], parts: Sequence[Part]) -> None:
    """Refuse to publish a corpus that does not account for every line."""
    for entry in inputs:
        if entry.lines != entry.kept + entry.duplicates + entry.rejected + entry.blank:
            raise _bug(
                f"the line counts of {entry.path} do not add up: {entry.lines:,} lines, but "
                f"{entry.kept:,} kept + {entry.duplicates:,} duplicates + {entry.rejected:,} "
                f"rejected + {entry.blank:,} blank"
            )
    kept = sum(entry.kept for entry in inputs)
    records = sum(part.records for part in parts)
    if kept != records:
        raise _bug(
            f"the line counts do not add up: {kept:,} lines kept, but {records:,} records in the "
            "parts"
        )


def _bug(reason: str) -> FastrecError:
    return FastrecError(
        f"{reason}; nothing was published. This is a bug in fastrec: please report it"
    )


def _summarize(
    context: RunContext,
    inputs: Sequence[InputEntry],
    lines: LineStatistics,
    counts: PartCounts,
    census: Census,
) -> Summary:
    line_counts = {
        name: sum(getattr(entry, name) for entry in inputs) for name in LineCounts.__struct_fields__
    }
    wrong_hashes = [
        filled(HashExample, example, sample_id=json_safe(sample_id_of(example.sample_id)))
        for example in lines.wrong_hashes
    ]
    repaired, repairable = repair_documents(lines)
    options = context.options
    labels, of_labels = (
        label_counts(options.labels, lines.labelled) if options.labels else (None, [])
    )
    fixes, of_fixes = fix_counts(options.fixes, lines.fixed) if options.fixes else (None, [])
    for notice in (*unused_rules(options.map, lines.renamed), *of_labels, *of_fixes):
        context.notice(notice)
    return Summary(
        schema=context.target.name,
        line_counts=LineCounts(**line_counts),
        versions=sorted_counts(lines.versions),
        notes=sorted_counts(lines.notes),
        renamed={str(rule): lines.renamed[str(rule)] for rule in options.map} or UNSET,
        labels=labels or UNSET,
        fixes=fixes or UNSET,
        rejected_by_code=sorted_counts(lines.codes),
        repaired=repaired,
        repairable=repairable,
        same_run=same_run_summary(census.same_run),
        sample_hash=hash_counts(
            options.hash_algorithm, context.target, lines.recipes, wrong_hashes
        ),
        **summarize(counts.tally, census, context.target),
    )


def _write_rejects(
    context: RunContext,
    shards: Shards,
    sorted_shards: SortedShards,
    parts: Sequence[Part],
    count: int,
) -> RejectsEntry | None:
    files = {
        number: result.rejects for result in sorted_shards.results for number in result.numbers
    }
    ranges = [
        RejectRange(files[counts.piece.number], *counts.rejects, *counts.piece.place, line_base)
        for counts, line_base in sorted_shards.with_line_bases()
    ]
    left_out = []
    if context.options.part_settings.leaves_out:
        left_out = [f"{part.statistics_prefix}-left-out" for part in parts]
    name = context.output.named(*_REJECTS)
    names = [utf8(shard.path) for shard in shards]
    written = write_rejects(context.output.staged(name), ranges, left_out, names)
    if written is None:
        return None
    return filled(RejectsEntry, written, file=name, records=count)


class _OldCorpus(Struct):
    records: int


def _why_refused(context: RunContext, parts: Sequence[PartFile], counts: LineCounts) -> str | None:
    """Why a corpus must not be published; None if it passes the gate."""
    most = context.options.gate
    if most and not most.allows(counts):
        rejected = f"{counts.rejected:,} of {counted(counts.lines, 'line')}"
        return f"{rejected} were rejected, and --max-rejects is {most}"
    old_manifest = context.output.old_marker
    if not counts.kept and old_manifest is not None:
        try:
            records = msgspec.json.decode(old_manifest, type=_OldCorpus).records
        except REFUSALS:
            return "it has no records, and would replace a corpus whose manifest cannot be read"
        if records:
            return f"it has no records, and would replace a corpus with {records:,}"
    if context.options.check_secrets:
        credentials = context.engine.in_order(search_part, map(ChosenTask, parts))
        if fields := list_secrets(credentials):
            return f"metadata have what looks like credentials: {'; '.join(fields)}"
    return None


def _write_documents(
    context: RunContext,
    shards: Shards,
    sorted_shards: SortedShards,
    parts: Sequence[Part],
    results: _Results,
) -> Manifest:
    """Write the summary and the manifest; the manifest says whether the corpus is refused."""
    inputs, summary, rejects = results
    entries = [_part_entry(part, context.sort_fields) for part in parts]
    files = [PartFile(part.path, entry) for part, entry in zip(parts, entries, strict=True)]
    summary_file = context.output.named("summary", ".json")
    manifest = Manifest(
        fastrec=__version__,
        schema=context.target.label,
        options=context.options.recorded,
        sort_fields=context.sort_fields,
        records=summary.line_counts.kept,
        text_bytes=sum(part.text_bytes for part in entries),
        text_xxh3_128=tree_hash(part.text_xxh3_128 for part in entries),
        parts=entries,
        rejects=rejects,
        summary_file=summary_file,
        summary_sha256=context.output.write(summary_file, summary.json_pieces()),
        inputs=inputs,
        filtered=sum(entry.filtered for entry in inputs),
        skipped=[str(error) for _, error in sorted(sorted_shards.skipped.items())],
        trusted=taken_on_trust(shards) or UNSET,
        refused=_why_refused(context, files, summary.line_counts),
    )
    context.output.write_marker(manifest.to_json())
    return manifest


def _part_entry(part: Part, sort_fields: tuple[str, ...]) -> PartEntry:
    columns, sources = (
        SideFileEntry(file=base_name(file.path), bytes=file.size, sha256=file.hash)
        if file
        else UNSET
        for file in (part.columns, part.sources)
    )
    assert columns
    return PartEntry(
        file=base_name(part.path),
        records=part.records,
        first=key_entry(part.first, sort_fields),
        last=key_entry(part.last, sort_fields),
        columns=columns,
        sources=sources,
        **asdict(part.written),
    )


# What stays for the next run


def _keep_work(
    context: RunContext,
    shards: Shards,
    sorted_shards: SortedShards,
    parts: list[Part],
    results: _Results,
) -> tuple[bytes, frozenset[str]]:
    """Describe the work in a document; return it, and the paths of all files to keep."""
    output = context.output
    night = secrets.token_hex(8)  # the files of the last run stay until this work is kept
    path = output.working(f"summary-{night}")
    pieces = results.summary.json_pieces()
    summary = FileDigest(path, *write_blocks(path, pieces, compressed=True))
    rejects = results.rejects
    if rejects:
        path = output.keep(output.staged(rejects.file), f"rejects-{night}.jsonl.zst")
        rejects = replace(rejects, file=path)
    tasks = [replace(result, runs=()) for result in sorted_shards.results if result.pieces]
    document = Kept(
        settings=context.journal.settings,
        shards=_kept_shards(shards, sorted_shards, context.started_at),
        tasks=tasks,
        decompressed=sorted_shards.decompressed,
        parts=parts,
        inputs=results.inputs,
        summary=summary.path,
        rejects=rejects,
        files=_kept_files(context, tasks, parts, summary, rejects),
    )
    try:
        body = msgspec.msgpack.encode(document)
        return framed(body), frozenset(file.path for file in document.files)
    except (UnicodeEncodeError, OverflowError) as exc:
        is_name = isinstance(exc, UnicodeEncodeError)
        reason = "a path is not UTF-8" if is_name else "its list would be too long"
        context.notice(f"this work is not kept for the next run: {reason}")
        return b"", frozenset()


def _keep_parts(context: RunContext, parts: Sequence[Part], numbered: Sequence[Part]) -> list[Part]:
    """Keep the files of all parts, given where they are now."""
    keep = context.output.keep
    compression = context.options.compression
    in_place = {part.fingerprint: part for part in numbered}
    kept = []
    for part in parts:
        if part.records:
            placed = in_place[part.fingerprint]
            assert placed.columns
            name = f"part-{part.fingerprint}{SUFFIXES[compression]}"
            path = keep(placed.path, name, linked=compression != "none")
            columns = keep(placed.columns.path, f"columns-{part.fingerprint}")
            sources = ""
            if placed.sources:
                # Sources may change while the part stays, so their name has their fingerprint, too.
                named = xxh3_128_hexdigest(f"{part.fingerprint} {placed.sources.names}".encode())
                sources = keep(placed.sources.path, f"sources-{named}.zst")
            kept.append(part.at(path, columns, sources))
        elif part.excluded:
            kept.append(replace(part, sources=None))
    return kept


def _kept_shards(shards: Shards, sorted_shards: SortedShards, read_at: int) -> list[KeptShard]:
    """Describe shards: the next run tells whether they changed. A bad one matches no shard."""
    ranges = defaultdict(list)
    pieces = (counts for counts in sorted_shards.pieces() if not counts.piece.temporary)
    read = ((counts.piece.shard, counts.read) for counts in pieces)
    for number, stats in (*sorted_shards.decompressed.items(), *read):
        ranges[number].append((stats.raw_start, stats.raw_bytes, stats.raw_hash))
    return [
        KeptShard(
            path=shard.path,
            signature="" if number in sorted_shards.skipped else shard.signature,
            certain=is_url(shard.path) or read_at - shard.version > _RECENT,
            ranges=tuple(ranges[number]),
        )
        for number, shard in enumerate(shards)
    ]


def _kept_files(
    context: RunContext,
    tasks: Sequence[SortResult],
    parts: Sequence[Part],
    summary: FileDigest,
    rejects: RejectsEntry | None,
) -> list[KeptFile]:
    """Describe all files to keep; DamagedFileError if one is missing."""
    digests = [file for task in tasks for file in task.files]
    digests += [file for part in parts for file in part.all_files]
    digests.append(summary)
    if rejects:
        digests.append(FileDigest(rejects.file, rejects.bytes, rejects.sha256))
    files = {file.path: file for file in digests}
    signatures = signatures_of(list(map(context.output.before_publishing, files)), context.engine)
    for path, signature in zip(files, signatures, strict=True):
        if not signature:
            raise DamagedFileError(path, "it is missing")
    described = zip(files.values(), signatures, strict=True)
    return [KeptFile(file.path, file.size, file.hash, signature) for file, signature in described]
