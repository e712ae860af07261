"""Walk a JSON document that has one long array, in bounded memory.

    {"version": 2, "samples": [{…},{…},{…},{…}], "stats": {}}
                               └┬┘ └┬┘ └┬┘ └┬┘   `items`, decoded one by one
    {"version": 2, "samples": [               ], "stats": {}}  `envelope`

msgspec finds the end of each value: it skips the value, and says where it is followed by more.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import DecodeError, Raw
from stringzilla import find

from fastrec.errors import LogError
from fastrec.harnesses.values import BOM, Buffer, OptionalText, decoder, explaining
from fastrec.schemas.view import json_decoder

Item = tuple[int, int, Any]  # its start, its size and its value

_FAR_BYTES = 16 << 20  # text to look ahead for the end of an item

_SPACE = re.compile(rb"[ \t\r\n]*+")
_BORDER = re.compile(rb'\}([ \t\r\n]*+,[ \t\r\n]*+)\{[ \t\r\n]*+"[^"\\]*+"')
_MALFORMED = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_LONGEST_WORD = len("Infinity")

_skip_value = json_decoder(Raw)
_decode_key = decoder(str)
_decode_raw = decoder(Raw)

# What Python writes beyond JSON, and JSON of the same length: numbers, and an escape instead of the
# beginning of that of a surrogate, which may be a lone one.
_BEYOND_JSON = (
    (b"NaN", b"100"),
    (b"Infinity", b"10000000"),
    (b"\\ud", b"\\n0"),
    (b"\\uD", b"\\n0"),
)


def _as_json(text: bytes) -> bytes:
    for beyond, replacement in _BEYOND_JSON:
        if find(text, beyond) >= 0:  # far faster than `replace`
            text = text.replace(beyond, replacement)
    return text


@dataclass
class JsonArray:
    """Walks the array under a top-level key, or a document that is an array: then the key is None.

    `decode` raises ValueError if an item is not what it should be; by default, items are JSON. The
    document is walked once, from the start of the document to its end:

        document   ………………………|………………………………………………|…………………………
                             _base            _base + len(_data)

    LogError if the document is cut, has no array where the key is None, or is not JSON as far as it
    is looked at.
    """

    path: str
    read: Callable[[int], bytes]  # returns up to so many bytes, none at the end
    key: OptionalText
    decode: Callable[[Buffer], Any] = _decode_raw
    block_bytes: int = 1 << 20
    max_held: int = 512 << 20  # a value of more bytes is refused
    # After the walk: the document with an empty array, or as it is if it has no such array.
    envelope: bytearray = field(default_factory=bytearray)
    _base: int = 0
    _data: bytes = b""
    # `_data` without what Python writes beyond JSON; empty if no value was skipped in it
    _json: bytes = b""
    _at: int = 0  # offset in `_data` up to which the document was walked
    _is_kept: bool = True  # whether the envelope has what is walked

    def items(self) -> Iterator[Item]:
        """Go through the document."""
        self._read_more()
        if self._data.startswith(BOM):
            self._walk(len(BOM))
        kind, bracket = ("array", b"[") if self.key is None else ("object", b"{")
        if self._next() != bracket:
            raise LogError(self.path, f"is not a JSON {kind}")
        yield from self._array() if self.key is None else self._object()
        if self._next():
            raise LogError(self.path, f"has more text after its end, at byte {self._offset:,}")

    def _object(self) -> Iterator[Item]:
        """Go through the members of the top-level object."""
        is_found = False
        for _ in self._entries(b"}"):
            with explaining(self.path, f"has an unexpected key at byte {self._offset:,}"):
                is_wanted = _decode_key(self._value()) == self.key
            self._expect(b":")
            if is_wanted and is_found:
                raise LogError(self.path, f"has the key {self.key!r} twice")
            is_found = is_found or is_wanted
            if self._next() == b"[" and is_wanted:
                yield from self._array()
            else:
                self._value()

    def _array(self) -> Iterator[Item]:
        border = None
        for _ in self._entries(b"]"):
            if border:
                yield from self._items_by_search(border[0], len(border[1]))
            start = self._offset
            end = self._value_end()
            text = self._data[self._at : end].rstrip()
            with explaining(self.path, f"has an unexpected item at byte {start:,}"):
                value = self.decode(text)
            border = _BORDER.match(self._data, self._at + len(text) - 1)
            self._at = end
            yield start, len(text), value

    def _items_by_search(self, border: bytes, size_between: int) -> list[Item]:
        """Decode items that end where the text looks like the last border of two items.

        This is faster. It can be wrong, so only what is decoded counts.
        """
        while find(self._data, border, self._at) < 0 and len(self._data) < _FAR_BYTES:
            if not self._read_more():
                break
        data = self._data
        view = memoryview(data)  # slices of it are no copies
        items = []
        while end := find(data, border, self._at) + 1:
            try:
                value = self.decode(view[self._at : end])
            except ValueError:
                break
            items.append((self._offset, end - self._at, value))
            self._at = end + size_between
        return items

    def _entries(self, closing: bytes) -> Iterator[None]:
        """Stop at each member of an object, or at each item of the array."""
        self._walk(1)
        self._is_kept = closing == b"}"
        if self._next() != closing:
            yield
            while self._next() == b",":
                self._walk(1)
                self._next()
                yield
        self._is_kept = True
        self._expect(closing)

    def _expect(self, byte: bytes) -> None:
        following = self._next()
        if not following:
            raise self._cut_off()
        if following != byte:
            missing = f"{byte.decode()} is missing"
            raise LogError(self.path, f"is not JSON: {missing} at byte {self._offset:,}")
        self._walk(1)

    def _next(self) -> bytes:
        """Walk over whitespace, and return the byte after it; it is empty at the end."""
        while True:
            space = _SPACE.match(self._data, self._at)
            assert space
            self._walk(space.end() - self._at)
            if self._at < len(self._data) or not self._read_more():
                return self._data[self._at : self._at + 1]

    def _value(self) -> bytes:
        """Walk over a value; return its text."""
        end = self._value_end()
        text = self._data[self._at : end].rstrip()
        self._walk(end - self._at)
        return text

    def _value_end(self) -> int:
        """The offset in `_data` of what follows a value."""
        while True:
            malformed = None
            is_whole = False
            self._json = self._json or _as_json(self._data)
            try:
                _skip_value(memoryview(self._json)[self._at :])
                is_whole = True  # if nothing follows what is held
            except RecursionError:
                raise LogError(
                    self.path, f"is nested too deeply, at byte {self._offset:,}"
                ) from None
            except DecodeError as exc:
                malformed = _MALFORMED.match(str(exc))
            if malformed:
                reason = malformed[1]
                number = self._at + int(malformed[2])
                if reason == "trailing characters":
                    return number - 1
                word = self._data[number : number + _LONGEST_WORD]
                may_be_cut = len(word) < _LONGEST_WORD and (word.isalpha() or not word)
                if not may_be_cut:
                    raise LogError(
                        self.path, f"is not JSON: {reason} at byte {self._base + number:,}"
                    )
            if not self._read_more():
                if is_whole:
                    return len(self._data)
                raise self._cut_off()

    def _read_more(self) -> bool:
        """Read as much as is held, so that a long value costs linear time.

        False at the end of the document.
        """
        held = self._data[self._at :]
        self._base += self._at
        self._at = 0
        self.block_bytes = max(len(held), self.block_bytes)
        if len(held) + self.block_bytes > self.max_held:
            raise LogError(
                self.path,
                f"has a value of more than {self.max_held >> 20} MB at byte {self._base:,}",
            )
        block = self.read(self.block_bytes)
        self._data = held + block
        self._json = b""
        return bool(block)

    def _walk(self, size: int) -> None:
        end = self._at + size
        if self._is_kept:
            self.envelope += self._data[self._at : end]
        self._at = end

    @property
    def _offset(self) -> int:
        return self._base + self._at

    def _cut_off(self) -> LogError:
        return LogError(self.path, f"is cut off: it ends at byte {self._base + len(self._data):,}")
