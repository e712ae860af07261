"""`sample_hash`, which identifies a question: records with the same hash answer the same question.

The schema only says "hash of (input.raw + input.reference)", so producers compute it by different
recipes. All digests are SHA-256, in lower-case hex, of UTF-8. Several recipes give the same digest
for some questions: then the first name of the table counts, so that the names of a corpus do not
depend on the order of its lines.

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

from collections.abc import Callable
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import Any

from xxhash import xxh3_128_hexdigest

from fastrec.errors import check_choice
from fastrec.schemas.view import encode_json as unicode_json

# Spell a string as `json.dumps(…, ensure_ascii=False)` does, in UTF-8.
#
# Raises UnicodeEncodeError if it contains half of a surrogate pair.


def ascii_json(text: str) -> bytes:
    r"""Spell a string as `json.dumps` does by default, in ASCII, but several times as fast.

    >>> ascii_json("1 €")
    b'"1 \\u20ac"'
    """
    if text.isascii() and "\x7f" not in text:  # which only ASCII escapes
        return unicode_json(text)
    return encode_basestring_ascii(text).encode("ascii")


References = str | list[str]  # one as text, or several
Hash = Callable[[str, Any], str]  # from `input.raw` and `input.reference` to `sample_hash`


def _sha256(raw: str, reference: str) -> str:
    digest = sha256(raw.encode())
    digest.update(reference.encode())
    return digest.hexdigest()


HASHES = ("sha256", "xxh3_128")

# Recipe R1: the functions that compute `sample_hash` if `input.reference` is a string.
TEXT_HASHES: dict[str, Hash] = {
    "sha256": _sha256,
    "xxh3_128": lambda raw, reference: xxh3_128_hexdigest((raw + reference).encode()),
}


def _as_json(raw: str, reference: References) -> bytes:
    """Spell a question for recipe R5: compact JSON in ASCII, with sorted keys."""
    references = [reference] if isinstance(reference, str) else reference
    return b'{"raw":%b,"reference":[%b]}' % (
        ascii_json(raw),
        b",".join(map(ascii_json, references)),
    )


# Recipe R5: the functions that compute `sample_hash` if `input.reference` is an array.
LIST_HASHES: dict[str, Hash] = {
    "sha256": lambda raw, reference: sha256(_as_json(raw, reference)).hexdigest(),
    "xxh3_128": lambda raw, reference: xxh3_128_hexdigest(_as_json(raw, reference)),
}


def sample_hash(raw: str, reference: References, *, algorithm: str = "sha256") -> str:
    """Compute the `sample_hash` of a question, in lower-case hex.

    With one reference, as in version 0.2.0, it is the hash of the UTF-8 of `input.raw +
    input.reference`. With a list, as in version 0.3.0, it is the hash of the compact ASCII JSON
    `{"raw":…,"reference":[…]}`.

    >>> sample_hash("What is 6 x 7?", "42")
    '329540ca10bedecb977e42f48984a50aa539c5900f9e028b4f53033ca73bb171'
    >>> sample_hash("What is 6 x 7?", "42", algorithm="xxh3_128")
    'c5acb39626b890e7f20cfe99af3eebfa'
    >>> sample_hash("What is 2 + 2?", ["4"])
    '9c94305328f8e70341f9d1880f4eaa6ea7f93b8922e6a03a8cdcf1924d28db0b'
    """
    check_choice("algorithm", algorithm, HASHES)
    hashes = TEXT_HASHES if isinstance(reference, str) else LIST_HASHES
    return hashes[algorithm](raw, reference)


ABSENT = "absent"  # counted in place of a recipe for records without a hash
WRONG = "wrong"  # counted in place of a recipe for hashes that no recipe gives

# from `input.raw` and the references to the text that is hashed
Text = Callable[[str, list[str]], bytes]


def _first(references: list[str]) -> str:
    return references[0] if references else ""


def _unicode(references: list[str]) -> bytes:
    return b",".join(map(unicode_json, references))


# By name, the text that each recipe hashes.
#
# Half of a surrogate pair raises UnicodeEncodeError, except in R4 to R6, which escape it.
RECIPES: dict[str, Text] = {
    "R1": lambda raw, refs: (raw + _first(refs)).encode(),
    "R2": lambda raw, refs: (raw + "".join(refs)).encode(),
    "R3": lambda raw, refs: (raw + _first(refs)).encode(),
    "R4": lambda raw, refs: (
        b'{"raw": %b, "reference": %b}' % (ascii_json(raw), ascii_json(_first(refs)))
    ),
    "R5": _as_json,
    "R6": lambda raw, refs: (
        b'{"raw": %b, "reference": [%b]}' % (ascii_json(raw), b", ".join(map(ascii_json, refs)))
    ),
    "R7": lambda raw, refs: (raw + "\n" + "\n".join(refs)).encode(),
    "R8": lambda raw, refs: (
        b'{"raw": %b, "reference": %b}' % (unicode_json(raw), unicode_json(_first(refs)))
    ),
    "R9": lambda raw, refs: b'{"input":%b,"reference":[%b]}' % (unicode_json(raw), _unicode(refs)),
    "R10": lambda raw, refs: b'{"raw":%b,"reference":[%b]}' % (unicode_json(raw), _unicode(refs)),
}

# For each recipe, the earlier ones that can hash the same text. All other pairs differ in length
# or in a character.
_EARLIER: dict[str, tuple[str, ...]] = {
    "R2": ("R1",),
    "R3": ("R1", "R2"),
    "R4": ("R2",),  # only if a reference imitates the JSON text
    "R8": ("R2", "R4"),
    "R10": ("R5",),
}


class RecipeFinder:
    """Finds the recipe of a hash.

    It tries the recipe of the last hash first, because a shard has one producer. So a hash usually
    takes one digest. The name that it returns depends on the question and the hash alone, not on
    earlier ones.
    """

    def __init__(self) -> None:
        self._last = "R1"

    def find(self, raw: str, reference: References, given: str) -> str | None:
        if len(given) != 64:  # hex digits
            return None
        references = [reference] if isinstance(reference, str) else reference
        tried = set()
        for name in (self._last, *RECIPES):
            text = _text(name, raw, references)
            if text is None or text in tried:
                continue
            tried.add(text)
            if sha256(text).hexdigest() == given:
                self._last = name
                names = *_EARLIER.get(name, ()), name
                return next(first for first in names if _text(first, raw, references) == text)
        return None


def _text(name: str, raw: str, references: list[str]) -> bytes | None:
    """The text that a recipe hashes; None if no producer could encode it.

    R1 is only for one reference. R3 is the same for several, and R2 for none.
    """
    if name == "R1" and len(references) != 1:
        return None
    try:
        return RECIPES[name](raw, references)
    except UnicodeEncodeError:
        return None
