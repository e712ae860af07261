"""Arguments that take one string or several: the same values in Python as on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from fastrec.errors import UsageError

__all__ = ["Paths", "Strings", "field_names", "several", "several_paths"]

Strings = str | Iterable[str]
"""One string, or several."""
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One path, or several."""


def several(name: str, values: Strings) -> tuple[str, ...]:
    """Return the values of an argument, each once; UsageError if one of them is not a string.

    >>> several("model", "org/m"), several("model", ["b", "a", "b"]), several("model", ())
    (('org/m',), ('b', 'a'), ())
    """
    found = [values] if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) else list(values)
    for value in found:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a string or a list of strings, not {value!r}")
    return tuple(dict.fromkeys(found))


def several_paths(name: str, values: Paths) -> tuple[str, ...]:
    """Return the paths of an argument, each once; UsageError if one of them is neither a string nor a path."""
    is_one = isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable)
    found: Any = [values] if is_one else values
    return several(name, [os.fspath(one) if isinstance(one, os.PathLike) else one for one in found])


def field_names(name: str, values: Strings) -> tuple[str, ...]:
    """Return the names of fields; one string may have several names, with commas in between.

    >>> field_names("by", "a, b"), field_names("by", ["a", "b"])
    (('a', 'b'), ('a', 'b'))
    """
    names = [field.strip() for value in several(name, values) for field in value.split(",")]
    return tuple(dict.fromkeys(filter(None, names)))
