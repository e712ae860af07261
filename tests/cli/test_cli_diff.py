"""`fastrec diff` on the command line: exit codes, output formats, and wrong options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from fastrec.cli import cli
from fastrec.commands.diff import Difference
from tests.commands.comparing import corpus_of
from tests.commands.test_diff import edit_manifest, records_of, worsened

STEERING = "\x1b[31m|`evil`\u202e"


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora of three nights, one in another order, and one with hostile names; read-only."""
    path = tmp_path_factory.mktemp("nights")
    corpus_of(records_of(), path / "old")
    corpus_of(worsened(records_of(), 9), path / "new")
    corpus_of(records_of(), path / "by-model", sort_by=("model_id",))
    corpus_of(records_of("m", 3, evaluation_name=STEERING, evaluation_id=STEERING), path / "odd")
    (path / "nothing").mkdir()
    return path


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, arguments)])


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a new process, and check that it prints no traceback."""
    command = [sys.executable, "-m", "fastrec", "diff", *map(os.fspath, arguments)]
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | options
    done = subprocess.run(command, check=False, **settings)
    assert b"Traceback" not in (done.stdout or b"") + (done.stderr or b"")
    return done


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["old", "new"], 0, "compared: 1 worse and 0 better with p < 0.05, of 2 models (counted per evaluation)"),
        (["old", "new", "--fail-on", "0.5", "--p", "0.01"], 1, "regression: org/m on arithmetic lost more than 0.5"),
        (["old", "new", "--fail-on", "30"], 0, "no regression: no model lost more than 30 points with p < 0.05"),
        (["old", "old", "--fail-on", "0"], 0, "no regression"),
        (["new", "old", "--fail-on", "0"], 0, "no regression"),
        (["old", "by-model"], 2, "fastrec normalize by-model -o NEW --sort-by evaluation_name,sample_hash"),
        (["old", "missing"], 2, "missing is not a corpus: there is no such directory"),
        (["nothing", "new"], 2, "nothing is not a corpus: it holds no manifest.json"),
        (["old"], 2, "Missing argument 'NEW'"),
        (["old", "new", "--fail-on", "half"], 2, "'half' is not a valid number"),
        (["old", "new", "--fail-on", "-1"], 2, "--fail-on"),
        (["old", "new", "--p", "2"], 2, "--p"),
        (["old", "new", "--examples", "-1"], 2, "--examples"),
        (["old", "new", "--format", "csv"], 2, "'table', 'json', 'markdown'"),
        (["old", "new", "--by", "score"], 2, "records cannot be compared by 'score'"),
        (["old", "new", "--jobs", "0"], 2, "--jobs"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, said: str) -> None:
    """0: no regression; 1: a regression; 2: the command line is wrong, or the corpora cannot be compared."""
    done = run(*arguments)
    assert done.returncode == code
    assert said in (done.stdout if code < 2 else done.stderr).decode()
    assert (done.stdout == b"") is (code > 1)


def test_unreadable_corpus(tmp_path: Path) -> None:
    """Exit 3, with an error that names the file."""
    corpus_of(worsened(records_of(), 1), tmp_path / "cut")
    part = tmp_path / "cut" / "part-00000.jsonl.zst"
    part.write_bytes(part.read_bytes()[:-3])
    done = run("old", tmp_path / "cut")
    assert (done.returncode, done.stdout) == (3, b"")
    assert f"error: {part}: ends inside" in done.stderr.decode()


def test_table_output() -> None:
    """Models per evaluation, the worst first; then changed fields, counts and the verdict."""
    lines = invoke("old", "new", "--fail-on", "1").stdout.splitlines()
    assert lines[0] == "arithmetic: 2 models"
    assert lines[1].split() == ["model", "common", "old", "new", "points", "right→wrong", "wrong→right", "p"]
    assert lines[2].split() == ["org/m", "40", "65.0%", "42.5%", "-22.50", "9", "0", "0.0039", "regressed"]
    assert lines[3].split()[4:] == ["0.00", "0", "0", "1"]
    assert ["$.evaluation.score", "9"] in [line.split() for line in lines]
    assert lines[-2].startswith("80 pairs: 71 unchanged, 9 changed; 0 added, 0 removed (")
    assert lines[-1] == "regression: org/m on arithmetic lost more than 1 points with p < 0.05"


def test_examples() -> None:
    """`--examples N` lists N records of each kind, with their ids."""
    assert "flipped" not in invoke("old", "new").stdout
    rows = [line.split() for line in invoke("old", "new", "--examples", "2").stdout.splitlines()]
    assert sum(row[-1:] == ["wrong"] for row in rows) == 2
    assert sum(row[-1:] == ["eval/2"] for row in rows) == 2


def test_json_output() -> None:
    """The document equals the result of the Python function, and lists ten flips by default."""
    done = invoke("old", "new", "--format", "json", "--fail-on", "1")
    assert done.exit_code == 1
    document = msgspec.json.decode(done.stdout, type=Difference)
    assert document.regressed
    assert len(document.models[0].flips) == 9
    plain = json.loads(done.stdout)
    assert list(plain) == list(Difference.__struct_fields__)
    assert plain["models"][0]["p"] == 2 / 512
    assert plain["examples"]["changed"][0]["fields"] == ["$.evaluation.score", "$.evaluation.is_correct"]


def test_markdown_output() -> None:
    """The verdict comes first, then GitHub tables, and examples in <details>."""
    done = invoke("old", "new", "--format", "markdown", "--fail-on", "1", "--examples", "1")
    lines = done.stdout.splitlines()
    assert lines[0] == "**regression**: `org/m` on `arithmetic` lost more than 1 points with p < 0.05"
    assert "| `arithmetic` | `org/m` | 40 | 65.0% | 42.5% | -22.50 | 9 | 0 | 0.0039 | **regressed** |" in lines
    assert "<details><summary>flipped</summary>" in lines
    for index, line in enumerate(lines):
        if line.startswith(("| ---", "| --:")):
            assert line.count("|") == lines[index - 1].count("|") == lines[index + 1].count("|")
            assert lines[index - 2] == ""


@pytest.mark.parametrize("output_format", ["table", "json", "markdown"])
def test_record_text_is_escaped(output_format: str) -> None:
    """Names from records control neither a terminal nor a page."""
    done = invoke("old", "odd", "--format", output_format, "--examples", "3")
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    if output_format == "markdown":
        assert "`` \\x1b[31m\\|`evil`\\u202e ``" in done.stdout


def test_closed_pipe() -> None:
    """A closed pipe prints no error, and the exit code still tells about regressions."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = run("old", "new", "--fail-on", "1", stdout=closed)
    assert (done.returncode, done.stderr) == (1, b"")


def test_notices_go_to_stderr(tmp_path: Path) -> None:
    """stdout has only the output for programs."""
    corpus_of(records_of(), tmp_path / "later")
    edit_manifest(tmp_path / "later", fastrec="9.9.9")
    done = run("old", tmp_path / "later", "--format", "json")
    assert b"made OLD and fastrec 9.9.9 made NEW" in done.stderr
    assert json.loads(done.stdout)["notices"]
