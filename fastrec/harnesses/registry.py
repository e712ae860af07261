"""The harnesses that fastrec knows: `harnesses.toml` is the only list of them.

To add one, write a module like `alpaca_eval`, named as there with underscores for hyphens, and add
a table there. `log` says which functions the module has.

Harnesses whose logs are large or come in many versions are folders. Most have these modules:

    __init__.py    `plan`: what a log says about its run, and its slices
    files.py       reads the files of logs; `logs_of` groups them into logs
    sample.py      makes a `Sample` with its scores of a sample of the log
"""

import re
from importlib import import_module
from pkgutil import get_data
from typing import Any

import msgspec


class MetricRow(msgspec.Struct, frozen=True):
    """Metrics that are no judgements, or better if lower."""

    kind: str  # judgement, cost or bookkeeping
    patterns: str
    lower: bool = True  # whether lower is better


class Harness(msgspec.Struct, frozen=True):
    """A table of `harnesses.toml`, which describes the fields."""

    metrics: list[MetricRow] = []
    title: str = ""
    reads: str = ""
    log_name: str = ""
    metadata: list[str] = []
    roles: list[list[str]] = []
    first_line: bool = False

    def role_in(self, head: bytes) -> str | None:
        """The first role whose patterns are all in the beginning of a file."""
        if self.first_line:
            head = head.lstrip().partition(b"\n")[0]
        for role, start, *others in self.roles:
            if re.match(start.encode(), head) and all(
                re.search(pattern.encode(), head) for pattern in others
            ):
                return role
        return None


_DATA = get_data("fastrec.harnesses", "harnesses.toml") or b""
KNOWN = msgspec.toml.decode(_DATA, type=dict[str, Harness])  # also `table`
HARNESSES = {name: harness for name, harness in KNOWN.items() if harness.title}


def harness_named(name: str) -> Any:
    """The module of a harness, or of tables (`table`)."""
    return import_module(f"fastrec.harnesses.{name.replace('-', '_')}")
