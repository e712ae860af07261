"""The tour in docs/notebook.md works as a notebook whose cells are its Python blocks."""

from __future__ import annotations

import ast
import importlib.util
import io
import os
from pathlib import Path
from typing import Any

import pytest

from tests.docs.reference import ROOT
from tests.docs.snippets import blocks_of
from tests.lazily import Library

PACKAGES = ("duckdb", "ipykernel", "matplotlib", "nbclient", "nbformat", "pandas", "pyarrow")

nbclient: Any = Library("nbclient")
nbformat: Any = Library("nbformat")
plots: Any = Library("matplotlib.pyplot")

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, PACKAGES)), reason=f"needs {', '.join(PACKAGES)}"
)


@pytest.mark.filterwarnings("ignore")  # matplotlib cannot show a plot here
def test_the_cells_show_tables_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run in this process, each cell ends with something that a notebook shows as a table; only the
    last one plots.
    """
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    *cells, plot = [block.text for block in blocks_of(ROOT / "docs" / "notebook.md")]
    tables = [run_cell(cell, names)._repr_html_() for cell in cells]
    assert "2,000 records" in tables[0]
    assert all("<td>" in table for table in tables)
    run_cell(plot, names)
    picture = io.BytesIO()
    names["figure"].savefig(picture)
    plots.close(names["figure"])
    assert picture.getvalue().startswith(b"\x89PNG")
    assert capsys.readouterr() == ("", "")


def run_cell(text: str, names: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line, which a notebook shows."""
    *statements, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(statements, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


@pytest.mark.long_only  # starts Jupyter, 6 s; the test above runs the same cells
@pytest.mark.filterwarnings("ignore")  # of Jupyter
def test_the_tour_runs_from_shards_to_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    blocks = list(blocks_of(ROOT / "docs" / "notebook.md"))
    assert {block.language for block in blocks} == {"python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(block.text) for block in blocks]
    )
    nbclient.NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output["data"] for cell in notebook.cells for output in cell.outputs if "data" in output
    ]
    assert not [
        output
        for cell in notebook.cells
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    tables = [data["text/html"] for data in shown if "text/html" in data]
    assert len(tables) == len(blocks) - 1  # each cell shows a table, but the last
    assert "2,000 records" in tables[0]
    assert all("<td>" in table for table in tables)
    assert "image/png" in shown[-1]
