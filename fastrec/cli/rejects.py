"""`fastrec rejects`."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    format_repairable,
    print_exactly,
    print_found,
    print_notice,
    print_stderr,
)
from fastrec.cli.options import command, format_option, option, shared
from fastrec.cli.tables import print_groups
from fastrec.errors import counted, shown

if TYPE_CHECKING:
    from fastrec.commands.rejects import RejectGroup, Rejects


@command("List rejected lines, or extract them.", usage="the command line is wrong, or CORPUS is not a corpus",
         failure="the rejected lines could not be read or written")  # fmt: skip
@shared("corpus")
@option("--code", "Only lines whose first error has this code; may be repeated.", multiple=True, metavar="CODE")
@format_option("text", "json", text="Output format of the list.")
@option("--extract", "Write the rejected lines to this new file (- for stdout) instead of listing them.",
        type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE")  # fmt: skip
def rejects(corpus: str, code: tuple[str, ...], output_format: str, extract: str | None) -> None:
    """List the rejected lines of CORPUS, or extract them.

    Each line is listed under its first error, which is also how the summary counts it, with the number of lines that
    `fastrec normalize --repair` would keep. The other errors of these lines follow, up to ten in all. Extracted
    lines are the exact bytes of the input, so that they can be fixed and given to `fastrec normalize` again.

    \b
    Examples:
      fastrec rejects corpus
      fastrec rejects corpus --code json.syntax --extract fix.jsonl
      fastrec rejects corpus --extract - | head -1
    """
    from fastrec.commands.rejects import rejects as run

    if extract is not None:
        _extract(corpus, code, extract)
        return
    with explain_damage(corpus):
        found = run(corpus, code=code)
    print_found(found, output_format, text=lambda: _print(found, code))


def _print(found: Rejects, code: tuple[str, ...]) -> None:
    if not found.lines:
        click.echo(f"no line was rejected{' as ' if code else ''}{' or '.join(code)}")
        return
    print_groups(found.groups, found.lines, "lines with other errors; --code CODE lists one code", _about)
    if found.repairable:
        click.echo(format_repairable(found.repairable, found.repairable_by_code, found.lines))
    counts = ", ".join(f"{count:,} {code}" for code, count in found.codes.items())
    click.echo(f"{counted(found.lines, 'rejected line')}: {counts}")


def _about(group: RejectGroup) -> tuple[str, list[str]]:
    """Say how many lines of a group repairs would keep, and describe the other errors of these lines."""
    kept = "all" if group.repairable == group.count else f"{group.repairable:,}"
    lines = [
        f"also {one.path}: {one.message} [{one.code}]" + (f"  {one.count:,} ×" if group.count > 1 else "")
        for one in group.further
    ]
    if group.unlisted:
        lines.append(f"and {counted(group.unlisted, 'more error')}")
    return f"; --repair would keep {kept} of them" if group.repairable else "", lines


class _Terminal(io.BytesIO):
    """A file whose lines are printed on the terminal."""

    def write(self, lines: Any) -> int:
        print_exactly(lines)
        return len(lines)


def _extract(corpus: str, code: tuple[str, ...], target: str) -> None:
    from fastrec.commands.rejects import rejects as run

    stdout = _Terminal() if sys.stdout.isatty() else sys.stdout.buffer
    with allow_broken_pipe():
        with explain_damage(corpus):
            found = run(corpus, code=code, extract=stdout if target == "-" else target)
        sys.stdout.buffer.flush()
        for line in found.truncated:
            location = f"{line.source}:{line.line}"
            print_notice(f"{location} was too long to store, so it is not extracted; fix it in its shard")
        where = "" if target == "-" else f" written to {shown(target)}"
        lines = found.lines - len(found.truncated)
        print_stderr(f"{counted(lines, 'rejected line')}{where}" if lines else "no line was rejected")
