"""What an upgrade to the newest version would change: the lossy and ambiguous steps of each record, for the report."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fastrec.judge.codes import CODES
from fastrec.judge.findings import Finding, FindingGroups, Location
from fastrec.judge.parse import parse
from fastrec.judge.shards import JudgedChunk
from fastrec.schemas.fast_upgrade import upgrade_record
from fastrec.schemas.registry import NEWEST_SCHEMA, schema_of
from fastrec.schemas.upgrade import upgrade_value

__all__ = ["UpgradeReport", "UpgradeStep", "report_of", "upgrade_steps"]


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
    """Yield the steps of the records of a chunk, each with the number of its line."""
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
