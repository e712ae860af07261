"""Checking the books: the manifest's totals, the summary, and the rejects, against each other and the parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from fastrec.commands.verify.compare import compare_documents, expected
from fastrec.commands.verify.problems import Problem, Problems
from fastrec.corpus.documents import MANIFEST, SUMMARY, summary_path
from fastrec.corpus.manifest import InputEntry, Manifest, RejectsEntry, tree_hash
from fastrec.corpus.rejects import decode_rejected, numbered_lines
from fastrec.errors import CorpusError, ShardError
from fastrec.normalize.options import Options
from fastrec.storage import storage_of
from fastrec.storage.digests import sha256_of_file
from fastrec.storage.paths import join
from fastrec.summary.census_files import read_census
from fastrec.summary.document import LineCounts, Summary
from fastrec.summary.part_counts import read_part_counts
from fastrec.summary.summarize import summarize

__all__ = ["check_manifest", "check_rejects", "check_summary"]

_ACCOUNTS: Final = ("lines", "kept", "duplicates", "rejected", "blank")


def check_manifest(manifest: Manifest) -> Iterator[Problem]:
    """Check that the totals of a manifest are those of its parts, and that the lines of each input add up."""
    problems = Problems(MANIFEST)
    parts = manifest.parts
    totals = {
        "records": sum(part.records for part in parts),
        "text_bytes": sum(part.text_bytes for part in parts),
        "text_sha256": _tree_hash(part.text_sha256 for part in parts),
    }
    for name, found in totals.items():
        if getattr(manifest, name) != found:
            problems.add("manifest.total", f"{name}: {expected(getattr(manifest, name), found)} in the parts it lists")
    for entry in manifest.inputs:
        if unbalanced := _unbalanced(entry):
            problems.add("manifest.line_counts", f"{entry.path}: {unbalanced}")
    yield from problems


def _tree_hash(digests: Iterator[str]) -> str | None:
    try:
        return tree_hash(digests)
    except ValueError:  # a digest that is not hex; its part will be named
        return None


def _unbalanced(books: LineCounts | InputEntry) -> str:
    """Say it if lines are not accounted for."""
    found = books.kept + books.duplicates + books.rejected + books.blank
    if books.lines == found:
        return ""
    return f"expected kept + duplicates + rejected + blank = {books.lines:,} lines, found {found:,}"


def check_summary(
    corpus: str, manifest: Manifest, options: Options, census: Sequence[str] | None
) -> tuple[Summary | None, list[Problem]]:
    """Check `summary.json`, and return it if it can be read.

    Args:
        corpus: The directory.
        manifest: Its manifest.
        options: What the manifest says of options.
        census: Path prefixes of the census files of all parts; None if a part could not be read whole.
    """
    problems = Problems(SUMMARY)
    try:
        data = storage_of(corpus).read_all(summary_path(corpus, manifest))
        digest = sha256(data).hexdigest()
        if digest != manifest.summary_sha256:
            problems.add("file.sha256", expected(manifest.summary_sha256, digest))
        summary = msgspec.json.decode(data, type=Summary)
    except FileNotFoundError:  # named among the files
        return None, []
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
        return None, list(problems)
    except CorpusError:  # its name is none: said of the manifest
        return None, []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        problems.add("summary.unreadable", f"is not a summary: {exc}")
        return None, list(problems)
    _check_accounts(summary, manifest, problems)
    if census is not None:
        _check_statistics(summary, options, census, problems)
    return summary, list(problems)


def _check_accounts(summary: Summary, manifest: Manifest, problems: Problems) -> None:
    """Check that the books of a summary balance, and against all that counts the same lines."""
    books, codes = summary.line_counts, summary.rejected_by_code
    if unbalanced := _unbalanced(books):
        problems.add("summary.line_counts", unbalanced)
    conflicts = sum(count for code, count in codes.items() if code.startswith("conflict."))
    hashes = summary.sample_hash
    counts = [
        *((f"{name} of all inputs", getattr(books, name), _sum(manifest, name)) for name in _ACCOUNTS),
        ("records in the manifest", books.kept, manifest.records),
        ("rejected lines by code", books.rejected, sum(codes.values())),
        ("rejects in the manifest", books.rejected, manifest.rejects.records if manifest.rejects else 0),
        (
            "hashes verified, filled and replaced",
            books.kept + books.duplicates + conflicts,
            hashes.verified + hashes.filled + hashes.replaced,
        ),
    ]
    for name, ours, theirs in counts:
        if ours != theirs:
            problems.add("summary.line_counts", f"{name}: {expected(ours, theirs)}")


def _sum(manifest: Manifest, name: str) -> int:
    return sum(getattr(entry, name) for entry in manifest.inputs)


def _check_statistics(said: Summary, options: Options, census: Sequence[str], problems: Problems) -> None:
    """Write the summary of the records that are there, and compare all of it that depends on them alone."""
    tally = read_part_counts(census).tally
    found = summarize(
        msgspec.structs.replace(said.line_counts, kept=tally.interaction_types.total()),
        said.rejected_by_code,
        msgspec.structs.replace(said.sample_hash, algorithm=options.hash),
        tally,
        read_census(census, across_hashes=False),
    )
    if options.conflicts != "keep":
        for conflict in found.conflicts.examples:
            name, sample_id, model = conflict.evaluation_name, conflict.sample_id, conflict.model_id
            problems.add(
                "corpus.conflict",
                f"expected one record of {name!r}, {model!r}, {sample_id!r}, found {conflict.records:,}",
            )
        found.conflicts = said.conflicts
    for message in compare_documents(_plain(said, options), _plain(found, options)):
        problems.add("summary.statistics", message)


def _plain(summary: Summary, options: Options) -> Any:
    """Turn a summary into plain values, evaluations and models by name."""
    plain = msgspec.to_builtins(summary)
    for evaluation in plain["evaluations"]:
        evaluation["by_model"] = {model["model_id"]: model for model in evaluation["by_model"]}
        if options.conflicts != "keep":
            del evaluation["ids_with_many_hashes"]  # those of records that were left out count too
    plain["evaluations"] = {evaluation["evaluation_name"]: evaluation for evaluation in plain["evaluations"]}
    return plain


def check_rejects(
    corpus: str, listed: RejectsEntry, summary: Summary | None, inputs: Sequence[InputEntry]
) -> Iterator[Problem]:
    """Check the rejects file: its bytes, its entries, their order, and that the books count the same lines."""
    path = join(corpus, listed.file)
    problems = Problems(listed.file)
    try:
        size, digest = sha256_of_file(path)
        if size != listed.bytes:
            problems.add("file.bytes", expected(listed.bytes, size))
        if digest != listed.sha256:
            problems.add("file.sha256", expected(listed.sha256, digest))
        codes, sources = _read_rejects(path, problems)
    except FileNotFoundError:  # named among the files
        return
    except ShardError as exc:
        problems.add("file.unreadable", exc.reason)
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
    else:
        if codes.total() != listed.records:
            problems.add("rejects.count", expected(listed.records, codes.total()))
        wanted: Counter[str] = Counter()
        for entry in inputs:
            wanted[entry.path] += entry.rejected
        _compare_counts("of", wanted, sources, problems)
        if summary is not None:
            _compare_counts("of code", Counter(summary.rejected_by_code), codes, problems)
    yield from problems


def _read_rejects(path: str, problems: Problems) -> tuple[Counter[str], Counter[str]]:
    """Count the entries by code and by source, and name those that are broken or out of order."""
    codes: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    before = ("", 0)
    for number, line in numbered_lines(path):
        try:
            entry = decode_rejected(path, number, line)
        except CorpusError as exc:
            problems.add("rejects.entry", exc.reason, number)
            continue
        codes[entry.code] += 1
        sources[entry.source] += 1
        place = (entry.source, entry.line)
        if place <= before:
            message = f"expected a place after {before[0]}:{before[1]}, found {place[0]}:{place[1]}"
            problems.add("rejects.order", message, number)
        before = place
    return codes, sources


def _compare_counts(what: str, said: Counter[str], found: Counter[str], problems: Problems) -> None:
    for name in sorted({*said, *found}):
        if said[name] != found[name]:
            problems.add("rejects.count", f"{what} {name}: {expected(said[name], found[name])}")
