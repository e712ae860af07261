"""Run the command line in this process: the same arguments, streams and exit code as in a new one,
but much faster.

Starting Python and importing fastrec takes a quarter of a second. A test whose point is the process
itself (closed pipes, signals, memory, encodings) gives options of `subprocess.run`, and so starts a
new one.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.cli import main
from fastrec.limits import LIMITS, Limits, use_limits


def run_command(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `python -m fastrec`; check that it prints no traceback.

    It runs in a new process if there are options for one. `cwd` and `input` need none.
    """
    if options.keys() <= {"cwd", "input"}:
        return run_here(*arguments, stdin=options.get("input", b""), cwd=options.get("cwd"))
    command = [sys.executable, "-m", "fastrec", *map(os.fspath, arguments)]
    settings: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "timeout": 60,
    } | options
    done = subprocess.run(command, check=False, **settings)
    assert b"Traceback" not in (done.stdout or b"") + (done.stderr or b"")
    return done


def make_page(corpus: str | os.PathLike[str], limits: Limits = LIMITS, **options: Any) -> bytes:
    """Return the page that `report` writes."""
    page = io.BytesIO()
    with use_limits(limits):
        assert fastrec.report(corpus, page, **options) == len(page.getvalue())
    return page.getvalue()


def run_here(
    *arguments: Any,
    stdin: bytes = b"",
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run `python -m fastrec` in this process, with some variables added to the environment."""
    words = [os.fsdecode(argument) for argument in arguments]
    streams = {"stdin": stdin, "stdout": b"", "stderr": b""}
    files = {
        name: io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for name, data in streams.items()
    }
    module = types.ModuleType("__main__")
    module.__package__ = "fastrec"  # click takes the name of the program from here
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd or "."), _process_state():
        for name, file in files.items():
            patch.setattr(sys, name, file)
        patch.setattr(sys, "argv", [str(Path(fastrec.__file__).with_name("__main__.py")), *words])
        patch.setitem(sys.modules, "__main__", module)
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
        for name in ("stdout", "stderr"):
            files[name].flush()
    out, err = (files[name].buffer.getvalue() for name in ("stdout", "stderr"))  # type: ignore[attr-defined]
    assert b"Traceback" not in out + err
    return subprocess.CompletedProcess(words, ended.value.code or 0, out, err)  # type: ignore[arg-type]


@contextlib.contextmanager
def _process_state() -> Iterator[None]:
    """Restore signal handlers and the timer, which the command line sets for its own process."""
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    }
    timer = signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
