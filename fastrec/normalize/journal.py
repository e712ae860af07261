"""The journal: what a run has finished, so that the next run of the same command can go on from there.

    purpose │ entry │ entry │ …        each: length, fingerprint, msgpack

The purpose says what the work is for: version, options, order. Work for another purpose is of no use. An entry is
written when a task of pass 1, a merged run or a part is finished. A last entry that was cut off by a crash is as if
never written.

Nothing is believed because it stands here. Before an entry is used, everything that it was made of and all that it left
behind is read again, and its fingerprint compared.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, BinaryIO, Final, Self

import msgspec

from fastrec.errors import naming
from fastrec.normalize.merging import Merged
from fastrec.normalize.pass1 import Piece, SortResult
from fastrec.normalize.pass2 import Part
from fastrec.storage import storage_of
from fastrec.storage.digests import fingerprint

__all__ = ["Journal", "JournalEntry", "MergeDone", "PartDone", "TaskDone"]

_HEAD: Final = 12  # bytes before an entry: its length, its fingerprint


class TaskDone(msgspec.Struct, frozen=True, tag="task"):
    """A task of pass 1 was finished, all its pieces read to their ends."""

    pieces: tuple[Piece, ...]
    result: SortResult
    """Without what was sampled: that is read from the runs again."""


class MergeDone(msgspec.Struct, frozen=True, tag="merge"):
    """Runs were merged, and may be gone since."""

    merged: Merged


class PartDone(msgspec.Struct, frozen=True, tag="part"):
    """A part was finished."""

    made_of: str
    """Fingerprint of all that went into it."""
    part: Part


JournalEntry = TaskDone | MergeDone | PartDone


class Journal:
    """The file; open while a run works."""

    def __init__(self, path: str, purpose: dict[str, Any]) -> None:
        self.purpose = purpose
        self.entries: list[JournalEntry] = []
        self._log = storage_of(path).open_log(path)
        try:
            with naming(path):
                self._go_to_the_end()
        except BaseException:
            self._log.close()
            raise

    def _go_to_the_end(self) -> None:
        """Read the entries, cut off what is none, and begin anew if they are for another purpose."""
        head = _framed(_encode(self.purpose))
        size = self._log.size()
        with self._log.reader() as file:
            end = len(head) if file.read(len(head)) == head else 0
            while end and (body := _next_entry(file, size - end)) is not None:
                try:
                    self.entries.append(_decode(body))
                except msgspec.MsgspecError:
                    break
                end += _HEAD + len(body)
        self._log.cut(end)
        if not end:
            self._log.append(head)

    def files(self) -> list[str]:
        """Name the files that the journal is in."""
        return self._log.files()

    def forget(self, kind: type[JournalEntry]) -> None:
        """Forget the entries of a kind, which have been looked at."""
        self.entries = [entry for entry in self.entries if not isinstance(entry, kind)]

    def add(self, entry: JournalEntry) -> bool:
        """Note that something is finished; tell whether it could be noted."""
        try:
            body = _encode(entry)
        except (UnicodeEncodeError, OverflowError, TypeError):
            # A path that is not UTF-8, or an example with a giant integer: that work cannot be used again.
            return False
        self._log.append(_framed(body))
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + fingerprint(body).to_bytes(8, "big") + body


def _next_entry(file: BinaryIO, left: int) -> bytes | None:
    head = file.read(_HEAD)
    body = file.read(min(int.from_bytes(head[:4], "big"), left))
    return body if body and head + body == _framed(body) else None


def _to_counter(_kind: Any, value: Any) -> Any:
    return Counter(value)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskDone | MergeDone | PartDone, dec_hook=_to_counter).decode
