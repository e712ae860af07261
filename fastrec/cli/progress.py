"""The progress line: one bar and one estimate of the remaining time for all stages of a command.

    sort  ███████              38%, 21 s left  1,240 MB, 96 MB/s, 31,204 records/s

Megabytes are those of all stages so far, so they go on like the bar; the speed is that of the
stage. Each stage has a cost per byte of text. While a stage runs, the stages after it count with
the same number of bytes, at their cost. When a stage begins, the bar continues where it is, and the
rest of it is shared by what remains to be done.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fastrec.cli.console import spell, status_line, terminal_columns
from fastrec.progress import Progress

_INTERVAL = 0.1  # seconds between two drawings
_LEAST_SHARE = 0.02  # of the work, before the remaining time is estimated
# Time per byte of text, relative to that of `sort`.
#
# Measured: `merge` 0.76 on real and 0.97 on synthetic records, and `count` 0.5. `round` is a guess;
# it only runs if there are very many runs.
_COSTS = defaultdict(lambda: 1.0, {"round": 0.3, "merge": 0.85, "count": 0.5})


@contextmanager
def make_progress(*stages: str, quiet: bool) -> Iterator[ProgressLine | None]:
    """Yield a progress line, or None if stderr is not a terminal, or if `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    line = ProgressLine(*stages)
    with status_line(line.erase):
        yield line


class ProgressLine(Progress):
    """Draws how far a command is on the last line of stderr.

    Anything else that is printed erases the line first.
    """

    def __init__(self, *stages: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._later = list(stages)  # that are expected after this one
        self._stage = _Stage("", 0, clock())
        self._before = 0.0  # the share of the whole command that was done when this stage began
        self._origin = clock(), 0.0  # when the work began, and the share that was done then
        self._bytes = 0  # of earlier stages
        self._rejected = 0  # lines
        self._drawn = 0.0
        self.share = 0.0  # of the whole command that is done

    def start(self, stage: str, total_bytes: int) -> None:
        """A stage begins. One that was not expected comes before all that are."""
        if stage in self._later:
            self._later = self._later[self._later.index(stage) + 1 :]
        self._stage = _Stage(stage, total_bytes, self._clock())
        self._draw()

    def expect(self, total_bytes: int) -> None:
        self._stage.total = total_bytes

    def reuse(self, size: int) -> None:
        """Some bytes are done without work, so they do not count as speed."""
        self._stage.reused += size
        self._stage.begin = self._clock()
        self._draw()
        self._origin = self._stage.begin, self.share

    def advance(self, size: int, records: int, rejects: int) -> None:
        self._stage.done += size
        self._stage.records += records
        self._rejected += rejects
        if self._clock() - self._drawn >= _INTERVAL:
            self._draw()

    def finish(self) -> None:
        stage = self._stage
        stage.total = stage.done + stage.reused
        self._update()
        self._before = self.share
        self._bytes += stage.total
        self._stage = _Stage("", 0, self._clock())
        self.erase()

    def seconds_left(self) -> float | None:
        """Estimate the remaining time of the whole command; None if it is too early."""
        began, reused = self._origin
        done = self.share - reused
        if self.share < _LEAST_SHARE or not done:
            return None
        return (self._clock() - began) * (1 - self.share) / done

    def erase(self) -> None:
        self._show("")

    def _update(self) -> None:
        """Compute the share of the command that is done.

        It never decreases, however the estimates change.
        """
        cost = _COSTS[self._stage.name]
        share = self._stage.share * cost / (cost + sum(map(_COSTS.__getitem__, self._later)))
        self.share = max(self.share, self._before + (1 - self._before) * share)

    def _draw(self) -> None:
        self._drawn = now = self._clock()
        self._update()
        stage = self._stage
        elapsed = max(now - stage.begin, 1e-3)
        left = self.seconds_left()
        # The time left comes early in the line, because a narrow terminal cuts off its end.
        text = spell(
            "{name:<5} {bar:<20} {share:4.0%}[?, {left} left]  {megabytes:,.0f} MB, "
            "{speed:,.0f} MB/s, {pace:,.0f} records/s[?, {rejected:,} rejected]",
            name=stage.name,
            bar="█" * int(self.share * 20),
            share=self.share,
            left="" if left is None else _format_seconds(left),
            megabytes=(self._bytes + stage.done + stage.reused) / 1e6,
            speed=stage.done / 1e6 / elapsed,
            pace=stage.records / elapsed,
            rejected=self._rejected,
        )
        self._show(text[: max(terminal_columns() - 1, 20)])

    def _show(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed must not stop the run
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


@dataclass
class _Stage:
    name: str
    total: int
    begin: float
    done: int = 0
    reused: int = 0
    records: int = 0

    @property
    def share(self) -> float:
        return min((self.done + self.reused) / self.total, 1.0) if self.total else 0.0


def _format_seconds(seconds: float) -> str:
    """Spell a duration.

    >>> [_format_seconds(seconds) for seconds in (0.4, 99, 150, 9000)]
    ['0 s', '99 s', '2 min', '2 h 30 min']
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
