"""`verify`: check a published corpus against its manifest, its summary and its own rules, and name all that is wrong.

1. Read the manifest (`corpus`), and see that the files are there that it names, and no others.
2. One task per part (`part`): checksums, every line in normal form, the order, what the records add up to.
3. Compare each part with its entry in the manifest, and with the part before it.
4. Check the books (`books`): totals, the summary, against one written anew from the parts, and the rejects.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from fastrec.commands.verify.books import check_manifest, check_rejects, check_summary
from fastrec.commands.verify.compare import compare_documents, expected
from fastrec.commands.verify.part import CheckedPart, PartToCheck, check_part
from fastrec.commands.verify.problems import KINDS, Problem, Problems
from fastrec.corpus.documents import MANIFEST, SUMMARY, is_plain, read_manifest
from fastrec.corpus.manifest import Manifest, PartEntry, key_entry
from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import CorpusError, UsageError, utf8
from fastrec.normalize.options import Options
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS
from fastrec.storage import storage_of
from fastrec.storage.paths import is_url, join

__all__ = ["KINDS", "Problem", "Verification", "verify"]


class Verification(msgspec.Struct, kw_only=True):
    """What came of checking a corpus: what was looked at, and all that is wrong."""

    corpus: str
    """Its path, as it was given."""
    parts: int = 0
    """Parts that were read."""
    records: int = 0
    """Records in them."""
    text_bytes: int = 0
    """Text in them."""
    seconds: float = 0.0
    """How long it took."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    """All that is wrong, at most 20 of a file listed one by one; none if the corpus is sound."""
    notices: list[str] = msgspec.field(default_factory=list)
    """What is good to know."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(corpus: str | os.PathLike[str], *, jobs: int = 1) -> Verification:
    """Check a published corpus.

    Args:
        corpus: The directory that `normalize` published.
        jobs: Processes to use; a small corpus is checked in this one anyway.

    Raises:
        UsageError: The directory is no corpus, or another argument makes no sense.
        OSError: The manifest or the directory may not be read.
    """
    started = time.perf_counter()
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
    verification = Verification(corpus=utf8(os.fspath(corpus)))
    try:
        manifest = read_manifest(os.fspath(corpus))
        options = _options_of(manifest)
    except CorpusError as exc:
        verification.problems.append(Problem(MANIFEST, None, "manifest.unreadable", exc.reason))
    except _OptionsError as exc:
        verification.problems.append(Problem(MANIFEST, None, "manifest.options", str(exc)))
    else:
        _Verifier(os.fspath(corpus), manifest, options, verification).run(jobs)
    verification.seconds = time.perf_counter() - started
    return verification


class _OptionsError(Exception):
    """The options in a manifest make no sense."""


def _options_of(manifest: Manifest) -> Options:
    """Read the options that a corpus was made with."""
    if manifest.schema not in SCHEMAS:
        raise _OptionsError(f"schema: {expected(DEFAULT_SCHEMA.name, manifest.schema)}")
    try:
        options = msgspec.convert({**manifest.options, "sort_by": manifest.sort_fields}, Options)
    except (msgspec.ValidationError, UsageError) as exc:
        raise _OptionsError(str(exc)) from exc
    if options.sort_fields != manifest.sort_fields:
        raise _OptionsError(f"sort_fields: expected all fields of a key, found {', '.join(manifest.sort_fields)}")
    return options


def _files_of(corpus: str) -> dict[str, bool]:
    """Tell what is in a directory, and whether it is a file. Names are as they can be written: they may be anything."""
    found: dict[str, bool] = {}
    for path in storage_of(corpus).files_in(corpus):
        name = path.removeprefix(join(corpus, ""))
        found[utf8(name)] = is_url(path) or os.path.isfile(path)  # noqa: PTH113
    return found


class _Verifier:
    """The check of one corpus whose manifest can be read."""

    def __init__(self, corpus: str, manifest: Manifest, options: Options, verification: Verification) -> None:
        self._corpus = corpus
        self._there = _files_of(corpus)
        self._manifest = manifest
        self._options = options
        self._verification = verification
        self._problems = verification.problems

    def run(self, jobs: int) -> None:
        manifest = self._manifest
        self._problems += self._check_files()
        self._problems += check_manifest(manifest)
        with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
            checked = self._check_parts(scratch, jobs)
            self._compare(checked)
            whole = len(checked) == len(manifest.parts) and all(part.valid for part in checked.values())
            if not whole:
                self._verification.notices.append(
                    f"the statistics in {SUMMARY} were not checked: not every part is there and holds records alone"
                )
            census = [self._census(scratch, number) for number in sorted(checked)]
            summary, problems = check_summary(self._corpus, manifest, self._options, census if whole else None)
        self._problems += problems
        if manifest.rejects is not None and is_plain(manifest.rejects.file):
            self._problems += check_rejects(self._corpus, manifest.rejects, summary, manifest.inputs)

    def _check_files(self) -> Iterator[Problem]:
        """Compare what is there with what the manifest names."""
        names = [part.file for part in self._manifest.parts]
        rejects = [self._manifest.rejects.file] if self._manifest.rejects else []
        odd = [name for name in names + rejects if not is_plain(name)]
        odd += [high for low, high in pairwise(names) if (len(low), low) >= (len(high), high)]
        for name in odd:
            yield Problem(MANIFEST, None, "manifest.files", f"expected names of parts in order, found {name!r}")
        named = {MANIFEST, self._manifest.summary_file, *names, *rejects}
        for name in sorted(named - {name for name, is_file in self._there.items() if is_file}):
            if is_plain(name):
                yield Problem(name, None, "file.missing", "expected a file, found none")
        for name in sorted(self._there.keys() - named):
            yield Problem(name, None, "file.stray", f"expected nothing that {MANIFEST} does not name")

    def _census(self, scratch: str, number: int) -> str:
        return f"{scratch}/census-{number:05d}"

    def _check_parts(self, scratch: str, jobs: int) -> dict[int, CheckedPart]:
        """Check all parts that are there, and give what was found by their number."""
        orders = [
            PartToCheck(
                number,
                join(self._corpus, entry.file),
                max(entry.text_bytes, self._options.max_line_bytes),
                self._census(scratch, number),
                self._options,
            )
            for number, entry in enumerate(self._manifest.parts)
            if is_plain(entry.file) and self._there.get(entry.file)
        ]
        text_bytes = sum(entry.text_bytes for entry in self._manifest.parts)
        with make_engine(jobs_for(text_bytes, len(orders), jobs)) as engine:
            return {result.number: result for _, result in engine.run(check_part, orders)}

    def _compare(self, checked: dict[int, CheckedPart]) -> None:
        """Compare each part with its entry, and with the part before it."""
        before: CheckedPart | None = None
        for number, entry in enumerate(self._manifest.parts):
            result = checked.get(number)
            if result is None:
                continue
            problems = Problems(entry.file)
            for kind, message in _differences(entry, result, self._manifest.sort_fields):
                problems.add(kind, message)
            if before is not None and result.records and result.first <= before.last:
                problems.add("part.order", "expected a first key above all of the part before, found one that is not")
            self._problems += problems
            self._problems += result.problems
            self._verification.parts += 1
            self._verification.records += result.records
            self._verification.text_bytes += result.written.text_bytes
            if result.records:
                before = result


def _differences(entry: PartEntry, result: CheckedPart, order: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Compare an entry of the manifest with what was found; give kinds and messages."""
    written = result.written
    facts = [("file.bytes", entry.bytes, written.bytes), ("file.sha256", entry.sha256, written.sha256)]
    if result.read:
        facts += [
            ("part.records", entry.records, result.records),
            ("part.text_bytes", entry.text_bytes, written.text_bytes),
            ("part.text_sha256", entry.text_sha256, written.text_sha256),
        ]
    for kind, said, found in facts:
        if said != found:
            yield kind, expected(said, found)
    if result.read and result.records:
        for kind, key, found_key in (("part.first", entry.first, result.first), ("part.last", entry.last, result.last)):
            said_plain, found_plain = map(msgspec.to_builtins, (key, key_entry(found_key, order)))
            for message in compare_documents(said_plain, found_plain):
                yield kind, message
