"""Settings: defaults of options, read from a file.

They are in `fastrec.toml`, or in `pyproject.toml` under `[tool.fastrec]`, in the current directory. A table has the
settings of one command; settings outside of tables are for every command that has the option.

The command line overrides the environment (FASTREC_JOBS and others), which overrides the settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import click

from fastrec.errors import UsageError, shown

__all__ = ["did_you_mean", "read_settings"]


def read_settings(path: str | None, context: click.Context) -> dict[str, dict[str, Any]]:
    """Read the settings; return for each command the values of its parameters, as click expects its defaults."""
    file, found = _find(path)
    if not found:  # the commands need not be imported
        return {}
    group = context.command
    assert isinstance(group, click.Group)
    options = {name: _options(group.get_command(context, name)) for name in group.list_commands(context)}
    tables = {key: value for key, value in found.items() if isinstance(value, dict)}
    shared = {key: value for key, value in found.items() if key not in tables}
    _check(file, tables, options, "there is no command")
    _check(file, shared, {key for some in options.values() for key in some}, "no command has an option")
    for command, table in tables.items():
        _check(file, table, options[command], f"`fastrec {command}` has no option")
    return {
        command: {
            some[key].name or "": _value(location, key, value, some[key])
            for location, table in ((file, shared), (f"{file}: [{command}]", tables.get(command, {})))
            for key, value in table.items()
            if key in some
        }
        for command, some in options.items()
    }


def _check(file: str, names: Iterable[str], known: Collection[str], problem: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{file}: {problem} {name!r}{did_you_mean(name, known)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests a known word with a similar spelling; empty if there is none."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _find(path: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the settings file and its content; empty if there is no such file."""
    if path is not None:
        return shown(path), _read(Path(path))
    if Path("fastrec.toml").exists():
        return "fastrec.toml", _read(Path("fastrec.toml"))
    if Path("pyproject.toml").exists():
        try:
            tool = _read(Path("pyproject.toml")).get("tool", {})
        except UsageError:
            return "", {}  # other tools report a broken pyproject.toml
        if isinstance(tool, dict) and isinstance(tool.get("fastrec"), dict):
            return "[tool.fastrec] in pyproject.toml", tool["fastrec"]
    return "", {}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UsageError(f"{shown(str(path))}: the settings cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise UsageError(f"{shown(str(path))}: the settings are not TOML: {exc}") from exc


def _options(command: click.Command | None) -> dict[str, click.Option]:
    """Return the options of a command by long name, without dashes."""
    options = [option for option in command.params if isinstance(option, click.Option)] if command else []
    return {name[2:]: option for option in options for name in option.opts if name.startswith("--")}


def _value(location: str, key: str, value: Any, option: click.Option) -> Any:
    """Return a value as click expects it from the command line; an error names its location."""
    if option.is_flag != isinstance(value, bool) or isinstance(value, dict):
        expected = "true or false" if option.is_flag else "a string or a number"
        raise UsageError(f"{location}: {key}: expected {expected}, found {value!r}")
    if option.is_flag:
        return value
    if isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))
    given = value if isinstance(value, list) else [value]
    try:
        for one in given:
            option.type(str(one), option, None)
    except click.BadParameter as exc:
        raise UsageError(f"{location}: {key}: {exc.message.rstrip('.')}") from exc
    return tuple(map(str, given)) if option.multiple else str(value)
