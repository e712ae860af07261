"""The harnesses that fastrec knows. To add one, write a folder like `lm_eval` and add its name here."""

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
