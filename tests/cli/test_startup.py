"""Start-up: heavy modules are imported only when needed, and every public name resolves."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys

import pytest

import fastrec

HEAVY = {
    "jinja2",
    "joblib",
    "rich",
    "jsonschema_rs",
    "msgspec",
    "zstandard",
    "numpy",
    "stringzilla",
    "isal",
    "xxhash",
}


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a new interpreter has imported after some code."""
    script = f"""
import contextlib, io, json, sys
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    {code}
json.dump([out.getvalue(), sorted({{name.partition('.')[0] for name in sys.modules}})], sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=60
    )
    printed, modules = json.loads(done.stdout)
    assert done.stderr == b""
    assert printed or "import fastrec" in code  # it did run
    return set(modules)


COMMANDS = ("validate", "stats", "report", "generate", "schema", "cat", "export")


@pytest.mark.parametrize(
    "calls", [[["--version"]], [["--help"], *([name, "--help"] for name in COMMANDS)]]
)
def test_help_imports_nothing_heavy(calls: list[list[str]]) -> None:
    """`--version` and `--help` import neither joblib, rich nor jsonschema-rs, nor the commands."""
    loaded = modules_after(
        f"""from fastrec.cli import main
    for words in {calls}:
        before = out.tell()
        with contextlib.suppress(SystemExit):
            sys.argv = ['fastrec', *words]
            main()
        assert out.tell() > before, words"""
    )
    assert "click" in loaded
    assert not loaded & HEAVY


def test_import_fastrec_is_cheap() -> None:
    """`import fastrec` does not even import click."""
    loaded = modules_after("import fastrec; fastrec.__version__; dir(fastrec)")
    assert not loaded & (HEAVY | {"click"})


def test_judge_needs_no_joblib() -> None:
    """Judging in this process does not import joblib."""
    assert not modules_after("import fastrec; fastrec.judge('{}')") & {"joblib", "rich", "click"}


def test_cat_needs_no_judge() -> None:
    """`fastrec.cat` imports neither the arbiter nor joblib, nor the dependencies of `export`."""
    assert not modules_after("import fastrec; fastrec.cat") & {
        "joblib",
        "jsonschema_rs",
        "pyarrow",
        "numpy",
        "click",
    }


def test_numpy_is_for_questions_only() -> None:
    """Commands that change corpora, and their workers, do not import it."""
    assert "numpy" not in modules_after(
        "import fastrec; fastrec.normalize, fastrec.validate, fastrec.verify"
    )


def test_version() -> None:
    """`python -m fastrec --version` prints the version of the package."""
    done = subprocess.run(
        [sys.executable, "-m", "fastrec", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"fastrec, version {fastrec.__version__}\n"


@pytest.mark.parametrize("name", fastrec.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """Each name of `__all__` exists, and is the same object every time."""
    assert getattr(fastrec, name) is getattr(fastrec, name)


def test_dir_lists_all_names() -> None:
    """`dir` shows `__all__`, with `open`."""
    assert sorted([*fastrec.__all__, "open"]) == dir(fastrec)


def test_importing_all_names_hides_no_builtin() -> None:
    """After `from fastrec import *`, `open` still opens files."""
    assert not set(fastrec.__all__) & set(dir(builtins))
    assert fastrec.open is not open


def test_an_unknown_name_is_an_attribute_error() -> None:
    """An unknown name raises AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fastrec.nonsense  # noqa: B018
