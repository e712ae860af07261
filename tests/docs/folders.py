"""The table of folders in CONTRIBUTING.md: subject, modules, lines and allowed imports, generated from the code."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.docs.documents import cell
from tests.test_layout import EDGES, ROOT, ROWS


def folders_table() -> str:
    """One row per folder or top-level module, from top to bottom of the layout."""
    lines = ["| folder | subject | modules | lines | imports |", "|---|---|--:|--:|---|"]
    lines += [_row(name) for row in ROWS for name in row]
    paths = modules_of(ROOT / "fastrec")
    total = f"| **fastrec** | | {len(paths)} | {lines_of(paths):,} | |"
    others = [f"| `{name}/` | | {len(paths)} | {lines_of(paths):,} | |" for name, paths in _others()]
    return "\n".join([*lines, total, *others])


def modules_of(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def lines_of(paths: list[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def _others() -> list[tuple[str, list[Path]]]:
    return [(name, modules_of(ROOT / name)) for name in ("bench", "tests")]


def _row(name: str) -> str:
    path = ROOT / "fastrec" / name
    paths = modules_of(path)
    source = path / "__init__.py" if path.is_dir() else paths[0]
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    subject = cell(docstring.split("\n\n")[0])
    shown = f"`{name}/`" if path.is_dir() else f"`{name}.py`"
    imports = ", ".join(other for row in ROWS for other in row if other in EDGES[name])
    return f"| {shown} | {subject} | {len(paths)} | {lines_of(paths):,} | {imports} |"
