"""Commands and their parameters: types of values, shared options, and headings in help.

`parameters/MODULE.toml` lists the parameters of the commands of a module, in the order of the help:

    corpus = "shared"                   a parameter of `parameters/shared.toml`, the same everywhere
    prices = "required"                 such a parameter that this command needs
    filters = "shared"                  all parameters of `parameters/filters.toml`
    "--limit N" = "At most N records."  an option, spelled as in a usage line, and its help
    "--seed".default = 0                the help and other settings of an option
    question = {}                       an argument, and its settings
    format = ["text", "json"]           --format with these choices
    options = "own"                     the parameters that the module gives to `command`
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.output import Output
from fastrec.cli.tables import read_data
from fastrec.errors import UsageError
from fastrec.parameters import CORES, FILTERS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], Any]


class Count(click.IntRange):
    name = "integer"  # click's own name would read "not a valid integer range" in a message


class Number(click.FloatRange):
    name = "number"


class Parsed(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """What a function makes of a text; it refuses one with a UsageError."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        try:
            return self._parse(str(value))
        except UsageError as exc:
            self.fail(str(exc), param, ctx)


def parse_size(text: str) -> int:
    """The bytes of `65536`, `512M` or `2GiB`; K, M, G and T are powers of 1,024."""
    match = re.fullmatch(_SIZE, text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a size; use a number of bytes, or a unit: 512M, 2GiB")
    unit = 1024 ** (" KMGT".index(match[2].upper()) if match[2] else 0)
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


_SIZE = r"(?i)(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?"


def parse_percentage(text: str) -> float:
    """A percentage, with or without its sign."""
    digits: Any = text.strip().removesuffix("%")
    return Number(0, 100).convert(digits, None, None)


def _check_repairs(names: str) -> str:
    from fastrec.filters import field_names
    from fastrec.judge.repair import repair_codes

    repair_codes(field_names("repair", names))
    return names


def _check_max_rejects(number: str) -> str:
    from fastrec.normalize.options import parse_max_rejects

    parse_max_rejects(number)
    return number


_OWN = "Options"


def options_by_heading(
    command: click.Command, context: click.Context
) -> dict[str, list[click.Option]]:
    """Return the options of a command below the headings of its help, in their order."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    headings = {_OWN: [], "Filters": [*FILTERS]} | parameter_tables("headings")["options"]
    if not set(FILTERS) <= {option.name for option in options}:
        del headings["Filters"]
    heading_of = {name: heading for heading, names in headings.items() for name in names}
    by_heading: dict[str, list[click.Option]] = {heading: [] for heading in headings}
    for option in options:
        name = option.opts[-1].removeprefix("--").replace("-", "_")
        by_heading[heading_of.get(name, _OWN)].append(option)
    return {heading: options for heading, options in by_heading.items() if options}


class Command(click.Command):
    """A command whose help lists its options under headings.

    It does not get the options about output, which are `Output`.
    """

    def invoke(self, ctx: click.Context) -> Any:
        given = {name: ctx.params.pop(name) for name in Output._fields if name in ctx.params}
        ctx.obj = Output(**given)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, options in options_by_heading(self, ctx).items():
            with formatter.section(heading):
                records = (option.get_help_record(ctx) for option in options)
                formatter.write_dl(list(filter(None, records)))


def command(own: Mapping[str, Any] = {}) -> Callable[[_Command], click.Command]:
    """Make a command: its help is the docstring, and its parameters are those of its table."""

    def make(function: _Command) -> click.Command:
        table = dict(parameter_tables(function.__module__.rpartition(".")[2])[function.__name__])
        summary = table.pop("summary")
        if "-v --verbose" not in table:
            table["verbose"] = "shared"
        parameters: dict[str, Any] = {}
        for name, about in table.items():
            if name == "filters":
                parameters |= parameter_tables(name)[name]
            else:
                parameters |= own if about == "own" else {name: about}
        for name, about in reversed(parameters.items()):  # click reverses their order, too
            function = parameter(name, about)(function)
        return click.command(cls=Command, short_help=summary)(function)

    return make


def parameter_tables(module: str) -> dict[str, dict[str, Any]]:
    return read_data(f"parameters/{module}")


def parameter(name: str, about: Any) -> _Decorator:
    """Make a parameter from its entry in the table of a command."""
    if about in ("shared", "required"):
        about = parameter_tables("shared")[name] | (
            {"required": True} if about == "required" else {}
        )
        name = about.pop("usage")
    if name == "format":
        formats = parameter_tables("headings")["formats"]
        uses = ", ".join(f"{choice} {formats[choice]}" for choice in about)
        return option(f"--format output_format {'|'.join(about)}", f"Output format: {uses}.")
    settings = {"help": about} if isinstance(about, str) else dict(about)
    if "choices" in settings:
        settings["type"] = click.Choice(settings.pop("choices"))
    elif "type" in settings:
        settings["type"] = _TYPES[settings["type"]]
    if "complete" in settings:
        settings["shell_complete"] = partial(_complete, settings.pop("complete"))
    if name == "-j --jobs N":
        settings["default"] = CORES
    return (option if name.startswith("-") else click.argument)(name, **settings)


# Types of values, by the names that stand for them; others are text.
_TYPES = {
    "N": Count(1, 1_000_000_000),
    "FILE": click.Path(),
    "DIR": click.Path(),
    "PATH": click.Path(),
    "SIZE": Parsed("size", parse_size),
    "PERCENT": Number(0, 100),
    "SHARE": Number(0, 1),
    "P": Number(0, 1),
    "integer": click.INT,
    "count": Count(0, 10**18),
    "port": Count(0, 65535),
    "decimals": Count(0, 9),
    "difference": Number(0, 100, min_open=True),
    "loss": Number(min=0),
    "percentage": Parsed("number", parse_percentage),
    "file": click.Path(dir_okay=False),
    "file or -": click.Path(dir_okay=False, allow_dash=True),
    "path or -": click.Path(allow_dash=True),
    "repairs": Parsed("names", _check_repairs),
    "N|N%": Parsed("N|N%", _check_max_rejects),
    "like the default": None,
}


def option(usage: str, help: str, **more: Any) -> _Decorator:  # noqa: A002 - click's name
    """Make an option that is spelled as in a usage line.

    `-j --jobs N`, `--split A B`, `--model PATTERN...` if it may be repeated, `--mix a|b` for a
    choice whose default is the first. A lower-case word is the parameter of the function. Without
    a value, it is a flag, unless its settings say otherwise.
    """
    words = usage.split()
    values = [word for word in words if word.isupper() or "|" in word]
    names = [word for word in words if word not in values]
    metavar = " ".join(values).removesuffix("...")
    settings: dict[str, Any] = {}
    if "|" in metavar:
        choices = metavar.split("|")
        settings = {"type": click.Choice(choices), "default": choices[0]}
    elif values:
        repeated = usage.endswith("...")
        settings = {"type": _TYPES.get(metavar), "metavar": metavar, "multiple": repeated}
        settings["nargs"] = len(values)
    elif not more.keys() & {"type", "count", "metavar"}:
        settings["is_flag"] = True
    settings |= more
    if settings.get("default") not in (None, ""):
        settings.setdefault("show_default", True)
    if "envvar" in settings:
        settings["show_envvar"] = True
    return click.option(*names, help=help, **settings)


# The shell completes names from the summary of the corpus in the command line. If there is none, or
# if it cannot be read at once, there are no completions: a shell must never wait, or show an error,
# because of a Tab.

_LARGEST = 64 << 20  # bytes of a summary that is read for completion
_MOST = 1000  # completions


def _complete(
    kind: str, context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete `evaluations`, `metrics` or `models`."""
    from click.shell_completion import CompletionItem

    # While an option has no value, click may take the arguments before it for further ones.
    names = set[str]()
    for value in (context.args, *context.params.values()):
        for path in value if isinstance(value, (list, tuple)) else [value]:
            names.update(_names(path, kind) if isinstance(path, str) else ())
    words = [_word(name) for name in sorted(names) if name.startswith(incomplete)]
    return [CompletionItem(word) for word in words if word][:_MOST]


def _names(corpus: str, kind: str) -> list[str]:
    """Return the names of one kind in the summary of a corpus.

    There are none without a summary, or if it is damaged.
    """
    import msgspec

    from fastrec.summary.document import Summary
    from fastrec.summary.present_choice import names_of

    with suppress(OSError, ValueError, RuntimeError, msgspec.MsgspecError):
        path = Path(corpus).expanduser() / "summary.json"
        if path.is_file() and path.stat().st_size <= _LARGEST:
            names = names_of(Summary.from_json(path.read_bytes()).evaluations)
            return [name for name in getattr(names, kind) if name]
    return []


_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_QUOTABLE = re.compile(r"[^'\\*?\[\]]+")


def _word(name: str) -> str:
    """Return a name as the shell can insert it; empty if it cannot.

    The script for bash inserts words as they are, so they are quoted here: a name must not become a
    command. The other shells quote by themselves.
    """
    if not name.isprintable() or name.startswith("-"):
        return ""
    if _PLAIN.fullmatch(name) or not os.environ.get("_FASTREC_COMPLETE", "").startswith("bash"):
        return name
    return f"'{name}'" if _QUOTABLE.fullmatch(name) else ""
