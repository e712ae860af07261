"""Dask schedulers and workers that are forked from a server, which has imported Dask once: 0.8 s
less for each.

Each is a process of its own, over TCP, and runs the same function as the command line of Dask. A
process with other modules to import than this one needs a new interpreter: see `Cluster`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "distributed.cli.dask_scheduler",
        "distributed.cli.dask_worker",
        "fastrec.normalize.run",
        "s3fs",
    ]
)


class ForkedProcess:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        reader, writer = _SERVER.Pipe(duplex=False)
        self._process = _SERVER.Process(
            target=_run, args=(name, arguments, environment, writer), daemon=True
        )
        self._process.start()
        writer.close()
        self.stderr: TextIO = os.fdopen(os.dup(reader.fileno()))
        """What a scheduler says."""
        reader.close()
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code; None if the process is running."""
        return self._process.exitcode

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.join()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()


def _run(name: str, arguments: list[str], environment: dict[str, str], stderr: Connection) -> None:
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(stderr.fileno() if name == "scheduler" else nowhere.fileno(), 2)
    stderr.close()
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(f"distributed.cli.dask_{name}").main(arguments)
