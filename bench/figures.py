"""Figures, and how their values are computed from trials or stages.

`figures.toml` has the figures of all sets. `better` is the good direction. `unit` is
`×` for a ratio, `s`, `MB`, or `MB/s` of text. Ratios and memory are compared with earlier runs as
they are. Seconds and throughputs are compared relative to the calibration of their run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from statistics import mean
from typing import Any, Literal

import msgspec

from bench.corpora import available, corpus, generator_version, key_of
from bench.documents import filled
from bench.measure import Measured
from bench.templates import table
from bench.trials import JOBS, Results, Trial

Better = Literal["lower", "higher"]
Runs = Sequence[Measured]
Trials = Sequence[Trial]
Compute = Callable[[Runs, Trials], float]

# How trials run. Change it when ratios become incomparable with earlier ones.
_METHOD = "forked-pool"
_STAGE_METHOD = "new-judge"  # The same for stages.
_TABLE = table("figures.toml")


def _text(trial: Trial) -> int:
    return corpus(trial.corpus).text_bytes


def _ratio(field: str) -> Compute:
    """The sum over the first half of the runs ÷ that over the second half."""

    def compute(runs: Runs, _: Trials) -> float:
        values = [getattr(run, field) for run in runs]
        half = len(values) // 2
        return float(sum(values[:half]) / sum(values[half:]))

    return compute


def _of_text(field: str) -> Compute:
    return lambda runs, trials: float(getattr(runs[0], field) / _text(trials[0]))


def _speed_of_third(runs: Runs, trials: Trials) -> float:
    """The speed of the third trial, relative to the mean of the others on a smaller corpus."""
    others = mean(run.seconds for run in (*runs[:2], *runs[3:]))
    return _text(trials[2]) / runs[2].seconds / (_text(trials[0]) / others)


# The unit, the good direction, and the value from the results of the trials.
VALUES: dict[str, tuple[str, Better, Compute]] = {
    "seconds": ("s", "lower", lambda runs, _: runs[0].seconds),
    "seconds of 20 pages": ("s", "lower", lambda runs, _: (runs[0].seconds - runs[1].seconds) / 20),
    "peak memory": ("MB", "lower", lambda runs, _: runs[0].peak_bytes / 1e6),
    "speed": ("MB/s", "higher", lambda runs, trials: _text(trials[0]) / runs[0].seconds / 1e6),
    "speedup": ("×", "higher", lambda runs, _: runs[1].seconds / runs[0].seconds),
    "waiting": ("×", "lower", lambda runs, _: 1 - runs[0].cpu_seconds / (JOBS * runs[0].seconds)),
    "time ratio": ("×", "lower", _ratio("seconds")),
    "memory ratio": ("×", "lower", _ratio("peak_bytes")),
    "size ratio": ("×", "lower", _ratio("output_bytes")),
    "processor time ratio": ("×", "lower", _ratio("cpu_seconds")),
    "read / text": ("×", "lower", _of_text("read_bytes")),
    "written / text": ("×", "lower", _of_text("written_bytes")),
    "output / text": ("×", "lower", _of_text("output_bytes")),
    "speed ratio of the third": ("×", "higher", _speed_of_third),
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure computed from trials; `value` is one of `VALUES`."""

    name: str
    title: str
    trials: tuple[Trial, ...]
    value: str
    target: float | None = None
    set: str = "track"
    tolerance: float = 0.15
    version: str = ""

    @property
    def available(self) -> bool:
        """Whether its corpora can be made on this machine."""
        return all(available(trial.corpus) for trial in self.trials)


def _figures() -> Iterator[Figure]:
    for row in _TABLE["figures"]:
        for each in row.get("each", [{}]):
            about = {"corpus": each} if isinstance(each, str) else each
            facts = {"jobs": JOBS, "options": [], **row, **about}
            trials = [
                {"corpus": "{corpus}", "jobs": "{jobs}"}
                | ({"contender": given} if isinstance(given, str) else given)
                for given in row["trials"]
            ]
            facts["title"] = facts["title"].format_map(facts)
            yield msgspec.convert(filled({**facts, "trials": trials}, facts), Figure)


FIGURES = tuple(_figures())
SETS = tuple(dict.fromkeys(figure.set for figure in FIGURES))


def figures_of(sets: Iterable[str], without: Sequence[str] = ()) -> list[Figure]:
    """The figures of some sets whose corpora can be made here.

    Those with a text of `without` in their names are left out.
    """
    wanted = set(sets)
    chosen = [figure for figure in FIGURES if figure.set in wanted and figure.available]
    return [figure for figure in chosen if not any(text in figure.name for text in without)]


def trials_of(figures: Iterable[Figure]) -> list[Trial]:
    """All trials of some figures, each once."""
    return list(dict.fromkeys(trial for figure in figures for trial in figure.trials))


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of a figure as the history has it."""

    value: float | None  # None if a contender failed.
    relative: float | None  # The number that is compared with earlier runs.
    of: str  # The corpora it was measured on. Only values with the same corpora are compared.
    unit: str = "×"
    better: Better = "lower"
    target: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None or self.value is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


class Value(Outcome, frozen=True, kw_only=True):
    """The value of a figure with its name; `error` says why it failed, if it did."""

    name: str
    tolerance: float = 0.15
    error: str | None = None


def trial_values(figures: Iterable[Figure], results: Results, calibration: float) -> list[Value]:
    """Compute figures."""
    return [_value(figure, results, calibration) for figure in figures]


def _value(figure: Figure, results: Results, calibration: float) -> Value:
    unit, better, compute = VALUES[figure.value]
    runs = [results[trial] for trial in figure.trials]
    pairs = zip(figure.trials, runs, strict=True)
    failed = [f"{trial.contender}: {run.error}" for trial, run in pairs if run.error]
    value = None if failed else compute(runs, figure.trials)
    corpora = dict.fromkeys(trial.corpus for trial in figure.trials)
    of = [_METHOD, *(f"{name}-{key_of(name)}" for name in corpora), figure.version]
    return Value(
        name=figure.name,
        value=value,
        unit=unit,
        better=better,
        relative=_relative(value, unit, calibration),
        of=" ".join(of).rstrip(),
        target=figure.target,
        tolerance=figure.tolerance,
        error="; ".join(failed) or None,
    )


def _relative(value: float | None, unit: str, calibration: float) -> float | None:
    """A value in units of the fixed work, if it depends on the speed of the machine."""
    if value is None:
        return None
    return value * {"s": 1 / calibration, "MB/s": calibration}.get(unit, 1.0)


# What stage benchmarks measured, by name: a ratio, or a throughput.
Stages = Mapping[str, Mapping[str, float]]


def stage_values(runs: Iterable[Stages], calibration: float) -> list[Value]:
    """The figures of stage benchmarks that ran once or several times: the best value counts.

    Throughput × calibration is the text processed per unit of fixed work.
    """
    best: dict[str, Value] = {}
    for name, measured in chain.from_iterable(run.items() for run in runs):
        unit = "×" if "ratio" in measured else "MB/s"
        number = measured.get("ratio", measured.get(unit, 0.0))
        about: dict[str, Any] = {"better": "higher", **_TABLE["stages"].get(name, {})}
        value = Value(
            name=name,
            value=number,
            unit=unit,
            relative=_relative(number, unit, calibration),
            of=f"{_STAGE_METHOD} {generator_version()}",
            **about,
        )
        choose = min if value.better == "lower" else max
        best[name] = choose(best.get(name, value), value, key=attrgetter("value"))
    return list(best.values())
