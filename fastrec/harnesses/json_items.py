"""Decode the items of a long array in a JSON document one by one, in bounded memory, and tell where they are.

An item ends where the next place is that looks like a border. If the text up to there decodes, it is the item: an
object that starts where the item starts, and is complete, has its end. If not, strings and brackets are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from fastrec.errors import LogError
from fastrec.harnesses.array_walk import ArrayWalk, Borders
from fastrec.harnesses.text_window import TextWindow

__all__ = ["Item", "ItemReader"]

_T = TypeVar("_T")

READ_BYTES: Final = 4 << 20  # text to read at a time
_FAR: Final = 16 << 20  # text to look ahead for a border


class Item(NamedTuple, Generic[_T]):
    """An item of the array."""

    start: int
    """Offset in the document."""
    size: int
    value: _T


class ItemReader(ArrayWalk[Item[_T]]):
    """Iterates over the items of an array; afterwards, `envelope` is complete."""

    def __init__(
        self,
        path: str,
        text: TextWindow,
        key: str | None,
        decode: Callable[[memoryview], _T],
        read_bytes: int = READ_BYTES,
    ) -> None:
        """Decode items with a function that raises ValueError if an item is not what it should be."""
        super().__init__(path, text, key)
        self._decode = decode
        self._read_bytes = read_bytes

    def _piece(self, start: int, borders: Borders) -> tuple[Item[_T], int]:
        text = self._text
        end = self._likely_end(start, borders.between)
        if end:
            try:
                return Item(start, end - start, self._decode(text.view(start, end))), end
            except ValueError:
                pass
        end = text.value_end(start)
        try:
            return Item(start, end - start, self._decode(text.view(start, end))), end
        except ValueError as exc:
            raise LogError(self._path, f"has another item than expected at byte {start:,}: {exc}") from exc

    def _likely_end(self, start: int, between: bytes) -> int:
        """Return the offset after the item if it ends where it seems to, or 0."""
        text, size = self._text, self._read_bytes
        if not between:
            text.drop_before(start, self._read_bytes)
            return 0
        while (at := text.find(between, start, start + _FAR)) < 0:
            text.drop(start)
            if text.is_whole or size > _FAR:
                return 0
            text.need(start, size)
            size *= 2
        return at + 1
