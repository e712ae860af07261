"""`fastrec normalize` on the command line: exit codes, output, progress, and wrong options."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from fastrec.cli import cli
from fastrec.cli.console import print_notice
from fastrec.cli.progress import make_progress
from fastrec.normalize.run import NormalizeResult
from fastrec.sources.formats import Format
from fastrec.summary.document import Summary
from tests.normalize.normalizing import audited, write
from tests.running import run_command
from tests.samples import sample
from tests.sources.compressing import compressed

GOOD = [json.dumps(sample(sample_id=number, error=None)).encode() for number in range(8)]
BAD = b'{"nonsense": true}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with one shard of each kind."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.jsonl", [*GOOD, GOOD[0]])
    write(tmp_path / "bad.jsonl", [*GOOD, BAD, BAD])
    write(tmp_path / "empty.jsonl", [])
    (tmp_path / "truncated.jsonl.zst").write_bytes(compressed(Format.ZSTD, GOOD[0])[:-5])
    return tmp_path


run = partial(run_command, "normalize")


def invoke(*arguments: Any) -> Result:
    """Run the command in this process.

    Faster, but without `main`, which turns errors into exit codes.
    """
    return CliRunner().invoke(cli, ["normalize", *map(str, arguments)])


# Exit codes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["good.jsonl"],
            0,
            (
                "9 lines: 8 kept, 1 duplicate, 0 rejected, 0 blank; 0 contradictions, 0 repeats; 1 "
                "part"
            ),
        ),
        (["bad.jsonl"], 1, "10 lines: 8 kept, 0 duplicates, 2 rejected"),
        (
            ["truncated.jsonl.zst", "good.jsonl"],
            3,
            "error: 1 shard could not be read completely; nothing was published",
        ),
        (
            ["truncated.jsonl.zst", "good.jsonl", "--skip-bad-shards"],
            0,
            (
                "\nincomplete: 1 shard could not be read and was skipped:\n  truncated.jsonl.zst: "
                "ends inside"
            ),
        ),
        (["missing.jsonl"], 2, "missing.jsonl: cannot be found"),
        ([], 2, "no input: name files"),
        (["good.jsonl", "--work-dir", "good.jsonl"], 3, "good.jsonl: File exists"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, said: str) -> None:
    """0: done; 1: lines were rejected; 2: the command line is wrong; 3: failed.

    Messages go to stderr.
    """
    done = run(*arguments, "-o", "out")
    assert done.returncode == code
    assert said in done.stderr.decode()
    assert done.stdout == b""
    assert Path("out").exists() is (code < 2)
    assert bool(list(Path().glob(".out*"))) is (code == 3 and "--work-dir" not in arguments)


def test_existing_output_needs_overwrite() -> None:
    """A second run exits 2 and names --overwrite, which then works."""
    assert invoke("good.jsonl", "-o", "out").exit_code == 0
    done = run("good.jsonl", "-o", "out")
    assert done.returncode == 2
    assert b"out exists: give another output, or --overwrite to replace it" in done.stderr
    assert invoke("bad.jsonl", "-o", "out", "--overwrite").exit_code == 1
    audited(Path("out"))


@pytest.mark.parametrize(
    ("most", "code"),
    [
        ("0", 1),
        ("1", 1),
        ("2", 0),
        ("100", 0),
        ("0%", 1),
        ("19.9%", 1),
        ("20%", 0),
        ("100%", 0),
        ("2e0", 0),
    ],
)
def test_max_rejects(most: str, code: int) -> None:
    """Exit 1 only if more lines are rejected than this number or percentage."""
    assert invoke("bad.jsonl", "-o", "out", "--max-rejects", most).exit_code == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-rejects", "many"], "neither a number of lines nor a percentage"),
        (["--max-rejects", "0.5"], "'0.5' is not a whole number of lines: did you mean 0.5%?"),
        (["--max-rejects", "-1"], "neither a number of lines nor a percentage"),
        (["--max-rejects", "nan%"], "neither a number of lines nor a percentage"),
        (["--jobs", "0"], "--jobs"),
        (["--memory", "lots"], "512M, 2GiB"),
        (["--memory", "4"], "memory must be at least 1 MiB: give a unit, as in 4GiB"),
        (["--part-size", "10"], "part_size must be at least 1 KiB"),
        (["--compression", "xz"], "'zst', 'gz', 'none'"),
        (["--level", "99"], "level must be from -7 to 22"),
        (["--sort-by", "model_id,score"], "sort_by must be one of evaluation_name"),
        (["--hash-algorithm", "md5"], "'sha256', 'xxh3_128'"),
        (["--sample-hash", "ignore"], "'replace', 'fill', 'verify'"),
        (["--conflicts", "last"], "'keep', 'first', 'reject'"),
        (["--repeats", "last"], "'keep', 'first', 'reject'"),
        (["--same-run", "drop"], "'keep', 'ignore'"),
        (["--files-from", "missing"], "the list missing cannot be read"),
        (["--over-write"], "--overwrite"),
    ],
)
def test_wrong_options(arguments: list[str], said: str) -> None:
    """Exit 2 with a hint, before anything is read or written."""
    result = invoke("good.jsonl", "-o", "out", *arguments)
    problem = result.output if result.exit_code == 2 else str(result.exception)
    assert result.exit_code == 2 or getattr(result.exception, "exit_code", None) == 2
    assert said in problem
    assert not Path("out").exists()


def test_output_is_required() -> None:
    """Without -o the command line is wrong."""
    assert "--output" in invoke("good.jsonl").output


@pytest.mark.parametrize("jobs", ["3", "7"])
def test_the_least_memory_for_any_number_of_jobs(jobs: str) -> None:
    assert invoke("good.jsonl", "-o", "out", "--memory", "1MiB", "--jobs", jobs).exit_code == 0


@pytest.mark.parametrize(
    ("part_size", "memory"),
    [("4096", "64M"), ("4K", "0.25GiB"), ("4 KiB", "268435456"), ("4kb", "1g"), ("4096B", "1TB")],
)
def test_sizes(part_size: str, memory: str) -> None:
    """Bytes, K, M, G and T, with or without iB, in any case."""
    assert (
        invoke("good.jsonl", "-o", "out", "--part-size", part_size, "--memory", memory).exit_code
        == 0
    )
    assert json.loads(Path("out/manifest.json").read_bytes())["options"]["part_size"] == 4_096


# Output


def test_json_output() -> None:
    """stdout has only the result, as one JSON document; other output goes to stderr."""
    done = run("bad.jsonl", "-o", "out", "--format", "json", "-v")
    report = msgspec.json.decode(done.stdout, type=NormalizeResult)
    assert (report.output, report.parts, report.shards, report.skipped) == ("out", 1, 1, [])
    assert report.summary == msgspec.json.decode(
        Path("out/summary.json").read_bytes(), type=Summary
    )
    assert report.text_bytes == report.input_bytes == Path("bad.jsonl").stat().st_size
    assert done.stderr.startswith(b"10 lines: ")
    assert done.returncode == 1


def test_quiet() -> None:
    """With -q only errors are printed, and why the exit code is 1."""
    done = run("bad.jsonl", "-o", "out", "-q")
    note = b"note: run `fastrec rejects out` to see why lines were rejected\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", note)
    done = run("truncated.jsonl.zst", "-o", "other", "-q")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"error: ")
    done = run("good.jsonl", "-o", "third", "-q", "--format", "json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["output"] == "third"


def test_closing_line() -> None:
    """The line on stderr has line counts, contradictions, repeats, parts, sizes, seconds and speed."""
    write(Path("more.jsonl"), [GOOD[0].replace(b'"error": null', b'"error": "other"'), b""])
    result = invoke("good.jsonl", "more.jsonl", "-o", "out")
    (line,) = result.stderr.splitlines()
    expected = (
        "11 lines: 9 kept, 1 duplicate, 0 rejected, 1 blank; 1 contradiction, 0 repeats; 1 part, "
    )
    assert line.startswith(expected)
    sizes, seconds, speed = line.removeprefix(expected).replace(" in ", ", ").split(", ")
    assert " kB → " in sizes
    assert seconds.endswith(" s")
    assert speed.endswith(" MB/s")


def test_where_the_time_went() -> None:
    """-vv adds a table of phases. Their times add up to the duration of the run."""
    result = invoke("good.jsonl", "-o", "out", "-vv")
    shown = result.stdout[result.stdout.index("Where the time went") :].splitlines()
    assert shown[1].split() == ["phase", "tasks", "time", "processor", "waiting"]
    assert [line.split()[0] for line in shown[2:]] == ["read", "write", "check", "driver"]
    found = json.loads(invoke("good.jsonl", "-o", "out2", "--format", "json").stdout)
    phases = {phase["name"]: phase for phase in found["phases"]}
    assert phases["read and sort"]["tasks"] == phases["write parts"]["tasks"] == 1
    assert sum(phase["seconds"] for phase in phases.values()) == pytest.approx(found["seconds"])
    for phase in phases.values():
        assert phase["cpu_seconds"] + phase["waiting_seconds"] <= phase["seconds"] + 0.01


def test_verbose() -> None:
    """-v prints the best models and three commands: less than a screen."""
    result = invoke("good.jsonl", "-o", "out", "-v")
    assert "Leaderboard of out: 1 model with 1 of 1 evaluation\n" in result.stdout
    assert [word for word in ("model", "org/model", "100.0%") if word not in result.stdout] == []
    commands = re.findall(r"^  \S+ (.*?) +# ", result.stdout, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert CliRunner().invoke(cli, shlex.split(command)).exit_code == 0
    assert result.stdout.count("\n") < 20


def test_record_text_is_escaped() -> None:
    """Text from records is escaped in tables, notices and JSON."""
    for character in ("\x1b[31m", "\x9b31m", "\u202e"):
        write(
            Path("steer.jsonl"),
            [
                json.dumps(
                    sample(model_id=f"m{character}", evaluation_name=f"e{character}")
                ).encode()
            ],
        )
        for option in ("-v", "--format=json"):
            result = invoke("steer.jsonl", "-o", "out", "--overwrite", option)
            assert result.exit_code == 0
            assert character not in result.output
            assert character[0] not in result.output
    assert json.loads(result.stdout)["summary"]["evaluations"][0]["evaluation_name"] == "e\u202e"


@pytest.mark.parametrize("as_json", [False, True])
def test_dry_run(as_json: bool) -> None:
    """It lists the shards and the expected tasks and parts, and writes nothing."""
    before = sorted(Path().iterdir())
    result = invoke(
        "good.jsonl",
        "bad.jsonl",
        "-o",
        "out",
        "--dry-run",
        *(["--format", "json"] if as_json else []),
    )
    assert result.exit_code == 0
    assert sorted(Path().iterdir()) == before
    if as_json:
        plan = json.loads(result.stdout)
        assert (plan["shards"], plan["tasks"], plan["estimated_parts"]) == (2, 1, 1)
        assert plan["paths"] == ["good.jsonl", "bad.jsonl"]
    else:
        assert result.stdout.splitlines()[:2] == ["good.jsonl", "bad.jsonl"]
        assert "2 shards, " in result.stdout
        assert "1 task, about 1 part" in result.stdout


def test_files_from_and_stdin() -> None:
    """--files-from reads more paths from a file, and - reads records from standard input."""
    Path("list").write_text("good.jsonl\n\nempty.jsonl\n")
    done = run("-", "--files-from", "list", "-o", "out", "-j", "1", input=GOOD[0] + b"\n" + BAD)
    assert done.returncode == 1
    corpus = audited(Path("out"))
    assert [entry["path"] for entry in corpus.manifest["inputs"]] == [
        "-",
        "good.jsonl",
        "empty.jsonl",
    ]
    assert (corpus.line_counts["kept"], corpus.line_counts["duplicates"]) == (8, 2)
    assert [(reject["source"], reject["line"]) for reject in corpus.rejects] == [("-", 2)]


def test_size_of_a_stream() -> None:
    """The closing line shows the size of the text, because a stream has no file size."""
    assert f", {len(GOOD[0])} B of text → ".encode() in run("-", "-o", "out", input=GOOD[0]).stderr


def test_options_are_in_the_manifest() -> None:
    """The manifest has the options of the command line."""
    options = ["--sort-by", "model_id, sample_id", "--hash-algorithm", "xxh3_128"]
    options += ["--sample-hash", "fill"]
    options += ["--same-run", "ignore", "--conflicts", "first", "--repeats", "reject"]
    options += ["--compression", "gz", "--level", "1", "--max-line-bytes", "1M"]
    assert invoke("good.jsonl", "-o", "out", *options).exit_code == 0
    manifest = audited(Path("out")).manifest
    assert manifest["sort_fields"] == [
        "model_id",
        "sample_id",
        "evaluation_name",
        "sample_hash",
        "evaluation_id",
    ]
    assert manifest["options"] == {
        "hash": "xxh3_128",
        "sample_hash": "fill",
        "repair": [],
        "same_run": "ignore",
        "conflicts": "first",
        "repeats": "reject",
        "part_size": 64 << 20,
        "compression": "gz",
        "level": 1,
        "max_line_bytes": 1 << 20,
    }


def test_notice_about_rejected_lines() -> None:
    """Exit code 1 comes with a notice about `fastrec rejects`; exit code 0 does not."""
    hint = b"note: run `fastrec rejects out` to see why lines were rejected\n"
    done = run("bad.jsonl", "-o", "out")
    assert done.returncode == 1
    assert done.stderr.endswith(hint)
    done = run("bad.jsonl", "-o", "out", "--overwrite", "--max-rejects", "2")
    assert done.returncode == 0
    assert hint not in done.stderr


# Progress


def on_a_terminal(*arguments: str) -> tuple[int, str]:
    """Run the command with a terminal as stderr; return its exit code and the terminal output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fastrec", "normalize", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, stdin=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                some = os.read(ours, 1 << 16)
            except OSError:  # Linux says so when the other end is closed
                break
            if not some:
                break
            drawn += some
        code = process.wait(60)
    os.close(ours)
    return code, drawn.decode()


def test_progress_on_a_terminal() -> None:
    """Both passes are drawn on one line, which is erased before the closing line."""
    code, drawn = on_a_terminal("bad.jsonl", "-o", "out")
    assert code == 1
    assert "sort " in drawn
    assert "merge " in drawn
    assert "MB/s" in drawn
    *_, last = drawn.rstrip().split("\r\x1b[K")
    assert last.startswith("10 lines: 8 kept")


def test_progress_with_errors_and_quiet() -> None:
    """-q draws nothing on a terminal, and an error message does not mix with the progress line."""
    assert on_a_terminal("good.jsonl", "-o", "out", "-q") == (0, "")
    code, drawn = on_a_terminal("truncated.jsonl.zst", "-o", "other")
    assert code == 3
    *_, last = drawn.rstrip().split("\r\x1b[K")
    assert "could not be read completely" in last.splitlines()[0]


def test_notice_erases_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice replaces the progress line, which is drawn again below it."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    with make_progress("sort", "merge", quiet=False) as line:
        assert line
        line.start("sort", 1)
        print_notice("good to know")
        line.start("merge", 1)
    first, second, third, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("sort ")
    assert second.endswith(" good to know\n")
    assert third.startswith("merge ")
    assert last == ""


def test_no_progress_without_a_terminal() -> None:
    """A log file has the closing line and no control characters."""
    done = run("good.jsonl", "-o", "out")
    assert b"\x1b" not in done.stderr
    assert b"\r" not in done.stderr
    assert done.stderr.count(b"\n") == 1
