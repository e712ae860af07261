"""The command in its own process, which tests stop and kill at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.faults.failing import contents
from tests.running import run_here
from tests.sources.compressing import skippable

HAS_PROC = Path("/proc/self/stat").exists()
TIMEOUT = 60.0
WORKERS_END = 2.0
"""Seconds within which all workers end after their parent."""


def command(shards: Path, out: Path, *more: str) -> list[str]:
    """Return the command under test: two workers, several parts."""
    options = (
        "--jobs",
        "2",
        "--part-size",
        "2M",
        "--memory",
        "64M",
        "--max-rejects",
        "100%",
        "--track-sources",
    )
    return [
        sys.executable,
        "-m",
        "fastrec",
        "normalize",
        str(shards),
        "-o",
        str(out),
        *options,
        *more,
    ]


def generate(folder: Path, records: int = 2_000, shards: int = 12, seed: int = 1) -> Path:
    """Generate shards that take two workers about a second."""
    kind = "mixed" if shards > 1 else "zst"
    where = (
        "-n",
        str(records),
        "--seed",
        str(seed),
        "-o",
        str(folder),
        "--shards",
        str(shards),
        "--compression",
        kind,
    )
    shares = (
        "--duplicates",
        "0.1",
        "--conflicts",
        "0.02",
        "--rejects",
        "0.02",
        "--unknown-keys",
        "0.05",
    )
    done = run_here("generate", "--text", "words", *where, *shares)
    assert done.returncode == 0, done.stderr
    return folder


def generate_one(folder: Path) -> Path:
    """Generate one compressed shard that is so large that the driver decompresses it and passes
    chunks to workers.
    """
    generate(folder, 6_000, shards=1)
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes() + skippable(bytes(10 << 20)))
    return folder


class Pile(msgspec.Struct):
    """Shards, the corpus made from them, and how long that takes."""

    shards: Path
    whole: dict[str, bytes]
    seconds: float

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.shards.iterdir())


class Process:
    """A running command."""

    def __init__(self, arguments: list[str]) -> None:
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.seen: set[int] = set()
        """All workers seen so far."""

    def workers(self) -> list[int]:
        """Return the children that are running."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        found = [int(pid) for pid in text.split()]
        self.seen.update(found)
        return found

    def wait_until(self, holds: Callable[[], object]) -> bool:
        """Wait until a condition holds; return False if the run ends first."""
        while self._process.poll() is None:
            if holds():
                return True
            time.sleep(0.002)
        return False

    def sleep(self, seconds: float) -> None:
        """Wait, and collect the workers that appear."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            self.workers()
            time.sleep(0.005)

    def send(self, number: int, pid: int | None = None) -> bool:
        """Send a signal to the command, or to another process; return whether it was running."""
        running = is_running(pid or self.pid, self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or self.pid, number)
        return running

    def send_all(self, number: int) -> bool:
        """Send a signal to the command and its workers, like a terminal.

        Return whether it was running.
        """
        running = is_running(self.pid, self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        return running

    def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and output.

        A run that hangs is killed, and the test fails.
        """
        try:
            output, errors = self._process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.send_all(signal.SIGKILL)
            self._process.communicate()
            raise AssertionError(f"hang: no end after {TIMEOUT:.0f} s") from None
        said = (output + errors).decode()
        assert "Traceback" not in said, said
        return self._process.returncode, said

    def workers_end(self) -> float:
        """Wait until all workers have ended; return the seconds that it took."""
        began = time.monotonic()
        while left := [pid for pid in self.seen if is_running(pid, self.pid)]:
            assert time.monotonic() - began < WORKERS_END, (
                f"workers {left} have outlived their parent"
            )
            time.sleep(0.01)
        return time.monotonic() - began


def is_running(pid: int, session: int) -> bool:
    """Return whether a process of this session is running; its number may have been reused."""
    try:
        state, *_ = fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return state != "Z" and int(fields[3]) == session


MOMENTS: dict[str, tuple[str, int]] = {
    "the lock is taken": (".out.fastrec-lock", 1),
    "the first run is sorted": (".out.fastrec-work/run-*", 1),
    "half of the runs are sorted": (".out.fastrec-work/run-*", 6),
    "the first part is merged": (".out.fastrec-new/part-*.jsonl*", 1),
}
"""Moments of a run: as soon as a number of files match a pattern beside the output."""


def wait_for(process: Process, moment: str, out: Path) -> bool:
    """Wait for a moment of a run; return False if the run has ended before."""
    pattern, count = MOMENTS[moment]
    return process.wait_until(lambda: len(list(out.parent.glob(pattern))) >= count)


def make_pile(shards: Path, out: Path) -> Pile:
    """Run without faults."""
    process = Process(command(shards, out))
    code, said = process.end()
    assert code == 0, said
    return Pile(shards, contents(out), time.monotonic() - process.began)


def check_after(out: Path, allowed: list[dict[str, bytes] | None]) -> None:
    """Check that OUT is one of the allowed states; None stands for no OUT."""
    found = contents(out) if out.exists() else None
    assert any(found == one for one in allowed), "OUT is neither absent nor whole"
