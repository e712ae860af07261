"""lighteval: details in Parquet, one file per task, with the results of their run in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastrec.harnesses.lighteval.footer import MAGIC, read_footer
from fastrec.harnesses.lighteval.pairing import NAME, group, is_details
from fastrec.harnesses.lighteval.planning import make_plan, read_samples
from fastrec.harnesses.lighteval.results import is_results
from fastrec.harnesses.log import FoundFile, Grouped, Log, LogPlan, RunInfo, Sample

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]


def role_of(head: bytes, path: str) -> str | None:
    """Tell details by their columns, and results by their keys."""
    if not head.startswith(MAGIC):
        return "results" if is_results(head) else None
    footer = read_footer(path)
    if footer is None:  # cut: what it was cannot be known, but that it is cut should be said
        return "details"
    if is_details(footer):
        return "details"
    return "results table" if {"config_general", "results"} <= footer.columns else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """Pair details with the results of their run."""
    return group(files)


def plan(log: Log) -> LogPlan:
    """Read what a log says about its run."""
    return make_plan(log)


def samples(log: Log, run: RunInfo, piece: Any) -> Iterator[Sample]:  # noqa: ARG001
    """Read a slice."""
    return read_samples(log, piece)
