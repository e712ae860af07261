"""Statistics that add up exactly, however the records are grouped and ordered.

All counts and sums are integers, those of scores in units of 2**-1074, the smallest step between
doubles.

A question counts once, however many answers a model gave to it: means and their standard errors are
over the answers to each question, then over questions. The tally adds up records as if each was the
only one of its question. `Repeats` has what is missing: sums over the questions with several
records. With k records of a question, c of them correct, its mean is c/k. So sums are kept apart
for each k, and all of them are integers.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from math import ceil, isqrt, lcm
from operator import itemgetter, mul, not_, or_
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import astuple

from fastrec.schemas.view import NO_COUNTS, empty_by_key
from fastrec.sorting.keys import KeyColumns
from fastrec.statistics.intervals import OptionalNumber
from fastrec.summary.rows import Column, Sums, bucket_of, from_portable, to_portable

UNIT_BITS = 1_074
_ROOT_BITS = 128  # extra bits of precision for a square root

Outcome = Sequence[
    Any
]  # of a record: whether it is correct, its score, and whether it has an error

NO_OUTCOME: Outcome = (False, 0, False)


class RepeatSums(Sums):
    """Sums over the questions that a model has k records of. Scores are in units of 2**-1074."""

    questions: int = 0
    correct: int = 0
    correct_squared: int = 0  # sum of the squared numbers of correct records per question
    score: int = 0
    score_squared: int = 0  # sum of the squared sums of scores per question
    squares: int = 0  # sum of the squared scores of all records

    def add(self, outcomes: Sequence[Outcome]) -> None:
        correct = sum([right and not error for right, _, error in outcomes])
        scores = [exact(score) for _, score, _ in outcomes]
        score = sum(scores)
        self.questions += 1
        self.correct += correct
        self.correct_squared += correct * correct
        self.score += score
        self.score_squared += score * score
        self.squares += sum([score * score for score in scores])


_NO_SUMS: dict[int, RepeatSums] = empty_by_key(RepeatSums)


class Repeats(Sums):
    """A model's questions with several records, by the number of records or answers."""

    # Questions whose records are all answers.
    without_errors: dict[int, RepeatSums] = _NO_SUMS
    # The answers to the other questions.
    answers: dict[int, RepeatSums] = _NO_SUMS
    # All records of these, with errors as wrong.
    records: dict[int, RepeatSums] = _NO_SUMS


RepeatsByModel = dict[bytes, Repeats]


class Totals(NamedTuple):
    """Sums over records, whatever their questions."""

    records: int
    correct: int
    score: int  # in units of 2**-1074
    score_squared: int  # in units of 2**-2148


class Means(NamedTuple):
    """Means over questions, with their standard errors.

    None for what is undefined or overflows a double.
    """

    questions: int
    accuracy: OptionalNumber
    accuracy_standard_error: OptionalNumber
    mean_score: OptionalNumber
    score_standard_error: OptionalNumber


def add_repeats(
    repeats: RepeatsByModel, records: Iterable[tuple[bytes, Outcome]]
) -> dict[bytes, int]:
    """Add the repeats among all records of one question, given as model and outcome.

    Count the answers by model.
    """
    by_model: dict[bytes, list[Outcome]] = {}
    for model, outcome in records:
        by_model.setdefault(model, []).append(outcome)
    answers_of = {}
    for model, outcomes in by_model.items():
        answers = [outcome for outcome in outcomes if not outcome[2]]
        answers_of[model] = len(answers)
        if len(outcomes) == 1:
            continue
        of_model = repeats[model]
        if len(answers) == len(outcomes):
            of_model.without_errors[len(answers)].add(answers)
        else:
            of_model.records[len(outcomes)].add(outcomes)
            if len(answers) > 1:
                of_model.answers[len(answers)].add(answers)
    return answers_of


@lru_cache(maxsize=1 << 10)  # most scores are 0 or 1
def exact(score: float | str) -> int:
    """A score in units of 2**-1074."""
    if isinstance(score, float):
        numerator, denominator = score.as_integer_ratio()
        return numerator << (UNIT_BITS + 1 - denominator.bit_length())
    return from_portable(score) << UNIT_BITS


def means_of(totals: Totals, *repeats: Mapping[int, RepeatSums]) -> Means:
    """Compute the means of a model from sums over records, and over questions with several."""
    several = [item for by_count in repeats for item in by_count.items()]
    questions = totals.records - sum((count - 1) * sums.questions for count, sums in several)
    if not questions:
        return Means(0, None, None, None, None)
    # All sums of means are integers in units of 1 / common, and so are those of squared means in
    # units of its square.
    common = lcm(*(count for count, _ in several))
    correct = common * totals.correct
    correct_squared = common**2 * totals.correct
    score = common * totals.score
    score_squared = common**2 * totals.score_squared
    for count, sums in several:
        share = common // count
        correct += (share - common) * sums.correct
        correct_squared += share**2 * sums.correct_squared - common**2 * sums.correct
        score += (share - common) * sums.score
        score_squared += share**2 * sums.score_squared - common**2 * sums.squares
    return Means(
        questions,
        *_mean_and_error(correct, correct_squared, questions, common, 0),
        *_mean_and_error(score, score_squared, questions, common, UNIT_BITS),
    )


def _mean_and_error(
    total: int, squared: int, n: int, common: int, bits: int
) -> tuple[OptionalNumber, OptionalNumber]:
    """The mean of n values and its standard error; the sum is in units of 2**-bits / common."""
    mean = _quotient(total, n * common << bits)
    if n < 2:
        return mean, None
    # n times the sum of squared deviations. It is exact, so it is never negative. The root is an
    # integer too, because the variance of scores such as 1e-200 or 1e200 does not fit a double.
    spread = squared * n - total**2
    root = isqrt((spread << 2 * _ROOT_BITS) // (common**2 * n**2 * (n - 1)))
    return mean, _quotient(root, 1 << bits + _ROOT_BITS)


def _quotient(numerator: int, denominator: int) -> OptionalNumber:
    """Divide; None if it overflows a double.

    Python rounds correctly, however long the integers are.
    """
    try:
        return numerator / denominator
    except OverflowError:
        return None


_type_of = itemgetter(Column.INTERACTION_TYPE)
_version_of = itemgetter(Column.SCHEMA_VERSION)


class ModelTally(Sums):
    """Statistics of one model on one metric of an evaluation."""

    MERGES: ClassVar = {
        "notes": or_,
        "first": lambda mine, theirs: min(filter(None, (mine, theirs)), default=b""),
        "last": max,
    }
    records: int = 0
    correct: int = 0  # without an error
    errors: int = 0
    graded: int = 0  # answers with a score other than 0 and 1
    outside: int = 0  # answers with a score below 0 or above 1
    notes: int = 0  # what metadata say about the metric: bits of `Note` that some record has
    turns: int = 0
    tool_calls: int = 0
    with_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    score: int = 0  # sum of the scores of answers, in units of 2**-1074
    score_squared: int = 0  # sum of their squares, in units of 2**-2148
    error_score: int = 0  # the same of records with an error
    error_score_squared: int = 0
    latency: Counter[int] = NO_COUNTS  # records by latency bucket
    first: bytes = b""  # the lowest sample_id, encoded as in sort keys
    last: bytes = b""  # the highest sample_id

    def add_rows(self, sample_ids: Sequence[bytes], rows: Sequence[Sequence[Any]]) -> None:
        """Add records column by column, because a sum over a column runs in C."""
        columns = list(zip(*rows, strict=True))
        self.records += len(rows)
        correct: Iterable[bool] = columns[Column.CORRECT]
        scores: Sequence[Any] = columns[Column.SCORE]
        if errors := sum(columns[Column.ERROR]):
            self.errors += errors
            score, squared, _, _ = score_sums(list(compress(scores, columns[Column.ERROR])))
            self.error_score += score
            self.error_score_squared += squared
            answered = list(map(not_, columns[Column.ERROR]))
            correct = compress(correct, answered)
            scores = list(compress(scores, answered))
        self.correct += sum(correct)
        self.turns += sum(columns[Column.TURNS])
        self.tool_calls += sum(columns[Column.TOOL_CALLS])
        if known := list(filter(None, columns[Column.TOKENS])):
            self.with_tokens += len(known)
            of_input, of_output, in_total = map(_sum, zip(*known, strict=True))
            self.input_tokens += of_input
            self.output_tokens += of_output
            self.total_tokens += in_total
        score, squared, graded, outside = score_sums(scores)
        self.score += score
        self.score_squared += squared
        self.graded += graded
        self.outside += outside
        for notes in set(columns[Column.NOTES]):
            self.notes |= notes
        latencies = columns[Column.LATENCY]
        if latencies.count(None) < len(rows):
            self.latency.update(
                [bucket_of(from_portable(latency)) for latency in latencies if latency is not None]
            )
        lowest = min(sample_ids)
        self.first = min(self.first, lowest) if self.first else lowest
        self.last = max(self.last, *sample_ids)

    def answers(self) -> Totals:
        return Totals(self.records - self.errors, self.correct, self.score, self.score_squared)

    def with_errors(self) -> Totals:
        score = self.score + self.error_score
        squared = self.score_squared + self.error_score_squared
        return Totals(self.records, self.correct, score, squared)

    def latency_quantiles(self, shares: Sequence[float]) -> list[int | None]:
        """For each share of the records, the lowest bucket that it lies in or below."""
        total = self.latency.total()
        if not total:
            return [None] * len(shares)
        buckets = sorted(self.latency)
        ends = list(accumulate(map(self.latency.__getitem__, buckets)))
        return [buckets[bisect_left(ends, max(ceil(share * total), 1))] for share in shares]


_Records = tuple[list[bytes], list[Sequence[Any]]]  # sample_ids and rows


class Tally(Sums):
    # None stands for the usual type, and for the label of the corpus.
    interaction_types: Counter[str | None] = NO_COUNTS
    schema_versions: Counter[str | None] = NO_COUNTS
    # By scope (an evaluation with a metric, if it has one) and model_id, encoded as in sort
    # keys.
    models: dict[tuple[bytes, bytes], ModelTally] = empty_by_key(ModelTally)

    def add(self, keys: KeyColumns, rows: Sequence[Sequence[Any]]) -> None:
        groups = defaultdict[tuple[bytes, bytes], _Records](lambda: ([], []))
        names = zip(keys.scopes, keys.models, strict=True)
        for name, sample_id, row in zip(names, keys.sample_ids, rows, strict=True):
            group = groups[name]
            group[0].append(sample_id)
            group[1].append(row)
        for name, group in groups.items():
            self.models[name].add_rows(*group)
        self.interaction_types.update(map(_type_of, rows))
        self.schema_versions.update(map(_version_of, rows))

    def packed(self) -> list[Any]:
        """Encode the tally as plain lists that hold integers of any size."""
        models = [
            [to_portable(value) if value.__class__ is int else value for value in astuple(model)]
            for model in self.models.values()
        ]
        return [self.interaction_types, self.schema_versions, list(self.models), models]

    def add_packed(self, packed: list[Any]) -> None:
        types, versions, keys, models = packed
        self.interaction_types.update(types)
        self.schema_versions.update(versions)
        for (scope, model), packed_model in zip(keys, models, strict=True):
            values: list[Any] = [
                _unpacked(value) if value.__class__ is str else value for value in packed_model
            ]
            self.models[scope, model] += ModelTally(*values)


_unpacked = lru_cache(maxsize=1 << 12)(
    from_portable
)  # many models have the same sums, which are long


def _sum(column: Sequence[int | str]) -> int:
    """Add up all values; integers beyond 64 bits are text."""
    try:
        return sum(column)  # type: ignore[arg-type]
    except TypeError:
        return sum(map(from_portable, column))


def score_sums(scores: Sequence[Any]) -> tuple[int, int, int, int]:
    """The sums of scores and of their squares; how many are not 0 or 1, and how many beyond."""
    counts = Counter(scores)  # 1, 1.0 and true are equal here
    ones = counts.pop(1, 0)
    graded = len(scores) - ones - counts.pop(0, 0)
    total = squared = outside = 0
    if counts:
        # In units of the smallest step that occurs, because integers of 64 bits are added faster
        # than those of 1,074.
        numbers = [from_portable(score) for score in counts]
        outside = sum(
            [
                count
                for number, count in zip(numbers, counts.values(), strict=True)
                if not 0 < number < 1
            ]
        )
        ratios = [number.as_integer_ratio() for number in numbers]
        unit = max([denominator for _, denominator in ratios])  # all of them are powers of two
        steps = [numerator * (unit // denominator) for numerator, denominator in ratios]
        weighted = list(map(mul, steps, counts.values()))
        shift = UNIT_BITS + 1 - unit.bit_length()
        total = sum(weighted) << shift
        squared = sum(map(mul, steps, weighted)) << 2 * shift
    return total + (ones << UNIT_BITS), squared + (ones << 2 * UNIT_BITS), graded, outside
