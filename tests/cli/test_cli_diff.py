"""`fastrec diff` on the command line: exit codes, output formats, and wrong options."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from fastrec.cli import cli
from fastrec.commands.diff import Difference
from tests.commands.comparing import corpus_of
from tests.commands.test_diff import edit_manifest, records_of, trials, worsened
from tests.running import run_command

STEERING = "\x1b[31m|`evil`\u202e"


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora of four nights, one in another order, and one with hostile names; read-only."""
    path = tmp_path_factory.mktemp("nights")
    corpus_of(records_of(), path / "old")
    corpus_of(worsened(records_of(), 9), path / "new")
    corpus_of(records_of("m", 30), path / "less")
    corpus_of(records_of(), path / "by-model", sort_by=("model_id",))
    corpus_of(records_of("m", 3, evaluation_name=STEERING, evaluation_id=STEERING), path / "odd")
    (path / "nothing").mkdir()
    return path


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, arguments)])


run = partial(run_command, "diff")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["old", "new"],
            0,
            (
                "compared: 1 worse and 0 better with adjusted p < 0.05; 2 models compared, 0 missing, "
                "0 incomplete"
            ),
        ),
        (
            ["old", "new", "--fail-on", "0.5", "--p", "0.01"],
            1,
            "regression: org/m on arithmetic lost more than 0.5",
        ),
        (
            ["old", "new", "--fail-on", "1", "--p", "0.004", "--p-adjust", "none"],
            1,
            "1 points with p < 0.004; 2 models",
        ),
        (
            ["old", "new", "--fail-on", "30"],
            0,
            (
                "no regression: no model lost more than 30 points with adjusted p < 0.05; 2 models "
                "compared, 0 missing"
            ),
        ),
        (["old", "old", "--fail-on", "0"], 0, "no regression"),
        (["new", "old", "--fail-on", "0"], 0, "no regression"),
        (
            ["old", "less", "--fail-on", "0"],
            1,
            (
                "missing: org/n on arithmetic is missing in NEW; org/m on arithmetic was compared on "
                "30 of 40 questions"
            ),
        ),
        (["old", "less"], 0, "0 models compared, 1 missing, 1 incomplete (counted per evaluation)"),
        (
            ["old", "less", "--fail-on", "0", "--allow-missing", "org/n", "--min-compared", "75%"],
            0,
            "no regression",
        ),
        (
            ["old", "by-model"],
            2,
            "fastrec normalize by-model -o NEW --sort-by evaluation_name,sample_hash",
        ),
        (["old", "missing"], 2, "missing is not a corpus: there is no such directory"),
        (["nothing", "new"], 2, "nothing is not a corpus: it holds no manifest.json"),
        (["old"], 2, "Missing argument 'NEW'"),
        (["old", "new", "--fail-on", "half"], 2, "'half' is not a valid number"),
        (["old", "new", "--fail-on", "-1"], 2, "--fail-on"),
        (["old", "new", "--p", "2"], 2, "--p"),
        (["old", "new", "--min-compared", "101%"], 2, "--min-compared"),
        (["old", "new", "--min-compared", "most"], 2, "'most' is not a valid number"),
        (["old", "new", "--p-adjust", "holm"], 2, "'bh', 'none'"),
        (["old", "new", "--examples", "-1"], 2, "--examples"),
        (["old", "new", "--format", "csv"], 2, "'text', 'json', 'markdown'"),
        (["old", "new", "--by", "score"], 2, "records cannot be compared by 'score'"),
        (["old", "new", "--jobs", "0"], 2, "--jobs"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, said: str) -> None:
    """0: no regression; 1: a regression.

    2: the command line is wrong, or the corpora cannot be compared.
    """
    if code < 2:
        result = invoke(*arguments)
        assert result.exit_code == code
        assert said in result.stdout
    else:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (code, b"")
        assert said in done.stderr.decode()


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
    assert lines[1].split() == [
        "model",
        "questions",
        "old",
        "new",
        "points",
        "worse",
        "better",
        "p",
        "adjusted",
        "p",
    ]
    assert lines[2].split() == [
        "org/m",
        "40",
        "65.0%",
        "42.5%",
        "-22.50",
        "9",
        "0",
        "0.0039",
        "0.0078",
        "regressed",
    ]
    assert lines[3].split()[4:] == ["0.00", "0", "0", "1", "1"]
    # The other model did not change, so nothing is known about its discordance: it is that of the
    # difference itself.
    assert lines[4].split(";") == [
        "  detects 20.8 to 21.6 points with 80% power at p < 0.05",
        " to detect 22.5 takes 37 questions",
    ]
    assert lines[6] == "old, new: accuracy on the questions that both corpora answered"
    assert lines[7] == "p: exact McNemar test. adjusted p: for 2 models, by Benjamini and Hochberg"
    assert ["$.evaluation.score", "9"] in [line.split() for line in lines]
    assert lines[-2].startswith("80 pairs: 71 unchanged, 9 changed; 0 added, 0 removed (")
    assert lines[-1] == (
        "regression: org/m on arithmetic lost more than 1 points with adjusted p < 0.05; 2 models "
        "compared, 0 missing, "
        "0 incomplete"
    )


def test_missing_and_incomplete_models_are_named() -> None:
    """Without numbers that look like a result."""
    lines = invoke("old", "less").stdout.splitlines()
    assert lines[2].split() == ["org/n", *["–"] * 8, "missing"]
    assert lines[3].split() == [
        "org/m",
        "30",
        "of",
        "40",
        "70.0%",
        "70.0%",
        "0.00",
        "0",
        "0",
        "1",
        "1",
        "incomplete",
    ]
    new = invoke("less", "old", "--format", "markdown").stdout
    assert f"| org/n |{' – |' * 8} new |" in new.splitlines()


def test_models_without_answers_in_old_are_counted_apart(tmp_path: Path) -> None:
    """A corpus with errors compared with itself does not fail, and the output says what was not
    compared.
    """
    corpus = corpus_of([*records_of("n", 4), *trials("!!")], tmp_path / "old")
    lines = invoke(tmp_path / "old", corpus, "--fail-on", "0").stdout.splitlines()
    assert lines[-1].endswith(
        "; 1 model compared, 0 missing, 0 incomplete, 1 without answers in OLD"
    )
    assert [line for line in lines if line.endswith("  no answers in OLD")]


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_the_reason_of_a_failure_is_on_stderr_too(form: str) -> None:
    """The output of a nightly job goes to a file, and its log must say why it stopped."""
    result = invoke("old", "less", "--fail-on", "0", "--format", form)
    assert (
        result.exit_code,
        result.stderr.count("missing: org/n on arithmetic is missing in NEW; "),
    ) == (1, 1)
    assert invoke("old", "old", "--fail-on", "0", "--format", form).stderr == ""


def test_several_missing_models_with_errors(tmp_path: Path) -> None:
    """The sentence is about all of them, and a model that is gone has not lost its errors."""
    corpus_of([*records_of("m", 4), *trials("!!"), *records_of("n", 4)], tmp_path / "old")
    corpus_of(records_of("o", 4), tmp_path / "new")
    lines = invoke(tmp_path / "old", tmp_path / "new", "--fail-on", "0").stdout.splitlines()
    assert " are missing in NEW; 0 models compared" in lines[-1]
    errors = {
        line.split()[0]: line.split()[-4:-1]
        for line in lines
        if line.endswith(("  missing", "  new"))
    }
    assert sorted(errors.values()) == [["0", "→", "–"], ["2", "→", "–"], ["–", "→", "0"]]


def test_repeats_and_errors_are_explained(tmp_path: Path) -> None:
    """The legend names the test, and errors have a column."""
    for run, verdicts in (("old", "++"), ("new", "+!")):
        records = [record for number in range(4) for record in trials(verdicts, run, number)]
        corpus_of([*records, *trials("-", run, 9)], tmp_path / run)
    lines = invoke(tmp_path / "old", tmp_path / "new").stdout.splitlines()
    assert lines[1].split()[-1] == "errors"
    assert lines[2].split()[-3:] == ["0", "→", "4"]
    assert "errors" not in invoke("old", "new").stdout
    assert lines[5].endswith("; a record with an error is no answer")
    assert lines[6].startswith("p: exact McNemar test. adjusted p")
    assert lines[-2].startswith(
        "1 pair: 0 unchanged, 1 changed; 0 added, 0 removed; 8 of OLD and 8 of NEW are repeats"
    )
    lines = invoke(tmp_path / "old", tmp_path / "new", "--errors-as-wrong").stdout.splitlines()
    assert lines[5].endswith("; a record with an error is a wrong answer")
    assert lines[2].split()[1:7] == ["5", "80.0%", "40.0%", "-40.00", "4", "0"]
    corpus_of([*trials("+-", "new", 0), *trials("--", "new", 1)], tmp_path / "newer")
    lines = invoke(tmp_path / "old", tmp_path / "newer").stdout.splitlines()
    reason = "because some have several answers"
    assert any(
        line.startswith(f"p: paired t-test over questions, {reason}. adjusted p") for line in lines
    )


def test_examples() -> None:
    """`--examples N` lists N records of each kind, with their ids."""
    assert "worse or better" not in invoke("old", "new").stdout
    rows = [line.split() for line in invoke("old", "new", "--examples", "2").stdout.splitlines()]
    assert sum(row[-2:] == ["100%", "0%"] for row in rows) == 2
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
    assert [plain["models"][0][name] for name in ("test", "p", "p_adjusted")] == [
        "mcnemar",
        2 / 512,
        4 / 512,
    ]
    assert plain["format"] == 3
    assert [failure["reason"] for failure in plain["failures"]] == ["regressed"]
    assert plain["examples"]["changed"][0]["fields"] == [
        "$.evaluation.score",
        "$.evaluation.is_correct",
    ]


def test_markdown_output() -> None:
    """The verdict comes first, then GitHub tables."""
    done = invoke("old", "new", "--format", "markdown", "--fail-on", "1", "--examples", "1")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "**regression**: org/m on arithmetic lost more than 1 points with adjusted p &lt; 0.05;"
    )
    assert "| org/m | 40 | 65.0% | 42.5% | -22.50 | 9 | 0 | 0.0039 | 0.0078 | regressed |" in lines
    assert "p: exact McNemar test. adjusted p: for 2 models, by Benjamini and Hochberg" in lines
    assert "**worse or better: org/m**: arithmetic" in lines
    for index, line in enumerate(lines):
        if line.startswith(("| ---", "| --:")):
            assert line.count("|") == lines[index - 1].count("|") == lines[index + 1].count("|")
            assert lines[index - 2] == ""


@pytest.mark.parametrize("output_format", ["text", "json", "markdown"])
def test_record_text_is_escaped(output_format: str) -> None:
    """Names from records control neither a terminal nor a page."""
    done = invoke("old", "odd", "--format", output_format, "--examples", "3")
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    if output_format == "markdown":
        assert r"\\x1b\[31m\|\`evil\`\\u202e" in done.stdout


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
