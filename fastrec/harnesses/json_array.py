"""Walk a JSON document that has one long array, in bounded memory.

    {"version": 2, "samples": [{…},{…},{…},{…}], "stats": {}}
                               └┬┘ └┬┘ └┬┘ └┬┘   `items`, decoded one by one
    {"version": 2, "samples": [               ], "stats": {}}  `envelope`

Items end where the text looks like the border of two items: `},`, the whitespace that follows the
first item, then `{`. This search for bytes can be wrong, so what it finds is decoded. The text
starts at an item, so its brackets are balanced and it ends outside a string only if the end is
right. Where no such place is right, strings and brackets are followed, which is slower.
"""

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from stringzilla import find

from fastrec.errors import LogError
from fastrec.harnesses.values import BOM, OptionalText, explaining

Item = tuple[int, int, Any]  # its start, its size and its value
Walk = Generator[Item, None, int]  # yields items, and returns the offset after them

_FAR_BYTES = 16 << 20  # text to look ahead for the end of an item
_KEY_BYTES = 200  # where the first key of an item must end to be part of the border

_SPACE = re.compile(rb"[ \t\r\n]*+")
_PLAIN = re.compile(rb'[^ \t\r\n,:"\[\]{}]++')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+"')
# Up to the next bracket, over strings. Without a bracket, the text ends, perhaps in a string: then
# `re` before Python 3.11.5 gives a wrong end. It is also wrong about alternatives that fail after
# some bytes, so objects are none.
_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|%b)*+([\[\]{}]?)' % _STRING.pattern, re.DOTALL)


@dataclass
class JsonArray:
    """Walks the array under a top-level key, or a document that is an array: then the key is None.

    It is walked once. All positions are offsets in the document:

        document   ………………………|………………………………………………|…………………………
                             base             base + len(data)

    LogError if the document is cut, has no array where the key is None, or is not JSON as far as it
    is looked at.
    """

    path: str
    read: Callable[[int], bytes]  # returns up to so many bytes, none at the end
    key: OptionalText
    decode: Callable[[memoryview], Any]  # raises ValueError if an item is not what it should be
    block_bytes: int = 1 << 20
    max_held: int = 512 << 20  # a value of more bytes is refused
    # After the walk: the document with an empty array, or as it is if it has no such array.
    envelope: bytes = b""
    _base: int = 0
    _data: bytes = b""
    _is_whole: bool = False  # whether the end of the document was read
    _copied: int = 0  # offset up to which the envelope is complete
    # from the last byte of an item to the first of the next, or further; empty if unknown
    _border: bytes = b""

    def items(self) -> Iterator[Item]:
        """Go through the document."""
        self._need(0, len(BOM))
        at = self._skip(len(BOM) if self._data.startswith(BOM) else 0)
        if self._byte(at) != (b"[" if self.key is None else b"{"):
            kind = "array" if self.key is None else "object"
            raise LogError(self.path, f"is not a JSON {kind}")
        end = yield from self._array(at + 1) if self.key is None else self._object(at + 1)
        at = self._skip(end)
        if self._byte(at):
            raise LogError(self.path, f"has more text after its end, at byte {at:,}")
        self.envelope += self._between(self._copied, at)

    def _object(self, at: int) -> Walk:
        """Go through the members of the top-level object, after its bracket.

        Return the offset after it.
        """
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
                raise LogError(self.path, f"has the key {self.key!r} twice")
            found = found or is_wanted
            if is_wanted and self._byte(at) == b"[":
                at = yield from self._array(at + 1)
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
            return bool(msgspec.json.decode(self._between(start, end)) == self.key)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False

    def _array(self, at: int) -> Walk:
        """Go through the items of the array, after its bracket; return the offset after it."""
        self.envelope += self._between(self._copied, at)
        start = self._skip(at)
        if self._byte(start) == b"]":
            self._copied = start
            return start + 1
        self._learn_border(start)
        while True:
            self._data = self._data[start - self._base :]
            self._base = start
            found = self._items_from(start)
            yield from found
            at = self._skip(found[-1][0] + found[-1][1])
            if self._byte(at) == b"]":
                self._copied = at
                return at + 1
            self._expect(at, b",", "a comma or a bracket")
            start = self._skip(at + 1)

    def _learn_border(self, start: int) -> None:
        if self._byte(start) != b"{":
            return
        end = self._value_end(start)
        comma = self._skip(end)
        second = self._skip(comma + 1)
        if self._byte(comma) != b"," or self._byte(second) != b"{":
            return
        self._border = self._between(end - 1, second + 1)
        if (
            b"\n" not in self._border
        ):  # without indentation, inner objects have such a border, too: add the first key
            self._need(second, _KEY_BYTES)
            found = _FIRST_KEY.match(self._between(second, second + _KEY_BYTES))
            self._border = self._border[:-1] + found[0] if found else b""

    def _items_from(self, start: int) -> list[Item]:
        """Decode the items that are held, by search, or else one by following brackets."""
        if self._border and (found := self._items_by_search(start)):
            return found
        end = self._value_end(start)
        with explaining(self.path, f"has an unexpected item at byte {start:,}"):
            return [(start, end - start, self.decode(memoryview(self._data)[: end - start]))]

    def _items_by_search(self, start: int) -> list[Item]:
        border = self._border
        size = self.block_bytes
        self._need(start, size)
        while find(self._data, border) < 0 and not self._is_whole and size < _FAR_BYTES:
            size *= 4
            self._need(start, size)
        data = self._data
        view = memoryview(self._data)
        at = 0
        to_next = border.index(b"{") - 1  # from the end of an item to the start of the next
        found: list[Item] = []
        while end := find(data, border, at) + 1:
            try:
                value = self.decode(view[at:end])
            except ValueError:
                break
            found.append((start + at, end - at, value))
            at = end + to_next
        return found

    def _need(self, start: int, size: int) -> None:
        """Read until `size` bytes from `start` are there, or the document ends."""
        missing = start + size - self._base - len(self._data)
        if missing <= 0 or self._is_whole:
            return
        if len(self._data) + missing > self.max_held:
            raise LogError(
                self.path,
                f"has a value of more than {self.max_held >> 20} MB at byte {self._base:,}",
            )
        parts = [self._data]
        while missing > 0:
            block = self.read(max(missing, self.block_bytes))
            if not block:
                self._is_whole = True
                break
            parts.append(block)
            missing -= len(block)
        self._data = b"".join(parts)

    def _grow(self) -> bool:
        """Read as much as is held, so that a long value costs linear time.

        False at the end of the document.
        """
        before = len(self._data)
        self._need(self._base, 2 * before or 1)
        return len(self._data) > before

    def _between(self, start: int, end: int) -> bytes:
        return self._data[start - self._base : end - self._base]

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
        return LogError(self.path, f"is not JSON: {name} is missing at byte {at:,}")

    def _cut_off(self) -> LogError:
        return LogError(self.path, f"is cut off: it ends at byte {self._base + len(self._data):,}")

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
        at = at - self._base + 1
        depth = 1
        while True:
            for found in _BRACKET.finditer(self._data, at):
                bracket = found[1]
                if not bracket:
                    at = found.start()
                    break
                at = found.end()
                depth += 1 if bracket in b"[{" else -1
                if not depth:
                    return at + self._base
            if not self._grow():
                raise self._cut_off()
