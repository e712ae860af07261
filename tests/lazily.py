"""Libraries that take long to import, imported when a test first uses one.

Each process of `make test` imports all test files, and runs some of the tests.
"""

from __future__ import annotations

import importlib
from typing import Any


class Library:
    """Stands for a module: `pl: Any = Library("polars")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for marks in each global of a test file
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
