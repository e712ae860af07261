r"""Find the items of a long array in a JSON document, in bounded memory and without parsing them.

    {"version": 2, "samples": [{…},{…},{…},{…},{…}], "stats": {}}
                               └ group ┘   └ group ┘              groups of whole items, about 4 MB each
    {"version": 2, "samples": [                   ], "stats": {}} the envelope

A group is cut at a place that looks like the border of two items: `},` and the whitespace that follows the first item,
then `{`. That is a search for bytes. It may be deceived, so each group is decoded as a list of items that stay
unparsed: since it starts at an item, its brackets are balanced and it ends outside a string only if the cut is right.
Where no such place is right, the group is cut by following strings and brackets, which is slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.text_window import TextWindow
from fastrec.storage import storage_of

__all__ = ["GROUP_BYTES", "ArrayReader", "ArrayScan", "Group", "scan_array"]

GROUP_BYTES: Final = 4 << 20
"""Groups are of about this size; one item that is longer is a group of its own."""

_TRIES: Final = 4  # borders to try before following brackets
_KEY_BYTES: Final = 200  # where the first key of an item must end to serve as its mark
_FAR: Final = 4  # groups to look ahead for a border

_BETWEEN: Final = re.compile(rb"[ \t\r\n,]*+")
_FIRST_KEY: Final = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+"')
# What Python writes and msgspec refuses: bare values, and halves of surrogate pairs. Replaced by something else, even
# inside a string or after an escaped backslash, they change no bracket, no quote and no length.
_NOT_FINITE: Final = re.compile(rb"(?<=[ \t\r\n:,\[])(?:NaN|-?Infinity)(?=[ \t\r\n,\]}])")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_decode: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Group(NamedTuple):
    """Some whole items of the array, one after the other."""

    start: int
    """Offset of the first item's first byte in the document."""
    end: int
    """Offset after the last item's last byte."""
    text: bytes
    """The items as an array: with the commas between them, in brackets."""
    raw_items: list[msgspec.Raw]
    """Each as long as the item is; the text may differ where it is not JSON."""

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.raw_items)

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the items one by one: the offset in the document, and the text."""
        view, at = memoryview(self.text), 1
        for item in self.raw_items:
            end = at + memoryview(item).nbytes
            yield self.start + at - 1, view[at:end]
            between = _BETWEEN.match(self.text, end)
            assert between
            at = between.end()


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


class ArrayReader:
    """Iterates over the groups of an array; afterwards, `envelope` is complete."""

    def __init__(self, path: str, text: TextWindow, key: str | None, group_bytes: int = GROUP_BYTES) -> None:
        self._path = path
        self._text = text
        self._key = key
        self._group_bytes = group_bytes
        self._parts: list[bytes] = []
        self._copied = 0  # offset up to which the envelope is in `_parts`, without the items
        self._end = 0  # offset after the array

    @property
    def envelope(self) -> bytes:
        """The document without the items."""
        return b"".join(self._parts)

    def __iter__(self) -> Iterator[Group]:
        text = self._text
        at = text.skip_space(text.skip_mark())
        if self._key is None:
            if text.byte(at) != b"[":
                raise LogError(self._path, "is not a JSON array")
            yield from self._groups(at + 1, 1)
            at = self._end
        else:
            if text.byte(at) != b"{":
                raise LogError(self._path, "is not a JSON object")
            yield from self._members(at + 1)
            at = self._end
        at = text.skip_space(at)
        if text.byte(at):
            raise LogError(self._path, f"has more text after its end, at byte {at:,}")
        self._parts.append(text.between(self._copied, at))

    def _members(self, at: int) -> Iterator[Group]:
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
                yield from self._groups(at + 1, 2)
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

    def _groups(self, at: int, depth: int) -> Iterator[Group]:
        """Go through the items of the array, after its bracket."""
        text = self._text
        self._parts.append(text.between(self._copied, at))
        start = text.skip_space(at)
        if text.byte(start) == b"]":
            self._copied, self._end = start, start + 1
            return
        border, last_border = self._borders(at, start, depth)
        while True:
            text.drop(start)
            group = self._group_by_search(start, border, last_border) or self._group_by_brackets(start)
            yield group
            at = text.skip_space(group.end)
            if text.byte(at) == b"]":
                self._copied, self._end = at, at + 1
                return
            if text.byte(at) != b",":
                raise text.unexpected(at, "a comma or a bracket")
            start = text.skip_space(at + 1)

    def _borders(self, at: int, start: int, depth: int) -> tuple[bytes, bytes]:
        """Return what is between two items, and what is at the end of the array; either is empty if it is unknown."""
        text = self._text
        if text.byte(start) != b"{":
            return b"", b""
        before = text.between(at, start)
        newline, indent = before[: before.rfind(b"\n") + 1], before[before.rfind(b"\n") + 1 :]
        last_border = b"}" + newline + indent[: len(indent) * (depth - 1) // depth] + b"]" if newline else b""
        end = text.value_end(start)
        at = text.skip_space(end)
        if text.byte(at) != b",":
            return b"", last_border
        second = text.skip_space(at + 1)
        border = text.between(end - 1, second + 1)
        if b"\n" not in border:  # without indentation, inner objects have such a border, too: look for the first key
            text.need(second, _KEY_BYTES)
            found = _FIRST_KEY.match(text.between(second, second + _KEY_BYTES))
            border = text.between(end - 1, second) + found[0] if found else b""
        return border, last_border

    def _group_by_search(self, start: int, border: bytes, last_border: bytes) -> Group | None:
        """Cut a group at a place that looks right, and make sure that it is."""
        for end in self._likely_ends(start, border, last_border):
            text = self._text.bracketed(start, end)
            if items := _raw_items(text):
                return Group(start, end, text, items)
        return None

    def _likely_ends(self, start: int, border: bytes, last_border: bytes) -> Iterator[int]:
        text, size = self._text, self._group_bytes
        text.need(start, size)
        ends = [(text.find_last, border), (text.find, last_border)]
        if text.is_whole:  # the end of the array is near; elsewhere, looking for it first takes too long
            ends.reverse()
        for search, wanted in ends:
            if wanted and (end := search(wanted, start, start + size)) >= 0:
                yield end + 1
        if not border:
            return
        while size < _FAR * self._group_bytes:  # an item that is longer than a group
            size *= 2
            text.need(start, size)
            at = start + self._group_bytes - len(border)
            for _ in range(_TRIES):
                at = text.find(border, at, start + size)
                if at < 0:
                    break
                at += 1
                yield at
            else:
                return

    def _group_by_brackets(self, start: int) -> Group:
        """Cut a group by following strings and brackets."""
        text, count, at = self._text, 0, start
        while True:
            end = text.value_end(at)
            count += 1
            if end - start >= self._group_bytes:
                break
            at = text.skip_space(end)
            if text.byte(at) != b",":
                break
            at = text.skip_space(at + 1)
        found = text.bracketed(start, end)
        items = _raw_items(found)
        if items is None or len(items) != count:
            raise LogError(self._path, f"is not JSON between byte {start:,} and byte {end:,}")
        return Group(start, end, found, items)


def _raw_items(text: bytes) -> list[msgspec.Raw] | None:
    """Return the items of an array, each as long as it is; None if the text is no array."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        plain = _SURROGATE.sub(rb"\\u0030", _NOT_FINITE.sub(_zero, text))
    if plain == text:
        return None
    try:
        return _decode(plain)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _zero(found: re.Match[bytes]) -> bytes:
    """Return a zero of the same length."""
    word = found[0]
    return b"-0." + b"0" * (len(word) - 3) if word.startswith(b"-") else b"0." + b"0" * (len(word) - 2)
