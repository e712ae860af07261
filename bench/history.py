"""The history: one line of JSON for each run of `make bench`, with what made it and where."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.values import Value

__all__ = ["HISTORY", "Entry", "Line", "Machine", "append", "commit", "line_of", "machine", "read"]

HISTORY: Final = Path(__file__).parent / "history.jsonl"
_ROOT: Final = Path(__file__).parents[1]
_CPU_INFO: Final = Path("/proc/cpuinfo")


class Machine(msgspec.Struct, frozen=True):
    """What ran it; no name."""

    cpu: str
    cores: int

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores"


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure in the history."""

    value: float
    relative: float
    of: str
    unit: str = "×"
    better: str = "lower"
    target: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

    commit: str
    date: str
    machine: Machine
    python: str
    load: float
    """Processes that wanted a core when it began, beside its own: over 0.5 the machine was not quiet."""
    calibration: float
    figures: dict[str, Entry]


def machine() -> Machine:
    """Describe this machine."""
    models = [line.split(":", 1)[1].strip() for line in _cpu_info() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(models[0] if models else platform.processor() or platform.machine(), cores)


def _cpu_info() -> list[str]:
    return _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []


def commit() -> str:
    """The commit that is checked out, with a `+` if something of the code differs from it."""
    name = _git("rev-parse", "--short=10", "HEAD")
    return f"{name}+" if _git("status", "--porcelain", "--untracked-files=no", "--", "fastrec") else name


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")


def line_of(values: Iterable[Value], calibration: float, load: float) -> Line:
    """Make the line of a run; figures that failed are not in it."""
    return Line(
        commit=commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        python=platform.python_version(),
        load=round(load, 2),
        calibration=round(calibration, 5),
        figures={
            value.name: Entry(
                round(value.value, 4), round(value.relative, 5), value.of, value.unit, value.better, value.target
            )
            for value in values
            if value.value is not None and value.relative is not None
        },
    )


def read(path: Path = HISTORY) -> list[Line]:
    """Read all lines."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines() if line]


def append(line: Line, path: Path = HISTORY) -> None:
    """Add a line."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
