"""`fastrec completion`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe
from fastrec.cli.options import command

__all__ = ["completion"]


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
        click.echo(kind(context.find_root().command, {}, "fastrec", "_FASTREC_COMPLETE").source())
