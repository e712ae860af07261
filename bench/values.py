"""Figures, and how their values are computed from trials or stages.

`better` is the good direction. `unit` is `×` for a ratio, `s`, `MB`, or `MB/s` of text. Ratios and
memory are compared with earlier runs as they are. Seconds and throughputs are compared relative to
the calibration of their run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from bench.corpora import available, generator_version, key_of
from bench.measure import Measured
from bench.stages import Stage
from bench.trials import Results, Trial

__all__ = [
    "SETS",
    "Figure",
    "Set",
    "Value",
    "better_stage",
    "measured_on",
    "stage_values",
    "trial_values",
]

SETS: Final = (
    "track",
    "peers",
    "long",
    "use",
    "cluster",
    "nights",
    "import",
    "view",
    "ask",
    "change",
    "large",
)
Set = Literal[
    "track", "peers", "long", "use", "cluster", "nights", "import", "view", "ask", "change", "large"
]
Better = Literal["lower", "higher"]

_METHOD: Final = "forked-pool"
"""How trials run. Change it when ratios become incomparable with earlier ones."""
_STAGE_METHOD: Final = "new-judge"
"""The same for stages."""

# Targets of the stage benchmarks that are ratios, and the good direction of each.
_RATIOS: Final[dict[str, tuple[float, Better]]] = {
    "judge_of_msgspec[plain]": (0.75, "higher"),
    "judge_of_msgspec[real]": (1.0, "higher"),
    "unknown_keys_of_plain": (0.6, "higher"),
    "duplicate_key_check": (0.08, "lower"),
}
_NO_TARGET: Final[tuple[None, Better]] = (None, "higher")
# Too noisy to compare with earlier runs; they are only compared with their target.
_NOISY: Final = frozenset({"duplicate_key_check"})


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure computed from trials; `value` gets their results in the order of `trials`."""

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
        """Whether its corpora can be made on this machine."""
        return all(available(trial.corpus) for trial in self.trials)


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a figure; None if a contender failed, with the reason in `error`."""

    name: str
    title: str
    value: float | None
    unit: str
    better: Better
    relative: float | None
    """The number that is compared with earlier runs."""
    of: str
    """The corpora it was measured on. Only values with the same corpora are compared."""
    target: float | None = None
    tolerance: float = 0.15
    error: str | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None or self.value is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def better_stage(one: Stage, other: Stage) -> Stage:
    """The better of two results of a stage benchmark."""
    key = "ratio" if "ratio" in one.info else "MB/s"
    choose = min if _RATIOS.get(one.name, _NO_TARGET)[1] == "lower" else max
    return choose(one, other, key=lambda stage: stage.info[key])


def measured_on(corpora: Iterable[str]) -> str:
    """The corpora of a figure with their keys, and how trials run."""
    return " ".join([_METHOD, *(f"{name}-{key_of(name)}" for name in dict.fromkeys(corpora))])


def trial_values(figures: Iterable[Figure], results: Results, calibration: float) -> list[Value]:
    """Compute figures."""
    return [_value(figure, results, calibration) for figure in figures]


def _value(figure: Figure, results: Results, calibration: float) -> Value:
    runs = [results[trial] for trial in figure.trials]
    failed = [
        f"{trial.contender}: {run.error}"
        for trial, run in zip(figure.trials, runs, strict=True)
        if run.error
    ]
    value = None if failed else figure.value(runs)
    relative = None if value is None else _relative(value, figure.unit, calibration)
    return Value(
        name=figure.name,
        title=figure.title,
        value=value,
        unit=figure.unit,
        better=figure.better,
        relative=relative,
        of=measured_on(trial.corpus for trial in figure.trials),
        target=figure.target,
        tolerance=figure.tolerance,
        error="; ".join(failed) or None,
    )


def _relative(value: float, unit: str, calibration: float) -> float:
    """A value in units of the fixed work, if it depends on the speed of the machine."""
    return value / calibration if unit == "s" else value * calibration if unit == "MB/s" else value


def stage_values(stages: Iterable[Stage], calibration: float) -> list[Value]:
    """The figures of stage benchmarks.

    Throughput × calibration is the text processed per unit of fixed work.
    """
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
                of=f"{_STAGE_METHOD} {generator_version()}",
                target=target,
                tolerance=float("inf") if stage.name in _NOISY else 0.15,
            )
        )
    return values
