"""docs/commands.md, generated from the click commands and their options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from fastrec.cli import COMMANDS, cli
from fastrec.cli.options import options_by_heading
from tests.docs.documents import cell

_TABLES = {
    "Exit codes": ("exit code", "meaning"),
    "Environment": ("variable", "meaning"),
    "Formats": ("format", ""),
}


def commands_page() -> str:
    """The page."""
    lines = [
        "# Commands",
        "",
        "The help of every command, with all options, settings and environment variables.",
        "",
    ]
    for heading, names in COMMANDS.items():
        lines += [f"{heading}:", ""]
        lines += [
            f"- [`fastrec {name}`](#fastrec-{name}): {_command(name).short_help}" for name in names
        ]
        lines.append("")
    lines += ["## fastrec", "", *_about(cli, "fastrec"), *_settings(), *_filters()]
    for name in cli.list_commands(click.Context(cli)):
        lines += [f"## fastrec {name}", "", *_about(_command(name), f"fastrec {name}")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command
    return command


def _about(command: click.Command, name: str) -> Iterator[str]:
    """The section of a command: usage, text, options, and the titled paragraphs of its help."""
    # click caches the help option of a command, so it needs the settings of the program here.
    context = click.Context(command, info_name=name, **cli.context_settings)
    plain, titled = paragraphs(command.help or "")
    yield from (f"Usage: `{name} {' '.join(command.collect_usage_pieces(context))}`", "")
    for text in plain:
        yield from (_with_code(text), "")
    for title, rows in titled.items():
        if title in _TABLES and title != "Exit codes":
            yield from (*_table(title, rows), "")
    for heading, options in options_by_heading(command, context).items():
        if heading == "Filters":
            yield from ("Filters: [those of all commands that read records](#filters).", "")
        else:
            yield from (f"{heading}:", "", *_options(options, context), "")
    yield from (*_table("Exit codes", titled["Exit codes"]), "")
    if name == "fastrec view":
        yield "<!-- test: skip, it runs until it is stopped -->"
    yield from ("```sh", *(row.strip() for row in titled["Examples"]), "```", "")


def _options(options: list[click.Option], context: click.Context) -> list[str]:
    listed = [option for option in options if "--help" not in option.opts]
    rows = [_option(option, context) for option in listed]
    return ["| option | default | meaning |", "|---|---|---|", *rows]


def _filters() -> Iterator[str]:
    """The filters, which are the same for all commands that have them."""
    command = _command("cat")
    context = click.Context(command, info_name="cat", **cli.context_settings)
    options = options_by_heading(command, context)["Filters"]
    yield from ("### Filters", "", "A record must match every kind of filter that is given.", "")
    yield from (*_options(options, context), "")


def paragraphs(help_text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Split a help text into plain paragraphs and, by title, the rows of paragraphs that keep their line breaks."""
    plain = []
    titled = {}
    for text in re.split(r"\n\s*\n", inspect.cleandoc(help_text)):
        if text.startswith("\b"):
            head, *rows = text.removeprefix("\b\n").splitlines()
            titled[re.split(r"[,:]", head)[0]] = rows
        else:
            plain.append(" ".join(text.split()))
    return plain, titled


def _table(title: str, rows: list[str]) -> list[str]:
    """A table from rows of a name, two or more spaces, and a text that may continue on the next line."""
    joined: list[list[str]] = []
    for row in rows:
        if row.startswith(" " * 8):
            joined[-1][1] += " " + row.strip()
        else:
            joined.append(re.split(r"\s{2,}", row.strip(), maxsplit=1))
    head, meaning = _TABLES[title]
    return [
        f"| {head} | {meaning} |",
        "|---|---|",
        *(f"| `{name}` | {_with_code(cell(text))} |" for name, text in joined),
    ]


def _option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag or option.count else f" `{option.make_metavar(context)}`"
    default = option.show_default if isinstance(option.show_default, str) else ""
    if option.required:
        default = "required"
    elif option.show_default is True:
        default = f"`{option.default}`"
    meaning = cell(option.help or "") + (f" Variable: `{option.envvar}`." if option.envvar else "")
    return (
        f"| {names}{value.replace(chr(124), chr(92) + chr(124))} | {default} | "
        f"{_with_code(meaning)} |"
    )


def _with_code(text: str) -> str:
    """Format options and file names in a text as code, except where it has code already."""
    pieces = re.split(r"(`[^`]*`)", text)
    for at in range(0, len(pieces), 2):
        pieces[at] = re.sub(
            r"(?<![\w-])(--?[a-z][a-z-]*|\S*\*\S*\w\*?|[a-z]+_[a-z_]+)", r"`\1`", pieces[at]
        )
    return "".join(pieces)


def _settings() -> Iterator[str]:
    """The keys of a settings file."""
    yield from ("### Settings", "")
    yield (
        "Settings come from `fastrec.toml`, or from `[tool.fastrec]` in `pyproject.toml`. "
        "A key is the name of an option without the dashes. An option that may be repeated also "
        "takes a list. "
        "A key at the top level applies to every command that has the option; a key in the table "
        "of a command applies "
        "to that command. "
        "The command line takes precedence over the environment, and the environment over the "
        "settings. "
        "`engine` and `scheduler` count only in a file that `--config` or `FASTREC_CONFIG` names: "
        "the directory of "
        "somebody else cannot choose them."
    )
    example = paragraphs(cli.help or "")[1]["Settings"]
    yield from (
        "",
        "```toml",
        *(row.strip() for row in example),
        "```",
        "",
        "| key | commands |",
        "|---|---|",
    )
    names = cli.list_commands(click.Context(cli))
    keys: dict[str, list[str]] = {}
    for name in names:
        for option in _command(name).params:
            if isinstance(option, click.Option):
                keys.setdefault(option.opts[-1].removeprefix("--"), []).append(name)
    for key in sorted(keys):
        yield f"| `{key}` | {'all' if len(keys[key]) == len(names) else ', '.join(keys[key])} |"
    yield ""
