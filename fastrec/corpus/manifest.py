"""`manifest.json`: the inputs, options and files of a corpus. It holds no time and no host name.

Checksums of text are 128-bit xxh3, which finds damage at a fraction of the cost of SHA-256. Files
have SHA-256, which other tools compute.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from xxhash import xxh3_128_hexdigest

from fastrec.errors import CorpusError, FastrecError, UsageError, counted, shown
from fastrec.json_documents import CountsByName, indented_json
from fastrec.parameters import AnyPath
from fastrec.schemas.view import REFUSALS
from fastrec.sorting.keys import FIELDS, METRIC, key_splitter, sample_id_of, split_scope, text_of
from fastrec.sources.inputs import MANIFEST_FORMAT, check_format
from fastrec.storage import base_name, file_in, join, parent_of, storage_of
from fastrec.summary.document import Summary, json_safe

_MOST_SKIPPED = 20  # listed in a message


class KeyEntry(Struct, frozen=True):
    """The fields that a record is sorted by."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    evaluation_id: str
    sample_id: int | str
    #: Absent if the schema version has none.
    evaluation_result_id: str | UnsetType | None = UNSET


class SideFileEntry(Struct):
    """A file beside a part."""

    #: Name in the corpus.
    file: str
    #: Size of the file.
    bytes: int
    #: SHA-256 of the file.
    sha256: str


class PartEntry(Struct):
    """A part of the corpus."""

    #: Name in the corpus.
    file: str
    #: One per line.
    records: int
    #: Size of the file.
    bytes: int
    #: SHA-256 of the file.
    sha256: str
    #: Size of the decompressed text.
    text_bytes: int
    #: 128-bit xxh3 of the text.
    text_xxh3_128: str
    #: Key of the first record.
    first: KeyEntry
    #: Key of the last record.
    last: KeyEntry
    #: The values that questions need (docs/files.md#part-00000columns).
    columns: SideFileEntry
    #: The shard and line of each record, with `--track-sources`.
    sources: SideFileEntry | UnsetType = UNSET


class RejectsEntry(Struct):
    """The rejects file."""

    #: Name in the corpus.
    file: str
    #: Number of records.
    records: int
    #: Size of the file.
    bytes: int
    #: SHA-256 of the file.
    sha256: str


class InputEntry(Struct):
    """A shard that was read, and its line counts.

    Of exact duplicates, the first in the order of inputs is kept.
    """

    #: As given or found; `-` is standard input.
    path: str
    #: Compression, told by the first bytes.
    format: str
    #: Size of the file.
    bytes: int
    #: Size of the decompressed text.
    text_bytes: int
    #: Blank ones included, filtered ones not.
    lines: int
    #: Records in the corpus.
    kept: int
    #: Records left out because an identical record stays.
    duplicates: int
    #: Lines in the rejects file.
    rejected: int
    #: Lines of white space only.
    blank: int
    #: Valid lines by the code of a repair; a line may have several.
    repaired: CountsByName = {}
    #: Records that filters left out; they are not among the lines.
    filtered: int = 0


class Manifest(Struct, kw_only=True):
    """The document `manifest.json`."""

    #: Version of this document's format.
    format: int = MANIFEST_FORMAT
    #: Version of fastrec.
    fastrec: str
    #: Schema version of the corpus, as its records spell it.
    schema: str
    #: Options that influence the content of the corpus.
    options: dict[str, object]
    #: Fields that records are sorted by first, then by their bytes.
    sort_fields: tuple[str, ...]
    #: Number of records.
    records: int
    #: Size of the decompressed text.
    text_bytes: int
    #: 128-bit xxh3 of those of all parts, concatenated as raw bytes.
    text_xxh3_128: str
    #: In sort order.
    parts: list[PartEntry]
    #: The rejects file.
    rejects: RejectsEntry | None
    #: Another name in an object store if the corpus has replaced another.
    summary_file: str = "summary.json"
    #: Of the summary.
    summary_sha256: str
    #: Shards that were read. Of exact duplicates, the first is kept.
    inputs: list[InputEntry]
    #: Records that filters left out; they are not among the lines.
    filtered: int = 0
    #: Unreadable shards that `--skip-bad-shards` left out of the corpus.
    skipped: list[str]
    #: Corpora that `--trust` took as they are.
    trusted: list[str] | UnsetType = UNSET
    #: Why the corpus was not published, and is in `OUT.refused` instead of `OUT`; null if it was.
    refused: str | None = None

    def to_json(self) -> bytes:
        return indented_json(self)


class _ListedFile(Struct):
    file: str


class _ListedPart(_ListedFile):
    columns: _ListedFile | None = None
    sources: _ListedFile | None = None


class _Listing(Struct):
    """What is the same in manifests of all versions."""

    fastrec: str
    parts: list[_ListedPart]
    summary_file: str = "summary.json"
    rejects: _ListedFile | None = None
    refused: str | None = None


def files_of(manifest: Manifest | _Listing) -> set[str]:
    others = [
        manifest.rejects,
        *(file for part in manifest.parts for file in (part.columns, part.sources)),
    ]
    return {manifest.summary_file, *(file.file for file in (*manifest.parts, *others) if file)}


def _listing(document: bytes) -> _Listing | None:
    try:
        return msgspec.json.decode(document, type=_Listing)
    except REFUSALS:
        return None


def is_refused(document: bytes) -> bool:
    listing = _listing(document)
    return listing is not None and listing.refused is not None


def listed_files(document: bytes) -> set[str]:
    """The files that a manifest of any version lists; none if it is of something else."""
    listing = _listing(document)
    return files_of(listing) if listing else set()


def key_entry(key: bytes, sort_fields: Sequence[str]) -> KeyEntry:
    scope, *strings, sample_id = key_splitter(sort_fields)(key)
    evaluation, metric = split_scope(scope)
    return KeyEntry(
        evaluation_name=evaluation,
        **dict(zip(FIELDS[1:], map(text_of, strings), strict=False)),
        sample_id=json_safe(sample_id_of(sample_id)),
        evaluation_result_id=metric if METRIC in sort_fields else UNSET,
    )


def skipped_lines(skipped: Sequence[str]) -> list[str]:
    """Return the lines of a message about the shards that a corpus lacks; none if it lacks none.

    >>> skipped_lines(["a.gz: is empty"])
    ['incomplete: 1 shard could not be read and was skipped:', '  a.gz: is empty']
    """
    were = "was" if len(skipped) == 1 else "were"
    lines = [f"incomplete: {counted(skipped, 'shard')} could not be read and {were} skipped:"]
    lines += [f"  {reason}" for reason in skipped[:_MOST_SKIPPED]]
    if (more := len(skipped) - _MOST_SKIPPED) > 0:
        lines.append(f"  … and {more:,} more, listed in manifest.json")
    return lines if skipped else []


def tree_hash(digests: Iterable[str]) -> str:
    """Return the 128-bit xxh3 of the concatenated digests of all parts, as raw bytes."""
    return xxh3_128_hexdigest(b"".join(map(bytes.fromhex, digests)))


MANIFEST = "manifest.json"
SUMMARY = "summary.json"
_ADVICE = "A corpus is a directory that `fastrec normalize SHARDS -o CORPUS` has written."


def is_corpus(path: str) -> bool:
    """Whether there is a manifest."""
    return storage_of(path).exists(join(path, MANIFEST))


def read_manifest(corpus: AnyPath) -> Manifest:
    """Read the manifest of a corpus.

    UsageError if the directory is not a corpus, CorpusError if the manifest is damaged or of an
    unknown format.
    """
    corpus = os.fspath(corpus)
    path = join(corpus, MANIFEST)
    storage = storage_of(corpus)
    if not storage.exists(path):
        reason = "there is no such directory"
        if storage.is_directory(corpus):
            reason = f"it holds no {MANIFEST}"
        elif storage.exists(corpus):
            reason = "it is a file"
        raise UsageError(f"{shown(corpus)} is not a corpus: {reason}\n{_ADVICE}")
    data = storage.read_all(file_in(corpus, MANIFEST, path))
    try:
        check_format(path, msgspec.json.decode(data, type=dict[str, Any]))
        return msgspec.json.decode(data, type=Manifest)
    except REFUSALS as exc:
        raise CorpusError(path, f"is not a manifest: {exc}") from exc


def was_replaced(path: str) -> bool:
    """Whether the corpus of a file was replaced: its manifest does not list the file any more.

    A run in an object store gives all files names of its own.
    """
    with suppress(FastrecError, OSError):
        listed = files_of(read_manifest(parent_of(path)))
        return base_name(path) not in listed | {MANIFEST}
    return False


def read_summary(corpus: str, manifest: Manifest) -> Summary:
    """CorpusError if the summary is missing, damaged, or not the one that the manifest names."""
    path = summary_path(corpus, manifest)
    try:
        data = storage_of(path).read_all(path)
        summary = Summary.from_json(data)
    except FileNotFoundError as exc:
        raise CorpusError(path, "is missing: normalize again") from exc
    except REFUSALS as exc:
        raise CorpusError(path, f"is not a summary: {exc}. Normalize again") from exc
    if sha256(data).hexdigest() != manifest.summary_sha256:
        raise CorpusError(
            path, f"is not the one that {MANIFEST} names: run fastrec verify to find out more"
        )
    return summary


def summary_path(corpus: str, manifest: Manifest) -> str:
    return file_in(corpus, manifest.summary_file, join(corpus, MANIFEST))
