"""Sizes, counts and waiting times that bound the work, in one object that callers can replace.

Code asks for `current_limits` where it needs a limit, and engines carry them to their workers.
Tests use smaller limits (`use_limits`) to reach with a few kilobytes what otherwise takes
gigabytes. A new thread starts with the default ones.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from msgspec import Struct


class Limits(Struct, frozen=True):
    """The limits of a run. None of them changes the records of a corpus."""

    # Reading and judging
    # text judged at a time: a chunk and its normal form fit into the processor's cache
    chunk_bytes: int = 1 << 18
    # groups of findings that `validate` and `rejects` list; more count by code only
    finding_groups: int = 1_000

    # Stats and the HTML report
    shown_answers: int = 100_000  # answers to a question that `show` and `view` show, in 3 KB each
    # models that are tested against each other, all pairs: five matrices of 32 MB
    compared_models: int = 2_000
    board_columns: int = 20_000  # evaluations of a leaderboard
    board_cells: int = 1_000_000  # evaluations × models of a leaderboard
    report_columns: int = 100  # evaluations shown in the leaderboard
    report_rows: int = 20_000  # rows of all tables of models together
    # evaluations, with one metric each, that have tables and charts
    report_scopes: int = 200

    # Tasks
    # text per task: large enough to hide its fixed costs, small enough to spread evenly
    task_bytes: int = 32 << 20
    # less text than this is handled by one process, because starting others takes longer
    small_input: int = 8 << 20

    # Normalize
    # text per chunk of a shard that the driver decompresses
    decompressed_chunk_bytes: int = 16 << 20
    run_bytes: int = 40 << 20  # text per run of a small input, if memory allows it
    few_runs: int = 128  # larger inputs are sorted into so many runs, if memory allows it
    most_tasks: int = 1 << 16  # of pass 1: the driver holds a few kilobytes per task
    most_fences: int = 1 << 19  # of all runs, in 100 MB of the driver
    window_bytes: int = 8 << 20  # most text of a part merged at a time, if there are few runs
    # bytes to read of a run at a time, if memory allows it for all runs
    read_bytes: int = 256 << 10
    # more runs than this on a disk are merged before pass 2; fewer cost more than they save
    unmerged_runs: int = 5_000
    unmerged_store_runs: int = 512  # the same in an object store, where each read is a request
    # runs after merging; with this many, a part of 64 MiB reads 256 KiB of each
    merged_runs: int = 256
    merge_fan_in: int = 256  # most runs merged at a time
    least_merge_fan_in: int = 8  # fewest runs merged at a time, so that a round pays off
    # most borders held to choose cuts, in 130 MB: 8 per part; beyond that, parts grow
    most_borders: int = 1 << 19
    # a corpus of fewer parts than this, about, gets smaller ones, so that all workers are busy
    fewest_parts: int = 8
    # but not smaller than this: a part costs some milliseconds, and is compressed by itself
    least_part: int = 16 << 20
    # most parts of a corpus; beyond that, parts are larger; their names have five digits
    most_parts: int = 1 << 16

    # Summary
    group_results: int = 100_000  # models on metrics of groups (`--group-by`), in 5 KB each
    # models on metrics of evaluations; the summary holds all of them, in 2 KB each
    most_results: int = 1_000_000
    # census lists merged at a time; lists of more parts are partitioned and counted in tasks.
    census_fan_in: int = 64
    # With ten thousand models, a list of 3 MB is one row, and is held twice while it is decoded.
    census_partitions: int = 32  # partitions of the census, if there are more parts than that
    part_counts_per_task: int = 256  # parts whose counts one task adds up

    # Object stores
    # time limit of a request that sends data: an object, or a part of 16 MiB
    store_request_seconds: float = 300.0
    # a store whose request fails after more than this does not answer at all
    store_slow_seconds: float = 60.0
    # time for which a store that does not answer is not asked again
    store_rest_seconds: float = 60.0
    # request of a sequential read; it takes much longer than the round trip
    store_block_bytes: int = 8 << 20

    # Engines
    pool_look_seconds: float = 1.0  # time between two checks of the worker processes of a pool
    # time without any progress of any worker after which a pool is ended
    pool_silent_seconds: float = 300.0
    pool_leave_seconds: float = 5.0  # time for idle workers of a pool to end before they are killed
    # time for a scheduler and a first worker to answer at the start
    cluster_connect_seconds: float = 10.0
    # time without scheduler, workers or answers after which a run fails
    cluster_patience_seconds: float = 30.0
    # time after which the workers of a cluster are counted again
    cluster_count_seconds: float = 5.0

    # Publishing
    # time for the workers of a killed run to end, and to release its lock
    lock_wait_seconds: float = 5.0
    lease_renew_seconds: float = 20.0  # time between two renewals of a lease
    # time without renewal after which the holder of a lease is presumed dead
    lease_lapse_seconds: float = 120.0

    # Reading a corpus: cat, diff, export
    # buffer for skimming a part; with more, skimming two parts in turns is slower
    skim_bytes: int = 1 << 18
    cat_block_bytes: int = 1 << 20  # text that `cat` copies at a time from the file of a worker
    # records of a range that `diff` compares at a time, in about 300 bytes each
    diff_range_records: int = 1 << 16
    # paths that a task of `diff` counts one by one; free-form objects may have any number
    diff_fields: int = 1_000
    parquet_group_bytes: int = 32 << 20  # text of a row group in a Parquet file


_Value = TypeVar("_Value")

LIMITS = Limits()  # what is used unless a caller says otherwise
_current = ContextVar("limits", default=LIMITS)


def current_limits() -> Limits:
    return _current.get()


@contextmanager
def use_limits(limits: Limits) -> Iterator[None]:
    """Use these limits in this block."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def in_batches(values: Sequence[_Value], most: int) -> Iterator[Sequence[_Value]]:
    """All values in their order, at most so many at a time."""
    return (values[first : first + most] for first in range(0, len(values), most))
