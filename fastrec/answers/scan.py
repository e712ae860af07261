"""Scan one part of a corpus for the index. Runs in a worker.

In a corpus whose records are sorted by question, only the first and the last question of a part may have more records
in other parts. All others are packed here. In a corpus of another order, every question may have more records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final

import msgspec
from msgspec import UNSET

from fastrec.answers.lines import Key, LineReader
from fastrec.answers.marks import RecordMark
from fastrec.answers.questions import Question, ScopeShape, rows_of, write_batches
from fastrec.corpus.scan import VERIFY_HINT, PartFile, skim_lines
from fastrec.errors import CorpusError, shown
from fastrec.limits import Limits

__all__ = ["PLACE_BITS", "ScanScope", "ScanTask", "scan_part"]

PLACE_BITS: Final = 40
"""Bits of a place for the offset in the text of a part; those above are the number of the part."""


class ScanScope(msgspec.Struct, frozen=True):
    """A scope that records of the corpus can have."""

    evaluation_name: str
    metric: str | None
    models: tuple[str, ...]
    graded: bool


class ScanTask(msgspec.Struct, frozen=True):
    """A part to scan, and the files to write."""

    part: PartFile
    number: int
    scopes: tuple[ScanScope, ...]
    sorted_by_question: bool
    turns_field: str
    limits: Limits
    rows: str
    """The file for packed questions."""
    pieces: str
    """The file for questions that may have more records in other parts, by name and hash."""

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class _Scanner:
    """Groups the lines of a part by question."""

    def __init__(self, task: ScanTask) -> None:
        self._task = task
        self._scopes = {
            (scope.evaluation_name, scope.metric): (number, {model: at for at, model in enumerate(scope.models)})
            for number, scope in enumerate(task.scopes)
        }
        self._reader = LineReader(task.turns_field)
        self._questions: dict[tuple[str, str], Question] = {}
        self._question: Question | None = None
        self._start = 0  # of the stretch of lines of this question
        self.records = 0

    def questions(self) -> Iterator[Question]:
        """Yield the questions of the part: in the order of the corpus, or else by name and hash."""
        try:
            yield from self._scan()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            reason = f"is not a record in normal form: {exc}; {VERIFY_HINT}"
            raise CorpusError(self._task.part.path, reason, self.records + 1) from exc
        except KeyError as exc:
            reason = f"has a model or evaluation that is not in the summary; {VERIFY_HINT}"
            raise CorpusError(self._task.part.path, reason, self.records + 1) from exc
        if not self._task.sorted_by_question:
            yield from sorted(self._questions.values(), key=lambda question: question.key)

    def _scan(self) -> Iterator[Question]:
        reader, offset = self._reader, 0
        key: Key | None = None
        models: dict[str, int] = {}
        records: list[RecordMark] = []
        for buffer, size in skim_lines(self._task.part, self._task.limits):
            begin = 0
            while begin < size:
                end = reader.read(buffer, begin)
                if reader.key is not key:
                    key = reader.key
                    name = key.evaluation_name
                    question = self._question
                    if not question or question.sample_hash != key.sample_hash or question.evaluation_name != name:
                        yield from self._end(offset + begin)
                        question = self._begin(key, offset + begin)
                    metric = key.evaluation_result_id
                    scope, models = self._scopes[name, None if metric is UNSET else metric]
                    records = question.records_of(scope, bytes(key.sample_id))
                records.append((models[reader.model_id], reader.flag, reader.score, reader.length))
                self.records += 1
                begin = end
            offset += size
        yield from self._end(offset)

    def _begin(self, key: Key, start: int) -> Question:
        """Begin a stretch of lines of a question."""
        names = key.evaluation_name, key.sample_hash
        question = self._questions.get(names)
        if question is None:
            place = (self._task.number << PLACE_BITS) + start
            question = Question(*names, place, self._reader.asked(), [], [])
            if not self._task.sorted_by_question:
                self._questions[names] = question
        self._question, self._start = question, start
        return question

    def _end(self, end: int) -> Iterator[Question]:
        """End a stretch of lines; yield the question if it has no more records in this part."""
        if self._question:
            self._question.ranges.append((self._task.number, self._start, end))
            if self._task.sorted_by_question:
                yield self._question


def scan_part(task: ScanTask) -> int:
    """Scan a part, and write its questions to files; return the number of its records."""
    scanner = _Scanner(task)
    shapes = [ScopeShape(len(scope.models), scope.graded) for scope in task.scopes]
    with ExitStack() as stack:
        rows: BinaryIO = stack.enter_context(open(task.rows, "wb"))  # noqa: PTH123
        pieces: BinaryIO = stack.enter_context(open(task.pieces, "wb"))  # noqa: PTH123
        questions = scanner.questions()
        if not task.sorted_by_question:
            write_batches(pieces, questions)
        else:
            edges: list[Question] = []

            def inner() -> Iterator[object]:
                for question in questions:
                    if len(edges) > 1:
                        yield rows_of(edges.pop(), shapes)
                    edges.append(question)

            write_batches(rows, inner())
            write_batches(pieces, edges)
    if scanner.records != task.part.entry.records:
        expected = task.part.entry.records
        reason = f"has {scanner.records:,} records, but the manifest says {expected:,}; {VERIFY_HINT}"
        raise CorpusError(task.part.path, reason)
    return scanner.records
