"""Publishing in a store, which has no rename: the parts first, the manifest last, in one request.

    OUT/.fastrec-writing        the lease of the run that writes OUT; gone when there is nothing else but a corpus
    OUT/part-00000.jsonl.zst    written where it will stay
    OUT/manifest.json           put last: there is a corpus from now on, or another one
    DIR/.OUT.….fastrec-work/    runs and the journal

Whoever reads a corpus takes what its manifest names, and nothing else. So the files of a corpus that replaces another
must have other names: they carry some digits of the hash of the manifest that they replace. The old corpus can be read
until the manifest of the new one is put; then its files are removed. What a run that was killed has left is named by no
manifest, and is swept by the next one. Without a manifest or a lease nothing there is ours, whatever its name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from fastrec.corpus.lease import Lease
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.publish import Kind, Workplace, work_of
from fastrec.errors import UsageError, shown
from fastrec.storage import storage_of
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.storage.paths import is_url, join, parent_and_name

__all__ = ["StoreWorkplace", "store_workplace"]

LEASE = ".fastrec-writing"

# What a run makes in OUT, and the marks by which workers show that they can write there.
_OURS = re.compile(r"(part-\d+|rejects|summary)(-[0-9a-f]{8})?\.json(l(\.zst|\.gz)?)?|\.[0-9a-f]{16}(-[0-9a-f]{8})?")


class StoreWorkplace(Workplace):
    """The places of a run whose output is in a store."""

    def __init__(self, output: str, kind: Kind, work: str, lease: Lease) -> None:
        super().__init__(Path(output), kind, work)
        self._url = output
        self._lease = lease
        self._manifest_path = join(output, kind.told_by)
        self._document = b""
        self._old = _read(self._manifest_path)
        self._old_files = _named_by(self._old) if self._old else set()
        self._token = f"-{sha256(self._old).hexdigest()[:8]}" if self._old else ""

    def staged(self, name: str) -> str:
        """Name a file of the output: it is made where it will stay."""
        return join(self._url, name)

    def named(self, stem: str, suffix: str) -> str:
        """Give a name that no file of the old corpus has."""
        return f"{stem}{self._token}{suffix}"

    def staged_files(self) -> list[str]:
        """List what runs have left beside the old corpus; what else is there is somebody's, and stays."""
        return [path for path in self._beside() if _OURS.fullmatch(path.removeprefix(f"{self._url}/"))]

    def _beside(self) -> list[str]:
        kept = {join(self._url, name) for name in (*self._old_files, self._kind.told_by, LEASE)}
        return [path for path in OBJECT_STORE.files_in(self._url) if path not in kept]

    def rename(self, name: str, new_name: str) -> None:
        """Give a file of the output that is made another name."""
        OBJECT_STORE.move(self.staged(name), self.staged(new_name))

    def write_manifest(self, document: bytes) -> None:
        """Keep what tells that the output is whole until it is published."""
        self._document = document

    def refuse_what_is_there(self, *, overwrite: bool) -> None:
        """Refuse to replace anything but a corpus, and that only if told to."""
        name = shown(self._url)
        if self._old is not None and not overwrite:
            raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
        if self._old is not None and not self._old_files:
            raise UsageError(f"{name} holds a {self._kind.told_by} that is not of {self._kind.name}: choose another")
        others = sorted(set(self._beside()) - set(self.staged_files()))
        if others and self._old is None:
            raise UsageError(f"{name} holds something else than {self._kind.name}, {shown(others[0])}: choose another")

    def recover(self) -> None:
        """Nothing is ever half-published."""

    def prepare(self, *, fresh: bool) -> None:
        """Give up uploads that were never completed; what else an earlier run has left stays, unless told otherwise."""
        if fresh:
            OBJECT_STORE.remove(*self.staged_files())
            storage_of(self.work).remove_all(self.work)
        storage_of(self.work).make_directory(self.work)
        for directory in filter(is_url, (self._url, self.work)):
            OBJECT_STORE.abort_uploads(directory)

    def publish(self) -> None:
        """Put the manifest. If that fails, the old corpus is as it was."""
        self._lease.check()
        OBJECT_STORE.write_all(self._manifest_path, self._document)
        old, self._old_files = self._old_files, _named_by(self._document)
        with contextlib.suppress(OSError):  # what is left of the old corpus does no harm, and is swept some day
            OBJECT_STORE.remove(*(join(self._url, name) for name in old - self._old_files))
        OBJECT_STORE.abort_uploads(self._url)  # of workers that died

    def is_unfinished(self) -> bool:
        """Tell whether there are files of a corpus, and no corpus."""
        try:
            return self._old is None and bool(self.staged_files())
        except OSError:  # the store may be what failed
            return True

    def clear(self) -> None:
        """Remove what is not published."""
        with contextlib.suppress(OSError):
            OBJECT_STORE.remove(*self.staged_files())
        storage_of(self.work).remove_all(self.work)


def _read(path: str) -> bytes | None:
    try:
        return OBJECT_STORE.read_all(path)
    except FileNotFoundError:
        return None


def _named_by(document: bytes) -> set[str]:
    """Name the files of a corpus, all but the manifest itself; none if it is not one of ours."""
    try:
        manifest = msgspec.json.decode(document, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()
    names = {part.file for part in manifest.parts} | {manifest.summary_file}
    return names | ({manifest.rejects.file} if manifest.rejects else set())


@contextlib.contextmanager
def store_workplace(
    output: str, kind: Kind, work_dir: str | None, *, overwrite: bool, fresh: bool
) -> Iterator[Workplace]:
    """Take a place to work in; see `fastrec.corpus.publish.workplace`."""
    output = output.rstrip("/")
    if not parent_and_name(output)[1] or output.count("/") < 3:
        raise UsageError(f"{shown(output)} is a whole store: name a place in it for the corpus")
    work = work_of(output, work_dir or parent_and_name(output)[0])
    lease = Lease(join(output, LEASE), output)
    if not lease.is_there():
        _refuse_strangers(output, kind)
    with lease.held():
        place = StoreWorkplace(output, kind, work, lease)
        place.refuse_what_is_there(overwrite=overwrite)
        place.prepare(fresh=fresh)
        try:
            yield place
        except BaseException:
            lease.stays = place.is_unfinished()
            raise
        place.clear()


def _refuse_strangers(output: str, kind: Kind) -> None:
    """Refuse a place where no run of ours has been, and something is."""
    files = OBJECT_STORE.files_in(output)
    if files and join(output, kind.told_by) not in files:
        raise UsageError(f"{shown(output)} holds something else than {kind.name}, {shown(files[0])}: choose another")
