"""Outputs that cannot be written: full devices, full file systems, size limits, read-only
directories.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.answers.small import answer, make_corpus
from tests.faults.failing import contents
from tests.normalize.normalizing import audited, write
from tests.normalize.test_failures import lines_of
from tests.running import run_command as fastrec
from tests.sizes import few_of
from tests.systems import needs_dev_full

FULL = Path("/dev/full")
LATER = partial(pytest.param, marks=pytest.mark.long_only)
"""Each command is a process of its own; one that writes text and one that writes bytes stand for the others."""
WITHOUT_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For a process that may not write large files: Python would leave truncated bytecode, which nobody can import."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a shard that has a rejected line."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", [*lines_of("a", 50), b"{"])
    return tmp_path


@needs_dev_full
@pytest.mark.parametrize("options", [["--format", "json"], LATER(["-v"])])
def test_a_full_stdout_is_named_and_the_corpus_is_there(options: list[str], tmp_path: Path) -> None:
    """If the result cannot be printed, the error says so, and that the corpus is published."""
    with FULL.open("wb") as full:
        done = fastrec("normalize", "in.jsonl", "-o", "out", *options, stdout=full)
    assert done.returncode == 3
    assert (
        b"error: standard output: No space left on device\nThe corpus was published as out.\n"
        in done.stderr
    )
    audited(tmp_path / "out")


@needs_dev_full
@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "in.jsonl"],
        ["rejects", "out", "--extract", "-"],
        LATER(["schema"]),
        LATER(["verify", "out"]),
        LATER(["rejects", "out"]),
    ],
)
def test_a_full_stdout_is_an_error(arguments: list[str]) -> None:
    """If the output of a command cannot be written, the exit code says so."""
    fastrec("normalize", "in.jsonl", "-o", "out")
    with FULL.open("wb") as full:
        done = fastrec(*arguments, stdout=full)
    assert done.returncode == 3
    assert done.stderr == b"error: standard output: No space left on device\n"


@needs_dev_full
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["in.jsonl", "-o", "out"], 1), (["missing", "-o", "out"], 2), LATER(["in.jsonl"], 2)],
)
def test_a_full_log_changes_nothing(arguments: list[str], code: int, tmp_path: Path) -> None:
    """If stderr cannot be written, the command works all the same, with the same exit code."""
    with FULL.open("wb") as full:
        assert fastrec("normalize", *arguments, stderr=full).returncode == code
    if code == 1:
        audited(tmp_path / "out")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """A corpus is published even if stdout is a closed pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = fastrec(
            "normalize", "in.jsonl", "-o", "out", "--format", "json", stdout=writer, stderr=writer
        )
    finally:
        os.close(writer)
    assert done.returncode == 1
    audited(tmp_path / "out")


@needs_dev_full
def test_rejects_are_not_extracted_through_a_link() -> None:
    """An output that exists, such as a link to a device, is refused before anything is written."""
    fastrec("normalize", "in.jsonl", "-o", "out")
    (Path.cwd() / "link").symlink_to(FULL)
    done = fastrec("rejects", "out", "--extract", "link")
    assert done.returncode == 2
    assert b"link exists; choose a new file" in done.stderr


@pytest.mark.parametrize(
    "most", few_of([1, 200, 1_000, 4_000, 20_000], 2, "test_a_limit_on_the_size_of_files")
)
def test_a_limit_on_the_size_of_files(most: int, tmp_path: Path) -> None:
    """With a limit on file sizes, the error names the file and nothing is published.

    The next run succeeds.
    """
    done = fastrec(
        "normalize", "in.jsonl", "-o", "out", "--compression", "none",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY)),
        env=os.environ | WITHOUT_BYTECODE,
    )  # fmt: skip
    assert done.returncode == 3
    assert b": File too large\n" in done.stderr
    assert b".fastrec-" in done.stderr
    assert not (tmp_path / "out").exists()
    assert fastrec("normalize", "in.jsonl", "-o", "out", "--compression", "none").returncode == 1
    audited(tmp_path / "out")


def test_generate_names_the_shard_that_cannot_be_written() -> None:
    """No part of it stays."""
    done = fastrec(
        "generate", "-n", "20", "--shards", "1", "--compression", "none", "-o", "made",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY)),
        env=os.environ | WITHOUT_BYTECODE,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == b"error: made/shard-00000.jsonl: File too large\n"
    assert list(Path("made").iterdir()) == []


def run_where_it_may_mount(script: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script that mounts `small`, or ends with code 99."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare to mount a small file system")
    kind = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    done = subprocess.run(
        ["unshare", *kind, "sh", "-c", script], capture_output=True, timeout=60, check=False
    )
    if done.returncode == 99 or b"unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a small file system")
    return done


def test_a_small_file_system_that_fills_up(tmp_path: Path) -> None:
    """On a full file system, the error names the file; with more space, the next run resumes."""
    write(tmp_path / "big.jsonl", lines_of("big", 700))
    run = f"{sys.executable} -m fastrec normalize big.jsonl -o small/out --compression none"
    script = f"""
        set -u
        mkdir small && mount -t tmpfs -o size=1m tmpfs small || exit 99
        {run}; echo code $?; test -e small/out && echo published
        mount -o remount,size=20m small && {run}; echo code $?
        cp -r small/out out
    """
    done = run_where_it_may_mount(script)
    assert done.stdout == b"code 3\ncode 0\n"
    assert b"No space left on device" in done.stderr
    assert b"small/.out.fastrec-" in done.stderr
    assert b"Traceback" not in done.stderr
    fastrec("normalize", "big.jsonl", "-o", "whole", "--compression", "none")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write to a read-only directory")
def test_a_read_only_directory(tmp_path: Path) -> None:
    """The error names a read-only directory."""
    (tmp_path / "locked").mkdir(mode=0o500)
    done = fastrec("normalize", "in.jsonl", "-o", "locked/out")
    assert done.returncode == 3
    assert b"locked/.out.fastrec-lock: Permission denied" in done.stderr


def test_an_output_below_a_file(tmp_path: Path) -> None:
    """The error names a parent that is not a directory."""
    done = fastrec("normalize", "in.jsonl", "-o", "in.jsonl/below/out")
    assert done.returncode in (2, 3)
    assert b"in.jsonl" in done.stderr
    assert json.loads((tmp_path / "in.jsonl").read_bytes().split(b"\n")[0])


@pytest.mark.parametrize("form", ["csv", "matrix", "parquet"])
def test_an_export_that_is_too_large_names_the_file(form: str, tmp_path: Path) -> None:
    """The error of a failed write names the file, whichever library writes it."""
    write(tmp_path / "big.jsonl", lines_of("big", 300))
    fastrec("normalize", "big.jsonl", "-o", "out")
    done = fastrec(
        "export", "out", "-o", "table", "--format", form,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY)),
        env=os.environ | WITHOUT_BYTECODE,
    )  # fmt: skip
    assert done.returncode == 3
    assert (b".table" if form == "matrix" else b"part-00000") in done.stderr
    assert b"File too large" in done.stderr
    assert not (tmp_path / "table").exists()


def test_files_beside_a_corpus_on_a_file_system_that_is_full(tmp_path: Path) -> None:
    """An earlier file stays, no part of a new one does, and no process is killed."""
    records = [
        answer("e", f"question {number}", f"m{model}", number * 7 % 10 <= model)
        for number in range(60)
        for model in range(9)
    ]
    make_corpus(tmp_path, records)
    program = f"{sys.executable} -m fastrec"
    script = f"""
        set -u
        mkdir small && mount -t tmpfs -o size=64k tmpfs small || exit 99
        echo before > small/subset.txt
        head -c 60k /dev/zero > small/filler 2> /dev/null
        head -c 60k /dev/zero > small/more 2> /dev/null
        {program} items corpus --subset 40 -o small/subset.txt --overwrite > /dev/null; echo items $?
        {program} corrected corpus --propose 400 -o small/lines.jsonl > /dev/null; echo corrected $?
        {program} export corpus -o small/out --format matrix; echo export $?
        ls small; cat small/subset.txt
    """
    done = run_where_it_may_mount(script)
    said = done.stdout.decode().split()
    assert said[:6] == ["items", "3", "corrected", "3", "export", "3"], done.stderr
    assert said[6:] == ["filler", "more", "subset.txt", "before"]
