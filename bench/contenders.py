"""What is measured: contenders, each of which does a job in a fresh process.

A contender has a `label`, a `run`, and says what it `leaves_out` of the job. Those of fastrec are commands as a user
types them; the peers (`bench.peers`) are run by `python -m bench.contenders LABEL JOB`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

__all__ = ["Command", "Contender", "Fastrec", "Job", "command_of", "contenders"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: shards to read, a directory to write to, another for temporary files."""

    inputs: tuple[str, ...]
    """A directory of shards, or some of its shards."""
    output: str
    scratch: str
    jobs: int
    level: int
    options: tuple[str, ...] = ()
    """Further options of the command line of fastrec."""

    def shards(self) -> list[str]:
        """The paths of all shards."""
        paths = map(Path, self.inputs)
        return [str(shard) for path in paths for shard in (sorted(path.rglob("*.jsonl*")) if path.is_dir() else [path])]


class Contender(Protocol):
    """Does a job."""

    label: str
    leaves_out: str

    def run(self, job: Job) -> Any:
        """Do the job, in this process and its children."""


@runtime_checkable
class Command(Protocol):
    """A contender that is a command of its own: it is measured without any Python of ours around it."""

    def command(self, job: Job) -> list[str]:
        """Give the command line that does the job."""


class Fastrec:
    """A command of fastrec."""

    leaves_out = ""

    def __init__(self, name: str) -> None:
        self.label = f"fastrec {name}"
        self._name = name

    def command(self, job: Job) -> list[str]:
        """Give the command line."""
        options = ["--jobs", str(job.jobs), *job.options]
        if self._name == "normalize":
            options += ["--output", f"{job.output}/corpus", "--level", str(job.level), "--max-rejects", "100%", "-q"]
        if self._name == "export":
            options += ["--output", f"{job.output}/tables", "-q"]
        inputs = [f"{job.inputs[0]}/{night}" for night in ("old", "new")] if self._name == "diff" else job.inputs
        return [sys.executable, "-m", "fastrec", self._name, *inputs, *options]

    def run(self, job: Job) -> None:
        """Run the command."""
        subprocess.run(self.command(job), check=True)


def contenders() -> dict[str, Contender]:
    """All contenders by label. The modules of the peers are imported only by the one that runs."""
    from bench.peers import NORMALIZING, Decompression  # noqa: PLC0415 - it imports Job from here
    from bench.validators import VALIDATING  # noqa: PLC0415

    ours = map(Fastrec, ("normalize", "validate", "cat", "export", "diff"))
    everyone: list[Contender] = [*ours, Decompression(), *NORMALIZING, *VALIDATING]
    return {contender.label: contender for contender in everyone}


def command_of(contender: Contender, job: Job) -> list[str]:
    """The command that has a contender do a job in a fresh process."""
    if isinstance(contender, Command):
        return contender.command(job)
    return [sys.executable, "-m", "bench.contenders", contender.label, msgspec.json.encode(job).decode()]


def _main(label: str, job: str) -> None:
    contenders()[label].run(msgspec.json.decode(job, type=Job))


if __name__ == "__main__":
    _main(*sys.argv[1:])
