"""Check a piece of a pair in a worker: aggregate, checksum of the samples file, and some rows.

A large plain samples file is cut into slices, and each is a piece. The first piece of a pair also
checks all that does not depend on the rows. Every piece reads the aggregate, because a task takes
paths.

A row belongs to the result with its `evaluation_result_id`; without one, to the result with its
`evaluation_name`, to the only one of these that has no id either, or else to the only result. Rows
that agree in all ids are joined alike, so each combination of ids is looked up once.
"""

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from fastrec.commands.check_pairs.files import WHERE, Pair, model_finding, path_finding
from fastrec.errors import ShardError, shown, utf8
from fastrec.judge.aggregate import (
    Aggregate,
    NotAggregate,
    expected,
    judge_aggregate,
    quoted,
)
from fastrec.judge.findings import Finding, SliceFindings
from fastrec.judge.judge import JudgedChunk, judge_of, judge_slice
from fastrec.judge.parse import spell
from fastrec.judge.secrets import secrets_of
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import current_limits
from fastrec.schemas.registry import NEWEST_SCHEMA, schema_of_class
from fastrec.schemas.schema import LABELS
from fastrec.schemas.view import empty_by_key, view_decoder
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard, Slice
from fastrec.storage import hash_of_file, join, storage_of
from fastrec.summary.rows import Sums, add_up

# bytes of an aggregate; they are a few kilobytes, and a larger file is something else
_LARGEST = 64 << 20
_MOST_JOINED = 10_000  # combinations of ids to remember
# Without normal forms, which is a third faster; records keep the `sample_hash` of their row.
_SETTINGS = JudgeSettings(normal=False, records=True, sample_hash="fill")

_TAKEN = ("0.2.1", NEWEST_SCHEMA.name)  # the versions of rows that the data store takes
_BLANK = Finding("pair.blank_line", "$", "expected a row, found a blank line")
_WRONG_HASH = Finding(
    "pair.sample_hash", "$.sample_hash", "not a hash of input.raw and input.reference"
)


class Tally(Sums):
    """Sums over rows of one result: over those with an error, or over the others."""

    rows: int = 0
    score: float = 0.0
    correct: int = 0
    squares: float = 0.0  # of scores

    def by_verdict(self) -> Self:
        """The sums if the verdict counts in place of the score."""
        return replace(self, score=self.correct, squares=self.correct)


class Rows(SliceFindings):
    """The rows of slices.

    The counts are lines, rows (lines that are not blank), invalid rows and text_bytes.
    """

    # By number of the result, and whether the rows have an error.
    tallies: defaultdict[tuple[int, bool], Tally] = empty_by_key(Tally)
    # A hash of each row.
    hashes: Any = msgspec.field(default_factory=lambda: array("Q"))

    def __iadd__(self, other: Self) -> Self:
        self.hashes += other.hashes
        add_up(self.tallies, other.tallies)
        return super().__iadd__(other)


def _read_rows(piece: Slice, aggregate: Aggregate | None) -> Rows:
    """Judge the rows of a slice; without an aggregate, there is nothing to compare them with."""
    rows = Rows()
    stats = ReadStats()
    source = utf8(piece.shard.path)
    joiner = _joiner(aggregate) if aggregate else None
    for judged in judge_slice(judge_of(_SETTINGS), piece, stats=stats):
        batch = judged.batch
        rows.counts.update(
            lines=batch.lines, rows=batch.lines - batch.blank, invalid=len(batch.rejected)
        )
        for invalid in batch.rejected:
            first = invalid.findings[0]
            finding = Finding("pair.invalid_row", first.path, f"{first.message} [{first.code}]")
            rows.groups.add(finding, source, invalid.line)
        lines = judged.data.split(b"\n")
        rows.hashes.extend(map(xxh3_64_intdigest, filter(bytes.strip, lines)))
        for number, secret in secrets_of([*map(_searched, batch.records)]):
            rows.groups.add(secret, source, batch.numbers[number])
        for number, text in enumerate(lines[: batch.lines] if batch.blank else (), judged.line):
            if not text.strip():
                rows.groups.add(_BLANK, source, number)
        _check_rows(judged, joiner, rows, source)
    rows.counts["text_bytes"] = stats.text_bytes
    return rows


def _searched(record: Any) -> bytes:
    """Return what is searched for credentials: rows have their fields in any order."""
    names = ("evaluation_name", "model_id", "sample_id", "performance", "error", "metadata")
    return spell({name: getattr(record, name) or None for name in names})


@lru_cache(maxsize=64)
def _label_finding(kind: type[Any], label: str) -> Finding | None:
    """Find a row that is valid by another version than its label, or by an early one."""
    schema = schema_of_class(kind)
    judged_as = f"one of {schema.name}"
    if label not in schema.labels:
        return expected("pair.version", f"a record of {label}", judged_as, "$.schema_version")
    if schema.name not in _TAKEN:
        what = f"a record of {' or '.join(_TAKEN)}"
        return expected("pair.old_version", what, judged_as, "$.schema_version")
    return None


_Joined = tuple[int | None, list[Finding]]


def _check_rows(
    judged: JudgedChunk, joiner: Callable[..., _Joined] | None, rows: Rows, source: str
) -> None:
    tallies = rows.tallies
    batch = judged.batch
    # The hash alone does not tell which rows are wrong: it may be the right one of another row.
    wrong_hashes = {(wrong.sample_id, wrong.given) for wrong in batch.replaced}
    for record, line, result_id in zip(
        batch.records, batch.numbers, _result_ids(judged), strict=True
    ):
        label = record.schema_version
        mismatch = _label_finding(type(record), label) if label in LABELS else None
        ids = record.evaluation_id, record.model_id, record.evaluation_name, result_id
        result, findings = joiner(*ids) if joiner else (None, [])
        for finding in [mismatch, *findings] if mismatch else findings:
            rows.groups.add(finding, source, line)
        if wrong_hashes and (record.sample_id, record.sample_hash) in wrong_hashes:
            rows.groups.add(_WRONG_HASH, source, line)
        if result is None:
            continue
        tally = tallies[result, bool(record.error)]
        evaluation = record.evaluation
        tally.rows += 1
        score = _float(evaluation.score)
        tally.score += score
        tally.squares += score * score
        tally.correct += evaluation.is_correct


def _result_ids(judged: JudgedChunk) -> Iterable[str | UnsetType]:
    """Return the `evaluation_result_id` of each record.

    Earlier versions have no such field, but allow unknown keys, which records may lack. So lines
    are decoded again if a record is of an earlier version.
    """
    batch = judged.batch
    records: list[Any] = batch.records
    if batch.versions[NEWEST_SCHEMA.name] == len(records):
        return [record.evaluation_result_id for record in records]
    lines = judged.data.split(b"\n")
    ids = [_decode_id(lines[number - judged.line]).evaluation_result_id for number in batch.numbers]
    return [result_id if isinstance(result_id, str) else UNSET for result_id in ids]


_decode_id = view_decoder(evaluation_result_id=(Any, UNSET))


def _float(score: float) -> float:
    try:
        return float(score)
    except OverflowError:  # an integer that no double can hold
        return float("inf")


def _joiner(aggregate: Aggregate) -> Callable[..., _Joined]:
    """Make a function that joins a row with a result of an aggregate, by the ids of the row.

    It returns the number of the result, and what is wrong with the ids.
    """
    results = aggregate.results
    by_id = {result.id: number for number, result in reversed([*enumerate(results)])}
    by_name = defaultdict(list)
    for number, result in enumerate(results):
        by_name[result.name].append(number)

    def result_of(name: str, result_id: str | UnsetType) -> int | Finding:
        if result_id in by_id:
            return by_id[result_id]
        if result_id is not UNSET:
            known = "results in the aggregate"
            if results:
                known = f"the id of one of the {len(results):,} results"
            path = "$.evaluation_result_id"
            return expected("pair.unknown_result", known, quoted(result_id), path)
        named = by_name.get(name, [])
        without_id = [number for number in named if results[number].id is None]
        for fitting in (named, without_id, range(len(results))):
            if len(fitting) == 1:
                return fitting[0]
        path = "$.evaluation_name"
        if named:
            message = f"{len(named):,} results have the evaluation_name {quoted(name)}"
            return Finding("pair.several_results", path, message)
        return expected("pair.no_result", "the evaluation_name of a result", quoted(name), path)

    @lru_cache(_MOST_JOINED)
    def join_row(evaluation: str, model: str, name: str, result_id: str | UnsetType) -> _Joined:
        findings = []
        for field, value in (("evaluation_id", evaluation), ("model_id", model)):
            stated = getattr(aggregate, field)
            if value != stated:
                names = quoted(stated), quoted(value)
                findings.append(expected(f"pair.{field}", *names, f"$.{field}"))
        result = result_of(name, result_id)
        if isinstance(result, Finding):
            return None, [*findings, result]
        return result, findings

    return join_row


_OVERHEAD = 1 << 14  # the time to open and decode an aggregate, in bytes of rows


class Piece(Struct, frozen=True):
    """A pair, and which of its rows to check."""

    pair: Pair
    slice: Slice | None
    is_first: bool

    @property
    def estimated_text(self) -> int:
        return _OVERHEAD + (self.slice.estimated_text if self.slice else 0)


class CheckTask(Struct, frozen=True):
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        first = self.pieces[0].pair
        more = len(self.pieces) - 1
        others = f" and {more:,} more pairs" if more else ""
        return f"checking {shown(join(first.folder, first.stem))}{others}"


class CheckedPiece(Struct):
    aggregate: Aggregate | None = None
    is_ignored: bool = False  # the JSON file is no aggregate, and need not be one
    # Of the first piece: findings about the aggregate.
    findings: list[Finding] = []
    rows: Rows = msgspec.field(default_factory=Rows)
    error: str | None = None  # why a file could not be read


def pieces_of(pair: Pair) -> Iterator[Piece]:
    if not pair.samples:
        yield Piece(pair, None, is_first=True)
        return
    for number, piece in enumerate(_chosen_samples(pair).slices(current_limits().task_bytes)):
        yield Piece(pair, piece, is_first=not number)


def _chosen_samples(pair: Pair) -> Shard:
    """Return the samples file to check if there are several: the plain one, or else the first."""
    return min(pair.samples, key=lambda shard: (not shard.path.endswith(".jsonl"), shard.path))


def check_task(task: CheckTask) -> list[CheckedPiece]:
    _read_aggregate.cache_clear()  # the files may have changed since the last task
    return list(map(_check_piece, task.pieces))


@lru_cache(maxsize=1)  # the pieces of a pair follow each other
def _read_aggregate(path: str) -> tuple[Aggregate | NotAggregate, list[Finding]]:
    storage = storage_of(path)
    size = storage.size_of(path)
    if size > _LARGEST:
        problem = f"not an aggregate: expected at most {_LARGEST:,} bytes, found {size:,}"
        return NotAggregate(is_meant=False), [Finding("pair.aggregate", "$", problem)]
    return judge_aggregate(storage.read_all(path))


def _check_piece(piece: Piece) -> CheckedPiece:
    checked = CheckedPiece()
    pair = piece.pair
    try:
        if pair.aggregate:
            aggregate, findings = _read_aggregate(pair.aggregate)
            if isinstance(aggregate, Aggregate):
                checked.aggregate = aggregate
            else:
                checked.is_ignored = not (aggregate.is_meant or pair.is_meant)
            if piece.is_first and not checked.is_ignored:
                checked.findings += findings
        if piece.is_first and checked.aggregate:
            checked.findings += filter(None, [model_finding(checked.aggregate, pair.place)])
            checked.findings += _statement_findings(pair, checked.aggregate)
        if piece.slice:
            checked.rows = _read_rows(piece.slice, checked.aggregate)
    except ShardError as exc:
        checked.error = str(exc)
    except OSError as exc:
        path = os.fsdecode(exc.filename or pair.folder)
        checked.error = f"{shown(path)}: cannot be read: {exc.strerror}"
    return checked


def _statement_findings(pair: Pair, aggregate: Aggregate) -> Iterator[Finding]:
    """Compare what an aggregate states about its samples file with the file."""
    stated = aggregate.stated
    if not stated:
        if pair.samples:
            what = f"a statement about {pair.sample_names}"
            yield expected("pair.not_stated", what, "none", WHERE)
        return
    if finding := path_finding(stated.file_path, pair):
        yield finding
    if not pair.samples:
        what = f"{utf8(pair.stem)}_samples.jsonl in the same folder"
        yield expected("pair.no_samples", what, "no such file", f"{WHERE}.file_path")
        return
    if stated.checksum is None:
        return
    if stated.hash_algorithm != "sha256":
        actual = quoted(stated.hash_algorithm or "")
        yield expected("pair.hash_algorithm", '"sha256"', actual, f"{WHERE}.hash_algorithm")
        return
    _, checksum = hash_of_file(_chosen_samples(pair).path, digest=sha256())
    if checksum != stated.checksum.strip().lower():
        what = f"{quoted(stated.checksum)}, as the aggregate states"
        yield expected("pair.checksum", what, checksum, f"{WHERE}.checksum")
