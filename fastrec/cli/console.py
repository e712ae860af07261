"""Printing for people: documents and messages. Text from input never reaches a terminal unescaped."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

import click

from fastrec.cli.spelling import UNSAFE, safe
from fastrec.errors import CorpusError, ShardError, naming, shown

__all__ = [
    "allow_broken_pipe", "explain_damage", "print_error", "print_json", "print_notice", "print_stderr", "print_warning",
    "status_line",
]  # fmt: skip

_status_lines: list[Callable[[], None]] = []  # functions that erase a line that is drawn again and again


def print_json(document: object) -> None:
    """Print a document as indented JSON, with escapes for characters that could control a terminal."""
    import json

    import msgspec

    from fastrec.judge.parse import spell

    text = spell(document).decode()  # integers may have more digits than msgspec encodes
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
    for erase in _status_lines:
        erase()
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
def status_line(erase: Callable[[], None]) -> Iterator[None]:
    """Draw on the last line of stderr in this block; `erase` is called before anything else is printed, and at last."""
    _status_lines.append(erase)
    try:
        yield
    finally:
        _status_lines.pop()
        erase()


@contextlib.contextmanager
def explain_damage(*corpora: str) -> Iterator[None]:
    """Read corpora in this block: an error about a damaged one gets a note that says what to do.

    A corpus of another version of fastrec is not damaged, and its error says what to do.
    """
    try:
        yield
    except (ShardError, CorpusError) as exc:
        if "fastrec verify" not in str(exc) and "this version of fastrec reads" not in str(exc):
            inside = [corpus for corpus in corpora if exc.path.startswith(os.path.join(corpus, ""))]  # noqa: PTH118
            corpus = shown((inside or corpora)[0])
            exc.add_note(f"The corpus is damaged; normalize again. `fastrec verify {corpus}` lists all problems.")
        raise
