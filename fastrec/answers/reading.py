"""Read the answers to a question from the parts: only those that have some, and only as far as needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import UNSET

from fastrec.answers.table import Outcome
from fastrec.corpus.scan import VERIFY_HINT, PartFile, read_head, skim_lines
from fastrec.corpus.sources import Source, read_sources
from fastrec.errors import CorpusError
from fastrec.judge.parse import parse
from fastrec.limits import Limits
from fastrec.schemas.schema import Schema, build


class Answer(msgspec.Struct, kw_only=True):
    """An answer of a model to a question: a record of the corpus, and what a reader wants to know of it at once."""

    model_id: str
    evaluation_id: str
    metric: str | None
    sample_id: int | str
    outcome: Outcome
    """`right`, `wrong` or `error`."""
    score: int | float | bool
    error: str
    """Empty if there is none."""
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: float | None
    source: Source | None
    """Where the record comes from, if the corpus has tracked it."""
    line: bytes
    """The record, as it is in the part."""


Range = tuple[int, int, int]
"""The number of a part, and the start and end of a stretch of its text."""


def read_answers(
    parts: Sequence[PartFile],
    ranges: Sequence[Range],
    *,
    schema: Schema,
    sample_hash: str,
    metric: str | None,
    models: Collection[str],
    limits: Limits,
    sources_in: str | None,
) -> list[Answer]:
    """Read the records of a question, of one metric, and of some models or all of them.

    If the corpus has tracked where its records come from, `sources_in` is its path.
    """
    decode = msgspec.json.Decoder(schema.record).decode
    answers = []
    places: list[tuple[PartFile, int]] = []  # of these answers: the part, and the number of the record in it
    for part, number, line in _lines(parts, ranges, limits):
        try:
            head = read_head(line)
            if head.sample_hash != sample_hash:
                raise CorpusError(part.path, f"is not the file that the index describes; {VERIFY_HINT}")
            found = head.metric()
            if found == metric and (not models or head.model_id in models):
                answers.append(_answer(line, found, head.decoded_sample_id(), _record(line, decode, schema)))
                places.append((part, number))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise CorpusError(part.path, f"has a line that is not a record: {exc}; {VERIFY_HINT}") from exc
    if sources_in is not None:
        sources: list[Source] = []
        for part, some in groupby(places, key=itemgetter(0)):
            sources += read_sources(sources_in, part.entry, [number for _, number in some])
        for answer, source in zip(answers, sources, strict=True):
            answer.source = source
    return answers


def _lines(parts: Sequence[PartFile], ranges: Sequence[Range], limits: Limits) -> Iterator[tuple[PartFile, int, bytes]]:
    """Yield the lines of some stretches in order, each with its number in its part, from 0 on."""
    for number in sorted({number for number, _, _ in ranges}):
        part = parts[number]
        for first, text in _stretches(part, sorted((start, end) for at, start, end in ranges if at == number), limits):
            for at, line in enumerate(text.removesuffix(b"\n").split(b"\n"), first):
                yield part, at, line


def _stretches(part: PartFile, stretches: Sequence[tuple[int, int]], limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield some stretches of the text of a part, each after the number of lines before it; stop after the last one."""
    wanted = iter(stretches)
    start, end = next(wanted)
    pieces: list[bytes] = []
    offset = first = lines = 0
    with closing(skim_lines(part, limits)) as buffers:
        for buffer, size in buffers:
            while offset + size > start:
                if not pieces:
                    first = lines + buffer.count(b"\n", 0, start - offset)
                pieces.append(bytes(memoryview(buffer)[max(start - offset, 0) : min(end - offset, size)]))
                if end > offset + size:
                    break
                yield first, b"".join(pieces)
                pieces = []
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
    usage, times = record.token_usage, record.performance
    latency = times.latency_ms if times else None
    return Answer(
        model_id=record.model_id,
        evaluation_id=record.evaluation_id,
        metric=metric,
        sample_id=sample_id,
        outcome=outcome,
        score=record.evaluation.score,
        error=record.error or "",
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        latency_ms=None if latency is UNSET else latency,
        source=None,
        line=line,
    )
