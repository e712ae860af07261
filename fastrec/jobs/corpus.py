"""A published corpus: whether a directory is one, and what its manifest and its summary say."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from fastrec.errors import CorpusError, UsageError, shown
from fastrec.jobs.manifest import MANIFEST_FORMAT, KeyEntry, Manifest
from fastrec.records import SCHEMA_VERSION
from fastrec.stages.summary import Summary

__all__ = ["MANIFEST", "SUMMARY", "is_plain", "part_paths", "read_manifest", "read_summary"]

MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
_WHAT_IS_ONE: Final = "A corpus is the directory that `fastrec normalize SHARDS -o CORPUS` makes."


class _Head(msgspec.Struct):
    """What every format of the manifest has."""

    format: int


def read_manifest(corpus: Path) -> Manifest:
    """Read the manifest of a corpus.

    Raises:
        UsageError: The directory is no corpus.
        CorpusError: It is, or was, but its manifest is damaged or of a format that this version does not know.
        OSError: The manifest may not be read.
    """
    path = corpus / MANIFEST
    if not path.exists():
        reason = f"it holds no {MANIFEST}" if corpus.is_dir() else "there is no such directory"
        if corpus.is_file():
            reason = "it is a file"
        raise UsageError(f"{shown(str(corpus))} is not a corpus: {reason}\n{_WHAT_IS_ONE}")
    data = path.read_bytes()
    try:
        found = msgspec.json.decode(data, type=_Head).format
        if found != MANIFEST_FORMAT:
            raise CorpusError(str(path), f"its format is {found}, and this version of fastrec reads {MANIFEST_FORMAT}")
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise CorpusError(str(path), f"is not a manifest: {exc}") from exc


def read_summary(corpus: Path, manifest: Manifest) -> Summary:
    """Read the summary of a corpus.

    Raises:
        CorpusError: It is not there, damaged, or not the one that the manifest names.
        OSError: It may not be read.
    """
    path = corpus / SUMMARY
    try:
        data = path.read_bytes()
        summary = msgspec.json.decode(data, type=Summary)
    except FileNotFoundError as exc:
        raise CorpusError(str(path), "is missing: normalize again") from exc
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise CorpusError(str(path), f"is not a summary: {exc}. Normalize again") from exc
    if sha256(data).hexdigest() != manifest.summary_sha256:
        raise CorpusError(str(path), f"is not the one that {MANIFEST} names: fastrec verify says what is wrong")
    return summary


def part_paths(corpus: Path, manifest: Manifest) -> list[str]:
    """Give the paths of the parts of a corpus whose records are to be used.

    Raises:
        CorpusError: The manifest is of another schema, or says what no manifest of ours says.
    """
    path = str(corpus / MANIFEST)
    if manifest.schema != SCHEMA_VERSION:
        reason = f"its records are of schema {manifest.schema}, and this version of fastrec reads {SCHEMA_VERSION}"
        raise CorpusError(path, reason)
    if sorted(manifest.order) != sorted(KeyEntry.__struct_fields__):
        raise CorpusError(
            path, f"its order must name {', '.join(KeyEntry.__struct_fields__)}, found {', '.join(manifest.order)}"
        )
    for part in manifest.parts:
        if not is_plain(part.file):
            raise CorpusError(path, f"names a part that does not lie beside it: {part.file!r}")
    return [str(corpus / part.file) for part in manifest.parts]


def is_plain(name: str) -> bool:
    """Whether a name stands for something in the corpus itself."""
    return Path(name).name == name and "\0" not in name
