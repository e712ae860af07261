"""Decode the items of a long array in a JSON document one by one, in bounded memory, and tell where they are.

An item ends where the next place is that looks like a border. If the text up to there decodes, it is the item: an
object that starts where the item starts, and is complete, has its end. If not, strings and brackets are followed.
That goes for the last item, too, and for one that is very long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from fastrec.errors import LogError
from fastrec.harnesses.array_walk import ArrayWalk, Borders
from fastrec.harnesses.text_window import TextWindow

__all__ = ["Item", "ItemReader"]

_T = TypeVar("_T")

READ_BYTES: Final = 1 << 20  # text to read at a time
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
        read_bytes: int = READ_BYTES,
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
            raise LogError(self._path, f"has another item than expected at byte {start:,}: {exc}") from exc

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
