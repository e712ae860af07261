"""A simulated corpus: its records are only numbers, in order of their keys.

Most shards have records of all questions. One narrow shard has records of few questions, so that a
change of it leaves most of the corpus alone. It has no numbers of its own: its records lie between
the others.
"""

from collections.abc import Iterator
from itertools import pairwise

from fastrec.sorting.cuts import Border

RECORD = 1_500  # bytes of text, as in real evaluation records
_EVALUATIONS = 40
_LEAST = 25_000  # records of an evaluation; a small corpus has fewer evaluations
_NEW_MODEL = 999  # comes after all others
_NARROW = 400  # the narrow shard has one in so many questions
_EVALUATION = len(b"evaluation-00\0")
_HASH = slice(_EVALUATION, _EVALUATION + 64)
_PREFIX = _HASH.stop + 1
_MODEL = slice(_PREFIX + len(b"organization/model-"), _PREFIX + len(b"organization/model-000"))


def shares(total: int, count: int) -> list[int]:
    """Divide a number as evenly as possible."""
    bounds = [total * number // count for number in range(count + 1)]
    return [end - start for start, end in pairwise(bounds)]


class SimulatedCorpus:
    """Converts numbers of records to keys and back, and counts the records in ranges of keys."""

    def __init__(self, records: int, per_question: int) -> None:
        self.records = records  # Those with numbers: all but the narrow shard's.
        self.narrow = 0  # Records of the narrow shard.
        self._per_question = per_question
        self._questions = -(-records // per_question)
        self._evaluations = max(min(_EVALUATIONS, records // _LEAST), 1)
        first = self._questions // 2
        self.narrow_first = first * per_question
        # The narrow shard's records lie between these two numbers.
        self.narrow_last = (first + -(-self._questions // _NARROW)) * per_question

    @property
    def total(self) -> int:
        """All records."""
        return self.records + self.narrow

    def key(self, number: int, *, is_narrow: bool = False) -> bytes:
        """Return the key of a record; those of the narrow shard come last in their question."""
        question, of_question = divmod(number, self._per_question)
        return self._prefix(question) + (
            b"organization/model-%03d-instruct\0evaluation-of-2024-%07d\0\3sample-%07d\0"
            % (_NEW_MODEL if is_narrow else of_question, number % 9_999_999, number % 9_999_991)
        )

    def number(self, key: bytes) -> int:
        """Return the number of the first record from a key, or from a prefix of it on."""
        if len(key) == _EVALUATION:
            question = -(-int(key[-3:-1]) * self._questions // self._evaluations)
        else:
            question = -(-int(key[_HASH], 16) * self._questions >> 256)
        of_question = int(key[_MODEL]) if len(key) > _PREFIX else 0
        return min(
            question * self._per_question + min(of_question, self._per_question), self.records
        )

    def numbers(self, low: bytes | None, high: bytes | None) -> tuple[int, int]:
        """Return the numbers at which a range of keys begins and ends."""
        first = 0 if low is None else self.number(low)
        return first, self.records if high is None else self.number(high)

    def narrow_in(self, first: int, last: int) -> int:
        """Return how many records of the narrow shard are between two numbers."""
        return self._narrow_before(last) - self._narrow_before(first)

    def borders(self, first: int, last: int) -> Iterator[Border]:
        """Yield the borders of the records between two numbers."""
        count = self._per_question
        for question in range(first // count, -(-last // count)):
            start, end = max(question * count, first), min((question + 1) * count, last)
            yield self._prefix(question), (end - start + self.narrow_in(start, end)) * RECORD

    def _prefix(self, question: int) -> bytes:
        return b"evaluation-%02d\0%064x\0" % (
            question * self._evaluations // self._questions,
            (question << 256) // self._questions,
        )

    def _narrow_before(self, number: int) -> int:
        first, last = self.narrow_first, self.narrow_last
        return self.narrow * (min(max(number, first), last) - first) // (last - first)
