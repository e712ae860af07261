"""`sample_hash`, which identifies a question: records with the same hash answer the same question."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from xxhash import xxh3_128_hexdigest

from fastrec.errors import UsageError
from fastrec.schemas.json_text import ascii_json

__all__ = ["HASHES", "LIST_HASHES", "TEXT_HASHES", "Hash", "sample_hash"]

Hash = Callable[[str, Any], str]
"""From `input.raw` and `input.reference` to `sample_hash`."""


def _sha256(raw: str, reference: str) -> str:
    digest = sha256(raw.encode())
    digest.update(reference.encode())
    return digest.hexdigest()


def _xxh3_128(raw: str, reference: str) -> str:
    return xxh3_128_hexdigest((raw + reference).encode())


HASHES: Final = ("sha256", "xxh3_128")
"""The names of the algorithms."""

TEXT_HASHES: Final[dict[str, Hash]] = {"sha256": _sha256, "xxh3_128": _xxh3_128}
"""Recipe R1: the functions that compute `sample_hash` if `input.reference` is a string."""


def _as_json(raw: str, reference: str | list[str]) -> bytes:
    """Spell a question for recipe R5: compact JSON in ASCII, with sorted keys."""
    references = [reference] if isinstance(reference, str) else reference
    return b'{"raw":%b,"reference":[%b]}' % (ascii_json(raw), b",".join(map(ascii_json, references)))


LIST_HASHES: Final[dict[str, Hash]] = {
    "sha256": lambda raw, reference: sha256(_as_json(raw, reference)).hexdigest(),
    "xxh3_128": lambda raw, reference: xxh3_128_hexdigest(_as_json(raw, reference)),
}
"""Recipe R5: the functions that compute `sample_hash` if `input.reference` is an array."""


def sample_hash(raw: str, reference: str | list[str], *, algorithm: str = "sha256") -> str:
    """Compute `sample_hash`, in lower-case hex, of a question with one reference or with a list of them.

    With one reference, as in version 0.2.0, it is the hash of the UTF-8 of `input.raw + input.reference`. With a list,
    as in version 0.3.0, it is the hash of the compact ASCII JSON `{"raw":…,"reference":[…]}`.

    >>> sample_hash("What is 6 x 7?", "42")
    '329540ca10bedecb977e42f48984a50aa539c5900f9e028b4f53033ca73bb171'
    >>> sample_hash("What is 6 x 7?", "42", algorithm="xxh3_128")
    'c5acb39626b890e7f20cfe99af3eebfa'
    >>> sample_hash("What is 2 + 2?", ["4"])
    '9c94305328f8e70341f9d1880f4eaa6ea7f93b8922e6a03a8cdcf1924d28db0b'
    """
    if algorithm not in HASHES:
        raise UsageError(f"algorithm must be one of {', '.join(HASHES)}, not {algorithm!r}")
    hashes = TEXT_HASHES if isinstance(reference, str) else LIST_HASHES
    return hashes[algorithm](raw, reference)
