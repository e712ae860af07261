"""Starting up: nothing heavy is loaded before it is needed, and every public name is there when it is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import fastrec

HEAVY = {"joblib", "rich", "jsonschema_rs", "msgspec", "zstandard", "numpy", "stringzilla", "isal", "xxhash"}


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after some code."""
    script = f"""
import contextlib, io, json, sys
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    {code}
json.dump([out.getvalue(), sorted({{name.partition('.')[0] for name in sys.modules}})], sys.stdout)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    printed, modules = json.loads(done.stdout)
    assert done.stderr == b""
    assert printed or "import fastrec" in code  # it did run
    return set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["validate", "--help"],
        ["stats", "--help"],
        ["report", "--help"],
        ["generate", "--help"],
        ["schema", "--help"],
        ["cat", "--help"],
        ["export", "--help"],
    ],
)
def test_asking_for_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """`--version` and `--help` load neither joblib, rich nor jsonschema-rs, nor anything else of the jobs."""
    loaded = modules_after(f"sys.argv = ['fastrec', *{arguments}]; from fastrec.cli import main; main()")
    assert "click" in loaded
    assert not loaded & HEAVY


def test_importing_the_package_loads_nothing_but_itself() -> None:
    """`import fastrec` costs nothing: not even click is loaded."""
    loaded = modules_after("import fastrec; fastrec.__version__; dir(fastrec)")
    assert not loaded & (HEAVY | {"click"})


def test_judging_a_line_loads_no_pool() -> None:
    """Judging in this process needs no joblib."""
    assert not modules_after("import fastrec; fastrec.judge('{}')") & {"joblib", "rich", "click"}


def test_looking_something_up_loads_no_judge() -> None:
    """`fastrec.cat` answers in a moment: neither the arbiter nor joblib is loaded for it, nor what `export` needs."""
    assert not modules_after("import fastrec; fastrec.cat") & {"joblib", "jsonschema_rs", "pyarrow", "numpy", "click"}


def test_the_version_is_printed() -> None:
    """`python -m fastrec --version` says the package's version."""
    done = subprocess.run([sys.executable, "-m", "fastrec", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"fastrec, version {fastrec.__version__}\n"


@pytest.mark.parametrize("name", fastrec.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """Each name of `__all__` is there, and is the same object every time."""
    assert getattr(fastrec, name) is getattr(fastrec, name)


def test_the_table_of_homes_agrees_with_all() -> None:
    """`__all__` and the table of lazy names list the same names, both sorted, and `dir` shows them."""
    assert set(fastrec._HOMES) | {"__version__"} == set(fastrec.__all__)
    assert set(fastrec.__all__) <= set(dir(fastrec))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The lazy table does not swallow mistakes."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fastrec.nonsense  # noqa: B018
