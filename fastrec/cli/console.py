"""Printing for people. Text that comes from input never reaches a terminal unescaped."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from fastrec.cli.spelling import json_escaped, safe
from fastrec.errors import CorpusError, ShardError, naming, shown

__all__ = [
    "allow_broken_pipe",
    "explain_damage",
    "note_terminal_input",
    "print_error",
    "print_json",
    "print_notice",
    "print_stderr",
    "progress_line",
]


def print_json(document: object) -> None:
    """Print a document as indented JSON, with escapes for characters that could control a terminal."""
    import msgspec

    lines = msgspec.json.format(msgspec.json.encode(document)).decode().split("\n")
    click.echo("\n".join(map(json_escaped, lines)))


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


_progress_lines: list[Callable[[], None]] = []


@contextlib.contextmanager
def progress_line(clear: Callable[[], None]) -> Iterator[None]:
    """Draw on the last line of stderr in this block; `clear` erases it before anything else is printed."""
    _progress_lines.append(clear)
    try:
        yield
    finally:
        _progress_lines.remove(clear)
        clear()


def print_stderr(text: str) -> None:
    """Print a line on stderr. If stderr cannot be written, for example because a disk is full, work continues."""
    for clear in _progress_lines:
        clear()
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


def print_notice(message: str) -> None:
    """Print a notice on stderr."""
    print_stderr(f"{click.style('note:', fg='cyan')} {safe(message)}")


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


def note_terminal_input(paths: tuple[str, ...]) -> None:
    """Tell a user whose terminal is read as standard input, since the command seems to hang."""
    if "-" in paths and sys.stdin is not None and sys.stdin.isatty():
        print_notice("reading from this terminal: type or paste lines, and end with Ctrl-D")
