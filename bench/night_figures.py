"""The figures of `--set nights`: each night as a share of a full run, their targets, and the plot of a week."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from bench.bar_plot import Group, bar_plot
from bench.corpora import OUT, corpus
from bench.measure import Measured
from bench.night_runs import FIRST, FULL, SMALL, TEN_TIMES, WeekNight, run_nights, run_week
from bench.piles import Stock
from bench.tables import aligned, number, target_of
from bench.trials import JOBS
from bench.values import Value, measured_on

__all__ = ["CORPUS", "Nights", "night_table", "night_values", "week_plot", "week_value"]

CORPUS: Final = "real-x10"
_VERSION: Final = "nights-1"  # increase it if nights become incomparable with earlier ones
_FOOTER: Final = (
    "Large models are new models on the evaluation that has most of the text, where the removed "
    "shard is too; "
    "small models are on another one."
)
_NOTHING: Final = "nothing changed"
_TARGETS: Final[Mapping[str, float]] = {
    FIRST: 1.10,
    _NOTHING: 0.08,
    "new evaluation of 1 % of the text": 0.12,
    "one more model on the largest evaluation": 0.40,
    "one shard of a small evaluation changed": 0.12,
    "one shard of the largest evaluation removed": 0.40,
}


class Nights:
    """The measurements of nights so far. Measuring again keeps the better result of each figure."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._values: dict[str, Value] = {}
        self._tables: list[str] = []
        self.picture = ""

    def measure(self) -> None:
        """Measure all nights and the week."""
        source = corpus(CORPUS)
        OUT.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix="nights-", dir=OUT))
        try:
            print(
                f"nights: {source.text_bytes / 1e6:,.0f} MB of text in {len(source.shards):,} "
                "shards"
            )
            stock = Stock(source.paths(), folder / "stock", source.text_bytes)
            nights = run_nights(stock, folder, rounds=self._rounds)
            print("a week of nights")
            week = run_week(stock, folder, rounds=self._rounds)
        finally:
            shutil.rmtree(folder)
        values = [*night_values(nights, source.text_bytes), week_value(week)]
        self._tables.append(night_table(nights, values))
        self.picture = week_plot(week, source.text_bytes) or self.picture
        for value in values:
            self._values[value.name] = _better(self._values.get(value.name, value), value)

    def values(self) -> list[Value]:
        """All figures."""
        return list(self._values.values())

    def table(self) -> str:
        """The nights of each measurement."""
        return "\n\n".join(self._tables)


def night_values(nights: Mapping[str, Measured], text_bytes: int) -> list[Value]:
    """The figures of single nights."""
    shares = [
        _ratio(
            name,
            f"wall time of normalize --incremental ÷ a full run, whole processes: {name}",
            (nights[name], nights[FULL]),
            target,
        )
        for name, target in _TARGETS.items()
    ]
    return [
        *shares,
        _ratio(
            "10 × the records in as many shards",
            "wall time of a night without changes for ten times the records in the same number of "
            "shards",
            (nights[TEN_TIMES], nights[SMALL]),
            1.25,
        ),
        _ratio(
            "10 × the records in 10 × the shards",
            "wall time of a night without changes for ten times the records in ten times the "
            "shards",
            (nights[_NOTHING], nights[SMALL]),
            10.0,
        ),
        _ratio(
            "kept work / text",
            "bytes of all files in the work directory after the first night ÷ bytes of text",
            (nights[FIRST],),
            0.5,
            value=lambda runs: runs[0].output_bytes / text_bytes,
        ),
    ]


def week_value(week: Sequence[WeekNight]) -> Value:
    """The figure of a week: all its incremental nights relative to its full runs."""
    runs = [run for night in week for run in (night.incremental, night.full)]
    return _ratio(
        "a week",
        "wall time of seven nights with --incremental ÷ seven full runs; the first night is one "
        "of them",
        runs,
        None,
        value=lambda runs: (
            sum(run.seconds for run in runs[::2]) / sum(run.seconds for run in runs[1::2])
        ),
    )


def _ratio(
    name: str,
    title: str,
    runs: Sequence[Measured],
    target: float | None,
    value: Callable[[Sequence[Measured]], float] = lambda runs: runs[0].seconds / runs[1].seconds,
) -> Value:
    errors = dict.fromkeys(run.error for run in runs if run.error)
    ratio = None if errors else value(runs)
    return Value(
        name=f"night: {name}",
        title=title,
        value=ratio,
        unit="×",
        better="lower",
        relative=ratio,
        of=f"{measured_on([CORPUS])} {_VERSION}",
        target=target,
        tolerance=0.3,  # most nights are short
        error="; ".join(errors) or None,
    )


def night_table(nights: Mapping[str, Measured], values: Sequence[Value]) -> str:
    """The nights with their times, shares of a full run, and targets."""
    by_name = {value.name: value for value in values}
    full = nights[FULL]
    rows = [("night", "time", "share of a full run", "target")]
    for name, run in nights.items():
        value = by_name.get(f"night: {name}")
        share = "" if run.error or full.error else f"{run.seconds / full.seconds:.3f}"
        rows.append(
            (name, run.error or f"{run.seconds:.2f} s", share, target_of(value) if value else "")
        )
    others = [value for value in values if value.name.removeprefix("night: ") not in nights]
    rows += [
        (value.name.removeprefix("night: "), "", _ratio_of(value), target_of(value))
        for value in others
    ]
    return aligned(rows)


def _ratio_of(value: Value) -> str:
    return value.error or number(value.value, value.unit)


def week_plot(week: Sequence[WeekNight], text_bytes: int) -> str:
    """Draw the time per night, full and incremental; empty if a run failed."""
    if any(night.full.error or night.incremental.error for night in week):
        return ""
    groups = [
        Group(night.day, night.changes, [night.full.seconds, night.incremental.seconds])
        for night in week
    ]
    size = f"{text_bytes / 1e6:,.0f} MB of text on Monday, about 1 % more shards every night"
    return bar_plot(
        "A week of nights",
        f"{size}, {JOBS} jobs",
        ("full run", "--incremental"),
        groups,
        unit="s",
        footer=_FOOTER,
    )


def _better(one: Value, other: Value) -> Value:
    """The better of two values; a failure counts, since every night must be right."""
    if one.value is None or other.value is None:
        return one if one.value is None else other
    return min(one, other, key=lambda value: value.value or 0.0)
