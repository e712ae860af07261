"""Messages that no other test covers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from fastrec import cli
from fastrec.commands.generate import generate
from fastrec.commands.validate import validate
from fastrec.commands.verify import verify
from fastrec.corpus import lock, publish, rejects
from fastrec.corpus.manifest import read_manifest
from fastrec.errors import (
    BadShardsError,
    CorpusError,
    DamagedFileError,
    FastrecError,
    LockedError,
    ShardLimitError,
    UsageError,
)
from fastrec.judge.judge import Judge
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1
from fastrec.normalize.options import Options
from fastrec.normalize.results import Piece
from fastrec.normalize.run import normalize
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.sorting.files import blocks_between, write_blocks
from fastrec.sources.formats import Format
from fastrec.sources.shard import Slice, shard_at
from tests.normalize.normalizing import write
from tests.normalize.test_failures import lines_of
from tests.running import run_command
from tests.samples import sample
from tests.sources.compressing import FORMATS, compressed
from tests.systems import needs_memory_limit

Deed = Callable[[Path], object]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write(tmp_path / "in.jsonl", lines_of("a"))


ARGUMENTS: dict[str, Deed] = {
    r"compression must be one of .*, not 'rar'": lambda path: generate(
        path / "new", compression="rar"
    ),
    r"is not empty, and its files would mix with the new shards": generate,
    r"in\.jsonl is not a directory; choose another output": lambda path: generate(
        path / "in.jsonl"
    ),
    r"mix must be one of .*, not 'none'": lambda path: generate(path / "new", mix="none"),
    r"text must be one of evaluation, words, not 'poems'": lambda path: generate(
        path / "new", text="poems"
    ),
    r"a share must be between 0 and 1": lambda path: generate(path / "new", rejects=1.5),
    r"the number of shards must be at least 1": lambda path: generate(path / "new", shards=0),
    r"hash_algorithm must be one of sha256, xxh3_128, not 'md5'": lambda path: validate(
        path / "in.jsonl", hash_algorithm="md5"
    ),
}


@pytest.mark.usefixtures("shard")
@pytest.mark.parametrize("message", ARGUMENTS)
def test_wrong_arguments(message: str, tmp_path: Path) -> None:
    """The error for a wrong argument says what is allowed."""
    with pytest.raises(UsageError, match=message):
        ARGUMENTS[message](tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", 99, "format is 99"),
        ("schema", "0.3", "schema: expected"),
        ("sort_fields", ["model_id"], "sort_fields: expected all sort fields, found model_id"),
    ],
)
def test_wrong_manifests(key: str, value: object, said: str, shard: Path, tmp_path: Path) -> None:
    """`verify` reports what is wrong with a manifest."""
    normalize(shard, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), key: value}))
    assert said in verify(tmp_path / "out").problems[0].message
    if key == "format":
        with pytest.raises(CorpusError, match=said):
            read_manifest(tmp_path / "out")


def spoil(data: bytes) -> bytes:
    """Change a byte in the middle."""
    return (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0x55]) + data[len(data) // 2 + 1 :]
    )


@pytest.mark.each_value
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("how", ["spoilt", "followed by something else"])
def test_corrupt_shards(how: str, format_: Format, tmp_path: Path) -> None:
    """A frame with wrong bytes is corrupt, and only another frame may follow a frame."""
    data = compressed(format_, b"".join(line + b"\n" for line in lines_of("a", 30)))
    path = tmp_path / "in.jsonl"
    path.write_bytes(spoil(data) if how == "spoilt" else data + b"something else")
    said = (
        r"is corrupt: |does not end with its last" if how == "spoilt" else r"is not .* should begin"
    )
    with pytest.raises(BadShardsError, match=said):
        normalize(path, tmp_path / "out")


def test_shard_out_of_memory(shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the shard that needs too much memory."""

    def add(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pass1._RunBuffer, "add", add)
    with pytest.raises(BadShardsError, match=r"in\.jsonl: one of its lines needs more memory"):
        normalize(shard, tmp_path / "out")


def test_chunk_out_of_memory(shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error about a chunk that the driver decompressed names its shard, not the temporary file."""

    def judge_chunk(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Judge, "judge_chunk", judge_chunk)
    piece = Piece(0, 0, "original.jsonl.gz", Slice(shard_at(str(shard))), temporary=True)
    lines = Options().line_settings(DEFAULT_SCHEMA)
    task = pass1.SortTask(0, (piece,), str(tmp_path), lines, run_bytes=1 << 20, most_fences=32)
    error = pass1.sort_pieces(task).pieces[0].error
    assert str(error).startswith(
        "original.jsonl.gz: one of its lines needs more memory than there is"
    )
    assert "--max-line-bytes" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        zstandard.ZstdError("zstd compress error: Allocation error : not enough memory"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_command_out_of_memory(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lack of memory elsewhere is reported in one line, and never as a bug, whichever library says
    so.
    """

    def command(**_: object) -> None:
        raise error

    kept = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(cli, "cli", command)
    try:
        with pytest.raises(SystemExit) as caught:
            cli.main()
    finally:
        for number, handler in kept:
            signal.signal(number, handler)
    assert caught.value.code == 3
    assert (
        capsys.readouterr().err == "error: this needs more memory than there is: try fewer --jobs\n"
    )


@needs_memory_limit
def test_a_window_too_large_for_memory_is_no_damage(tmp_path: Path) -> None:
    """zstd has one class for all errors: lack of memory is not reported as a corrupt frame."""
    window = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    frame = zstandard.ZstdCompressor(compression_params=window).compressobj()
    (tmp_path / "a.jsonl.zst").write_bytes(
        frame.compress(json.dumps(sample()).encode() * 9) + frame.flush()
    )
    limit = 100 << 20
    arguments = ("validate", tmp_path / "a.jsonl.zst", "--jobs", "1")
    done = run_command(
        *arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    )
    assert done.returncode == 3
    assert (
        b"a.jsonl.zst: decompressing it needs more memory than there is: try fewer --jobs"
        in done.stderr
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda path, size: list(blocks_between(path, 0, size, 1 << 16)),
        lambda path, size: list(rejects._lines(path, 0, size, 1 << 16)),
    ],
)
def test_a_work_file_is_not_damaged_if_memory_runs_out(
    read: Callable[[str, int], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged work file is made again; that would not help here."""

    class Decompressor:
        def __init__(self, **_options: object) -> None: ...

        def decompress(self, _: object, **_options: object) -> None:
            raise zstandard.ZstdError("Allocation error : not enough memory")

        def stream_reader(self, *_: object, **_options: object) -> Decompressor:
            return self

        def readinto(self, _: object) -> None:
            self.decompress(b"")

    path = str(tmp_path / "work")
    size, _ = write_blocks(path, [b"[]"], compressed=True)
    monkeypatch.setattr(zstandard, "ZstdDecompressor", Decompressor)
    with pytest.raises((zstandard.ZstdError, ShardLimitError), match="memory") as caught:
        read(path, size)
    assert not isinstance(caught.value, DamagedFileError)


def test_no_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing standard input is not reported as an empty one."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadShardsError, match="there is no standard input"):
        normalize("-", tmp_path / "out")


# The lock


def test_file_system_without_locks(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without locks is not mistaken for another run."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks available") as caught:
        normalize(shard, tmp_path / "out")
    assert caught.value.filename.endswith(".out.fastrec-lock")


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def held(tmp_path: Path) -> Any:
    """Start a process that holds the lock."""
    path = tmp_path / ".out.fastrec-lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.usefixtures("held")
def test_lock_without_holder(shard: Path, tmp_path: Path) -> None:
    """Another run holds the lock but has not written its name yet."""
    with pytest.raises(
        LockedError,
        match="by another run, which has only just begun: wait until it ends, or stop it",
    ):
        normalize(shard, tmp_path / "out")


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_workers_of_a_dead_run(host: str, held: Any, shard: Path, tmp_path: Path) -> None:
    """The next run waits for workers of a killed run on this host.

    It cannot know about other hosts.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    name = os.uname().nodename if host == "here" else "elsewhere"
    (tmp_path / ".out.fastrec-lock").write_text(f"process {dead.pid} on {name} since then\n")
    if host == "elsewhere":
        with pytest.raises(LockedError, match=f"process {dead.pid} on elsewhere"):
            normalize(shard, tmp_path / "out")
        return
    begin = time.monotonic()
    timer = threading.Timer(0.5, held.kill)
    timer.start()
    normalize(shard, tmp_path / "out")
    assert time.monotonic() - begin > 0.4
    timer.join()


def test_workers_that_never_end(
    held: Any, shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for them is limited."""
    monkeypatch.setattr(lock, "_is_running", lambda _: False)
    with pytest.raises(LockedError):
        use_limits(Limits(lock_wait_seconds=0.2))(normalize)(shard, tmp_path / "out")
    assert held.poll() is None


# Exchanging directories


def test_failed_exchange(tmp_path: Path) -> None:
    """The error names both directories; a system without exchange is a different error."""
    if not publish.exchange(*(make(tmp_path / name) for name in "ab")):
        pytest.skip("this file system cannot exchange directories")
    with pytest.raises(OSError, match="No such file or directory") as caught:
        publish.exchange(tmp_path / "a", tmp_path / "missing")
    assert (caught.value.filename, caught.value.filename2) == (
        str(tmp_path / "a"),
        str(tmp_path / "missing"),
    )


def test_no_exchange_on_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems use two renames."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not publish.exchange(make(tmp_path / "a"), make(tmp_path / "b"))


def make(path: Path) -> Path:
    path.mkdir()
    return path


def test_locked_error_is_a_fastrec_error() -> None:
    """`except FastrecError` catches it."""
    assert issubclass(LockedError, FastrecError)
