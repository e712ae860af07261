"""Plan a log: what its results say about the run, and the slices of its samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.lm_eval.files import (
    Results,
    array_items,
    chunks_of,
    count_rows,
    damaged_line,
    date_in,
    is_array,
    metric_keys,
    model_of,
    read_results,
    rows_in,
    task_hash,
)
from fastrec.harnesses.lm_eval.sample import SampleMaker
from fastrec.harnesses.lm_eval.scores import LogSlice, TaskSetup, aggregates_of, lower_is_better
from fastrec.harnesses.lm_eval.structs import decoder_of
from fastrec.harnesses.log import Log, LogPlan, RunInfo, Sample
from fastrec.harnesses.values import spell
from fastrec.sources.shard import Slice, shard_at

_SLICE_BYTES: Final = 16 << 20


class _Named(msgspec.Struct):
    filter: str | None = None


_decode_named: Final = decoder_of(_Named)


def plan(log: Log) -> LogPlan:
    """Read the results of a log; LogError if they are damaged."""
    path, task = log.files[0].path, log.task
    results = read_results(log.files[1].path)
    figures, settings = results.figures(task), results.settings(task)
    setup = _setup_of(figures, settings)
    try:
        shard = shard_at(path)
    except ShardError as exc:
        raise LogError(path, exc.reason) from exc
    is_one_array = is_array(path)
    is_one_slice = is_one_array or (len(setup.filters) > 1 and not _names_filters(path))
    pieces = [Slice(shard)] if is_one_slice else list(shard.slices(_SLICE_BYTES))
    means, others = aggregates_of(figures, settings)
    expected, notes = _expected(results, log, setup)
    return LogPlan(
        run=_run_of(results, log, lower_is_better(figures, settings, results.of_task("higher_is_better", task))),
        slices=[LogSlice(piece, is_one_array, setup) for piece in pieces],
        aggregates=means,
        not_compared=others,
        expected_samples=expected,
        notes=notes,
    )


def _setup_of(figures: Mapping[str, Any], settings: Mapping[str, Any]) -> TaskSetup:
    pairs = metric_keys(figures)
    filters = list(dict.fromkeys(name for _, name in pairs))
    listed = settings.get("filter_list")
    named = [one.get("name") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if named and (not filters or set(named) == set(filters)):  # the order in which they were applied
        filters = [name for name in named if isinstance(name, str)]

    def text(key: str, default: str = "") -> str:
        value = settings.get(key, default)
        return value if isinstance(value, str) else default

    return TaskSetup(
        question=text("doc_to_text"),
        target=text("doc_to_target"),
        delimiter=text("target_delimiter", " "),
        output_type=text("output_type"),
        metrics=tuple(dict.fromkeys(metric for metric, _ in pairs)),
        filters=tuple(filters),
    )


def _run_of(results: Results, log: Log, lower: frozenset[str]) -> RunInfo:
    model = model_of(results)
    if not model:
        raise LogError(log.files[1].path, "does not say which model was evaluated")
    started = results.started or date_in(log.files[1].path) or date_in(log.path) or f"undated-{results.digest}"
    about = {"num_fewshot": results.of_task("n_shot", log.task), "task_version": results.of_task("versions", log.task)}
    return RunInfo(
        task=log.task,
        model=model,
        started=started,
        version=spell(results.lm_eval_version) if results.lm_eval_version else "",
        metadata={key: spell(value) for key, value in about.items() if value is not None},
        never_correct=lower,
    )


def _names_filters(path: str) -> bool:
    """Return whether the samples of a file name their filter: since November 2024."""
    try:
        return next((_decode_named(line).filter is not None for line in rows_in(path)), True)
    except ValueError as exc:
        raise LogError(path, f"line 1 is not a sample of lm-eval: {exc}") from None


def _expected(results: Results, log: Log, setup: TaskSetup) -> tuple[int | None, list[str]]:
    """Return how many samples the results say there are, and notes about that."""
    figures, path = results.figures(log.task), log.files[0].path
    filters = max(len(setup.filters), 1)
    for key in ("sample_len", "samples"):
        if isinstance(count := figures.get(key), int) and count:  # 0 if nothing was scored
            return count * filters, []
    counts = results.of_task("n_samples", log.task)
    count = counts.get("effective") if isinstance(counts, dict) else None
    if not isinstance(count, int) or not count:
        return None, []
    # Of a run of chosen documents (--samples), the file states how many there are. The hash proves that all are here.
    stated = results.of_task("task_hashes", log.task)
    if is_array(path) or not stated:
        return count * filters, []
    found = count_rows(path)
    try:
        if found != count * filters and task_hash(path) == stated:
            return found, [f"the run evaluated {found // filters:,} chosen documents of {count:,}"]
    except ValueError:
        pass  # reading the samples will report the damage
    return count * filters, []


# @@ reading: Read the samples of a slice.


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
