"""`manifest.json`: the inputs, options and files of a corpus. It holds no time and no host name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from fastrec.errors import counted
from fastrec.sorting.keys import FIELDS, METRIC, key_splitter, sample_id_of, split_scope, text_of
from fastrec.summary.document import json_safe

__all__ = [
    "MANIFEST_FORMAT",
    "InputEntry",
    "KeyEntry",
    "Manifest",
    "PartEntry",
    "RejectsEntry",
    "files_of",
    "is_refused",
    "key_entry",
    "listed_files",
    "skipped_lines",
    "tree_hash",
]

MANIFEST_FORMAT: Final = 2
_MOST_SKIPPED: Final = 20  # listed in a message


class KeyEntry(msgspec.Struct, kw_only=True, frozen=True):
    """The fields that a record is sorted by."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    evaluation_id: str
    sample_id: int | str
    evaluation_result_id: str | msgspec.UnsetType | None = msgspec.UNSET
    """Null if the record has none; absent if its schema version has no such field."""


class PartEntry(msgspec.Struct, kw_only=True):
    """A part of the corpus."""

    file: str
    """Its name in the corpus."""
    records: int
    """Number of records, one per line."""
    bytes: int
    """Size of the file."""
    sha256: str
    """SHA-256 of the file."""
    text_bytes: int
    """Size of the decompressed text."""
    text_sha256: str
    """SHA-256 of the decompressed text."""
    first: KeyEntry
    """Key of its first record."""
    last: KeyEntry
    """Key of its last record."""


class RejectsEntry(msgspec.Struct, kw_only=True):
    """The rejects file."""

    file: str
    """Its name in the corpus."""
    records: int
    """Number of rejected lines."""
    bytes: int
    """Size of the file."""
    sha256: str
    """SHA-256 of the file."""


class InputEntry(msgspec.Struct, kw_only=True):
    """A shard that was read, and its line counts. Of exact duplicates, the first in the order of inputs is kept."""

    path: str
    """As given or found; `-` is standard input."""
    format: str
    """Compression, detected by the first bytes."""
    bytes: int
    """Size of the file."""
    text_bytes: int
    """Size of the decompressed text."""
    lines: int
    """Lines, including blank ones."""
    kept: int
    """Records that are in the corpus."""
    duplicates: int
    """Records left out because an exact duplicate was kept."""
    rejected: int
    """Lines in the rejects file."""
    blank: int
    """Lines with nothing but white space."""
    repaired: dict[str, int] = msgspec.field(default_factory=dict)
    """By code, valid lines that were repaired; a line may have several repairs."""


class Manifest(msgspec.Struct, kw_only=True):
    """The document `manifest.json`."""

    format: int = MANIFEST_FORMAT
    """Version of the format of this document."""
    fastrec: str
    """Version of fastrec."""
    schema: str
    """Version of the record schema."""
    options: dict[str, object]
    """Options that influence the content of the corpus."""
    sort_fields: tuple[str, ...]
    """Fields that records are sorted by; records that agree in all of them are sorted by their bytes."""
    records: int
    """Records in all parts."""
    text_bytes: int
    """Size of the decompressed text of all parts."""
    text_sha256: str
    """SHA-256 of the concatenated `text_sha256` of all parts, as raw bytes."""
    parts: list[PartEntry]
    """Parts, in sort order."""
    rejects: RejectsEntry | None
    """Null if no line was rejected."""
    summary_file: str = "summary.json"
    """Name of the summary. It differs only in an object store, if the corpus has replaced another one."""
    summary_sha256: str
    """SHA-256 of the summary."""
    inputs: list[InputEntry]
    """Shards that were read."""
    skipped: list[str]
    """Shards that were left out because they could not be read."""
    refused: str | None = None
    """Why the corpus was not published; null if it was. A refused corpus is in `OUT.refused` instead of `OUT`."""

    def to_json(self) -> bytes:
        """Encode the document: indented, with a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def files_of(manifest: Manifest) -> set[str]:
    """Return the names of the files that a manifest lists."""
    names = {part.file for part in manifest.parts} | {manifest.summary_file}
    return names | ({manifest.rejects.file} if manifest.rejects else set())


class _Refused(msgspec.Struct):
    """What `is_refused` reads of a manifest."""

    refused: str


def is_refused(document: bytes) -> bool:
    """Return whether a document is the manifest of a refused corpus."""
    try:
        msgspec.json.decode(document, type=_Refused)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


class _ListedFile(msgspec.Struct):
    file: str


class _Listing(msgspec.Struct):
    """What `listed_files` reads of a manifest: the same in all versions."""

    fastrec: str
    parts: list[_ListedFile]
    summary_file: str = "summary.json"
    rejects: _ListedFile | None = None


def listed_files(document: bytes) -> set[str]:
    """Return the names of the files that a manifest of any version lists; none if it is of something else."""
    try:
        listing = msgspec.json.decode(document, type=_Listing)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()
    rejects = [listing.rejects.file] if listing.rejects else []
    return {listing.summary_file, *rejects, *(part.file for part in listing.parts)}


def key_entry(key: bytes, sort_fields: Sequence[str]) -> KeyEntry:
    """Decode a sort key."""
    scope, *strings, sample_id = key_splitter(sort_fields)(key)
    evaluation, metric = split_scope(scope)
    return KeyEntry(
        evaluation_name=evaluation,
        **dict(zip(FIELDS[1:], map(text_of, strings), strict=False)),
        sample_id=json_safe(sample_id_of(sample_id)),
        evaluation_result_id=metric if METRIC in sort_fields else msgspec.UNSET,
    )


def skipped_lines(skipped: Sequence[str]) -> list[str]:
    """Return the lines of a message about the shards that a corpus lacks; none if it lacks none.

    >>> skipped_lines(["a.gz: is empty"])
    ['incomplete: 1 shard could not be read and was skipped:', '  a.gz: is empty']
    """
    if not skipped:
        return []
    were = "was" if len(skipped) == 1 else "were"
    more = len(skipped) - _MOST_SKIPPED
    return [
        f"incomplete: {counted(len(skipped), 'shard')} could not be read and {were} skipped:",
        *(f"  {reason}" for reason in skipped[:_MOST_SKIPPED]),
        *([f"  … and {more:,} more, listed in manifest.json"] if more > 0 else []),
    ]


def tree_hash(digests: Iterable[str]) -> str:
    """Return the SHA-256 of concatenated SHA-256 digests, as raw bytes."""
    return sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()
