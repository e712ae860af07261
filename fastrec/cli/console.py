"""Printing for people: documents, messages, and progress. Text from input never reaches a terminal unescaped."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

import click

from fastrec.cli.spelling import UNSAFE, safe
from fastrec.errors import CorpusError, ShardError, naming, shown

__all__ = [
    "allow_broken_pipe", "explain_damage", "make_progress", "print_error", "print_json", "print_notice", "print_stderr",
    "print_warning",
]  # fmt: skip

_INTERVAL = 0.1  # seconds between two drawings of the progress line


def print_json(document: object) -> None:
    """Print a document as indented JSON, with escapes for characters that could control a terminal."""
    import json

    import msgspec

    text = msgspec.json.encode(document).decode()
    click.echo(msgspec.json.format(UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)))


@contextlib.contextmanager
def allow_broken_pipe() -> Iterator[None]:
    """Print to stdout in this block: no error if the reader closes the pipe early, like `head`."""
    try:
        with naming("standard output"):
            yield
    except BrokenPipeError:
        _silence(sys.stdout, sys.stderr)


def _silence(*streams: TextIO) -> None:
    """Redirect streams to /dev/null, so that the flush at exit does not fail either."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # the stream may not be a file
            os.dup2(null, stream.fileno())
    os.close(null)


def print_stderr(text: str) -> None:
    """Print a line on stderr. If stderr cannot be written, for example because a disk is full, work continues."""
    for line in _progress_lines:
        line.finish()
    try:
        click.echo(text, err=True)
    except OSError:
        _silence(sys.stderr)


def print_error(message: str) -> None:
    """Print an error on stderr; the message may have several lines."""
    first, *rest = message.split("\n")
    print_stderr(f"{click.style('error:', fg='red', bold=True)} {safe(first)}")
    for line in rest:
        print_stderr(safe(line))


def print_notice(*messages: str) -> None:
    """Print notices on stderr."""
    for message in messages:
        print_stderr(f"{click.style('note:', fg='cyan')} {safe(message)}")


def print_warning(lines: Sequence[str]) -> None:
    """Print a message of any number of lines on stderr; the first begins with a word and a colon."""
    for number, line in enumerate(map(safe, lines)):
        word, colon, rest = line.partition(":")
        print_stderr(line if number else f"{click.style(word + colon, fg='yellow', bold=True)}{rest}")


@contextlib.contextmanager
def explain_damage(*corpora: str) -> Iterator[None]:
    """Read corpora in this block: an error about a damaged one gets a note that says what to do."""
    try:
        yield
    except (ShardError, CorpusError) as exc:
        if "fastrec verify" not in str(exc):
            inside = [corpus for corpus in corpora if exc.path.startswith(os.path.join(corpus, ""))]  # noqa: PTH118
            corpus = shown((inside or corpora)[0])
            exc.add_note(f"The corpus is damaged; normalize again. `fastrec verify {corpus}` lists all problems.")
        raise


class _ProgressLine:
    """Draws how far a run is on the last line of stderr. Anything else that is printed erases the line first."""

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
        self._show("")

    def _draw(self) -> None:
        self._drawn = now = time.monotonic()
        elapsed = max(now - self._begin, 1e-3)
        share = min(self._done / self._total, 1.0) if self._total else 0.0
        # The time left comes early in the line, because a narrow terminal cuts off its end.
        left = f", {elapsed / share - elapsed:.0f} s left" if share > 0.02 else ""
        bar = "█" * int(share * 20)
        rejected = f", {self._rejected:,} rejected" if self._rejected else ""
        text = (
            f"{self._stage:<5} {bar:<20} {share:4.0%}{left}  {self._done / 1e6:,.0f} MB, "
            f"{self._done / 1e6 / elapsed:,.0f} MB/s, {self._records / elapsed:,.0f} records/s{rejected}"
        )
        self._show(text[: max(shutil.get_terminal_size().columns - 1, 20)])

    def _show(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that was closed must not stop the run
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


_progress_lines: list[_ProgressLine] = []


@contextlib.contextmanager
def make_progress(*, quiet: bool) -> Iterator[_ProgressLine | None]:
    """Yield a progress line, or None if nobody would see it: stderr is not a terminal, or `quiet` is set."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    _progress_lines.append(_ProgressLine())
    try:
        yield _progress_lines[-1]
    finally:
        _progress_lines.pop().finish()
