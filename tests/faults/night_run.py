"""One incremental night in its own process, which kills itself before some change to a file, if it
is told to.

    python -m tests.faults.night_run NIGHT

NIGHT is a JSON document, see `NightRun`. The process prints how many changes it has made.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Self

import msgspec

from fastrec.errors import FastrecError
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.faults.injecting import Faults

CHANGES = frozenset(
    {
        "write",
        "pwrite",
        "ftruncate",
        "close",
        "fsync",
        "mkdir",
        "chmod",
        "rename",
        "unlink",
        "rmdir",
        "link",
    }
)
"""Operations that change files, or end a change."""


class NightRun(msgspec.Struct):
    """A night, and when to end it."""

    paths: list[str]
    out: str
    options: dict[str, Any]
    limits: Limits = LIMITS
    kill_at: int = 0
    """Number of the change before which the process kills itself; 0: never."""

    def made_options(self) -> Options:
        """Return the options of a night that was read from JSON."""
        names = dict(zip(Options.__struct_fields__, Options.__struct_encode_fields__, strict=True))
        options = {names[name]: value for name, value in self.options.items()}
        return msgspec.convert({**options, "incremental": True, "overwrite": True}, Options)

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        return [sys.executable, "-m", "tests.faults.night_run", msgspec.json.encode(self).decode()]


class Kill(Faults):
    """Counts changes to files below a directory, and kills this process before one of them."""

    def __init__(self, folder: Path, kill_at: int) -> None:
        super().__init__(folder)
        self.kill_at = kill_at
        self.count = 0

    def __enter__(self) -> Self:
        super().__enter__()
        self._patch.setattr(os, "link", self._of_path("link", os.link))
        return self

    def meet(self, operation: str, path: str) -> None:
        """Count a change."""
        if operation in CHANGES and not path.endswith("-lock"):
            self.count += 1
            if self.count == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Run the night; return the exit code."""
    night = msgspec.json.decode(sys.argv[1], type=NightRun)
    os.fsync = lambda _: None  # it matters after a power failure only, and takes time
    with Kill(Path(night.out).parent, night.kill_at) as kill:
        try:
            use_limits(night.limits)(run)(night.paths, night.out, night.made_options())
        except (FastrecError, OSError) as exc:
            sys.stderr.write(f"{type(exc).__name__}: {exc}\n")
            return 3
    sys.stdout.write(f"{kill.count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
