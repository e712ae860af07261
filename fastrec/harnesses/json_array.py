r"""Find the items of a long array in a JSON document, in bounded memory and without parsing them.

They come in groups of whole items, about 4 MB each. A group is cut at a place that looks like the border of two items:
`},` and the whitespace that follows the first item, then `{`. This search for bytes can be wrong, so each group is
decoded as a list of items that stay unparsed. The group starts at an item, so its brackets are balanced and it ends
outside a string only if the cut is right. Where no such place is right, the group is cut by following strings and
brackets, which is slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.array_walk import ArrayWalk, Borders
from fastrec.harnesses.text_window import TextWindow
from fastrec.harnesses.values import REFUSALS
from fastrec.storage import storage_of

__all__ = ["GROUP_BYTES", "ArrayReader", "ArrayScan", "Group", "scan_array"]

GROUP_BYTES: Final = 4 << 20
"""Groups are of about this size; one item that is longer is a group of its own."""

_TRIES: Final = 4  # borders to try before following brackets
_FAR: Final = 4  # groups to look ahead for a border

# What Python writes and msgspec refuses: bare values, and escaped surrogates. Replacing them changes no bracket and no
# quote, even inside a string or after an escaped backslash.
_NOT_FINITE: Final = re.compile(rb"(?<=[ \t\r\n:,\[])(?:NaN|-?Infinity)(?=[ \t\r\n,\]}])")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_decode: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Group(NamedTuple):
    """Some whole items of the array, one after the other."""

    start: int
    """Offset of the first item's first byte in the document."""
    end: int
    """Offset after the last item's last byte."""
    items: int
    text: bytes
    """The items as an array: with the commas between them, in brackets."""


class ArrayScan(msgspec.Struct, frozen=True):
    """Where the items of an array are."""

    envelope: bytes
    """The document with the array empty, or as it is if there is no such array."""
    groups: list[tuple[int, int, int]]
    """Start, end and number of items of each group."""


def scan_array(path: str, key: str | None, group_bytes: int = GROUP_BYTES) -> ArrayScan:
    """Find the items of the array under a top-level key, or of the document itself if the key is None.

    Raise LogError if the document is cut, has no array where the key is None, or is not JSON as far as it was read:
    the envelope is not decoded here.
    """
    try:
        with storage_of(path).open_reader(path) as source:
            reader = ArrayReader(path, TextWindow(path, source.read), key, group_bytes)
            groups = [(group.start, group.end, group.items) for group in reader]
    except OSError as exc:
        raise LogError(path, f"cannot be read: {exc.strerror or exc}") from exc
    return ArrayScan(reader.envelope, groups)


class ArrayReader(ArrayWalk[Group]):
    """Iterates over the groups of an array; afterwards, `envelope` is complete."""

    def __init__(self, path: str, text: TextWindow, key: str | None, group_bytes: int = GROUP_BYTES) -> None:
        super().__init__(path, text, key)
        self._group_bytes = group_bytes

    def _items_from(self, start: int, borders: Borders) -> tuple[Group, int]:
        self._text.drop(start)
        group = self._group_by_search(start, borders) or self._group_by_brackets(start)
        return group, group.end

    def _group_by_search(self, start: int, borders: Borders) -> Group | None:
        """Cut a group at a place that looks right, and make sure that it is."""
        for end in self._likely_ends(start, borders):
            text = self._text.bracketed(start, end)
            if items := _count(text):
                return Group(start, end, items, text)
        return None

    def _likely_ends(self, start: int, borders: Borders) -> Iterator[int]:
        text, size = self._text, self._group_bytes
        text.need(start, size)
        ends = [(text.find_last, borders.between), (text.find, borders.last)]
        if text.is_whole:  # the end of the array is near
            ends.reverse()
        for search, wanted in ends:
            if wanted and (end := search(wanted, start, start + size)) >= 0:
                yield end + 1
        if not borders.between:
            return
        while size < _FAR * self._group_bytes:  # an item that is longer than a group
            size *= 2
            text.need(start, size)
            at = start + self._group_bytes - len(borders.between)
            for _ in range(_TRIES):
                at = text.find(borders.between, at, start + size)
                if at < 0:
                    break
                at += 1
                yield at
            else:
                return

    def _group_by_brackets(self, start: int) -> Group:
        """Cut a group by following strings and brackets."""
        text, items, at = self._text, 0, start
        while True:
            end = text.value_end(at)
            items += 1
            if end - start >= self._group_bytes:
                break
            at = text.skip_space(end)
            if text.byte(at) != b",":
                break
            at = text.skip_space(at + 1)
        group = Group(start, end, items, text.bracketed(start, end))
        if _count(group.text) != items:
            raise LogError(self._path, f"is not JSON between byte {start:,} and byte {end:,}")
        return group


def _count(text: bytes) -> int:
    """Return the number of items of an array; 0 if the text is none."""
    try:
        return len(_decode(text))
    except REFUSALS:
        plain = _SURROGATE.sub(rb"\\u0030", _NOT_FINITE.sub(b"0", text))
    if plain == text:
        return 0
    try:
        return len(_decode(plain))
    except REFUSALS:
        return 0
