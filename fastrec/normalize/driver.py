"""The driver: runs the steps of `normalize` one after the other.

    pass 1 ──▶ plan ──▶ pass 2 ──▶ line counts ──▶ summary ──▶ rejected lines ──▶ gate ──▶ manifest
    ──▶ kept work

It holds counts, a sample of keys and where regions begin in runs, but no records. Its memory is
bounded, apart from some kilobytes per task and per part.
"""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
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
from fastrec.normalize.context import RunContext
from fastrec.normalize.corrections import fix_counts, label_counts, unused_rules
from fastrec.normalize.kept import (
    Base,
    Changes,
    Kept,
    KeptFile,
    KeptRejects,
    KeptShard,
    encoded_kept,
    signatures_of,
)
from fastrec.normalize.options import MaxRejects, Options
from fastrec.normalize.parts import make_parts, number_parts
from fastrec.normalize.pass1_driver import SortedShards, sort_shards
from fastrec.normalize.plan import plan_parts
from fastrec.normalize.results import (
    LineStatistics,
    Part,
    PieceCounts,
    SideFile,
    SortResult,
    count_lines,
    repair_documents,
)
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.keys import sample_id_of
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.storage import FileDigest, base_name, is_url
from fastrec.summary.document import HashExample, LineCounts, Summary, json_safe
from fastrec.summary.part_statistics import Census, LinesByPiece, PartCounts, add_part_counts
from fastrec.summary.summarize import hash_counts, same_run_summary, sorted_counts, summarize

# Nanoseconds. A file that is modified again so soon may keep its modification time, because clocks
# are coarse.
_RECENT = 2 * 10**9


class Corpus(msgspec.Struct, frozen=True):
    manifest: Manifest
    summary: Summary
    parts_written: int
    changes: Changes  # of the shards since the last run
    gone: int  # shards of the last run that are not there any more
    kept: bytes  # the list of what stays for the next run; empty if nothing does
    kept_files: frozenset[str]
    phases: tuple[Phase, ...] = ()


def make_corpus(shards: Sequence[Shard], context: RunContext, base: Base) -> Corpus:
    sorted_shards = sort_shards(shards, context, base)
    plan = plan_parts(context, sorted_shards, base)
    pieces = sorted_shards.pieces()
    order = [counts.piece.number for counts in pieces]
    has_same_input = base.lines is not None and order == base.order
    parts, census = make_parts(context, shards, sorted_shards, plan, has_same_input=has_same_input)
    unchanged = {part.fingerprint for part in base.parts}
    is_same = has_same_input and all(part.fingerprint in unchanged for part in parts)
    if is_same and base.lines:
        lines = base.lines
        counts = PartCounts()
    else:
        counts = _count_parts(context, parts, order)
        lines = counts.lines
    inputs = input_entries(shards, pieces, lines, sorted_shards.decompressed)
    _check_line_counts(inputs, parts)
    names = LineCounts.__struct_fields__
    line_counts = LineCounts(
        **{name: sum(getattr(entry, name) for entry in inputs) for name in names}
    )
    if is_same:
        summary = Summary.from_json(b"".join(read_blocks(base.summary)))
    else:
        lines_read = count_lines(sorted_shards.results, context.engine)
        for part in parts:
            lines_read.codes.update(part.left_out)
        summary = _summarize(context, line_counts, lines_read, counts, census)
    _check_labels(context.options, summary)
    left_out: list[str] = []
    if context.options.leaves_out:
        left_out = [f"{part.statistics_prefix}-left-out" for part in parts]
    rejects = _write_rejects(
        context, shards, sorted_shards, left_out, base, count=line_counts.rejected
    )
    numbered = number_parts(context, parts)
    skipped = sorted_shards.skipped
    old_marker = context.output.old_marker()
    entries = _part_entries(context, numbered)
    refused = _why_refused(summary.line_counts, context.options.gate, old_marker)
    if context.options.check_secrets and not refused:
        refused = _secrets(context, numbered, entries)
    manifest = _write_documents(
        context,
        entries,
        summary,
        rejects=rejects.entry if rejects else None,
        inputs=[entry for number, entry in enumerate(inputs) if number not in skipped],
        skipped=[str(error) for _, error in sorted(skipped.items())],
        trusted=taken_on_trust(shards),
        refused=refused,
    )
    kept = b""
    kept_files = frozenset[str]()
    if context.options.incremental:
        kept, kept_files = _keep_work(
            context, shards, sorted_shards, parts,
            numbered=numbered, lines=lines, summary=summary, rejects=rejects,
        )  # fmt: skip
    written = sum(part.fingerprint not in unchanged for part in numbered)
    return Corpus(manifest, summary, written, base.changes, len(base.paths_gone), kept, kept_files)


def _count_parts(context: RunContext, parts: Sequence[Part], order: Sequence[int]) -> PartCounts:
    """Add up the counts of all parts, given the numbers of pieces in the order of the input."""
    positions = {number: position for position, number in enumerate(order)}
    prefixes = [part.statistics_prefix for part in parts]
    return add_part_counts(prefixes, positions, context.output.working("order"), context.engine)


def _check_labels(options: Options, summary: Summary) -> None:
    labels = summary.labels
    if options.strict_labels and labels and (labels.unmatched or labels.ambiguous):
        raise FastrecError(
            f"--strict-labels: {counted(labels.unmatched, 'label')} without a record and "
            f"{labels.ambiguous:,} with several records; nothing was published. Correct "
            f"{options.labels}"
        )


def input_entries(
    shards: Sequence[Shard],
    pieces: Sequence[PieceCounts],
    lines: LinesByPiece,
    decompressed: Mapping[int, ReadStats],
) -> list[InputEntry]:
    """The line counts of each shard; `decompressed` has the shards that the driver read."""
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
    for name, by_piece in (
        ("kept", lines.kept),
        ("duplicates", lines.duplicates),
        ("rejected", lines.left_out),
    ):
        for number, count in by_piece.items():
            if count:
                totals[shard_of[number]][name] += count
    return [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            **{
                name: total[name]
                for name in ("text_bytes", *LineCounts.__struct_fields__, "filtered")
            },
            repaired=dict(sorted(repairs.items())),
        )
        for shard, total, repairs in zip(shards, totals, repaired, strict=True)
    ]


def _check_line_counts(inputs: Sequence[InputEntry], parts: Sequence[Part]) -> None:
    """Refuse to publish a corpus that does not account for every line."""
    for entry in inputs:
        if entry.lines != entry.kept + entry.duplicates + entry.rejected + entry.blank:
            raise _bug(
                f"the line counts of {entry.path} do not add up: {entry.lines:,} lines, but "
                f"{entry.kept:,} kept + "
                f"{entry.duplicates:,} duplicates + {entry.rejected:,} rejected + {entry.blank:,} "
                "blank"
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
    line_counts: LineCounts,
    lines: LineStatistics,
    counts: PartCounts,
    census: Census,
) -> Summary:
    wrong_hashes = [
        HashExample(**asdict(example) | {"sample_id": json_safe(sample_id_of(example.sample_id))})
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
        line_counts=line_counts,
        versions=sorted_counts(lines.versions),
        notes=sorted_counts(lines.notes),
        renamed={str(rule): lines.renamed[str(rule)] for rule in options.map} or msgspec.UNSET,
        labels=labels or msgspec.UNSET,
        fixes=fixes or msgspec.UNSET,
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
    shards: Sequence[Shard],
    sorted_shards: SortedShards,
    left_out: Sequence[str],
    base: Base,
    *,
    count: int,
) -> KeptRejects | None:
    """Write the rejected lines, unless they are the same as those of the base."""
    files = {
        number: result.rejects for result in sorted_shards.results for number in result.numbers
    }
    names = [utf8(shard.path) for shard in shards]
    ranges = [
        RejectRange(files[counts.piece.number], *counts.rejects, *counts.piece.place, line_base)
        for counts, line_base in sorted_shards.with_line_bases()
        if counts.rejects[1] > counts.rejects[0]
    ]
    used = [(replace(piece, path=utf8(piece.path)), names[piece.shard]) for piece in ranges]
    fingerprint = xxh3_128_hexdigest(msgspec.msgpack.encode((used, list(map(utf8, left_out)))))
    name = context.output.named("rejects", ".jsonl.zst")
    if base.rejects and base.rejects.fingerprint == fingerprint:
        path = context.output.reuse(base.rejects.path, name)
        entry = replace(base.rejects.entry, file=base_name(path))
        return KeptRejects(fingerprint, path, entry)
    path = context.output.staged(name)
    written = write_rejects(path, ranges, left_out, names)
    if written is None:
        return None
    entry = RejectsEntry(file=name, records=count, bytes=written.bytes, sha256=written.sha256)
    return KeptRejects(fingerprint, path, entry)


class _OldCorpus(msgspec.Struct):
    records: int


def _why_refused(
    counts: LineCounts, max_rejects: MaxRejects | None, old_manifest: bytes | None
) -> str | None:
    """Why a corpus must not be published; None if it passes the gate."""
    if max_rejects and not max_rejects.allows(counts):
        rejected = f"{counts.rejected:,} of {counted(counts.lines, 'line')}"
        return f"{rejected} were rejected, and --max-rejects is {max_rejects}"
    if counts.kept or old_manifest is None:
        return None
    try:
        records = msgspec.json.decode(old_manifest, type=_OldCorpus).records
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "it has no records, and would replace a corpus whose manifest cannot be read"
    return f"it has no records, and would replace a corpus with {records:,}" if records else None


def _secrets(
    context: RunContext, parts: Sequence[Part], entries: Sequence[PartEntry]
) -> str | None:
    """Why a corpus must not be published: what looks like credentials in metadata."""
    tasks = [
        ChosenTask(PartFile(part.path, entry)) for part, entry in zip(parts, entries, strict=True)
    ]
    found = dict(context.engine.run(search_part, tasks))
    fields = list_secrets(found[number] for number in range(len(tasks)))
    return f"metadata have what looks like credentials: {'; '.join(fields)}" if fields else None


def _part_entries(context: RunContext, parts: Sequence[Part]) -> list[PartEntry]:
    return [
        PartEntry(
            file=base_name(part.path),
            records=part.records,
            first=key_entry(part.first, context.sort_fields),
            last=key_entry(part.last, context.sort_fields),
            columns=_side_file_entry(part.columns),
            sources=_side_file_entry(part.sources) if part.sources else msgspec.UNSET,
            **asdict(part.written),
        )
        for part in parts
    ]


def _write_documents(
    context: RunContext,
    parts: list[PartEntry],
    summary: Summary,
    *,
    rejects: RejectsEntry | None,
    inputs: list[InputEntry],
    skipped: list[str],
    trusted: list[str],
    refused: str | None,
) -> Manifest:
    summary_file = context.output.named("summary", ".json")
    manifest = Manifest(
        fastrec=__version__,
        schema=context.target.label,
        options=context.options.recorded,
        sort_fields=context.sort_fields,
        records=summary.line_counts.kept,
        text_bytes=sum(part.text_bytes for part in parts),
        text_xxh3_128=tree_hash(part.text_xxh3_128 for part in parts),
        parts=parts,
        rejects=rejects,
        summary_file=summary_file,
        summary_sha256=context.output.write(summary_file, summary.json_pieces()),
        inputs=inputs,
        filtered=sum(entry.filtered for entry in inputs),
        skipped=skipped,
        trusted=trusted or msgspec.UNSET,
        refused=refused,
    )
    context.output.write_marker(manifest.to_json())
    return manifest


def _side_file_entry(file: SideFile | None) -> SideFileEntry:
    assert file
    return SideFileEntry(file=base_name(file.path), bytes=file.bytes, sha256=file.sha256)


# What stays for the next run


def _keep_work(
    context: RunContext,
    shards: Sequence[Shard],
    sorted_shards: SortedShards,
    parts: Sequence[Part],
    *,
    numbered: Sequence[Part],
    lines: LinesByPiece,
    summary: Summary,
    rejects: KeptRejects | None,
) -> tuple[bytes, frozenset[str]]:
    """Describe the work in a document; return it, and the paths of all files to keep."""
    output = context.output
    kept_parts = _keep_parts(context, parts, numbered)
    # The old one stays until this work is kept.
    summary_path = output.working(f"summary-{secrets.token_hex(8)}")
    written = FileDigest(
        summary_path, *write_blocks(summary_path, summary.json_pieces(), compressed=True)
    )
    if rejects:
        rejects = replace(
            rejects, path=output.keep(rejects.path, f"rejects-{rejects.fingerprint}.jsonl.zst")
        )
    numbers = [number for number in range(len(shards)) if number not in sorted_shards.skipped]
    positions = {number: position for position, number in enumerate(numbers)}
    tasks = [_kept_task(result, positions) for result in sorted_shards.results if result.pieces]
    document = Kept(
        settings=context.journal.settings,
        shards=_kept_shards(
            [(number, shards[number]) for number in numbers], sorted_shards, context.started_at
        ),
        tasks=tasks,
        decompressed={
            positions[number]: stats
            for number, stats in sorted_shards.decompressed.items()
            if number in positions
        },
        parts=kept_parts,
        lines=lines.packed(),
        order=[counts.piece.number for counts in sorted_shards.pieces()],
        summary=summary_path,
        rejects=rejects,
        files=_kept_files(context, tasks, kept_parts, written, rejects),
        next_task=sorted_shards.next_task,
        next_piece=sorted_shards.next_piece,
    )
    try:
        return encoded_kept(document), frozenset(file.path for file in document.files)
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
    kept: list[Part] = []
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


def _kept_task(result: SortResult, positions: Mapping[int, int]) -> SortResult:
    pieces = (
        replace(counts, piece=replace(counts.piece, shard=positions[counts.piece.shard]))
        for counts in result.pieces
    )
    return replace(result, pieces=tuple(pieces), runs=())


def _kept_shards(
    shards: Sequence[tuple[int, Shard]], sorted_shards: SortedShards, read_at: int
) -> list[KeptShard]:
    """Describe shards, given with their numbers: the next run tells whether they changed."""
    read = list(sorted_shards.decompressed.items())
    read += [
        (counts.piece.shard, counts.read)
        for counts in sorted_shards.pieces()
        if not counts.piece.temporary
    ]
    ranges: dict[int, list[tuple[int, int, str]]] = {}
    for number, stats in read:
        ranges.setdefault(number, []).append((stats.raw_start, stats.raw_bytes, stats.raw_hash))
    return [
        KeptShard(
            path=shard.path,
            signature=shard.signature,
            certain=is_url(shard.path) or read_at - shard.version > _RECENT,
            ranges=tuple(ranges.get(number, ())),
        )
        for number, shard in shards
    ]


def _kept_files(
    context: RunContext,
    tasks: Sequence[SortResult],
    parts: Sequence[Part],
    summary: FileDigest,
    rejects: KeptRejects | None,
) -> list[KeptFile]:
    """Describe all files to keep; DamagedFileError if one is missing."""
    files = [(file.path, file.hash) for task in tasks for file in task.files]
    files += [entry for part in parts for entry in part.hashes.items()]
    files.append((summary.path, summary.hash))
    if rejects:
        files.append((rejects.path, rejects.entry.sha256))
    signatures = signatures_of(
        [context.output.before_publishing(path) for path, _ in files], context.engine
    )
    if "" in signatures:
        raise DamagedFileError(files[signatures.index("")][0], "it is missing")
    return [
        KeptFile(path, signature, hash_)
        for (path, hash_), signature in zip(files, signatures, strict=True)
    ]
