"""What can be done with a file, wherever it is."""

from __future__ import annotations

from typing import Any, Protocol, Self

__all__ = ["NewFile", "Reader", "Writer"]


class Reader(Protocol):
    """A file that is read."""

    size: int
    version: int
    """Changes when the file does."""

    def read(self, size: int) -> bytes:
        """Read up to so many bytes from where the last read ended; none at the end."""

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to so many bytes from somewhere."""

    def seek(self, offset: int, size: int | None = None, /) -> None:
        """Go on reading from somewhere else, where no more than `size` bytes will be wanted."""

    def has_changed(self) -> bool:
        """Tell whether the file is another by now."""

    def close(self) -> None:
        """Let go of it."""

    def __enter__(self) -> Self:
        """Give the reader itself; it is closed on leaving."""

    def __exit__(self, *_: object) -> None:
        """Close it."""


class Writer(Protocol):
    """A file that is written, from front to back."""

    def write(self, data: Any, /) -> int:
        """Append some bytes."""

    def tell(self) -> int:
        """Tell how many bytes were written."""


class NewFile(Protocol):
    """A file that is there, whole and on disk, when it is finished, and not before."""

    def write(self, data: Any, /) -> int:
        """Append some bytes, all of them."""

    def writev(self, views: list[memoryview], /) -> None:
        """Append some buffers, all of them."""

    def finish(self) -> None:
        """Put the file in its place."""

    def give_up(self) -> None:
        """Leave nothing behind, unless the file is finished."""
