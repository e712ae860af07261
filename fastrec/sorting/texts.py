"""The texts of records of a run or of a part, read from front to back.

A run is not compressed, and is open only during a read. A part is compressed as a whole, so it is
decompressed from the front, by the reader that checks everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, repeat

from msgspec import Struct

from fastrec.errors import DamagedFileError, ShardCorruptError, ShardError
from fastrec.sorting.files import read_exactly
from fastrec.sources.shard import shard_at
from fastrec.storage import storage_of

_NOTHING = memoryview(b"")


class RunTexts(Struct):
    """The texts of a slice of a run, read from front to back."""

    _path: str
    _position: int
    _end: int
    _stretch: int
    _turns: int
    _size: int = 0  # of what was read
    _ahead: memoryview = _NOTHING  # data from the position on that was read

    def take(self, sizes: Sequence[int], known: int | None) -> list[memoryview]:
        """Take the next texts.

        Read a whole stretch if that is more, but no more than is `known` to be needed.
        """
        size = sum(sizes)
        missing = size - len(self._ahead)
        if missing > 0:
            start = self._position + len(self._ahead)
            left = self._end - start if known is None else known - len(self._ahead)
            data = read_exactly(self._path, max(missing, min(self._stretch, left)), start)
            self._size += len(data)
            if self._turns:
                storage_of(self._path).advise(self._path, len(data), start, needed=False)
            self._ahead = memoryview(bytes(self._ahead) + data if self._ahead else data)
        ahead = self._ahead
        self.skip(size)
        return [ahead[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]

    def skip(self, size: int) -> None:
        self._position += size
        self._ahead = self._ahead[size:]

    def close(self) -> None:
        """Have the system read what this worker needs next.

        It is as much as last time, after as much for each of the other workers.
        """
        self._ahead = _NOTHING
        if self._turns and self._size:
            start = self._position + (self._turns - 1) * self._size
            storage_of(self._path).advise(self._path, self._size, start, needed=True)

    finish = close  # other records may follow after a slice


class PartTexts:
    """The texts of a part, like `RunTexts`."""

    def __init__(self, path: str, text_bytes: int, gaps: Iterator[int] | None = None) -> None:
        """`gaps` are the bytes to skip before each text that is taken; none by default."""
        self._path = path
        self._text_bytes = text_bytes
        self._gaps = gaps or repeat(0)
        self._position = 0
        self._blocks: Iterator[bytes] | None = None  # opened by the first read
        self._ahead = _NOTHING

    def take(self, sizes: Sequence[int], _known: int | None = None) -> list[memoryview]:
        """Take the next texts.

        Only a text that lies in several blocks is copied: blocks mostly end with a line.
        """
        texts = list[memoryview]()
        ahead = self._ahead
        start = 0
        for size, gap in zip(sizes, self._gaps):  # noqa: B905 - there are gaps of later texts, too
            if gap:
                self._position += gap
                start += gap
                while start > len(ahead):
                    start -= len(ahead)
                    ahead = memoryview(self._next_block())
            end = start + size
            if end > len(ahead):
                joined = [ahead[start:]]
                while (missing := end - len(ahead)) > 0:
                    ahead = memoryview(self._next_block())
                    start = 0
                    end = missing
                    joined.append(ahead[:missing])
                texts.append(memoryview(b"".join(joined)))
            else:
                texts.append(ahead[start:end])
            start = end
        self._ahead = ahead[start:]
        self._position += sum(sizes)
        return texts

    def skip(self, size: int) -> None:
        """Move on; text that was not read is decompressed and dropped, block by block."""
        self._position += size
        while size > len(self._ahead):
            size -= len(self._ahead)
            self._ahead = memoryview(self._next_block())
        self._ahead = self._ahead[size:]

    def finish(self) -> None:
        """Check that the text ends here, and that the file was read to its end."""
        if self._position != self._text_bytes or self._ahead or self._next_block(at_end=True):
            raise DamagedFileError(self._path, f"it should have {self._text_bytes:,} bytes of text")
        self.close()

    def close(self) -> None:
        self._blocks = None
        self._ahead = _NOTHING

    def _next_block(self, *, at_end: bool = False) -> bytes:
        try:
            if self._blocks is None:
                self._blocks = shard_at(self._path).read_text()
            block = next(filter(None, self._blocks), b"")
        except ShardError as exc:
            cause = exc.__cause__
            # Some libraries raise an OSError for corrupt data.
            is_damaged = isinstance(exc, ShardCorruptError) or isinstance(cause, FileNotFoundError)
            if isinstance(cause, OSError) and not is_damaged:
                # the file may be intact: a connection broke, or there were too many open files
                raise cause from None
            raise DamagedFileError(self._path, exc.reason) from exc
        if not block and not at_end:
            raise DamagedFileError(self._path, "its text ends too early")
        return block
