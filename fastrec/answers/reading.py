"""Read records of a corpus: the answers to a question, and what is shown of it in a list.

Only parts that have some of the records are read, and only as far as needed.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

import msgspec

from fastrec.answers.codes import Array
from fastrec.answers.selection import Selection
from fastrec.answers.table import Outcome
from fastrec.corpus.reader import lines_of
from fastrec.corpus.scan import decoding
from fastrec.corpus.sources import Source, has_sources, read_sources
from fastrec.errors import UsageError
from fastrec.judge.parse import decoded
from fastrec.schemas.view import view, view_decoder
from fastrec.summary.document import SampleId
from fastrec.where import text_of


class Answer(msgspec.Struct, kw_only=True):
    """An answer of a model to a question: a record, and what a reader wants to know first."""

    model_id: str
    evaluation_id: str
    metric: str | None
    sample_id: SampleId
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

    sample_id: SampleId  # of its first record
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
