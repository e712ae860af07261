"""A Dask scheduler and its workers on loopback, over TCP, each in its own process."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from fastrec.progress import Progress
from tests.services.dask_process import ForkedProcess

ROOT = Path(__file__).parents[2]
Process = subprocess.Popen[str] | ForkedProcess

# Dask leaves threads behind, and does not close all sockets when a peer dies.
LOOSE = [
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="the extra `dask` is not installed"
    ),
    pytest.mark.imports_dask,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


class Cluster:
    """A scheduler and workers; a context manager."""

    def __init__(self, workers: int = 3, **environment: str) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        assert self.scheduler.stderr
        for line in self.scheduler.stderr:
            if "Scheduler at:" in line:
                self.address = line.split()[-1]
                break
        self.workers: list[Process] = []
        self._processes: list[Process] = []  # dead ones too; the name of a worker is its index
        self._registered: set[str] = set()
        self.restore(workers)

    def restore(self, count: int) -> None:
        """Replace dead workers, end some if there are too many, and wait until the scheduler has
        noticed.
        """
        alive = [process for process in self._processes if process.poll() is None]
        for process in alive[count:]:
            process.kill()
            process.wait()
        self.workers = alive[:count]
        while len(self.workers) < count:
            self.workers.append(self.start_worker())
        # A worker that was killed before it had registered is never mentioned.
        wanted = {
            str(number) for number, process in enumerate(self._processes) if process in self.workers
        }
        assert self.scheduler.stderr
        while self._registered != wanted:
            line = (
                self.scheduler.stderr.readline()
            )  # on a busy machine, a worker takes many seconds to start
            assert line, "the scheduler is dead"
            if said := re.search(r"(Register|Remove) worker addr: \S+ name: (\d+)", line):
                (self._registered.add if said[1] == "Register" else self._registered.discard)(
                    said[2]
                )

    def start_worker(self) -> Process:
        """Start one more worker."""
        options = [
            "--nworkers",
            "1",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--memory-limit",
            "0",
        ]
        process = self._start("worker", self.address, "--name", str(len(self._processes)), *options)
        self._processes.append(process)
        return process

    def _start(self, name: str, *arguments: str) -> Process:
        if name == "scheduler" or self.environment["PYTHONPATH"] == str(ROOT):
            return ForkedProcess(name, list(arguments), self.environment)
        return subprocess.Popen(  # imports other modules
            [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments],
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
        )

    def close(self) -> None:
        """Stop all of them."""
        for process in (*self._processes, self.scheduler):
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Killer(Progress):
    """Follows the progress of a run, and kills a worker in each of some passes when it has begun."""

    def __init__(self, running: Cluster, *stages: str) -> None:
        self.running = running
        self.left = [*stages]
        self.now = ""

    def start(self, stage: str, _: int) -> None:
        """Note that a pass begins."""
        self.now = stage

    def advance(self, *_: Any) -> None:
        """Kill a worker when the first task of the pass has finished."""
        if self.now in self.left:
            self.left.remove(self.now)
            self.running.workers[len(self.left)].kill()
