"""Which corpora paths stand for: each is a corpus, or a directory whose sub-directories are corpora."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from fastrec.corpus.documents import MANIFEST, read_manifest
from fastrec.corpus.manifest import is_refused
from fastrec.errors import UsageError, shown, utf8
from fastrec.storage import is_url, join, parent_and_name, storage_of

__all__ = ["NamedCorpus", "find_corpora"]


class NamedCorpus(NamedTuple):
    """A corpus, and its name among others."""

    name: str
    path: str


def find_corpora(paths: Sequence[str]) -> tuple[list[NamedCorpus], list[str]]:
    """Return the corpora that paths stand for, and notices about directories that are left out.

    Corpora are in the order of the paths. Those of one directory are in the order of their names, numbers by value.

    Raises:
        UsageError: There are no paths, or one of them is no corpus and has none.
    """
    if not paths:
        raise UsageError("name at least one corpus, or a directory of corpora")
    found: list[str] = []
    notices: list[str] = []
    for path in paths:
        if storage_of(path).exists(join(path, MANIFEST)):
            found.append(path)
        else:
            inside, refused = _inside(path)
            found += inside
            notices += [f"{shown(one)} is left out: it is a refused corpus, which was not published" for one in refused]
    if not found:
        raise UsageError("there is no published corpus: " + "; ".join(notices))
    twice = [path for path, number in Counter(found).items() if number > 1]
    if twice:
        raise UsageError(f"{shown(twice[0])} is given twice")
    names = [utf8(parent_and_name(path)[1]) for path in found]
    ambiguous = {name for name, number in Counter(names).items() if number > 1}
    spelled = (utf8(path) if name in ambiguous else name for name, path in zip(names, found, strict=True))
    return [NamedCorpus(name, path) for name, path in zip(spelled, found, strict=True)], notices


def _inside(directory: str) -> tuple[list[str], list[str]]:
    """Return the corpora in a directory, and the refused ones."""
    storage = storage_of(directory)
    if not storage.is_directory(directory):
        read_manifest(directory)  # says why it is not a corpus
    entries = storage.files_in(directory)
    if is_url(directory):  # all objects below it
        ends = [entry.removesuffix(f"/{MANIFEST}") for entry in entries if entry.endswith(f"/{MANIFEST}")]
        corpora = [end for end in ends if parent_and_name(end)[0] == directory.rstrip("/")]
    else:
        corpora = [entry for entry in entries if storage.exists(join(entry, MANIFEST))]
    refused = [corpus for corpus in corpora if is_refused(storage.read_all(join(corpus, MANIFEST)))]
    found = sorted(set(corpora) - set(refused), key=_natural)
    if not found and not refused:
        read_manifest(directory)
    return found, refused


def _natural(path: str) -> tuple[list[tuple[bool, int, str]], str]:
    """Return a sort key that puts `night-9` before `night-10`."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", parent_and_name(path)[1])
    return [(not piece.isdigit(), int(piece[:4_000]) if piece.isdigit() else 0, piece) for piece in pieces], path
