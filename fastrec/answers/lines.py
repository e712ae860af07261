"""What the index takes from the lines of a part, without decoding all of them.

    {…,"evaluation_name":…,"sample_hash":…,"interaction_type":"single_turn","input":{…},"output":{…},"answer_attribution":[
     ┊ run    ┊ question                  ┊ asked                                      ┊ answer     ┊
    …],"evaluation":{"score":…,"is_correct":…},…}
      ┊ verdict

A line in normal form has its fields in this order, and adjacent lines mostly have the same question and input. So these
are decoded when they change. The marks between the stretches are found as bytes. Inside a string their quotes would be
escaped, but an unknown key of an inner object may look the same. It does no harm: every stretch that was not seen
before is decoded, and one that begins or ends at another level is not JSON. Then the line is decoded as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from stringzilla import count, find

from fastrec.answers.marks import ERROR, RIGHT, WRONG, as_double
from fastrec.corpus.line_head import key_mark
from fastrec.judge.parse import parse, spell

__all__ = ["EXCERPT_CHARS", "SEARCH_CHARS", "Asked", "LineReader"]

EXCERPT_CHARS: Final = 200
SEARCH_CHARS: Final = 20_000
"""Characters of an input, and of each reference, that a text search looks at."""
_MOST_TEXTS: Final = 20  # an input and its first references
_BETWEEN: Final = b"\xff"  # in no text

_MOST_RUNS: Final = 10_000
_QUESTION: Final = key_mark("evaluation_name")
_TYPE: Final = key_mark("interaction_type")
_INPUT: Final = key_mark("input")
_OUTPUT: Final = key_mark("output") + b"{"
_TEXT: Final = b'{"raw":"'
_NEXT_KEY: Final = b'","'
_CODE_POINT: Final = b"\\u"
_AROUND_TEXT: Final = len('{"raw":""}')
_ATTRIBUTION: Final = key_mark("answer_attribution") + b"["
_EVALUATION: Final = key_mark("evaluation") + b"{"
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
    content: str | UnsetType | None = UNSET


class _Evaluation(msgspec.Struct, gc=False):
    score: int | float | bool
    is_correct: bool


class _Verdict(msgspec.Struct, gc=False):
    evaluation: _Evaluation
    error: str | UnsetType | None = UNSET


class Key(msgspec.Struct, gc=False):
    """The question of a line, and its metric."""

    evaluation_name: str
    sample_id: Raw
    """As it is spelled."""
    sample_hash: str
    evaluation_result_id: str | UnsetType = UNSET


class _Record(Key, gc=False, kw_only=True):
    """All of this, for lines that are decoded as a whole."""

    model_id: str
    input: _Input
    evaluation: _Evaluation
    output: _Output | UnsetType | None = UNSET
    messages: list[_Turn] | UnsetType | None = UNSET
    interactions: list[_Turn] | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET


class Asked(NamedTuple):
    """What a question asks."""

    excerpt: str
    text: bytes
    """What a text search looks at: UTF-8, without case."""
    chars: int


_decode_model = msgspec.json.Decoder(_Model).decode
_decode_key = msgspec.json.Decoder(Key).decode
_decode_input = msgspec.json.Decoder(_Input).decode
_decode_output = msgspec.json.Decoder(_Output).decode
_decode_turns = msgspec.json.Decoder(list[_Turn]).decode
_decode_verdict = msgspec.json.Decoder(_Verdict).decode
_decode_record = msgspec.json.Decoder(_Record).decode
_FAILED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class LineReader:
    """Reads lines one by one. Its attributes describe the last line."""

    key: Key
    """The same object as for the line before, if nothing of it has changed."""
    model_id: str
    flag: int
    """`RIGHT`, `WRONG` or `ERROR`."""
    score: float
    length: int
    """Characters of the output, or of all messages."""
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
            length = self._length(data, answer_at, attribution_at)
            verdict_at = find(data, _EVALUATION, attribution_at)
            end: int = find(data, b"\n", verdict_at)
            verdict = _decode_verdict(b"{" + data[verdict_at + 1 : end])
        except _FAILED:
            return self._read_slowly(data, begin)
        self.model_id, self.length = model, length
        evaluation = verdict.evaluation
        self.flag = ERROR if verdict.error else RIGHT if evaluation.is_correct else WRONG
        score = evaluation.score
        self.score = score if score.__class__ is float else as_double(score)
        return end + 1

    def _length(self, data: bytearray, start: int, end: int) -> int:
        """Return the length of an output, or of all messages."""
        text = data[start:end]
        if not self._single:
            return _total_of_turns(_decode_turns(text))
        if text.startswith(_TEXT) and find(text, _NEXT_KEY) < 0:  # the text is the only value
            chars = (len(text) if text.isascii() else len(text.decode())) - _AROUND_TEXT
            backslashes: int = count(text, b"\\")
            if not backslashes:
                return chars
            if find(text, _CODE_POINT) < 0:  # each escape has one character more than what it stands for
                pairs: int = count(text, b"\\\\")
                return chars - backslashes + pairs
        raw = _decode_output(text).raw
        return len(raw) if isinstance(raw, str) else _total(raw)

    def _read_run(self, data: bytearray, begin: int) -> tuple[bytes, str]:
        """Decode the beginning of a line."""
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
        """Decode a line as a whole."""
        self._known, self._question = b"\n", b""
        end = data.find(b"\n", begin)
        line = bytes(memoryview(data)[begin:end])
        try:
            record = _decode_record(line)
        except msgspec.MsgspecError:
            record = _record_of(line)
        self.key, self.model_id, self.input = record, record.model_id, record.input
        turns, output = record.messages or record.interactions, record.output
        raw = output.raw if output else ""
        self.length = _total_of_turns(turns) if turns else len(raw) if isinstance(raw, str) else _total(raw)
        self.flag = ERROR if record.error else RIGHT if record.evaluation.is_correct else WRONG
        self.score = as_double(record.evaluation.score)
        return end + 1

    def asked(self) -> Asked:
        """Return what the last line asks."""
        raw, references = self.input.raw, self.input.reference
        texts = [raw, references] if isinstance(references, str) else [raw, *references]
        text = _BETWEEN.join([text[:SEARCH_CHARS].casefold().encode() for text in texts[:_MOST_TEXTS]])
        excerpt = " ".join(raw[: 8 * EXCERPT_CHARS].split())[:EXCERPT_CHARS]
        return Asked(excerpt, text, len(raw))


def _total(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


def _total_of_turns(turns: Sequence[_Turn]) -> int:
    return sum([len(turn.content) for turn in turns if turn.content])


def _record_of(line: bytes) -> _Record:
    """Decode a line whose integers have more digits than msgspec decodes."""
    value, _ = parse(line)
    if isinstance(value, dict) and "sample_id" in value:
        value["sample_id"] = Raw(spell(value["sample_id"]))
        evaluation = value.get("evaluation")
        if isinstance(evaluation, dict) and isinstance(evaluation.get("score"), int):
            evaluation["score"] = as_double(evaluation["score"])
    return msgspec.convert(value, _Record)
