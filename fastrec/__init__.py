"""fastrec: turn compressed JSONL evaluation records into one clean, sorted, comparable corpus.

Commands are functions, too. A function has the name of its command, and its parameters have the
names of the arguments and options of the command: `fastrec cat CORPUS --model A --model B
--sample-id 5` is `fastrec.cat(corpus, model=["A", "B"], sample_id=5)`. An option that can be
repeated takes a string or a list of strings, and means any of them. Options about printing have no
counterpart: functions return what commands print.

Names are imported on first use, so that `import fastrec` stays cheap. `__init__.pyi` lists them.
"""

import sys
from functools import cache
from importlib import import_module
from types import ModuleType

from fastrec._version import __version__ as __version__


@cache
def _homes() -> dict[str, str]:
    """The module of each public name, as the stub of this package imports it."""
    import ast  # noqa: PLC0415 - takes some milliseconds, which the command line does not need
    from pkgutil import get_data  # noqa: PLC0415

    stub = ast.parse(get_data("fastrec", "__init__.pyi") or b"")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def __getattr__(name: str) -> object:
    if name == "__all__":  # without `open`, so that `from fastrec import *` does not hide a builtin
        return sorted(_homes().keys() - {"open"})
    if name not in _homes():
        raise AttributeError(f"module 'fastrec' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_homes()[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(_homes())


class _Package(ModuleType):
    """The package as a module in which `fastrec.judge` and `fastrec.normalize` stay functions.

    Importing the folder `fastrec/judge` would bind its module to the attribute `judge` of the
    package, and hide the function of that name.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in ("judge", "normalize")):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
