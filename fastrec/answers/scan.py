"""Scan one part of a corpus for the index. Runs in a worker.

In a corpus whose records are sorted by question, only the first and the last question of a part may have more records
in other parts. All others are packed here. In a corpus of another order, every question may have more records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final

import msgspec

from fastrec.answers.lines import asked_of, read_line
from fastrec.answers.marks import ERROR
from fastrec.answers.questions import Question, ScopeRecords, rows_of, write_batches
from fastrec.answers.questions import ScopeShape as Shape
from fastrec.corpus.scan import VERIFY_HINT, PartFile, skim_lines
from fastrec.errors import CorpusError, shown
from fastrec.limits import Limits

__all__ = ["PLACE_BITS", "ScanScope", "ScanTask", "Scanned", "scan_part"]

PLACE_BITS: Final = 40
"""Bits of a place for the offset in the text of a part; those above are the number of the part."""
_BATCH: Final = 256


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
    limits: Limits
    rows: str
    """The file for packed questions."""
    pieces: str
    """The file for questions that may have more records in other parts, by name and hash."""

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


class Scanned(msgspec.Struct):
    """What the driver has to know about a part."""

    records: int
    bounds: dict[int, tuple[float, float]]
    """By scope, the least and the greatest score of an answer."""


class _Scanner:
    """Groups the lines of a part by question."""

    def __init__(self, task: ScanTask) -> None:
        self._task = task
        self._scopes = {
            (scope.evaluation_name, scope.metric): (number, {model: at for at, model in enumerate(scope.models)})
            for number, scope in enumerate(task.scopes)
        }
        self._questions: dict[tuple[str, str], Question] = {}
        self._last: Question | None = None
        self.records = 0
        self.bounds: dict[int, tuple[float, float]] = {}

    def add(self, line: bytes, start: int, end: int) -> Question | None:
        """Add a line at this place in the text; return the question before, if the line is of another one."""
        try:
            found = read_line(line)
            scope, models = self._scopes[found.evaluation_name, found.metric]
            model = models[found.model_id]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            reason = f"is not a record in normal form: {exc}; {VERIFY_HINT}"
            raise CorpusError(self._task.part.path, reason, self.records + 1) from exc
        except KeyError as exc:
            reason = f"is not in the summary of the corpus; {VERIFY_HINT}"
            raise CorpusError(self._task.part.path, reason, self.records + 1) from exc
        self.records += 1
        if found.flag != ERROR:
            low, high = self.bounds.get(scope, (found.score, found.score))
            self.bounds[scope] = min(low, found.score), max(high, found.score)
        question, before, number = self._last, None, self._task.number
        if not question or (question.sample_hash, question.evaluation_name) != (
            found.sample_hash,
            found.evaluation_name,
        ):
            before, key = question, (found.evaluation_name, found.sample_hash)
            question = self._questions.get(key)
            if question is None:
                place = (number << PLACE_BITS) + start
                question = Question(*key, place, asked_of(found.input), [], [])
                if not self._task.sorted_by_question:
                    self._questions[key] = question
            question.ranges.append((number, start, end))
            self._last = question
        else:
            question.ranges[-1] = (number, question.ranges[-1][1], end)
        for records in question.scopes:
            if records.scope == scope:
                break
        else:
            records = ScopeRecords(scope, [], [])
            question.scopes.append(records)
        if found.sample_id not in records.sample_ids:
            records.sample_ids.append(found.sample_id)
        records.records.append((model, found.flag, found.score, found.length))
        return before

    def questions(self) -> Iterator[Question]:
        """Yield the questions of the part: in the order of the corpus, or else by name and hash."""
        offset = 0
        for buffer, size in skim_lines(self._task.part, self._task.limits):
            begin = 0
            while begin < size:
                end = buffer.find(b"\n", begin) + 1
                before = self.add(bytes(memoryview(buffer)[begin : end - 1]), offset + begin, offset + end)
                if before is not None and self._task.sorted_by_question:
                    yield before
                begin = end
            offset += size
        if not self._task.sorted_by_question:
            yield from sorted(self._questions.values(), key=lambda question: question.key)
        elif self._last is not None:
            yield self._last


def scan_part(task: ScanTask) -> Scanned:
    """Scan a part, and write its questions to files."""
    scanner = _Scanner(task)
    shapes = [Shape(len(scope.models), scope.graded) for scope in task.scopes]
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
    return Scanned(scanner.records, scanner.bounds)
