"""The journal: what a run has finished, so that the next run of the same command can resume.

    purpose │ entry │ entry │ …        each: length, fingerprint, msgpack

The purpose is everything besides the records that determines the bytes of the corpus: build, options, sort order. A
journal of another purpose is discarded, with a notice. An entry is written when a task of pass 1, a merge or a part is
finished. If a crash cut off the last entry, it is ignored.

Entries are not trusted. Before one is used, its inputs and outputs are read again and their checksums compared.

In an object store each run has its own journal, because a run that lost its lease may still append to its own. The next
run starts with a copy of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final, Self

import msgspec

from fastrec.build import differences
from fastrec.errors import naming
from fastrec.judge.codes import REPAIRS
from fastrec.normalize.results import MergedRun, Part, SortResult
from fastrec.storage import storage_of
from fastrec.storage.base import Log
from fastrec.storage.digests import fingerprint

__all__ = ["Journal", "JournalEntry", "difference", "framed", "purpose_in", "unframed"]

_HEAD: Final = 12  # bytes before an entry: its length and fingerprint
_COPIED: Final = 4 << 20  # bytes of another journal that are copied at a time
_OPTIONS: Final = {"sort_fields": "sort_by", "hash": "hash_algorithm"}  # options that users know by another name
_SIZES: Final = ("part_size", "max_line_bytes", "max_window")  # options that are numbers of bytes


JournalEntry = SortResult | MergedRun | Part


class Journal:
    """The journal file, open during a run."""

    def __init__(self, path: str, purpose: dict[str, Any], earlier: Iterable[str] = ()) -> None:
        """Open the journal of this run, which may continue one of the `earlier` journals of other runs."""
        self.purpose = purpose
        self.entries: list[JournalEntry] = []
        """Entries of earlier runs."""
        self.discarded = ""
        """Why entries of an earlier run are not used; empty if there are none."""
        self._head = framed(_encode(purpose))
        self._log = storage_of(path).open_log(path)
        try:
            with naming(path):
                self.entries, end = self._read(self._log)
                self._log.cut(end)
                if not end:
                    self._start(earlier)
        except BaseException:
            self._log.close()
            raise

    def _read(self, log: Log) -> tuple[list[JournalEntry], int]:
        """Read the entries up to the first invalid one; return them and where they end: 0 if the purpose differs."""
        entries: list[JournalEntry] = []
        with log.reader() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            before = _next_entry(file, size)
            end = len(self._head) if before is not None and framed(before) == self._head else 0
            if before and not end and _next_entry(file, size):
                self.discarded = difference(before, self.purpose)
            while end and (body := _next_entry(file, size - end)) is not None:
                try:
                    entries.append(_decode(body))
                except msgspec.MsgspecError:
                    break
                end += _HEAD + len(body)
        return entries, end

    def _start(self, earlier: Iterable[str]) -> None:
        """Start with a copy of the longest journal of the same purpose: it includes those that it continued."""
        longest, size = "", 0
        for path in earlier:
            with contextlib.suppress(OSError), contextlib.closing(storage_of(path).open_log(path)) as log:
                entries, end = self._read(log)
                if end > size:
                    longest, size, self.entries = path, end, entries
        if not longest:
            self._log.append(self._head)
            return
        self.discarded = ""
        with contextlib.closing(storage_of(longest).open_log(longest)) as log, log.reader() as file:
            while size > 0 and (data := file.read(min(size, _COPIED))):
                self._log.append(data)
                size -= len(data)

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
        self._log.append(framed(body))
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def purpose_in(paths: Iterable[str], purposes: Sequence[dict[str, Any]]) -> int | None:
    """Return the index of the purpose that the longest of some journals has; None if all have other ones."""
    heads = {framed(_encode(purpose)): index for index, purpose in enumerate(purposes)}
    found, longest = None, 0
    for path in paths:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(storage_of(path).open_log(path)) as log,
            log.reader() as file,
        ):
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = _next_entry(file, size)
            index = None if head is None else heads.get(framed(head))
            if index is not None and size > longest:
                found, longest = index, size
    return found


def difference(before: bytes, purpose: dict[str, Any]) -> str:
    """Say how the encoded purpose of a journal differs from this one."""
    try:
        then, now = (_flat(msgspec.msgpack.decode(encoded)) for encoded in (before, _encode(purpose)))
    except (msgspec.MsgspecError, TypeError, AttributeError):
        return "it cannot be read"
    if then.get("schema") != now.get("schema"):  # which says it all: the fields to sort by follow from the version
        then.pop("sort_by", None)
        now.pop("sort_by", None)
    return f"it was made with {', '.join(differences(then, now))}"


def _flat(purpose: dict[str, Any]) -> dict[str, Any]:
    """Return a purpose in one level, with the names and values of options as users write them."""
    flat = {**purpose.pop("build", {}), **purpose}
    for name, value in purpose.items():
        if name == "repair" and value == list(REPAIRS):
            flat[name] = "all"
        elif isinstance(value, list):
            flat[name] = ",".join(map(str, value)) or "none"
        elif name in _SIZES:
            flat[name] = _spell_size(value)
    return {_OPTIONS.get(name, name): value for name, value in flat.items()}


def _spell_size(size: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def framed(body: bytes) -> bytes:
    """Return some bytes with their length and fingerprint in front."""
    return len(body).to_bytes(4, "big") + fingerprint(body).to_bytes(8, "big") + body


def unframed(data: bytes) -> bytes | None:
    """Return the bytes that `framed` got; None if they are damaged."""
    body = data[_HEAD:]
    return body if data == framed(body) else None


def _next_entry(file: BinaryIO, left: int) -> bytes | None:
    head = file.read(_HEAD)
    body = file.read(min(int.from_bytes(head[:4], "big"), left))
    return body if body and head + body == framed(body) else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode
