"""The figures: what is computed from trials and stages, with the targets. A figure is a row in a table.

`better` says which way is good, `unit` how to print it: `×` is a ratio, `s` seconds, `MB` megabytes, `MB/s` of text.
Ratios and memory are compared with earlier runs as they are; seconds and throughputs only relative to the calibration
of their run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from bench.corpora import available, corpus, generator_version
from bench.measure import Measured
from bench.stages import Stage
from bench.trials import Results, Trial

__all__ = [
    "FIGURES",
    "NORMALIZE",
    "SETS",
    "VALIDATE",
    "Figure",
    "Value",
    "better_stage",
    "figures_of",
    "stage_values",
    "trial_values",
    "trials_of",
]

SETS: Final = ("track", "peers", "long", "use")
Set = Literal["track", "peers", "long", "use"]
Better = Literal["lower", "higher"]

NORMALIZE, VALIDATE, FLOOR = "fastrec normalize", "fastrec validate", "bare recompression"
CAT, EXPORT, DIFF, READING = "fastrec cat", "fastrec export", "fastrec diff", "bare decompression"
_METHOD: Final = "forked-pool"
"""How trials are run, the peers included: changes whenever ratios before and after cannot be compared."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """How to compute a figure from trials, in the order in which it names them."""

    name: str
    title: str
    trials: tuple[Trial, ...]
    value: Callable[[Sequence[Measured]], float]
    better: Better = "lower"
    unit: str = "×"
    target: float | None = None
    set: Set = "track"
    tolerance: float = 0.15

    @property
    def available(self) -> bool:
        """Whether its corpora can be made here."""
        return all(available(trial.corpus) for trial in self.trials)


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as it came out; None if a contender failed, and then `error` says how."""

    name: str
    title: str
    value: float | None
    unit: str
    better: Better
    relative: float | None
    """What is compared with earlier runs."""
    of: str
    """What it was measured on: only values of the same are compared."""
    target: float | None = None
    tolerance: float = 0.15
    error: str | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        if self.target is None or self.value is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def _seconds(runs: Sequence[Measured]) -> float:
    return runs[0].seconds / runs[1].seconds


def _speedup(runs: Sequence[Measured]) -> float:
    return runs[1].seconds / runs[0].seconds


def _memory(runs: Sequence[Measured]) -> float:
    return runs[0].peak_bytes / runs[1].peak_bytes


def _floor(name: str) -> Figure:
    """`normalize` relative to bare recompression."""
    wanted = 1.1 if name in {"real-x10", "mixed"} else None
    return Figure(
        name=f"normalize / recompression, {name}",
        title="wall time of normalize ÷ bare recompression of the same shards, same level, same jobs",
        trials=(Trial(NORMALIZE, name), Trial(FLOOR, name)),
        value=_seconds,
        target=wanted,
    )


def _cpu(name: str) -> Figure:
    return Figure(
        name=f"processor time / recompression, {name}",
        title="processor time of normalize ÷ bare recompression, all processes",
        trials=(Trial(NORMALIZE, name), Trial(FLOOR, name)),
        value=lambda runs: runs[0].cpu_seconds / runs[1].cpu_seconds,
    )


def _jobs(name: str, target: float | None, command: str = NORMALIZE) -> Figure:
    return Figure(
        name=f"{command.removeprefix('fastrec ')}: 2 jobs vs 1, {name}",
        title="how many times as fast two jobs are as one",
        trials=(Trial(command, name), Trial(command, name, jobs=1)),
        value=_speedup,
        better="higher",
        target=target,
    )


def _versus(peer: str, name: str, target: float, command: str = NORMALIZE, every: int = 1) -> Figure:
    """How many times as fast as a peer; one that is slow gets every so many shards, and throughputs are compared."""
    share = _share_of_text(every)
    return Figure(
        name=f"{command.split()[1]} vs {peer}, {name}",
        title=f"how many times as fast as {peer}",
        trials=(Trial(command, name), Trial(peer, name, every=every)),
        value=lambda runs: runs[1].seconds * share(name) / runs[0].seconds,
        better="higher",
        target=target,
        set="peers",
    )


def _share_of_text(every: int) -> Callable[[str], float]:
    def share(name: str) -> float:
        source = corpus(name)
        some = sum(path.stat().st_size for path in source.paths(every))
        return source.file_bytes / some

    return share


def _memory_versus(name: str) -> Figure:
    return Figure(
        name=f"peak memory / DuckDB, {name}",
        title="peak memory of normalize ÷ DuckDB's, all processes",
        trials=(Trial(NORMALIZE, name), Trial("DuckDB", name)),
        value=_memory,
        target=0.25,
        set="peers",
    )


def _ten_times(one: str, ten: str, chosen: Set) -> tuple[Figure, Figure]:
    trials = (Trial(NORMALIZE, ten), Trial(NORMALIZE, one))
    return (
        Figure(
            name=f"10 × the records: time, {one}",
            title="time for ten times the records",
            trials=trials,
            value=_seconds,
            target=10.5,
            set=chosen,
            tolerance=0.3,  # it divides by a short run
        ),
        Figure(
            name=f"10 × the records: memory, {one}",
            title="peak memory for ten times the records; flat is 1",
            trials=trials,
            value=_memory,
            target=1.25,
            set=chosen,
        ),
    )


def _found(*options: str) -> Figure:
    """How long until the key ranges have led to what was asked for."""
    name = "published-mixed-x4"
    return Figure(
        name=f"cat {options[0]}{' --limit' if '--limit' in options else ''}, 1 GB of text",
        title="cat of what the key ranges find, whole process",
        trials=(Trial(CAT, name, options=options),),
        value=lambda runs: runs[0].seconds,
        unit="s",
        target=0.5,
        set="use",
    )


def _searched(name: str, *options: str) -> Figure:
    """`cat` where every part must be searched, relative to bare decompression."""
    return Figure(
        name=f"cat {options[0]} / decompression, {name}",
        title="throughput of cat that has to search all parts ÷ bare decompression of them, same jobs",
        trials=(Trial(CAT, name, options=options), Trial(READING, name)),
        value=_speedup,
        better="higher",
        target=0.7,
        set="use",
    )


def _exported(name: str) -> Figure:
    """`export` to Parquet relative to `normalize` of the same records."""
    return Figure(
        name=f"export / normalize, {name}",
        title="throughput of export to Parquet ÷ normalize of the same records, same jobs",
        trials=(Trial(EXPORT, f"published-{name}"), Trial(NORMALIZE, name)),
        value=_speedup,
        better="higher",
        target=0.5,
        set="use",
    )


def _of_decompression(name: str, jobs: int, target: float | None) -> Figure:
    return Figure(
        name=f"diff of decompression, {name}, {jobs} jobs",
        title="speed of diff ÷ bare decompression of both corpora, same jobs",
        trials=(Trial(DIFF, name, jobs=jobs), Trial(READING, name, jobs=jobs)),
        value=_speedup,
        better="higher",
        target=target,
        set="use",
    )


FIGURES: Final[tuple[Figure, ...]] = (
    *map(_floor, ("real-x10", "mixed", "small", "agentic", "unknown-keys", "half-duplicates")),
    *map(_cpu, ("real-x10", "mixed")),
    Figure(
        name="size / input, real-x10",
        title="bytes of the output ÷ the input, same level",
        trials=(Trial(NORMALIZE, "real-x10"), Trial(FLOOR, "real-x10")),
        value=lambda runs: runs[0].output_bytes / runs[1].output_bytes,
        target=0.36,
    ),
    Figure(
        name="peak memory, real-x10",
        title="peak memory of normalize, all processes",
        trials=(Trial(NORMALIZE, "real-x10"),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
    ),
    _jobs("real-x10", 1.8),
    _jobs("mixed", 1.8),
    _jobs("giant-shard", None),
    _jobs("mixed", None, FLOOR),
    *_ten_times("real", "real-x10", "track"),
    Figure(
        name="2,000 shards / 2 shards",
        title="time of normalize for 2,000 shards of 100 records ÷ 2 shards of 100,000, same lines",
        trials=(Trial(NORMALIZE, "2000-shards"), Trial(NORMALIZE, "2-shards")),
        value=_seconds,
        target=1.3,
    ),
    Figure(
        name="ten lines",
        title="normalize of a 10-line file, whole process",
        trials=(Trial(NORMALIZE, "ten-lines"),),
        value=lambda runs: runs[0].seconds,
        unit="s",
        target=0.35,
    ),
    Figure(
        name="validate / recompression, real-x10",
        title="wall time of validate ÷ bare recompression of the same shards, same jobs",
        trials=(Trial(VALIDATE, "real-x10"), Trial(FLOOR, "real-x10")),
        value=_seconds,
    ),
    *(_versus("DuckDB", name, 2.5) for name in ("real-x10", "mixed")),
    *(_versus("Polars", name, 4.0) for name in ("real-x10", "mixed", "alpaca-x10")),
    *map(_memory_versus, ("real-x10", "mixed")),
    *(_versus("pydantic + strict json", name, 4.0, VALIDATE) for name in ("real-x10", "mixed")),
    *_ten_times("mixed", "mixed-x10", "long"),
    Figure(
        name="peak memory with --memory 512M, 2.4 GB of text",
        title="peak memory of normalize that was told to take no more than 512 MiB",
        trials=(Trial(NORMALIZE, "mixed-x10", options=("--memory", "512MiB")),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=512 * 1.048576,
        set="long",
    ),
    Figure(
        name="time with --memory 512M / default, 2.4 GB of text",
        title="what a small memory costs",
        trials=(Trial(NORMALIZE, "mixed-x10", options=("--memory", "512MiB")), Trial(NORMALIZE, "mixed-x10")),
        value=_seconds,
        set="long",
    ),
    _found("--hash", "8" * 64),
    _found("--evaluation", "trivia_choice", "--limit", "10"),
    *(_searched(name, "--model", "v0-org-6/model-1b") for name in ("published-mixed-x4", "published-real-x10")),
    *(_searched(name, "--sample-id", "5") for name in ("published-mixed-x4", "published-real-x10")),
    *map(_exported, ("mixed", "real-x10")),
    *(_of_decompression("nights", jobs, 0.6) for jobs in (1, 2)),
    _of_decompression("nights-anew", 2, None),
    Figure(
        name="10 × the records: memory of diff",
        title="peak memory of diff for ten times the records, one job; flat is 1",
        trials=(Trial(DIFF, "nights", jobs=1), Trial(DIFF, "nights-small", jobs=1)),
        value=_memory,
        target=1.25,
        set="use",
    ),
)

# What is wanted of the ratios among the stage benchmarks, and which way is good.
_RATIOS: Final[dict[str, tuple[float, Better]]] = {
    "judge_of_msgspec[plain]": (0.75, "higher"),
    "judge_of_msgspec[real]": (0.75, "higher"),
    "unknown_keys_of_plain": (0.6, "higher"),
    "duplicate_key_check": (0.08, "lower"),
}
_NO_TARGET: Final[tuple[None, Better]] = (None, "higher")
# Small differences of large numbers: shown, and held to their target, but no cause for alarm.
_UNSTEADY: Final = frozenset({"duplicate_key_check"})


def better_stage(one: Stage, other: Stage) -> Stage:
    """The better of two runs of a stage benchmark."""
    key = "ratio" if "ratio" in one.info else "MB/s"
    choose = min if _RATIOS.get(one.name, _NO_TARGET)[1] == "lower" else max
    return choose(one, other, key=lambda stage: stage.info[key])


def figures_of(sets: Iterable[str]) -> list[Figure]:
    """The figures of some sets that can be had here."""
    wanted = set(sets)
    return [figure for figure in FIGURES if figure.set in wanted and figure.available]


def trials_of(figures: Iterable[Figure]) -> list[Trial]:
    """All trials of some figures, each once."""
    return list(dict.fromkeys(trial for figure in figures for trial in figure.trials))


def trial_values(figures: Iterable[Figure], results: Results, calibration: float) -> list[Value]:
    """Compute figures."""
    return [_value(figure, results, calibration) for figure in figures]


def _value(figure: Figure, results: Results, calibration: float) -> Value:
    runs = [results[trial] for trial in figure.trials]
    failed = [f"{trial.contender}: {run.error}" for trial, run in zip(figure.trials, runs, strict=True) if run.error]
    value = None if failed else figure.value(runs)
    relative = value / calibration if value is not None and figure.unit == "s" else value
    corpora = dict.fromkeys(trial.corpus for trial in figure.trials)
    return Value(
        name=figure.name,
        title=figure.title,
        value=value,
        unit=figure.unit,
        better=figure.better,
        relative=relative,
        of=" ".join([_METHOD, *(f"{name}-{corpus(name).key}" for name in corpora)]),
        target=figure.target,
        tolerance=figure.tolerance,
        error="; ".join(failed) or None,
    )


def stage_values(stages: Iterable[Stage], calibration: float) -> list[Value]:
    """The figures of stage benchmarks: throughput times calibration is text per unit of the fixed work."""
    values = []
    for stage in stages:
        ratio = stage.info.get("ratio")
        target, better = _RATIOS.get(stage.name, _NO_TARGET)
        value = stage.info["MB/s"] if ratio is None else ratio
        values.append(
            Value(
                name=stage.name,
                title=f"stage: {stage.name}",
                value=value,
                unit="MB/s" if ratio is None else "×",
                better=better,
                relative=value * calibration if ratio is None else value,
                of=generator_version(),
                target=target,
                tolerance=float("inf") if stage.name in _UNSTEADY else 0.15,
            )
        )
    return values
