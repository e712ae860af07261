"""All contenders by label, and the command that runs one in a fresh process.

fastrec is measured as the command that a user types. The peers run as `python -m bench.contenders
LABEL JOB`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from bench.job import Command, Contender, Job
from bench.logs import LogRecompression
from bench.peers import NORMALIZERS, Decompression, TunedDuckDB
from bench.table_logs import ANSWERS
from bench.validators import VALIDATORS
from bench.viewing import Ranking, Viewing
from fastrec.corpus.trust import remember

__all__ = [
    "CAT",
    "CONTENDERS",
    "DIFF",
    "EXPORT",
    "FLOOR",
    "IMPORT",
    "LEADERBOARD",
    "LOG_FLOOR",
    "NORMALIZE",
    "READING",
]
__all__ += ["ASK", "CHANGE", "VALIDATE", "VIEW", "command_of"]

NORMALIZE = "fastrec normalize"
VALIDATE = "fastrec validate"
FLOOR = "bare recompression"
CAT = "fastrec cat"
EXPORT = "fastrec export"
DIFF = "fastrec diff"
READING = "bare decompression"
CHANGE = "fastrec normalize CORPUS"
IMPORT = "fastrec import"
LOG_FLOOR = LogRecompression.label
LEADERBOARD = Ranking.label
VIEW = Viewing.label
ASK = "fastrec sql"


class Fastrec:
    """A command of fastrec."""

    leaves_out = ""

    def __init__(self, name: str) -> None:
        self.label = f"fastrec {name}"
        self._name = name

    def command(self, job: Job) -> list[str]:
        """The command line."""
        options = ["--jobs", str(job.jobs), *job.options]
        if self._name == "normalize":
            options += [
                "--output",
                f"{job.output}/corpus",
                "--level",
                str(job.level),
                "--max-rejects",
                "100%",
                "-q",
            ]
        if self._name == "import":
            options += ["--output", f"{job.output}/records", "--strict"]
        if self._name == "export":
            options += ["--output", f"{job.output}/tables", "-q"]
        inputs = (
            [f"{job.inputs[0]}/{night}" for night in ("old", "new")]
            if self._name == "diff"
            else job.inputs
        )
        if "--input-column" in options:  # a directory has a description of the table, too
            inputs = (f"{job.inputs[0]}/{ANSWERS}",)
        return [sys.executable, "-m", "fastrec", self._name, *inputs, *options]

    def run(self, job: Job) -> None:
        """Run the command."""
        subprocess.run(self.command(job), check=True)


class Asking(Fastrec):
    """`fastrec sql` with the query that is the option."""

    def __init__(self) -> None:
        super().__init__("sql")
        self.label = ASK

    def command(self, job: Job) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "fastrec", "sql", *job.inputs, job.options[0]]


class Change(Fastrec):
    """`normalize` of corpora that are trusted as if this build had just published them."""

    def __init__(self) -> None:
        super().__init__("normalize")
        self.label = CHANGE

    def command(self, job: Job) -> list[str]:
        """The command line; the corpora are on the list of this user from now on."""
        for manifest in Path(job.inputs[0]).rglob("manifest.json"):
            remember(manifest.read_bytes())
        return super().command(job)


_ALL: tuple[Contender, ...] = (
    *map(Fastrec, ("normalize", "validate", "cat", "export", "diff", "import")),
    Change(),
    Decompression(),
    LogRecompression(),
    Ranking(),
    Viewing(),
    TunedDuckDB("8GB"),
    Asking(),
    *NORMALIZERS,
    *VALIDATORS,
)
CONTENDERS = {contender.label: contender for contender in _ALL}


def command_of(contender: Contender, job: Job) -> list[str]:
    """The command that runs a contender in a fresh process."""
    if isinstance(contender, Command):
        return contender.command(job)
    return [
        sys.executable,
        "-m",
        "bench.contenders",
        contender.label,
        msgspec.json.encode(job).decode(),
    ]


def _main(label: str, job: str) -> None:
    CONTENDERS[label].run(msgspec.json.decode(job, type=Job))


if __name__ == "__main__":
    _main(*sys.argv[1:])
