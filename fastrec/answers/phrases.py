"""Phrases: the records of a selection that have a text.

A phrase is found in inputs and answers, whatever its case. The input is `input.raw` with its
references; the answer is everything that the model said (`where.said`). All of it is read, so
nothing has to be kept for it. Lines that may have the phrase are found as bytes, and only these are
decoded.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from stringzilla import find

from fastrec.answers.codes import Array
from fastrec.answers.selection import Selection
from fastrec.corpus.scan import PartTask, decoding, run_on_parts, skim_lines
from fastrec.judge.parse import decoded
from fastrec.progress import Progress
from fastrec.schemas.view import encode_json
from fastrec.where import said

_KEPT = 4  # searches


class Phrases:
    """The last searches. May be used by several threads."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._lock = threading.Lock()
        # By text and evaluation: the numbers of records with this text, and where it is.
        self._found: dict[tuple[str, str | None], tuple[Array, Array]] = {}

    def search(
        self,
        text: str,
        evaluation: str | None = None,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> tuple[Array, Array]:
        """The numbers of the records that have a text, and where it is: IN_INPUT, IN_ANSWER.

        It is searched in an evaluation, or in all, unless this was done.
        """
        known = self._found.get((text, None)) or self._found.get((text, evaluation))
        if known:
            return known
        parts = range(len(self._selection.parts))
        if evaluation is not None:
            parts = self._selection.number_parts(evaluation, evaluation)
        # Not under the lock: other pages need not wait for it.
        hits = find_phrase(self._selection, parts, text, jobs=jobs, progress=progress)
        with self._lock:
            self._found[text, evaluation] = hits
            if len(self._found) > _KEPT:
                del self._found[next(iter(self._found))]
        return hits

    def places(self, text: str, evaluation: str, records: Array) -> Array:
        """Where a text is in some records of an evaluation, given their numbers."""
        numbers, places = self.search(text, evaluation)
        at = np.searchsorted(numbers, records)
        is_hit = np.append(numbers, -1)[at] == records
        return np.where(is_hit, np.append(places, 0)[at], 0)

    def by_scope(self, text: str) -> Counter[int]:
        """By scope: how many records have a text."""
        numbers, _ = self.search(text)
        records = Counter[int]()
        for part, positions in self._selection.by_part(numbers):
            records.update(self._selection.scope_codes(part)[positions].tolist())
        return records


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
    return encode_json(phrase)[1:-1].lower(), special
