"""The log of every finding: a file per slice, which the driver joins in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from fastrec.commands.validate.result import SliceFindings
from fastrec.errors import FastrecError, shown
from fastrec.judge.findings import Finding

__all__ = ["FindingLog", "LoggedFinding", "log_findings"]


class LoggedFinding(msgspec.Struct):
    """A line of the log: one finding."""

    source: str
    """The shard."""
    line: int
    """Number of the line in the shard, from 1."""
    severity: str
    """`error` or `warning`."""
    code: str
    """The code."""
    path: str
    """The JSON path in the record, such as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LoggedFinding).decode


def log_findings(path: str, source: str, findings: Iterable[tuple[int, Finding]]) -> None:
    """Append findings, each with its line, to the log of a slice."""
    with Path(path).open("ab") as file:
        for line, finding in findings:
            logged = LoggedFinding(source, line, finding.severity, finding.code, finding.path, finding.message)
            file.write(_encode(logged) + b"\n")


class FindingLog:
    """The log that the user asked for, joined from those of the slices; FastrecError if it cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._writing():
            self._file = Path(path).open("wb")  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._writing():
            self._file.close()

    def add(self, found: SliceFindings) -> None:
        """Append the findings of a shard, with corrected line numbers, and remove the files of its slices."""
        for path, line_base in found.logs:
            if not found.error:
                with Path(path).open("rb") as lines, self._writing():
                    self._file.writelines(_renumbered(lines, line_base) if line_base else lines)
            Path(path).unlink()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise FastrecError(f"the log {shown(self._path)} cannot be written: {exc.strerror}") from exc


def _renumbered(lines: Iterable[bytes], line_base: int) -> Iterator[bytes]:
    for line in lines:
        logged = _decode(line)
        logged.line += line_base
        yield _encode(logged) + b"\n"
