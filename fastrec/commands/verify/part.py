"""Checking one part: its checksum, every line, their order, and the statistics of its records.

    checksum of the file · judge every line, which must be its own normal form ──▶ order ──▶ tally · census

The result is compared with the manifest. The census and the counts of the part go to files, as in pass 2. Memory holds
a chunk of text, and the keys and rows of one part.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from io import BytesIO
from operator import lt
from typing import Any

import msgspec

from fastrec.commands.verify.problems import Problems
from fastrec.commands.verify.sources import CheckedSources, check_sources
from fastrec.corpus.manifest import text_hash, text_hasher
from fastrec.corpus.scan import PartFile
from fastrec.errors import ShardError, shown
from fastrec.judge.judge import Judge, SampleHashMode
from fastrec.judge.shards import JudgedChunk, judge_slice
from fastrec.normalize.options import Options
from fastrec.schemas.registry import TARGETS
from fastrec.sorting.fields import KeyColumns, column_splitter
from fastrec.sorting.keys import key_maker, key_splitter
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Slice, shard_at
from fastrec.storage.digests import sha256_of_file
from fastrec.summary.contradictions import contradictions_of
from fastrec.summary.part_statistics import PartCounts, write_statistics
from fastrec.summary.rows import outcome_of, row_maker
from fastrec.summary.tally import Tally

__all__ = ["CheckTask", "CheckedPart", "check_part"]


class CheckTask(msgspec.Struct, frozen=True):
    """A part to check."""

    part: PartFile
    options: Options
    """The options that the corpus was made with."""
    statistics: str
    """Path prefix of the files for the census and the counts."""
    sources: str = ""
    """Path of the sources of the part; empty if there are none."""

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class CheckedPart(msgspec.Struct):
    """The result of checking a part."""

    part: PartFile
    problems: Problems
    size: int
    sha256: str
    text_bytes: int
    text_hash: str
    """The checksum of the text, of the kind that the manifest has."""
    records: int
    first: bytes
    last: bytes
    read: bool
    """Whether the file was read to its end. If not, only its size and checksum are known."""
    valid: bool
    """Whether it was read to its end and all lines are records, so that its statistics can be compared."""
    sources: CheckedSources | None


def check_part(task: CheckTask) -> CheckedPart:
    """Check one part. Runs in a worker."""
    path, options = task.part.path, task.options
    problems = Problems(task.part.entry.file)
    lines = _LineChecker(options, problems)
    # A wrong hash is an error in a corpus, unless given hashes were to be left as they are.
    judge = _judge(options.schema, options.hash_algorithm, "fill" if options.sample_hash == "fill" else "verify")
    longest = max(task.part.entry.text_bytes, options.max_line_bytes)
    stats, text_digest = ReadStats(), text_hasher(text_hash(task.part.entry)[0])
    size, digest, read = 0, "", False
    try:
        size, digest = sha256_of_file(path)
        for chunk in judge_slice(judge, Slice(shard_at(path)), max_line_bytes=longest, stats=stats):
            text_digest.update(chunk.data)
            lines.check(chunk)
        read = True
    except ShardError as exc:
        problems.add("file.unreadable", str(ShardError("", exc.reason, exc.offset)).removeprefix(": "))
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
    if stats.bom:
        problems.add("line.form", "expected a record at the start of the file, found a byte order mark", 1)
    tally = Tally()
    tally.add(lines.keys, lines.rows)
    outcomes = list(map(outcome_of, lines.rows))
    write_statistics(task.statistics, PartCounts(tally), lines.keys, outcomes, lines.contradictions())
    return CheckedPart(
        part=task.part,
        problems=problems,
        size=size,
        sha256=digest,
        text_bytes=stats.text_bytes,
        text_hash=text_digest.hexdigest(),
        records=len(lines.rows),
        first=lines.first,
        last=lines.last,
        read=read,
        valid=read and lines.valid,
        sources=check_sources(task.sources, task.part.entry) if task.sources else None,
    )


@lru_cache(maxsize=1)
def _judge(schema: str, algorithm: str, mode: SampleHashMode) -> Judge:
    return Judge(TARGETS[schema], algorithm=algorithm, sample_hash=mode, any_recipe=False)


class _LineChecker:
    """Checks the lines of a part, chunk by chunk, and collects the keys and rows of its records."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self._key_of = key_maker(options.sort_fields)
        self._split = key_splitter(options.sort_fields)
        self._split_all = column_splitter(options.sort_fields)
        self._row_of = row_maker(options.target)
        self._problems = problems
        self.valid = True
        self.first = self.last = b""
        self._last_text = b""
        self.keys = KeyColumns()
        self.rows: list[Any] = []
        self._repeated = b""  # the last key of several records
        self._texts: list[bytes] = []  # these records
        self._contradictions: dict[tuple[bytes, ...], list[int | None]] = {}

    def check(self, chunk: JudgedChunk) -> None:
        """Check the next chunk."""
        batch = chunk.batch
        if batch.rejected or chunk.normal != chunk.data:
            self._find_bad_lines(chunk)
        keys = [self._key_of(record) for record in batch.records]
        if not keys:
            return
        # Usually every key is greater than the one before. Only repeats have equal keys; then the texts are compared.
        before = [self.last, *keys[:-1]]
        if not all(map(lt, before, keys)):
            self._check_order(before, keys, chunk)
        self.first = self.first or keys[0]
        self.last = keys[-1]
        self._last_text = _text(chunk, len(keys) - 1)
        self.keys += self._split_all(keys)
        row_of = self._row_of
        self.rows += [row_of(record, 0, line) for record, line in zip(batch.records, batch.numbers, strict=True)]

    def _check_order(self, before: list[bytes], keys: list[bytes], chunk: JudgedChunk) -> None:
        """Report the records that do not belong after the previous one."""
        add = self._problems.add
        for index, (low, high) in enumerate(zip(before, keys, strict=True)):
            number = chunk.batch.numbers[index]
            if low > high:
                add(
                    "line.order", "expected a key greater than that of the previous record, found a smaller one", number
                )
            elif low == high:
                text, previous = _text(chunk, index), _text(chunk, index - 1) if index else self._last_text
                self._add_repeat(high, previous, text)
                if text == previous:
                    add("line.duplicate", "expected a new record, found a copy of the previous one", number)
                elif text < previous:
                    message = "expected text greater than that of the previous record with this key, found smaller text"
                    add("line.order", message, number)

    def _add_repeat(self, key: bytes, previous: bytes, text: bytes) -> None:
        """Add a record that has the key of the previous one."""
        if key != self._repeated:
            self._compare_repeats()
            self._repeated, self._texts = key, [previous]
        self._texts.append(text)

    def _compare_repeats(self) -> None:
        if numbers := contradictions_of(self._texts):
            self._contradictions[tuple(self._split(self._repeated))] = numbers

    def contradictions(self) -> dict[tuple[bytes, ...], list[int | None]]:
        """Return the contradictions of the part, by key fields, after all chunks were checked."""
        self._compare_repeats()
        return self._contradictions

    def _find_bad_lines(self, chunk: JudgedChunk) -> None:
        """Report the lines of a chunk that are not their own normal form."""
        batch, add = chunk.batch, self._problems.add
        for invalid in batch.rejected:
            self.valid = False
            finding = invalid.findings[0]
            add("line.invalid", f"{finding.path}: {finding.message} [{finding.code}]", invalid.line)
        lines = BytesIO(chunk.data).readlines()  # unlike splitlines, it does not split at a carriage return
        seen = {invalid.line for invalid in batch.rejected} | set(batch.numbers)
        for number, line in enumerate(lines, chunk.line):
            if number not in seen:
                add("line.blank", f"expected a record, found {len(line):,} bytes of white space", number)
        for index, number in enumerate(batch.numbers):
            line, normal = lines[number - chunk.line], _text(chunk, index)
            if line != normal:
                offset = _first_difference(line, normal)
                add("line.form", f"expected the normal form, found other text from byte {offset:,} of the line", number)


def _text(chunk: JudgedChunk, index: int) -> bytes:
    """Return the normal form of a record."""
    ends = chunk.batch.ends
    return bytes(chunk.normal[ends[index - 1] if index else 0 : ends[index]])


def _first_difference(one: bytes, other: bytes) -> int:
    """Return where two different lines begin to differ, by halving: comparing slices runs in C."""
    return bisect_left(range(1, len(one) + 1), True, key=lambda size: one[:size] != other[:size])
