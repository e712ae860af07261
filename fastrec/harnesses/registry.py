"""The harnesses that fastrec knows: `harnesses.toml` is the only list of them.

To add one, write a module like `alpaca_eval`, named as there with underscores for hyphens, and add
a table there. `log` says which functions the module has.

Harnesses whose logs are large or come in many versions are folders, with these modules besides
their own:

    __init__.py    `plan`: what a log says about its run, and its slices
    files.py       `role_of`: tells what a file is; `logs_of`: groups files into logs
    sample.py      makes a `Sample` with its scores of a sample of the log
"""

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any, Literal

import msgspec

from fastrec.harnesses.values import Names, OptionalText


class MetricRow(msgspec.Struct, frozen=True):
    """Metrics that are no judgements, or better if lower."""

    kind: Literal["judgement", "cost", "bookkeeping"]
    patterns: str
    lower: bool = True  # whether lower is better


class Harness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of `harnesses.toml`, which describes the fields."""

    title: str = ""
    reads: str = ""
    log_name: str = ""
    metadata: frozenset[str] = frozenset()
    roles: tuple[Names, ...] = ()
    first_line: bool = False
    metrics: tuple[MetricRow, ...] = ()

    def role_in(self, head: bytes) -> OptionalText:
        """The first role whose patterns are all in the beginning of a file."""
        if self.first_line:
            head = head.lstrip().partition(b"\n")[0]
        for role, start, *others in self.roles:
            if re.match(start.encode(), head) and all(
                re.search(pattern.encode(), head) for pattern in others
            ):
                return role
        return None


_TABLES = get_data("fastrec.harnesses", "harnesses.toml") or b""
KNOWN = msgspec.toml.decode(_TABLES, type=dict[str, Harness])  # also `table`
HARNESSES = {name: harness for name, harness in KNOWN.items() if harness.title}
HARNESS_NAMES = tuple(HARNESSES)


def harness_named(name: str) -> Any:
    """The module of a harness, or of tables (`table`)."""
    return import_module(f"fastrec.harnesses.{name.replace('-', '_')}")
