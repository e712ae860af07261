"""The harnesses that fastrec knows. To add one, write a folder like `lm_eval` and add its name here.

All of these folders have the same modules, besides their own:

    roles.py       `role_of`: tells what a file is
    grouping.py    `logs_of`: groups files into logs
    planning.py    `plan`: what a log says about its run, and its slices
    reading.py     `samples`: reads a slice
    sample.py      makes a `Sample` of one sample of the log
    scores.py      its scores
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from fastrec.harnesses.log import Harness

__all__ = ["HARNESS_NAMES", "harness_named"]

_MODULES: Final = {"lm-eval": "lm_eval", "inspect": "inspect", "helm": "helm", "lighteval": "lighteval"}

HARNESS_NAMES: Final = tuple(_MODULES)
"""In the order in which files are offered to them."""


def harness_named(name: str) -> Harness:
    """Return the module that reads the logs of a harness."""
    return cast("Harness", import_module(f"fastrec.harnesses.{_MODULES[name]}"))
