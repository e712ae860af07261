"""`fastrec rejects`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from fastrec.cli.console import counted, decimal, print_json, print_notice, reader_may_leave, say, using, verbose_option
from fastrec.cli.findings import print_groups
from fastrec.errors import FastrecError, UsageError, shown

if TYPE_CHECKING:
    from fastrec.commands.rejects import Rejects

__all__ = ["rejects"]

_STDOUT = "-"


@click.command(short_help="List what was rejected, or write the lines back out.")
@click.argument("corpus", type=click.Path())
@click.option("--code", "codes", multiple=True, metavar="CODE",
              help="Only lines whose first reason has this code; may be repeated.")  # fmt: skip
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How to list: for people or for programs.")  # fmt: skip
@click.option("--extract", "target", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write the rejected lines to this new file (- for stdout) instead of listing them.")  # fmt: skip
@verbose_option
def rejects(corpus: str, codes: tuple[str, ...], output_format: str, target: str | None) -> None:
    """List what was rejected on the way to CORPUS, or write the lines back out to be mended.

    Each line is listed under its first reason, as the summary counts it. Extracted lines are the exact bytes that were
    read, one a line, so that they can be mended and given to `fastrec normalize` again.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or CORPUS is no corpus
      3     the rejects could not be read, or the lines not be written

    \b
    Examples:
      fastrec rejects corpus
      fastrec rejects corpus --code json.syntax --extract mend.jsonl
      fastrec rejects corpus --extract - | head -1
    """
    if target is not None:
        _extract(corpus, codes, target)
        return
    from fastrec.commands.rejects import rejects as run

    with using(corpus):
        found = run(corpus, codes=codes)
    with reader_may_leave():
        if output_format == "json":
            print_json(found)
        else:
            print_groups(found.groups, found.lines, "lines with other reasons; --code CODE lists those of one code")
            click.echo(_closing_line(found, codes))


def _closing_line(found: Rejects, codes: tuple[str, ...]) -> str:
    if not found.lines:
        return f"no line was rejected as {' or '.join(codes)}" if codes else "no line was rejected"
    counts = ", ".join(f"{decimal(count)} {code}" for code, count in found.codes.items())
    return f"{counted(found.lines, 'rejected line')}: {counts}"


def _extract(corpus: str, codes: tuple[str, ...], target: str) -> None:
    from fastrec.commands.rejects import extract

    with reader_may_leave():
        with using(corpus), _opened(target) as file:
            done = extract(corpus, file, codes=codes)
        for place in done.truncated:
            print_notice(f"{place.source}:{place.line} was too long to be kept: it is left out here, mend it there")
        where = "" if target == _STDOUT else f" written to {shown(target)}"
        say(f"{counted(done.lines, 'rejected line')}{where}" if done.lines else "no line was rejected")


@contextlib.contextmanager
def _opened(target: str) -> Iterator[BinaryIO]:
    """Open what the lines go to: a new file, so that none that was mended already is lost; no half of one stays."""
    if target == _STDOUT:
        stdout = sys.stdout.buffer
        yield stdout
        stdout.flush()
        return
    path = Path(target)
    try:
        file = path.open("xb")
    except FileExistsError as exc:
        raise UsageError(f"{shown(target)} exists: name a new file, so that nothing in it is lost") from exc
    try:
        with file:
            yield file
    except BaseException as exc:
        path.unlink()
        if isinstance(exc, OSError):
            raise FastrecError(f"{shown(target)} cannot be written: {exc.strerror}") from exc
        raise
