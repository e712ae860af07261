"""Names of the files of runs in an object store: each carries the token of its run."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["LEASE", "is_of_a_run", "name_with", "stem_of", "token_in"]

LEASE: Final = ".fastrec-writing"

# The files of a corpus, and the files by which workers show that they can write.
_FILE = re.compile(r"(?:part-\d+|rejects|summary)-([0-9a-f]{16})\.(?:json(?:l(?:\.zst|\.gz)?)?|sources\.zst)")
_PROBE = re.compile(r"\.fastrec-probe-[0-9a-f-]+")


def name_with(token: str, stem: str, suffix: str) -> str:
    """Return the name of a file of a run.

    >>> name_with("0123456789abcdef", "part-00000", ".jsonl.zst")
    'part-00000-0123456789abcdef.jsonl.zst'
    """
    return f"{stem}-{token}{suffix}"


def token_in(name: str) -> str | None:
    """Return the token in the name of a file of a run; None if it has none.

    >>> token_in("part-00000-0123456789abcdef.jsonl.zst"), token_in("part-00000.jsonl.zst")
    ('0123456789abcdef', None)
    """
    found = _FILE.fullmatch(name)
    return found[1] if found else None


def stem_of(name: str) -> str:
    """Return the name of a file of a run without its token.

    >>> stem_of("part-00000-0123456789abcdef.jsonl.zst"), stem_of("summary.json")
    ('part-00000.jsonl.zst', 'summary.json')
    """
    token = token_in(name)
    return name.replace(f"-{token}", "", 1) if token else name


def is_of_a_run(name: str) -> bool:
    """Return whether a file was made by some run, whether it is published or not.

    >>> is_of_a_run("summary-0123456789abcdef.json"), is_of_a_run(".fastrec-writing"), is_of_a_run("summary.json")
    (True, True, False)
    """
    return name == LEASE or token_in(name) is not None or _PROBE.fullmatch(name) is not None
