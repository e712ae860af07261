"""The history of figures, one line of JSON per run of `make bench`; and what got worse.

A figure is compared only with values measured on the same corpora. If the history has values from
the same machine, only those count. Otherwise those of all machines count, which is why figures are
relative.
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.figures import Outcome, Value

HISTORY = Path(__file__).parent / "history.jsonl"
_ROOT = Path(__file__).parents[1]
_CPU_INFO = Path("/proc/cpuinfo")


class Machine(msgspec.Struct, frozen=True):
    """The machine of a run, without its name."""

    cpu: str
    cores: int

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores"


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `make bench`."""

    commit: str
    date: str
    machine: Machine
    python: str
    # The load average at the start. Above 0.5 the machine was busy with something else.
    load: float
    calibration: float
    figures: dict[str, Outcome]


def machine() -> Machine:
    """Describe this machine."""
    about = _CPU_INFO.read_text() if _CPU_INFO.exists() else ""
    model = re.search(r"^model name\s*: (.*)$", about, re.MULTILINE)
    return Machine(model[1] if model else platform.machine(), os.cpu_count() or 1)


def commit() -> str:
    """The commit that is checked out, with a `+` if the code was changed since."""
    name = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "fastrec")
    return f"{name}+" if changed else name


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")


def line_of(values: Iterable[Value], calibration: float, load: float) -> HistoryLine:
    """The line of a run, without figures that failed."""
    figures = {}
    for value in values:
        if value.value is not None and value.relative is not None:
            short = {"value": round(value.value, 4), "relative": round(value.relative, 5)}
            rounded = msgspec.structs.replace(value, **short)
            figures[value.name] = msgspec.convert(rounded, Outcome, from_attributes=True)
    return HistoryLine(
        commit=commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        python=platform.python_version(),
        load=round(load, 2),
        calibration=round(calibration, 5),
        figures=figures,
    )


def read(path: Path = HISTORY) -> list[HistoryLine]:
    """Read all lines."""
    return msgspec.json.Decoder(HistoryLine).decode_lines(
        path.read_bytes() if path.exists() else b""
    )


def append(line: HistoryLine, path: Path = HISTORY) -> None:
    """Add a line."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")


class Comparison(msgspec.Struct, frozen=True):
    """A figure now and its best earlier value."""

    value: Value
    best: float | None  # None if it was never measured on these corpora before.

    @property
    def change(self) -> float | None:
        """How much worse it got, as a fraction; negative if it got better."""
        if self.best is None or self.value.relative is None:
            return None
        if self.value.better == "lower":
            return self.value.relative / self.best - 1 if self.best else None
        return self.best / self.value.relative - 1 if self.value.relative else float("inf")

    @property
    def is_worse(self) -> bool:
        """Whether it got worse by more than its tolerance, or fails now and did not before."""
        if self.best is not None and self.value.value is None:
            return True
        return self.change is not None and self.change > self.value.tolerance


def compare(
    values: Iterable[Value], history: Sequence[HistoryLine], here: Machine
) -> list[Comparison]:
    """Compare each figure with its best earlier value."""
    return [Comparison(value, _best(value, history, here)) for value in values]


def worse(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """The figures that got worse."""
    return [comparison for comparison in comparisons if comparison.is_worse]


def _best(value: Value, history: Sequence[HistoryLine], here: Machine) -> float | None:
    lines = [
        line for line in history if (entry := line.figures.get(value.name)) and entry.of == value.of
    ]
    lines = [line for line in lines if line.machine == here] or lines
    values = (line.figures[value.name].relative for line in lines)
    earlier = [relative for relative in values if relative is not None]
    return (min if value.better == "lower" else max)(earlier, default=None)
