"""Printing: text that comes from input never reaches a terminal raw."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from fastrec.errors import CorpusError, ShardError, naming, shown

__all__ = [
    "Count",
    "Number",
    "ask_for_input",
    "counted",
    "decimal",
    "drawing",
    "jobs_option",
    "megabytes",
    "no_progress_option",
    "pace",
    "print_error",
    "print_json",
    "print_notice",
    "reader_may_leave",
    "safe",
    "say",
    "size_option",
    "using",
    "verbose_option",
]

# Control characters, and those that reorder or hide text on a terminal.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)


def safe(text: str) -> str:
    """Escape what could steer a terminal."""
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def print_json(document: object) -> None:
    """Print a document as indented JSON; what could steer a terminal stands inside of its strings, as an escape."""
    import msgspec

    lines = msgspec.json.format(msgspec.json.encode(document)).decode().split("\n")
    click.echo("\n".join(_UNSAFE.sub(_json_escape, line) for line in lines))


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print in here: if whoever reads our output has had enough, that is no reason to complain."""
    try:
        with naming("standard output"):
            yield
    except BrokenPipeError:
        _hush(sys.stdout, sys.stderr)


def _hush(*streams: TextIO) -> None:
    """Say no more, not even when Python flushes its streams at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # a stream need not be a file
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


_drawn: list[Callable[[], None]] = []


@contextlib.contextmanager
def drawing(clear: Callable[[], None]) -> Iterator[None]:
    """Draw on a line of stderr in here, which `clear` makes empty: whoever has something to say needs the room."""
    _drawn.append(clear)
    try:
        yield
    finally:
        _drawn.remove(clear)
        clear()


def say(text: str) -> None:
    """Print a line on stderr. If it cannot be heard, because a log is full, say, the work goes on all the same."""
    for clear in _drawn:
        clear()
    try:
        click.echo(text, err=True)
    except OSError:
        _hush(sys.stderr)


@contextlib.contextmanager
def using(*corpora: str) -> Iterator[None]:
    """Use corpora in here: if one turns out to be damaged, say what helps."""
    try:
        yield
    except (ShardError, CorpusError) as exc:
        if "fastrec verify" not in str(exc):
            corpus = _owner(exc.path, corpora)
            exc.add_note(
                f"The corpus is damaged: normalize again. `fastrec verify {shown(corpus)}` lists what is wrong."
            )
        raise


def _owner(path: str, corpora: tuple[str, ...]) -> str:
    """Which of some corpora a file belongs to."""
    return next((corpus for corpus in corpora if path.startswith(os.path.join(corpus, ""))), corpora[0])  # noqa: PTH118


def ask_for_input(paths: tuple[str, ...]) -> None:
    """Say that somebody at a terminal is waited for, who may not know it."""
    if "-" in paths and sys.stdin is not None and sys.stdin.isatty():
        print_notice("reading from this terminal: type or paste lines, and end with Ctrl-D")


def print_error(message: str) -> None:
    """Say on stderr what went wrong; a message may have several lines."""
    first, *rest = message.split("\n")
    say(f"{click.style('error:', fg='red', bold=True)} {safe(first)}")
    for line in rest:
        say(safe(line))


def print_notice(message: str) -> None:
    """Say on stderr something that is good to know."""
    say(f"{click.style('note:', fg='cyan')} {safe(message)}")


def decimal(number: int) -> str:
    """Spell a count for people."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Spell a count of things for people.

    >>> counted(1, "part"), counted(1_200, "line")
    ('1 part', '1,200 lines')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def megabytes(size: int) -> str:
    """Spell a size for people.

    >>> megabytes(123), megabytes(45_600), megabytes(7_890_000), megabytes(1_234_000_000)
    ('123 B', '45.6 kB', '7.9 MB', '1.23 GB')
    """
    if size < 1_000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1_000_000_000 else f"{size / 1e9:.2f} GB"


def pace(size: int, seconds: float) -> str:
    """Spell how long some text took, and how fast that was.

    >>> pace(4_600_000_000, 2.0)
    'in 2.00 s, 2,300 MB/s'
    """
    return f"in {seconds:.2f} s, {size / 1e6 / max(seconds, 1e-9):,.0f} MB/s"


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of bytes: `65536`, `512M`, `2GiB`; K, M, G and T are powers of 1,024."""

    name = "size"
    _PATTERN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Turn what was typed into bytes."""
        if isinstance(value, int):
            return value
        match = self._PATTERN.fullmatch(str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a size: write a number of bytes, or 512M, 2GiB and the like", param, ctx)
        unit = 1024 ** (" KMGT".index(match[2].upper()) if match[2] else 0)
        return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


size_option = Size()


class Count(click.IntRange):
    """An integer within bounds; of a wrong one click would say that it is "not a valid integer range"."""

    name = "integer"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "-j",
    "--jobs",
    type=Count(min=1),
    metavar="N",
    envvar="FASTREC_JOBS",
    show_envvar=True,
    default=cores,
    show_default="all cores",
    help="Processes to use. Small inputs are handled in one anyway.",
)

no_progress_option = click.option(
    "--no-progress",
    is_flag=True,
    envvar="FASTREC_NO_PROGRESS",
    show_envvar=True,
    help="Draw no progress on a terminal.",
)

verbose_option = click.option(
    "-v", "--verbose", count=True, expose_value=False, help="With -vv, show where an unexpected error comes from."
)
