"""Progress on a terminal: one line on stderr that is redrawn. Nothing is drawn if stderr is not a terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator

from fastrec.cli.console import progress_line
from fastrec.cli.spelling import decimal

__all__ = ["make_progress"]

_INTERVAL = 0.1  # seconds between two drawings


class _ProgressLine:
    """Draws how far a run is."""

    def __init__(self) -> None:
        self._stage = ""
        self._total = self._done = self._records = self._rejected = 0
        self._begin = self._drawn = 0.0

    def start(self, stage: str, total_bytes: int) -> None:
        self._stage, self._total = stage, total_bytes
        self._done = self._records = 0
        self._begin = time.monotonic()
        self._draw()

    def advance(self, size: int, records: int, rejects: int) -> None:
        self._done += size
        self._records += records
        self._rejected += rejects
        if time.monotonic() - self._drawn >= _INTERVAL:
            self._draw()

    def finish(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._show("")

    def _draw(self) -> None:
        self._drawn = now = time.monotonic()
        elapsed = max(now - self._begin, 1e-3)
        share = min(self._done / self._total, 1.0) if self._total else 0.0
        # The time left comes early in the line, because a narrow terminal cuts off its end.
        left = f", {elapsed / share - elapsed:.0f} s left" if share > 0.02 else ""
        bar = "█" * int(share * 20)
        rejected = f", {decimal(self._rejected)} rejected" if self._rejected else ""
        text = (
            f"{self._stage:<5} {bar:<20} {share:4.0%}{left}  {self._done / 1e6:,.0f} MB, "
            f"{self._done / 1e6 / elapsed:,.0f} MB/s, {self._records / elapsed:,.0f} records/s{rejected}"
        )
        self._show(text[: max(shutil.get_terminal_size().columns - 1, 20)])

    def _show(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed must not stop the run
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


@contextlib.contextmanager
def make_progress(*, quiet: bool) -> Iterator[_ProgressLine | None]:
    """Yield a progress line, or None if nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    line = _ProgressLine()
    with progress_line(line.clear):
        yield line
