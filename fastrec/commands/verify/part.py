"""Checking one part: its bytes, each of its lines, their order, and all that its records add up to.

    checksum of the file · read · judge each line, which must give itself ──▶ order ──▶ tally · census

The result is compared with the manifest. The census and the counts of the part go to files, as in pass 2.
Memory holds a chunk of text, and keys and rows of one part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from operator import lt
from typing import Any

import msgspec

from fastrec.commands.verify.problems import Problems
from fastrec.corpus.writer import Written
from fastrec.errors import ShardError, shown
from fastrec.judge.batch import Batch
from fastrec.judge.findings import Finding
from fastrec.judge.judge import Judge, SampleHashMode
from fastrec.judge.shards import JudgedChunk, judge_slice
from fastrec.normalize.options import Options
from fastrec.sorting.keys import key_maker, key_splitter
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Slice, shard_at
from fastrec.storage.digests import sha256_of_file
from fastrec.storage.paths import parent_and_name
from fastrec.summary.part_counts import PartCounts, write_statistics
from fastrec.summary.rows import row_of
from fastrec.summary.tally import Tally

__all__ = ["CheckedPart", "PartToCheck", "check_part"]


class PartToCheck(msgspec.Struct, frozen=True):
    """What a worker is told."""

    number: int
    path: str
    longest: int
    """No line is longer than that."""
    census: str
    """Where the census goes, `-hash` and `-id` added; `-counts` for the counts."""
    options: Options

    def __str__(self) -> str:
        return f"reading {shown(self.path)}"


class CheckedPart(msgspec.Struct):
    """What a worker gives back."""

    problems: Problems
    number: int
    written: Written
    records: int
    first: bytes
    last: bytes
    read: bool
    """Whether the file was read to its end. If not, only its size and checksum are right."""
    valid: bool
    """Whether all its lines are records, so that the statistics say something."""


def check_part(order: PartToCheck) -> CheckedPart:
    """Check one part. Runs in a worker."""
    return _PartChecker(order).run()


@lru_cache(maxsize=1)
def _judge(algorithm: str, mode: SampleHashMode) -> Judge:
    return Judge(algorithm=algorithm, sample_hash=mode)


class _PartChecker:
    """The state of a task: where it is in the order, and what was counted so far."""

    def __init__(self, order: PartToCheck) -> None:
        self._order = order
        options = order.options
        # A hash that is not the computed one is an error by now, unless it was to be left as it is.
        self._judge = _judge(options.hash, "fill" if options.sample_hash == "fill" else "verify")
        self._key_of = key_maker(options.sort_fields)
        self._split = key_splitter(options.sort_fields)
        self._problems = Problems(parent_and_name(order.path)[1])
        self._valid = True
        self._normal = bytearray()
        self._text_hash = sha256()
        self._first = self._last = b""
        self._last_text = b""
        self._fields: list[Sequence[bytes]] = []
        self._rows: list[Any] = []

    def run(self) -> CheckedPart:
        order, stats = self._order, ReadStats()
        size, digest = 0, ""
        read = False
        try:
            size, digest = sha256_of_file(order.path)
            self._read(stats)
            read = True
        except ShardError as exc:
            self._problems.add("file.unreadable", str(ShardError("", exc.reason, exc.offset)).removeprefix(": "))
        except OSError as exc:
            self._problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
        tally = Tally()
        tally.add(self._fields, self._rows)
        write_statistics(order.census, PartCounts(tally), self._fields)
        return CheckedPart(
            problems=self._problems,
            number=order.number,
            written=Written(size, digest, stats.text_bytes, self._text_hash.hexdigest()),
            records=len(self._rows),
            first=self._first,
            last=self._last,
            read=read,
            valid=read and self._valid,
        )

    def _read(self, stats: ReadStats) -> None:
        order = self._order
        piece = Slice(shard_at(order.path))
        for judged in judge_slice(self._judge, piece, max_line_bytes=order.longest, stats=stats):
            self._text_hash.update(judged.data)
            self._check(judged)
        if stats.bom:
            self._problems.add("line.form", "expected a record, found a byte order mark before it", 1)

    def _check(self, chunk: JudgedChunk) -> None:
        batch, self._normal = chunk.batch, chunk.normal
        if batch.rejected or chunk.normal != chunk.data:
            self._name_lines(chunk, batch)
        keys = [self._key_of(record) for record in batch.records]
        if not keys:
            return
        # Of a sound corpus every key is above the one before, but for conflicts; only then is a look at texts needed.
        before = [self._last, *keys[:-1]]
        if not all(map(lt, before, keys)):
            self._check_order(before, keys, batch)
        self._first = self._first or keys[0]
        self._last = keys[-1]
        self._last_text = self._text(batch, len(keys) - 1)
        self._fields += map(self._split, keys)
        self._rows += [row_of(record, 0, line) for record, line in zip(batch.records, batch.numbers, strict=True)]

    def _check_order(self, before: list[bytes], keys: list[bytes], batch: Batch) -> None:
        """Name the lines that are not above the one before them."""
        for index, (low, high) in enumerate(zip(before, keys, strict=True)):
            if low < high:
                continue
            number = batch.numbers[index]
            if low > high:
                self._problems.add(
                    "line.order", "expected a key above that of the record before, found a lower", number
                )
                continue
            text, above = self._text(batch, index), self._text(batch, index - 1) if index else self._last_text
            if text == above:
                self._problems.add("line.duplicate", "expected another record, found the one before again", number)
            elif text < above:
                message = "expected bytes above those of the record before, which has the same key, found lower"
                self._problems.add("line.order", message, number)

    def _name_lines(self, chunk: JudgedChunk, batch: Batch) -> None:
        """Name the lines of a chunk that are not their own normal form."""
        for invalid in batch.rejected:
            self._refuse(invalid.line, invalid.findings[0])
        lines = _lines(chunk.data)
        seen = {invalid.line for invalid in batch.rejected} | set(batch.numbers)
        for number, line in enumerate(lines, chunk.line):
            if number not in seen:
                self._problems.add("line.blank", f"expected a record, found {len(line):,} bytes of white space", number)
        for index, number in enumerate(batch.numbers):
            line, normal = lines[number - chunk.line], self._text(batch, index)
            if line != normal:
                place = _first_difference(line, normal)
                message = f"expected the normal form, found another spelling from byte {place:,} of the line on"
                self._problems.add("line.form", message, number)

    def _refuse(self, line: int, finding: Finding) -> None:
        self._problems.add("line.invalid", f"{finding.path}: {finding.message} [{finding.code}]", line)
        self._valid = False

    def _text(self, batch: Batch, index: int) -> bytes:
        return bytes(self._normal[batch.ends[index - 1] if index else 0 : batch.ends[index]])


def _lines(data: bytes) -> list[bytes]:
    """Split into lines, newlines included."""
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _first_difference(one: bytes, other: bytes) -> int:
    """Return where two different lines begin to differ, by halving: comparing slices runs in C."""
    return bisect_left(range(1, len(one) + 1), True, key=lambda size: one[:size] != other[:size])
