"""The command line: exit codes, stdout and stderr, and escaping of output."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import fastrec
from fastrec.cli import cli
from fastrec.cli.console import safe
from fastrec.cli.options import parse_size
from fastrec.commands.validate import Validation
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS, TARGETS
from fastrec.sources.formats import Format
from tests.running import run_command, run_here
from tests.samples import sample
from tests.sources.compressing import compressed
from tests.systems import needs_dev_full

GOOD = json.dumps(sample()).encode().replace(b'"sample_hash": "00ff", ', b"")
WARNED = json.dumps(sample()).encode()
BAD = b'{"nonsense": true}'
LINES = {"good": [GOOD], "warned": [GOOD, WARNED], "bad": [GOOD, BAD, BAD], "empty": []}

# Characters that control a terminal: an ANSI sequence, a C1 control (CSI), a right-to-left
# override.
STEERING = "\x1b[31m", "\x9b31m", "\u202e"


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with one shard of each kind."""
    monkeypatch.chdir(tmp_path)
    for name, lines in LINES.items():
        write(tmp_path / f"{name}.jsonl", lines)
    (tmp_path / "truncated.jsonl.zst").write_bytes(compressed(Format.ZSTD, GOOD)[:-5])
    return tmp_path


def run(
    *arguments: Any, stdin: bytes = b"", cwd: Path | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the command, in a new process if there are options for it, and check that it prints no
    traceback.
    """
    return (
        run_command(*arguments, **options)
        if options
        else run_here(*arguments, stdin=stdin, cwd=cwd)
    )


def invoke(*arguments: Any, **options: Any) -> Result:
    """Run the command in this process.

    Faster, but without `main`, which turns errors into exit codes.
    """
    return CliRunner().invoke(cli, list(map(str, arguments)), **options)


# Exit codes


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["good.jsonl"], 0),
        (["empty.jsonl"], 0),
        (["warned.jsonl"], 0),
        (["warned.jsonl", "--strict"], 1),
        (["good.jsonl", "--strict"], 0),
        (["bad.jsonl"], 1),
        (["good.jsonl", "bad.jsonl"], 1),
        (["truncated.jsonl.zst"], 3),
        (["bad.jsonl", "truncated.jsonl.zst"], 3),
        (["."], 3),
    ],
)
def test_validate_exit_codes(arguments: list[str], code: int) -> None:
    """0: all valid; 1: invalid lines (or warnings, if strict).

    3: a shard could not be read completely.
    """
    assert invoke("validate", *arguments).exit_code == code


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["validate", "good.jsonl"], 0, ""),
        (["validate", "bad.jsonl"], 1, ""),
        (
            ["validate", "truncated.jsonl.zst"],
            3,
            "error: truncated.jsonl.zst: ends inside the zstd frame",
        ),
        (["validate", "missing.jsonl"], 2, "missing.jsonl: cannot be found"),
        (["validate"], 2, "no input: name files"),
        (["validate", "good.jsonl", "--max-eror", "3"], 2, "--max-errors"),
        (["validate", "good.jsonl", "--format", "xml"], 2, "'text', 'json', 'github'"),
        (["validate", "good.jsonl", "--jobs", "0"], 2, "--jobs"),
        (["validate", "good.jsonl", "--max-errors", "0"], 2, "--max-errors"),
        (["validate", "good.jsonl", "--max-line-bytes", "1 parsec"], 2, "512M, 2GiB"),
        (
            ["validate", "good.jsonl", "--json-log", "missing/log"],
            3,
            "the log missing/log cannot be written: No such",
        ),
        pytest.param(
            ["validate", "bad.jsonl", "--json-log", "/dev/full"],
            3,
            "the log /dev/full cannot be written: No space",
            marks=needs_dev_full,
        ),
        (["validate", "good.jsonl", "--json-log", "good.jsonl"], 2, "is one of the shards"),
        (["validate", "good.jsonl", "--json-log", "."], 2, "is a directory"),
        (["validate", "--files-from", "missing"], 2, "the list missing cannot be read"),
        (["validat", "good.jsonl"], 2, "validate"),
        (["--nonsense"], 2, "No such option"),
        ([], 2, "Make:"),
        (["generate", "-n", "1"], 2, "--output"),
        (["generate", "-n", "1", "-o", "."], 2, "is not empty"),
        (["generate", "-n", "1", "-o", "good.jsonl"], 2, "good.jsonl is not a directory"),
        (["generate", "-n", "1", "-o", "good.jsonl/x"], 3, "good.jsonl/x: "),
        (["generate", "-n", "1", "-o", "out", "--rejects", "1.5"], 2, "--rejects"),
        (
            ["generate", "-n", "1", "-o", "out", "--rejects", "0.7", "--blanks", "0.7"],
            2,
            "add up to more than 1",
        ),
        (["generate", "-n", "1", "-o", "out", "--seed", "-1"], 2, "-1 is not in the range"),
    ],
)
def test_errors_have_a_message_and_an_exit_code(arguments: list[str], code: int, said: str) -> None:
    """2: the command line is wrong; 3: failed. The message is on stderr."""
    done = run(*arguments)
    assert done.returncode == code
    assert said in done.stderr.decode()
    if code == 0:
        assert done.stderr == b""
    if code >= 2 and "validate" in arguments and "truncated.jsonl.zst" not in arguments:
        assert done.stdout == b""


def test_disk_error_names_the_file(tmp_path: Path) -> None:
    """An unexpected OSError is reported with its file, and exit code 3."""
    locked = tmp_path / "file"
    locked.write_bytes(b"")
    done = run("generate", "-n", "1", "-o", locked / "below")
    assert done.returncode == 3
    assert done.stderr.decode() == f"error: {locked / 'below'}: Not a directory\n"


# Output


def test_text_output_groups_findings(corpus: Path) -> None:
    """Equal findings are one entry with a count and the first locations.

    The last line is the verdict.
    """
    write(corpus / "more.jsonl", [BAD] * 5 + [WARNED, b""])
    done = run("validate", "bad.jsonl", "more.jsonl")
    lines = done.stdout.decode().splitlines()
    at = lines.index("    $.model_id: the required field is missing")
    assert lines[at - 1] == "error schema.required  7 ×, judged as 0.3.0"
    assert lines[at + 1] == "    bad.jsonl:2, bad.jsonl:3, more.jsonl:1, …"
    assert "warning warn.sample_hash  1 ×" in lines
    verdict = lines[-1]
    assert verdict.startswith(
        "not valid: 10 lines, 2 valid, 7 invalid, 1 warning, 1 blank, schema 0.2.0 ("
    )
    assert verdict.endswith(" MB/s)")
    assert done.stderr == b""


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (["good.jsonl"], "valid: 1 line, 1 valid, 0 invalid, 0 warnings, schema 0.2.0 (", "MB/s)"),
        (
            ["warned.jsonl"],
            "valid: 2 lines, 2 valid, 0 invalid, 1 warning, schema 0.2.0 (",
            "MB/s)",
        ),
        (
            ["warned.jsonl", "--strict"],
            "not valid: 2 lines, 2 valid, 0 invalid, 1 warning, schema 0.2.0 (",
            "MB/s)",
        ),
        (["good.jsonl", "truncated.jsonl.zst"], "not valid: 1 line, 1 valid", "MB/s)"),
        (
            ["bad.jsonl", "--max-errors", "1"],
            "not valid: 3 lines",
            "MB/s); stopped at --max-errors",
        ),
    ],
)
def test_verdict_matches_exit_code(arguments: list[str], start: str, end: str) -> None:
    """The verdict line says `valid` exactly if the exit code is 0."""
    for output_format in ("text", "github"):
        done = invoke("validate", *arguments, "--format", output_format)
        verdict = done.stdout.splitlines()[-1]
        assert verdict.startswith(start)
        assert verdict.endswith(end)
        assert verdict.startswith("valid") is (done.exit_code == 0)


def test_json_output_equals_the_result(corpus: Path) -> None:
    """`--format json` prints the result of the Python function as one document.

    Notices go to stderr.
    """
    (corpus / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD)
    names = ["bad.jsonl", "warned.jsonl", "bom.jsonl", "truncated.jsonl.zst", "bad.jsonl"]
    done = run("validate", *names, "--format", "json")
    assert done.returncode == 3
    found = msgspec.json.decode(done.stdout, type=Validation)
    expected = fastrec.validate(names)
    found.seconds = expected.seconds
    assert found == expected
    notes = done.stderr.decode().splitlines()
    assert "note: bad.jsonl is given more than once: counted once" in notes
    assert "note: bom.jsonl begins with a byte order mark, which was skipped" in notes
    assert notes[-1].startswith("error: truncated.jsonl.zst: ends inside")
    assert len(notes) == 3


def test_github_annotations_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters with a meaning in a workflow command are escaped, in messages and in file names."""
    name = "50%, a:b\n::error::x.jsonl"
    line = json.dumps(sample(interaction_type="100%\n::warning::y")).encode()
    write(tmp_path / name, [GOOD, line, line])
    monkeypatch.chdir(tmp_path)
    done = invoke("validate", ".", "--format", "github")
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert annotations[0].startswith(
        "::error file=./50%25%2C "
        "a%3Ab%0A%3A%3Aerror%3A%3Ax.jsonl,line=2,title=schema.enum::$.interaction_type: "
    )
    assert r"100%25\n::warning::y" in annotations[0]
    assert annotations[0].endswith("[schema.enum] (and 1 more)")
    assert all(line.startswith(("::error file=", "::warning file=")) for line in annotations)


@pytest.mark.usefixtures("corpus")
def test_the_log_lists_every_finding() -> None:
    """`--json-log` writes one JSON object for each finding."""
    invoke("validate", "bad.jsonl", "warned.jsonl", "--json-log", "log")
    log = [json.loads(line) for line in Path("log").read_bytes().splitlines()]
    assert {(entry["source"], entry["line"]) for entry in log} == {
        ("bad.jsonl", 2),
        ("bad.jsonl", 3),
        ("warned.jsonl", 2),
    }
    assert {entry["severity"] for entry in log} == {"error", "warning"}


# Input


def test_standard_input_is_a_shard() -> None:
    """`-` reads standard input, plain or compressed."""
    for data in (GOOD + b"\n" + BAD, compressed(Format.GZIP, GOOD + b"\n" + BAD)):
        done = run("validate", "-", "--jobs", "2", stdin=data)
        assert done.returncode == 1
        assert b"    -:2\n" in done.stdout
        assert b"not valid: 2 lines, 1 valid, 1 invalid" in done.stdout


def test_files_from(corpus: Path) -> None:
    """`--files-from` adds the paths of a file, or of standard input."""
    (corpus / "list").write_text("good.jsonl\n\nbad.jsonl\n")
    assert "4 lines" in invoke("validate", "--files-from", "list").stdout
    assert "6 lines" in invoke("validate", "warned.jsonl", "--files-from", "list").stdout
    assert (
        "4 lines"
        in run("validate", "--files-from", "-", stdin=b"good.jsonl\nbad.jsonl").stdout.decode()
    )


@pytest.mark.each_value
@pytest.mark.parametrize("output_format", ["text", "json", "github"])
@pytest.mark.parametrize(
    "name",
    [
        b"with space",
        b"new\nline",
        b"\xff\xfe",
        b"\x1b[31mred",
        b"\xc2\x9b31m",
        "\u202egnp".encode(),
        b"-dash",
    ],
)
def test_any_file_name_works(tmp_path: Path, name: bytes, output_format: str) -> None:
    """File names with spaces, line breaks, non-UTF-8 bytes and escape sequences work, and are
    printed escaped.
    """
    stem = os.fsdecode(name)
    for suffix, data in [
        (".jsonl", BAD),
        (".jsonl.gz", b"\xef\xbb\xbf" + GOOD),  # two notices: not gzip, and the byte order mark
        ("2.jsonl.zst", compressed(Format.ZSTD, GOOD)[:-5]),
    ]:
        (tmp_path / f"{stem}{suffix}").write_bytes(data)
    names = [f"./{path.name}" for path in sorted(tmp_path.iterdir())]
    done = run("validate", *names, "--format", output_format, cwd=tmp_path)
    assert done.returncode == 3
    assert_escaped(done.stdout + done.stderr)
    assert done.stderr.count(b"note: ") == 2
    assert done.stderr.count(b"error: ") == 1
    missing = run("validate", f"{stem}-missing", "--max-errors", "3", cwd=tmp_path)
    assert missing.returncode == 2
    assert_escaped(missing.stderr)


def assert_escaped(output: bytes) -> None:
    """Check that there are no control characters except newlines, and none that reorder text."""
    text = output.decode()  # so it is UTF-8
    assert safe(text.replace("\n", "")) == text.replace("\n", "")


@pytest.mark.each_value
@pytest.mark.parametrize("output_format", ["text", "json", "github"])
@pytest.mark.parametrize("steering", STEERING)
def test_record_text_is_escaped(tmp_path: Path, steering: str, output_format: str) -> None:
    """Escape sequences in values and keys are printed escaped."""
    lines = [
        json.dumps(sample(**changes), ensure_ascii=ascii_).encode()
        for ascii_ in (True, False)
        for changes in [
            {"interaction_type": steering},
            {"interaction_type": f"\u2066{steering}\ufeff"},
            {"input": {"raw": "", "reference": "", "choices": [steering, 7]}},
            {"zz": {f"x{steering}": "@"}},
        ]
    ]
    lines = [line.replace(b'"@"', b"NaN") for line in lines]
    write(tmp_path / "a.jsonl", [*lines, steering.encode()])
    done = run("validate", tmp_path, "--format", output_format, "--jobs", "1")
    assert done.returncode == 1
    assert_escaped(done.stdout + done.stderr)
    if output_format == "json":
        messages = [group["message"] for group in json.loads(done.stdout)["groups"]]
        assert any(steering.lstrip("\x1b") in message for message in messages)


@pytest.mark.parametrize(
    "argument", ["--\x1b[31mred", "--max-errors=\x1b[31m", "--format=\x9b31m", "--\udcff"]
)
def test_argument_text_is_escaped(argument: str) -> None:
    """Errors about the command line print its arguments escaped."""
    done = run("validate", argument)
    assert done.returncode == 2
    assert_escaped(done.stderr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain × text …", "plain × text …"),
        ("\x1b[31m\n\t\x00", r"\x1b[31m\n\t\x00"),
        ("\x9b\x7f\x85", r"\x9b\x7f\x85"),
        (
            "\u202e\u2066\u200b\u2028\u061c\ufeff\U000e0041",
            r"\u202e\u2066\u200b\u2028\u061c\ufeff\U000e0041",
        ),
        ("\udcff", r"\udcff"),
    ],
)
def test_safe(text: str, expected: str) -> None:
    """Only characters that control, reorder or hide text are escaped."""
    assert safe(text) == expected


def test_unsupported_characters_are_escaped(corpus: Path) -> None:
    """A stream in an old encoding gets escapes instead of a traceback."""
    write(corpus / "bad.jsonl", [BAD] * 9)
    done = run("validate", "bad.jsonl", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 1
    assert rb"bad.jsonl:3, \u2026" in done.stdout


# Sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("512M", 512 << 20),
        ("2GiB", 2 << 30),
        ("2gib", 2 << 30),
        ("1.5K", 1536),
        ("3 MB", 3 << 20),
        ("7B", 7),
        ("1T", 1 << 40),
        ("0", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """K, M, G and T are powers of 1,024, with or without iB."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "M", "-5", "1e9", "5 parsecs", "1,000", "0x10", "1..5K", "9" * 5000, "½K", "5MiBs"]
)
def test_wrong_sizes(tmp_path: Path, text: str) -> None:
    """A wrong size is a usage error that shows correct sizes."""
    done = invoke("validate", tmp_path, f"--max-line-bytes={text}")
    assert done.exit_code == 2
    assert "use a number of bytes, or a unit: 512M, 2GiB" in done.stderr


@pytest.mark.usefixtures("corpus")
def test_max_line_bytes() -> None:
    """A line over `--max-line-bytes` is invalid."""
    assert "line.too_long" in invoke("validate", "good.jsonl", "--max-line-bytes", "0.5K").stdout
    assert invoke("validate", "good.jsonl", "--max-line-bytes", "4K").exit_code == 0


# Broken pipes and signals


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("validate good.jsonl bad.jsonl", 1),
        ("validate many.jsonl", 1),
        ("validate good.jsonl --format json", 0),
        ("schema", 0),
    ],
)
@pytest.mark.parametrize("both", ["", "2>&1"])
def test_closed_pipe(corpus: Path, command: str, code: int, both: str) -> None:
    """A closed pipe prints no error and does not change the exit code."""
    write(
        corpus / "many.jsonl",
        [json.dumps(sample(model_id=number)).encode() for number in range(999)],
    )
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fastrec", *command.split()],
            stdout=writer,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == code
    assert not done.stderr


def test_pipe_to_head(corpus: Path) -> None:
    """`fastrec validate … | head -1` prints one line and no error."""
    many = [
        json.dumps(sample(metadata={f"k{number:03}": float("nan")})).encode()
        for number in range(999)
    ]
    write(corpus / "many.jsonl", many)
    done = subprocess.run(
        f"{sys.executable} -m fastrec validate many.jsonl --format github | head -1",
        shell=True,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(
        b"::error file=many.jsonl,line=1,title=json.number::$.metadata.k000: expected"
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "error: interrupted"), (signal.SIGTERM, 143, "error: terminated")],
)
def test_signals(tmp_path: Path, number: int, code: int, said: str) -> None:
    """Exit 130 if interrupted, 143 if terminated; no traceback and no temporary files."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "fastrec", "validate", "-", "--json-log", tmp_path / "log"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    deadline = time.monotonic() + 30
    while (
        not (tmp_path / "log").exists() and time.monotonic() < deadline
    ):  # then it waits for input
        time.sleep(0.01)
    process.send_signal(number)
    try:
        process.wait(10)  # its input is still open: only the signal can end it
    except (
        subprocess.TimeoutExpired
    ):  # it came just before `read` began to wait, where Python cannot see it
        process.send_signal(number)
    assert process.wait(30) == code
    output, errors = process.communicate()
    assert output == b""
    assert errors.decode().strip() == said
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["fastrec.cli", "click"])
def test_an_interrupt_during_imports(name: str) -> None:
    """Ctrl-C in the first tenths of a second, while the program imports its modules: exit 130, and
    no traceback.
    """
    project = tomllib.loads((Path(fastrec.__file__).parents[1] / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["fastrec"].partition(":")
    code = f"""
import os, signal, sys

class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == "{name}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
sys.argv = ["fastrec", "--version"]
from {module} import {function}
{function}()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("command", "closed", "code", "said"),
    [
        ("normalize good.jsonl -o out", "2>&-", 0, b""),
        ("normalize bad.jsonl -o out --quiet", ">&- 2>&-", 1, b""),
        ("normalize good.jsonl -o out", "<&- >&- 2>&-", 0, b""),
        ("validate bad.jsonl", "2>&-", 1, b""),
        ("validate good.jsonl", ">&-", 3, b"error: standard output: Bad file descriptor\n"),
        ("--version", ">&-", 3, b"error: standard output: Bad file descriptor\n"),
        ("schema", ">&- 2>&-", 3, b""),
        ("validate -", "<&- 2>&1 >/dev/null", 3, b"error: -: cannot be read: Bad file descriptor"),
    ],
)
def test_closed_streams(command: str, closed: str, code: int, said: bytes) -> None:
    """A command that needs no output works without it.

    A result that cannot be printed is an error.
    """
    line = f"exec {sys.executable} -m fastrec {command} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, check=False)
    assert done.returncode == code
    messages = done.stdout if "2>&1" in closed else done.stderr
    assert messages.startswith(said)
    assert bool(messages) is bool(said)
    if "-o out" in command:
        assert fastrec.verify("out").ok


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_is_not_lost_if_a_library_drops_its_exception(name: str, code: int) -> None:
    """msgspec drops every exception that is raised while it builds a decoder.

    The command must end all the same.
    """
    script = f"""
import signal, sys, time
import click
import fastrec.cli

@click.command()
def drop():
    try:
        signal.raise_signal(signal.{name})
        time.sleep(0)
    except BaseException:
        pass
    try:
        time.sleep(20)  # the exception comes again, and is dropped again
    except BaseException:
        pass
    time.sleep(20)
    print("still there")

fastrec.cli.cli = drop
sys.argv = ["fastrec"]
fastrec.cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (code, b""), done.stderr.decode()
    assert done.stderr.decode().strip() in ("error: interrupted", "error: terminated")


# Other commands


def test_no_arguments_print_the_help() -> None:
    """Without arguments the help is printed, without an error message."""
    done = run()
    assert b"error:" not in done.stderr
    assert (done.stdout + done.stderr).strip() == run("--help").stdout.strip()


def test_choices_are_listed_line_by_line() -> None:
    """The list of choices is indented with spaces, because a tab would be escaped."""
    assert run("completion").stderr.endswith(b"Choose from:\n  bash,\n  zsh,\n  fish\n")


def test_schema() -> None:
    """`fastrec schema` prints the schema file byte for byte."""
    assert run("schema").stdout == DEFAULT_SCHEMA.source


@pytest.mark.parametrize("version", SCHEMAS)
def test_schema_of_a_version(version: str) -> None:
    """`fastrec schema VERSION` prints the schema file of that version."""
    assert run("schema", version).stdout == SCHEMAS[version].source


def test_schema_list_has_every_version() -> None:
    """`fastrec schema --list` has the names, meanings and labels of versions, and which of them a
    corpus can have.
    """
    lines = run("schema", "--list").stdout.decode().splitlines()
    assert lines[::4] == list(SCHEMAS)
    assert [line.strip() for line in lines[1::4]] == [schema.about for schema in SCHEMAS.values()]
    assert [set(line.split(": ")[1].split(", ")) for line in lines[2::4]] == [
        one.labels for one in SCHEMAS.values()
    ]
    assert [line.startswith("    corpus: yes") for line in lines[3::4]] == [
        name in TARGETS for name in SCHEMAS
    ]


def test_schema_of_an_unknown_version() -> None:
    """The error lists the versions."""
    done = run("schema", "0.9")
    assert done.returncode == 2
    assert (
        b"there is no schema version '0.9'; the versions are 0.2.0, 0.2.0-released, 0.2.1, 0.3.0"
        in done.stderr
    )


def test_generated_shards_validate(tmp_path: Path) -> None:
    """`validate` finds what `generate` was told to make.

    A second `generate` refuses the directory.
    """
    out = tmp_path / "corpus"
    made = run(
        "generate", "-n", "50", "--seed", "3", "-o", out, "--shards", "3", "--compression", "mixed"
    )
    assert (made.returncode, made.stdout) == (0, b"")
    assert made.stderr.startswith(b"50 lines in 3 shards: ")
    assert sorted(path.name for path in out.iterdir()) == [
        "shard-00000.jsonl",
        "shard-00001.jsonl.zst",
        "shard-00002.jsonl.gz",
    ]
    checked = invoke("validate", out)
    assert checked.exit_code == 0
    assert "valid: 50 lines, 50 valid" in checked.stdout
    again = run("generate", "-n", "50", "-o", out)
    assert again.returncode == 2
    assert b"is not empty" in again.stderr


@pytest.mark.parametrize(
    "arguments",
    [["-h"], ["validate", "-h"], ["diff", "-h"], ["generate", "--help"], ["schema", "--help"]],
)
def test_help_fits_100_columns(arguments: list[str]) -> None:
    """Help fits into 100 columns and goes to stdout."""
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("arguments", [("stats",), ("sql", "select 'é 💥' as text")])
def test_json_is_utf_8_in_every_locale(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Other characters would become escapes that JSON does not have."""
    shard = write(tmp_path / "in.jsonl", [json.dumps(sample(model_id="é 💥")).encode()])
    run_here("normalize", shard, "-o", tmp_path / "out")
    command, *others = arguments
    done = run_command(
        command,
        tmp_path / "out",
        *others,
        "--format",
        "json",
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    json.loads(done.stdout.decode())
    assert "é 💥".encode() in done.stdout


def test_tables_of_sql_may_be_cut_by_head() -> None:
    """`head` closes the pipe early."""
    command = f"{shlex.quote(sys.executable)} -m fastrec sql --tables | head -n 1"
    for _ in range(3):
        done = subprocess.run(command, shell=True, check=False, capture_output=True)
        assert not done.stderr
