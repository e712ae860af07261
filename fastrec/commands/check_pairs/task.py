"""Check a piece of a pair in a worker: the aggregate, the checksum of the samples file, and some of its rows.

A large plain samples file is cut into slices, and each is a piece. The first piece of a pair also checks all that does
not depend on the rows. Every piece reads the aggregate, because a task takes paths.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from fastrec.commands.check_pairs.aggregate import LARGEST, Aggregate, NotAggregate, decode_aggregate, result_findings
from fastrec.commands.check_pairs.discover import Pair
from fastrec.commands.check_pairs.names import path_finding, quoted
from fastrec.commands.check_pairs.rows import Rows, read_rows
from fastrec.errors import ShardError, shown, utf8
from fastrec.judge.findings import Finding
from fastrec.limits import Limits
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard, Slice
from fastrec.storage import join, parent_and_name, storage_of
from fastrec.storage.digests import hash_of_file

__all__ = ["CheckTask", "CheckedPiece", "Piece", "check_task", "pieces_of"]

_OVERHEAD = 1 << 14  # the time to open and decode an aggregate, in bytes of rows
_WHERE = "$.detailed_evaluation_results"
_ReadAggregate = Callable[[str], Aggregate | NotAggregate]


class Piece(msgspec.Struct, frozen=True):
    """A pair, and which of its rows to check."""

    pair: Pair
    slice: Slice | None
    is_first: bool

    @property
    def estimated_text(self) -> int:
        """Estimated size of the rows in bytes."""
        return _OVERHEAD + (self.slice.estimated_text if self.slice else 0)


class CheckTask(msgspec.Struct, frozen=True):
    """Pieces to check one after the other."""

    pieces: tuple[Piece, ...]
    limits: Limits

    def __str__(self) -> str:
        first, more = self.pieces[0].pair, len(self.pieces) - 1
        return f"checking {shown(join(first.folder, first.stem))}" + (f" and {more:,} more pairs" if more else "")


class CheckedPiece(msgspec.Struct):
    """What was found in a piece."""

    aggregate: Aggregate | None = None
    is_ignored: bool = False
    """The JSON file is no aggregate, and need not be one."""
    findings: list[Finding] = msgspec.field(default_factory=list)
    """Of the first piece: findings about the aggregate."""
    rows: Rows | None = None
    error: str | None = None
    """Why a file could not be read."""


def pieces_of(pair: Pair, limits: Limits) -> Iterator[Piece]:
    """Cut a pair into pieces."""
    if not pair.samples:
        yield Piece(pair, None, is_first=True)
        return
    for number, piece in enumerate(chosen_samples(pair).slices(limits.task_bytes)):
        yield Piece(pair, piece, is_first=not number)


def chosen_samples(pair: Pair) -> Shard:
    """Return the samples file to check if there are several: the plain one, or else the first."""
    return min(pair.samples, key=lambda shard: (not shard.path.endswith(".jsonl"), shard.path))


def check_task(task: CheckTask) -> list[CheckedPiece]:
    """Check the pieces of a task. Runs in a worker."""
    read_aggregate = lru_cache(maxsize=1)(_read_aggregate)  # the pieces of a pair follow each other
    return [_check_piece(piece, task.limits, read_aggregate) for piece in task.pieces]


def _check_piece(piece: Piece, limits: Limits, read_aggregate: _ReadAggregate) -> CheckedPiece:
    checked = CheckedPiece()
    try:
        _check(piece, limits, checked, read_aggregate)
    except ShardError as exc:
        checked.error = str(exc)
    except OSError as exc:
        checked.error = f"{shown(os.fsdecode(exc.filename or piece.pair.folder))}: cannot be read: {exc.strerror}"
    return checked


def _check(piece: Piece, limits: Limits, checked: CheckedPiece, read_aggregate: _ReadAggregate) -> None:
    pair = piece.pair
    found = read_aggregate(pair.aggregate) if pair.aggregate else None
    if isinstance(found, Aggregate):
        checked.aggregate = found
        if piece.is_first:
            checked.findings += result_findings(found.results)
            checked.findings += _statement_findings(pair, found)
    elif isinstance(found, NotAggregate):
        checked.is_ignored = not (found.is_meant or pair.is_meant)
        if piece.is_first and not checked.is_ignored:
            checked.findings.append(Finding("pair.aggregate", found.path, found.problem))
    if piece.slice:
        checked.rows = read_rows(piece.slice, checked.aggregate, limits)


def _read_aggregate(path: str) -> Aggregate | NotAggregate:
    """Read a JSON file."""
    storage = storage_of(path)
    size = storage.size_of(path)
    if size > LARGEST:
        return NotAggregate(f"not an aggregate: expected at most {LARGEST:,} bytes, found {size:,}")
    return decode_aggregate(storage.read_all(path))


def _statement_findings(pair: Pair, aggregate: Aggregate) -> Iterator[Finding]:
    """Compare what an aggregate states about its samples file with the file."""
    stated = aggregate.stated
    if stated is None:
        if pair.samples:
            names = ", ".join(utf8(_name(shard)) for shard in pair.samples)
            yield Finding("pair.not_stated", _WHERE, f"expected a statement about {names}, found none")
        return
    samples = chosen_samples(pair) if pair.samples else None
    if finding := path_finding(
        stated.file_path, pair.stem, _name(samples) if samples else None, pair.names, pair.place
    ):
        yield finding
    if stated.format != "jsonl":
        yield Finding("pair.format", f"{_WHERE}.format", f'expected "jsonl", found {quoted(stated.format)}')
    if samples is None:
        message = f"expected {utf8(pair.stem)}_samples.jsonl in the same folder, found no such file"
        yield Finding("pair.no_samples", f"{_WHERE}.file_path", message)
        return
    if stated.checksum is None:
        return
    algorithm = stated.hash_algorithm
    if algorithm not in ("sha256", "md5"):
        message = f'expected "sha256" or "md5", found {quoted(algorithm) if algorithm else "none"}'
        yield Finding("pair.hash_algorithm", f"{_WHERE}.hash_algorithm", message)
        return
    yield from _checksum_findings(samples, algorithm, stated.checksum)


def _checksum_findings(samples: Shard, algorithm: str, stated: str) -> Iterator[Finding]:
    """Compare the checksum of a samples file, as it is on disk, with the stated one."""
    _, found = hash_of_file(samples.path, digest=hashlib.new(algorithm, usedforsecurity=False))
    expected = stated.strip().lower()
    if found == expected:
        return
    message = f"expected {quoted(stated)}, as the aggregate states, found {found}"
    if samples.format is not Format.PLAIN and _text_hash(samples, algorithm) == expected:
        message += "; it is the checksum of the text, but must be the one of the compressed file"
    yield Finding("pair.checksum", f"{_WHERE}.checksum", message)


def _text_hash(samples: Shard, algorithm: str) -> str:
    """Return the checksum of the text of a samples file; empty if it is damaged, which is reported later."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        for block in samples.read_text():
            digest.update(block)
    except ShardError:
        return ""
    return digest.hexdigest()


def _name(shard: Shard) -> str:
    return parent_and_name(shard.path)[1]
