"""A few rejects of each code, to be shown: where, why, and how the line begins."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.rejects import decode_rejected, numbered_lines
from fastrec.storage.paths import join, parent_and_name

__all__ = ["Example", "examples"]

_EXAMPLES: Final = 5  # of each code
_BEGINNING: Final = 160  # bytes of a line


class Example(msgspec.Struct, frozen=True):
    """A rejected line."""

    source: str
    line: int
    path: str
    message: str
    beginning: str


def examples(corpus: str, manifest: Manifest) -> dict[str, list[Example]]:
    """Give the first rejects of each code, each for another reason.

    Raises:
        CorpusError: The rejects file is damaged.
        ShardError: It could not be read whole.
    """
    found: dict[str, dict[tuple[str, str], Example]] = {}
    if manifest.rejects is None:
        return {}
    path = join(corpus, parent_and_name(manifest.rejects.file)[1])
    for number, line in numbered_lines(path):
        entry = decode_rejected(path, number, line)
        some = found.setdefault(entry.code, {})
        reason = (entry.path, entry.message)
        if reason not in some and len(some) < _EXAMPLES:
            raw = entry.exact_bytes()
            beginning = raw[:_BEGINNING].decode(errors="backslashreplace") + ("…" if len(raw) > _BEGINNING else "")
            some[reason] = Example(entry.source, entry.line, entry.path, entry.message, beginning)
    return {code: list(some.values()) for code, some in found.items()}
