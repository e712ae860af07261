"""Output on narrow terminals: no line is wrapped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from tests.running import run_here
from tests.samples import sample
from tests.systems import in_terminal, needs_script

COMMANDS = cli.list_commands(None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with numbers in every column; read-only."""
    folder = tmp_path_factory.mktemp("terminal")
    fastrec.generate(folder / "in", records=300, seed=1, shards=1)
    fastrec.normalize(folder / "in", folder / "corpus")
    return folder / "corpus"


def shown(
    columns: int, *arguments: str | Path, begins: tuple[str, ...] = ("  rank", "  model")
) -> tuple[str, list[str]]:
    """Return the heading of the first table on a terminal, or the first line that begins so, and
    all lines.
    """
    command = f"stty cols {columns}; {sys.executable} -m fastrec {' '.join(map(str, arguments))}"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        in_terminal(command), capture_output=True, env=environment, timeout=60, check=False
    )
    lines = done.stdout.decode().split("\r\n")
    return next(line for line in lines if line.startswith(begins)), lines


@needs_script
@pytest.mark.parametrize("columns", [50, 80, 119])
def test_tables_fit_into_a_terminal(corpus: Path, columns: int) -> None:
    """Columns that do not fit are hidden and named in a notice."""
    head, lines = shown(columns, "stats", corpus)
    rows = [
        line for line in lines if line.startswith("  ") and not line.startswith("  not ranked: ")
    ]
    assert max(map(len, rows)) <= columns
    assert ("p99 ms" in head) is (columns == 119)
    assert ("p50 ms" in head) is (columns >= 80)
    assert any("too narrow for these columns: tokens, p99 ms" in line for line in lines) is (
        columns < 119
    )


@needs_script
def test_ranking_column_is_always_shown(corpus: Path) -> None:
    """The column that models are ranked by is never hidden; the test above hides both."""
    assert "p50 ms" in shown(50, "stats", corpus, "--by", "latency")[0]
    assert "tokens/record" in shown(50, "stats", corpus, "--by", "tokens")[0]


@needs_script
def test_errors_are_always_shown(corpus: Path) -> None:
    """The number of errors is never hidden, because accuracy does not count them."""
    _, lines = shown(40, "stats", corpus)
    heads = [line.split() for line in lines if line.startswith("  rank")]
    assert ["rank", "model", "n", "accuracy", "errors"] in heads


@needs_script
def test_diff_fits_into_a_terminal(corpus: Path) -> None:
    """The lost points, the adjusted p-value and errors are never hidden."""
    _, lines = shown(60, "diff", corpus, corpus)
    heads = [line.split() for line in lines if line.startswith("  model")]
    assert ["model", "new", "points", "adjusted", "p", "errors"] in heads
    assert any(
        line.endswith(
            "too narrow for these columns: better, worse, old, p, questions; `| less -S` has all"
        )
        for line in lines
    )


@needs_script
@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_leaderboard_fits_into_a_terminal(corpus: Path, columns: int) -> None:
    """The last evaluations are hidden; rank, model and mean never are."""
    _, lines = shown(columns, "leaderboard", corpus)
    assert max(len(line) for line in lines if line.startswith("  ")) <= columns
    heads = [line.split()[:3] for line in lines if line.startswith("  rank")]
    assert ["rank", "model", "mean"] in heads
    assert any("too narrow for these columns: wins, mean rank, " in line for line in lines)


UNSAFE = "a\x85\x9b31mb\u202ec\u2066d\u2028e\U000e0041f\u200b\x7f"


@needs_script
def test_records_cannot_control_a_terminal(tmp_path: Path) -> None:
    """`cat` and `rejects` escape C1 controls and bidi overrides on a terminal: the same JSON.

    A pipe gets the bytes.
    """
    record = sample(input={"raw": UNSAFE, "reference": "é", UNSAFE: 1})
    lines = [json.dumps(one, ensure_ascii=False) for one in (record, {**record, "model_id": 1})]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    for arguments in (
        ("cat", tmp_path / "corpus"),
        ("rejects", tmp_path / "corpus", "--extract", "-"),
    ):
        piped = run_here(*arguments)
        assert piped.stdout.decode().count(UNSAFE) == 2
        line, text = shown(80, *arguments, begins=("{",))
        assert not re.search(
            "[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\U000e0041]", "".join(text)
        )
        assert "\\u202e" in line
        assert "é" in line
        assert json.loads(line) == json.loads(piped.stdout)


def test_a_pipe_gets_every_column(corpus: Path) -> None:
    """No column is hidden if stdout is not a terminal."""
    result = CliRunner().invoke(cli, ["stats", str(corpus)], env={"COLUMNS": "40"})
    assert "p99 ms" in result.stdout


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_the_help_fits_into_a_terminal(command: list[str]) -> None:
    """Examples and exit codes, which click does not wrap, fit into 80 columns."""
    result = CliRunner().invoke(cli, [*command, "--help"], terminal_width=80)
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []
