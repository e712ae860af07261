"""Read the samples of a slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.lm_eval.lines import array_items, chunks_of, damaged_line
from fastrec.harnesses.lm_eval.sample import SampleMaker
from fastrec.harnesses.lm_eval.setup import LogSlice
from fastrec.harnesses.log import Log, RunInfo, Sample

__all__ = ["samples"]


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the slice has all it needs
    """Read the samples of a slice; LogError if one of them is damaged."""
    assert isinstance(log_slice, LogSlice)
    try:
        maker = SampleMaker(log_slice.setup)
    except ValueError as exc:  # names of metrics that cannot be told apart
        raise LogError(log_slice.piece.shard.path, f"its metrics cannot be read: {exc}") from None
    return _of_array(maker, log_slice) if log_slice.is_array else _of_lines(maker, log_slice)


def _of_lines(maker: SampleMaker, log_slice: LogSlice) -> Iterator[Sample]:
    make, reader = maker.make, maker.reader
    for chunk in chunks_of(log_slice.piece):
        rows: Iterable[Any] | None = reader.rows(chunk.data)
        if rows is None:
            rows = (reader.row(line) for line in chunk.data.split(b"\n") if line and not line.isspace())
        number = 0
        try:
            for row in rows:
                sample = make(row)
                number += 1
                yield sample
        except (ValueError, msgspec.MsgspecError, RecursionError) as exc:
            raise damaged_line(log_slice.piece, chunk, number, str(exc)) from None


def _of_array(maker: SampleMaker, log_slice: LogSlice) -> Iterator[Sample]:
    path = log_slice.piece.shard.path
    for number, text in enumerate(array_items(path), start=1):
        try:
            sample = maker.make(maker.reader.row(text))
        except (ValueError, msgspec.MsgspecError, RecursionError) as exc:
            raise LogError(path, f"item {number:,} is not a sample of lm-eval: {exc}") from None
        yield sample
