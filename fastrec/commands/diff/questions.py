"""Comparing question by question: the mean of each question in OLD and in NEW.

A record counts as 1 if its answer is right, else as 0; with a graded metric, it counts with its score. A question may
have several records of a model, its *repeats*. Their mean counts, so every question has the same weight. A record with
an error is no answer, unless errors count as wrong.

    merge       reads the questions that differ ──▶ how many questions have which answers (`Outcome`)
    Read        adds them up: scores may be different in every question
    summaries   all questions of a model (`Totals`)
    all - read  the questions that were not read: they are the same in both corpora, and both must give the same numbers

Two records are compared by their lines. The normal form makes this fast: equal values have equal bytes at every level,
and known keys have one order. So the text that two lines share up to the answer is skipped, and the rest is split into
the values of its keys. Only values that differ are split further. Numbers and strings are compared as they are spelled.

    {"schema_version":… | ,"evaluation_id":… | ,"model_id":…,"input":… | ,"output":…,"answer_attribution":[…],…}
     compared             left out             compared                  split
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from fastrec.commands.diff.document import RecordName
from fastrec.corpus.scan import key_mark, read_head
from fastrec.judge.findings import json_path
from fastrec.judge.parse import parse
from fastrec.statistics.exact import exact_mean
from fastrec.statistics.paired import Differences
from fastrec.summary.document import ErrorsAsWrong, ModelSummary, filled, json_safe

Value = bool | Fraction | None
"""What a record adds to the mean of its question: whether it is right, or its score; None if it is no answer."""

Rate = Callable[[Raw, bool], Value]
"""From the `evaluation` of a record, and whether the record has an error, to its value."""

_RUN, _MODEL, _OUTPUT, _TAIL = map(key_mark, ("evaluation_id", "model_id", "output", "answer_attribution"))

Scope = tuple[str, str | None]  # an evaluation_name and one of its metrics; None for records that name no metric

ModelName = tuple[str, str | None, str]  # an evaluation_name, a metric and a model_id

OTHER_FIELDS: Final = "(other fields)"
_ROUNDING = Fraction(1, 10**12)  # of a mean
_MOST_DENOMINATORS = 4_096
_NO_ERROR = Raw(b"null")
_NO_ERRORS = (_NO_ERROR, Raw(b'""'))

_Object = dict[str, Raw]
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


class _Evaluation(msgspec.Struct):
    score: Raw
    is_correct: bool


class _Record(msgspec.Struct):
    evaluation: Raw
    error: str | None = None


class _Labelled(msgspec.Struct):
    metadata: dict[str, Raw] = {}


_VERDICT: Final = frozenset({"$.evaluation.score", "$.evaluation.is_correct"})
_LABEL: Final = ("original_score", "original_is_correct", "label_by", "label_at", "label_reason")
_decode_labelled = msgspec.json.Decoder(_Labelled).decode
_decode_record = msgspec.json.Decoder(_Record).decode
_decode_evaluation = msgspec.json.Decoder(_Evaluation).decode


def rate_maker(*, scored: bool, errors_as_wrong: bool) -> Rate:
    """Make the function that reads the value of a record.

    With `errors_as_wrong`, a record with an error is an answer: a wrong one, or with the score that it has.
    """
    if scored:
        return lambda evaluation, failed: (
            None if failed and not errors_as_wrong else _score_of(bytes(_decode_evaluation(evaluation).score))
        )
    of_failed = False if errors_as_wrong else None
    return lambda evaluation, failed: of_failed if failed else _decode_evaluation(evaluation).is_correct


@lru_cache(maxsize=4_096)
def _score_of(spelled: bytes) -> Fraction:
    """Read a score exactly as it is spelled: 0.1 is a tenth, not the double next to it.

    So the mean of 0.1 and 0.2 is that of 0 and 0.3, and equal steps have equal sizes.
    """
    if spelled in {b"true", b"false"}:
        return Fraction(spelled == b"true")
    try:
        return Fraction(spelled.decode())
    except ValueError:  # more digits than Python converts by default
        return Fraction(parse(spelled)[0])


def value_of(line: bytes, rate: Rate) -> Value:
    record = _decode_record(line)
    return rate(record.evaluation, bool(record.error))


def compare_lines(old: bytes, new: bytes, rate: Rate) -> tuple[list[str], Value, Value]:
    """Compare two records in normal form, each without its newline.

    Returns the paths that differ, each once, without `evaluation_id`, and the values of both. If there are no such
    paths, the values are not looked up.
    """
    found: dict[str, None] = {}
    if not new.startswith(old[: old.find(_RUN) + len(_RUN)]):
        found["$.schema_version"] = None
    start, other = old.find(_MODEL), new.find(_MODEL)
    for cut in (old.rfind(_TAIL), old.find(_OUTPUT, start)):
        if cut > start and new.startswith(old[start:cut], other):
            start, other = cut, other + cut - start
            break
    try:
        before, after = _decode_object(b"{" + old[start + 1 :]), _decode_object(b"{" + new[other + 1 :])
    except msgspec.MsgspecError:
        # Quotes inside a string are escaped, so a key cannot occur there. But a nested object may have the same key.
        # Then the text from there on has a closing bracket too many.
        before, after = _decode_object(old), _decode_object(new)
        del before["evaluation_id"], after["evaluation_id"]
    _compare_objects(before, after, "$", found)
    return (list(found), _value(before, rate), _value(after, rate)) if found else ([], None, None)


def is_relabelled(old: bytes, new: bytes, paths: Sequence[str]) -> bool:
    """Whether a label changed the verdict: it is another one, and only NEW has this label in its metadata."""
    if _VERDICT.isdisjoint(paths):
        return False
    was, now = (_decode_labelled(line).metadata for line in (old, new))
    return any(name in now and now[name] != was.get(name) for name in _LABEL)


def _value(record: _Object, rate: Rate) -> Value:
    """The value of a record, of which the fields from `answer_attribution` on are enough."""
    return rate(record["evaluation"], record.get("error", _NO_ERROR) not in _NO_ERRORS)


def _compare_objects(old: _Object, new: _Object, path: str, found: dict[str, None]) -> None:
    for key, value in old.items():
        other = new.get(key)
        if other != value:
            if other is None:
                found[_step(path, key)] = None
            else:
                _compare_values(bytes(value), bytes(other), _step(path, key), found)
    if not new.keys() <= old.keys():
        found.update([(_step(path, key), None) for key in new if key not in old])


def _compare_values(old: bytes, new: bytes, path: str, found: dict[str, None]) -> None:
    """Find what differs in two unequal values; lists of different lengths differ as a whole."""
    kind = old[:1]
    if kind == b"{" == new[:1]:
        _compare_objects(_decode_object(old), _decode_object(new), path, found)
        return
    if kind == b"[" == new[:1]:
        items, others = _decode_array(old), _decode_array(new)
        if len(items) == len(others):
            for item, other in zip(items, others, strict=True):
                if item != other:
                    _compare_values(bytes(item), bytes(other), f"{path}[*]", found)
            return
    found[path] = None


@lru_cache(maxsize=1_024)
def _step(path: str, key: str) -> str:
    return path + json_path((key,))[1:]


class MismatchError(Exception):
    """The records that were read and the summaries of the two corpora do not add up."""


class Answers(NamedTuple):
    """The records of one model for one question in one corpus."""

    records: int
    answers: int
    total: int | Fraction  # the number of right answers, or the sum of scores

    def mean(self) -> Fraction:
        if self.answers == 1 and isinstance(self.total, Fraction):
            return self.total
        return Fraction(self.total) / self.answers


class Outcome(NamedTuple):
    """The answers of one model to one question."""

    old: Answers
    new: Answers
    old_compared: Answers  # without records that have no counterpart in NEW
    new_compared: Answers  # without records that have no counterpart in OLD


def count_answers(values: Sequence[Value]) -> Answers:
    answers = [value for value in values if value is not None]
    return Answers(len(values), len(answers), sum(answers))


class Totals(msgspec.Struct):
    """Some or all records of a model on an evaluation and metric in one corpus."""

    records: int = 0
    answers: int = 0
    correct: int | None = 0  # right answers; None if scores are compared
    questions: int = 0
    answered: int = 0  # questions with at least one answer
    means: Fraction | None = Fraction()
    """Sum of the means of these questions; None if the summary has no mean, because it overflows a double."""

    @classmethod
    def of_summary(cls, model: ModelSummary | None, *, errors_as_wrong: bool, scored: bool) -> Totals:
        """Take the numbers from a summary; None is a model without records."""
        if model is None:
            return cls(correct=None if scored else 0)
        means: ModelSummary | ErrorsAsWrong = model
        answers, answered = model.answers, model.questions_answered
        if errors_as_wrong:
            means, answers, answered = model.errors_as_wrong, model.records, model.questions
        if scored:
            mean = means.mean_score if answered else 0.0
            total = None if mean is None else exact_mean(mean) * answered
            return cls(model.records, answers, None, model.questions, answered, total)
        # An accuracy is rounded. Without repeats, the number of right answers is exact.
        right = exact_mean(means.accuracy or 0.0) * answered if answers > answered else Fraction(model.correct)
        return cls(model.records, answers, model.correct, model.questions, answered, right)

    def count(self, each: Answers, number: int) -> None:
        """Count a number of questions with these answers; their means are not added."""
        self.records += number * each.records
        self.answers += number * each.answers
        self.questions += number * bool(each.records)
        self.answered += number * bool(each.answers)
        if self.correct is not None:
            self.correct += number * int(each.total)

    def plus(self, other: Totals, sign: int = 1) -> Totals:
        """Add, or with sign -1 subtract; what one of the two does not know is None."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)
        sums: dict[str, Any] = {name: None if None in (a, b) else a + sign * b for name, a, b in pairs}
        return Totals(**sums)


class ExactSum:
    """A sum of fractions. It adds up numerators by denominator, which is many times as fast as adding fractions."""

    def __init__(self) -> None:
        self._numerators: dict[int, int] = {}

    def add(self, numerator: int, denominator: int) -> None:
        self._numerators[denominator] = self._numerators.get(denominator, 0) + numerator
        if len(self._numerators) > _MOST_DENOMINATORS:
            total = self.total()
            self._numerators = {total.denominator: total.numerator}

    def merge(self, other: ExactSum) -> None:
        for denominator, numerator in other._numerators.items():
            self.add(numerator, denominator)

    def total(self) -> Fraction:
        return sum((Fraction(number, base) for base, number in self._numerators.items()), Fraction())


class Read:
    """The questions of a model on an evaluation and metric that were read."""

    def __init__(self, *, scored: bool) -> None:
        self.scored = scored
        self._counts = [Totals(correct=None if scored else 0) for _ in Outcome._fields]
        self._means = [ExactSum() for _ in Outcome._fields]
        self.size = ExactSum()  # of the absolute values of all means, which bounds what rounding may amount to
        self.gain, self.squares = ExactSum(), ExactSum()
        self.smallest = self.largest = Fraction()  # of the sizes of differences; 0 without one
        self.fell = self.rose = 0  # compared questions whose mean fell or rose

    def add(self, outcome: Outcome, number: int = 1) -> None:
        old, new = (answers.mean() if answers.answers else None for answers in outcome[:2])
        for side, mean in enumerate((old, new)):
            self._counts[side].count(outcome[side], number)
            if mean is not None:
                self._means[side].add(number * mean.numerator, mean.denominator)
                self.size.add(number * abs(mean.numerator), mean.denominator)
        if not (outcome.old_compared.answers and outcome.new_compared.answers):
            return
        was = old if outcome.old_compared is outcome.old and old is not None else outcome.old_compared.mean()
        now = new if outcome.new_compared is outcome.new and new is not None else outcome.new_compared.mean()
        for side, mean in ((2, was), (3, now)):
            self._counts[side].count(outcome[side], number)
            self._means[side].add(number * mean.numerator, mean.denominator)
        if was == now:
            return
        difference = now - was
        numerator, denominator = difference.numerator, difference.denominator
        self.fell += number * (numerator < 0)
        self.rose += number * (numerator > 0)
        self.gain.add(number * numerator, denominator)
        self.squares.add(number * numerator**2, denominator**2)
        self._add_sizes(abs(difference), abs(difference))

    def merge(self, other: Read) -> None:
        self._counts = list(map(Totals.plus, self._counts, other._counts))
        for ours, theirs in zip(self._sums(), other._sums(), strict=True):
            ours.merge(theirs)
        self.fell, self.rose = self.fell + other.fell, self.rose + other.rose
        if other.largest:
            self._add_sizes(other.smallest, other.largest)

    def _add_sizes(self, smallest: Fraction, largest: Fraction) -> None:
        self.smallest = min(self.smallest or smallest, smallest)
        self.largest = max(self.largest, largest)

    def differences(self, questions: int) -> Differences:
        """The differences of so many compared questions; those that were not read have none."""
        gain, squares = self.gain.total(), self.squares.total()
        return Differences(questions, self.rose, self.fell, gain, squares, self.smallest, self.largest)

    def _sums(self) -> list[ExactSum]:
        return [*self._means, self.size, self.gain, self.squares]

    def totals(self) -> list[Totals]:
        """The totals in the order of `Outcome`; the last two have only questions that can be compared."""
        pairs = zip(self._counts, self._means, strict=True)
        return [msgspec.structs.replace(counts, means=means.total()) for counts, means in pairs]


class Compared(NamedTuple):
    """All questions of a model on an evaluation and metric, and those that could be compared."""

    old: Totals
    new: Totals
    old_compared: Totals
    new_compared: Totals


def compare_questions(totals: tuple[Totals, ...], read: Read, *, all_read: bool) -> Compared:
    """Combine the questions that were read with those that are the same in both corpora.

    `totals` are those of OLD and NEW. With `all_read`, every question was read, and the summaries only say how many
    records there must be.
    """
    old, new = totals
    old_read, new_read, was, now = read.totals()
    if all_read:
        if (old_read.records, new_read.records) != (old.records, new.records):
            raise MismatchError
        same = Totals(correct=None if read.scored else 0)
        old, new = old_read, new_read
    else:
        same, other = old.plus(old_read, -1), new.plus(new_read, -1)
        counts = [msgspec.structs.astuple(side)[:-1] for side in (same, other)]
        if counts[0] != counts[1] or min(filter(None, counts[0]), default=0) < 0:
            raise MismatchError
        if same.means is not None and other.means is not None:
            size = 1 + read.size.total() + sum(abs(side.means) for side in totals if side.means)
            if abs(same.means - other.means) > _ROUNDING * size:
                raise MismatchError
        if same.correct is not None and same.answers == same.answered:  # no repeats are left, so the sum is exact
            same.means = Fraction(same.correct)
    return Compared(old, new, same.plus(was), same.plus(now))


class Changes(msgspec.Struct):
    """The result of a task; unchanged pairs are not counted."""

    scored: frozenset[Scope]
    counts: dict[ModelName, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By model: all of `Counts` except `unchanged`."""
    read: dict[ModelName, Read] = msgspec.field(default_factory=dict)
    """By model, the questions that were read; questions without a difference may be left out."""
    outcomes: dict[ModelName, Counter[Outcome]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By model, questions that are not in `read` yet, by their answers."""
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str | tuple[str | None, ...], list[Any]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """By kind of change, its first records. By model and direction, the first flips."""

    def count(self, model: ModelName, outcome: Outcome) -> None:
        """Count a question. Scores may differ in every question, so only outcomes without scores are held."""
        if model[:2] in self.scored:
            self.read_of(model).add(outcome)
        else:
            self.outcomes[model][outcome] += 1

    def finish(self) -> None:
        for model, outcomes in self.outcomes.items():
            read = self.read_of(model)
            for outcome, number in outcomes.items():
                read.add(outcome, number)
        self.outcomes.clear()

    def read_of(self, model: ModelName) -> Read:
        if model not in self.read:
            self.read[model] = Read(scored=model[:2] in self.scored)
        return self.read[model]

    def add(self, other: Changes, examples: int) -> None:
        for model, counts in other.counts.items():
            self.counts[model].update(counts)
        for model, read in other.read.items():
            self.read_of(model).merge(read)
        self.fields.update(other.fields)
        for kind, records in other.examples.items():
            self.examples[kind] += records[: examples - len(self.examples[kind])]


def name_of(line: bytes, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
    head = read_head(line)
    sample_id = json_safe(head.decoded_sample_id())
    return filled(RecordName, head, metric=head.metric(), sample_id=sample_id, fields=fields)
