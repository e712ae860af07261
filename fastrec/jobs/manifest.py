"""`manifest.json`: what made a corpus, and what each of its files is. No time, no host."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["MANIFEST_FORMAT", "InputEntry", "KeyEntry", "Manifest", "PartEntry", "RejectsEntry"]

MANIFEST_FORMAT: Final = 1


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
    records: int
    bytes: int
    sha256: str
    """Of the file."""
    text_bytes: int
    text_sha256: str
    """Of the text in it."""
    first: KeyEntry
    last: KeyEntry


class RejectsEntry(msgspec.Struct, kw_only=True):
    """The rejects file."""

    file: str
    records: int
    bytes: int
    sha256: str


class InputEntry(msgspec.Struct, kw_only=True):
    """A shard that was read, and the books of its lines. Of exact copies the first in the order of inputs is kept."""

    path: str
    format: str
    bytes: int
    text_bytes: int
    lines: int
    kept: int
    duplicates: int
    rejected: int
    blank: int


class Manifest(msgspec.Struct, kw_only=True):
    """What made a corpus."""

    format: int = MANIFEST_FORMAT
    fastrec: str
    """Version of fastrec."""
    schema: str
    """Version of the record schema."""
    options: dict[str, object]
    """Those that have an influence on the corpus."""
    order: tuple[str, ...]
    """The fields that records are sorted by; their bytes come last."""
    records: int
    text_bytes: int
    text_sha256: str
    """SHA-256 over the parts' `text_sha256`, as raw bytes one after the other."""
    parts: list[PartEntry]
    rejects: RejectsEntry | None
    summary_file: str = "summary.json"
    summary_sha256: str
    inputs: list[InputEntry]
    skipped: list[str]
    """Shards that could not be read and were left out."""

    def to_json(self) -> bytes:
        """Spell the document: indented, a newline at the end."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
