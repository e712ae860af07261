"""Reading the manifest and the summary of a published corpus."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final

import msgspec

from fastrec.corpus.manifest import MANIFEST_FORMATS, Manifest
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.storage import join, storage_of
from fastrec.summary.document import Summary

__all__ = ["MANIFEST", "SUMMARY", "is_plain", "read_manifest", "read_summary", "summary_path"]

MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
_ADVICE: Final = "A corpus is a directory that `fastrec normalize SHARDS -o CORPUS` has written."


def read_manifest(corpus: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of a corpus.

    Raises:
        UsageError: The directory is not a corpus.
        CorpusError: The manifest is damaged, or has a format that this version does not know.
        OSError: The manifest cannot be read.
    """
    corpus = os.fspath(corpus)
    path, storage = join(corpus, MANIFEST), storage_of(corpus)
    if not storage.exists(path):
        reason = "there is no such directory"
        if storage.is_directory(corpus):
            reason = f"it holds no {MANIFEST}"
        elif storage.exists(corpus):
            reason = "it is a file"
        raise UsageError(f"{shown(corpus)} is not a corpus: {reason}\n{_ADVICE}")
    data = storage.read_all(path)
    try:
        found = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if isinstance(found, int) and found not in MANIFEST_FORMATS:
            known = " and ".join(map(str, MANIFEST_FORMATS))
            raise CorpusError(path, f"its format is {found}, and this version of fastrec reads {known}")
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise CorpusError(path, f"is not a manifest: {exc}") from exc


def read_summary(corpus: str, manifest: Manifest) -> Summary:
    """Read the summary of a corpus.

    Raises:
        CorpusError: The summary is missing, damaged, or not the one that the manifest names.
        OSError: The summary cannot be read.
    """
    path = summary_path(corpus, manifest)
    try:
        data = storage_of(path).read_all(path)
        summary = Summary.from_json(data)
    except FileNotFoundError as exc:
        raise CorpusError(path, "is missing: normalize again") from exc
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise CorpusError(path, f"is not a summary: {exc}. Normalize again") from exc
    if sha256(data).hexdigest() != manifest.summary_sha256:
        raise CorpusError(path, f"is not the one that {MANIFEST} names: run fastrec verify to find out more")
    return summary


def summary_path(corpus: str, manifest: Manifest) -> str:
    """Return the path of the summary of a corpus."""
    if not is_plain(manifest.summary_file):
        raise CorpusError(join(corpus, MANIFEST), f"names a summary outside the corpus: {manifest.summary_file!r}")
    return join(corpus, manifest.summary_file)


def is_plain(name: str) -> bool:
    """Return whether a name is that of a file directly in the corpus."""
    return PurePath(name).name == name and "\0" not in name
