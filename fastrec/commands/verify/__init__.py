"""`verify`: check a published corpus against its manifest, its summary and the rules of a corpus; report every problem.

1. Read the manifest. Check that exactly the files that it lists are there.
2. One task per part (`part`) checks checksums, the normal form of every line and their order, and counts the records.
3. Compare each part with its entry in the manifest, and with the previous part.
4. Compare the sources of records (`sources`), if they are tracked, with the inputs in the manifest.
5. Check the documents (`documents`): the totals, the summary against one computed from the parts, the rejects file.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import msgspec

from fastrec.commands.verify.documents import check_manifest, check_rejects, check_summary
from fastrec.commands.verify.part import CheckedPart, CheckTask, check_part
from fastrec.commands.verify.problems import Problem, Problems, Statement
from fastrec.commands.verify.sources import check_inputs, check_listed
from fastrec.corpus.documents import MANIFEST, SUMMARY, is_plain, read_manifest
from fastrec.corpus.manifest import Manifest, files_of, key_entry, text_hash
from fastrec.corpus.scan import PartFile, run_in_order, with_progress
from fastrec.corpus.store_names import is_of_a_run
from fastrec.engine import check_jobs
from fastrec.errors import CorpusError, UsageError, counted, utf8
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.options import RECORDED, RECORDED_IF_SET, Options, options_from
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.storage import is_url, join, storage_of

__all__ = ["Verification", "verify"]

_HASH_TITLES: Final = {"text_xxh3_128": "xxh3 of text", "text_sha256": "SHA-256 of text"}


class Verification(msgspec.Struct, kw_only=True):
    """The result of checking a corpus."""

    corpus: str
    """Its path, as given."""
    parts: int = 0
    """Parts that were read."""
    records: int = 0
    """Records in these parts."""
    text_bytes: int = 0
    """Text in these parts."""
    seconds: float = 0.0
    """Duration of the check."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    """All problems, at most 20 per file one by one; empty if the corpus is OK."""
    skipped: list[str] = msgspec.field(default_factory=list)
    """Shards that could not be read when the corpus was made, with `--skip-bad-shards`; it lacks their records."""
    notices: list[str] = msgspec.field(default_factory=list)
    """Remarks for the reader."""

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def verify(
    corpus: str | os.PathLike[str], *, jobs: int = 1, progress: Progress | None = None, limits: Limits = LIMITS
) -> Verification:
    """Check a published corpus.

    Args:
        corpus: A directory that `normalize` published.
        jobs: Processes to use; a small corpus is checked in this process.
        progress: Receives the progress.
        limits: Bounds of the work.

    Raises:
        UsageError: The directory is not a corpus, or another argument is invalid.
        OSError: The manifest or the directory cannot be read.
    """
    started = time.perf_counter()
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
            _check(directory, manifest, options, verification, jobs=jobs, progress=progress, limits=limits)
        else:
            verification.problems.append(Problem(MANIFEST, None, "manifest.options", options))
    verification.seconds = time.perf_counter() - started
    return verification


def _options_of(manifest: Manifest) -> Options | str:
    """Return the options that a corpus was made with, or what is wrong with them."""
    if manifest.schema not in CORPUS_LABELS:
        return f"schema: expected {' or '.join(CORPUS_LABELS)}, found {manifest.schema}"
    known = (*RECORDED, *RECORDED_IF_SET)
    if unknown := sorted(manifest.options.keys() - set(known)):
        return f"expected only {', '.join(known)}, found {', '.join(unknown)}"
    schema = CORPUS_LABELS[manifest.schema].name
    try:
        options = options_from(manifest.options, sort_by=manifest.sort_fields, schema=schema)
    except (msgspec.ValidationError, UsageError) as exc:
        return str(exc)
    if options.sort_fields != manifest.sort_fields:
        return f"sort_fields: expected all sort fields, found {', '.join(manifest.sort_fields)}"
    return options


def _check(
    corpus: str,
    manifest: Manifest,
    options: Options,
    verification: Verification,
    *,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> None:
    """Check a corpus whose manifest can be read."""
    problems = verification.problems
    verification.skipped = manifest.skipped
    is_file = _list_files(corpus)
    if left := _leftovers(corpus, manifest, is_file):
        verification.notices.append(
            f"{counted(len(left), 'file')} of runs that have not published anything are beside the corpus: the next "
            "`normalize --overwrite` that succeeds removes those of runs that have ended"
        )
    problems += _check_files(manifest, is_file)
    problems += check_manifest(manifest)
    problems += check_listed(manifest)
    parts = [
        PartFile(join(corpus, entry.file), entry)
        for entry in manifest.parts
        if is_plain(entry.file) and is_file.get(entry.file)
    ]
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        tasks = [
            CheckTask(part, options, f"{scratch}/{number}", _sources_of(corpus, part, is_file))
            for number, part in enumerate(parts)
        ]
        results = run_in_order(check_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
        checked = list(with_progress(results, parts, progress, "check"))
        problems += _compare_parts(checked, manifest.sort_fields)
        problems += check_inputs([part.sources for part in checked if part.sources], manifest)
        verification.parts = len(checked)
        verification.records = sum(part.records for part in checked)
        verification.text_bytes = sum(part.text_bytes for part in checked)
        statistics = None
        if len(checked) == len(manifest.parts) and all(part.valid for part in checked):
            statistics = [task.statistics for task in tasks]
        else:
            verification.notices.append(
                f"the statistics in {SUMMARY} were not checked, because a part is missing or has invalid lines"
            )
        summary, found = check_summary(corpus, manifest, options, statistics)
    problems += found
    if manifest.rejects is not None and is_plain(manifest.rejects.file):
        problems += check_rejects(corpus, manifest.rejects, summary, manifest.inputs)


def _sources_of(corpus: str, part: PartFile, is_file: dict[str, bool]) -> str:
    """Return the path of the sources of a part; empty if there are none to read."""
    name = part.entry.sources.file if part.entry.sources else ""
    return join(corpus, name) if is_plain(name) and is_file.get(name) else ""


def _list_files(corpus: str) -> dict[str, bool]:
    """Return the names in a directory, made printable, and whether each is a file."""
    found: dict[str, bool] = {}
    for path in storage_of(corpus).files_in(corpus):
        name = path.removeprefix(join(corpus, ""))
        found[utf8(name)] = is_url(path) or os.path.isfile(path)  # noqa: PTH113
    return found


def _leftovers(corpus: str, manifest: Manifest, is_file: dict[str, bool]) -> list[str]:
    """Remove the files of other runs from a list, and return them: in a store, runs write their files in place."""
    if not is_url(corpus):
        return []
    left = [name for name in is_file if name not in files_of(manifest) and is_of_a_run(name)]
    for name in left:
        del is_file[name]
    return left


def _check_files(manifest: Manifest, is_file: dict[str, bool]) -> Iterator[Problem]:
    """Compare the files that are there with those that the manifest lists."""
    names = [part.file for part in manifest.parts]
    others = [part.sources.file for part in manifest.parts if part.sources]
    others += [manifest.rejects.file] if manifest.rejects else []
    bad = [name for name in names + others if not is_plain(name)]
    bad += [high for low, high in pairwise(names) if (len(low), low) >= (len(high), high)]
    for name in bad:
        message = f"expected names of files in the corpus, those of parts in ascending order, found {name!r}"
        yield Problem(MANIFEST, None, "manifest.files", message)
    listed = {MANIFEST, manifest.summary_file, *names, *others}
    for name in sorted(listed):
        if is_plain(name) and not is_file.get(name):
            yield Problem(name, None, "file.missing", f"{MANIFEST} lists this file, but it does not exist")
    for name in sorted(is_file.keys() - listed):
        yield Problem(name, None, "file.stray", f"this is here, but {MANIFEST} does not list it")


def _compare_parts(checked: Sequence[CheckedPart], sort_fields: Sequence[str]) -> Iterator[Problem]:
    """Compare each part with its entry in the manifest, and with the previous part."""
    previous: CheckedPart | None = None
    says, has = partial(Statement, f"{MANIFEST} says"), partial(Statement, "the part has")
    for part in checked:
        entry = part.part.entry
        problems = Problems(entry.file)
        problems.compare("file.bytes", "size", says(entry.bytes), has(part.size))
        problems.compare("file.sha256", "SHA-256", says(entry.sha256), has(part.sha256))
        if part.read:
            problems.compare("part.records", "records", says(entry.records), has(part.records))
            problems.compare("part.text_bytes", "bytes of text", says(entry.text_bytes), has(part.text_bytes))
            name, value = text_hash(entry)
            problems.compare(f"part.{name}", _HASH_TITLES[name], says(value), has(part.text_hash))
        if part.read and part.records:
            for name, key, found in (("first", entry.first, part.first), ("last", entry.last, part.last)):
                listed, read = map(msgspec.to_builtins, (key, key_entry(found, sort_fields)))
                problems.compare_documents(f"part.{name}", f"{name} key, ", says(listed), has(read))
        if part.records:
            if previous is not None and part.first <= previous.last:
                problems.add("part.order", "expected a first key greater than the last key of the previous part")
            previous = part
        yield from problems
        yield from part.problems
