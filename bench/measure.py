"""Measure a command in a fresh process: time, processor time and memory of all its children.

Memory is sampled as the sum of the proportional set sizes (PSS) of all processes, which counts a
shared page once. Systems without PSS use resident set sizes. The pause between samples grows with
the cost of a sample, so that sampling takes at most 2 % of one core.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
import psutil

LEVEL = 3  # of zstd, for all that is compressed
_PAUSE = 0.03
_SHARE = 0.02
_BLOCK = 512  # bytes, in which the kernel counts
_ROOT = Path(__file__).parents[1]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The shards to read, the directory to write to, and how."""

    inputs: tuple[str, ...]  # A directory of shards, or some of its shards.
    output: str
    scratch: str  # A directory for temporary files.
    jobs: int
    options: tuple[str, ...] = ()  # Further command-line options for fastrec.

    def shards(self) -> list[str]:
        """The paths of all shards."""
        shards: list[Path] = []
        for path in map(Path, self.inputs):
            shards += sorted(path.rglob("*.jsonl*")) if path.is_dir() else [path]
        return list(map(str, shards))


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a command used; `error` names the reason if it failed."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output_bytes: int = 0
    read_bytes: int = 0  # From the disk; what was in the page cache does not count.
    written_bytes: int = 0  # To files, whether they reached the disk or not.
    error: str | None = None


def measure(command: Sequence[str], *, timeout: float = 1800) -> Measured:
    """Run a command and measure it."""
    os.sync()  # so that this command does not pay for writes of earlier ones
    # Let Python cache compiled modules, as in an installation.
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=_ROOT,
            env=environment,
            start_new_session=True,
        )
        deadline = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        deadline.start()
        with _Sampler(process.pid) as sampler:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
        deadline.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace")
    error = None
    if process.returncode:
        error = (
            f"over {timeout:.0f} s" if seconds >= timeout else _reason(process.returncode, stderr)
        )
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # children that are still running
    # The first misses children that nobody waited for, the second children that lived between two
    # samples.
    cpu_seconds = max(usage.ru_utime + usage.ru_stime, sampler.cpu_seconds)
    return Measured(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_bytes=sampler.peak_bytes,
        read_bytes=usage.ru_inblock * _BLOCK,
        written_bytes=usage.ru_oublock * _BLOCK,
        error=error,
    )


def _reason(returncode: int, stderr: str) -> str:
    """The name of the exception that ended a command, from its standard error."""
    if returncode == -signal.SIGKILL:
        return "killed"
    for line in reversed(stderr.splitlines()):
        name = line.split(":")[0].strip()
        if name and " " not in name and not line.startswith(" "):
            word = name.rsplit(".", 1)[-1]
            return "not installed" if word in {"ModuleNotFoundError", "FileNotFoundError"} else word
    return f"exit code {returncode}"


class _Sampler:
    """Context manager that samples a process and its children from a thread."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._cpu: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def cpu_seconds(self) -> float:
        """The processor time of all processes, as of the last samples."""
        return sum(self._cpu.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = 0.0
        while not self._done.wait(pause):
            started = time.thread_time()
            self._sample()
            pause = max(_PAUSE, (time.thread_time() - started) / _SHARE)

    def _sample(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._pid)
            self.peak_bytes = max(
                self.peak_bytes, sum(map(self._size, [root, *root.children(recursive=True)]))
            )

    def _size(self, process: psutil.Process) -> int:
        try:
            times = process.cpu_times()
            self._cpu[process.pid] = times.user + times.system
            return _pss(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return 0


def _pss(process: psutil.Process) -> int:
    if sys.platform == "linux":
        return int(process.memory_full_info().pss)
    return int(process.memory_info().rss)
