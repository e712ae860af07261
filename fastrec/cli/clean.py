"""`fastrec clean`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe, format_bytes, print_json, print_notice, safe
from fastrec.cli.options import command, flag, option, shared
from fastrec.errors import counted, shown


@command("Remove kept and interrupted work of normalize.", ok="done, or there was nothing to remove",
         usage="the command line is wrong, or OUTPUT is not a corpus",
         failure="failed: a run is writing OUTPUT, or a file could not be removed")  # fmt: skip
@click.argument("output", type=click.Path(), required=False)
@option("--work-dir", "Directory or URL for temporary files and kept work, as given to normalize.", type=click.Path(),
        envvar="FASTREC_WORK_DIR", show_envvar=True,
        show_default="next to the output; for a store, also TMPDIR")  # fmt: skip
@flag("--cache", "Remove the indexes and tables of all corpora in the cache directory instead.")
@flag("--dry-run", "Show what would be removed, and stop.")
@shared("json")
def clean(*, output: str | None, work_dir: str | None, cache: bool, dry_run: bool, as_json: bool) -> None:
    """Remove the work that normalize left for its next run to OUTPUT.

    This is what --incremental keeps, and the finished work of interrupted runs. OUTPUT and OUTPUT.refused stay as they
    are. The next run of normalize reads all shards again.

    With --cache and without OUTPUT, remove what questions, show, compare, view and sql keep in the cache directory
    (FASTREC_CACHE, by default ~/.cache/fastrec). They make it again when they need it.

    \b
    Examples:
      fastrec clean corpus
      fastrec clean corpus --dry-run
      fastrec clean corpus --work-dir work
      fastrec clean --cache
    """
    from fastrec.commands.clean import clean as run

    found = run(output, work_dir=work_dir, cache=cache, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    with allow_broken_pipe():
        if as_json:
            print_json(found)
        else:
            for one in found.removed:
                click.echo(f"{verb} {safe(one.path)}: {counted(one.files, 'file')}, {format_bytes(one.bytes)}")
            if not found.removed and output is None:
                click.echo(f"nothing to remove in {safe(found.output)}")
            elif not found.removed:
                where = "" if work_dir else "; if its runs had a --work-dir, give it here, too"
                click.echo(f"nothing to remove: no run left work for {safe(shown(output or ''))}{where}")
        if found.left:
            print_notice(
                f"{counted(len(found.left), 'file')} in {shown(found.output)} may belong to a run that has not ended, "
                "and stay there; the next `fastrec normalize` to this output removes them"
            )
