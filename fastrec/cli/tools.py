"""Commands besides those on records: `clean`, `generate`, `schema` and `completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    print_notice,
    print_stderr,
    say,
    spell,
)
from fastrec.cli.options import command
from fastrec.cli.output import print_answer

if TYPE_CHECKING:
    from fastrec.commands.clean import Cleaned


@command()
def clean(output: str, work_dir: str | None, dry_run: bool) -> None:
    """Remove the work that normalize left for its next run to OUTPUT.

    This is what --incremental keeps, and the finished work of interrupted runs. OUTPUT and
    OUTPUT.refused stay as they are. The next run of normalize reads all shards again.

    \b
    Exit codes:
      0     done, or there was nothing to remove
      2     the command line is wrong, or OUTPUT is not a corpus
      3     failed: a run is writing OUTPUT, or a file could not be removed

    \b
    Examples:
      fastrec clean corpus
      fastrec clean corpus --dry-run
      fastrec clean corpus --work-dir work
    """
    from fastrec.commands.clean import clean as run

    result = run(output, work_dir=work_dir, dry_run=dry_run)
    print_answer(result, text=lambda result: _print_cleaned(result, work_dir))
    if result.left:
        print_notice(
            spell(
                "{left:file} in {output:path} may belong to a run that has not ended, and stay "
                "there; the next `fastrec normalize` to this output removes them",
                result,
            )
        )


def _print_cleaned(result: Cleaned, work_dir: str | None) -> None:
    verb = "would remove" if result.dry_run else "removed"
    for work in result.removed:
        say("{verb} {path}: {files:file}, {bytes:size}", work, verb=verb)
    if not result.removed:
        where = "" if work_dir else "; if its runs had a --work-dir, give it here, too"
        say("nothing to remove: no run left work for {output:path}{where}", result, where=where)


@command()
def generate(output: str, **options: Any) -> None:
    """Make synthetic shards: many models that answer the same questions, in many JSON spellings.

    The questions are word problems, facts with choices, open questions, conversations and tasks for
    agents, in several languages. Large models answer more of them correctly. A SHARE is 0 by
    default.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or OUTPUT is not empty
      3     failed: something could not be written

    \b
    Examples:
      fastrec generate -n 2000 -o runs/
      fastrec generate -n 2000 -o messy/ --duplicates 0.1 --rejects 0.01
      fastrec generate -n 2000 -o new/ --schema 0.3.0
      fastrec generate -n 2000 -o all/ --schema mixed --rejects 0.1
    """
    from fastrec.commands.generate import generate as run

    shards = run(output, **options)
    text = "{lines:line} in {paths:shard}: {text_bytes:size} of text, {file_bytes:size} on disk"
    print_stderr(spell(text, shards))


@command()
def schema(version: str | None, list_versions: bool) -> None:
    """Print the JSON Schema of a record.

    VERSION is 0.2.0, 0.2.0-released, 0.2.1 or 0.3.0. Without it, print the schema of 0.2.0, byte
    for byte as published.

    \b
    Exit codes:
      0     done
      2     the command line is wrong

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
        for schema in SCHEMAS.values():
            is_target = schema.name in TARGETS
            say("{name:bold}", schema)
            say("    {about}", schema)
            say("    schema_version: {}", ", ".join(sorted(schema.labels)))
            say("    corpus: {}", "yes" if is_target else "no; normalize upgrades its records")


_NAMES_IN_BASH = r"""
# bash splits words at : = and @, which names of evaluations, metrics and models may have: join them
# again, and remove from the replies what readline keeps of the word.
_fastrec_completion_of_names() {
    local line=$COMP_LINE word last="" number current=0 i
    local -a joined=()
    for i in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[i]}
        if [[ ${#joined[@]} -gt 0 && -n $word && $line == "$word"* ]] &&
            [[ $last == [:=@] || $word == [:=@]* ]]; then
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


@command()
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
