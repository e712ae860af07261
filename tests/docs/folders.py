"""The table of folders in CONTRIBUTING.md: subject and allowed imports, generated from the code."""

from __future__ import annotations

import ast

from tests.docs.documents import cell
from tests.test_layout import EDGES, ROOT, ROWS


def folders_table() -> str:
    """One row per folder or top-level module, from top to bottom of the layout."""
    lines = ["| folder | subject | imports |", "|---|---|---|"]
    return "\n".join([*lines, *(_row(name) for row in ROWS for name in row)])


def _row(name: str) -> str:
    path = ROOT / "fastrec" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    subject = cell(docstring.split("\n\n")[0])
    shown = f"`{name}/`" if path.is_dir() else f"`{name}.py`"
    imports = ", ".join(other for row in ROWS for other in row if other in EDGES[name])
    return f"| {shown} | {subject} | {imports} |"
