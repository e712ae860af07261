"""An object of a store, read from front to back."""

from __future__ import annotations

import errno
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Self

from fastrec.storage.store import look_at, read_range

__all__ = ["StoreReader"]

_BLOCK: Final = 8 << 20  # bytes of a request: its answer takes much longer than the way there and back
_AHEAD: Final = 2  # blocks that are asked for before they are wanted


class StoreReader:
    """An object that is read from front to back: the blocks that follow are asked for while one is used."""

    def __init__(self, path: str) -> None:
        _, self.size, self.version = look_at(path)
        self._path = path
        self._position = 0  # of what was not asked for yet
        self._end = self.size
        self._peeked = 0, b""  # where `pread` was last, and what is there
        self._asked: deque[Future[bytes]] = deque()
        self._left = memoryview(b"")
        self._executor: ThreadPoolExecutor | None = None

    def read(self, size: int) -> bytes:
        """Read up to so many bytes from where the last read ended; none at the end."""
        if not self._left:
            self._ask_ahead()
            if not self._asked:
                return b""
            self._left = memoryview(self._asked.popleft().result())
        data, self._left = bytes(self._left[:size]), self._left[size:]
        return data

    def _ask_ahead(self) -> None:
        while len(self._asked) < _AHEAD and self._position < self._end:
            size = min(_BLOCK, self._end - self._position)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_AHEAD)
            self._asked.append(self._executor.submit(self._block, size, self._position))
            self._position += size

    def _block(self, size: int, offset: int) -> bytes:
        data = read_range(self._path, size, offset)
        if len(data) != size:
            raise OSError(errno.EIO, f"gave {len(data):,} bytes from byte {offset:,} on, not {size:,}", self._path)
        return data

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to so many bytes from somewhere. Who goes on reading from there is given ever larger blocks."""
        begin, block = self._peeked
        if not begin <= offset < begin + len(block):
            wanted = max(size, 2 * len(block) if offset == begin + len(block) else 0)
            block = read_range(self._path, min(wanted, _BLOCK, max(self.size - offset, 0)), offset)
            begin = offset
            self._peeked = begin, block
        return block[offset - begin : offset - begin + size]

    def seek(self, offset: int, size: int | None = None, /) -> None:
        """Go on reading from somewhere else, where no more than `size` bytes will be wanted."""
        self._drop_what_was_asked()
        self._position = offset
        self._end = self.size if size is None else min(offset + size, self.size)
        self._left = memoryview(b"")

    def has_changed(self) -> bool:
        """Tell whether the object is another by now."""
        _, size, version = look_at(self._path)
        return (size, version) != (self.size, self.version)

    def close(self) -> None:
        """Let go of it."""
        self._drop_what_was_asked()
        if self._executor:
            self._executor.shutdown()

    def _drop_what_was_asked(self) -> None:
        for future in self._asked:
            future.cancel()
        self._asked.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
