"""Options: one definition for all commands, the same defaults in Python, and help under headings."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import fastrec
from fastrec.cli import COMMANDS, cli, python_name
from fastrec.cli.options import options_by_heading
from fastrec.filters import Filters, matches_any
from fastrec.normalize.options import Options
from fastrec.parameters import FILTERS, NAME_FILTERS, OUTCOMES

NAMES = cli.list_commands(click.Context(cli))
OWN = {
    "by": "the ranking of `stats`, and the fields that `diff` matches",
    "compression": "`generate` has `mixed`, too",
    "conflicts": "what `normalize` does with them, and the share that `generate` makes",
    "dry-run": "what it shows",
    "evaluation": "in `import`, the name for a table",
    "examples": "of `diff` and `compare`",
    "format": "its values",
    "labels": "`view` writes the file, `normalize` reads it",
    "limit": "what is counted",
    "metric": "in `import`, patterns of the metrics of a log",
    "model": "in `import`, the name for a table",
    "output": "what is written",
    "schema": "the versions",
    "seed": "what is random",
    "strict": "what is an error",
    "text": "a search in `questions`, a kind of text in `generate`",
    "verbose": "`normalize` and `import` print more with -v",
}
"""Options that differ between commands, and in what."""


def command_of(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command
    return command


@cache
def options_of(name: str) -> dict[str, click.Option]:
    options = [one for one in command_of(name).params if isinstance(one, click.Option)]
    return {max(option.opts, key=len).removeprefix("--"): option for option in options}


def spelled(option: click.Option) -> list[Any]:
    """What users see of an option."""
    kind = option.type.to_info_dict()
    names = sorted(option.opts)
    about = [option.help, option.metavar, option.show_default, option.envvar, option.multiple]
    return [names, kind, *about, default_of(option)]


def default_of(option: click.Option) -> Any:
    """The value that the command gets: click has no public way."""
    if option.required:
        return None
    command = click.Command("none", params=[option], callback=lambda **values: values)
    (value,) = command.main([], standalone_mode=False).values() or [0]
    return value


def test_an_option_is_the_same_in_every_command() -> None:
    """The same names, help, type and default, unless it is listed here with the reason."""
    by_name: dict[str, list[list[Any]]] = defaultdict(list)
    for command in NAMES:
        for name, option in options_of(command).items():
            by_name[name].append(spelled(option))
    differing = {name for name, found in by_name.items() if any(one != found[0] for one in found)}
    assert differing == set(OWN)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("completion", "schema", "sql")]
)
def test_defaults_are_the_same_in_python(name: str) -> None:
    parameters = dict(inspect.signature(getattr(fastrec, python_name(name))).parameters)
    known = {key.removesuffix("_"): one.default for key, one in parameters.items()}
    if name == "normalize":
        known |= {
            field.name: field.default
            for field in msgspec.structs.fields(Options)
            if field.default is not msgspec.NODEFAULT
        }
    for key, option in options_of(name).items():
        python = known.get(key.replace("-", "_"), inspect.Parameter.empty)
        if python is inspect.Parameter.empty or (name, key) == ("diff", "examples"):
            continue  # a filter, or printed differently for people and for programs
        default = default_of(option)
        if isinstance(default, str) and not isinstance(python, str):
            default = tuple(default.split(","))
        assert (default or None) == (python or None), key


def test_filters_have_one_list() -> None:
    """Python takes the filters of the list, and `Filters` has their values.

    The questions of a file become hashes.
    """
    assert set(NAME_FILTERS) < set(FILTERS)
    assert [name for name in FILTERS if name != "questions"] == list(Filters.__struct_fields__)
    types = {field.name: field.type for field in msgspec.structs.fields(Filters)}
    assert tuple(name for name, kind in types.items() if kind is bool) == OUTCOMES


def test_programs_ask_for_json_by_format() -> None:
    """What is printed for people is `text`, the default; no command has another way."""
    for name in NAMES:
        options = options_of(name)
        assert "json" not in options
        if "format" in options and name != "export":  # which writes files
            choices = list(options["format"].type.to_info_dict()["choices"])
            assert (choices[0], "json" in choices) == ("text", True), name


def help_of(*arguments: str) -> list[str]:
    context = click.Context(cli, info_name="fastrec", terminal_width=100, **cli.context_settings)
    if not arguments:
        return cli.get_help(context).splitlines()
    command = command_of(arguments[0])
    inner = click.Context(command, info_name=arguments[0], parent=context)
    return command.get_help(inner).splitlines()


def test_commands_are_listed_under_headings() -> None:
    """The headings are those of the table, and every command is below one of them."""
    lines = help_of()
    headings = [line.removesuffix(":") for line in lines if re.fullmatch(r"\w[\w ]*:", line)]
    assert headings == ["Options", *COMMANDS]
    for heading, names in COMMANDS.items():
        start = lines.index(f"{heading}:") + 1
        listed = [line.split()[0] for line in lines[start : start + len(names)]]
        assert listed == list(names)


@pytest.mark.parametrize("name", NAMES)
def test_options_are_listed_under_headings(name: str) -> None:
    """The options of the command come first, rare ones last, and none is missing."""
    lines = help_of(name)
    command = command_of(name)
    by_heading = options_by_heading(command, click.Context(command, **cli.context_settings))
    order = ["Options", "Filters", "Output", "Running", "Rarely needed"]
    assert [heading for heading in order if heading in by_heading] == list(by_heading)
    assert [line[:-1] for line in lines if line[:-1] in order] == list(by_heading)
    shown = {option.opts[-1] for options in by_heading.values() for option in options}
    assert shown == {f"--{option}" for option in options_of(name)} | {"--help"}
    for heading, options in by_heading.items():
        line = lines[lines.index(f"{heading}:") + 1]
        assert any(option_name in line for option_name in options[0].opts)


def test_rare_options_come_last() -> None:
    lines = help_of("normalize")
    assert lines.index("Rarely needed:") < min(
        number
        for number, line in enumerate(lines)
        if re.match(r"  --(engine|max-window|level)", line)
    )


def test_patterns_have_one_meaning() -> None:
    """Names with brackets match themselves, wherever a pattern is taken: no module has its own way."""
    assert matches_any("acc[0]", ["acc[0]"])
    users = [
        path.name
        for path in Path(fastrec.__file__).parent.rglob("*.py")
        if re.search(r"\bfnmatch\b", path.read_text(encoding="utf-8"))
    ]
    assert users == ["filters.py"]
