"""Read the samples of a slice: rows of some row groups."""

from __future__ import annotations

from collections.abc import Iterator

from fastrec.errors import LogError
from fastrec.harnesses.lighteval.details import COLUMNS, FLAT_COLUMNS, details_of, flat_details_of
from fastrec.harnesses.lighteval.planning import FEWER_ROWS, LogSlice, load_parquet
from fastrec.harnesses.lighteval.sample import sample_of
from fastrec.harnesses.log import Log, RunInfo, Sample

__all__ = ["samples"]


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the slice has all it needs
    """Read the samples of a slice."""
    path = log.files[0].path
    parquet = load_parquet(path)
    row = log_slice.before
    for table in parquet.tables(path, FLAT_COLUMNS if log_slice.is_flat else COLUMNS, (log_slice.first, log_slice.end)):
        for detail in flat_details_of(table, row) if log_slice.is_flat else details_of(table):
            row += 1
            if detail.task != log_slice.task:
                raise LogError(path, f"row {row:,} is of task {detail.task!r}, the first one of {log_slice.task!r}")
            if not detail.sample_id:
                detail.sample_id = str(row - 1)
            yield sample_of(detail, log_slice.metrics)
    if row != log_slice.before + log_slice.rows:
        raise LogError(path, FEWER_ROWS)
