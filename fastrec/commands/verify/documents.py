"""Checking the manifest, the summary and the rejects file of a corpus against each other and against its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec

from fastrec.commands.verify.problems import Problem, Problems, Statement
from fastrec.corpus.documents import MANIFEST, SUMMARY, summary_path
from fastrec.corpus.manifest import InputEntry, Manifest, RejectsEntry, text_hash, tree_hash
from fastrec.corpus.rejects import decode_rejected, numbered_lines
from fastrec.errors import CorpusError, ShardError, counted
from fastrec.judge.codes import REPAIRS
from fastrec.normalize.options import Options
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.storage import join, storage_of
from fastrec.storage.digests import sha256_of_file
from fastrec.summary.document import LineCounts, Summary
from fastrec.summary.part_statistics import read_census, read_part_counts
from fastrec.summary.summarize import summarize

__all__ = ["check_manifest", "check_rejects", "check_summary"]

_LINE_COUNTS: Final = ("lines", "kept", "duplicates", "rejected", "blank")

_ANY: Final = "any repair"

_manifest_says, _summary_says = partial(Statement, f"{MANIFEST} says"), partial(Statement, f"{SUMMARY} says")
_file_has = partial(Statement, "the file has")


def check_manifest(manifest: Manifest) -> Iterator[Problem]:
    """Check that the totals of a manifest are those of its parts, and that the line counts of each input add up."""
    problems = Problems(MANIFEST)
    parts = manifest.parts
    hash_name, _ = text_hash(manifest)
    totals = {
        "records": sum(part.records for part in parts),
        "text_bytes": sum(part.text_bytes for part in parts),
        hash_name: _tree_hash(hash_name, (text_hash(part)[1] for part in parts)),
    }
    for name, found in totals.items():
        claim, other = _manifest_says(getattr(manifest, name)), Statement("its entries of parts give", found)
        problems.compare("manifest.total", name, claim, other)
    for entry in manifest.inputs:
        _check_line_counts(problems, "manifest.line_counts", f"{entry.path}: {MANIFEST}", entry)
    yield from problems


def _tree_hash(name: str, digests: Iterable[str]) -> str | None:
    try:
        return tree_hash(name, digests)
    except ValueError:  # a digest is not hexadecimal; its part is reported
        return None


def _check_line_counts(problems: Problems, kind: str, by: str, counts: LineCounts | InputEntry) -> None:
    found = counts.kept + counts.duplicates + counts.rejected + counts.blank
    if counts.lines != found:
        message = f"{by} says {counts.lines:,} lines, but its kept + duplicates + rejected + blank are {found:,}"
        problems.add(kind, message)


def check_summary(
    corpus: str, manifest: Manifest, options: Options, statistics: Sequence[str] | None
) -> tuple[Summary | None, list[Problem]]:
    """Check `summary.json`, and return it if it can be read.

    Args:
        corpus: The directory.
        manifest: Its manifest.
        options: The options in the manifest.
        statistics: Path prefixes of the census and the counts of all parts; None if a part is missing or invalid.
    """
    problems = Problems(SUMMARY)
    try:
        data = storage_of(corpus).read_all(summary_path(corpus, manifest))
        digest = sha256(data).hexdigest()
        problems.compare("file.sha256", "SHA-256", _manifest_says(manifest.summary_sha256), _file_has(digest))
        summary = Summary.from_json(data)
    except (FileNotFoundError, CorpusError):  # reported as a missing file, or as a bad name in the manifest
        return None, []
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
        return None, list(problems)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        problems.add("summary.unreadable", f"is not a summary: {exc}")
        return None, list(problems)
    _check_counts(summary, manifest, problems)
    if statistics is not None:
        _check_statistics(summary, CORPUS_LABELS[manifest.schema], options, statistics, problems)
    return summary, list(problems)


def _check_counts(summary: Summary, manifest: Manifest, problems: Problems) -> None:
    """Check that the line counts of a summary add up, and agree with everything else that counts the same lines."""
    kind, counts, codes, hashes = (
        "summary.line_counts",
        summary.line_counts,
        summary.rejected_by_code,
        summary.sample_hash,
    )
    _check_line_counts(problems, kind, SUMMARY, counts)
    listed = manifest.rejects.records if manifest.rejects else 0
    others = [(name, f"the inputs in {MANIFEST} add up to", _total(manifest.inputs, name)) for name in _LINE_COUNTS]
    others += [
        ("kept", f"{MANIFEST} says that the number of records is", manifest.records),
        ("rejected", "its rejected_by_code adds up to", sum(codes.values())),
        ("rejected", f"{MANIFEST} says that the rejects file has", listed),
    ]
    for name, by, found in others:
        problems.compare(kind, name, _summary_says(getattr(counts, name)), Statement(by, found))
    left_out = sum(count for code, count in codes.items() if code.startswith(("conflict.", "repeat.")))
    valid, hashed = counts.kept + counts.duplicates + left_out, hashes.verified + hashes.filled + hashes.replaced
    problems.compare(kind, "valid lines", _summary_says(valid), Statement("its sample_hash adds up to", hashed))
    repaired, notes = Counter(summary.repaired.by_code), Counter(summary.notes)
    inputs = sum((Counter(entry.repaired) for entry in manifest.inputs), Counter())
    for code in sorted(repaired.keys() | inputs.keys() | (notes.keys() & REPAIRS.keys())):
        name, claim = f"lines with {code}", _summary_says(repaired[code])
        problems.compare(kind, name, claim, Statement(f"the inputs in {MANIFEST} add up to", inputs[code]))
        problems.compare(kind, name, claim, Statement("its notes have", notes[code]))


def _total(inputs: Sequence[InputEntry], name: str) -> int:
    return sum(getattr(entry, name) for entry in inputs)


def _check_statistics(
    summary: Summary, schema: Schema, options: Options, statistics: Sequence[str], problems: Problems
) -> None:
    """Build the summary again from the records, and compare everything that depends only on them."""
    tally = read_part_counts(statistics).tally
    found = summarize(
        msgspec.structs.replace(summary.line_counts, kept=tally.interaction_types.total()),
        summary.rejected_by_code,
        msgspec.structs.replace(summary.sample_hash, algorithm=options.hash_algorithm),
        tally,
        read_census(statistics),
        schema=schema,
        versions=summary.versions,
        notes=summary.notes,
        repaired=summary.repaired,
        repairable=summary.repairable,
        same_run=summary.same_run,
    )
    for option, identities in (("conflicts", found.contradictions), ("repeats", found.repeats)):
        if (choice := getattr(options, option)) != "keep":
            for one in identities.examples:
                where = f"{one.evaluation_name!r}, {one.model_id!r}, {one.sample_id!r}"
                message = f"the parts have {counted(one.records, option[:-1])} of {where}, although "
                problems.add("corpus.conflict", f"{message}{MANIFEST} says {option}: {choice}")
    if options.leaves_out:  # the summary also counts the records that were left out
        found.repeats, found.contradictions = summary.repeats, summary.contradictions
    claim, other = _summary_says(_plain(summary, options)), Statement("the parts give", _plain(found, options))
    problems.compare_documents("summary.statistics", "", claim, other)


def _plain(summary: Summary, options: Options) -> Any:
    """Convert a summary to plain values, with evaluations and models by name."""
    plain = msgspec.to_builtins(summary)
    for evaluation in plain["evaluations"]:
        evaluation["by_model"] = {model["model_id"]: model for model in evaluation["by_model"]}
        if options.leaves_out:
            del evaluation["ids_with_many_hashes"]  # it also counts records that were left out
    plain["evaluations"] = {_title(evaluation): evaluation for evaluation in plain["evaluations"]}
    return plain


def _title(evaluation: dict[str, Any]) -> str:
    name, metric = evaluation["evaluation_name"], evaluation["metric"]
    return name if metric is None else f"{name} · {metric}"


def check_rejects(
    corpus: str, listed: RejectsEntry, summary: Summary | None, inputs: Sequence[InputEntry]
) -> Iterator[Problem]:
    """Check the rejects file: its checksum, its lines, their order, and that all line counts agree with it."""
    path = join(corpus, listed.file)
    problems = Problems(listed.file)
    try:
        size, digest = sha256_of_file(path)
        problems.compare("file.bytes", "size", _manifest_says(listed.bytes), _file_has(size))
        problems.compare("file.sha256", "SHA-256", _manifest_says(listed.sha256), _file_has(digest))
        codes, sources, repairs = _read_rejects(path, problems)
    except FileNotFoundError:  # reported as a missing file
        return
    except ShardError as exc:
        problems.add("file.unreadable", exc.reason)
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
    else:
        problems.compare("rejects.count", "rejected lines", _manifest_says(listed.records), _file_has(codes.total()))
        rejected: Counter[str] = Counter()
        for entry in inputs:
            rejected[entry.path] += entry.rejected
        _compare_counts("of", _manifest_says, rejected, sources, problems)
        if summary is not None:
            _compare_counts("of code", _summary_says, Counter(summary.rejected_by_code), codes, problems)
            repairable = Counter(summary.repairable.by_code | {_ANY: summary.repairable.lines})
            _compare_counts("to be kept with", _summary_says, repairable, repairs, problems)
    yield from problems


def _read_rejects(path: str, problems: Problems) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count the rejected lines by code, by source and by repair, and report those that are damaged or out of order."""
    codes: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    previous = ("", 0)
    for number, line in numbered_lines(path):
        try:
            rejected = decode_rejected(path, number, line)
        except CorpusError as exc:
            problems.add("rejects.entry", exc.reason, number)
            continue
        codes[rejected.code] += 1
        sources[rejected.source] += 1
        if rejected.repairs:
            repairs.update([_ANY, *rejected.repairs])
        location = (rejected.source, rejected.line)
        if location <= previous:
            message = f"expected a line after {previous[0]}:{previous[1]}, found {location[0]}:{location[1]}"
            problems.add("rejects.order", message, number)
        previous = location
    return codes, sources, repairs


def _compare_counts(
    what: str, says: Callable[[int], Statement], listed: Counter[str], found: Counter[str], problems: Problems
) -> None:
    for name in sorted({*listed, *found}):
        problems.compare("rejects.count", f"rejected lines {what} {name}", says(listed[name]), _file_has(found[name]))
