"""Walk through a JSON document that has a long array: the envelope is kept, the items are given to a subclass.

{"version": 2, "samples": [{…},{…},{…},{…},{…}], "stats": {}}
                           └───┬────┘└───┬────┘               whole items, as many at a time as the subclass likes
{"version": 2, "samples": [                   ], "stats": {}} the envelope
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.text_window import TextWindow

__all__ = ["ArrayWalk", "Borders"]

_T = TypeVar("_T")

_KEY_BYTES: Final = 200  # where the first key of an item must end to serve as its mark
_FIRST_KEY: Final = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+"')


class Borders(NamedTuple):
    """What borders look like, as far as the first items tell. Only decoding shows whether a place is a border."""

    between: bytes
    """From the last byte of an item to the first of the next, or further: empty if that is unknown."""
    last: bytes
    """From the last byte of the last item to the end of the array; empty if that is unknown."""


class ArrayWalk(ABC, Generic[_T]):
    """Iterates over the array under a top-level key, or over a document that is an array: then the key is None.

    Afterwards, `envelope` is complete.
    """

    def __init__(self, path: str, text: TextWindow, key: str | None) -> None:
        self._path = path
        self._text = text
        self._key = key
        self._parts: list[bytes] = []
        self._copied = 0  # offset up to which the envelope is in `_parts`, without the items
        self._end = 0  # offset after the array

    @property
    def envelope(self) -> bytes:
        """The document with the array empty, or as it is if there is no such array."""
        return b"".join(self._parts)

    @abstractmethod
    def _items_from(self, start: int, borders: Borders) -> tuple[_T, int]:
        """Return one or more items from an offset, and the offset after them."""

    def __iter__(self) -> Iterator[_T]:
        text = self._text
        at = text.skip_space(text.skip_mark())
        if self._key is None:
            if text.byte(at) != b"[":
                raise LogError(self._path, "is not a JSON array")
            yield from self._items(at + 1, 1)
        else:
            if text.byte(at) != b"{":
                raise LogError(self._path, "is not a JSON object")
            yield from self._members(at + 1)
        at = text.skip_space(self._end)
        if text.byte(at):
            raise LogError(self._path, f"has more text after its end, at byte {at:,}")
        self._parts.append(text.between(self._copied, at))

    def _members(self, at: int) -> Iterator[_T]:
        """Go through the members of the top-level object, after its bracket."""
        text, found = self._text, False
        at = text.skip_space(at)
        while text.byte(at) != b"}":
            if text.byte(at) != b'"':
                raise text.unexpected(at, "a key")
            end = text.string_end(at)
            is_wanted = self._is_key(at, end)
            at = text.skip_space(end)
            if text.byte(at) != b":":
                raise text.unexpected(at, "a colon")
            at = text.skip_space(at + 1)
            if is_wanted and found:
                raise LogError(self._path, f"has the key {self._key!r} twice")
            found = found or is_wanted
            if is_wanted and text.byte(at) == b"[":
                yield from self._items(at + 1, 2)
                at = self._end
            else:
                at = text.value_end(at)
            at = text.skip_space(at)
            if text.byte(at) == b",":
                at = text.skip_space(at + 1)
                if text.byte(at) != b'"':
                    raise text.unexpected(at, "a key")
            elif text.byte(at) != b"}":
                raise text.unexpected(at, "a comma or a bracket")
        self._end = at + 1

    def _is_key(self, start: int, end: int) -> bool:
        try:
            return bool(msgspec.json.decode(self._text.between(start, end)) == self._key)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False

    def _items(self, at: int, depth: int) -> Iterator[_T]:
        """Go through the items of the array, after its bracket."""
        text = self._text
        self._parts.append(text.between(self._copied, at))
        start = text.skip_space(at)
        if text.byte(start) == b"]":
            self._copied, self._end = start, start + 1
            return
        borders = self._borders(at, start, depth)
        while True:
            items, end = self._items_from(start, borders)
            yield items
            at = text.skip_space(end)
            if text.byte(at) == b"]":
                self._copied, self._end = at, at + 1
                return
            if text.byte(at) != b",":
                raise text.unexpected(at, "a comma or a bracket")
            start = text.skip_space(at + 1)

    def _borders(self, at: int, start: int, depth: int) -> Borders:
        """Look at the whitespace before and after the first item."""
        text = self._text
        if text.byte(start) != b"{":
            return Borders(b"", b"")
        before = text.between(at, start)
        newline, indent = before[: before.rfind(b"\n") + 1], before[before.rfind(b"\n") + 1 :]
        last = b"}" + newline + indent[: len(indent) * (depth - 1) // depth] + b"]" if newline else b""
        end = text.value_end(start)
        at = text.skip_space(end)
        if text.byte(at) != b",":
            return Borders(b"", last)
        second = text.skip_space(at + 1)
        if text.byte(second) != b"{":
            return Borders(b"", last)
        between = text.between(end - 1, second + 1)
        if b"\n" not in between:  # without indentation, inner objects have such a border, too: look for the first key
            text.need(second, _KEY_BYTES)
            found = _FIRST_KEY.match(text.between(second, second + _KEY_BYTES))
            between = text.between(end - 1, second) + found[0] if found else b""
        return Borders(between, last)
