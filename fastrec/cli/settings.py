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
        values[command] = {some[key]: _value(value) for key, value in for_all.items() if key in some}
    for command, table in found.items():
        if not isinstance(table, dict):
            continue
        if command not in options:
            raise UsageError(f"{name}: there is no command {command!r}{did_you_mean(command, options)}")
        for key, value in table.items():
            if key not in options[command]:
                hint = did_you_mean(key, options[command])
                raise UsageError(f"{name}: `fastrec {command}` has no option {key!r}{hint}")
            values[command][options[command][key]] = _value(value)
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


def _options(command: click.Command) -> dict[str, str]:
    """The parameters of a command by the name of their option, without its dashes."""
    return {
        spelled.removeprefix("--"): parameter.name or ""
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for spelled in parameter.opts
        if spelled.startswith("--")
    }


def _value(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value
