r"""Spelling names from records in addresses and forms, with printable characters only.

A name may have any characters, and a form changes some of them: line breaks, NUL. So they become escapes, as in Python.
The second answer of a model is `MODEL\2`: a backslash in the name itself is always doubled.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["AnswerName", "answer_name_of", "answer_name_text", "name_of", "name_text"]

_ESCAPE: Final = re.compile(r"\\(?:(\\)|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_ORDINAL: Final = re.compile(r"\\([2-9]|[1-9][0-9]{1,8})\Z")


class AnswerName(msgspec.Struct, frozen=True):
    """Which answer to a question: the model, and the number of its answer from 1."""

    model: str
    ordinal: int = 1


def name_text(name: str) -> str:
    r"""Spell a name with printable characters only; `name_of` is the inverse.

    >>> name_text("org/model"), name_text("a\\b\u202e\n")
    ('org/model', 'a\\\\b\\u202e\\x0a')
    """
    return "".join(map(_spelled, name)) if "\\" in name or not name.isprintable() else name


def _spelled(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def name_of(text: str) -> str:
    """Return the name that is spelled like this."""
    return _ESCAPE.sub(_char, text)


def _char(found: re.Match[str]) -> str:
    if found[1]:
        return "\\"
    code = int(found[2] or found[3] or found[4], 16)
    return chr(code) if code < 0x110000 else "\ufffd"


def answer_name_text(name: AnswerName) -> str:
    """Spell an answer; the ordinal cannot be confused with the name, where a backslash is always escaped."""
    return name_text(name.model) + (f"\\{name.ordinal}" if name.ordinal > 1 else "")


def answer_name_of(text: str) -> AnswerName:
    """Return the answer that is spelled like this."""
    found = _ORDINAL.search(text)
    # After an even number of backslashes it is an ordinal; after an odd number, a backslash that belongs to the name.
    if found and (found.start() - len(text[: found.start()].rstrip("\\"))) % 2 == 0:
        return AnswerName(name_of(text[: found.start()]), int(found[1]))
    return AnswerName(name_of(text))
