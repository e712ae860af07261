"""The result of `check-pairs`: counts, findings in groups, and files that could not be read."""

from __future__ import annotations

import msgspec

from fastrec.judge.findings import FindingGroup

__all__ = ["PairCheck"]


class PairCheck(msgspec.Struct, kw_only=True):
    """The result of checking aggregates and their samples files."""

    aggregates: int = 0
    """Aggregates found."""
    samples: int = 0
    """Samples files found."""
    pairs: int = 0
    """Aggregates that were compared with the rows of a samples file."""
    rows: int = 0
    """Rows in samples files: lines that are not blank."""
    invalid: int = 0
    """Rows that are not valid records."""
    results: int = 0
    """Results of the aggregates of these pairs."""
    reproduced: int = 0
    """Results whose score is the mean of their rows, within rounding."""
    different: int = 0
    """Results whose score is not the mean of their rows."""
    not_compared: dict[str, int] = msgspec.field(default_factory=dict)
    """Other results by the reason: `no rows`, `not a mean`, `invalid rows` or `too large`."""
    without_checksum: int = 0
    """Pairs whose aggregate states no checksum, so that damage to the samples file is not noticed."""
    without_total_rows: int = 0
    """Pairs whose aggregate does not state the number of rows."""
    ignored: int = 0
    """JSON and JSONL files that are neither aggregates nor samples files."""
    text_bytes: int = 0
    """Size of the rows, after decompression."""
    seconds: float = 0.0
    """How long it took."""
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of findings by code."""
    groups: list[FindingGroup] = msgspec.field(default_factory=list)
    """Findings with the same code and path together, errors first, then the most frequent; at most 1,000 groups."""
    bad_files: list[str] = msgspec.field(default_factory=list)
    """Files that could not be read completely, and why."""

    @property
    def ok(self) -> bool:
        """Whether there are no findings and all files were read completely."""
        return not self.codes and not self.bad_files
