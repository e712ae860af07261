"""Bad input to every command: a clear error, the right exit code, and no files left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import fastrec
from fastrec.cli import cli
from tests.check_pairs.trees import Tree
from tests.import_logs.sample_logs import write_all
from tests.running import run_here
from tests.sizes import few_of
from tests.systems import in_terminal, needs_script

COMMANDS = cli.list_commands(click.Context(cli))

# Each command with its arguments, run in the directory of the `place` fixture; {} is replaced by the bad input.
OF_CORPORA = {
    "report": ["report", "{}", "-o", "page.html"],
    "report to stdout": ["report", "{}", "-o", "-"],
    "diff, old": ["diff", "{}", "other"],
    "diff, new": ["diff", "other", "{}"],
    "questions": ["questions", "{}"],
    "show": ["show", "{}", "0"],
    "compare": ["compare", "{}", "org-0/*", "org-1/*"],
    "trend": ["trend", "other", "{}"],
    "cat": ["cat", "{}"],
    "export": ["export", "{}", "-o", "tables", "--format", "csv"],
    "verify": ["verify", "{}"],
    "rejects": ["rejects", "{}"],
    "rejects --extract": ["rejects", "{}", "--extract", "mend.jsonl"],
}
OF_SHARDS = {
    "normalize": ["normalize", "{}", "-o", "new"],
    "stats": ["stats", "{}", "--common"],
    "validate": ["validate", "{}"],
}
OTHERS = {
    "check-pairs": ["check-pairs", "pairs"],
    "clean": ["clean", "{}"],
    "import": ["import", "logs", "-o", "records"],
    "schema": ["schema"],
    "generate": ["generate", "-n", "5", "-o", "generated"],
    "completion": ["completion", "bash"],
}
WORKING = OF_CORPORA | OF_SHARDS | OTHERS
SERVING = {"view": ["view", "{}", "--no-browser"]}  # with good input, it runs until it is interrupted
READING = OF_CORPORA | SERVING


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards, a corpus with rejected lines, and another corpus; read-only."""
    place = tmp_path_factory.mktemp("made")
    fastrec.generate(place / "shards", records=60, seed=3, rejects=0.1, shards=2)
    fastrec.generate(place / "more", records=60, seed=4, shards=2)
    fastrec.normalize(place / "shards", place / "corpus")
    fastrec.normalize(place / "more", place / "other")
    Tree(place / "pairs").add()
    write_all(place / "logs")
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in, with an empty directory, a file, and damaged files."""
    here = Path(shutil.copytree(made, tmp_path / "here"))
    monkeypatch.chdir(here)
    for name in list(os.environ):
        if name.startswith("FASTREC_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FASTREC_CACHE", str(tmp_path / "cache"))  # else the index of a good copy would serve
    (here / "empty").mkdir()
    (here / "a-file").write_text("text\n")
    shutil.copytree("corpus", "damaged")
    for name in ("part-00000.jsonl.zst", "rejects.jsonl.zst"):
        spoil(here / "damaged" / name)
    shutil.copytree("shards", "damaged-shards")
    spoil(here / "damaged-shards" / "shard-00001.jsonl.zst")
    return here


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


def run(arguments: list[str], bad: str = "corpus", **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command, in a new process if there are options for it."""
    words = [argument.format(bad) for argument in arguments]
    if options:
        command = [sys.executable, "-m", "fastrec", *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(command, stdin=subprocess.DEVNULL, text=True, timeout=60, check=False, **options)
    done = run_here(*words)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


def all_files() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


def assert_refused(arguments: list[str], bad: str, code: int, *said: str) -> None:
    """Check for one error message, the exit code, an empty stdout, and unchanged files."""
    before = all_files()
    done = run(arguments, bad)
    assert done.returncode == code, done.stderr
    assert len(re.findall("^error: ", done.stderr, flags=re.MULTILINE)) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for words in said:
        assert words in done.stderr
    assert done.stdout == ""
    assert all_files() == before


def test_all_commands_are_covered() -> None:
    """The tables in this file list every command."""
    assert {arguments[0] for arguments in (WORKING | SERVING).values()} == set(COMMANDS)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", WORKING)
def test_good_input_works(command: str) -> None:
    """Each command succeeds with good input, so the tests below fail only for the reason they test."""
    good = "more" if command in OF_SHARDS else "corpus"
    assert run(WORKING[command], good).returncode == 0


# Missing files, and files of another kind


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("missing", "there is no such directory"),
        ("empty", "it holds no manifest.json"),
        ("shards", "it holds no manifest.json"),
        ("a-file", "it is a file"),
    ],
)
@pytest.mark.parametrize("command", READING)
def test_not_a_corpus(command: str, bad: str, why: str) -> None:
    """The error says why the path is not a corpus, and how to make one."""
    assert_refused(READING[command], bad, 2, f"error: {bad} is not a corpus: {why}\n", "`fastrec normalize SHARDS -o")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("missing", "missing: cannot be found: No such file or directory"),
        ("empty", "empty: the directory has no *.jsonl* files"),
        ("missing/*.zst", "missing/*.zst: no such file, and no file matches it as a glob"),
    ],
)
@pytest.mark.parametrize("command", OF_SHARDS)
def test_not_a_shard(command: str, bad: str, why: str) -> None:
    """The error names the wrong path, and says what is searched for."""
    assert_refused(OF_SHARDS[command], bad, 2, "error: some input cannot be used:\n", why, "Check the names.")


# Damaged files


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [name for name in READING if name != "verify"])
def test_damaged_part(command: str) -> None:
    """The error names the corrupt file and points to `fastrec verify`."""
    file = "rejects" if command.startswith(("rejects", "report")) else "part-00000"
    said = f"error: damaged/{file}.jsonl.zst: zstd frame is corrupt", "`fastrec verify damaged` lists all problems"
    assert_refused(READING[command], "damaged", 3, *said)


@pytest.mark.usefixtures("place")
def test_verify_finds_damaged_part() -> None:
    """`verify` reports problems on stdout and exits 1."""
    done = run(["verify", "damaged"])
    assert done.returncode == 1
    assert "part-00000.jsonl.zst: zstd frame is corrupt" in done.stdout
    assert "damaged: " in done.stdout


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", ["normalize", "stats"])
def test_damaged_shard(command: str) -> None:
    """The error names the corrupt shard. Nothing is published; finished work stays for the next run."""
    before = all_files()
    done = run(OF_SHARDS[command], "damaged-shards")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "error: 1 shard could not be read " in done.stderr
    assert "damaged-shards/shard-00001.jsonl.zst: zstd frame is corrupt" in done.stderr
    assert "Download them again" in done.stderr
    kept = {path.split("/")[0] for path in all_files() - before}
    assert kept <= {".new.fastrec-work", ".new.fastrec-new"}
    assert ".new.fastrec-work: the same command resumes from there" in done.stderr or not kept


@pytest.mark.usefixtures("place")
def test_validate_damaged_shard() -> None:
    """`validate` still reports on the other shards."""
    done = run(["validate", "damaged-shards"])
    assert done.returncode == 3
    assert "error: damaged-shards/shard-00001.jsonl.zst: zstd frame is corrupt" in done.stderr
    assert "not valid: 30 lines" in done.stdout
    assert "1 of 2 shards unreadable" in done.stdout


# A wrong command line


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_option(command: str) -> None:
    """An unknown option is answered with the usage and a pointer to the help."""
    usage = f"Usage: python -m fastrec {command} ", f"Try 'python -m fastrec {command} --help' for help."
    assert_refused([command, "--no-such-option"], "", 2, *usage, "error: No such option '--no-such-option'")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["normalize", "shards", "-o", "new", "--level", "high"], "'--level': 'high' is not a valid integer"),
        (["normalize", "shards", "-o", "new", "--max-rejects", "few"], "'few' is neither a number of lines nor"),
        (["normalize", "shards", "-o", "corpus"], "corpus exists: give another output, or --overwrite"),
        (["normalize", "shards", "-o", "a-file", "--overwrite"], "a-file is not a directory"),
        (["normalize", "shards", "-o", "shards/new"], "the output shards/new lies in the input shards"),
        (["normalize", "shards"], "Missing option '-o' / '--output'"),
        (["stats", "corpus", "--by", "beauty"], "'beauty' is not one of 'accuracy', 'score'"),
        (["report", "corpus", "-o", "a-file"], "a-file exists; choose another file, or add --overwrite"),
        (["diff", "corpus", "other", "--by", "colour"], "by 'colour'; the fields are evaluation_name,"),
        (["diff", "corpus"], "Missing argument 'NEW'"),
        (["questions", "corpus", "--sort", "colour"], "'colour' is not one of 'hardest', 'disagreement'"),
        (["questions", "corpus", "--split", "org-0/*", "no"], "no model matches 'no'; available: org-0/"),
        (["show", "corpus"], "Missing argument 'QUESTION'"),
        (["show", "corpus", "no"], "no question of this corpus has the sample_id 'no', or a sample_hash that begins"),
        (["compare", "corpus", "org-0/*"], "Missing argument 'B'"),
        (["compare", "corpus", "org-0/*", "org-*"], "'org-*' matches"),
        (["cat", "corpus", "--limit", "none"], "'--limit': 'none' is not a valid integer"),
        (["export", "corpus", "-o", "tables", "--format", "xls"], "'xls' is not one of 'parquet', 'csv', 'matrix'"),
        (["export", "corpus", "-o", "shards", "--format", "csv", "--overwrite"], "holds something else than an export"),
        (["verify", "corpus", "--jobs", "0"], "'--jobs'"),
        (["verify"], "Missing argument 'CORPUS'"),
        (["view", "corpus", "--port", "http"], "'--port': 'http' is not a valid integer"),
        (["rejects", "corpus", "--code", "bad"], "there is no code 'bad'; the codes are line.too_long"),
        (["rejects", "corpus", "--extract", "a-file"], "a-file exists; choose a new file"),
        (["validate", "shards", "--format", "xml"], "'xml' is not one of 'text', 'json', 'github'"),
        (["check-pairs"], "Missing argument 'DIR...'"),
        (["check-pairs", "missing"], "missing: there is no such directory"),
        (["check-pairs", "a-file"], "a-file: is a file: name its directory"),
        (["check-pairs", "empty"], "empty: the directory has no *.json and no *_samples.jsonl* files"),
        (["schema", "corpus"], "there is no schema version 'corpus'; the versions are 0.2.0"),
        (["generate", "-o", "shards"], "shards is not empty, and its files would mix with the new shards; choose"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_value(arguments: list[str], said: str) -> None:
    """The error says which values are allowed."""
    assert_refused(arguments, "", 2, said)


# Pipes and terminals


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [*few_of(WORKING, 8, "test_closed_pipe"), "--help", "--version", "cat --help"])
def test_closed_pipe(command: str) -> None:
    """A closed pipe prints no error and does not change the exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        good = "more" if command in OF_SHARDS else "corpus"
        done = run(WORKING.get(command, command.split()), good, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert not re.search("error|Errno|Broken|Traceback", done.stderr)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", WORKING)
def test_no_terminal(command: str) -> None:
    """Files and pipes get no colours and no progress."""
    good = "more" if command in OF_SHARDS else "corpus"
    done = run(WORKING[command], good)
    printed = done.stderr + ("" if command in ("report to stdout", "completion") else done.stdout)
    assert not re.search(r"[\x1b\r]", printed)


@pytest.mark.usefixtures("place")
@needs_script
@pytest.mark.parametrize("command", ["normalize", "stats", "validate"])
def test_stdin_is_a_terminal(command: str) -> None:
    """With `-` at a terminal, a notice says that the command waits for input; Ctrl-D ends it."""
    arguments = " ".join(argument.format("-") for argument in OF_SHARDS[command])
    line = f"{sys.executable} -m fastrec {arguments}"
    done = subprocess.run(in_terminal(line), input=b"\x04", capture_output=True, timeout=60, check=False)
    assert done.returncode == (command == "stats")  # nothing has no statistics
    assert b"reading from this terminal: type or paste lines, and end with Ctrl-D" in done.stdout


# Missing optional dependencies

WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
sys.argv[0] = "fastrec"
from fastrec.cli import main
main()
"""


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("missing", "arguments", "said"),
    [
        (
            "pyarrow",
            "export corpus -o tables",
            "Parquet needs pyarrow, which is not installed: pip install pyarrow",
        ),
        (
            "starlette,uvicorn",
            "view corpus",
            "view needs starlette and uvicorn, which are not installed: pip install starlette uvicorn",
        ),
        (
            "distributed",
            "normalize shards -o new --engine dask",
            "--engine dask needs distributed, which is not installed: pip install distributed",
        ),
    ],
)
def test_missing_extra(missing: str, arguments: str, said: str) -> None:
    """The error names the missing package and the command that installs it."""
    before = all_files()
    command = [sys.executable, "-c", WITHOUT, missing, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}\n")
    assert all_files() == before


@pytest.mark.usefixtures("place")
def test_other_broken_pipe() -> None:
    """A broken pipe that is not stdout is reported as an error."""
    script = (
        "import sys; from fastrec.normalize import run as module\n"
        "def run(*_, **__): raise BrokenPipeError(32, 'Broken pipe')\n"
        "module.run = run; sys.argv[0] = 'fastrec'\n"
        "from fastrec.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "normalize", "shards", "-o", "new"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, "error: a pipe: Broken pipe\n")
