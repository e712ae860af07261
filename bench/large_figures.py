"""Figures of the set `large`: the speed of `normalize` where the text does not fit into memory.

The corpora are made from real records, once: 15 GB of files for 75 GB of text. Runs need as much
disk as text, for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Final

from bench.contenders import NORMALIZE
from bench.corpora import corpus
from bench.measure import Measured
from bench.trials import JOBS, Trial
from bench.values import Better, Figure

__all__ = ["LARGE_FIGURES"]

_SMALL: Final = "real-x10"
_SIZES: Final = ("shuffled-5GB", "shuffled-20GB", "shuffled-50GB")
_TARGETS: Final = {"shuffled-20GB": 0.93, "shuffled-50GB": 0.85}
_TUNED: Final = "DuckDB, tuned by hand, 8GB"


def _figure(
    title: str,
    name: str,
    value: Callable[[Sequence[Measured]], float],
    *trials: Trial,
    unit: str = "×",
    better: Better = "lower",
    target: float | None = None,
) -> Figure:
    return Figure(
        name=f"{title}, {name}",
        title=title,
        trials=trials or (Trial(NORMALIZE, name),),
        value=value,
        unit=unit,
        better=better,
        target=target,
        set="large",
    )


def _speed(name: str) -> Callable[[Sequence[Measured]], float]:
    return lambda runs: corpus(name).text_bytes / 1e6 / runs[0].seconds


def _of_small(name: str) -> Figure:
    """The speed, divided by that of real-x10 just before and after it: machines become faster and slower."""
    trials = [Trial(NORMALIZE, _SMALL, beside=name, number=number) for number in range(4)]
    trials.insert(2, Trial(NORMALIZE, name))

    def value(runs: Sequence[Measured]) -> float:
        small = mean(run.seconds for run, trial in zip(runs, trials, strict=True) if trial.beside)
        return corpus(name).text_bytes / runs[2].seconds / (corpus(_SMALL).text_bytes / small)

    return _figure(
        "MB/s of normalize / real-x10",
        name,
        value,
        *trials,
        better="higher",
        target=_TARGETS.get(name),
    )


def _per_text(
    name: str, title: str, bytes_of: Callable[[Measured], int], target: float | None = None
) -> Figure:
    return _figure(
        title, name, lambda runs: bytes_of(runs[0]) / corpus(name).text_bytes, target=target
    )


def _figures(name: str) -> tuple[Figure, ...]:
    return (
        _figure("speed of normalize", name, _speed(name), unit="MB/s", better="higher"),
        _figure(
            "time that workers wait",
            name,
            lambda runs: 1 - runs[0].cpu_seconds / (JOBS * runs[0].seconds),
        ),
        _per_text(name, "read from disk / text", lambda run: run.read_bytes),
        _per_text(name, "written / text", lambda run: run.written_bytes, 1.5),
        _figure(
            "peak memory of normalize",
            name,
            lambda runs: runs[0].peak_bytes / 1e6,
            unit="MB",
            target=1074.0,
        ),
    )


LARGE_FIGURES: Final[tuple[Figure, ...]] = (
    *map(_of_small, _SIZES),  # first, because trials run in the order in which figures need them
    *(figure for name in (_SMALL, *_SIZES) for figure in _figures(name)),
    _figure(
        f"normalize vs {_TUNED}",
        "shuffled-20GB",
        lambda runs: runs[1].seconds / runs[0].seconds,
        Trial(NORMALIZE, "shuffled-20GB"),
        Trial(_TUNED, "shuffled-20GB"),
        better="higher",
        target=2.0,
    ),
)
