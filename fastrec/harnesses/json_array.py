"""Walk a JSON document that has one long array, in bounded memory.

    {"version": 2, "samples": [{…},{…},{…},{…}], "stats": {}}
                               └──┬──┘ └──┬──┘                 `groups`: whole items, about 4 MB at a time, unparsed
                               └┬┘ └┬┘ └┬┘ └┬┘                 `items`: decoded one by one, with their positions
    {"version": 2, "samples": [               ], "stats": {}}  `envelope`

Items end where the text looks like the border of two items: `},`, the whitespace that follows the first item, then `{`.
This search for bytes can be wrong, so what it finds is decoded. The text starts at an item, so its brackets are
balanced and it ends outside a string only if the end is right. Where no such place is right, strings and brackets are
followed, which is slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Final, TypeVar

import msgspec
from stringzilla import find

from fastrec.errors import LogError
from fastrec.harnesses.values import REFUSALS

_T = TypeVar("_T")
Group = tuple[int, int, int, bytes]
"""Start, end and number of items, and the items with the commas between them, in brackets."""

_TRIES: Final = 4  # borders to try before following brackets
_FAR_GROUPS: Final = 4  # groups of text to look ahead for the end of a group
_FAR_BYTES: Final = 16 << 20  # text to look ahead for the end of an item
_KEY_BYTES: Final = 200  # where the first key of an item must end to be part of the border

_MARK: Final = b"\xef\xbb\xbf"  # byte order mark
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_PLAIN: Final = re.compile(rb'[^ \t\r\n,:"\[\]{}]++')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_FIRST_KEY: Final = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+"')
# Up to the next bracket, over strings, and over objects and lists that have no others inside. Without a bracket, the
# text ends, perhaps in a string.
_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|STRING|\{(?:[^"\[\]{}]++|STRING)*+\}|\[(?:[^"\[\]{}]++|STRING)*+\])*+([\[\]{}]?)'.replace(
        b"STRING", _STRING.pattern
    ),
    re.DOTALL,
)

# What Python writes and msgspec refuses: bare values, and escaped surrogates. Replacing them changes no bracket and no
# quote, even inside a string or after an escaped backslash.
_NOT_FINITE: Final = re.compile(rb"(?<=[ \t\r\n:,\[])(?:NaN|-?Infinity)(?=[ \t\r\n,\]}])")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class JsonArray:
    """Walks the array under a top-level key, or a document that is an array: then the key is None.

    It is walked once, by `groups` or by `items`. All positions are offsets in the document:

        document   ………………………|………………………………………………|…………………………
                             base             base + len(data)

    LogError if the document is cut, has no array where the key is None, or is not JSON as far as it is looked at.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[int], bytes],
        key: str | None,
        *,
        group_bytes: int = 4 << 20,
        block_bytes: int = 1 << 20,
        max_held: int = 512 << 20,
    ) -> None:
        """`read` returns up to so many bytes, none at the end. A value of more than `max_held` bytes is refused."""
        self.envelope = b""
        """After the walk: the document with the array empty, or as it is if there is no such array."""
        self._path = path
        self._read = read
        self._key = key
        self._group_bytes = group_bytes
        self._block_bytes = block_bytes
        self._max_held = max_held
        self._base = 0
        self._data = b""
        self._is_whole = False  # whether the end of the document was read
        self._copied = 0  # offset up to which the envelope is complete
        self._border = b""  # from the last byte of an item to the first of the next, or further; empty if unknown
        self._last_border = b""  # from the last byte of the last item to the end of the array; empty if unknown

    def groups(self) -> Iterator[Group]:
        """Yield whole items in groups of about `group_bytes`; an item that is longer is a group of its own."""
        return self._walk(self._group_from)

    def items(self, decode: Callable[[memoryview], _T]) -> Iterator[tuple[int, int, _T]]:
        """Yield start, size and value of each item. `decode` raises ValueError if an item is not what it should be."""
        return chain.from_iterable(self._walk(lambda start: self._items_from(start, decode)))

    def _walk(self, take: Callable[[int], tuple[_T, int]]) -> Iterator[_T]:
        """Go through the document. `take` returns one or more items from an offset, and the offset after them."""
        self._need(0, len(_MARK))
        at = self._skip(len(_MARK) if self._data.startswith(_MARK) else 0)
        if self._key is None:
            if self._byte(at) != b"[":
                raise LogError(self._path, "is not a JSON array")
            end = yield from self._array(at + 1, 1, take)
        else:
            if self._byte(at) != b"{":
                raise LogError(self._path, "is not a JSON object")
            end = yield from self._object(at + 1, take)
        at = self._skip(end)
        if self._byte(at):
            raise LogError(self._path, f"has more text after its end, at byte {at:,}")
        self.envelope += self._between(self._copied, at)

    def _object(self, at: int, take: Callable[[int], tuple[_T, int]]) -> Generator[_T, None, int]:
        """Go through the members of the top-level object, after its bracket; return the offset after it."""
        found = False
        at = self._skip(at)
        while self._byte(at) != b"}":
            self._expect(at, b'"', "a key")
            end = self._string_end(at)
            is_wanted = self._is_key(at, end)
            at = self._skip(end)
            self._expect(at, b":", "a colon")
            at = self._skip(at + 1)
            if is_wanted and found:
                raise LogError(self._path, f"has the key {self._key!r} twice")
            found = found or is_wanted
            if is_wanted and self._byte(at) == b"[":
                at = yield from self._array(at + 1, 2, take)
            else:
                at = self._value_end(at)
            at = self._skip(at)
            if self._byte(at) == b",":
                at = self._skip(at + 1)
                self._expect(at, b'"', "a key")
            else:
                self._expect(at, b"}", "a comma or a bracket")
        return at + 1

    def _is_key(self, start: int, end: int) -> bool:
        try:
            return bool(msgspec.json.decode(self._between(start, end)) == self._key)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False

    def _array(self, at: int, depth: int, take: Callable[[int], tuple[_T, int]]) -> Generator[_T, None, int]:
        """Go through the items of the array, after its bracket; return the offset after it."""
        self.envelope += self._between(self._copied, at)
        start = self._skip(at)
        if self._byte(start) == b"]":
            self._copied = start
            return start + 1
        self._learn_borders(at, start, depth)
        while True:
            self._data, self._base = self._data[start - self._base :], start
            found, end = take(start)
            yield found
            at = self._skip(end)
            if self._byte(at) == b"]":
                self._copied = at
                return at + 1
            self._expect(at, b",", "a comma or a bracket")
            start = self._skip(at + 1)

    def _learn_borders(self, at: int, start: int, depth: int) -> None:
        if self._byte(start) != b"{":
            return
        lines, newline, indent = self._between(at, start).rpartition(b"\n")
        if newline:
            self._last_border = b"}%b\n%b]" % (lines, indent[: len(indent) * (depth - 1) // depth])
        end = self._value_end(start)
        comma = self._skip(end)
        second = self._skip(comma + 1)
        if self._byte(comma) != b"," or self._byte(second) != b"{":
            return
        self._border = self._between(end - 1, second + 1)
        if b"\n" not in self._border:  # without indentation, inner objects have such a border, too: add the first key
            self._need(second, _KEY_BYTES)
            found = _FIRST_KEY.match(self._between(second, second + _KEY_BYTES))
            self._border = self._border[:-1] + found[0] if found else b""

    def _items_from(self, start: int, decode: Callable[[memoryview], _T]) -> tuple[list[tuple[int, int, _T]], int]:
        """Decode the items that are held and end where they seem to, or else one by following brackets."""
        if self._border and (found := self._items_by_search(start, decode)):
            return found, found[-1][0] + found[-1][1]
        end = self._value_end(start)
        try:
            return [(start, end - start, decode(memoryview(self._data)[: end - start]))], end
        except ValueError as exc:
            raise LogError(self._path, f"has an unexpected item at byte {start:,}: {exc}") from exc

    def _items_by_search(self, start: int, decode: Callable[[memoryview], _T]) -> list[tuple[int, int, _T]]:
        border, size = self._border, self._block_bytes
        self._need(start, size)
        while find(self._data, border) < 0 and not self._is_whole and size < _FAR_BYTES:
            size *= 4
            self._need(start, size)
        data, view, at = self._data, memoryview(self._data), 0
        to_next = border.index(b"{") - 1  # from the end of an item to the start of the next
        found: list[tuple[int, int, _T]] = []
        while end := find(data, border, at) + 1:
            try:
                value = decode(view[at:end])
            except ValueError:
                break
            found.append((start + at, end - at, value))
            at = end + to_next
        return found

    def _group_from(self, start: int) -> tuple[Group, int]:
        """Cut a group at a place that looks right and is, or else by following brackets."""
        for size in self._likely_sizes(start):
            text = self._in_brackets(size)
            if items := _count(text):
                return (start, start + size, items, text), start + size
        items, at = 0, start
        while True:
            end = self._value_end(at)
            items += 1
            at = self._skip(end)
            if end - start >= self._group_bytes or self._byte(at) != b",":
                break
            at = self._skip(at + 1)
        text = self._in_brackets(end - start)
        if _count(text) != items:
            raise LogError(self._path, f"is not JSON between byte {start:,} and byte {end:,}")
        return (start, end, items, text), end

    def _likely_sizes(self, start: int) -> Iterator[int]:
        border, size = self._border, self._group_bytes
        self._need(start, size)
        searches = [(bytes.rfind, border), (find, self._last_border)]
        if self._is_whole:  # the end of the array is near
            searches.reverse()
        for search, wanted in searches:
            if wanted and (at := search(self._data, wanted, 0, size)) >= 0:
                yield at + 1
        while border and size < _FAR_GROUPS * self._group_bytes:  # an item that is longer than a group
            size *= 2
            self._need(start, size)
            at = self._group_bytes - len(border)
            for _ in range(_TRIES):
                at = find(self._data, border, at, size) + 1
                if not at:
                    break
                yield at
            else:
                return

    def _need(self, start: int, size: int) -> None:
        """Read until `size` bytes from `start` are there, or the document ends."""
        missing = start + size - self._base - len(self._data)
        if missing <= 0 or self._is_whole:
            return
        if len(self._data) + missing > self._max_held:
            raise LogError(self._path, f"has a value of more than {self._max_held >> 20} MB at byte {self._base:,}")
        parts = [self._data]
        while missing > 0:
            block = self._read(max(missing, self._block_bytes))
            if not block:
                self._is_whole = True
                break
            parts.append(block)
            missing -= len(block)
        self._data = b"".join(parts)

    def _grow(self) -> bool:
        """Read as much as is held, so that a long value costs linear time; False at the end of the document."""
        before = len(self._data)
        self._need(self._base, 2 * before or 1)
        return len(self._data) > before

    def _between(self, start: int, end: int) -> bytes:
        return self._data[start - self._base : end - self._base]

    def _in_brackets(self, size: int) -> bytes:
        return b"".join((b"[", memoryview(self._data)[:size], b"]"))

    def _byte(self, at: int) -> bytes:
        """One byte; empty at the end of the document."""
        self._need(at, 1)
        return self._data[at - self._base : at - self._base + 1]

    def _expect(self, at: int, byte: bytes, name: str) -> None:
        if self._byte(at) != byte:
            raise self._missing(at, name)

    def _missing(self, at: int, name: str) -> LogError:
        if not self._byte(at):
            return self._cut_off()
        return LogError(self._path, f"is not JSON: {name} is missing at byte {at:,}")

    def _cut_off(self) -> LogError:
        return LogError(self._path, f"is cut off: it ends at byte {self._base + len(self._data):,}")

    def _skip(self, at: int, pattern: re.Pattern[bytes] = _SPACE) -> int:
        """The offset after whitespace, or after another run of bytes."""
        while True:
            found = pattern.match(self._data, at - self._base)
            end = found.end() if found else at - self._base
            if end < len(self._data) or not self._grow():
                return end + self._base

    def _value_end(self, at: int) -> int:
        byte = self._byte(at)
        if byte == b'"':
            return self._string_end(at)
        if byte in (b"{", b"["):
            return self._container_end(at)
        end = self._skip(at, _PLAIN)
        if end == at:
            raise self._missing(at, "a value")
        return end

    def _string_end(self, at: int) -> int:
        while (found := _STRING.match(self._data, at - self._base)) is None:
            if not self._grow():
                raise self._cut_off()
        return found.end() + self._base

    def _container_end(self, at: int) -> int:
        at, depth = at - self._base + 1, 1
        while True:
            for found in _BRACKET.finditer(self._data, at):
                bracket = found[1]
                at = found.end()
                if not bracket:
                    break
                depth += 1 if bracket in b"[{" else -1
                if not depth:
                    return at + self._base
            if not self._grow():
                raise self._cut_off()


def _count(text: bytes) -> int:
    """The number of items of an array; 0 if the text is none."""
    try:
        return len(_decode_items(text))
    except REFUSALS:
        plain = _SURROGATE.sub(rb"\\u0030", _NOT_FINITE.sub(b"0", text))
    if plain == text:
        return 0
    try:
        return len(_decode_items(plain))
    except REFUSALS:
        return 0
