"""Settings: options that need not be typed every night.

They stand in `fastrec.toml`, or in `pyproject.toml` under `[tool.fastrec]`, where the command is run:

    jobs = 4                   # for every command that has this option

    [normalize]
    memory = "4GiB"
    max-rejects = "0.1%"

The command line comes first, then the environment (FASTREC_JOBS and the like), then the settings, then the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from fastrec.errors import UsageError, shown

__all__ = ["did_you_mean", "read_settings"]


def read_settings(
    path: str | None, commands: Mapping[str, Callable[[], click.Command | None]]
) -> dict[str, dict[str, Any]]:
    """Read the settings, and give for each command the values of its parameters, as click wants its defaults."""
    name, found = _find(path)
    if not found:
        return {}
    options = {key: _options(loaded) for key, load in commands.items() if (loaded := load())}
    for_all = {key: value for key, value in found.items() if not isinstance(value, dict)}
    known = {key for some in options.values() for key in some}
    for key in for_all:
        if key not in known:
            raise UsageError(f"{name}: no command has an option {key!r}{did_you_mean(key, known)}")
    values: dict[str, dict[str, Any]] = {}
    for command, some in options.items():
        values[command] = {
            some[key].name or "": _value(name, key, value, some[key]) for key, value in for_all.items() if key in some
        }
    for command, table in found.items():
        if not isinstance(table, dict):
            continue
        if command not in options:
            raise UsageError(f"{name}: there is no command {command!r}{did_you_mean(command, options)}")
        for key, value in table.items():
            if key not in options[command]:
                hint = did_you_mean(key, options[command])
                raise UsageError(f"{name}: `fastrec {command}` has no option {key!r}{hint}")
            option = options[command][key]
            values[command][option.name or ""] = _value(f"{name}: [{command}]", key, value, option)
    return values


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name what is spelled alike, if something is.

    >>> did_you_mean("normalise", ["normalize", "verify"])
    ": did you mean 'normalize'?"
    >>> did_you_mean("xyz", ["normalize"])
    ''
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f": did you mean {close[0]!r}?" if close else ""


def _find(path: str | None) -> tuple[str, dict[str, Any]]:
    """Give the name of the file and the settings in it; none if there is no such file."""
    if path is not None:
        return shown(path), _read(Path(path))
    if Path("fastrec.toml").exists():
        return "fastrec.toml", _read(Path("fastrec.toml"))
    if Path("pyproject.toml").exists():
        try:
            tool = _read(Path("pyproject.toml")).get("tool", {})
        except UsageError:
            return "", {}  # not ours to complain about
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


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their name, without its dashes."""
    return {
        spelled.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for spelled in parameter.opts
        if spelled.startswith("--")
    }


def _value(place: str, key: str, value: Any, option: click.Option) -> Any:
    """Give what click takes for the value of an option, as if it had been typed; a wrong one names its place."""
    if option.is_flag != isinstance(value, bool) or isinstance(value, dict):
        expected = "true or false" if option.is_flag else "a text or a number"
        raise UsageError(f"{place}: {key}: expected {expected}, found {value!r}")
    if option.is_flag:
        return value
    if isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))
    given = value if isinstance(value, list) else [value]
    try:
        for one in given:
            option.type(str(one), option, None)
    except click.BadParameter as exc:
        raise UsageError(f"{place}: {key}: {exc.message.rstrip('.')}") from exc
    return tuple(map(str, given)) if option.multiple else str(value)
