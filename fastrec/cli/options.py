"""Types of option values, and the options that several commands share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fastrec.cli.console import print_notice
from fastrec.cli.memory import limit_memory
from fastrec.errors import UsageError

__all__ = [
    "Count", "Number", "Size", "accuracy_option", "choice_option", "command", "errors_as_wrong_option", "jobs_option",
    "no_progress_option", "prepare_reading", "raw_cells_option", "reading_options", "repair_option",
]  # fmt: skip

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of bytes: `65536`, `512M`, `2GiB`; K, M, G and T are powers of 1,024."""

    name = "size"
    _PATTERN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        match = self._PATTERN.fullmatch(str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a size; use a number of bytes, or a unit: 512M, 2GiB", param, ctx)
        unit = 1024 ** (" KMGT".index(match[2].upper()) if match[2] else 0)
        return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


class Count(click.IntRange):
    """An integer within bounds. Errors of `click.IntRange` say "not a valid integer range"; these do not."""

    name = "integer"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class RepairNames(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Names of repairs with commas in between, or `all`."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the names, and return them as they were given."""
        from fastrec.arguments import field_names
        from fastrec.judge.repair import repair_codes

        try:
            repair_codes(field_names("repair", str(value)))
        except UsageError as exc:
            self.fail(str(exc), param, ctx)
        return str(value)


def command(short_help: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command with the option that every command has."""

    def make(function: Callable[..., None]) -> click.Command:
        made = click.command(short_help=short_help)(function)
        text = "With -vv, print a traceback for unexpected errors."
        made.params.append(click.Option(["-v", "--verbose"], count=True, expose_value=False, help=text))
        return made

    return make


def choice_option(
    name: str, choices: Sequence[str], text: str, *, to: str | None = None, **more: Any
) -> Callable[[_Command], _Command]:
    """Make an option with fixed values; the first is the default. `to` names the parameter of the function."""
    names = (name,) if to is None else (name, to)
    return click.option(*names, type=click.Choice(choices), default=choices[0], show_default=True, help=text, **more)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option("-j", "--jobs", type=Count(min=1), metavar="N", envvar="FASTREC_JOBS", show_envvar=True,
                           default=_cores, show_default="all cores",
                           help="Number of processes. Small inputs always use one.")  # fmt: skip
no_progress_option = click.option("--no-progress", is_flag=True, envvar="FASTREC_NO_PROGRESS", show_envvar=True,
                                  help="Do not show progress on a terminal.")  # fmt: skip
errors_as_wrong_option = click.option("--errors-as-wrong", is_flag=True,
                                      help="Count records with an error as wrong answers. By default they do not "
                                           "count.")  # fmt: skip
accuracy_option = click.option("--accuracy", is_flag=True,
                               help="Show the accuracy even where scores are other than 0 and 1.")  # fmt: skip
raw_cells_option = click.option("--raw-cells", is_flag=True,
                                help="CSV: do not put a single quote before text that a spreadsheet would take for "
                                     "a formula.")  # fmt: skip

repair_option = click.option("--repair", type=RepairNames(), multiple=True, metavar="NAMES",
                             help="Repair what known producers get wrong: all, or comma-separated names of repairs; "
                                  "may be repeated.")  # fmt: skip


def reading_options(function: _Command) -> _Command:
    """Add the options about reading shards."""
    for option in (
        click.option("--max-window", type=Size(), default="128MiB", show_default=True, help="Largest zstd window."),
        click.option("--max-line-bytes", type=Size(), default="1GiB", show_default=True,
                     help="Longer lines are invalid."),
        click.option("--files-from", type=click.Path(), metavar="FILE",
                     help="Read more paths from this file (- for stdin), one per line."),
    ):  # fmt: skip
        function = option(function)
    return function


def prepare_reading(jobs: int, paths: Sequence[str] = ()) -> None:
    """Limit memory. Tell a user whose terminal is read as standard input, since the command seems to hang."""
    if "-" in paths and sys.stdin is not None and sys.stdin.isatty():
        print_notice("reading from this terminal: type or paste lines, and end with Ctrl-D")
    limit_memory(jobs)
