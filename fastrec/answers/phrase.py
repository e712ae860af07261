"""Find a phrase in the inputs and answers of a corpus, whatever its case.

    one task per part ──▶ a file of hits, one per record that has the phrase ──▶ a table of the index (`Database`)

The input is `input.raw` with its references; the answer is everything that the model said (`where.said`). All of it is
read, so nothing has to be kept for it. Lines that may have the phrase are found as bytes, and only these are decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypedDict

import msgspec
from msgspec import Raw

from fastrec.answers.scan import read_batches, write_batches
from fastrec.corpus.scan import VERIFY_HINT, PartFile, lines_with, read_head, run_in_order, skim_lines, with_progress
from fastrec.errors import CorpusError, shown
from fastrec.judge.parse import parse, spell
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.where import said

_LAST_CASED: Final = 0x20000  # no character from here on has another case


class Hit(NamedTuple):
    evaluation_name: str
    metric: str | None
    sample_hash: str
    sample_id: bytes
    """As it is spelled."""
    model_id: str
    in_input: bool
    in_answer: bool


class _Output(TypedDict, total=False):
    raw: Any


class _Turn(TypedDict, total=False):
    role: Any
    content: Any


class _Record(TypedDict, total=False):
    """What is decoded of a line; the same keys as in a record, so that `said` reads it."""

    input: Raw
    output: _Output | None
    interactions: list[_Turn] | None
    messages: list[_Turn] | None


class _Task(msgspec.Struct, frozen=True):
    part: PartFile
    phrase: str
    """Without case."""
    output: str
    limits: Limits

    def __str__(self) -> str:
        return f"searching {shown(self.part.path)}"


_decode = msgspec.json.Decoder(_Record).decode


def find_phrase(
    parts: Sequence[PartFile], phrase: str, *, jobs: int, progress: Progress | None, limits: Limits
) -> Generator[Hit]:
    """Yield a hit for each record that has a phrase, in the order of the corpus."""
    try:
        phrase.encode()
    except UnicodeEncodeError:  # no record has such text
        return
    size = sum(part.entry.text_bytes for part in parts)
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        tasks = [_Task(part, phrase.casefold(), f"{scratch}/{n}", limits) for n, part in enumerate(parts)]
        done = run_in_order(_search_part, tasks, text_bytes=size, jobs=jobs, limits=limits)
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
    last, in_input = b"", False  # adjacent lines mostly have the same input
    for data, end in skim_lines(task.part, task.limits):
        text = bytes(memoryview(data)[:end])
        lowered = text.lower()  # ASCII letters only
        for first, beyond in lines_with(lowered, [spelled] if text.isascii() else [spelled, *folded], end):
            line = text[first:beyond]
            record = _record(line)
            asked = bytes(record["input"])
            if asked != last:
                last, in_input = asked, any(phrase in one.casefold() for one in _asked(asked))
            in_answer = any(phrase in one.casefold() for one in said(record))
            if in_input or in_answer:
                head = read_head(line)
                names = head.evaluation_name, head.metric(), head.sample_hash, bytes(head.sample_id), head.model_id
                yield Hit(*names, in_input, in_answer)


def _record(line: bytes) -> _Record:
    try:
        return _decode(line)
    except msgspec.MsgspecError:
        value, _ = parse(line)
        if not isinstance(value, dict):
            raise
        return msgspec.convert(value | {"input": Raw(spell(value.get("input")))}, _Record)


def _asked(asked: bytes) -> list[str]:
    value = msgspec.json.decode(asked)
    references = value["reference"]
    return [value["raw"], *([references] if isinstance(references, str) else references)]


@lru_cache(maxsize=16)
def needles(phrase: str) -> tuple[bytes, tuple[bytes, ...]]:
    r"""What a line with a phrase contains, given without case: the phrase as JSON spells it, or a special character.

    ASCII letters of the line must be in lower case. Special characters become a piece of the phrase, or of its
    beginning or end, if case is removed; among them are other capital letters, and `ß`, which becomes `ss`.

    >>> needles("as é")
    (b'as \xc3\xa9', (b'\xc3\x89', b'\xc5\xbf'))
    """
    special = []
    for char in map(chr, range(0x80, _LAST_CASED)):
        folded = char.casefold()
        if folded != char and (
            folded in phrase
            or phrase in folded
            or any(phrase.endswith(folded[:at]) or phrase.startswith(folded[at:]) for at in range(1, len(folded)))
        ):
            special.append(char.encode())
    return msgspec.json.encode(phrase)[1:-1].lower(), tuple(special)
