"""Kept work: what a run with `--incremental` leaves in the work directory for the next one.

    parts        the parts of the corpus, which the next run reads like runs; each with its index, borders and counts
    pieces       per piece of input: its counts, its statistics, and its rejected lines
    shards       size, modification time and inode (or ETag) of each shard, and a hash of its bytes

One document lists all of it. The next one is written just before the corpus is published, and replaces it afterwards.
So a run that is killed leaves one whose files are in place: what no document needs is removed by the next run.

Nothing of it is trusted. The document has a checksum. Its purpose has to be the same. All files have to be unchanged,
by size, modification time and inode, or by content with `--check content`. What is read has checksums of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.corpus.manifest import RejectsEntry
from fastrec.engine.base import Engine
from fastrec.errors import shown
from fastrec.normalize.changes import KeptShard
from fastrec.normalize.journal import difference, framed, unframed
from fastrec.normalize.results import Part, SortResult
from fastrec.sources.lines import ReadStats
from fastrec.storage import storage_of
from fastrec.storage.digests import hash_of_file, sha256_of_file

__all__ = [
    "Kept",
    "KeptFile",
    "KeptRejects",
    "read_kept",
    "settle_kept",
    "signatures_of",
    "why_damaged",
    "why_unusable",
    "write_kept",
]

_FILES: Final = 1_000  # files whose signatures one task asks for


class KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that is kept."""

    path: str
    signature: str  # size, modification time and inode, or ETag
    hash: str  # 128-bit xxh3, or SHA-256 if it is longer


class KeptRejects(msgspec.Struct, frozen=True):
    """The rejected lines of the corpus, and what they were made of."""

    made_of: str
    path: str
    entry: RejectsEntry


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The document."""

    purpose: dict[str, Any]
    shards: list[KeptShard]
    tasks: list[SortResult]  # without runs; the shards of their pieces are positions in `shards`
    decompressed: dict[int, ReadStats]  # by position in `shards`: those that the driver decompressed
    parts: list[Part]
    lines: list[Any]  # what became of the records of each piece, packed
    order: list[int]  # the numbers of all pieces, in the order of the input
    summary: str  # path of the summary
    rejects: KeptRejects | None
    files: list[KeptFile]
    next_task: int
    next_piece: int


def write_kept(path: str, kept: Kept) -> None:
    """Replace the document."""
    storage_of(path).write_all(path, framed(_encode(kept)))


def read_kept(path: str) -> Kept | str | None:
    """Read the document; None if there is none, or why it cannot be read."""
    try:
        body = unframed(storage_of(path).read_all(path))
        return f"{shown(path)} is damaged" if body is None else _decode(body)
    except FileNotFoundError:
        return None
    except OSError as exc:
        return f"{shown(path)} cannot be read: {exc.strerror or exc}"
    except msgspec.MsgspecError:
        return f"{shown(path)} is of another version, or damaged"


def settle_kept(path: str, next_path: str) -> Kept | str | None:
    """Read the document that counts, as `read_kept` does: the next one if all its files are in place, and it stays."""
    newer = None if next_path == path else read_kept(next_path)
    if newer is None:
        return read_kept(path)
    storage = storage_of(path)
    is_in_place = isinstance(newer, Kept) and all(
        signature == file.signature
        for file, signature in zip(newer.files, _signatures([file.path for file in newer.files]), strict=True)
    )
    if is_in_place:
        storage.write_all(path, storage.read_all(next_path))
    with contextlib.suppress(FileNotFoundError):  # if it could not be read, it need not exist
        storage.remove(next_path)
    return newer if is_in_place else read_kept(path)


def why_unusable(kept: Kept, purpose: dict[str, Any]) -> str | None:
    """Return why the work of another purpose cannot be used; None if the purpose is the same."""
    before, now = _encode(kept.purpose), _encode(purpose)
    return None if before == now else difference(before, purpose)


def why_damaged(kept: Kept, engine: Engine, *, by_content: bool) -> str | None:
    """Return why kept work cannot be used, if a file is missing or changed."""
    if by_content:
        checked = engine.run(_has_hash, kept.files)
        changed = [kept.files[number] for number, is_same in checked if not is_same]
    else:
        found = signatures_of([file.path for file in kept.files], engine)
        changed = [file for file, signature in zip(kept.files, found, strict=True) if file.signature != signature]
    if not changed:
        return None
    first = shown(min(file.path for file in changed))
    if len(changed) == 1:
        return f"{first} is missing or has changed"
    return f"{len(changed):,} of its {len(kept.files):,} files are missing or have changed; the first is {first}"


def signatures_of(paths: Sequence[str], engine: Engine) -> list[str]:
    """Return the signatures of files, empty if they are missing; many are asked for in tasks: a store is slow."""
    if len(paths) <= _FILES:
        return _signatures(paths)
    groups = [paths[first : first + _FILES] for first in range(0, len(paths), _FILES)]
    return [signature for _, some in sorted(engine.run(_signatures, groups)) for signature in some]


def _signatures(paths: Sequence[str]) -> list[str]:
    """Return the signatures of some files. Runs in a worker if there are many."""
    found = []
    for path in paths:
        try:
            found.append(storage_of(path).signature(path))
        except OSError:
            found.append("")
    return found


def _has_hash(file: KeptFile) -> bool:
    """Check the content of a file. Runs in a worker."""
    read = sha256_of_file if len(file.hash) > 32 else hash_of_file
    try:
        return read(file.path)[1] == file.hash
    except OSError:
        return False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode
