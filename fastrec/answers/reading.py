"""Read records from the parts of a corpus: the answers to a question, and those that have a phrase.

Of the answers to a question, only parts that have some are read, and only as far as needed.

A phrase is found in inputs and answers, whatever its case. The input is `input.raw` with its references; the answer is
everything that the model said (`where.said`). All of it is read, so nothing has to be kept for it. Lines that may have
the phrase are found as bytes, and only these are decoded:

    one task per part ──▶ a file of hits, one per record that has the phrase ──▶ a table of the index (`Database`)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from fastrec.answers.scan import read_batches, write_batches
from fastrec.answers.table import Outcome
from fastrec.answers.transcript import decoded
from fastrec.corpus.scan import VERIFY_HINT, PartFile, lines_with, read_head, run_in_order, skim_lines, with_progress
from fastrec.corpus.sources import Source, read_sources
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.judge.parse import parse
from fastrec.progress import Progress
from fastrec.schemas.schema import Schema, build
from fastrec.summary.document import filled
from fastrec.where import said


class Answer(msgspec.Struct, kw_only=True):
    """An answer of a model to a question: a record of the corpus, and what a reader wants to know of it at once."""

    model_id: str
    evaluation_id: str
    metric: str | None
    sample_id: int | str
    outcome: Outcome  # `right`, `wrong` or `error`
    score: int | float | bool
    error: str  # empty if there is none
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_ms: float | None
    source: Source | None = None  # where the record comes from, if the corpus has tracked it
    line: bytes  # the record, as it is in the part


Range = tuple[int, int, int]  # the number of a part, and the start and end of a stretch of its text


def read_answers(
    parts: Sequence[PartFile],
    ranges: Sequence[Range],
    *,
    schema: Schema,
    sample_hash: str,
    metric: str | None,
    models: Collection[str],
    sources_in: str | None,
    most: int | None = None,
) -> list[Answer]:
    """Read the records of a question, of one metric, and of some models or all of them.

    If the corpus has tracked where its records come from, `sources_in` is its path.

    Raises:
        UsageError: There are more than `most` of them.
    """
    decode = msgspec.json.Decoder(schema.record).decode
    answers = []
    places: list[tuple[PartFile, int]] = []  # of these answers: the part, and the number of the record in it
    for part, number, line in _lines(parts, ranges):
        try:
            head = read_head(line)
            if head.sample_hash != sample_hash:
                raise CorpusError(part.path, f"is not the file that the index describes; {VERIFY_HINT}")
            found = head.metric()
            if found == metric and (not models or head.model_id in models):
                answers.append(_answer(line, found, head.decoded_sample_id(), _record(line, decode, schema)))
                places.append((part, number))
                if most is not None and len(answers) > most:
                    raise UsageError(
                        f"this question has more than {most:,} answers, too many to show; choose some with --model, "
                        f"or read the records with `fastrec cat CORPUS --hash {sample_hash}`"
                    )
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise CorpusError(part.path, f"has a line that is not a record: {exc}; {VERIFY_HINT}") from exc
    if sources_in is not None:
        sources: list[Source] = []
        for part, some in groupby(places, key=itemgetter(0)):
            sources += read_sources(sources_in, part.entry, [number for _, number in some])
        for answer, source in zip(answers, sources, strict=True):
            answer.source = source
    return answers


def _lines(parts: Sequence[PartFile], ranges: Sequence[Range]) -> Iterator[tuple[PartFile, int, bytes]]:
    """Yield the lines of some stretches in order, each with its number in its part, from 0 on."""
    for number in sorted({number for number, _, _ in ranges}):
        part = parts[number]
        for first, text in _stretches(part, sorted((start, end) for at, start, end in ranges if at == number)):
            for at, line in enumerate(text.removesuffix(b"\n").split(b"\n"), first):
                yield part, at, line


def _stretches(part: PartFile, stretches: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield some stretches of the text of a part, a buffer at a time, each after the number of lines before it."""
    wanted = iter(stretches)
    start, end = next(wanted)
    offset = lines = 0
    with closing(skim_lines(part)) as buffers:
        for buffer, size in buffers:
            while offset + size > start:
                begin = max(start - offset, 0)
                first = lines + buffer.count(b"\n", 0, begin)
                yield first, bytes(memoryview(buffer)[begin : min(end - offset, size)])
                if end > offset + size:
                    break
                following = next(wanted, None)
                if following is None:
                    return
                start, end = following
            offset += size
            lines += buffer.count(b"\n", 0, size)
    raise CorpusError(part.path, f"is not the file that the index describes; {VERIFY_HINT}")


def _record(line: bytes, decode: Callable[[bytes], Any], schema: Schema) -> Any:
    """Decode a record, without unknown keys: `Answer.line` has them."""
    try:
        return decode(line)
    except (msgspec.MsgspecError, RecursionError):
        value, _ = parse(line)
        if not isinstance(value, dict):
            raise
        return build(schema.record, value)


def _answer(line: bytes, metric: str | None, sample_id: int | str, record: Any) -> Answer:
    outcome: Outcome = "error" if record.error else "right" if record.evaluation.is_correct else "wrong"
    latency = record.performance.latency_ms if record.performance else None
    return filled(
        Answer,
        record,
        record.evaluation,
        record.token_usage,
        metric=metric,
        sample_id=sample_id,
        outcome=outcome,
        error=record.error or "",
        latency_ms=None if latency is UNSET else latency,
        line=line,
    )


_LAST_CASED: Final = 0x20000  # no character from here on has another case


class Hit(NamedTuple):
    evaluation_name: str
    metric: str | None
    sample_hash: str
    sample_id: bytes  # as it is spelled
    model_id: str
    in_input: bool
    in_answer: bool


class _Task(msgspec.Struct, frozen=True):
    part: PartFile
    phrase: str  # without case
    output: str

    def __str__(self) -> str:
        return f"searching {shown(self.part.path)}"


def find_phrase(parts: Sequence[PartFile], phrase: str, *, jobs: int, progress: Progress | None) -> Generator[Hit]:
    """Yield a hit for each record that has a phrase, in the order of the corpus."""
    try:
        phrase.encode()
    except UnicodeEncodeError:  # no record has such text
        return
    size = sum(part.entry.text_bytes for part in parts)
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        tasks = [_Task(part, phrase.casefold(), f"{scratch}/{n}") for n, part in enumerate(parts)]
        done = run_in_order(_search_part, tasks, text_bytes=size, jobs=jobs)
        for output in with_progress(done, parts, progress, "search"):
            yield from read_batches(output, Hit)


def _search_part(task: _Task) -> str:
    """Write the hits of one part to a file, and return its path. Runs in a worker."""
    with open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        try:
            write_batches(file, _hits(task))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            reason = f"has a line that is not a record in normal form: {exc}; {VERIFY_HINT}"
            raise CorpusError(task.part.path, reason) from exc
    return task.output


def _hits(task: _Task) -> Iterator[Hit]:
    phrase = task.phrase
    spelled, folded = needles(phrase)
    for data, end in skim_lines(task.part):
        text = bytes(memoryview(data)[:end])
        wanted = [spelled] if text.isascii() else [spelled, *folded]
        for first, beyond in lines_with(text.lower(), wanted, end):  # ASCII letters become lower case
            line = text[first:beyond]
            record = decoded(line)
            asked, references = record["input"]["raw"], record["input"]["reference"]
            texts = [asked, references] if isinstance(references, str) else [asked, *references]
            in_input, in_answer = (any(phrase in one.casefold() for one in some) for some in (texts, said(record)))
            if in_input or in_answer:
                head = read_head(line)
                names = head.evaluation_name, head.metric(), head.sample_hash, bytes(head.sample_id), head.model_id
                yield Hit(*names, in_input, in_answer)


@lru_cache(maxsize=16)
def needles(phrase: str) -> tuple[bytes, tuple[bytes, ...]]:
    r"""What a line with a phrase contains, given without case: the phrase as JSON spells it, or a special character.

    ASCII letters of the line must be in lower case. Special characters become a letter of the phrase, or several, if
    case is removed: other capital letters, and characters such as `ß`.

    >>> needles("é")
    (b'\xc3\xa9', (b'\xc3\x89',))
    """
    letters = set(phrase)
    chars = ((char, char.casefold()) for char in map(chr, range(0x80, _LAST_CASED)))
    special = tuple(char.encode() for char, folded in chars if folded != char and not letters.isdisjoint(folded))
    return msgspec.json.encode(phrase)[1:-1].lower(), special
