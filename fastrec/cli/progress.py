"""Progress on a terminal: one line on stderr that is drawn anew; nothing if stderr is not a terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator

from fastrec.cli.console import decimal, drawing

__all__ = ["make_progress"]

_EVERY = 0.1  # seconds between two drawings


class _Line:
    """Draws how far a run is."""

    def __init__(self) -> None:
        self._stage = ""
        self._total = self._done = self._records = self._rejects = 0
        self._begin = self._drawn = 0.0

    def start(self, stage: str, total_bytes: int) -> None:
        self._stage, self._total = stage, total_bytes
        self._done = self._records = 0
        self._begin = time.monotonic()
        self._draw()

    def advance(self, size: int, records: int, rejects: int) -> None:
        self._done += size
        self._records += records
        self._rejects += rejects
        if time.monotonic() - self._drawn >= _EVERY:
            self._draw()

    def finish(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._show("")

    def _draw(self) -> None:
        self._drawn = now = time.monotonic()
        passed = max(now - self._begin, 1e-3)
        share = min(self._done / self._total, 1.0) if self._total else 0.0
        left = f", {passed / share - passed:.0f} s left" if share > 0.02 else ""  # near the front: a line may be cut
        bar = "█" * int(share * 20)
        rejects = f", {decimal(self._rejects)} rejected" if self._rejects else ""
        text = (
            f"{self._stage:<5} {bar:<20} {share:4.0%}{left}  {self._done / 1e6:,.0f} MB, "
            f"{self._done / 1e6 / passed:,.0f} MB/s, {self._records / passed:,.0f} records/s{rejects}"
        )
        width = shutil.get_terminal_size().columns
        self._show(text[: max(width - 1, 20)])

    def _show(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone is no reason to stop
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


@contextlib.contextmanager
def make_progress(*, quiet: bool) -> Iterator[_Line | None]:
    """Give something that shows progress, if somebody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    line = _Line()
    with drawing(line.clear):
        yield line
