"""Read records of a corpus: the answers to a question, and those that have a phrase.

Of the answers to a question, only parts that have some are read, and only as far as needed.

A phrase is found in inputs and answers, whatever its case. The input is `input.raw` with its
references; the answer is everything that the model said (`where.said`). All of it is read, so
nothing has to be kept for it. Lines that may have the phrase are found as bytes, and only these are
decoded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import msgspec
import numpy as np
from stringzilla import find

from fastrec.answers.codes import Array
from fastrec.answers.selection import Selection
from fastrec.answers.table import Outcome
from fastrec.corpus.reader import lines_of
from fastrec.corpus.scan import PartTask, decoding, run_on_parts, skim_lines
from fastrec.corpus.sources import Source, has_sources, read_sources
from fastrec.errors import UsageError
from fastrec.judge.parse import decoded
from fastrec.progress import Progress
from fastrec.schemas.view import view, view_decoder
from fastrec.where import said, text_of


class Answer(msgspec.Struct, kw_only=True):
    """An answer of a model to a question: a record, and what a reader wants to know first."""

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


def read_answers(
    selection: Selection, numbers: Array, metric: str | None, sample_hash: str, most: int | None
) -> list[Answer]:
    """Read some records of a question and metric, given their numbers in ascending order.

    Raises:
        UsageError: There are more than `most` of them.
    """
    if most is not None and len(numbers) > most:
        raise UsageError(
            f"this question has more than {most:,} answers, too many to show; choose some with "
            "--model, "
            f"or read the records with `fastrec cat CORPUS --hash {sample_hash}`"
        )
    answers = []
    for number, positions in selection.by_part(numbers):
        part = selection.parts[number]
        sources: Iterable[Source | None] = repeat(None)
        if has_sources(selection.manifest):
            sources = read_sources(part, positions.tolist())
        lines = lines_of(part, selection.columns(number), positions.tolist())
        with decoding(part):
            for line, source in zip(lines, sources, strict=False):
                answers.append(_answer(line, metric, source))
    return answers


def _answer(line: bytes, metric: str | None, source: Source | None) -> Answer:
    record = decoded(line)
    verdict = record["evaluation"]
    error = record.get("error", "")
    tokens = record.get("token_usage", {})
    return Answer(
        model_id=record["model_id"],
        evaluation_id=record["evaluation_id"],
        metric=metric,
        sample_id=record["sample_id"],
        outcome="error" if error else "right" if verdict["is_correct"] else "wrong",
        score=verdict["score"],
        error=error,
        input_tokens=tokens.get("input_tokens"),
        output_tokens=tokens.get("output_tokens"),
        latency_ms=record.get("performance", {}).get("latency_ms"),
        source=source,
        line=line,
    )


class Excerpt(NamedTuple):
    """What is shown of a question in a list."""

    sample_id: int | str  # of its first record
    excerpt: str  # the beginning of the input, on one line
    metadata: dict[str, str]  # short values of its first record


_EXCERPT_CHARS = 200
_SHORT = re.compile(
    rb'"[^[{"][^\n]{,39}"|[-\dtf][^\n]{,40}'
)  # metadata: texts, numbers, true, false
_decode_asked = view_decoder(
    sample_id=msgspec.Raw,
    input=view(raw=str),
    metadata=(dict[str, msgspec.Raw] | None, None),
)


def is_short(value: bytes) -> bool:
    """Whether a value of metadata, spelled in JSON, is shown in a list."""
    return _SHORT.fullmatch(value) is not None


def read_excerpts(selection: Selection, numbers: Array) -> Iterator[Excerpt]:
    """Read the first records of questions, given their numbers in ascending order."""
    for line in selection.lines(numbers):
        asked = _decode_asked(line)
        known = {key: bytes(value) for key, value in (asked.metadata or {}).items()}
        short = {
            key: text_of(msgspec.json.decode(value))
            for key, value in known.items()
            if is_short(value)
        }
        excerpt = " ".join(asked.input.raw[: 8 * _EXCERPT_CHARS].split())[:_EXCERPT_CHARS]
        yield Excerpt(decoded(asked.sample_id), excerpt, short)


_LAST_CASED = 0x20000  # no character from here on has another case


IN_INPUT = 1
IN_ANSWER = 2


class _Task(PartTask, frozen=True):
    phrase: str  # without case


def find_phrase(
    selection: Selection, parts: Sequence[int], phrase: str, *, jobs: int, progress: Progress | None
) -> tuple[Array, Array]:
    """Find the records of some parts that have a phrase: their numbers, and where it is."""
    hit_lists = [np.empty((0, 2), dtype=np.int64)]
    try:
        phrase.encode()
    except UnicodeEncodeError:  # no record has such text
        parts = ()
    tasks = [_Task(selection.parts[part], phrase.casefold()) for part in parts]
    results = run_on_parts(_search_part, tasks, "search", jobs=jobs, progress=progress)
    for part, hits in zip(parts, results, strict=True):
        hit_lists.append(hits + np.array([selection.starts[part], 0]))
    numbers, places = np.concatenate(hit_lists).T
    return numbers, places


def _search_part(task: _Task) -> Array:
    """Find the records of a part that have a phrase: their positions, and where it is.

    Runs in a worker.
    """
    with decoding(task.part):
        return np.array(list(_hits(task)), dtype=np.int64).reshape(-1, 2)


def _lines_with(text: bytes, needles: Sequence[bytes]) -> list[tuple[int, int]]:
    """Where lines that contain any of the needles begin and end, newline included."""
    spans = set()
    for needle in needles:
        offset = find(text, needle)
        while offset >= 0:
            beyond = text.find(b"\n", offset) + 1
            spans.add((text.rfind(b"\n", 0, offset) + 1, beyond))
            offset = find(text, needle, beyond)
    return sorted(spans)


def _hits(task: _Task) -> Iterator[tuple[int, int]]:
    phrase = task.phrase
    spelled, folded = needles(phrase)
    lines = 0  # before the buffer
    for data, end in skim_lines(task.part):
        text = bytes(memoryview(data)[:end])
        wanted = [spelled] if text.isascii() else [spelled, *folded]
        counted = position = 0
        for first, beyond in _lines_with(text.lower(), wanted):  # of ASCII letters only
            position += text.count(b"\n", counted, first)
            counted = first
            record = decoded(text[first:beyond])
            asked = record["input"]["raw"]
            references = record["input"]["reference"]
            texts = [asked, references] if isinstance(references, str) else [asked, *references]
            place = IN_INPUT * any(phrase in piece.casefold() for piece in texts)
            place |= IN_ANSWER * any(phrase in piece.casefold() for piece in said(record))
            if place:
                yield lines + position, place
        lines += text.count(b"\n")


@lru_cache(maxsize=16)
def needles(phrase: str) -> tuple[bytes, tuple[bytes, ...]]:
    r"""What a line with a phrase contains: the phrase as JSON spells it, or a special character.

    ASCII letters of the line must be in lower case. Special characters become a letter of the
    phrase, or several, if case is removed: other capital letters, and characters such as `ß`.

    >>> needles("é")
    (b'\xc3\xa9', (b'\xc3\x89',))
    """
    letters = set(phrase)
    chars = ((char, char.casefold()) for char in map(chr, range(0x80, _LAST_CASED)))
    special = tuple(
        char.encode() for char, folded in chars if folded != char and not letters.isdisjoint(folded)
    )
    return msgspec.json.encode(phrase)[1:-1].lower(), special
