"""The interface of an output: a directory that a run makes, and publishes when it is complete."""

import os
from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from typing import NamedTuple, Protocol

from fastrec.corpus.manifest import MANIFEST, listed_files
from fastrec.errors import UsageError, shown
from fastrec.storage import (
    base_name,
    fingerprint,
    is_url,
    join,
    parent_of,
    storage_of,
    without_file_protocol,
)

JOURNAL = "journal-"  # how the names of the files of a journal begin
KEPT = "kept"  # the name of the list of kept work in the work directory
NEXT = "-next"  # added to it, until the output is published
REFUSED = ".refused"


class Kind(NamedTuple):
    """A kind of output. An output replaces only another one of its kind."""

    name: str  # as in messages: a corpus
    marker: str  # the name of the file that marks a directory as an output of this kind
    # Returns the files that a marker lists; none if it is of something else.
    files: Callable[[bytes], set[str]]


CORPUS = Kind("a corpus", MANIFEST, listed_files)


class Output(Protocol):
    """An output directory while it is made, and the work directory that belongs to it."""

    work: str
    work_root: str  # the directory with all work of this output, of earlier runs too
    refused: str  # where the output is put if it is refused: `OUT.refused`
    # The marker of the output that this one would replace; None if there is no such output.
    old_marker: bytes | None = None
    # Files that stay after success, because the next run builds on them.
    kept: frozenset[str] = frozenset()

    def staged(self, name: str) -> str:
        """Return the path that a file of the output has before it is published."""

    def named(self, stem: str, suffix: str) -> str:
        """Return the name that a file of the output gets."""

    def staged_files(self) -> list[str]:
        """List the files of the output that are not published."""

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file of the output before it is published."""

    def write_marker(self, document: bytes) -> None:
        """Write the file that marks the output as complete."""

    def publish(self) -> None:
        """Publish the output atomically. If that fails, an old output stays as it was."""

    def check_refused(self) -> None:
        """Raise a UsageError if `OUT.refused` is anything but an output that was refused before."""

    def refuse(self) -> None:
        """Put the output at `OUT.refused` instead of publishing it, atomically.

        `OUT` stays as it is.
        """

    def remove_refused(self) -> None:
        """Remove an output that was refused before, as far as that is possible.

        Anything else stays.
        """

    def clear(self) -> None:
        """Remove everything that is not published, as far as that is possible."""

    def check(self) -> None:
        """Raise a LostLeaseError if another run has taken the output over.

        Cheap enough to be called all the time.
        """

    def reuse(self, path: str, name: str) -> str:
        """Make a file of the last output a file of this one, and return its path.

        Its content is not copied.
        """

    def keep(self, path: str, name: str, *, linked: bool = True) -> str:
        """Return where the next run finds a file of this output; if `linked`, also without it."""

    def before_publishing(self, path: str) -> str:
        """Return where a file is now that `path` names after the output is published."""
        return path

    @property
    def kept_path(self) -> str:
        return join(self.work_root, KEPT)

    def keep_files(self, document: bytes, files: frozenset[str]) -> None:
        """Keep some files, and their list; it counts once all of them are in place."""
        self.check()
        is_in_place = all(self.before_publishing(path) == path for path in files)
        path = self.kept_path if is_in_place else self.kept_path + NEXT
        storage_of(path).write_all(path, document)
        self.kept = files

    def journals(self) -> list[str]:
        """The files of the journals of this run and of earlier ones, in their order.

        Without those that a killed run was about to write, which have longer names.
        """
        files = [
            path for path in self._all_work() if base_name(path).removeprefix(JOURNAL).isdigit()
        ]
        return sorted(files, key=base_name)

    def working(self, name: str) -> str:
        return join(self.work, name)

    def write(self, name: str, pieces: Iterable[bytes]) -> str:
        """Write a document that is published; return its SHA-256."""
        self.check()
        path = self.staged(name)
        digest = sha256()
        with storage_of(path).create(path) as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def sync(self, path: str) -> None:
        """Wait until a file of the output that a worker has made is on disk."""
        storage_of(path).sync(path)

    def sweep(self, keep: Collection[str]) -> None:
        """Remove all unpublished files and work files, except those to keep."""
        self.check()
        for directory, files in (
            (self.staged(""), self.staged_files()),
            (self.work, [*self._work_files(), *self.journals()]),
        ):
            storage_of(directory).remove(*(path for path in files if path not in keep))

    def holds_work(self) -> bool:
        try:
            return bool(self._work_files() or self.staged_files())
        except OSError:  # the disk may be what failed: keep too much rather than too little
            return True

    def _work_files(self) -> list[str]:
        """The work files besides the journals and the list of kept work."""
        others = {self.kept_path, self.kept_path + NEXT, *self.journals()}
        return [path for path in self._all_work() if path not in others]

    def _all_work(self) -> list[str]:
        """All work files, of earlier runs too."""
        return storage_of(self.work).files_in(self.work)


def not_refused(path: str) -> UsageError:
    return UsageError(
        f"{shown(path)} exists, and is not a refused corpus: a corpus that is refused would be "
        "put there. Rename it, "
        "or give another output"
    )


def work_root_of(output: str, work_dir: str | None) -> str:
    """The work directory of an output: beside it, or below `work_dir`, which outputs share."""
    output = output.rstrip("/") if is_url(output) else os.path.realpath(output)
    if not work_dir and not is_url(output):
        return join(parent_of(output), f".{base_name(output)}.fastrec-work")
    directory = without_file_protocol(work_dir or parent_of(output))
    if not is_url(directory):
        directory = os.path.realpath(directory)
    elif not is_url(output):
        import socket  # noqa: PLC0415 - takes 4 ms, and is rarely needed

        # An output of the same name on another machine is another one; a store has no lock to
        # tell them apart.
        output = f"{socket.gethostname()}:{output}"
    name = f".{base_name(output)}.{fingerprint(os.fsencode(output)):016x}.fastrec-work"
    return join(directory, name)
