"""`rejects`: list the rejected lines of a corpus, or write them to a file to be fixed.

A rejected line is listed under its first error, as in the summary, so the counts add up to all
rejected lines. The other errors of these lines are listed with it, so that nobody has to fix a line
twice.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import asdict

from fastrec.corpus.manifest import MANIFEST
from fastrec.corpus.reader import open_corpus
from fastrec.corpus.rejects import CODES, RejectedLine, decode_rejected
from fastrec.errors import UsageError, did_you_mean, shown
from fastrec.filters import Strings, as_tuple
from fastrec.json_documents import CountsByName, sorted_counts
from fastrec.judge.findings import Finding, FindingGroup, FindingGroups, Location
from fastrec.normalize.corrections import PLACES, Place
from fastrec.notebook import Tabular
from fastrec.parameters import AnyPath
from fastrec.sources.shard import numbered_lines
from fastrec.storage import file_in, join
from fastrec.storage.base import NewFile
from fastrec.storage.local import LOCAL


class RejectGroup(FindingGroup):
    """Rejected lines whose first errors have the same code, path but for indices, and version."""

    #: Lines that `--repair all` would keep.
    repairable: int = 0
    #: Their other errors, the most frequent first; at most nine.
    further: list[FindingGroup] = []
    #: How many errors are neither first nor in `further`.
    unlisted: int = 0


_MOST_FURTHER = 9  # with the first error, a line has ten


class Rejects(Tabular):
    """Rejected lines, grouped by the first error of each line."""

    #: Rejected lines with the chosen codes.
    lines: int
    #: Lines by code.
    codes: CountsByName
    #: By the code, path but for indices, and version of the first error, the most frequent first.
    groups: list[RejectGroup]
    #: Lines that `--repair all` would keep.
    repairable: int
    #: By the code of a repair; a line may need several.
    repairable_by_code: CountsByName
    #: With `--extract`: lines that are too long to be written; see their shard.
    truncated: list[Location]


def rejects(
    corpus: AnyPath,
    *,
    code: Strings = (),
    extract: AnyPath | BinaryIO | None = None,
) -> Rejects:
    """List the rejected lines of a corpus.

    Args:
        corpus: A directory that `normalize` published.
        code: Only lines whose first error has this code, or one of these.
        extract: Also write the lines to this new file, in the order of the rejects file: the exact
            bytes of the input, each with a newline. Beside it, a file with the suffix
            `.places.jsonl` says where each line was, for `normalize(..., fixes=...)`. Records that
            `--conflicts` left out are written in normal form.

    Raises:
        UsageError: The directory is not a corpus, a code does not exist, or the file to write
            exists.
        CorpusError: The manifest or the rejects file is damaged.
        ShardError: The rejects file cannot be read completely.
        OSError: The file cannot be written.
    """
    findings = FindingGroups()
    truncated = []
    repairs = Counter[str]()
    repairable = 0
    others: dict[int, _Others] = {}  # by the id of the group of the first error
    with _opened(extract) as (file, places):
        for line in _rejected_lines(corpus, as_tuple("code", code)):
            first = Finding(line.code, line.path, line.message)
            group = findings.add(first, line.source, line.line, line.version or None)
            repairable += bool(line.repairs)
            repairs.update(line.repairs or ())
            if group:
                others.setdefault(id(group), _Others()).add(line)
            if file is not None and line.truncated is True:
                truncated.append(Location(line.source, line.line))
            elif file is not None:
                raw = line.exact_bytes()
                file.write(raw + b"\n")
                if places:
                    place = Place(line.source, line.line, line.offset, sha256(raw).hexdigest())
                    places.write(msgspec.json.encode(place) + b"\n")
    return Rejects(
        lines=findings.codes.total(),
        codes=sorted_counts(findings.codes),
        groups=[others[id(group)].reject_group(group) for group in findings.in_order()],
        repairable=repairable,
        repairable_by_code=sorted_counts(repairs),
        truncated=truncated,
    )


class _Others(msgspec.Struct):
    """What is said about the lines of a group besides their first errors."""

    _further: FindingGroups = msgspec.field(default_factory=lambda: FindingGroups(_MOST_FURTHER))
    _repairable: int = 0
    _unlisted: int = 0

    def add(self, line: RejectedLine) -> None:
        self._repairable += bool(line.repairs)
        self._unlisted += sum((line.unlisted or {}).values())
        for finding in (line.errors or ())[1:]:
            self._further.add(finding, line.source, line.line, line.version or None)

    def reject_group(self, group: FindingGroup) -> RejectGroup:
        further = self._further.in_order()
        not_grouped = self._further.codes.total() - sum(group.count for group in further)
        return RejectGroup(
            **asdict(group),
            repairable=self._repairable,
            further=further,
            unlisted=self._unlisted + not_grouped,
        )


@contextmanager
def _opened(
    target: AnyPath | BinaryIO | None,
) -> Iterator[tuple[BinaryIO | NewFile | None, NewFile | None]]:
    """Open the target and the file beside it, which must be new, so that no fixed lines are lost.

    They appear when they are complete. A stream has no file beside it.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target, None
        return
    with _new(Path(target)) as file, LOCAL.create(os.fspath(target) + PLACES) as places:
        yield file, places


def _new(path: Path) -> NewFile:
    if path.exists():
        raise UsageError(
            f"{shown(str(path))} exists; choose a new file, so that nothing in it is lost"
        )
    return LOCAL.create(str(path))


def _rejected_lines(corpus: AnyPath, codes: Collection[str]) -> Iterator[RejectedLine]:
    for code in codes:
        if code not in CODES:
            hint = did_you_mean(code, CODES) or f"; the codes are {', '.join(CODES)}"
            raise UsageError(f"there is no code {code!r}{hint}")
    reader = open_corpus(corpus)
    listed = reader.manifest.rejects
    if not listed:
        return
    path = file_in(reader.path, listed.file, join(reader.path, MANIFEST))
    for number, data in numbered_lines(path):
        line = decode_rejected(path, number, data)
        if not codes or line.code in codes:
            yield line
