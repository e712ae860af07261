"""The table of folders in CONTRIBUTING.md: the subject of each, generated from the code."""

from __future__ import annotations

import ast

from tests.docs.documents import cell
from tests.test_layout import ROOT, ROWS


def folders_table() -> str:
    """One row per folder or top-level module, from top to bottom of the layout."""
    lines = ["| folder | subject |", "|---|---|"]
    return "\n".join([*lines, *(_row(name) for row in ROWS for name in row)])


def _row(name: str) -> str:
    path = ROOT / "fastrec" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    subject = cell(docstring.split("\n\n")[0])
    shown = f"`{name}/`" if path.is_dir() else f"`{name}.py`"

    return f"| {shown} | {subject} |"
