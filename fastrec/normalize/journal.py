"""The journal: what a run has finished, so that the next run of the same command can resume.

    purpose │ entry │ entry │ …        each: length, fingerprint, msgpack

The purpose is everything besides the records that determines the bytes of the corpus: build, options, sort order. A
journal of another purpose is discarded, with a notice. An entry is written when a task of pass 1, a merge or a part is
finished. If a crash cut off the last entry, it is ignored.

Entries are not trusted. Before one is used, its inputs and outputs are read again and their checksums compared.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Final, Self

import msgspec

from fastrec.build import differences
from fastrec.errors import naming
from fastrec.normalize.results import MergedRun, Part, SortResult
from fastrec.storage import storage_of
from fastrec.storage.digests import fingerprint

__all__ = ["Journal", "JournalEntry"]

_HEAD: Final = 12  # bytes before an entry: its length and fingerprint


JournalEntry = SortResult | MergedRun | Part


class Journal:
    """The journal file, open during a run."""

    def __init__(self, path: str, purpose: dict[str, Any]) -> None:
        self.purpose = purpose
        self.entries: list[JournalEntry] = []
        """Entries of earlier runs."""
        self.discarded = ""
        """Why entries of an earlier run are not used; empty if there are none."""
        self._log = storage_of(path).open_log(path)
        try:
            with naming(path):
                self._read()
        except BaseException:
            self._log.close()
            raise

    def _read(self) -> None:
        """Read the entries, truncate the file after the last valid one, and start over if the purpose differs."""
        head = _framed(_encode(self.purpose))
        with self._log.reader() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            before = _next_entry(file, size)
            end = len(head) if before is not None and _framed(before) == head else 0
            if before and not end and _next_entry(file, size):
                self.discarded = _difference(before, self.purpose)
            while end and (body := _next_entry(file, size - end)) is not None:
                try:
                    self.entries.append(_decode(body))
                except msgspec.MsgspecError:
                    break
                end += _HEAD + len(body)
        self._log.cut(end)
        if not end:
            self._log.append(head)

    def take(self) -> list[JournalEntry]:
        """Return the entries of earlier runs, and keep only those of parts, which are needed later."""
        entries = self.entries
        self.entries = [entry for entry in entries if isinstance(entry, Part)]
        return entries

    def add(self, entry: JournalEntry) -> bool:
        """Append an entry; return whether it could be encoded."""
        try:
            body = _encode(entry)
        except (UnicodeEncodeError, OverflowError, TypeError):
            # A path that is not UTF-8, or an example with a huge integer: this work cannot be reused.
            return False
        self._log.append(_framed(body))
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def _difference(before: bytes, purpose: dict[str, Any]) -> str:
    """Say how the encoded purpose of a journal differs from this one."""
    try:
        then, now = (_flat(msgspec.msgpack.decode(encoded)) for encoded in (before, _encode(purpose)))
    except (msgspec.MsgspecError, TypeError, AttributeError):
        return "it cannot be read"
    return f"it was made with {', '.join(differences(then, now))}"


def _flat(purpose: dict[str, Any]) -> dict[str, Any]:
    return {**purpose.pop("build", {}), **purpose}


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + fingerprint(body).to_bytes(8, "big") + body


def _next_entry(file: BinaryIO, left: int) -> bytes | None:
    head = file.read(_HEAD)
    body = file.read(min(int.from_bytes(head[:4], "big"), left))
    return body if body and head + body == _framed(body) else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode
