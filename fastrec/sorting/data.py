"""The texts of a run or of a published part, read from front to back.

A run is not compressed, and is open only during a read. A part is compressed as a whole, so it is decompressed from the
front, by the reader that checks everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fastrec.errors import DamagedFileError, ShardCorruptError, ShardError
from fastrec.sorting.files import read_exactly
from fastrec.sources.shard import shard_at

__all__ = ["DataReader", "PartData", "RunData"]

_NOTHING = memoryview(b"")


class DataReader(Protocol):
    """Reads texts from front to back."""

    def read(self, size: int, known: int | None) -> memoryview:
        """Return the next bytes, without moving on; no more than `known` bytes will be needed from here."""

    def skip(self, size: int) -> None:
        """Move on."""

    def finish(self) -> None:
        """Check what follows after all records were read."""

    def close(self) -> None:
        """Stop reading."""


class RunData:
    """The texts of a slice of a run."""

    def __init__(self, path: str, start: int, end: int, stretch: int) -> None:
        self._path = path
        self._position, self._end = start, end
        self._stretch = stretch
        self._ahead = _NOTHING  # data from the position on that was read

    def read(self, size: int, known: int | None) -> memoryview:
        """Return the next bytes; read a whole stretch if that is more, but no more than is `known` to be needed."""
        missing = size - len(self._ahead)
        if missing > 0:
            start = self._position + len(self._ahead)
            left = self._end - start if known is None else known - len(self._ahead)
            data = read_exactly(self._path, max(missing, min(self._stretch, left)), start)
            self._ahead = memoryview(bytes(self._ahead) + data if self._ahead else data)
        return self._ahead[:size]

    def skip(self, size: int) -> None:
        """Move on."""
        self._position += size
        self._ahead = self._ahead[size:]

    def finish(self) -> None:
        """Do nothing: other records may follow after a slice."""

    def close(self) -> None:
        """Release what was read ahead."""
        self._ahead = _NOTHING


class PartData:
    """The texts of a part, which has `text_bytes` of them."""

    def __init__(self, path: str, text_bytes: int) -> None:
        self._path = path
        self._text_bytes = text_bytes
        self._position = 0
        self._blocks: Iterator[bytes] | None = None  # opened by the first read
        self._ahead = _NOTHING

    def read(self, size: int, _known: int | None) -> memoryview:
        """Return the next bytes."""
        missing = size - len(self._ahead)
        if missing > 0:
            blocks = [bytes(self._ahead)]
            while missing > 0:
                blocks.append(self._next_block())
                missing -= len(blocks[-1])
            self._ahead = memoryview(b"".join(blocks))
        return self._ahead[:size]

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
        """Close the file."""
        self._blocks = None
        self._ahead = _NOTHING

    def _next_block(self, *, at_end: bool = False) -> bytes:
        try:
            if self._blocks is None:
                self._blocks = shard_at(self._path).read_text()
            block = next(filter(None, self._blocks), b"")
        except ShardCorruptError as exc:  # its cause may be an OSError, which some libraries raise for corrupt data
            raise DamagedFileError(self._path, exc.reason) from exc
        except ShardError as exc:
            cause = exc.__cause__
            if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
                raise cause from None  # the file may be intact: a connection broke, or there were too many open files
            raise DamagedFileError(self._path, exc.reason) from exc
        if not block and not at_end:
            raise DamagedFileError(self._path, "its text ends too early")
        return block
