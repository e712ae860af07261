"""Settings: defaults of options from `fastrec.toml`, or from `[tool.fastrec]` in `pyproject.toml`.

Both are looked for in the current directory. A table has the settings of one command; settings
outside of tables are for every command that has the option. The command line overrides the
environment (FASTREC_JOBS and others), which overrides the settings. A file that the user has not
named may come with somebody else's directory, so it cannot choose where the work is done.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from fastrec.errors import UsageError, did_you_mean, shown
from fastrec.toml_file import read_toml

_Options = dict[str, click.Option]  # of a command, by long name without dashes


def read_settings(path: str | None, context: click.Context) -> dict[str, dict[str, Any]]:
    """Return for each command the values of its parameters, as click expects its defaults."""
    file, settings = _find(path)
    if not settings:  # the commands need not be imported
        return {}
    group = context.command
    assert isinstance(group, click.Group)
    commands = {
        name: _options(group.get_command(context, name)) for name in group.list_commands(context)
    }
    tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = {key: value for key, value in settings.items() if key not in tables}
    if path is None:
        _check_trust(file, set(common).union(*tables.values()))
    _check(file, tables, commands, "there is no command")
    every_option = {key for options in commands.values() for key in options}
    _check(file, common, every_option, "no command has an option")
    for command, table in tables.items():
        _check(file, table, commands[command], f"`fastrec {command}` has no option")
    return {
        command: _values(f"{file}, for {command}", common, options)
        | _values(f"{file}: [{command}]", tables.get(command, {}), options)
        for command, options in commands.items()
    }


def _find(path: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the settings file and its content; empty if there is no such file."""
    if path is None and Path("fastrec.toml").exists():
        path = "fastrec.toml"
    if path is not None:
        return shown(path), read_toml(path, "the settings")
    with suppress(UsageError):  # there is none, or it is broken, which other tools report
        tool = read_toml("pyproject.toml", "the settings").get("tool", {})
        if isinstance(tool, dict) and isinstance(tool.get("fastrec"), dict):
            return "[tool.fastrec] in pyproject.toml", tool["fastrec"]
    return "", {}


def _options(command: click.Command | None) -> _Options:
    assert command
    return {
        name[2:]: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def _check_trust(file: str, names: Collection[str]) -> None:
    """Refuse settings that only the user may choose."""
    for name in ("engine", "scheduler"):
        if name in names:
            raise UsageError(
                f"{file}: a directory cannot choose the {name}: give --{name}, set "
                f"FASTREC_{name.upper()}, or name a settings file with --config"
            )


def _check(file: str, names: Iterable[str], known: Collection[str], problem: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{file}: {problem} {name!r}{did_you_mean(name, known)}")


def _values(location: str, table: dict[str, Any], options: _Options) -> dict[str, Any]:
    return {
        options[key].name or "": _value(location, key, value, options[key])
        for key, value in table.items()
        if key in options
    }


def _value(location: str, key: str, value: Any, option: click.Option) -> Any:
    """Return a value as click expects it from the command line; an error names its location."""
    if option.is_flag != isinstance(value, bool) or isinstance(value, dict):
        expected = "true or false" if option.is_flag else "a string or a number"
        raise UsageError(f"{location}: {key}: expected {expected}, found {value!r}")
    if option.is_flag:
        return value
    words = tuple(map(str, value if isinstance(value, list) else [value]))
    several = option.multiple or option.nargs > 1
    if not several:
        words = (",".join(words),)
    try:
        for word in words:
            option.type(word, option, None)
    except click.BadParameter as exc:
        raise UsageError(f"{location}: {key}: {exc.message.rstrip('.')}") from exc
    return words if several else words[0]
