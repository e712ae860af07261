"""`verify`: check a published corpus against its manifest, its summary and the rules of a corpus.

Report every problem.

1. Read the manifest. Check that exactly the files that it lists are there.
2. One task per part (`part`) checks the normal form of every line and their order, counts the
   records, and compares all of it with the manifest.
3. Compare each part with the previous one.
4. Compare the sources of records, if they are tracked, with the inputs in the manifest.
5. Check the documents: the totals, the summary against one computed from the parts, the rejects
   file.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from msgspec import ValidationError, json, to_builtins
from msgspec.structs import replace

from fastrec.commands.verify.part import (
    ABSENT,
    CheckedPart,
    CheckTask,
    Problem,
    Problems,
    check_inputs,
    check_part,
    differences,
)
from fastrec.corpus.manifest import (
    MANIFEST,
    SUMMARY,
    InputEntry,
    Manifest,
    RejectsEntry,
    files_of,
    read_manifest,
    summary_path,
    tree_hash,
)
from fastrec.corpus.rejects import decode_rejected
from fastrec.corpus.scan import PartFile, run_on_parts
from fastrec.corpus.sources import has_sources
from fastrec.corpus.store_output import is_of_a_run
from fastrec.engine import check_jobs
from fastrec.errors import CorpusError, UsageError, counted, utf8
from fastrec.judge.findings import REPAIRS
from fastrec.normalize.options import RECORDED, Options, options_from
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.view import REFUSALS
from fastrec.sources.shard import numbered_lines
from fastrec.storage import is_plain, is_url, join, storage_of
from fastrec.summary.document import LineCounts, Summary
from fastrec.summary.part_statistics import read_census, read_part_counts
from fastrec.summary.summarize import summarize

_ANY = "any repair"
_SUMMARY_SAYS = f"{SUMMARY} says"


def _check_manifest(manifest: Manifest, document: bytes) -> Problems:
    """Check the keys, the totals, the line counts of inputs, and whether parts have sources."""
    problems = Problems(MANIFEST)
    for path, _, known in differences(json.decode(document), to_builtins(manifest)):
        if known is ABSENT:  # reading the manifest has skipped it
            problems.add("manifest.key", f"{path} is no key of a manifest")
    parts = manifest.parts
    text_hash = None
    with suppress(ValueError):  # a digest is not hexadecimal; its part is reported
        text_hash = tree_hash(part.text_xxh3_128 for part in parts)
    totals = {
        "records": sum(part.records for part in parts),
        "text_bytes": sum(part.text_bytes for part in parts),
        "text_xxh3_128": text_hash,
    }
    for name, total in totals.items():
        said = getattr(manifest, name)
        problems.compare("manifest.total", name, said, total, other="its entries of parts give")
    for entry in manifest.inputs:
        _check_line_counts(problems, "manifest.line_counts", f"{entry.path}: {MANIFEST}", entry)
    tracked = has_sources(manifest)
    difference = "expected no sources, by its options, found some"
    if tracked:
        difference = "expected sources, found none"
    for part in parts:
        if bool(part.sources) is not tracked:
            problems.add("manifest.sources", f"{part.file}: {difference}")
    return problems


def _check_line_counts(
    problems: Problems, kind: str, by: str, counts: LineCounts | InputEntry
) -> None:
    total = counts.kept + counts.duplicates + counts.rejected + counts.blank
    if counts.lines != total:
        message = f"says {counts.lines:,} lines, but its kept + duplicates + rejected + blank are"
        problems.add(kind, f"{by} {message} {total:,}")


def _check_summary(
    corpus: str,
    manifest: Manifest,
    options: Options,
    statistics: Sequence[str] | None,
    problems: Problems,
) -> Summary | None:
    """Check `summary.json`, and return it if it can be read.

    `statistics` are path prefixes of the census and the counts of all parts; None if a part is
    missing or invalid.
    """
    try:
        data = storage_of(corpus).read_all(summary_path(corpus, manifest))
        digest = sha256(data).hexdigest()
        problems.compare("file.sha256", "SHA-256", manifest.summary_sha256, digest)
        summary = Summary.from_json(data)
    except (FileNotFoundError, CorpusError):  # reported with the files, as missing or badly named
        return None
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
        return None
    except REFUSALS as exc:
        problems.add("summary.unreadable", f"is not a summary: {exc}")
        return None
    _check_counts(summary, manifest, problems)
    if statistics is not None:
        _check_statistics(summary, options, statistics, problems)
    return summary


def _check_counts(summary: Summary, manifest: Manifest, problems: Problems) -> None:
    """Check that line counts of a summary add up, and agree with other counts of these lines."""
    kind = "summary.line_counts"
    counts = summary.line_counts
    codes = summary.rejected_by_code
    hashes = summary.sample_hash
    _check_line_counts(problems, kind, SUMMARY, counts)
    listed = manifest.rejects.records if manifest.rejects else 0
    inputs_say = f"the inputs in {MANIFEST} add up to"
    others = [
        (name, inputs_say, sum(getattr(entry, name) for entry in manifest.inputs))
        for name in LineCounts.__struct_fields__
    ]
    others += [
        ("kept", f"{MANIFEST} says that the number of records is", manifest.records),
        ("rejected", "its rejected_by_code adds up to", sum(codes.values())),
        ("rejected", f"{MANIFEST} says that the rejects file has", listed),
    ]
    for name, by, count in others:
        problems.compare(kind, name, getattr(counts, name), count, _SUMMARY_SAYS, by)
    left_out = sum(
        count for code, count in codes.items() if code.startswith(("conflict.", "repeat."))
    )
    valid = counts.kept + counts.duplicates + left_out
    hashed = hashes.verified + hashes.filled + hashes.replaced
    by = "its sample_hash adds up to"
    problems.compare(kind, "valid lines", valid, hashed, _SUMMARY_SAYS, by)
    repaired = Counter(summary.repaired.by_code)
    notes = Counter(summary.notes)
    inputs = sum((Counter(entry.repaired) for entry in manifest.inputs), Counter())
    for code in sorted(repaired.keys() | inputs.keys() | (notes.keys() & REPAIRS.keys())):
        for by, count in ((inputs_say, inputs[code]), ("its notes have", notes[code])):
            problems.compare(kind, f"lines with {code}", repaired[code], count, _SUMMARY_SAYS, by)


def _check_statistics(
    summary: Summary, options: Options, statistics: Sequence[str], problems: Problems
) -> None:
    """Build the summary again from the records, and compare what depends only on them."""
    tally = read_part_counts(statistics).tally
    computed = replace(
        summary,
        schema=options.target.name,
        line_counts=replace(summary.line_counts, kept=tally.interaction_types.total()),
        sample_hash=replace(summary.sample_hash, algorithm=options.hash_algorithm),
        **summarize(tally, read_census(statistics), options.target),
    )
    for option, identities in (
        ("conflicts", computed.contradictions),
        ("repeats", computed.repeats),
    ):
        choice = getattr(options, option)
        for example in identities.examples if choice != "keep" else ():
            where = f"{example.evaluation_name!r}, {example.model_id!r}, {example.sample_id!r}"
            message = f"the parts have {counted(example.records, option[:-1])} of {where}"
            said = f"although {MANIFEST} says {option}: {choice}"
            problems.add("corpus.conflict", f"{message}, {said}")
    if options.part_settings.leaves_out:  # the summary also counts the records that were left out
        computed.repeats = summary.repeats
        computed.contradictions = summary.contradictions
    kind = "summary.statistics"
    for path, old, new in differences(_plain(summary, options), _plain(computed, options)):
        problems.compare(kind, path, old, new, _SUMMARY_SAYS, "the parts give")


def _plain(summary: Summary, options: Options) -> Any:
    """Convert a summary to plain values, with evaluations and models by name."""
    plain = to_builtins(summary)
    evaluations = {}
    for evaluation in plain["evaluations"]:
        evaluation["by_model"] = {model["model_id"]: model for model in evaluation["by_model"]}
        if options.part_settings.leaves_out:
            del evaluation["ids_with_many_hashes"]  # it also counts records that were left out
        name = " · ".join(filter(None, [evaluation["evaluation_name"], evaluation["metric"]]))
        evaluations[name] = evaluation
    return plain | {"evaluations": evaluations}


def _check_rejects(
    corpus: str, listed: RejectsEntry, summary: Summary | None, inputs: Sequence[InputEntry]
) -> Problems:
    """Check the rejects file: its checksum, its lines, their order, and their counts."""
    path = join(corpus, listed.file)
    problems = Problems(listed.file)
    codes, sources, repairs, rejected = (Counter[str]() for _ in range(4))
    previous = ("", 0)
    with problems.reading():
        problems.compare_file(path, listed)
        for number, line in numbered_lines(path):
            try:
                rejected_line = decode_rejected(path, number, line)
            except CorpusError as exc:
                problems.add("rejects.entry", exc.reason, number)
                continue
            codes[rejected_line.code] += 1
            sources[rejected_line.source] += 1
            if rejected_line.repairs:
                repairs.update([_ANY, *rejected_line.repairs])
            location = (rejected_line.source, rejected_line.line)
            if location <= previous:
                message = "expected a line after {}:{}, found {}:{}".format(*previous, *location)
                problems.add("rejects.order", message, number)
            previous = location
        problems.compare("rejects.count", "rejected lines", listed.records, codes.total())
        for entry in inputs:
            rejected[entry.path] += entry.rejected
        counts = [("of", f"{MANIFEST} says", rejected, sources)]
        if summary:
            repairable = Counter(summary.repairable.by_code | {_ANY: summary.repairable.lines})
            counts += [
                ("of code", _SUMMARY_SAYS, Counter(summary.rejected_by_code), codes),
                ("to be kept with", _SUMMARY_SAYS, repairable, repairs),
            ]
        for kind, by, said, read in counts:
            for name in sorted({*said, *read}):
                what = f"rejected lines {kind} {name}"
                problems.compare("rejects.count", what, said[name], read[name], by)
    return problems


class Verification(Tabular):
    """The result of checking a corpus."""

    #: Its path, as given.
    corpus: str
    #: Parts that were read.
    parts: int = 0
    #: Records in these parts.
    records: int = 0
    #: Size of the decompressed text.
    text_bytes: int = 0
    #: How long it took.
    seconds: float = 0.0
    #: At most 20 per file one by one.
    problems: list[Problem] = []
    #: Unreadable shards that `--skip-bad-shards` left out of the corpus.
    skipped: list[str] = []
    #: Notices for the user.
    notices: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(corpus: AnyPath, *, jobs: int = CORES, progress: Progress | None = None) -> Verification:
    """Check a published corpus.

    Args:
        corpus: A directory that `normalize` published.
        jobs: Processes to use; a small corpus is checked in this process.
        progress: Receives the progress.

    Raises:
        UsageError: The directory is not a corpus, or another argument is invalid.
        OSError: The manifest or the directory cannot be read.
    """
    started = perf_counter()
    check_jobs(jobs)
    directory = os.fspath(corpus)
    verification = Verification(corpus=utf8(directory))
    try:
        manifest = read_manifest(directory)
    except CorpusError as exc:
        verification.problems.append(Problem(MANIFEST, None, "manifest.unreadable", exc.reason))
    else:
        options = _options_of(manifest)
        if isinstance(options, Options):
            _check(directory, manifest, options, verification, jobs=jobs, progress=progress)
        else:
            verification.problems.append(Problem(MANIFEST, None, "manifest.options", options))
    verification.seconds = perf_counter() - started
    return verification


def _options_of(manifest: Manifest) -> Options | str:
    """The options that a corpus was made with, or what is wrong with them."""
    if manifest.schema not in CORPUS_LABELS:
        return f"schema: expected {' or '.join(CORPUS_LABELS)}, found {manifest.schema}"
    known = RECORDED.values()
    if unknown := sorted(manifest.options.keys() - set(known)):
        return f"expected only {', '.join(known)}, found {', '.join(unknown)}"
    schema = CORPUS_LABELS[manifest.schema].name
    try:
        options = options_from(manifest.options, sort_by=manifest.sort_fields, schema=schema)
    except (ValidationError, UsageError) as exc:
        return str(exc)
    if options.sort_fields != manifest.sort_fields:
        return f"sort_fields: expected all sort fields, found {', '.join(manifest.sort_fields)}"
    return options


def _check(
    corpus: str,
    manifest: Manifest,
    options: Options,
    result: Verification,
    *,
    jobs: int,
    progress: Progress | None,
) -> None:
    problems = result.problems
    result.skipped = manifest.skipped
    is_file = _find_files(corpus, manifest, result)
    regular = {name: join(corpus, name) for name in is_file if is_file[name] and is_plain(name)}
    problems += _check_files(manifest, is_file)
    document = storage_of(corpus).read_all(join(corpus, MANIFEST))
    problems += _check_manifest(manifest, document)
    with TemporaryDirectory(prefix="fastrec-") as scratch:
        tasks = [
            CheckTask(
                PartFile(regular[entry.file], entry),
                options,
                statistics=f"{scratch}/{number}",
                columns=regular.get(entry.columns.file),
                sources=regular.get(entry.sources.file) if entry.sources else None,
            )
            for number, entry in enumerate(manifest.parts)
            if entry.file in regular
        ]
        checked = list(run_on_parts(check_part, tasks, "check", jobs=jobs, progress=progress))
        problems += _in_order(checked)
        problems += check_inputs([part.sources for part in checked if part.sources], manifest)
        result.parts = len(checked)
        result.records = sum(part.records for part in checked)
        result.text_bytes = sum(part.text_bytes for part in checked)
        statistics = None
        if len(checked) == len(manifest.parts) and all(part.valid for part in checked):
            statistics = [task.statistics for task in tasks]
        else:
            reason = "because a part is missing or has invalid lines"
            result.notices.append(f"the statistics in {SUMMARY} were not checked, {reason}")
        of_summary = Problems(SUMMARY)
        summary = _check_summary(corpus, manifest, options, statistics, of_summary)
    problems += of_summary
    if manifest.rejects and manifest.rejects.file in regular:
        problems += _check_rejects(corpus, manifest.rejects, summary, manifest.inputs)


def _find_files(corpus: str, manifest: Manifest, result: Verification) -> dict[str, bool]:
    """The names of all files, and whether each is a regular file of the corpus."""
    storage = storage_of(corpus)
    is_file = {
        utf8(path.removeprefix(join(corpus, ""))): is_url(path)
        or (os.path.isfile(path) and not storage.leaves(corpus, path))
        for path in storage.files_in(corpus)
    }
    if is_url(corpus):  # in a store, runs write their files in place
        left = list(filter(is_of_a_run, is_file.keys() - files_of(manifest)))
        for name in left:
            del is_file[name]
        if left:
            result.notices.append(
                f"{counted(left, 'file')} of runs that have not published anything are beside "
                "the corpus: the next "
                "`normalize --overwrite` that succeeds removes those of runs that have ended"
            )
    return is_file


def _check_files(manifest: Manifest, is_file: dict[str, bool]) -> Iterator[Problem]:
    names = [part.file for part in manifest.parts]
    listed = {MANIFEST, *files_of(manifest)}
    bad = [name for name in sorted(listed) if not is_plain(name)]
    bad += [high for low, high in pairwise(names) if (len(low), low) >= (len(high), high)]
    for name in bad:
        message = (
            "expected names of files in the corpus, those of parts in ascending order, "
            f"found {name!r}"
        )
        yield Problem(MANIFEST, None, "manifest.files", message)
    for name in sorted(filter(is_plain, listed)):
        if name not in is_file:
            message = f"{MANIFEST} lists this file, but it does not exist"
            yield Problem(name, None, "file.missing", message)
        elif not is_file[name]:
            message = (
                "expected a regular file; this is a directory, a FIFO, a device, or a link "
                "that leaves the corpus"
            )
            yield Problem(name, None, "file.unreadable", message)
    for name in sorted(is_file.keys() - listed):
        yield Problem(name, None, "file.stray", f"this is here, but {MANIFEST} does not list it")


def _in_order(checked: Sequence[CheckedPart]) -> Iterator[Problem]:
    """Yield the problems of all parts, after comparing each part with the previous one."""
    last = b""
    for part in checked:
        if part.records:
            if part.first <= last:
                message = "expected a first key greater than the last key of the previous part"
                part.problems.add("part.order", message)
            last = part.last
        yield from part.problems
        yield from part.in_lines
        yield from part.columns or ()
