r"""A window over the text of a JSON document: it follows strings and brackets, and reads on where it has to.

    document   ………………………|………………………………………………|…………………………
                         base             base + len(data)     offsets are those of the document

It holds what was read and not dropped. It grows by its own size, so that a long value costs linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from stringzilla import find

from fastrec.errors import LogError

__all__ = ["MAX_HELD", "TextWindow"]

BLOCK_BYTES: Final = 1 << 20
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
        self, path: str, read: Callable[[int], bytes], block_bytes: int = BLOCK_BYTES, max_held: int = MAX_HELD
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
