"""Find a phrase in the inputs and answers of a corpus, whatever its case.

    one task per part ──▶ a file of hits, one per record that has the phrase ──▶ a table of the index (`Database`)

The input is `input.raw` with its references; the answer is everything that the model said (`where.said`). All of it is
read, so nothing has to be kept for it. Lines that may have the phrase are found as bytes, and only these are decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from fastrec.answers.scan import read_batches, write_batches
from fastrec.corpus.scan import VERIFY_HINT, PartFile, lines_with, read_head, run_in_order, skim_lines, with_progress
from fastrec.errors import CorpusError, shown
from fastrec.judge.parse import parse
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


class _Task(msgspec.Struct, frozen=True):
    part: PartFile
    phrase: str
    """Without case."""
    output: str
    limits: Limits

    def __str__(self) -> str:
        return f"searching {shown(self.part.path)}"


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
    for data, end in skim_lines(task.part, task.limits):
        text = bytes(memoryview(data)[:end])
        wanted = [spelled] if text.isascii() else [spelled, *folded]
        for first, beyond in lines_with(text.lower(), wanted, end):  # ASCII letters become lower case
            line = text[first:beyond]
            record = _record(line)
            asked, references = record["input"]["raw"], record["input"]["reference"]
            texts = [asked, references] if isinstance(references, str) else [asked, *references]
            in_input, in_answer = (any(phrase in one.casefold() for one in some) for some in (texts, said(record)))
            if in_input or in_answer:
                head = read_head(line)
                names = head.evaluation_name, head.metric(), head.sample_hash, bytes(head.sample_id), head.model_id
                yield Hit(*names, in_input, in_answer)


def _record(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:  # an integer with too many digits for msgspec
        return parse(line)[0]


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
