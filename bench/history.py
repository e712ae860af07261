"""The history of figures: one line of JSON per run of `make bench`, with commit, machine and date."""

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

__all__ = [
    "HISTORY",
    "HistoryLine",
    "HistoryValue",
    "Machine",
    "append",
    "commit",
    "line_of",
    "machine",
    "read",
]

HISTORY: Final = Path(__file__).parent / "history.jsonl"
_ROOT: Final = Path(__file__).parents[1]
_CPU_INFO: Final = Path("/proc/cpuinfo")


class Machine(msgspec.Struct, frozen=True):
    """The machine of a run, without its name."""

    cpu: str
    cores: int

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores"


class HistoryValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure in the history."""

    value: float
    relative: float
    of: str
    unit: str = "×"
    better: str = "lower"
    target: float | None = None


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `make bench`."""

    commit: str
    date: str
    machine: Machine
    python: str
    load: float
    """The load average at the start. Above 0.5 the machine was busy with something else."""
    calibration: float
    figures: dict[str, HistoryValue]


def machine() -> Machine:
    """Describe this machine."""
    models = [
        line.split(":", 1)[1].strip() for line in _cpu_info() if line.startswith("model name")
    ]
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return Machine(models[0] if models else platform.processor() or platform.machine(), cores)


def _cpu_info() -> list[str]:
    return _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []


def commit() -> str:
    """The commit that is checked out, with a `+` if the code was changed since."""
    name = _git("rev-parse", "--short=10", "HEAD")
    return (
        f"{name}+"
        if _git("status", "--porcelain", "--untracked-files=no", "--", "fastrec")
        else name
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")


def line_of(values: Iterable[Value], calibration: float, load: float) -> HistoryLine:
    """The line of a run, without figures that failed."""
    return HistoryLine(
        commit=commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        python=platform.python_version(),
        load=round(load, 2),
        calibration=round(calibration, 5),
        figures={
            value.name: HistoryValue(
                round(value.value, 4),
                round(value.relative, 5),
                value.of,
                value.unit,
                value.better,
                value.target,
            )
            for value in values
            if value.value is not None and value.relative is not None
        },
    )


def read(path: Path = HISTORY) -> list[HistoryLine]:
    """Read all lines."""
    if not path.exists():
        return []
    return [
        msgspec.json.decode(line, type=HistoryLine)
        for line in path.read_bytes().splitlines()
        if line
    ]


def append(line: HistoryLine, path: Path = HISTORY) -> None:
    """Add a line."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
