"""Printing: text that comes from input never reaches a terminal raw."""

from __future__ import annotations

import os
import re

import click

__all__ = ["decimal", "jobs_option", "megabytes", "print_error", "print_notice", "safe", "size_option"]

# Control characters, and those that reorder or hide text on a terminal.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def safe(text: str) -> str:
    """Escape what could steer a terminal."""
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


def print_error(message: str) -> None:
    """Say on stderr what went wrong; a message may have several lines."""
    first, *rest = message.split("\n")
    click.echo(f"{click.style('error:', fg='red', bold=True)} {safe(first)}", err=True)
    for line in rest:
        click.echo(safe(line), err=True)


def print_notice(message: str) -> None:
    """Say on stderr something that is good to know."""
    click.echo(f"{click.style('note:', fg='cyan')} {safe(message)}", err=True)


def decimal(number: int) -> str:
    """Spell a count for people."""
    return f"{number:,}"


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


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of bytes: `65536`, `512M`, `2GiB`; K, M, G and T are powers of 1,024."""

    name = "size"
    _PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)

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


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=cores,
    show_default="all cores",
    help="Processes to use. Small inputs are handled in one anyway.",
)
