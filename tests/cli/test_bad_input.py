"""Bad input to every command: a clear error, the right exit code, and no files left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click
import pytest

import fastrec
from fastrec.cli import cli
from fastrec.errors import UsageError
from tests.check_pairs.trees import Tree
from tests.import_logs.sample_logs import write_all
from tests.running import run_here
from tests.samples import sample, sample_of
from tests.sizes import few_of
from tests.systems import in_terminal, needs_script

COMMANDS = cli.list_commands(click.Context(cli))

# Each command with its arguments, run in the directory of the `place` fixture; {} is replaced by
# the bad input.
OF_CORPORA = {
    "leaderboard": ["leaderboard", "{}"],
    "report": ["report", "{}", "-o", "page.html"],
    "report to stdout": ["report", "{}", "-o", "-"],
    "diff, old": ["diff", "{}", "other"],
    "diff, new": ["diff", "other", "{}"],
    "questions": ["questions", "{}"],
    "show": ["show", "{}", "0"],
    "compare": ["compare", "{}", "org-0/*", "org-1/*"],
    "trend": ["trend", "other", "{}"],
    "overlap": ["overlap", "{}"],
    "score": ["score", "{}", "--rule", "exact", "-o", "scored"],
    "items": ["items", "{}"],
    "costs": ["costs", "{}", "--prices", "prices.toml"],
    "calibration": ["calibration", "{}", "--confidence", "evaluation.score"],
    "corrected": ["corrected", "{}", "--labels", "labels.jsonl"],
    "cat": ["cat", "{}"],
    "sql": ["sql", "{}", "select count(output) from answers"],
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
SERVING = {
    "view": ["view", "{}", "--no-browser"]
}  # with good input, it runs until it is interrupted
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
    (here / "empty").mkdir()
    (here / "a-file").write_text("text\n")
    (here / "labels.jsonl").write_text("")
    (here / "prices.toml").write_text('["*"]\ninput = 1\noutput = 2\n')
    shutil.copytree("corpus", "damaged")
    for name in ("part-00000.jsonl.zst", "rejects.jsonl.zst"):
        spoil(here / "damaged" / name)
    columns = here / "damaged" / "part-00000.columns"
    columns.write_bytes(columns.read_bytes()[:200])
    shutil.copytree("shards", "damaged-shards")
    spoil(here / "damaged-shards" / "shard-00001.jsonl.zst")
    return here


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


def run(
    arguments: list[str], bad: str = "corpus", **options: object
) -> subprocess.CompletedProcess[str]:
    """Run the command, in a new process if there are options for it."""
    words = [argument.format(bad) for argument in arguments]
    if options:
        command = [sys.executable, "-m", "fastrec", *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, text=True, timeout=60, check=False, **options
        )
    done = run_here(*words)
    return subprocess.CompletedProcess(
        words, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


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
    """Each command succeeds with good input, so the tests below fail only for the reason they test.

    Files and pipes get no colours and no progress.
    """
    good = "more" if command in OF_SHARDS else "corpus"
    done = run(WORKING[command], good)
    assert done.returncode == 0
    printed = done.stderr + ("" if command in ("report to stdout", "completion") else done.stdout)
    assert not re.search(r"[\x1b\r]", printed)


# Missing files, and files of another kind


@pytest.mark.each_value
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
    assert_refused(
        READING[command],
        bad,
        2,
        f"error: {bad} is not a corpus: {why}\n",
        "`fastrec normalize SHARDS -o",
    )


@pytest.mark.each_value
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
    assert_refused(
        OF_SHARDS[command], bad, 2, "error: some input cannot be used:\n", why, "Check the names."
    )


# Damaged files


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [name for name in READING if name != "verify"])
def test_damaged_part(command: str) -> None:
    """The error names the corrupt file and points to `fastrec verify`."""
    said = "error: damaged/part-00000.columns: is damaged: "
    if command.startswith(("cat", "export", "rejects")):
        file = "rejects" if command.startswith("rejects") else "part-00000"
        said = f"error: damaged/{file}.jsonl.zst: zstd frame is corrupt"
    assert_refused(
        READING[command], "damaged", 3, said, "`fastrec verify damaged` lists all problems"
    )


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
    """The error names the corrupt shard.

    Nothing is published; finished work stays for the next run.
    """
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


# Files of a corpus that are not regular files

_INDEXED = ("questions", "show", "compare", "view")
READERS = {
    "manifest.json": [*READING, *OF_SHARDS],
    "summary.json": ["report", "diff, old", "diff, new", "trend", "stats", *_INDEXED],
    "rejects.jsonl.zst": ["rejects", "rejects --extract", "report"],
    "part-00000.jsonl.zst": ["cat", "export", "normalize", "validate", "questions", "show"],
    "part-00000.columns": ["stats", "diff, old", "diff, new", "trend", *_INDEXED],
}
"""The files of a corpus, and the commands that read each."""


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)
    # A command that waits for a writer would wait for ever: give it one, so that the test fails
    # instead.
    timer = threading.Timer(10, _write_nothing, [path.absolute()])
    timer.daemon = True
    timer.start()


def _write_nothing(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _make_socket(path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as one,
        contextlib.chdir(path.parent),
    ):  # such names are short
        one.bind(path.name)


IRREGULAR = {
    "a FIFO": (_make_fifo, "is a FIFO, not a regular file"),
    "a socket": (_make_socket, "is a socket, not a regular file"),
    "a directory": (Path.mkdir, "is a directory"),
    "a link out": (
        lambda path: path.symlink_to(Path("other", path.name).absolute()),
        "a file outside the corpus",
    ),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "a file outside the corpus"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("file", "command", "kind"),
    [
        *((file, command, "a FIFO") for file, commands in READERS.items() for command in commands),
        *(
            (file, command, kind)
            for kind in list(IRREGULAR)[1:]
            for file, command in [
                ("part-00000.jsonl.zst", "cat"),
                ("part-00000.jsonl.zst", "normalize"),
            ]
        ),
        ("rejects.jsonl.zst", "rejects", "a link out"),
        ("summary.json", "stats", "a device"),
        ("manifest.json", "verify", "a socket"),
    ],
)
def test_a_corpus_file_that_is_no_regular_file_is_refused_at_once(
    file: str, command: str, kind: str
) -> None:
    """No command waits for a FIFO, reads a device, or follows a link out of the corpus."""
    make, said = IRREGULAR[kind]
    Path("corpus", file).unlink()
    make(Path("corpus", file))
    before = all_files()
    done = run((READING | OF_SHARDS)[command], "corpus")
    assert done.returncode == 3, done.stderr
    assert f"corpus/{file}: " in done.stderr
    assert said in done.stderr
    assert all_files() == before


@pytest.mark.each_value
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("file", ["part-00000.jsonl.zst", "rejects.jsonl.zst", "summary.json"])
def test_verify_reports_files_that_are_no_regular_files(file: str, kind: str) -> None:
    """`verify` lists them as problems, and reads none of them."""
    Path("corpus", file).unlink()
    IRREGULAR[kind][0](Path("corpus", file))
    done = run(["verify", "corpus"])
    assert done.returncode == 1
    assert f"{file}: expected a regular file" in done.stdout


@pytest.mark.usefixtures("place")
def test_links_that_stay_in_the_corpus_and_a_link_to_a_corpus_are_followed() -> None:
    """Only links that lead out of a corpus are refused."""
    before = run(["cat", "corpus"]).stdout
    Path("corpus", "part-00000.jsonl.zst").rename("corpus/elsewhere")
    Path("corpus", "part-00000.jsonl.zst").symlink_to("elsewhere")
    Path("linked").symlink_to("corpus")
    assert run(["cat", "linked"]).stdout == before
    assert run(["normalize", "linked", "-o", "new"]).returncode == 0


def test_streams_that_the_user_names_are_read(place: Path) -> None:
    """A FIFO is good input, as a shard and as a list of shards."""
    lines = run(["cat", "other"]).stdout.encode()
    for name, data in (("pipe", lines), ("list", b"pipe\n")):
        os.mkfifo(name)
        threading.Thread(target=(place / name).write_bytes, args=(data,), daemon=True).start()
    done = run(["normalize", "--files-from", "list", "-o", "new"])
    assert done.returncode == 0, done.stderr
    assert fastrec.verify("new").records == lines.count(b"\n")


# A corpus as input that is not as its manifest says


def _edit(old: str, new: str) -> None:
    path = Path("corpus/manifest.json")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGES = {
    "a part is missing": (
        lambda part: part.unlink(),
        "part-00000.jsonl.zst: this part of a corpus cannot be found",
    ),
    "a part is another file": (
        lambda part: shutil.copy("other/part-00000.jsonl.zst", part),
        "is not the part that its manifest lists",
    ),
    "a wrong checksum": (
        lambda _: _edit('"sha256": "', '"sha256": "0'),
        "is not the part that its manifest lists: SHA-256",
    ),
    "a wrong size": (
        lambda _: _edit('"bytes": ', '"bytes": 1'),
        "is not the part that its manifest lists: bytes",
    ),
    "a wrong number of records": (
        lambda _: [_edit(f'"records": {records}', '"records":7') for records in (56, 56)],
        "is not the part that its manifest lists: records",
    ),
    "a part that is not listed": (
        lambda _: _edit('"records": ', '"records": 1'),
        "records, but its parts have",
    ),
    "garbage": (
        lambda _: Path("corpus/manifest.json").write_text("garbage"),
        "manifest.json: is not a manifest",
    ),
    "an empty manifest": (
        lambda _: Path("corpus/manifest.json").write_text(""),
        "manifest.json: is not a manifest",
    ),
    "an empty object": (
        lambda _: Path("corpus/manifest.json").write_text("{}"),
        "manifest.json: is not a manifest",
    ),
    "a later format": (
        lambda _: _edit('"format": 4', '"format": 5'),
        "manifest.json: its format is 5",
    ),
    "a part elsewhere": (
        lambda _: _edit('"file": "', '"file": "../other/'),
        "names a file outside the corpus",
    ),
}


@pytest.mark.each_value
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["normalize", "validate", "stats"])
def test_a_corpus_as_input_is_checked_against_its_manifest(command: str, damage: str) -> None:
    """A damaged corpus is never read in part, and never without a word."""
    make, said = DAMAGES[damage]
    make(Path("corpus/part-00000.jsonl.zst"))
    Path("inputs").mkdir()
    Path("corpus").rename(
        "inputs/corpus"
    )  # `stats` reads the summary of a corpus, and the shards of other directories
    done = run(OF_SHARDS[command], "inputs")
    assert done.returncode == 3, done.stderr
    assert said in done.stderr
    assert not Path("new").exists()


@pytest.mark.usefixtures("place")
def test_files_that_a_manifest_does_not_name_are_not_read() -> None:
    """This is said. A manifest of another program names no parts, so all shards are read."""
    shutil.copy("more/shard-00000.jsonl.zst", "corpus/stray.jsonl.zst")
    shutil.copytree("more", "corpus/below")
    done = run(["normalize", "corpus", "-o", "new"])
    assert done.returncode == 0
    assert (
        "corpus is a corpus: 3 files in it that its manifest.json does not name are not read"
        in done.stderr
    )
    assert fastrec.verify("new").records == fastrec.verify("corpus").records
    Path("more/manifest.json").write_text('{"files": ["shard-00000.jsonl.zst"]}')
    assert "60 lines: " in run(["normalize", "more", "-o", "all"]).stderr


# Files that are not JSON Lines


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("options", [[], ["--allow-empty"], ["--dry-run"]])
def test_normalize_refuses_a_table_before_it_does_anything(options: list[str]) -> None:
    """The error says what the file is, and the command that reads it, even if it is the last of
    many.
    """
    Path("table.csv").write_text("id,score\n1,0\n2,1\n")
    said = (
        "error: table.csv: is CSV, not JSON Lines: fastrec import 'table.csv' --guess proposes how "
        "to read its rows"
    )
    assert_refused(["normalize", "more", "{}", "-o", "new", *options], "table.csv", 3, said)


@pytest.mark.usefixtures("place")
def test_a_table_among_shards_is_a_bad_shard() -> None:
    """`validate` and `stats` name it, and `--skip-bad-shards` leaves it out."""
    Path("array.json").write_text('[\n{"a": 1},\n{"a": 2}\n]\n')
    said = "array.json: is a JSON array, not JSON Lines: jq -c '.[]' 'array.json' > records.jsonl"
    for command in ("validate", "stats"):
        done = run(OF_SHARDS[command], "array.json")
        assert done.returncode == 3
        assert said in done.stderr
    done = run(["normalize", "array.json", "more", "-o", "new", "--skip-bad-shards"])
    assert done.returncode == 0
    assert said in done.stderr


# A wrong command line


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_option(command: str) -> None:
    """An unknown option is answered with the usage and a pointer to the help."""
    usage = (
        f"Usage: python -m fastrec {command} ",
        f"Try 'python -m fastrec {command} --help' for help.",
    )
    assert_refused(
        [command, "--no-such-option"], "", 2, *usage, "error: No such option '--no-such-option'"
    )


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["normalize", "shards", "-o", "new", "--level", "high"],
            "'--level': 'high' is not a valid integer",
        ),
        (
            ["normalize", "shards", "-o", "new", "--max-rejects", "few"],
            "'few' is neither a number of lines nor",
        ),
        (
            ["normalize", "shards", "-o", "corpus"],
            "corpus exists: give another output, or --overwrite",
        ),
        (["normalize", "shards", "-o", "a-file", "--overwrite"], "a-file is not a directory"),
        (
            ["normalize", "shards", "-o", "shards/new"],
            "the output shards/new lies in the input shards",
        ),
        (["normalize", "shards"], "Missing option '-o' / '--output'"),
        (["stats", "corpus", "--by", "beauty"], "'beauty' is not one of 'accuracy', 'score'"),
        (
            ["report", "corpus", "-o", "a-file"],
            "a-file exists; choose another file, or add --overwrite",
        ),
        (
            ["diff", "corpus", "other", "--by", "colour"],
            "by 'colour'; the fields are evaluation_name,",
        ),
        (["diff", "corpus"], "Missing argument 'NEW'"),
        (
            ["questions", "corpus", "--sort", "colour"],
            "'colour' is not one of 'hardest', 'disagreement'",
        ),
        (
            ["questions", "corpus", "--split", "org-0/*", "no"],
            "no model matches 'no'; available: org-0/",
        ),
        (["show", "corpus"], "Missing argument 'QUESTION'"),
        (
            ["show", "corpus", "no"],
            "no question has the sample_id 'no', or a sample_hash that begins",
        ),
        (
            ["compare", "corpus", "org-0/*"],
            "name two models, A and B, or two metrics with --metric-pair",
        ),
        (["compare", "corpus", "org-0/*", "org-*"], "'org-*' matches"),
        (["cat", "corpus", "--limit", "none"], "'--limit': 'none' is not a valid integer"),
        (
            ["export", "corpus", "-o", "tables", "--format", "xls"],
            "'xls' is not one of 'parquet', 'csv', 'matrix'",
        ),
        (
            ["export", "corpus", "-o", "shards", "--format", "csv", "--overwrite"],
            "holds something other than an export",
        ),
        (["verify", "corpus", "--jobs", "0"], "'--jobs'"),
        (["verify"], "Missing argument 'CORPUS'"),
        (["view", "corpus", "--port", "http"], "'--port': 'http' is not a valid integer"),
        (
            ["rejects", "corpus", "--code", "bad"],
            "there is no code 'bad'; the codes are line.too_long",
        ),
        (["rejects", "corpus", "--extract", "a-file"], "a-file exists; choose a new file"),
        (["validate", "shards", "--format", "xml"], "'xml' is not one of 'text', 'json', 'github'"),
        (["check-pairs"], "Missing argument 'DIR...'"),
        (["check-pairs", "missing"], "missing: there is no such directory"),
        (["check-pairs", "a-file"], "a-file: is a file: name its directory"),
        (
            ["check-pairs", "empty"],
            "empty: the directory has no *.json and no *_samples.jsonl* files",
        ),
        (["schema", "corpus"], "there is no schema version 'corpus'; the versions are 0.2.0"),
        (
            ["generate", "-o", "shards"],
            "shards is not empty, and its files would mix with the new shards; choose",
        ),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_value(arguments: list[str], said: str) -> None:
    """The error says which values are allowed."""
    assert_refused(arguments, "", 2, said)


DEEP = {
    "arrays": f"a = {'[' * 5_000}{']' * 5_000}",
    "keys": f"a{'.a' * 5_000} = 1",
    "tables": f"[a{'.a' * 5_000}]",
}


@pytest.mark.each_value
@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize(
    "arguments",
    [
        ["normalize", "shards", "-o", "new", "--map", "deep.toml"],
        ["costs", "corpus", "--prices", "deep.toml"],
        ["leaderboard", "corpus", "--weights", "deep.toml"],
        ["import", "table.csv", "-o", "records", "--columns", "deep.toml"],
        ["export", "corpus", "-o", "tables", "--format", "pairs", "--details", "deep.toml"],
        ["--config", "deep.toml", "stats", "corpus"],
    ],
    ids=lambda words: " ".join(words[-2:]),
)
def test_toml_that_is_nested_deeply(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is read."""
    monkeypatch.chdir(tmp_path)
    Path("deep.toml").write_text(text)
    assert_refused(arguments, "", 2, "deep.toml: the ", " have more than 100 levels of nesting")


# Pipes and terminals


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "command", [*few_of(WORKING, 3, "test_closed_pipe"), "--help", "--version", "cat --help"]
)
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
@needs_script
@pytest.mark.parametrize("command", ["normalize", "stats", "validate"])
def test_stdin_is_a_terminal(command: str) -> None:
    """With `-` at a terminal, a notice says that the command waits for input; Ctrl-D ends it."""
    arguments = " ".join(argument.format("-") for argument in OF_SHARDS[command])
    line = f"{sys.executable} -m fastrec {arguments}"
    done = subprocess.run(
        in_terminal(line), input=b"\x04", capture_output=True, timeout=60, check=False
    )
    # Nothing has no statistics, and without a record nothing is published.
    assert done.returncode == {"stats": 1, "normalize": 3}.get(command, 0)
    assert b"reading from this terminal: type or paste lines, and end with Ctrl-D" in done.stdout


# Missing optional dependencies

EXTRAS = {
    "pyarrow": ("export corpus -o tables", "Parquet needs pyarrow"),
    "starlette": ("view corpus", "view needs starlette"),
    "uvicorn": ("view corpus", "view needs uvicorn"),
    "duckdb": ("sql corpus select", "sql needs duckdb"),
    "re2": ("cat corpus --where model_id=~never-compiled", "a regular expression needs google-re2"),
    "distributed": ("normalize shards -o new --engine dask", "--engine dask needs distributed"),
    "fsspec": ("validate s3://bucket/in", "s3:// needs another package: pip install s3fs"),
}
"""A command that needs a package which may not be installed, and what it says then."""


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("missing", EXTRAS)
def test_missing_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the missing package and the command that installs it."""
    arguments, said = EXTRAS[missing]
    before = all_files()
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    done = run_here(*arguments.split())
    package = said.split()[-1]
    advice = said if "pip" in said else f"{said}, not installed: pip install {package}"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"error: {advice}\n")
    assert all_files() == before


@pytest.mark.usefixtures("place")
def test_data_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    board = fastrec.leaderboard("corpus")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"to_pandas needs pandas, .*: pip install pandas"):
        board.to_pandas()


def test_every_optional_package_is_tried() -> None:
    """A module that fastrec imports is a dependency, of Python itself, or hidden by a test above."""
    imported: set[str] = set()
    for path in Path(fastrec.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for pattern in (r"from (\w+)[\w.]* import ", r"import (\w+)[\w.]*(?: as \w+)? *(?:#.*)?$"):
            imported.update(re.findall(f"^ *{pattern}", text, re.MULTILINE))
    needed = {
        "click",
        "isal",
        "jinja2",
        "joblib",
        "jsonschema_rs",
        "msgspec",
        "numpy",
        "stringzilla",
    }
    needed |= {"xxhash", "zstandard", "fastrec"}
    others = imported - needed - sys.stdlib_module_names
    assert others == EXTRAS.keys() | {"dask", "h11", "pandas"}  # the first two come with others


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


@pytest.mark.parametrize("names", [b"a[\0b]", b"a[b]" + b"/x" * 2_000])
def test_a_list_of_files_that_is_none(tmp_path: Path, names: bytes) -> None:
    """Such as a compressed shard that stands where its list should."""
    (tmp_path / "list").write_bytes(names)
    done = run_here("validate", "--files-from", tmp_path / "list")
    assert done.returncode == 2
    assert b"unexpected" not in done.stderr


def test_a_huge_number_of_jobs_is_refused(tmp_path: Path) -> None:
    done = run_here("validate", tmp_path, "--jobs", "9" * 20)
    assert done.returncode == 2
    assert b"is not in the range" in done.stderr


def test_an_empty_corpus_has_nothing_to_correct_or_score(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b"")
    empty = tmp_path / "empty"
    fastrec.normalize(tmp_path / "in.jsonl", empty, allow_empty=True)
    done = run_here("corrected", empty, "--propose", "5", "-o", tmp_path / "labels")
    assert b"unexpected" not in done.stderr
    done = run_here("score", empty, "-o", tmp_path / "scored", "--rule", "exact")
    assert done.returncode == 2
    assert b"there are no records in" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "-n", "1", "-o", "s3://me:secret@bucket/out"),
        ("report", "corpus", "-o", "s3://me:secret@bucket/out"),
        ("export", "corpus", "-o", "s3://me:secret@bucket/out"),
    ],
)
def test_what_is_written_to_this_machine_alone_takes_no_url(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "in.jsonl").write_bytes(b"")
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert b"must be written to a local directory" in done.stderr
    assert b"secret" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_list_of_questions_at_an_address_is_refused_without_its_secrets(tmp_path: Path) -> None:
    done = run_here("stats", tmp_path, "--questions", "http://me:secret@host/list?key=secret")
    assert done.returncode == 2
    assert b"secret" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("items", "corpus", "--seed", "-1"),
        ("corrected", "corpus", "--propose", "5", "--seed", "-1", "-o", "p"),
        ("generate", "-n", "9" * 20, "-o", "new"),
    ],
)
def test_numbers_beyond_their_range_are_refused(tmp_path: Path, arguments: Any) -> None:
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert b"is not in the range" in done.stderr


def test_links_in_a_circle_are_no_bug(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(json.dumps(sample()).encode())
    (tmp_path / "loop").symlink_to("loop")
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    for words in ("normalize in.jsonl -o loop", "clean loop", "export corpus -o loop/x"):
        done = run_here(*words.split(), cwd=tmp_path)
        assert b"unexpected" not in done.stderr


def test_a_weight_beyond_all_doubles_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(json.dumps(sample()).encode())
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    (tmp_path / "weights.toml").write_text(f'"*" = 1{"0" * 400}\n')
    done = run_here("leaderboard", tmp_path / "corpus", "--weights", tmp_path / "weights.toml")
    assert done.returncode == 2
    assert b"must be a number" in done.stderr


def test_a_corpus_without_records_is_an_input(tmp_path: Path) -> None:
    """One among several nights; alone, it needs --allow-empty, too."""
    (tmp_path / "none.jsonl").write_bytes(b"")
    (tmp_path / "one.jsonl").write_bytes(json.dumps(sample()).encode())
    fastrec.normalize(tmp_path / "none.jsonl", tmp_path / "empty", allow_empty=True)
    fastrec.normalize(tmp_path / "one.jsonl", tmp_path / "full")
    both = [tmp_path / "empty", tmp_path / "full"]
    assert fastrec.normalize(both, tmp_path / "merged").line_counts.kept == 1
    assert list(fastrec.cat(tmp_path / "merged")) == list(fastrec.cat(tmp_path / "full"))
    assert fastrec.stats(both).evaluations
    done = run_here("normalize", tmp_path / "empty", "-o", tmp_path / "again")
    assert done.returncode == 3
    assert b"no line is a valid record" in done.stderr
    fastrec.normalize(tmp_path / "empty", tmp_path / "again", allow_empty=True)
    assert fastrec.verify(tmp_path / "again").ok


def test_records_of_a_later_version_than_the_corpus(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(json.dumps(sample_of("0.3.0")).encode())
    done = run_here("normalize", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--schema", "0.2.0")
    assert done.returncode == 3
    assert b"leave out --schema, or give --allow-empty" in done.stderr


def test_a_damaged_corpus_among_others_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(json.dumps(sample()).encode())
    for night in ("1", "2"):
        fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "nights" / night)
    (tmp_path / "nights" / "1" / "manifest.json").write_bytes(b"{")
    done = run_here("trend", tmp_path / "nights")
    assert f"fastrec verify {tmp_path / 'nights' / '1'}".encode() in done.stderr
