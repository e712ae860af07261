"""Injected faults: the Nth call of an operation on a file below a directory fails with an OSError.

    with Faults(folder, "fsync", nth=3, reason=errno.EIO) as faults:
        ...
    faults.paths     files of the failed calls; empty if there were fewer calls

The functions of `os` and the raw file beneath `open` are replaced. So a fault hits exactly one
call, and a run of a few milliseconds can be repeated once for every call that it makes.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
from pathlib import Path
from typing import Any, Self

import pytest

from fastrec.corpus import publish

OPERATIONS = {
    "open": errno.EACCES,
    "close": errno.EIO,
    "read": errno.EIO,
    "pread": errno.EIO,
    "write": errno.ENOSPC,
    "pwrite": errno.ENOSPC,
    "ftruncate": errno.EIO,
    "lseek": errno.EIO,
    "fsync": errno.EIO,
    "flock": errno.ENOLCK,
    "mkdir": errno.EROFS,
    "chmod": errno.EPERM,
    "rename": errno.EROFS,
    "unlink": errno.EACCES,
    "rmdir": errno.EBUSY,
    "scandir": errno.EIO,
    "listdir": errno.EIO,
    "stat": errno.EIO,
}
"""Operations that can fail, and the usual reason. `REASONS` has some others."""

REASONS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)

_OF_DESCRIPTORS = ("read", "pread", "write", "pwrite", "ftruncate", "lseek", "fsync")
_OF_PATHS = ("mkdir", "chmod", "rename", "unlink", "rmdir", "scandir", "listdir", "stat")


class Faults:
    """Makes one call fail; with `lasting`, also all later calls of the same operation."""

    def __init__(
        self,
        folder: Path,
        operation: str = "",
        nth: int = 0,
        reason: int = 0,
        *,
        lasting: bool = False,
    ):
        self.folder = os.fspath(folder)
        self.operation = operation
        self.nth = nth
        self.reason = reason
        self.lasting = lasting
        self.calls: dict[str, list[str]] = {}
        """Files of all calls, by operation."""
        self.paths: list[str] = []
        """Files of the failed calls."""
        self.open: dict[int, str] = {}
        """Open descriptors of files below the folder."""
        self._patch = pytest.MonkeyPatch()

    def meet(self, operation: str, path: str) -> None:
        """Count a call, and make it fail if its turn has come."""
        files = self.calls.setdefault(operation, [])
        files.append(path)
        calls = len(files)
        if operation == self.operation and (
            calls >= self.nth if self.lasting else calls == self.nth
        ):
            self.paths.append(path)
            if operation in _OF_DESCRIPTORS or operation in ("close", "flock"):
                raise OSError(
                    self.reason, os.strerror(self.reason)
                )  # such calls do not know the name
            raise OSError(self.reason, os.strerror(self.reason), path)

    def __enter__(self) -> Self:
        for name in _OF_DESCRIPTORS:
            self._patch.setattr(os, name, self._of_descriptor(name, getattr(os, name)))
        for name in _OF_PATHS:
            self._patch.setattr(os, name, self._of_path(name, getattr(os, name)))
        self._patch.setattr(fcntl, "flock", self._of_descriptor("flock", fcntl.flock))
        self._patch.setattr(os, "open", self._open(os.open))
        self._patch.setattr(os, "close", self._close(os.close))
        self._patch.setattr(publish, "exchange", self._of_path("rename", publish.exchange))
        opens = self._open_file(builtins.open)
        self._patch.setattr(builtins, "open", opens)
        self._patch.setattr(io, "open", opens)  # what pathlib calls
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def below(self, path: Any, directory: int | None = None) -> str | None:
        """Return a path as text if it is below the folder."""
        if isinstance(path, int):
            return self.open.get(path)
        text = os.fsdecode(path)
        if directory is not None:
            text = f"{self.open.get(directory)}/{text}"
        return text if text.startswith(self.folder) else None

    def _of_descriptor(self, name: str, real: Any) -> Any:
        def call(descriptor: Any, *arguments: Any) -> Any:
            if (path := self.open.get(descriptor)) is not None:
                self.meet(name, path)
            return real(descriptor, *arguments)

        return call

    def _of_path(self, name: str, real: Any) -> Any:
        def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            below = self.below(path, options.get("dir_fd"))
            if below is not None:
                self.meet(name, below)
            return real(path, *arguments, **options)

        return call

    def _open(self, real: Any) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> int:
            below = self.below(path, options.get("dir_fd"))
            if below is not None:
                self.meet("open", below)
            descriptor: int = real(path, *arguments, **options)
            if below is not None:
                self.open[descriptor] = below
            return descriptor

        return call

    def _close(self, real: Any) -> Any:
        def call(descriptor: int) -> None:
            path = self.open.pop(descriptor, None)
            real(descriptor)  # as on Linux: the descriptor is gone even if close fails
            if path is not None:
                self.meet("close", path)

        return call

    def _open_file(self, real: Any) -> Any:
        def call(
            file: Any, mode: str = "r", buffering: int = -1, *texts: Any, **options: Any
        ) -> Any:
            below = self.below(file)
            if below is None or "b" not in mode:
                return real(file, mode, buffering, *texts, **options)
            if not isinstance(file, int):
                self.meet("open", below)
            raw = _RawFile(self, below, file, mode.replace("b", ""), **options)
            if buffering == 0:
                return raw
            return io.BufferedReader(raw) if "r" in mode else io.BufferedWriter(raw)

        return call


class _RawFile(io.FileIO):
    """A raw file whose calls can fail."""

    def __init__(
        self, faults: Faults, below: str, *arguments: Any, closefd: bool = True, opener: Any = None
    ) -> None:
        self._faults = faults
        self._below = below
        self._ours = closefd
        super().__init__(*arguments, closefd=closefd, opener=opener)
        if closefd:
            faults.open[self.fileno()] = below

    def write(self, data: Any) -> int:
        self._faults.meet("write", self._below)
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        self._faults.meet("read", self._below)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._faults.meet("read", self._below)
        return super().readall()

    def close(self) -> None:
        if self.closed:
            return
        if self._ours:
            self._faults.open.pop(self.fileno(), None)
        super().close()
        if self._ours:
            self._faults.meet("close", self._below)
