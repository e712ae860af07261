"""What `validate` finds: in a slice, in total, and in the log.

A worker returns `JudgedSlice` for each slice, with line numbers that count from the slice's first line. The driver
adds up the slices of a shard with `+=`, which corrects the line numbers, and then adds whole shards to the
`Validation` in the order of the inputs. A shard that cannot be read completely adds nothing but its error. The log has
every finding, except that a line lists at most a hundred errors: the workers write a file per slice, and the driver
joins these files in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Self

import msgspec

from fastrec.errors import FastrecError, shown
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import CODES, NOTES, Finding, FindingGroup, FindingGroups, Location, SliceFindings
from fastrec.judge.judge import JudgedChunk
from fastrec.judge.parse import parse
from fastrec.schemas.fast_upgrade import upgrade_record
from fastrec.schemas.registry import NEWEST_SCHEMA, schema_of
from fastrec.schemas.upgrade import upgrade_value


class UpgradeStep(msgspec.Struct):
    """A step that loses or may confuse something, and the records that it concerns."""

    code: str
    """The code, which begins with `upgrade.`."""
    meaning: str
    """What the step does to a record."""
    count: int
    """Records that it concerns."""
    locations: list[Location]
    """The first three lines with such a record."""


class UpgradeReport(msgspec.Struct):
    """What an upgrade of all valid records would change."""

    target: str
    """The newest version."""
    records: int
    """Valid records of earlier versions."""
    steps: list[UpgradeStep]
    """The steps that lose or may confuse something, the most frequent first."""


def upgrade_steps(judged: JudgedChunk) -> Iterator[tuple[int, Finding]]:
    """Yield the lossy and ambiguous steps of the records of a chunk, each with the number of its line."""
    batch = judged.batch
    start = 0
    for record, line, end in zip(batch.records, batch.numbers, batch.ends, strict=True):
        schema = schema_of(record)
        if schema is not NEWEST_SCHEMA:
            # A record of the slow path lacks its unknown keys, but its normal form has them.
            upgraded = None if batch.slow else upgrade_record(record, schema)
            _, codes = upgraded or upgrade_value(parse(bytes(judged.normal[start : end - 1]))[0], schema)
            for code in codes:
                yield line, Finding(code, "$", CODES[code].meaning)
        start = end


def report_of(groups: FindingGroups, versions: dict[str, int]) -> UpgradeReport:
    """Make the report from steps in groups, and from the valid records by version."""
    steps = [UpgradeStep(one.code, one.message, one.count, one.locations) for one in groups.in_order()]
    earlier = sum(versions.values()) - versions.get(NEWEST_SCHEMA.name, 0)
    return UpgradeReport(NEWEST_SCHEMA.name, earlier, steps)


class Validation(msgspec.Struct):
    """The result of a validation: line counts, groups of findings, and shards that could not be read."""

    lines: int = 0
    """Lines read, blank ones included."""
    valid: int = 0
    """Lines that are valid records, repaired ones included."""
    versions: dict[str, int] = msgspec.field(default_factory=dict)
    """Valid lines by schema version, the oldest first."""
    repaired: int = 0
    """Lines that are valid records because they were repaired."""
    invalid: int = 0
    """Lines that are not valid records."""
    repairable: int = 0
    """Invalid lines that repairs would make valid."""
    repairable_by_code: dict[str, int] = msgspec.field(default_factory=dict)
    """These lines by the code of a repair; a line may need several repairs."""
    blank: int = 0
    """Lines of white space only."""
    warnings: int = 0
    """Number of warnings; a line may have several."""
    text_bytes: int = 0
    """Size of the text read, after decompression."""
    shards: int = 0
    """Number of input files."""
    seconds: float = 0.0
    """How long it took."""
    stopped_early: bool = False
    """`max_errors` was reached, so the rest of the input was not checked."""
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of findings by code."""
    groups: list[FindingGroup] = msgspec.field(default_factory=list)
    """Findings with the same code, path and version together, errors first, then the most frequent; at most 1,000
    groups."""
    upgrade: UpgradeReport | None = None
    """With `upgrade_report`, what an upgrade to the newest version would change."""
    bad_shards: list[str] = msgspec.field(default_factory=list)
    """Shards that could not be read completely, and why; none of their lines count."""
    notices: list[str] = msgspec.field(default_factory=list)
    """Remarks about the input."""

    @property
    def ok(self) -> bool:
        return not self.invalid and not self.bad_shards

    def add(self, path: str, found: JudgedSlice) -> None:
        """Add the findings of a whole shard, except its groups."""
        if found.error:
            self.bad_shards.append(found.error)
            return
        for name, count in found.counts.items():
            setattr(self, name, getattr(self, name) + count)
        for name, count in found.versions.items():
            self.versions[name] = self.versions.get(name, 0) + count
        for code, count in sorted(found.repairable.items()):
            self.repairable_by_code[code] = self.repairable_by_code.get(code, 0) + count
        if found.bom:
            self.notices.append(f"{shown(path)} begins with a byte order mark, which was skipped")


class JudgedSlice(SliceFindings):
    """What `validate` finds in slices; the counts are those of `Validation`, by field."""

    versions: Counter[str] = msgspec.field(default_factory=Counter)
    upgrades: FindingGroups = msgspec.field(default_factory=lambda: FindingGroups(len(NOTES)))
    """Steps of an upgrade, each with the meaning of its code as its message."""
    repairable: Counter[str] = msgspec.field(default_factory=Counter)
    """Lines that repairs would make valid, by the code of a repair."""
    bom: bool = False
    logs: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Files with every finding, and the number to add to the line numbers in each."""
    error: str | None = None
    """Why the shard could not be read completely."""

    def __iadd__(self, other: Self) -> Self:
        lines = self.counts["lines"]
        self.upgrades.merge(other.upgrades, lines)
        self.logs += [(path, lines + base) for path, base in other.logs]
        self.versions += other.versions
        self.repairable += other.repairable
        self.bom |= other.bom
        self.error = self.error or other.error
        return super().__iadd__(other)


LocatedFinding = tuple[int, Finding, str | None]
"""The number of a line, a finding in it, and the version that the line was judged by if it is not valid."""


class LoggedFinding(msgspec.Struct):
    """A line of the log: one finding."""

    source: str
    """The shard."""
    line: int
    """Number of the line in the shard, from 1."""
    severity: str
    """`error`, `warning` or `note`."""
    code: str
    """The code."""
    path: str
    """The JSON path in the record, such as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""
    version: str | None
    """The schema version whose error it is; null for warnings and notes, and for lines without a value."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LoggedFinding).decode


def log_findings(path: str, source: str, findings: Iterable[LocatedFinding], unlisted: Iterable[InvalidLine]) -> None:
    """Append findings to the log of a slice; after those of a line, the numbers of those that it does not list."""
    more = (
        (invalid.line, Finding(code, "$", f"{count:,} more errors of this kind are not listed"), invalid.version)
        for invalid in unlisted
        for code, count in invalid.unlisted.items()
    )
    with Path(path).open("ab") as file:
        for line, finding, version in sorted((*findings, *more), key=itemgetter(0)):
            logged = LoggedFinding(source, line, finding.severity, finding.code, finding.path, finding.message, version)
            file.write(_encode(logged) + b"\n")


class FindingLog:
    """The log that the user asked for, joined from those of the slices; FastrecError if it cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._writing():
            self._file = Path(path).open("wb")  # noqa: SIM115 - see close

    def close(self) -> None:
        with self._writing():
            self._file.close()

    def add(self, found: JudgedSlice) -> None:
        """Append the findings of a shard, with corrected line numbers, and remove the files of its slices."""
        for path, line_base in found.logs:
            if not found.error:
                with Path(path).open("rb") as lines, self._writing():
                    self._file.writelines(_renumbered(lines, line_base) if line_base else lines)
            Path(path).unlink()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise FastrecError(f"the log {shown(self._path)} cannot be written: {exc.strerror}") from exc


def _renumbered(lines: Iterable[bytes], line_base: int) -> Iterator[bytes]:
    for line in lines:
        logged = _decode(line)
        logged.line += line_base
        yield _encode(logged) + b"\n"
