"""`import.json`: the account of an import, log by log."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from fastrec.harnesses.log import BadLog

__all__ = ["IMPORT_FILE", "BadLog", "Comparison", "Import", "ImportedLog", "MetricAccount", "agrees"]

IMPORT_FILE: Final = "import.json"
_TOLERANCE: Final = 1e-6  # some harnesses compute means with 32-bit floats


def agrees(stated: float, recomputed: float) -> bool:
    """Return whether two means are equal but for rounding.

    >>> agrees(0.6666666666, 2 / 3), agrees(0.66, 2 / 3)
    (True, False)
    """
    return math.isclose(stated, recomputed, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


class MetricAccount(msgspec.Struct):
    """The records of one metric."""

    records: int
    """Its records."""
    scored: int
    """Records whose score is a number. The others have an `error`."""
    mean: float | None
    """The mean of these scores; null if there is none."""
    graded: bool
    """Whether some score is neither 0 nor 1, or lower scores are better: then `is_correct` means full marks, or
    nothing."""


class Comparison(msgspec.Struct):
    """A figure that a log states, and the same figure computed from its records."""

    name: str
    """What the log calls it."""
    metric: str
    """The `evaluation_result_id` of the records, or empty if it is a number of samples."""
    stated: float
    """What the log says."""
    recomputed: float | None
    """What the records give; null if no record has such a score."""
    agrees: bool
    """Whether both are equal but for rounding."""


class ImportedLog(msgspec.Struct, kw_only=True):
    """One log and its shard."""

    log: str
    """The path of the log as it was found."""
    harness: str
    """The harness that wrote it."""
    file: str
    """The name of its shard in the output directory."""
    evaluation_id: str
    evaluation_name: str
    model_id: str
    harness_version: str
    """Its version, if the log says it."""
    samples: int
    """Samples found."""
    records: int
    """Records written: one per sample and metric."""
    errors: int
    """Records with an `error`, for example because their score is not a number."""
    metrics: dict[str, MetricAccount]
    """By `evaluation_result_id`."""
    left_out: dict[str, int]
    """Samples without a record, counted by reason."""
    metrics_left_out: dict[str, int]
    """Scores of metrics that no --metric matches, counted by metric."""
    comparisons: list[Comparison]
    """Means and numbers of samples that the log states."""
    not_compared: dict[str, str]
    """Figures of the log that cannot be recomputed, each with the reason."""
    notes: list[str]
    """Remarks about the log, for example that the run did not finish."""

    @property
    def disagreements(self) -> list[Comparison]:
        """What the records do not reproduce."""
        return [one for one in self.comparisons if not one.agrees]


class Import(msgspec.Struct, kw_only=True):
    """The account of an import."""

    format: int = 1
    """The version of this document."""
    fastrec: str
    """The version of fastrec."""
    logs: list[ImportedLog] = []
    """In the order of the input."""
    bad_logs: list[BadLog] = []
    """Logs that could not be imported, each with the reason."""
    same_logs: dict[str, str] = {}
    """Logs with the same content as another one, which was imported."""
    other_files: int = 0
    """Files that were found, but are not needed or belong to no harness."""
