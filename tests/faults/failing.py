"""One run with a fault, the next run that must repair everything, and the checks after each."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastrec.corpus import publish
from fastrec.errors import FastrecError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from tests.faults.injecting import Faults
from tests.normalize.normalizing import audited, write
from tests.normalize.test_failures import lines_of

LASTING = (errno.ENOSPC, errno.EROFS, errno.EDQUOT)
"""Errors that persist: on a full disk, the next write fails too."""


SMALL_TASKS = Limits(task_bytes=2_000)
"""Cut small corpora into several tasks and parts."""


class Scene(msgspec.Struct):
    """Shards, the options to normalize them, and the expected corpus."""

    folder: Path
    """The run under test writes only here; the shards are elsewhere."""
    shards: Path
    options: dict[str, Any]
    limits: Limits
    new: dict[str, bytes]
    old: dict[str, bytes] | None
    """The corpus that is replaced, if there is one."""

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def run(self) -> None:
        options = Options(**self.options, overwrite=self.old is not None)
        use_limits(self.limits)(run)([self.shards], self.out, options, progress=Progress())

    def begin(self) -> None:
        """Restore the initial state."""
        clean(self.folder)
        self.folder.mkdir()
        if self.old is not None:
            self.out.mkdir()
            for name, data in self.old.items():
                (self.out / name).write_bytes(data)


def clean(path: Path) -> None:
    """Remove a directory, if it exists."""
    if path.exists():
        shutil.rmtree(path)


def contents(corpus: Path) -> dict[str, bytes]:
    """Return all files of a corpus, including the manifest."""
    return {path.name: path.read_bytes() for path in sorted(corpus.iterdir())}


def make_scene(
    folder: Path, *, replace: bool, limits: Limits = SMALL_TASKS, **options: Any
) -> Scene:
    """Make shards of several formats with duplicates, conflicts and rejected lines, for a few tasks
    and parts.
    """
    shards = folder / "in"
    same = lines_of("same", 2)
    write(shards / "a.jsonl", [*lines_of("a", 3), *same, b"{", b""])
    write(
        shards / "b.jsonl", [*lines_of("b", 3), *same, same[0].replace(b"42", b"43")], Format.ZSTD
    )
    write(shards / "c.jsonl", [b"[]", *lines_of("c", 3)], Format.GZIP)
    old = None
    if replace:
        write(folder / "old.jsonl", lines_of("old"))
        run([folder / "old.jsonl"], folder / "old", Options())
        old = contents(folder / "old")
    options = {"part_size": 6_000, "memory": 5 << 20, **options}
    use_limits(limits)(run)([shards], folder / "whole", Options(**options))
    assert len(audited(folder / "whole").parts) > 1
    return Scene(folder / "place", shards, options, limits, contents(folder / "whole"), old)


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave like a file system that cannot exchange two directories in one call."""
    monkeypatch.setattr(publish, "exchange", lambda *_: False)


def try_fault(scene: Scene, faults: Faults) -> bool:
    """Run with a fault and then without; return whether the fault occurred at all."""
    scene.begin()
    error: OSError | FastrecError | None = None
    try:
        with faults:
            scene.run()
    except (OSError, FastrecError) as exc:
        error = exc
        error.__traceback__ = error.__context__ = None  # they keep half-read files open
    if not faults.paths:
        assert error is None
    if error is None:
        assert contents(scene.out) == scene.new, "the run reports success"
    else:
        check_message(error, faults)
        if scene.old is None:
            assert not scene.out.exists(), "the run failed, but something was published"
        else:
            assert contents(scene.out) == scene.old, (
                "the run failed, but the old corpus has changed"
            )
    assert not faults.open, f"after {faults.operation} of {faults.paths} these are left open"
    if error is not None:
        scene.run()
        assert contents(scene.out) == scene.new
        assert [path.name for path in scene.folder.iterdir()] == ["out"], "something is left behind"
    return bool(faults.paths)


def check_message(error: OSError | FastrecError, faults: Faults) -> None:
    """Check that the error names the reason and the file."""
    reason = os.strerror(faults.reason)
    names = [Path(path).name for path in faults.paths]
    if isinstance(error, OSError):
        assert error.strerror == reason
        assert isinstance(error.filename, (str, bytes)), (
            f"{faults.operation} of {names} failed, and no file is named"
        )
        name = Path(os.fsdecode(error.filename)).name
        assert name in names, f"{faults.operation} of {names} failed, and {name} is named"
    else:
        assert reason in str(error)
        assert any(name in str(error) for name in names)
