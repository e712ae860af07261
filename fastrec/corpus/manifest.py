"""`manifest.json`: what made a corpus, and what each of its files is. No time, no host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from fastrec.sorting.keys import FIELDS, key_splitter, sample_id_of, text_of
from fastrec.summary.document import json_safe

__all__ = [
    "MANIFEST_FORMAT",
    "InputEntry",
    "KeyEntry",
    "Manifest",
    "PartEntry",
    "RejectsEntry",
    "key_entry",
    "tree_hash",
]

MANIFEST_FORMAT: Final = 2


class KeyEntry(msgspec.Struct, kw_only=True, frozen=True):
    """The fields that a record is sorted by."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    evaluation_id: str
    sample_id: int | str


class PartEntry(msgspec.Struct, kw_only=True):
    """A part of the corpus."""

    file: str
    """Its name in the corpus."""
    records: int
    """How many it holds, one a line."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Of the file."""
    text_bytes: int
    """Size of the text in it, once it is decompressed."""
    text_sha256: str
    """Of the text in it."""
    first: KeyEntry
    """Key of its first record."""
    last: KeyEntry
    """Key of its last record."""


class RejectsEntry(msgspec.Struct, kw_only=True):
    """The rejects file."""

    file: str
    """Its name in the corpus."""
    records: int
    """Rejected lines in it."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Of the file."""


class InputEntry(msgspec.Struct, kw_only=True):
    """A shard that was read, and the books of its lines. Of exact copies the first in the order of inputs is kept."""

    path: str
    """As it was named or found; `-` is standard input."""
    format: str
    """How it is compressed, told by its first bytes."""
    bytes: int
    """Size of the file."""
    text_bytes: int
    """Size of the text in it, once it is decompressed."""
    lines: int
    """Lines read, blank ones included."""
    kept: int
    """Records of it that are in the corpus."""
    duplicates: int
    """Records of it of which an exact copy was kept."""
    rejected: int
    """Lines of it in the rejects file."""
    blank: int
    """Lines of white space alone."""


class Manifest(msgspec.Struct, kw_only=True):
    """What made a corpus."""

    format: int = MANIFEST_FORMAT
    """Version of this document's format."""
    fastrec: str
    """Version of fastrec."""
    schema: str
    """Version of the record schema."""
    options: dict[str, object]
    """Those that have an influence on the corpus."""
    sort_fields: tuple[str, ...]
    """The fields that records are sorted by; their bytes come last."""
    records: int
    """In all parts."""
    text_bytes: int
    """In all parts."""
    text_sha256: str
    """SHA-256 over the parts' `text_sha256`, as raw bytes one after the other."""
    parts: list[PartEntry]
    """In the order of their records."""
    rejects: RejectsEntry | None
    """Null if no line was rejected."""
    summary_file: str = "summary.json"
    """Name of the summary; another only in a store, where the corpus has replaced one."""
    summary_sha256: str
    """Of the summary."""
    inputs: list[InputEntry]
    """Shards that were read."""
    skipped: list[str]
    """Shards that could not be read and were left out."""

    def to_json(self) -> bytes:
        """Spell the document: indented, a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def key_entry(key: bytes, sort_fields: Sequence[str]) -> KeyEntry:
    """Decode a sort key."""
    *strings, sample_id = key_splitter(sort_fields)(key)
    return KeyEntry(
        **dict(zip(FIELDS, map(text_of, strings), strict=False)), sample_id=json_safe(sample_id_of(sample_id))
    )


def tree_hash(digests: Iterable[str]) -> str:
    """Return the SHA-256 over some SHA-256 digests, as raw bytes one after the other."""
    return sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()
