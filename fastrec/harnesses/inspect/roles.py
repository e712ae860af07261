"""Tell the logs of Inspect: archives with its members, and JSON documents with its keys."""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from fastrec.harnesses.inspect.directory import members_of
from fastrec.storage import storage_of

__all__ = ["ARCHIVE", "DOCUMENT", "role_of"]

ARCHIVE: Final = "eval"
DOCUMENT: Final = "json"

_HEADER: Final = Struct("<4s22xH2x")  # of a member: signature, length of its name
_SIGNATURE: Final = b"PK\x03\x04"
_MEMBERS: Final = ("header.json", "_journal/start.json")
_FIRST: Final = re.compile(
    rb"(?:_journal/(?:start\.json|summaries/.*)|(?:header|summaries|reductions)\.json|samples/.*_epoch_\d+(?:\.json|/.*))\Z",
    re.DOTALL,
)
_STATUSES: Final = rb'"(?:started|success|cancelled|error)"'
_USUAL: Final = re.compile(
    rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*' + _STATUSES + rb'\s*,\s*"eval"\s*:\s*\{'
)
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*:)?|[{}\[\]]', re.DOTALL)
_OTHERS: Final = (b"version", b"status", b"plan", b"results", b"stats")


def role_of(head: bytes, path: str) -> str | None:
    """Return whether a file is an archive or a document of Inspect; None if it is neither."""
    if head.startswith(_SIGNATURE):
        return ARCHIVE if _is_archive(head, path) else None
    if head[:1] == b"{" or head.lstrip()[:1] == b"{":
        return DOCUMENT if _USUAL.match(head) or _has_keys(head) else None
    return None


def _is_archive(head: bytes, path: str) -> bool:
    """Tell an archive by its first member, which even a cut one has, or by its directory."""
    if len(head) >= _HEADER.size:
        _, length = _HEADER.unpack_from(head)
        if _FIRST.match(head[_HEADER.size : _HEADER.size + length]):
            return True
    try:
        with storage_of(path).open_reader(path) as reader:
            return any(name in _MEMBERS for name, _ in members_of(reader))
    except ValueError:
        return False


def _has_keys(head: bytes) -> bool:
    """Return whether the top-level keys of a document, in any order, are those of a log."""
    if b'"eval"' not in head:
        return False
    keys, depth = set(), 0
    for token in _TOKEN.finditer(head):
        if token[1] is not None:
            if depth == 1 and token[2] is not None:
                keys.add(token[1])
        elif token[0] in b"{[":
            depth += 1
        else:
            depth -= 1
    return b"eval" in keys and any(key in keys for key in _OTHERS) and b'"task"' in head and b'"model"' in head
