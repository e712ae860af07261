"""The table of figures: how each is computed from trials, and its target.

The sets `use`, `change`, `import`, `view`, `ask` and `large` have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bench.ask_figures import ASK_FIGURES
from bench.change_figures import CHANGE_FIGURES
from bench.contenders import FLOOR, NORMALIZE, VALIDATE
from bench.corpora import corpus
from bench.import_figures import IMPORT_FIGURES
from bench.large_figures import LARGE_FIGURES
from bench.measure import Measured
from bench.trials import Trial
from bench.use_figures import USE_FIGURES
from bench.values import Figure, Set
from bench.view_figures import VIEW_FIGURES

__all__ = ["FIGURES", "figures_of", "trials_of"]


_FLOOR_TARGETS: Final = {"real-x10": 1.15, "real": 1.15, "mixed": 1.6}
_NOT_TUNED_TO: Final = ("many-evaluations", "transcripts")


def _seconds(runs: Sequence[Measured]) -> float:
    return runs[0].seconds / runs[1].seconds


def _speedup(runs: Sequence[Measured]) -> float:
    return runs[1].seconds / runs[0].seconds


def _memory(runs: Sequence[Measured]) -> float:
    return runs[0].peak_bytes / runs[1].peak_bytes


def _floor(name: str) -> Figure:
    """`normalize` relative to bare recompression."""
    return Figure(
        name=f"normalize / recompression, {name}",
        title="wall time of normalize ÷ bare recompression of the same shards, same level, same "
        "jobs",
        trials=(Trial(NORMALIZE, name), Trial(FLOOR, name)),
        value=_seconds,
        target=_FLOOR_TARGETS.get(name),
    )


def _cpu(name: str) -> Figure:
    return Figure(
        name=f"processor time / recompression, {name}",
        title="processor time of normalize ÷ bare recompression, all processes",
        trials=(Trial(NORMALIZE, name), Trial(FLOOR, name)),
        value=lambda runs: runs[0].cpu_seconds / runs[1].cpu_seconds,
        target=_FLOOR_TARGETS.get(name),
    )


def _size(name: str, target: float | None = None) -> Figure:
    return Figure(
        name=f"size / input, {name}",
        title="bytes of the output ÷ the input, same level",
        trials=(Trial(NORMALIZE, name), Trial(FLOOR, name)),
        value=lambda runs: runs[0].output_bytes / runs[1].output_bytes,
        target=target,
    )


def _peak(name: str, target: float | None = None) -> Figure:
    return Figure(
        name=f"peak memory, {name}",
        title="peak memory of normalize, all processes",
        trials=(Trial(NORMALIZE, name),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=target,
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


def _versus(
    peer: str, name: str, target: float | None, command: str = NORMALIZE, every: int = 1
) -> Figure:
    """How many times as fast as a peer.

    A slow peer reads only some shards; then throughputs are compared.
    """
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
            tolerance=0.3,  # the divisor is a short run
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


def _cluster(name: str, target: float | None) -> Figure:
    """The cluster engine relative to the pool, including the start of the scheduler and its workers."""
    return Figure(
        name=f"Dask / pool, {name}",
        title="wall time of normalize on a Dask cluster that it starts ÷ in a pool with as many "
        "processes",
        trials=(Trial(NORMALIZE, name, options=("--engine", "dask")), Trial(NORMALIZE, name)),
        value=_seconds,
        target=target,
        set="cluster",
    )


FIGURES: Final[tuple[Figure, ...]] = (
    *map(
        _floor,
        (
            "real-x10",
            "real",
            "mixed",
            "small",
            "agentic",
            "unknown-keys",
            "half-duplicates",
            *_NOT_TUNED_TO,
        ),
    ),
    *map(_cpu, ("real-x10", "real", "mixed", *_NOT_TUNED_TO)),
    _size("real-x10", 0.35),
    *map(_size, _NOT_TUNED_TO),
    _peak("real-x10", 220.0),
    *map(_peak, _NOT_TUNED_TO),
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
    _versus("DuckDB", "real-x10", 3.0),
    _versus("DuckDB", "mixed", 2.5),
    _versus("DuckDB, tuned by hand", "real-x10", 2.2),
    _versus("Polars", "alpaca-x10", 1.4),
    *(_versus("Polars", name, None) for name in ("real-x10", "mixed")),  # it fails there
    *map(_memory_versus, ("real-x10", "mixed")),
    _versus("pydantic + strict json", "real-x10", 2.5, VALIDATE),
    _versus("pydantic + strict json", "mixed", 2.0, VALIDATE),
    *_ten_times("mixed", "mixed-x10", "long"),
    Figure(
        name="peak memory with --memory 512M, 2.4 GB of text",
        title="peak memory of normalize with a limit of 512 MiB",
        trials=(Trial(NORMALIZE, "mixed-x10", options=("--memory", "512MiB")),),
        value=lambda runs: runs[0].peak_bytes / 1e6,
        unit="MB",
        target=512 * 1.048576,
        set="long",
    ),
    Figure(
        name="time with --memory 512M / default, 2.4 GB of text",
        title="time of normalize with a small memory limit ÷ without",
        trials=(
            Trial(NORMALIZE, "mixed-x10", options=("--memory", "512MiB")),
            Trial(NORMALIZE, "mixed-x10"),
        ),
        value=_seconds,
        set="long",
    ),
    _cluster("real-x10", None),
    _cluster("mixed-x10", 1.25),
    *USE_FIGURES,
    *CHANGE_FIGURES,
    *IMPORT_FIGURES,
    *VIEW_FIGURES,
    *LARGE_FIGURES,
    *ASK_FIGURES,
)


def figures_of(sets: Iterable[str]) -> list[Figure]:
    """The figures of some sets whose corpora can be made here."""
    wanted = set(sets)
    return [figure for figure in FIGURES if figure.set in wanted and figure.available]


def trials_of(figures: Iterable[Figure]) -> list[Trial]:
    """All trials of some figures, each once."""
    return list(dict.fromkeys(trial for figure in figures for trial in figure.trials))
