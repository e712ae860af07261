"""`fastrec completion`."""

from __future__ import annotations

import click

from fastrec.cli.console import reader_may_leave, verbose_option

__all__ = ["completion"]


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@verbose_option
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete the commands and options of fastrec.

    \b
    One line installs it, for every new shell:
      bash    echo 'eval "$(fastrec completion bash)"' >> ~/.bashrc
      zsh     echo 'eval "$(fastrec completion zsh)"' >> ~/.zshrc
      fish    fastrec completion fish > ~/.config/fish/completions/fastrec.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind
    with reader_may_leave():
        click.echo(kind(context.find_root().command, {}, "fastrec", "_FASTREC_COMPLETE").source())
