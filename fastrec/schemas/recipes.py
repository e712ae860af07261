"""Recipes of `sample_hash`: how producers compute it. The schema only says "hash of (input.raw + input.reference)".

All digests are SHA-256, in lower-case hex, of UTF-8. Several recipes give the same digest for some questions: then the
first name of the table counts, so that the names of a corpus do not depend on the order of its lines.

    R1   raw and the reference, one after the other (for one reference)
    R2   raw and all references, one after the other
    R3   raw and the first reference, one after the other
    R4   JSON of {"raw": raw, "reference": the first reference}, ASCII, with spaces
    R5   JSON of {"raw":raw,"reference":[all references]}, ASCII, compact
    R6   as R5, with spaces
    R7   raw and all references, one per line
    R8   as R4, not escaped to ASCII
    R9   as R5 with the key "input" for "raw", not escaped to ASCII
    R10  as R5, not escaped to ASCII
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from json.encoder import encode_basestring as _unicode
from json.encoder import encode_basestring_ascii as _ascii
from typing import Final

__all__ = ["ABSENT", "RECIPES", "WRONG", "RecipeFinder"]

ABSENT: Final = "absent"
"""Counted in place of a recipe for records without a hash."""
WRONG: Final = "wrong"
"""Counted in place of a recipe for hashes that no recipe gives."""

Text = Callable[[str, list[str]], str]
"""From `input.raw` and the references to the text that is hashed."""


def _first(references: list[str]) -> str:
    return references[0] if references else ""


RECIPES: Final[dict[str, Text]] = {
    "R1": lambda raw, references: raw + _first(references),
    "R2": lambda raw, references: raw + "".join(references),
    "R3": lambda raw, references: raw + _first(references),
    "R4": lambda raw, references: f'{{"raw": {_ascii(raw)}, "reference": {_ascii(_first(references))}}}',
    "R5": lambda raw, references: f'{{"raw":{_ascii(raw)},"reference":[{",".join(map(_ascii, references))}]}}',
    "R6": lambda raw, references: f'{{"raw": {_ascii(raw)}, "reference": [{", ".join(map(_ascii, references))}]}}',
    "R7": lambda raw, references: raw + "\n" + "\n".join(references),
    "R8": lambda raw, references: f'{{"raw": {_unicode(raw)}, "reference": {_unicode(_first(references))}}}',
    "R9": lambda raw, references: f'{{"input":{_unicode(raw)},"reference":[{",".join(map(_unicode, references))}]}}',
    "R10": lambda raw, references: f'{{"raw":{_unicode(raw)},"reference":[{",".join(map(_unicode, references))}]}}',
}
"""By name, the text that each recipe hashes."""

_ORDER: Final = tuple(RECIPES)


class RecipeFinder:
    """Finds the recipe of a hash. It tries the recipe of the last hash first: a shard has one producer."""

    def __init__(self) -> None:
        self._last = _ORDER[0]

    def find(self, raw: str, reference: str | list[str], given: str) -> str | None:
        """Return the name of the recipe that gives this hash; None if there is none."""
        references = [reference] if isinstance(reference, str) else reference
        if _digest(self._last, raw, references) == given:
            return _name(self._last, raw, references)
        for name in _ORDER:
            if name != self._last and _digest(name, raw, references) == given:
                self._last = name
                return _name(name, raw, references)
        return None


def _digest(name: str, raw: str, references: list[str]) -> str:
    return sha256(RECIPES[name](raw, references).encode(errors="surrogatepass")).hexdigest()


def _name(found: str, raw: str, references: list[str]) -> str:
    """Return the first name of the recipes that give the same text as this one; R1 is for one reference."""
    text = RECIPES[found](raw, references)
    names = _ORDER[1:] if len(references) > 1 else _ORDER
    return next(name for name in names if RECIPES[name](raw, references) == text)
