"""Sizes, counts and waiting times that bound the work, in one object that callers can replace.

Functions that need a limit take a `Limits`, and tasks carry one to their worker. Tests pass smaller limits to reach
with a few kilobytes what otherwise takes gigabytes.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["LIMITS", "Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run. None of them changes the records of a corpus."""

    # reading and judging
    chunk_bytes: int = 1 << 18
    """Text that is judged at a time: a chunk and its normal form fit into the processor's cache."""
    finding_groups: int = 1_000
    """Groups of equal findings that `validate` and `rejects` list; findings of further groups count by code only."""

    # stats and the HTML report
    stats_batch_records: int = 20_000
    """Records that `stats --common` adds to a tally at a time."""
    report_columns: int = 100
    """Evaluations shown in a heat map."""
    report_cells: int = 20_000
    """Cells of a heat map."""
    report_rows: int = 20_000
    """Rows of all tables of models together."""
    report_charts: int = 200
    """Evaluations with histograms."""

    # Tasks
    task_bytes: int = 32 << 20
    """Text per task: large enough to hide its fixed costs, small enough to spread evenly over workers."""
    small_input: int = 8 << 20
    """Less text than this is handled by one process, because starting others takes longer."""

    # Normalize
    decompressed_chunk_bytes: int = 16 << 20
    """Text per chunk of a shard that the driver decompresses."""
    run_bytes: int = 40 << 20
    """Most text per run, if memory allows it."""
    window_bytes: int = 8 << 20
    """Most text of a part merged at a time, if there are few runs."""
    wide_window_bytes: int = 4 << 30
    """Most text merged at a time, if there are many runs and memory allows it."""
    read_bytes: int = 256 << 10
    """Bytes to read of a run at a time, if memory allows it for all runs."""
    unmerged_runs: int = 512
    """More runs than this are merged before pass 2. Merging fewer would cost more than it saves."""
    merged_runs: int = 256
    """Runs after merging. With this many, a part of 64 MiB reads 256 KiB of each."""
    merge_fan_in: int = 256
    """Most runs merged at a time."""
    least_merge_fan_in: int = 8
    """Fewest runs merged at a time, so that a round pays off."""
    sample_one_in: int = 32
    """Initial sampling rate of keys. It changes where parts are cut."""
    sampled_keys: int = 1 << 19
    """Most sampled keys, in 160 MB: at least 4 per part. It changes where parts are cut."""
    most_parts: int = 1 << 16
    """Most parts of a corpus; beyond that, parts are larger. Their names have five digits."""

    # Summary
    census_fan_in: int = 256
    """Census lists that are merged at a time; of more parts, the lists are partitioned and counted in tasks."""
    census_partitions: int = 32
    """Partitions of the census, if there are more parts than that."""
    part_counts_per_task: int = 256
    """Parts whose counts one task adds up."""

    # Object stores
    store_request_seconds: float = 300.0
    """Time limit of a request that sends data: an object, or a part of 16 MiB."""
    store_slow_seconds: float = 60.0
    """A store whose request fails after more than this does not answer at all."""
    store_rest_seconds: float = 60.0
    """Time for which a store that does not answer is not asked again."""
    store_block_bytes: int = 8 << 20
    """Size of a request when an object is read sequentially; it takes much longer than the round trip."""

    # Engines
    pool_look_seconds: float = 1.0
    """Time between two checks of the worker processes of a pool."""
    pool_leave_seconds: float = 5.0
    """Time for idle workers of a pool to end before they are killed."""
    cluster_connect_seconds: float = 10.0
    """Time for a scheduler and a first worker to answer at the start."""
    cluster_patience_seconds: float = 30.0
    """Time without scheduler, workers or answers after which a run on a cluster fails."""
    cluster_count_seconds: float = 5.0
    """Time after which the workers of a cluster are counted again."""

    # Publishing
    lock_wait_seconds: float = 5.0
    """Time for the workers of a killed run to end, and to release its lock."""
    lease_renew_seconds: float = 20.0
    """Time between two renewals of a lease."""
    lease_lapse_seconds: float = 120.0
    """Time without renewal after which the holder of a lease is presumed dead."""

    # Reading a corpus: cat, diff, export
    skim_bytes: int = 1 << 18
    """Buffer for skimming a part. It fits into the cache; diff, which skims two parts in turns, is slower with more."""
    cat_block_bytes: int = 1 << 20
    """Text that `cat` copies at a time from the file of a worker."""
    diff_range_parts: int = 3
    """Parts of the old corpus in one range: enough that little is read twice, few enough to keep workers busy."""
    diff_position_bytes: int = 256 << 20
    """Text of all records of one sort position, which `diff` holds in memory."""
    diff_fields: int = 1_000
    """Paths that a task of `diff` counts one by one: free-form objects can have any number of keys."""
    parquet_group_bytes: int = 32 << 20
    """Text of a row group in a Parquet file."""


LIMITS: Final = Limits()
"""What is used unless a caller says otherwise."""
