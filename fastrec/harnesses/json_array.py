"""Find the items of a long array in a JSON document, in bounded memory and without parsing them.

They come in groups of whole items, about 4 MB each. A group is cut at a place that looks like the border of two items:
`},` and the whitespace that follows the first item, then `{`. This search for bytes can be wrong, so each group is
decoded as a list of items that stay unparsed. The group starts at an item, so its brackets are balanced and it ends
outside a string only if the cut is right. Where no such place is right, the group is cut by following strings and
brackets, which is slower.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from stringzilla import find

from fastrec.errors import LogError
from fastrec.harnesses.values import REFUSALS
from fastrec.storage import storage_of

# @@ text_window: A window over the text of a JSON document: it follows strings and brackets, and reads on where it has to.
#
#     document   ………………………|………………………………………………|…………………………
#                          base             base + len(data)     offsets are those of the document
#
# It holds what was read and not dropped. It grows by its own size, so that a long value costs linear time.

_BLOCK_BYTES: Final = 1 << 20
MAX_HELD: Final = 512 << 20
"""A value that is longer than this is refused."""

_MARK: Final = b"\xef\xbb\xbf"  # byte order mark
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_PLAIN: Final = re.compile(rb'[^ \t\r\n,:"\[\]{}]++')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
# Up to the next bracket, over strings, and over objects and lists that have no others inside. Without a bracket, the
# text ends, perhaps in a string.
_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|STRING|\{(?:[^"\[\]{}]++|STRING)*+\}|\[(?:[^"\[\]{}]++|STRING)*+\])*+([\[\]{}]?)'.replace(
        b"STRING", _STRING.pattern
    ),
    re.DOTALL,
)


class TextWindow:
    """A part of a document, and the means to follow its syntax; all positions are offsets in the document."""

    def __init__(
        self, path: str, read: Callable[[int], bytes], block_bytes: int = _BLOCK_BYTES, max_held: int = MAX_HELD
    ) -> None:
        """Open a window at the start of a document. `read` returns up to so many bytes of it; none at its end."""
        self._path = path
        self._read = read
        self._block_bytes = block_bytes
        self._max_held = max_held
        self._base = 0
        self._data = b""
        self.is_whole = False
        """Whether the end of the document was read."""

    def need(self, start: int, size: int) -> None:
        """Read until `size` bytes from `start` are there, or the document ends."""
        missing = start + size - self._base - len(self._data)
        if missing <= 0 or self.is_whole:
            return
        if len(self._data) + missing > self._max_held:
            raise LogError(self._path, f"has a value of more than {self._max_held >> 20} MB at byte {self._base:,}")
        parts = [self._data]
        while missing > 0:
            block = self._read(max(missing, self._block_bytes))
            if not block:
                self.is_whole = True
                break
            parts.append(block)
            missing -= len(block)
        self._data = b"".join(parts)

    def _grow(self) -> bool:
        """Read on; return False at the end of the document."""
        before = len(self._data)
        self.need(self._base, 2 * before or 1)
        return len(self._data) > before

    def drop(self, start: int) -> None:
        """Forget what is before an offset."""
        self._data = self._data[start - self._base :]
        self._base = start

    def between(self, start: int, end: int) -> bytes:
        """Return what is between two offsets."""
        return self._data[start - self._base : end - self._base]

    def view(self, start: int, end: int) -> memoryview:
        """Return what is between two offsets, without a copy."""
        return memoryview(self._data)[start - self._base : end - self._base]

    def bracketed(self, start: int, end: int) -> bytes:
        """Return what is between two offsets, in square brackets."""
        return b"".join((b"[", self.view(start, end), b"]"))

    def byte(self, at: int) -> bytes:
        """Return a byte; empty at the end of the document."""
        self.need(at, 1)
        return self._data[at - self._base : at - self._base + 1]

    def find(self, wanted: bytes, start: int, end: int | None = None) -> int:
        """Return the offset of the first such bytes that are held and end before `end`; -1 if there are none."""
        end = len(self._data) if end is None else end - self._base
        found: int = find(self._data, wanted, start - self._base, end)
        return found + self._base if found >= 0 else -1

    def find_last(self, wanted: bytes, start: int, end: int) -> int:
        """Return the offset of the last such bytes that are held and end before `end`; -1 if there are none."""
        found = self._data.rfind(wanted, start - self._base, end - self._base)
        return found + self._base if found >= 0 else -1

    def skip_mark(self) -> int:
        """Return the offset after the byte order mark, if the document starts with one."""
        self.need(0, len(_MARK))
        return len(_MARK) if self._data.startswith(_MARK) else 0

    def skip_space(self, at: int) -> int:
        """Return the offset of the next byte that is no whitespace."""
        return self._run_end(_SPACE, at)

    def value_end(self, at: int) -> int:
        """Return the offset after the value that starts at an offset."""
        byte = self.byte(at)
        if byte == b'"':
            return self.string_end(at)
        if byte in (b"{", b"["):
            return self._container_end(at)
        end = self._run_end(_PLAIN, at)
        if end == at:
            raise self.unexpected(at, "a value")
        return end

    def string_end(self, at: int) -> int:
        """Return the offset after the string that starts at an offset."""
        while (found := _STRING.match(self._data, at - self._base)) is None:
            if not self._grow():
                raise self._ends()
        return found.end() + self._base

    def _run_end(self, pattern: re.Pattern[bytes], at: int) -> int:
        while True:
            found = pattern.match(self._data, at - self._base)
            end = found.end() if found else at - self._base
            if end < len(self._data) or not self._grow():
                return end + self._base

    def _container_end(self, at: int) -> int:
        at, depth = at - self._base + 1, 1
        while True:
            data = self._data
            for found in _BRACKET.finditer(data, at):
                bracket = found[1]
                at = found.end()
                if not bracket:
                    break
                depth += 1 if bracket in b"[{" else -1
                if not depth:
                    return at + self._base
            if not self._grow():
                raise self._ends()

    def unexpected(self, at: int, wanted: str) -> LogError:
        """Return the error for a text that is no JSON."""
        if not self.byte(at):
            return self._ends()
        return LogError(self._path, f"is not JSON: {wanted} is missing at byte {at:,}")

    def _ends(self) -> LogError:
        return LogError(self._path, f"is cut off: it ends at byte {self._base + len(self._data):,}")


# @@ array_walk: Walk through a JSON document that has a long array: the envelope is kept, the items are given to a subclass.
#
# {"version": 2, "samples": [{…},{…},{…},{…},{…}], "stats": {}}
#                            └───┬────┘└───┬────┘               whole items, as many at a time as the subclass likes
# {"version": 2, "samples": [                   ], "stats": {}} the envelope

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


# @@ json_items: Decode the items of a long array in a JSON document one by one, in bounded memory, and tell where they are.
#
# An item ends where the next place is that looks like a border. If the text up to there decodes, it is the item: an
# object that starts where the item starts, and is complete, has its end. If not, strings and brackets are followed.
# That goes for the last item, too, and for one that is very long.


_READ_BYTES: Final = 1 << 20  # text to read at a time
_FAR: Final = 16 << 20  # text to look ahead for a border


class Item(NamedTuple, Generic[_T]):
    """An item of the array."""

    start: int
    """Offset in the document."""
    size: int
    value: _T


class ItemReader(ArrayWalk[list[Item[_T]]]):
    """Iterates over the items of an array, some at a time; afterwards, `envelope` is complete."""

    def __init__(
        self,
        path: str,
        text: TextWindow,
        key: str | None,
        decode: Callable[[memoryview], _T],
        read_bytes: int = _READ_BYTES,
    ) -> None:
        """Decode items with a function that raises ValueError if an item is not what it should be."""
        super().__init__(path, text, key)
        self._decode = decode
        self._read_bytes = read_bytes

    def _items_from(self, start: int, borders: Borders) -> tuple[list[Item[_T]], int]:
        self._text.drop(start)
        if found := self._items_by_search(start, borders.between):
            return found, found[-1].start + found[-1].size
        end = self._text.value_end(start)
        try:
            return [Item(start, end - start, self._decode(self._text.view(start, end)))], end
        except ValueError as exc:
            raise LogError(self._path, f"has an unexpected item at byte {start:,}: {exc}") from exc

    def _items_by_search(self, start: int, between: bytes) -> list[Item[_T]]:
        """Read some text, and decode the items that end where they seem to, as far as they are held."""
        text, decode, size = self._text, self._decode, self._read_bytes
        if not between:
            return []
        text.need(start, size)
        while text.find(between, start) < 0 and not text.is_whole and size < _FAR:
            size *= 4
            text.need(start, size)
        to_next = between.index(b"{") - 1  # from the end of an item to the start of the next
        found: list[Item[_T]] = []
        while (at := text.find(between, start)) >= 0:
            end = at + 1
            try:
                value = decode(text.view(start, end))
            except ValueError:
                break
            found.append(Item(start, end - start, value))
            start = end + to_next
        return found


_GROUP_BYTES: Final = 4 << 20
"""Groups are of about this size; one item that is longer is a group of its own."""

_TRIES: Final = 4  # borders to try before following brackets
_JSON_ARRAY_FAR: Final = 4  # groups to look ahead for a border

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


def scan_array(path: str, key: str | None, group_bytes: int = _GROUP_BYTES) -> ArrayScan:
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

    def __init__(self, path: str, text: TextWindow, key: str | None, group_bytes: int = _GROUP_BYTES) -> None:
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
        while size < _JSON_ARRAY_FAR * self._group_bytes:  # an item that is longer than a group
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
