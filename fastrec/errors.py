"""All that fastrec raises on purpose, one family, each with its data as attributes.

    FastrecError                    exit 3 unless told otherwise
    ├── UsageError                  the command line or the arguments are wrong (exit 2)
    ├── InvalidRecordError          `fastrec.decode` met a line that is not a valid record
    ├── WorkerDiedError             a task killed its worker process twice: it is named
    ├── LockedError                 another run writes to the same place: who it is
    ├── ClusterError                a cluster cannot be reached, or nothing is left of it
    ├── BadShardsError              some shards could not be read: all of them are named, nothing was published
    ├── CorpusError                 a file of a published corpus is not what fastrec writes: path, reason, line
    └── ShardError                  an input file could not be read whole: path, byte offset, reason
        ├── ShardMissingError       it is not there, not a file, or may not be opened
        ├── ShardTruncatedError     it ends in the middle of a frame or member
        ├── ShardCorruptError       its bytes are not what its format or checksum says
        └── ShardLimitError         reading it would break a limit (zstd window, memory)

Every error keeps its arguments in `args`, so it survives pickling on its way back from a worker, and formats
itself in `__str__` alone. The command line maps the family to exit codes in one place.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "BadShardsError",
    "ClusterError",
    "CorpusError",
    "FastrecError",
    "InvalidRecordError",
    "LockedError",
    "ShardCorruptError",
    "ShardError",
    "ShardLimitError",
    "ShardMissingError",
    "ShardTruncatedError",
    "UsageError",
    "WorkerDiedError",
    "naming",
    "out_of_memory",
    "shown",
    "utf8",
    "without_secrets",
]

# Up to the last @ before the path; a password may have / in it, as keys of stores do, where a port has digits alone.
_USER = re.compile(r"://(?:[^/\s]*|[^\s/@:]+:(?!\d*/)[^\s@]*)@")
_QUERY = re.compile(r"(https?://[^?\s]*)\?\S+|(://[^?\s]*)\?\S*=\S*")  # a store may have ? in its names, and in globs


def without_secrets(text: str, url: str = "") -> str:
    """Leave the user, the password and the signature out of URLs; those of `url` also where they stand alone.

    >>> without_secrets("cannot read ftp://me:secret@host/a.jsonl or https://host/b.jsonl?token=secret")
    'cannot read ftp://…@host/a.jsonl or https://host/b.jsonl?…'
    >>> without_secrets("there is no bucket me:secret@host", "s3://me:secret@host/a.jsonl")
    'there is no bucket …@host'
    """
    for found in _USER.finditer(url):
        user = found[0][3:-1]
        password = user.partition(":")[2]
        for secret in filter(None, (user, user.partition("/")[0], password, password.partition("/")[0])):
            text = text.replace(secret, "…")
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1\2?…", _USER.sub("://…@", text))


def shown(path: str) -> str:
    """Spell a path for a message: one with line breaks or bytes that are not UTF-8 is quoted and escaped."""
    path = without_secrets(path)
    return path if path.isprintable() else repr(path)


def utf8(path: str) -> str:
    """Spell a path so that it can be written as UTF-8 into a document, whatever bytes it is made of."""
    return os.fsencode(without_secrets(path)).decode(errors="backslashreplace")


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Name a file in errors of the operating system that do not: a failed write says no more than "no space left"."""
    try:
        yield
    except OSError as exc:
        if exc.filename is None:
            exc.filename = path
        raise


class FastrecError(Exception):
    """The family's root: whoever catches this catches everything that fastrec raises on purpose."""

    exit_code = 3


class UsageError(FastrecError):
    """What the caller asked for makes no sense; the message says what would."""

    exit_code = 2


class WorkerDiedError(FastrecError):
    """A worker process died of a task, and died again when the task was tried alone; `task` names it."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return (
            f"a worker process died twice of the same task: {self.task}. It was killed, perhaps for want of memory, or "
            "it crashed. Nothing was published. Try again with fewer --jobs or less --memory, or leave the shard out"
        )


class LockedError(FastrecError):
    """Another run writes to the same place."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder

    def __str__(self) -> str:
        return f"{shown(self.path)} is being written by another run, {self.holder}: wait until it ends, or stop it"


class ClusterError(FastrecError):
    """A cluster cannot be used: it does not answer, its workers are gone, or they are of another version."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"the Dask cluster at {shown(self.address)}: {self.reason}"


class _Finding(Protocol):
    """What an error needs of a `Finding`, which is defined in a higher layer."""

    @property
    def code(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def message(self) -> str: ...


class InvalidRecordError(FastrecError, ValueError):
    """A line is not a valid record; `findings` lists every reason, `source` and `line` its place, if known."""

    exit_code = 1

    def __init__(self, findings: Sequence[_Finding], source: str | None = None, line: int | None = None) -> None:
        super().__init__(findings, source, line)
        self.findings = findings
        self.source = source
        self.line = line

    def __str__(self) -> str:
        place = "" if self.source is None else f"{shown(self.source)}, line {self.line}: "
        return place + "; ".join(f"{finding.path}: {finding.message} [{finding.code}]" for finding in self.findings)


class ShardError(FastrecError):
    """A shard cannot be used: none of its records count, since its last byte was not read and checked."""

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        super().__init__(path, reason, offset)
        self.path = path
        self.reason = reason
        self.offset = offset

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at byte {self.offset:,}"
        return f"{shown(self.path)}: {self.reason}{place}"


class ShardMissingError(ShardError):
    """The shard is not there, is not a regular file, or may not be opened."""


class ShardTruncatedError(ShardError):
    """The shard ends in the middle of a compressed frame: fetch it again."""


class ShardCorruptError(ShardError):
    """The shard's bytes are not what its format or its checksum says."""


class ShardLimitError(ShardError):
    """Reading the shard would need more memory than a limit allows; the reason names the option that raises it."""


def out_of_memory(path: str) -> ShardLimitError:
    """Say that a shard could not be read for want of memory."""
    return ShardLimitError(path, "needs more memory than there is, for one of its lines: try fewer --jobs")


class BadShardsError(FastrecError):
    """Some shards could not be read whole; `errors` has one ShardError for each."""

    def __init__(self, errors: Sequence[ShardError]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        count = "1 shard" if len(self.errors) == 1 else f"{len(self.errors):,} shards"
        return "\n".join(
            [
                f"{count} could not be read whole; nothing was published:",
                *(f"  {error}" for error in self.errors),
                "Fetch them again, leave them out, or give --skip-bad-shards to publish the others.",
            ]
        )


class CorpusError(FastrecError):
    """A file of a published corpus is not what fastrec writes: it was damaged, or made by another version."""

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        super().__init__(path, reason, line)
        self.path = path
        self.reason = reason
        self.line = line

    def __str__(self) -> str:
        place = "" if self.line is None else f", line {self.line}"
        return f"{shown(self.path)}{place}: {self.reason}"
