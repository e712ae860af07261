"""Publishing in an object store, which has no rename: the parts first, then the manifest in one request.

    OUT/.fastrec-writing        the lease of the run that writes OUT; removed when OUT holds nothing but a corpus
    OUT/part-00000.jsonl.zst    written under its final name
    OUT/manifest.json           written last: from then on there is a corpus, or a new one
    DIR/.OUT.….fastrec-work/    runs and the journal
    OUT.refused/                the corpus of the last run, if it was refused: copied from OUT within the store

Readers take the files that the manifest names, and no others. So the files of a corpus that replaces another need other
names: they carry some digits of the hash of the old manifest. The old corpus stays readable until the new manifest is
written; then its files are removed. No manifest names the files of a killed run, and the next run removes them. Without
a manifest or a lease, nothing in OUT is ours, whatever its name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec

from fastrec.corpus.lock import Lease
from fastrec.corpus.manifest import Manifest, is_refused
from fastrec.corpus.output import REFUSED, Kind, Output, not_refused, work_of
from fastrec.errors import LockedError, UsageError, shown
from fastrec.limits import LIMITS, Limits
from fastrec.storage import is_url, join, parent_and_name, storage_of
from fastrec.storage.object_store import OBJECT_STORE

__all__ = ["StoreOutput", "open_store_output"]

_LEASE: Final = ".fastrec-writing"

# Files that a run makes in OUT, and the files by which workers show that they can write there.
_OURS = re.compile(r"(part-\d+|rejects|summary)(-[0-9a-f]{8})?\.json(l(\.zst|\.gz)?)?|\.[0-9a-f]{16}(-[0-9a-f]{8})?")


class StoreOutput(Output):
    """An output directory in an object store."""

    def __init__(self, url: str, kind: Kind, work: str, lease: Lease, limits: Limits) -> None:
        self.work = work
        self._url = url
        self._kind = kind
        self._lease = lease
        self._limits = limits
        self.refused = url + REFUSED
        self._new_manifest = b""
        self._old_manifest: bytes | None = None
        with contextlib.suppress(FileNotFoundError):
            self._old_manifest = OBJECT_STORE.read_all(join(url, kind.marker))
        self._old_files = _files_of(self._old_manifest) if self._old_manifest else set()

    def staged(self, name: str) -> str:
        """Return the path of a file of the output, which is written under its final name."""
        return join(self._url, name)

    def named(self, stem: str, suffix: str) -> str:
        """Return a name that no file of the old corpus has."""
        token = f"-{sha256(self._old_manifest).hexdigest()[:8]}" if self._old_manifest else ""
        return f"{stem}{token}{suffix}"

    def staged_files(self) -> list[str]:
        """List the unpublished files of runs; all other files belong to somebody else, and stay."""
        return [path for path in self._unpublished() if _OURS.fullmatch(path.removeprefix(f"{self._url}/"))]

    def _unpublished(self) -> list[str]:
        published = {join(self._url, name) for name in (*self._old_files, self._kind.marker, _LEASE)}
        return [path for path in OBJECT_STORE.files_in(self._url) if path not in published]

    def rename(self, name: str, new_name: str) -> None:
        OBJECT_STORE.move(self.staged(name), self.staged(new_name))

    def write_marker(self, document: bytes) -> None:
        """Hold the manifest back until the output is published."""
        self._new_manifest = document

    def refuse_existing(self, *, overwrite: bool) -> None:
        """Refuse to replace anything but a corpus, and a corpus without `overwrite`."""
        name = shown(self._url)
        if self._old_manifest is not None and not overwrite:
            raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
        if self._old_manifest is not None and not self._old_files:
            raise UsageError(f"{name} holds a {self._kind.marker} that is not of {self._kind.name}: choose another")
        others = sorted(set(self._unpublished()) - set(self.staged_files()))
        if others and self._old_manifest is None:
            raise _foreign_file(self._url, others[0], self._kind)

    def prepare(self, *, fresh: bool) -> None:
        """Abort uploads that were never completed; with `fresh`, remove what an earlier run left."""
        storage = storage_of(self.work)
        if fresh:
            OBJECT_STORE.remove(*self.staged_files())
            storage.remove_all(self.work)
        storage.make_directory(self.work)
        for directory in filter(is_url, (self._url, self.work)):
            OBJECT_STORE.abort_uploads(directory)

    def publish(self) -> None:
        """Write the manifest. If that fails, the old corpus stays as it was."""
        self._lease.check()
        OBJECT_STORE.write_all(join(self._url, self._kind.marker), self._new_manifest)
        old, self._old_files = self._old_files, _files_of(self._new_manifest)
        with contextlib.suppress(OSError):  # files of the old corpus that stay do no harm; a later run removes them
            OBJECT_STORE.remove(*(join(self._url, name) for name in old - self._old_files))
        OBJECT_STORE.abort_uploads(self._url)  # of workers that died

    def old_marker(self) -> bytes | None:
        return self._old_manifest

    def check_refused(self) -> None:
        """Raise a UsageError if there are objects in `OUT.refused` without a lease or the manifest of a refused one."""
        marker = join(self.refused, self._kind.marker)
        files = OBJECT_STORE.files_in(self.refused)
        if marker in files and not is_refused(OBJECT_STORE.read_all(marker)):
            raise not_refused(self.refused)
        if files and marker not in files and join(self.refused, _LEASE) not in files:
            raise not_refused(self.refused)

    def refuse(self) -> None:
        """Copy all files to `OUT.refused`, and write the manifest there last."""
        with self._open_refused() as refused:
            for name in sorted(_files_of(self._new_manifest)):
                self._lease.check()
                OBJECT_STORE.copy(self.staged(name), refused.staged(name))
            refused.write_marker(self._new_manifest)
            refused.publish()

    def remove_refused(self) -> None:
        with contextlib.suppress(OSError, LockedError, UsageError):
            if OBJECT_STORE.files_in(self.refused):
                with self._open_refused() as refused:
                    refused.remove()

    @contextlib.contextmanager
    def _open_refused(self) -> Iterator[StoreOutput]:
        self.check_refused()
        lease = Lease(OBJECT_STORE, join(self.refused, _LEASE), self.refused, self._limits)
        with lease.held():
            refused = StoreOutput(self.refused, self._kind, self.work, lease, self._limits)
            self.check_refused()
            OBJECT_STORE.remove(*refused.staged_files())  # of a run that was killed here
            try:
                yield refused
            except BaseException:
                lease.stays = True
                raise

    def remove(self) -> None:
        """Remove a published output, its marker first."""
        OBJECT_STORE.remove(join(self._url, self._kind.marker))
        OBJECT_STORE.remove(*(join(self._url, name) for name in self._old_files))

    def is_unfinished(self) -> bool:
        """Return whether there are files of a corpus, but no corpus."""
        try:
            return self._old_manifest is None and bool(self.staged_files())
        except OSError:  # the store may be what failed
            return True

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            OBJECT_STORE.remove(*self.staged_files())
        storage_of(self.work).remove_all(self.work)


def _files_of(document: bytes) -> set[str]:
    """Return the files that a manifest names; none if it is not the manifest of a corpus."""
    try:
        manifest = msgspec.json.decode(document, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()
    names = {part.file for part in manifest.parts} | {manifest.summary_file}
    return names | ({manifest.rejects.file} if manifest.rejects else set())


@contextlib.contextmanager
def open_store_output(
    output: str, kind: Kind, work_dir: str | None, *, overwrite: bool, fresh: bool, limits: Limits = LIMITS
) -> Iterator[StoreOutput]:
    """Lease and prepare an output in an object store; see `fastrec.corpus.publish.open_output`."""
    output = output.rstrip("/")
    if not parent_and_name(output)[1] or output.count("/") < 3:
        raise UsageError(f"{shown(output)} is a whole store: name a directory in it for the corpus")
    work = work_of(output, work_dir or parent_and_name(output)[0])
    lease = Lease(OBJECT_STORE, join(output, _LEASE), output, limits)
    if not lease.exists():
        files = OBJECT_STORE.files_in(output)
        if files and join(output, kind.marker) not in files:
            raise _foreign_file(output, files[0], kind)
    with lease.held():
        made = StoreOutput(output, kind, work, lease, limits)
        made.refuse_existing(overwrite=overwrite)
        made.prepare(fresh=fresh)
        try:
            yield made
        except BaseException:
            lease.stays = made.is_unfinished()
            raise
        made.clear()


def _foreign_file(output: str, path: str, kind: Kind) -> UsageError:
    return UsageError(f"{shown(output)} holds something else than {kind.name}, {shown(path)}: choose another")
