"""Commands besides those on records: `clean`, `generate`, `schema` and `completion`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    format_bytes,
    print_json,
    print_notice,
    print_stderr,
    safe,
)
from fastrec.cli.options import Count, Number, choice_option, command, flag, option, shared
from fastrec.errors import counted, shown


@command("Remove kept and interrupted work of normalize.", ok="done, or there was nothing to "
"remove",
         usage="the command line is wrong, or OUTPUT is not a corpus",
         failure="failed: a run is writing OUTPUT, or a file could not be removed")  # fmt: skip
@click.argument("output", type=click.Path())
@option("--work-dir", "Directory or URL for temporary files and kept work, as given to normalize.", type=click.Path(),
        envvar="FASTREC_WORK_DIR", show_envvar=True,
        show_default="next to the output; for a store, also TMPDIR")  # fmt: skip
@flag("--dry-run", "Show what would be removed, and stop.")
@shared("json")
def clean(*, output: str, work_dir: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove the work that normalize left for its next run to OUTPUT.

    This is what --incremental keeps, and the finished work of interrupted runs. OUTPUT and
    OUTPUT.refused stay as they are. The next run of normalize reads all shards again.

    \b
    Examples:
      fastrec clean corpus
      fastrec clean corpus --dry-run
      fastrec clean corpus --work-dir work
    """
    from fastrec.commands.clean import clean as run

    found = run(output, work_dir=work_dir, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    with allow_broken_pipe():
        if as_json:
            print_json(found)
        else:
            for one in found.removed:
                click.echo(
                    f"{verb} {safe(one.path)}: {counted(one.files, 'file')}, "
                    f"{format_bytes(one.bytes)}"
                )
            if not found.removed:
                where = "" if work_dir else "; if its runs had a --work-dir, give it here, too"
                click.echo(f"nothing to remove: no run left work for {safe(shown(output))}{where}")
        if found.left:
            print_notice(
                f"{counted(len(found.left), 'file')} in {shown(found.output)} may belong to a run "
                "that has not ended, "
                "and stay there; the next `fastrec normalize` to this output removes them"
            )


_share = partial(option, type=Number(0, 1), metavar="SHARE", default=0.0)


@command("Make synthetic shards.", usage="the command line is wrong, or OUTPUT is not empty",
         failure="failed: something could not be written")  # fmt: skip
@option("-n --records", "Number of lines.", type=Count(min=0), metavar="N", default=10_000)
@option("--seed", "The same seed gives the same text everywhere.", type=int, default=0)
@option(
    "-o --output",
    "Directory to write the shards to; must be empty.",
    type=click.Path(),
    required=True,
)
@option("--shards", "Number of files.", type=Count(min=1), metavar="N", default=8)
@choice_option("--compression", ["zst", "gz", "none", "mixed"], "Compression of the files.")
@choice_option("--mix", ["mixed", "single_turn", "agentic"], "Interaction types of the records.")
@choice_option(
    "--text",
    ["evaluation", "words"],
    "Questions and answers that can be read, or long random words.",
)
@option("--schema", "Version of the records: 0.2.0, 0.2.0-released, 0.2.1, 0.3.0, or `mixed` for "
"all of them. Records "
        "after 0.2.0 have several metrics and epochs, wrong labels, and hashes of all recipes.",
        metavar="VERSION", show_default="0.2.0")  # fmt: skip
@_share("--duplicates", "Share of lines that repeat a record.")
@_share("--conflicts", "Share of lines with the identity of another record and other content.")
@_share("--unknown-keys", "Share of records with keys that the schema does not name.")
@_share("--rejects", "Share of invalid lines, of every code in turn.")
@_share("--blanks", "Share of blank lines.")
@_share(
    "--warnings",
    "Share of records with a warning, besides a wrong sample_hash in one record of a thousand.",
)
def generate(output: str, schema: str | None, **options: Any) -> None:
    """Make synthetic shards: many models that answer the same questions, in many JSON spellings.

    The questions are word problems, facts with choices, open questions, conversations and tasks for
    agents, in several languages. Large models answer more of them correctly.

    \b
    Examples:
      fastrec generate -n 2000 -o runs/
      fastrec generate -n 2000 -o messy/ --duplicates 0.1 --rejects 0.01
      fastrec generate -n 2000 -o new/ --schema 0.3.0
      fastrec generate -n 2000 -o all/ --schema mixed --rejects 0.1
    """
    from fastrec.commands.generate import generate as run

    if schema is not None:
        options["schema"] = schema
    made = run(output, **options)
    sizes = f"{format_bytes(made.text_bytes)} of text, {format_bytes(made.file_bytes)} on disk"
    print_stderr(f"{counted(made.lines, 'line')} in {counted(len(made.paths), 'shard')}: {sizes}")


@command("Print the schema of a record.")
@click.argument("version", required=False)
@flag("--list list_versions", "List the versions instead.")
def schema(version: str | None, list_versions: bool) -> None:
    """Print the JSON Schema of a record.

    VERSION is 0.2.0, 0.2.0-released, 0.2.1 or 0.3.0. Without it, print the schema of 0.2.0, byte
    for byte as published.

    \b
    Examples:
      fastrec schema > record.schema.json
      fastrec schema 0.3.0 | jq .required
      fastrec schema --list
    """
    from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS, TARGETS, schema_named

    with allow_broken_pipe():
        if not list_versions:
            click.echo((schema_named(version) if version else DEFAULT_SCHEMA).source, nl=False)
            return
        for one in SCHEMAS.values():
            corpus = "yes" if one.name in TARGETS else "no; normalize upgrades its records"
            click.echo(click.style(one.name, bold=True))
            click.echo(f"    {one.about}")
            click.echo(f"    schema_version: {', '.join(sorted(one.labels))}")
            click.echo(f"    corpus: {corpus}")


_NAMES_IN_BASH = r"""
# bash splits words at : = and @, which names of evaluations, metrics and models may have: join them again, and
# remove from the replies what readline keeps of the word.
_fastrec_completion_of_names() {
    local line=$COMP_LINE word last="" number current=0 i
    local -a joined=()
    for i in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[i]}
        if [[ ${#joined[@]} -gt 0 && -n $word && $line == "$word"* && ( $last == [:=@] || $word == [:=@]* ) ]]; then
            joined[${#joined[@]}-1]+=$word
        else
            line=${line#"${line%%[![:space:]]*}"}
            joined+=("$word")
        fi
        line=${line#"$word"}
        last=${word: -1}
        [[ $i -eq $COMP_CWORD ]] && current=$((${#joined[@]} - 1))
    done
    local -a COMP_WORDS=("${joined[@]}")
    local COMP_CWORD=$current
    _fastrec_completion "$1"
    word=${joined[current]}
    [[ $word == --*=* ]] && word=${word#*=}
    if [[ $COMP_WORDBREAKS == *:* && $COMP_WORDBREAKS == *=* && $word == *[:=@]* ]]; then
        word=${word%"${word##*[:=@]}"}
        word=${word%@} # readline replaces this one, too
    else
        word=""
    fi
    for number in "${!COMPREPLY[@]}"; do
        COMPREPLY[number]=${COMPREPLY[number]#"$word"}
    done
}
complete -o nosort -F _fastrec_completion_of_names fastrec
"""


@command("Print a shell script that completes commands and options.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete the commands and options of fastrec.

    \b
    Examples:
      echo 'eval "$(fastrec completion bash)"' >> ~/.bashrc   # for new shells
      echo 'eval "$(fastrec completion zsh)"' >> ~/.zshrc
      mkdir -p ~/.config/fish/completions
      fastrec completion fish > ~/.config/fish/completions/fastrec.fish

    \b
    Exit codes:
      0     done
      2     the command line is wrong
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind
    with allow_broken_pipe():
        script = kind(context.find_root().command, {}, "fastrec", "_FASTREC_COMPLETE").source()
        click.echo(script + (_NAMES_IN_BASH if shell == "bash" else ""))
