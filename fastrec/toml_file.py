"""TOML files that users write: settings, names, weights, prices, columns and details."""

import tomllib
from pathlib import Path
from typing import Any

from fastrec.errors import UsageError, shown

_MOST_LEVELS = 100  # of nesting; Python stops with an error at some hundreds


def read_toml(path: str, what: str) -> dict[str, Any]:
    """Read a file; `what` says in messages what it has, such as "the weights".

    Raises:
        UsageError: It cannot be read, or is not TOML.
    """
    try:
        document = Path(path).read_bytes()
    except OSError as exc:
        raise UsageError(f"{shown(path)}: {what} cannot be read: {exc.strerror}") from exc
    return parse_toml(document, path, what)


def parse_toml(document: bytes, path: str, what: str) -> dict[str, Any]:
    """Parse the content of a file. See `read_toml`."""
    try:
        parsed = tomllib.loads(document.decode())
    except ValueError as exc:  # not UTF-8, or not TOML
        raise UsageError(f"{shown(path)}: {what} are not TOML: {exc}") from exc
    except RecursionError:
        parsed = None
    if parsed is None or _is_deep(parsed):
        raise UsageError(f"{shown(path)}: {what} have more than {_MOST_LEVELS} levels of nesting")
    return parsed


def _is_deep(document: dict[str, Any]) -> bool:
    """Whether a document has too many levels; dotted keys make them without recursion."""
    level: list[Any] = [document]
    for _ in range(_MOST_LEVELS):
        containers = [value.values() if isinstance(value, dict) else value for value in level]
        level = [
            child
            for children in containers
            for child in children
            if isinstance(child, (dict, list))
        ]
    return bool(level)
