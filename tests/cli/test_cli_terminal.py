"""Output on narrow terminals: no line is wrapped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from tests.systems import in_terminal, needs_script

COMMANDS = cli.list_commands(None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with numbers in every column; read-only."""
    folder = tmp_path_factory.mktemp("terminal")
    fastrec.generate(folder / "in", records=300, seed=1, shards=1)
    fastrec.normalize(folder / "in", folder / "corpus")
    return folder / "corpus"


def shown(columns: int, *arguments: str | Path) -> tuple[str, list[str]]:
    """Return the heading of the first table on a terminal, and all lines."""
    command = f"stty cols {columns}; {sys.executable} -m fastrec {' '.join(map(str, arguments))}"
    environment = {**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, "NO_COLOR": "1"}
    done = subprocess.run(in_terminal(command), capture_output=True, env=environment, timeout=60, check=False)
    lines = done.stdout.decode().splitlines()
    return next(line for line in lines if line.startswith("  model")), lines


@needs_script
@pytest.mark.parametrize("columns", [50, 80, 119])
def test_tables_fit_into_a_terminal(corpus: Path, columns: int) -> None:
    """Columns that do not fit are hidden and named in a notice."""
    head, lines = shown(columns, "stats", corpus)
    assert max(len(line) for line in lines if line.startswith("  ")) <= columns
    assert ("p99 ms" in head) is (columns == 119)
    assert any("too narrow for these columns: tokens, p99 ms" in line for line in lines) is (columns < 119)


@needs_script
def test_ranking_column_is_always_shown(corpus: Path) -> None:
    """The column that models are ranked by is never hidden."""
    assert "p50 ms" not in shown(50, "stats", corpus)[0]
    assert "p50 ms" in shown(50, "stats", corpus, "--by", "latency")[0]
    assert "tokens/record" in shown(50, "stats", corpus, "--by", "tokens")[0]


@needs_script
def test_errors_are_always_shown(corpus: Path) -> None:
    """The number of errors is never hidden, because accuracy does not count them."""
    _, lines = shown(40, "stats", corpus)
    heads = [line.split() for line in lines if line.startswith("  model")]
    assert ["model", "n", "accuracy", "errors"] in heads


@needs_script
def test_diff_fits_into_a_terminal(corpus: Path) -> None:
    """The lost points, the adjusted p-value and errors are never hidden."""
    _, lines = shown(60, "diff", corpus, corpus)
    heads = [line.split() for line in lines if line.startswith("  model")]
    assert ["model", "new", "points", "adjusted", "p", "errors"] in heads
    assert any(line.endswith("too narrow for these columns: better, worse, old, p, questions") for line in lines)


def test_a_pipe_gets_every_column(corpus: Path) -> None:
    """No column is hidden if stdout is not a terminal."""
    result = CliRunner().invoke(cli, ["stats", str(corpus)], env={"COLUMNS": "40"})
    assert "p99 ms" in result.stdout


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_the_help_fits_into_a_terminal(command: list[str]) -> None:
    """Examples and exit codes, which click does not wrap, fit into 80 columns."""
    result = CliRunner().invoke(cli, [*command, "--help"], terminal_width=80)
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
