"""Questions on their way into the index: what a part says about each, joined over parts, and packed into rows.

    lines of a part ──▶ `Question`, one per question of the part ──▶ joined with those of other parts ──▶ `Rows`

Batches of them go through files, so that tasks return counts only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec

from fastrec.answers.lines import Asked
from fastrec.answers.marks import RecordMark, facts_of, mark, mean_length

__all__ = [
    "AskedRow",
    "Question",
    "QuestionEntry",
    "Rows",
    "ScopeRecords",
    "ScopeShape",
    "join",
    "read_batches",
    "rows_of",
]
__all__ += ["write_batches"]

_BATCH: Final = 1_000
_SIZE: Final = struct.Struct("<Q")
Item = TypeVar("Item")


class ScopeRecords(msgspec.Struct, array_like=True, gc=False):
    """The records of a question in one scope."""

    scope: int
    sample_ids: list[bytes]
    """Distinct ids as they are spelled in JSON, that of the first record first."""
    records: list[RecordMark]


class Question(msgspec.Struct, array_like=True, gc=False):
    """What some records say about a question."""

    evaluation_name: str
    sample_hash: str
    place: int
    """Of its first record: the number of the part, and the offset in its text."""
    asked: Asked
    ranges: list[tuple[int, int, int]]
    """Where its records are: the number of a part, and the start and end of a stretch of its text."""
    scopes: list[ScopeRecords]

    def records_of(self, scope: int, sample_id: bytes) -> list[RecordMark]:
        """Return the records in a scope, to add those of a sample_id."""
        for found in self.scopes:
            if found.scope == scope:
                if sample_id not in found.sample_ids:
                    found.sample_ids.append(sample_id)
                return found.records
        found = ScopeRecords(scope, [sample_id], [])
        self.scopes.append(found)
        return found.records

    @property
    def key(self) -> tuple[str, str, int]:
        """What questions are joined by."""
        return self.evaluation_name, self.sample_hash, self.place


AskedRow = tuple[int, bytes, bytes, int, bytes, bytes]
"""place, sample_hash, excerpt, input_chars, ranges, text"""
QuestionEntry = tuple[Any, ...]
"""scope, place, sample_ids, the columns of `Facts`, output_chars, the columns of `Marks`"""


class Rows(NamedTuple):
    """The rows of a question in the tables of the index."""

    asked: AskedRow
    entries: list[QuestionEntry]


class ScopeShape(msgspec.Struct, frozen=True, array_like=True):
    """What packing the records of a scope depends on."""

    models: int
    graded: bool


def join(questions: list[Question]) -> Question:
    """Join what several parts say about one question, in order."""
    first, *others = questions
    for other in others:
        for more in other.scopes:
            for sample_id in more.sample_ids:
                records = first.records_of(more.scope, sample_id)
            records += more.records
        first.ranges += other.ranges
    return first


def rows_of(question: Question, shapes: list[ScopeShape]) -> Rows:
    """Pack a question."""
    asked = question.asked
    ranges = msgspec.msgpack.encode(question.ranges)
    entries = []
    for scope in question.scopes:
        shape = shapes[scope.scope]
        marks = mark(scope.records, shape.models)
        everyone = range(shape.models)
        facts = facts_of(marks, everyone, graded=shape.graded)
        length = mean_length(marks.flags, marks.lengths, everyone)
        ids = b"[" + b",".join(scope.sample_ids) + b"]"
        entries.append((scope.scope, question.place, ids, *facts, length, *marks))
    row = (question.place, question.sample_hash.encode(), asked.excerpt.encode(), asked.chars, ranges, asked.text)
    return Rows(row, entries)


def write_batches(file: BinaryIO, items: Iterable[Any]) -> None:
    """Write items in batches, each with its size."""
    iterator = iter(items)
    encode = msgspec.msgpack.Encoder().encode
    while batch := list(islice(iterator, _BATCH)):
        data = encode(batch)
        file.write(_SIZE.pack(len(data)) + data)


def read_batches(path: str, kind: type[Item]) -> Iterator[Item]:
    """Read items that `write_batches` wrote."""
    decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
    with open(path, "rb") as file:  # noqa: PTH123
        while size := file.read(_SIZE.size):
            yield from decode(file.read(_SIZE.unpack(size)[0]))
