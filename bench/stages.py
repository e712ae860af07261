"""Run the stage benchmarks, and read the results of pytest-benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.corpora import OUT

__all__ = ["Stage", "run_stages"]

_ROOT: Final = Path(__file__).parents[1]


class Stage(msgspec.Struct, frozen=True):
    """The result of a stage benchmark: a throughput or a ratio."""

    name: str
    info: dict[str, float]


class _Document(msgspec.Struct):
    class Bench(msgspec.Struct):
        name: str
        extra_info: dict[str, float]

    benchmarks: list[Bench]


def run_stages() -> list[Stage]:
    """Run all stage benchmarks in a fresh process."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "stages.json"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "bench",
        "--benchmark-only",
        "--quiet",
        "--benchmark-json",
        str(path),
    ]
    done = subprocess.run(
        [*command, "--override-ini", "python_files=bench_*.py"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"the stage benchmarks failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    document = msgspec.json.decode(path.read_bytes(), type=_Document)
    return [
        Stage(bench.name.removeprefix("test_"), bench.extra_info) for bench in document.benchmarks
    ]
