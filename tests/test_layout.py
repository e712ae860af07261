"""The layout of the code: which folder may import which, and who may print or exit.

`EDGES` is the table of allowed imports between the folders of fastrec, `BENCH_ROWS` ranks the
modules of bench. Late imports and imports under `TYPE_CHECKING` count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fastrec

ROOT = Path(fastrec.__file__).parents[1]

# Top to bottom: a folder imports only folders of lower rows.
ROWS = [
    ["__main__"],
    ["cli"],
    ["opened", "record_writer"],
    ["api", "commands"],
    ["trends"],
    ["answers"],
    ["normalize"],
    ["corpus"],
    ["summary"],
    ["statistics"],
    ["harnesses", "sorting", "judge"],
    ["sources"],
    ["engine", "storage"],
    ["schemas", "scoring"],
    ["filters"],
    ["where"],
    ["notebook", "toml_file"],
    ["pages"],
    ["wording"],
    ["build", "csv_writer", "errors", "json_documents", "limits", "parameters", "progress"],
    ["_version"],
]

# For each folder of fastrec, the folders that it may import. Every row is needed: an edge without
# an import fails.
EDGES = {
    "__main__": {"cli"},
    "cli": {
        "parameters",
        "toml_file",
        "wording",
        "answers",
        "_version",
        "commands",
        "corpus",
        "csv_writer",
        "errors",
        "filters",
        "judge",
        "normalize",
        "progress",
        "schemas",
        "storage",
        "summary",
        "trends",
        "statistics",
    },
    "opened": {
        "parameters",
        "answers",
        "api",
        "commands",
        "corpus",
        "filters",
        "notebook",
        "progress",
        "summary",
        "pages",
    },
    "record_writer": {"api", "corpus", "errors", "judge", "parameters", "schemas", "storage"},
    "notebook": {"errors", "pages"},
    "api": {"errors", "filters", "judge", "normalize", "parameters", "schemas", "sources"},
    "commands": {
        "json_documents",
        "parameters",
        "toml_file",
        "wording",
        "answers",
        "_version",
        "corpus",
        "csv_writer",
        "engine",
        "errors",
        "filters",
        "harnesses",
        "judge",
        "limits",
        "normalize",
        "progress",
        "schemas",
        "sorting",
        "sources",
        "storage",
        "summary",
        "trends",
        "notebook",
        "where",
        "statistics",
        "scoring",
        "pages",
    },
    "normalize": {
        "json_documents",
        "parameters",
        "_version",
        "build",
        "corpus",
        "engine",
        "errors",
        "filters",
        "harnesses",
        "judge",
        "limits",
        "progress",
        "schemas",
        "sorting",
        "sources",
        "storage",
        "summary",
        "toml_file",
        "where",
    },
    "trends": {
        "wording",
        "where",
        "answers",
        "corpus",
        "errors",
        "filters",
        "notebook",
        "progress",
        "statistics",
        "storage",
        "summary",
    },
    "answers": {
        "_version",
        "parameters",
        "pages",
        "corpus",
        "engine",
        "errors",
        "filters",
        "judge",
        "limits",
        "normalize",
        "notebook",
        "progress",
        "schemas",
        "sorting",
        "sources",
        "statistics",
        "summary",
        "toml_file",
        "where",
        "wording",
    },
    "corpus": {
        "json_documents",
        "_version",
        "parameters",
        "build",
        "engine",
        "errors",
        "filters",
        "judge",
        "limits",
        "progress",
        "schemas",
        "sorting",
        "sources",
        "storage",
        "summary",
        "where",
    },
    "summary": {
        "json_documents",
        "wording",
        "notebook",
        "engine",
        "errors",
        "filters",
        "limits",
        "schemas",
        "sorting",
        "storage",
        "where",
        "statistics",
    },
    "statistics": {"errors"},
    "scoring": {"errors", "filters", "toml_file", "where"},
    "sorting": {"errors", "limits", "schemas", "sources", "storage"},
    "judge": {"build", "errors", "filters", "limits", "schemas", "sources"},
    "harnesses": {"errors", "filters", "schemas", "sources", "storage", "toml_file"},
    "sources": {"errors", "limits", "storage"},
    "engine": {"build", "errors", "limits"},
    "storage": {"errors", "limits"},
    "schemas": {"build", "errors"},
    "filters": {"errors", "parameters", "where"},
    "where": {"errors", "parameters"},
    "build": {"_version"},
    "csv_writer": set(),
    "errors": set(),
    "json_documents": set(),
    "pages": {"errors", "wording"},
    "limits": set(),
    "parameters": set(),
    "progress": set(),
    "wording": {"errors"},
    "toml_file": {"errors"},
    "_version": set(),
}

# Top to bottom: a module of bench imports only modules of lower rows.
BENCH_ROWS = [
    ["track", "peer_tables", "report", "instructions", "core_seconds"],
    ["conftest", "bench_judge", "bench_stages", "scale"],
    ["nights"],
    ["tables"],
    ["history"],
    ["figures", "piles"],
    ["trials"],
    ["contenders", "corpora"],
    ["logs", "real", "scale_workers", "shapes"],
    ["calibrate", "documents", "measure", "pydantic_record", "scale_corpus", "templates"],
]
PRINTING = {
    "print",
    "click.echo",
    "click.secho",
    "sys.exit",
    "os._exit",
    "exit",
    "quit",
    "breakpoint",
}
STREAMS = {"sys.stdout", "sys.stderr"}


def modules_of(package: str) -> dict[str, Path]:
    """All modules of a top-level package, by dotted name."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules_of("fastrec")
BENCH = {
    name: path for name, path in modules_of("bench").items() if not name.startswith("bench.tests.")
}
INNER = [
    name for name in MODULES if name != "fastrec"
]  # the package itself only lists where names live


@cache
def text_of(name: str) -> str:
    return (MODULES | BENCH)[name].read_text()


def folder_of(name: str) -> str:
    return name.split(".")[1]


def command_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if parts[:2] == ["fastrec", "commands"] and len(parts) > 2 else None


IMPORT = re.compile(
    r"^[ \t]*(?:import ([\w.]+)|from ([\w.]+) import ([^(\n]+|\([^)]*\)))", re.MULTILINE
)
"""An import at any depth: in functions and under TYPE_CHECKING too. Parsing all modules would take
seconds."""


def imports_of(text: str, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules among `known` that a text imports."""
    packages = {name.split(".")[0] for name in known}
    for whole, module, names in IMPORT.findall(text):
        assert not module.startswith("."), "relative import: write the full name"
        if (whole or module).split(".")[0] not in packages:
            continue
        if whole:
            yield whole
            continue
        # `from fastrec.sources import tasks` names a module, `from fastrec.errors import ShardError`
        # a class.
        plain = re.sub(r"#.*|[()]", "", names)
        full_names = {f"{module}.{name.split()[0]}" for name in plain.split(",") if name.strip()}
        yield from {full if full in known else module for full in full_names}


@cache
def imported_by(name: str) -> list[str]:
    """The modules of the same top-level package that a module imports."""
    return list(imports_of(text_of(name), MODULES if name in MODULES else BENCH))


def find_circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        return exc.args[1]
    return None


def test_every_folder_has_a_row() -> None:
    assert (
        {folder_of(name) for name in INNER}
        == set(EDGES)
        == {folder for row in ROWS for folder in row}
    )


def test_allowed_edges_go_down() -> None:
    """The table itself follows the rows: an edge leads to a lower row."""
    rank = {folder: number for number, row in enumerate(ROWS) for folder in row}
    up = [
        (folder, other)
        for folder, others in EDGES.items()
        for other in others
        if rank[other] <= rank[folder]
    ]
    assert not up


def test_the_edge_table_is_exact() -> None:
    """Every import between folders is in the table, and every edge of the table is used."""
    found: dict[str, set[str]] = {folder: set() for folder in EDGES}
    for name in INNER:
        for other in imported_by(name):
            assert other != "fastrec", f"{name} imports the package itself"
            if folder_of(other) != folder_of(name):
                found[folder_of(name)].add(folder_of(other))
    assert found == EDGES


def test_imports_between_modules_of_bench_go_down() -> None:
    rank = {f"bench.{name}": number for number, row in enumerate(BENCH_ROWS) for name in row}
    assert set(rank) == set(BENCH) - {"bench"}, "a module of bench has no row"
    edges = [(name, other) for name in rank for other in imported_by(name)]
    assert not [(name, other) for name, other in edges if rank[other] <= rank[name]]


@pytest.mark.parametrize("known", [MODULES, BENCH], ids=["fastrec", "bench"])
def test_no_circles_between_modules(known: dict[str, Path]) -> None:
    graph = {name: set(imported_by(name)) - {name} for name in known if name != "fastrec"}
    assert find_circle(graph) is None


def test_commands_do_not_import_each_other() -> None:
    found = {
        name: {command_of(other) for other in imported_by(name)} - {None, command_of(name)}
        for name in INNER
        if command_of(name)
    }
    assert found
    assert not {name: others for name, others in found.items() if others}


def test_only_the_command_line_prints_or_exits() -> None:
    """Everything below the command line returns values and raises errors."""
    names = [name for name in INNER if folder_of(name) not in ("cli", "__main__")]
    assert names
    assert not {name: found for name in names if (found := prints_or_exits(name))}


def prints_or_exits(name: str) -> set[str]:
    """What a module uses that prints or exits."""
    text = text_of(name)
    if not re.search(
        r"\b(?:print|echo|secho|exit|_exit|quit|breakpoint|std\w+|SystemExit)\b", text
    ):
        return set()
    nodes = list(ast.walk(ast.parse(text)))
    called = {dotted(node.func) for node in nodes if isinstance(node, ast.Call)}
    named = {dotted(node) for node in nodes if isinstance(node, ast.Attribute)}
    raised = {ast.unparse(node.exc) for node in nodes if isinstance(node, ast.Raise) and node.exc}
    return (
        called & PRINTING
        | named & STREAMS
        | {exc for exc in raised if exc.startswith("SystemExit")}
    )


def dotted(node: ast.AST) -> str:
    """`a.b` as it is written; empty for anything longer, which no name here is."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def test_every_module_has_a_docstring() -> None:
    assert MODULES
    assert not [name for name in MODULES if not re.match(r'r?"""\s*[^\s"]', text_of(name))]


def test_only_packages_with_a_face_list_their_names() -> None:
    """`__all__` is for folders that others import through; elsewhere a leading underscore marks
    what is private.
    """
    listing = {name for name in MODULES if re.search(r"^__all__\b", text_of(name), re.MULTILINE)}
    faces = {"fastrec.engine", "fastrec.schemas.newest"}
    assert listing == faces | {
        f"fastrec.harnesses.{name}" for name in ("helm", "inspect", "lm_eval", "table")
    }


def test_imports_are_found_everywhere() -> None:
    """Imports in functions, under TYPE_CHECKING and in both spellings of `from` count."""
    source = """
import fastrec.cli
from fastrec.sources import shard
from fastrec.sources.shard import (
    Shard,  # a class
    tasks_of as tasks,
)
if TYPE_CHECKING:
    from fastrec.engine import make_engine
def f():
    try:
        from fastrec.judge.judge import Judge
    finally:
        import os
"""
    assert sorted(imports_of(source, MODULES)) == [
        "fastrec.cli",
        "fastrec.engine",
        "fastrec.judge.judge",
        "fastrec.sources.shard",
        "fastrec.sources.shard",
    ]


def test_a_circle_is_found() -> None:
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert find_circle({"a": {"b", "c"}, "b": {"c"}}) is None
