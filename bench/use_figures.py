"""Figures of the set `use`: commands that read a corpus."""

from __future__ import annotations

from typing import Final

from bench.contenders import CAT, DIFF, EXPORT, NORMALIZE, READING
from bench.trials import Trial
from bench.values import Figure

__all__ = ["USE_FIGURES"]


def _by_key_range(*options: str) -> Figure:
    """How long `cat` takes if the key ranges in the manifest lead to the records."""
    name = "published-mixed-x4"
    return Figure(
        name=f"cat {options[0]}{' --limit' if '--limit' in options else ''}, 1 GB of text",
        title="cat of records found by key range, whole process",
        trials=(Trial(CAT, name, options=options),),
        value=lambda runs: runs[0].seconds,
        unit="s",
        target=0.5,
        set="use",
    )


def _by_search(name: str, *options: str) -> Figure:
    """`cat` where every part must be searched, relative to bare decompression."""
    return Figure(
        name=f"cat {options[0]} / decompression, {name}",
        title="throughput of cat when it searches all parts ÷ bare decompression of them, same "
        "jobs",
        trials=(Trial(CAT, name, options=options), Trial(READING, name)),
        value=lambda runs: runs[1].seconds / runs[0].seconds,
        better="higher",
        target=0.7,
        set="use",
    )


def _export(name: str) -> Figure:
    """`export` to Parquet relative to `normalize` of the same records."""
    return Figure(
        name=f"export / normalize, {name}",
        title="throughput of export to Parquet ÷ normalize of the same records, same jobs",
        trials=(Trial(EXPORT, f"published-{name}"), Trial(NORMALIZE, name)),
        value=lambda runs: runs[1].seconds / runs[0].seconds,
        better="higher",
        target=0.5,
        set="use",
    )


def _of_decompression(name: str, jobs: int, target: float | None) -> Figure:
    return Figure(
        name=f"diff of decompression, {name}, {jobs} jobs",
        title="speed of diff ÷ bare decompression of both corpora, same jobs",
        trials=(Trial(DIFF, name, jobs=jobs), Trial(READING, name, jobs=jobs)),
        value=lambda runs: runs[1].seconds / runs[0].seconds,
        better="higher",
        target=target,
        set="use",
    )


def _flat(command: str, ten: str, one: str, *options: str) -> Figure:
    """Peak memory of a command that reads a whole corpus, with one job: a small corpus cannot keep two busy."""
    return Figure(
        name=f"10 × the records: memory of {command.removeprefix('fastrec ')}",
        title=f"peak memory of {command} for ten times the records, one job; flat is 1",
        trials=tuple(Trial(command, name, jobs=1, options=options) for name in (ten, one)),
        value=lambda runs: runs[0].peak_bytes / runs[1].peak_bytes,
        target=1.25,
        set="use",
    )


USE_FIGURES: Final[tuple[Figure, ...]] = (
    _by_key_range("--hash", "8" * 64),
    _by_key_range("--evaluation", "trivia_choice", "--limit", "10"),
    *(
        _by_search(name, "--model", "v0-org-6/model-1b")
        for name in ("published-mixed-x4", "published-real-x10")
    ),
    *(
        _by_search(name, "--sample-id", "5")
        for name in ("published-mixed-x4", "published-real-x10")
    ),
    *map(_export, ("mixed", "real-x10")),
    *(_of_decompression("nights", jobs, 0.6) for jobs in (1, 2)),
    _of_decompression("nights-anew", 2, None),
    _flat(CAT, "published-real-x10", "published-real", "--sample-id", "5"),
    _flat(DIFF, "nights", "nights-small"),
)
