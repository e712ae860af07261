"""Publishing in an object store, which has no rename: parts first, then the manifest.

    OUT/.fastrec-writing                         the lease of the run; stays if it leaves files
    OUT/part-00000-0123456789abcdef.jsonl.zst    its final name, with the token of the run
    OUT/manifest.json                            written last: from then on there is a corpus
    DIR/.OUT.….fastrec-work/0123456789abcdef/    runs and the journal of a run
    OUT.refused/                                 a corpus that was refused: copied from OUT

Readers take the files that the manifest names, and no others. No two runs write files of the same
name, so a run that lost its lease and does not know it yet disturbs nobody. The manifest is the
only object that all runs write, and it is written only if it still is the one that this run saw at
the start. So of two runs that replace the same corpus, one publishes, and the other one fails.

Nothing is removed that a manifest names, or may yet name: a run whose lease has lapsed may be just
about to publish. Once this run has published, no run that began before can. Only then it removes
the files of the corpus that it replaced, and those that other runs left before that moment. In a
store without conditional requests, it removes the latter only if their run has certainly ended.

Without a manifest or a lease, nothing in OUT is ours, whatever its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fastrec.corpus.lock import Lease
from fastrec.corpus.manifest import is_refused
from fastrec.corpus.output import REFUSED, Kind, Output, not_refused
from fastrec.errors import DamagedFileError, LockedError, LostLeaseError, UsageError, shown
from fastrec.storage import base_name, is_url, join, parent_of, storage_of
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.storage.shared_object import ChangedError, SharedObject

_LEASE = ".fastrec-writing"

# The files of a corpus, and the files by which workers show that they can write.
_FILE = re.compile(
    r"(?:part-\d+|rejects|summary)-([0-9a-f]{16})"
    r"\.(?:json(?:l(?:\.zst|\.gz)?)?|columns|sources\.zst)"
)
_PROBE = re.compile(r"\.fastrec-probe-[0-9a-f-]+")


def token_in(name: str) -> str | None:
    """Return the token in the name of a file of a run; None if it has none.

    >>> token_in("part-00000-0123456789abcdef.jsonl.zst"), token_in("part-00000.jsonl.zst")
    ('0123456789abcdef', None)
    """
    matched = _FILE.fullmatch(name)
    return matched[1] if matched else None


def _stem_of(name: str) -> str:
    """Return the name of a file of a run without its token."""
    token = token_in(name)
    return name.replace(f"-{token}", "", 1) if token else name


def is_of_a_run(name: str) -> bool:
    """Return whether a file was made by some run, whether it is published or not.

    >>> [is_of_a_run(name) for name in ("summary-0123456789abcdef.json", "summary.json")]
    [True, False]
    """
    return name == _LEASE or token_in(name) is not None or _PROBE.fullmatch(name) is not None


class StoreOutput(Output):
    def __init__(self, url: str, kind: Kind, work_root: str, lease: Lease) -> None:
        self.work_root = work_root
        self.work = join(work_root, lease.token)
        self._url = url
        self._kind = kind
        self._lease = lease
        self.refused = url + REFUSED
        self._new_manifest = b""
        self._manifest = SharedObject(OBJECT_STORE, join(url, kind.marker), lease.is_conditional)
        self.old_marker = self._manifest.read()
        self._old_files = kind.files(self.old_marker) if self.old_marker else set()

    def check(self) -> None:
        self._lease.check()

    def staged(self, name: str) -> str:
        self.check()
        return join(self._url, name)

    def named(self, stem: str, suffix: str) -> str:
        return f"{stem}-{self._lease.token}{suffix}"

    def staged_files(self) -> list[str]:
        token = self._lease.token
        return [path for path in self._leftovers() if token_in(self._name_of(path)) == token]

    def _leftovers(self) -> list[str]:
        """List the unpublished files of all runs; all others belong to somebody else, and stay."""
        return [path for path in self._unpublished() if is_of_a_run(self._name_of(path))]

    def _name_of(self, path: str) -> str:
        return path.removeprefix(f"{self._url}/")

    def _unpublished(self) -> list[str]:
        published = {*self._old_files, self._kind.marker, _LEASE}
        files = OBJECT_STORE.files_in(self._url)
        return [path for path in files if self._name_of(path) not in published]

    def rename(self, name: str, new_name: str) -> None:
        OBJECT_STORE.copy(self.staged(name), self.staged(new_name))
        OBJECT_STORE.remove(self.staged(name))

    def write_marker(self, document: bytes) -> None:
        """Hold the manifest back until the output is published."""
        self._new_manifest = document

    def refuse_existing(self, *, overwrite: bool) -> None:
        name = shown(self._url)
        if self.old_marker is not None and not overwrite:
            raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
        if self.old_marker is not None and not self._old_files:
            raise UsageError(
                f"{name} holds a {self._kind.marker} that is not of {self._kind.name}: choose "
                "another"
            )
        others = sorted(set(self._unpublished()).difference(self._leftovers()))
        if others and self.old_marker is None:
            raise _foreign_file(self._url, others[0], self._kind)

    def prepare(self, *, fresh: bool) -> None:
        """Abort uploads that were never completed.

        With `fresh`, remove the work of earlier runs.
        """
        storage = storage_of(self.work)
        if fresh:
            storage.remove_all(self.work_root)
        for directory in (self.work_root, self.work):
            storage.make_directory(directory)
        for directory in filter(is_url, (self._url, self.work_root)):
            OBJECT_STORE.abort_uploads(directory)

    def publish(self) -> None:
        self._lease.renew()
        leftovers = self._leftovers()
        try:
            if self._manifest.read() != self.old_marker:
                raise ChangedError(self._url)  # noqa: TRY301
            self._manifest.write(self._new_manifest)
        except ChangedError:
            raise LostLeaseError(self._url, "which has published a corpus since") from None
        old = self._old_files
        self._old_files = self._kind.files(self._new_manifest)
        # Files that stay do no harm; a later run removes them.
        with suppress(OSError, LockedError):
            self._lease.renew()
            OBJECT_STORE.remove(*(join(self._url, name) for name in old - self._old_files))
            OBJECT_STORE.remove(*filter(self._is_useless, leftovers))
        OBJECT_STORE.abort_uploads(self._url, having=self._lease.token)  # of workers that died

    def _is_useless(self, path: str) -> bool:
        """Return whether no run can publish a file that was there before this run published."""
        is_published = self._name_of(path) in self._old_files
        return not is_published and (self._lease.is_conditional or self._has_ended(path))

    def _has_ended(self, path: str) -> bool:
        token = token_in(self._name_of(path))
        return token is None or token in self._lease.ended_runs

    def check_refused(self) -> None:
        """Raise a UsageError if `OUT.refused` holds anything but a refused corpus."""
        marker = join(self.refused, self._kind.marker)
        files = OBJECT_STORE.files_in(self.refused)
        is_ours = not files or join(self.refused, _LEASE) in files
        if marker in files:
            is_ours = is_refused(OBJECT_STORE.read_all(marker))
        if not is_ours:
            raise not_refused(self.refused)

    def refuse(self) -> None:
        """Copy all files to `OUT.refused`, and write the manifest there last."""
        with self._open_refused() as refused:
            for name in sorted(self._kind.files(self._new_manifest)):
                OBJECT_STORE.copy(self.staged(name), refused.staged(name))
            refused.write_marker(self._new_manifest)
            refused.publish()

    def remove_refused(self) -> None:
        with suppress(OSError, LockedError, UsageError):
            if OBJECT_STORE.files_in(self.refused):
                with self._open_refused() as refused:
                    refused.remove()

    @contextmanager
    def _open_refused(self) -> Iterator[StoreOutput]:
        self.check_refused()
        lease = Lease(OBJECT_STORE, join(self.refused, _LEASE), self.refused)
        with lease.held():
            refused = StoreOutput(self.refused, self._kind, self.work_root, lease)
            self.check_refused()
            try:
                yield refused
            except BaseException:
                lease.stays = True
                raise

    def remove(self) -> None:
        """Remove a published output, its marker first, and what killed runs left beside it."""
        leftovers = self._leftovers()
        if self.old_marker is not None:
            self._manifest.remove()
        OBJECT_STORE.remove(*(join(self._url, name) for name in self._old_files), *leftovers)

    def leftovers(self) -> tuple[list[str], list[str]]:
        """List unpublished files of runs that have ended, and those that may yet be published."""
        lists = list[str](), list[str]()
        for path in self._leftovers():
            lists[not self._has_ended(path)].append(path)
        return lists

    def has_leftovers(self) -> bool:
        try:
            return bool(self._leftovers())
        except OSError:  # the store may be what failed
            return True

    def clear(self) -> None:
        """Remove the unpublished files of this run, and all work, unless another took over."""
        with suppress(OSError, LockedError):
            self._lease.renew()
            OBJECT_STORE.remove(*(path for path in self.staged_files() if path not in self.kept))
            storage = storage_of(self.work_root)
            if not self.kept:
                storage.remove_all(self.work_root)
                return
            kept = {*self.kept, self.kept_path}
            storage.remove(*(path for path in self._all_work() if path not in kept))
            if not is_url(self.work_root):
                kept |= set(map(parent_of, kept))
                directories = filter(storage.is_directory, storage.files_in(self.work_root))
                storage.remove(*(path for path in directories if path not in kept))

    def reuse(self, path: str, name: str) -> str:
        """Keep a file under its name, if only the token differs; else copy it within the store."""
        if _stem_of(base_name(path)) == _stem_of(name) and parent_of(path) == self._url:
            return path
        OBJECT_STORE.copy(path, self.staged(name))
        return self.staged(name)

    def keep(self, path: str, _name: str, *, linked: bool = True) -> str:  # noqa: ARG002
        return path

    def _all_work(self) -> list[str]:
        storage = storage_of(self.work_root)
        files = storage.files_in(self.work_root)
        if is_url(self.work_root):  # these are all files below it
            return files
        directories = filter(storage.is_directory, files)
        return [file for path in directories for file in storage.files_in(path)]


@contextmanager
def open_store_output(
    output: str, kind: Kind, work: str, *, overwrite: bool, fresh: bool
) -> Iterator[StoreOutput]:
    output = output.rstrip("/")
    lease = lease_of(output, kind)
    with lease.held():
        opened = StoreOutput(output, kind, work, lease)
        try:
            opened.refuse_existing(overwrite=overwrite)
            opened.prepare(fresh=fresh)
            yield opened
            opened.clear()
        except (OSError, DamagedFileError):
            with suppress(OSError):
                lease.renew()  # a file may be missing because another run took over, and removed it
            raise
        finally:
            lease.stays = opened.has_leftovers()


def lease_of(output: str, kind: Kind) -> Lease:
    """Return the lease of an output, which is not taken yet.

    UsageError if the output cannot be ours.
    """
    if not base_name(output) or output.count("/") < 3:
        raise UsageError(f"{shown(output)} is a whole store: name a directory in it for the corpus")
    lease = Lease(OBJECT_STORE, join(output, _LEASE), output)
    if not lease.exists():
        files = OBJECT_STORE.files_in(output)
        if files and join(output, kind.marker) not in files:
            raise _foreign_file(output, files[0], kind)
    return lease


def _foreign_file(output: str, path: str, kind: Kind) -> UsageError:
    return UsageError(
        f"{shown(output)} holds something other than {kind.name}, {shown(path)}: choose another"
    )
