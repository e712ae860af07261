"""Scan one part of a corpus for the index. Runs in a worker.

    lines of a part ──▶ `Question`, one per question of the part ──▶ joined with those of other parts ──▶ `Rows`

Batches of questions and rows go through files, so that tasks return counts only.
In a corpus whose records are sorted by question, only the first and the last question of a part may have more records
in other parts. All others are packed here. In a corpus of another order, every question may have more records. The
questions of a split hash take turns, with one record of each run at a time.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from stringzilla import count, find

from fastrec.answers.marks import (
    RecordMark,
    facts_of,
    fingerprint,
    fingerprint_of_json,
    mark,
    mean_length,
    pack_numbers,
    pack_trials,
)
from fastrec.answers.table import Scope
from fastrec.corpus.scan import VERIFY_HINT, PartFile, SplitHashes, key_mark, skim_lines, unsorted_error
from fastrec.errors import CorpusError, shown
from fastrec.judge.parse import parse, spell
from fastrec.statistics.exact import to_double
from fastrec.statistics.repeats import ERROR, RIGHT, WRONG
from fastrec.where import said, text_of

# What the index takes from a line, without decoding all of it:
#
# {…,"evaluation_name":…,"sample_hash":…,"interaction_type":"single_turn","input":{…},"output":{…},"answer_attribution":
#  ┊ run    ┊ question                  ┊ asked                                      ┊ answer     ┊
# […],"evaluation":{"score":…,"is_correct":…},…}
# ┊ tail, from "answer_attribution" on, with the verdict
#
# A line in normal form has its fields in this order, and adjacent lines mostly have the same question and input. So
# these are decoded when they change. The marks between the stretches are found as bytes. Inside a string their quotes
# would be escaped, but an unknown key of an inner object may look the same. It does no harm: every stretch that was not
# seen before is decoded, and one that begins or ends at another level is not JSON. Then the line is decoded as a whole.

_EXCERPT_CHARS: Final = 200
_SHORT: Final = re.compile(rb'"[^[{"][^\n]{,39}"|[-\dtf][^\n]{,40}')  # metadata: texts, numbers, true, false
_MOST_RUNS: Final = 10_000
_QUESTION: Final = key_mark("evaluation_name")
_TYPE: Final = key_mark("interaction_type")
_INPUT: Final = key_mark("input")
_OUTPUT: Final = key_mark("output") + b"{"
_TEXT: Final = b'{"raw":"'
_AROUND_TEXT: Final = len('{"raw":""}')
_BEFORE_TEXT: Final = len('{"raw":')
_ATTRIBUTION: Final = key_mark("answer_attribution") + b"["
_NO_RUN: Final = b"\n", ""  # no line begins so
_SINGLE: Final = _TYPE + b'"single_turn"' + _INPUT


class _Model(msgspec.Struct, gc=False):
    model_id: str


class _Input(msgspec.Struct, gc=False):
    raw: str
    reference: str | list[str]


class _Output(msgspec.Struct, gc=False):
    raw: str | list[str]


class _Turn(msgspec.Struct, gc=False):
    role: str
    content: str | UnsetType | None = UNSET


class _Evaluation(msgspec.Struct, gc=False):
    score: int | float | bool
    is_correct: bool


class _Verdict(msgspec.Struct, gc=False):
    evaluation: _Evaluation
    error: str | UnsetType | None = UNSET
    messages: Raw | UnsetType = UNSET  # turns under an unknown key, as are the next ones
    interactions: Raw | UnsetType = UNSET


class Key(msgspec.Struct, gc=False):
    evaluation_name: str
    sample_id: Raw  # as it is spelled
    sample_hash: str
    evaluation_result_id: str | UnsetType = UNSET


class _Record(Key, gc=False, kw_only=True):
    """All of this but the output, for lines that are decoded as a whole."""

    model_id: str
    input: _Input
    evaluation: _Evaluation
    error: str | UnsetType | None = UNSET


class _Tail(msgspec.Struct, gc=False):
    metadata: dict[str, Raw] | None = None


Asked = tuple[str, int, str]
"""The beginning of an input, on one line, the number of its characters, and short metadata of the first record."""


_decode_model = msgspec.json.Decoder(_Model).decode
_decode_key = msgspec.json.Decoder(Key).decode
_decode_input = msgspec.json.Decoder(_Input).decode
_decode_output = msgspec.json.Decoder(_Output).decode
_decode_turns = msgspec.json.Decoder(list[_Turn]).decode
_decode_verdict = msgspec.json.Decoder(_Verdict).decode
_decode_tail = msgspec.json.Decoder(_Tail).decode
_FAILED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class LineReader:
    """Reads lines one by one. Its attributes describe the last line."""

    key: Key  # the same object as for the line before, if nothing of it has changed
    model_id: str
    flag: int  # `RIGHT`, `WRONG` or `ERROR`
    score: float
    length: int  # characters of what the model said (`where.said`)
    output: int  # a fingerprint of it
    tail: bytes  # the fields from `answer_attribution` on, or all of them, as a JSON object
    input: _Input

    def __init__(self, turns_field: str) -> None:
        self._turns = key_mark(turns_field) + b"["
        self._run = b""  # the beginning of the last line, up to the mark that follows
        self._following: dict[bytes, tuple[bytes, str]] = {}  # by it, that of the line that came next, and its model
        self._known = b"\n"  # question and input of the last line, and the mark of the field that follows
        self._question = b""  # the question, as it is spelled there
        self._single = True  # whether the field that follows is an output

    def read(self, data: bytearray, begin: int) -> int:
        """Read the line that begins at `begin`; return where the next one begins.

        Raises:
            MsgspecError, UnicodeDecodeError, RecursionError: It is not a record.
        """
        # The next line mostly has the same model as when this one came last, for another question.
        run, model = self._following.get(self._run, _NO_RUN)
        try:
            if not data.startswith(run, begin):
                run, model = self._read_run(data, begin)
            self._run = run
            question_at = begin + len(run) - len(_QUESTION)
            if not data.startswith(self._known, question_at):
                self._read_question(data, question_at)
            answer_at = question_at + len(self._known) - 1
            attribution_at = find(data, _ATTRIBUTION, answer_at)
            length, output = self._measure(data, answer_at, attribution_at)
            end: int = find(data, b"\n", attribution_at)
            self.tail = tail = b"{" + data[attribution_at + 1 : end]
            verdict = _decode_verdict(tail)
        except _FAILED:
            return self._read_slowly(data, begin)
        if verdict.messages is not UNSET or verdict.interactions is not UNSET:
            return self._read_slowly(data, begin)
        self.model_id, self.length, self.output = model, length, output
        evaluation = verdict.evaluation
        self.flag = ERROR if verdict.error else RIGHT if evaluation.is_correct else WRONG
        score = evaluation.score
        self.score = score if score.__class__ is float else to_double(score)
        return end + 1

    def _measure(self, data: bytearray, start: int, end: int) -> tuple[int, int]:
        """The number of characters of what the model said, and its fingerprint."""
        text = data[start:end]
        if not self._single:
            turns = _decode_turns(text)
            spoken = [turn.content for turn in turns if turn.role == "assistant"]
            return _measure([content for content in spoken if content.__class__ is str])
        if text.startswith(_TEXT) and find(text, b'","') < 0:  # the text is the only value
            chars = (len(text) if text.isascii() else len(text.decode())) - _AROUND_TEXT
            backslashes: int = count(text, b"\\")
            if not backslashes or find(text, b"\\u") < 0:
                pairs: int = count(text, b"\\\\") if backslashes else 0
                # Each escape has one character more than what it stands for.
                return chars - backslashes + pairs, fingerprint_of_json(text[_BEFORE_TEXT:-1])
        raw = _decode_output(text).raw
        return _measure([raw] if isinstance(raw, str) else raw)

    def _read_run(self, data: bytearray, begin: int) -> tuple[bytes, str]:
        end = find(data, _QUESTION, begin)
        run = bytes(memoryview(data)[begin : end + len(_QUESTION)])
        model = _decode_model(run[: -len(_QUESTION)] + b"}").model_id
        if len(self._following) > _MOST_RUNS:
            self._following.clear()
        self._following[self._run] = run, model
        return run, model

    def _read_question(self, data: bytearray, start: int) -> None:
        """Decode another question, or another input, and look for the field that follows it."""
        self._known = b"\n"  # in case that this fails
        type_at = find(data, _TYPE, start)
        self._single = data.startswith(_SINGLE, type_at)
        mark = _OUTPUT if self._single else self._turns
        input_at = find(data, _INPUT, type_at) + len(_INPUT)
        end = find(data, mark, input_at)
        view = memoryview(data)
        self.input = _decode_input(view[input_at:end])
        question = bytes(view[start:type_at])
        if question != self._question:
            self.key = _decode_key(b"{" + question[1:] + b"}")
            self._question = question
        self._known = bytes(view[start : end + len(mark)])

    def _read_slowly(self, data: bytearray, begin: int) -> int:
        self._known, self._question = b"\n", b""
        end = data.find(b"\n", begin)
        self.tail = line = bytes(memoryview(data)[begin:end])
        value, _ = parse(line)
        record = _record_of(value)
        self.key, self.model_id, self.input = record, record.model_id, record.input
        self.length, self.output = _measure(list(said(value)))
        self.flag = ERROR if record.error else RIGHT if record.evaluation.is_correct else WRONG
        self.score = to_double(record.evaluation.score)
        return end + 1

    def asked(self) -> Asked:
        raw = self.input.raw
        known = {key: bytes(value) for key, value in (_decode_tail(self.tail).metadata or {}).items()}
        short = {key: text_of(msgspec.json.decode(value)) for key, value in known.items() if _SHORT.fullmatch(value)}
        excerpt = " ".join(raw[: 8 * _EXCERPT_CHARS].split())[:_EXCERPT_CHARS]
        return excerpt, len(raw), msgspec.json.encode(short).decode()


def _measure(texts: list[str]) -> tuple[int, int]:
    return sum(map(len, texts)), fingerprint(texts)


def _record_of(value: Any) -> _Record:
    """Make a record of a parsed line, whose integers may have more digits than msgspec decodes."""
    if isinstance(value, dict) and "sample_id" in value:
        value["sample_id"] = Raw(spell(value["sample_id"]))
        evaluation = value.get("evaluation")
        if isinstance(evaluation, dict) and isinstance(evaluation.get("score"), int):
            evaluation["score"] = to_double(evaluation["score"])
    return msgspec.convert(value, _Record)


_BATCH: Final = 1_000
_SIZE: Final = struct.Struct("<Q")
Item = TypeVar("Item")


class ScopeRecords(msgspec.Struct, array_like=True, gc=False):
    scope: int
    sample_ids: list[bytes]  # distinct ids as they are spelled in JSON, that of the first record first
    records: list[RecordMark]


class Question(msgspec.Struct, array_like=True, gc=False):
    evaluation_name: str
    sample_hash: str
    sample_id: bytes  # as it is spelled in JSON, if the hash is split; else empty
    place: int  # of its first record: the number of the part, and the offset in its text
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
    def key(self) -> tuple[str, str, bytes, int]:
        """What questions are joined by, and the place, which they are sorted by."""
        return self.evaluation_name, self.sample_hash, self.sample_id, self.place


class Rows(NamedTuple):
    """The rows of a question in the tables of the index."""

    asked: tuple[int, bytes, bytes | None, bytes, int, bytes, str]
    """place, sample_hash, sample_id if the hash is split, excerpt, input_chars, ranges, metadata"""
    entries: list[tuple[Any, ...]]
    """scope, place, sample_ids, the columns of `Facts`, output_chars, the columns of `Marks`"""


def join_questions(questions: list[Question]) -> Question:
    first, *others = questions
    for other in others:
        for more in other.scopes:
            for sample_id in more.sample_ids:
                records = first.records_of(more.scope, sample_id)
            records += more.records
        first.ranges += other.ranges
    return first


def rows_of(question: Question, scopes: Sequence[Scope]) -> Rows:
    excerpt, chars, metadata = question.asked
    ranges = msgspec.msgpack.encode(question.ranges)
    entries = []
    for found in question.scopes:
        scope = scopes[found.scope]
        everyone = range(len(scope.models))
        numbers = pack_numbers(found.records) if len(question.scopes) > 1 else b""
        marks = mark(found.records, len(scope.models))._replace(numbers=numbers, trials=pack_trials(found.records))
        facts = facts_of(marks, everyone, graded=scope.graded)
        length = mean_length(marks.flags, marks.lengths, everyone)
        ids = b"[" + b",".join(found.sample_ids) + b"]"
        entries.append((found.scope, question.place, ids, *facts, length, *marks))
    name = question.sample_hash.encode(), question.sample_id or None
    return Rows((question.place, *name, excerpt.encode(), chars, ranges, metadata), entries)


def write_batches(file: BinaryIO, items: Iterable[Any]) -> None:
    iterator = iter(items)
    encode = msgspec.msgpack.Encoder().encode
    while batch := list(islice(iterator, _BATCH)):
        data = encode(batch)
        file.write(_SIZE.pack(len(data)) + data)


def read_batches(path: str, kind: type[Item]) -> Iterator[Item]:
    decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
    with open(path, "rb") as file:  # noqa: PTH123
        while size := file.read(_SIZE.size):
            yield from decode(file.read(_SIZE.unpack(size)[0]))


_PLACE_BITS: Final = 40
"""Bits of a place for the offset in the text of a part; those above are the number of the part."""


class ScanTask(msgspec.Struct, frozen=True):
    """A part to scan, and the files to write."""

    part: PartFile
    number: int
    scopes: tuple[Scope, ...]
    split: SplitHashes
    question_fields: tuple[str, ...]
    """The fields of a question in the order in which the part is sorted by them first; empty if it is not."""
    turns_field: str
    rows: str  # the file for packed questions
    pieces: str  # the file for questions that may have more records in other parts, by name and hash

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
        self._questions: dict[tuple[str, str, bytes], Question] = {}
        """Questions that may have more records in this part."""
        self._question: Question | None = None
        self._position: tuple[str, ...] = ()  # of this question
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
        found = self._questions.values()
        yield from found if self._task.question_fields else sorted(found, key=lambda question: question.key)

    def _scan(self) -> Iterator[Question]:
        reader, offset = self._reader, 0
        split, is_sorted = self._task.split, self._task.question_fields
        key: Key | None = None
        models: dict[str, int] = {}
        records: list[RecordMark] = []
        for buffer, size in skim_lines(self._task.part):
            begin = 0
            while begin < size:
                end = reader.read(buffer, begin)
                if reader.key is not key:
                    key = reader.key
                    metric = None if key.evaluation_result_id is UNSET else key.evaluation_result_id
                    name, sample_hash, sample_id = key.evaluation_name, key.sample_hash, bytes(key.sample_id)
                    names = name, sample_hash, sample_id if split and (name, metric, sample_hash) in split else b""
                    question = self._question
                    if not question or names != (question.evaluation_name, question.sample_hash, question.sample_id):
                        self._end(offset + begin)
                        if is_sorted and question and names[:2] != (question.evaluation_name, question.sample_hash):
                            yield from self._questions.values()
                            self._questions.clear()
                        question = self._begin(names, offset + begin)
                    scope, models = self._scopes[name, metric]
                    records = question.records_of(scope, sample_id)
                found = (reader.flag, reader.score, reader.length, reader.output, reader.tail)
                records.append((models[reader.model_id], *found))
                self.records += 1
                begin = end
            offset += size
        self._end(offset)

    def _begin(self, names: tuple[str, str, bytes], start: int) -> Question:
        if fields := self._task.question_fields:
            position = names[:2] if fields[0] == "evaluation_name" else (names[1], names[0])
            if position < self._position:
                raise unsorted_error(self._task.part.path, self.records + 1)
            self._position = position
        question = self._questions.get(names)
        if question is None:
            place = (self._task.number << _PLACE_BITS) + start
            question = self._questions[names] = Question(*names, place, self._reader.asked(), [], [])
        self._question, self._start = question, start
        return question

    def _end(self, end: int) -> None:
        if self._question:
            self._question.ranges.append((self._task.number, self._start, end))


def scan_part(task: ScanTask) -> int:
    """Scan a part, and write its questions to files; return the number of its records."""
    scanner = _Scanner(task)
    with open(task.rows, "wb") as rows, open(task.pieces, "wb") as pieces:  # noqa: PTH123
        questions = scanner.questions()
        if not task.question_fields:
            write_batches(pieces, questions)
        else:
            edges: list[Question] = []

            def inner() -> Iterator[object]:
                for question in questions:
                    if len(edges) > 1:
                        yield rows_of(edges.pop(), task.scopes)
                    edges.append(question)

            write_batches(rows, inner())
            write_batches(pieces, edges)
    if scanner.records != task.part.entry.records:
        expected = task.part.entry.records
        reason = f"has {scanner.records:,} records, but the manifest says {expected:,}; {VERIFY_HINT}"
        raise CorpusError(task.part.path, reason)
    return scanner.records
