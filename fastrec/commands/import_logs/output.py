"""The output directory of an import: shards and `import.json` appear when all logs are done.

On this machine, shards are written into a hidden directory inside it and renamed at the end. In an object store, where
renaming is copying, they are written under their names: each appears when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fastrec.commands.import_logs.document import IMPORT_FILE, Import
from fastrec.corpus.lock import locked
from fastrec.errors import UsageError, shown
from fastrec.harnesses.registry import HARNESS_NAMES
from fastrec.limits import Limits
from fastrec.storage import is_url, join, parent_and_name, storage_of

__all__ = ["ImportOutput", "open_output"]

_WORK: Final = ".import-"
_SHARD: Final = re.compile(rf"(?:{'|'.join(HARNESS_NAMES)})-[0-9a-f]{{16}}\.jsonl\.zst")
_OWN: Final = re.compile(rf"{re.escape(_WORK)}.*|{_SHARD.pattern}")  # of an import that was killed


@contextlib.contextmanager
def open_output(directory: str, limits: Limits) -> Iterator[ImportOutput]:
    """Open an output directory: a new or empty one, or that of an earlier import.

    Raises:
        UsageError: The directory has other files.
        LockedError: Another import writes there.
    """
    _check(directory)
    if is_url(directory):
        with tempfile.TemporaryDirectory(prefix="fastrec-") as work:
            yield _StoreOutput(directory, work)
        return
    path = Path(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.absolute(), limits.lock_wait_seconds):
        path.mkdir(exist_ok=True)
        for left in path.glob(f"{_WORK}*"):  # of an import that was killed
            shutil.rmtree(left, ignore_errors=True)
        work = tempfile.mkdtemp(prefix=_WORK, dir=directory)
        try:
            yield ImportOutput(directory, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: something was published
                path.rmdir()


def _check(directory: str) -> None:
    """Refuse a directory that no import has written."""
    storage = storage_of(directory)
    if not storage.exists(directory):
        return
    if not storage.is_directory(directory):
        raise UsageError(f"{shown(directory)} is a file: name a directory")
    account = join(directory, IMPORT_FILE)
    if storage.exists(account):
        try:
            msgspec.json.decode(storage.read_all(account), type=Import)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise UsageError(f"{shown(account)} is not the account of an import: name a new directory") from exc
    elif any(not _OWN.fullmatch(parent_and_name(path)[1]) for path in storage.files_in(directory)):
        raise UsageError(f"{shown(directory)} has files that no import has written: name a new directory")


class ImportOutput:
    """An output directory on this machine; `work` is a directory for work files."""

    def __init__(self, directory: str, work: str) -> None:
        self._directory = directory
        self.work = work

    def shard_path(self, name: str) -> str:
        """Return where to write a shard."""
        return join(self.work, name)

    def publish(self, result: Import) -> None:
        """Make the shards and the account visible; remove shards of an earlier import."""
        storage = storage_of(self._directory)
        names = {log.file for log in result.logs}
        self._place(names)
        data = msgspec.json.format(msgspec.json.encode(result), indent=2)
        storage.write_all(join(self._directory, IMPORT_FILE), data + b"\n")
        for path in storage.files_in(self._directory):
            name = parent_and_name(path)[1]
            if _SHARD.fullmatch(name) and name not in names:
                storage.remove(join(self._directory, name))

    def _place(self, names: set[str]) -> None:
        for name in sorted(names):
            os.replace(join(self.work, name), join(self._directory, name))  # noqa: PTH105 - paths stay str


class _StoreOutput(ImportOutput):
    """An output in an object store."""

    def shard_path(self, name: str) -> str:
        return join(self._directory, name)

    def _place(self, names: set[str]) -> None:
        """Do nothing: an object appears when it is complete."""
