"""A Dask scheduler and its workers on loopback, over TCP, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from fastrec.progress import NoProgress

ROOT = Path(__file__).parents[2]

# Dask leaves threads behind, and does not close all sockets when a peer dies.
LOOSE = [
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
        self.scheduler = subprocess.Popen(
            [*_command("scheduler"), "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        assert self.scheduler.stderr
        for line in self.scheduler.stderr:
            if "Scheduler at:" in line:
                self.address = line.split()[-1]
                break
        self.workers = [self.start_worker() for _ in range(workers)]
        for line in self.scheduler.stderr:  # on a busy machine, a worker takes many seconds to start
            workers -= "Register worker" in line
            if workers <= 0:
                break

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        options = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        return subprocess.Popen(
            [*_command("worker"), self.address, *options], stderr=subprocess.DEVNULL, env=self.environment
        )

    def close(self) -> None:
        """Stop all of them."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        if self.scheduler.stderr:
            self.scheduler.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _command(name: str) -> list[str]:
    return [sys.executable, "-m", "distributed.cli.dask_" + name]


class Killer(NoProgress):
    """Follows the progress of a run, and kills a worker when a pass has begun."""

    def __init__(self, running: Cluster, stage: str) -> None:
        self.running, self.stage, self.now, self.killed = running, stage, "", False

    def start(self, stage: str, _: int) -> None:
        """Note that a pass begins."""
        self.now = stage

    def advance(self, *_: Any) -> None:
        """Kill a worker when the first task of the pass has finished."""
        if self.now == self.stage and not self.killed:
            self.killed = True
            self.running.workers[0].kill()
