"""The design's layout: imports go one way, the stages stand alone, and only the command line prints or exits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastrec

PACKAGE = Path(fastrec.__file__).parent

# Top to bottom, as the design draws it. A module belongs to the first row that has a prefix of its name.
ROWS = {
    "cli": ("fastrec.cli", "fastrec.__main__"),
    "jobs": ("fastrec.jobs", "fastrec.api"),
    "engine": ("fastrec.engine",),
    "stages": ("fastrec.stages",),
    "ground": ("fastrec.records", "fastrec.hashing", "fastrec.storage", "fastrec.errors"),
}
ORDER = list(ROWS)
STAGES = {"shards", "judge", "runs", "summary"}
PRINTING = {"print", "click.echo", "click.secho", "sys.exit", "os._exit", "exit", "quit", "breakpoint"}
STREAMS = {"sys.stdout", "sys.stderr"}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
PLACED = [name for name in MODULES if name != "fastrec"]  # the package's own table of names points everywhere


def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def row_of(name: str) -> str | None:
    for row, prefixes in ROWS.items():
        if any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes):
            return row
    return None


def stage_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if parts[:2] == ["fastrec", "stages"] and len(parts) > 2 else None


def imports_of(node: ast.AST, module: str) -> Iterator[str]:
    """The modules of fastrec that a tree imports, wherever in it, but for what only the type checker sees."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "fastrec")
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, f"{module} imports relatively: say the whole name"
        if (node.module or "").split(".")[0] == "fastrec":
            # `from fastrec.jobs import plan` names a module, `from fastrec.jobs.plan import Slice` does not, and
            # `from fastrec import validate` takes a name from its home. Anyone may ask for the version.
            for name in (alias.name for alias in node.names if (node.module, alias.name) != ("fastrec", "__version__")):
                full = fastrec._HOMES.get(name, "") if node.module == "fastrec" else f"{node.module}.{name}"
                yield full if full in MODULES else node.module
    else:
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in node.orelse if for_types else ast.iter_child_nodes(node):
            yield from imports_of(child, module)


@pytest.mark.parametrize("name", PLACED)
def test_every_module_has_a_row(name: str) -> None:
    """A module that the drawing does not place needs a place in it first."""
    assert row_of(name), f"{name} stands in no row of the design's layout"
    if name.startswith("fastrec.stages."):
        assert stage_of(name) in STAGES


@pytest.mark.parametrize("name", PLACED)
def test_imports_go_down(name: str) -> None:
    """A module of one row imports nothing from a row above."""
    row = ORDER.index(row_of(name))
    up = [other for other in imports_of(tree_of(name), name) if ORDER.index(row_of(other) or "ground") < row]
    assert not up, f"{name} imports upwards: {up}"


@pytest.mark.parametrize("name", PLACED)
def test_no_module_imports_the_package_itself(name: str) -> None:
    """`import fastrec` would give names of every row, unseen."""
    assert "fastrec" not in set(imports_of(tree_of(name), name))


@pytest.mark.parametrize("name", [name for name in PLACED if stage_of(name)])
def test_stages_do_not_import_each_other(name: str) -> None:
    """What two stages share stands below them, and what joins them stands above."""
    others = {stage_of(other) for other in imports_of(tree_of(name), name)} - {None, stage_of(name)}
    assert not others, f"{name} imports the stages {others}"


@pytest.mark.parametrize("name", [name for name in MODULES if row_of(name) != "cli"])
def test_only_the_command_line_prints_or_exits(name: str) -> None:
    """Everything below the command line gives back values and raises errors."""
    nodes = list(ast.walk(tree_of(name)))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    named = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    raised = {ast.unparse(node.exc) for node in nodes if isinstance(node, ast.Raise) and node.exc}
    assert not called & PRINTING
    assert not named & STREAMS
    assert not any(exc.startswith("SystemExit") for exc in raised)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    """A module opens with a docstring."""
    assert (ast.get_docstring(tree_of(name)) or "").strip()


@pytest.mark.parametrize("name", [name for name in MODULES if name != "fastrec.__main__"])
def test_every_module_says_what_it_offers(name: str) -> None:
    """A module has an explicit `__all__`, without repetition, unless it offers nothing at all."""
    tree = tree_of(name)
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    if len(tree.body) == 1:  # a docstring
        return
    assert len(values) == 1
    names = ast.literal_eval(values[0])
    assert len(names) == len(set(names))


def test_the_parser_of_imports_sees_them_all() -> None:
    """Imports inside functions and both spellings of `from` count; those for the type checker do not."""
    source = """
import fastrec.cli
from fastrec.jobs import plan
from fastrec.jobs.plan import Slice
from fastrec import __version__, judge
if TYPE_CHECKING:
    from fastrec.cli import main
else:
    import fastrec.engine
def f():
    try:
        from fastrec.stages.judge import Judge
    finally:
        import os
"""
    assert list(imports_of(ast.parse(source), "example")) == [
        "fastrec.cli",
        "fastrec.jobs.plan",
        "fastrec.jobs.plan",
        "fastrec.api",
        "fastrec.engine",
        "fastrec.stages.judge",
    ]
