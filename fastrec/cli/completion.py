"""`fastrec completion`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe
from fastrec.cli.options import command

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
