"""Comparing a range of two corpora: match their records, and count what differs.

1. Number the models, questions and groups of the records. A *group* has records that agree in all fields to compare by.
   A group that only one corpus has is added or removed.
2. Pair the other records: first those with equal fingerprints, then those of the same run, then two that are left of
   their group. All others are repeats.
3. Read the lines of pairs whose fingerprints or sizes differ, and compare their fields.
4. Compare the mean of each question in OLD and in NEW. A record counts as 1 if its answer is right, else as 0; with a
   graded metric, it counts with its score. A question may have several records of a model, its repeats. Their mean
   counts, so every question has the same weight. A record with an error is no answer, unless errors count as wrong.

Means are sums of doubles. What tests need is exact: the differences of questions whose mean changed.

Memory holds the columns of the range, and few lines.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np

from fastrec.commands.diff.document import Flip
from fastrec.commands.diff.fields import OTHER_FIELDS, compare_lines, is_relabelled
from fastrec.commands.diff.records import Array, Bounds, Records
from fastrec.corpus.scan import VERIFY_HINT, PartFile, SplitHashes
from fastrec.engine.base import collector_off
from fastrec.errors import CorpusError, shown
from fastrec.limits import current_limits
from fastrec.sorting.keys import FIELDS, METRIC
from fastrec.summary.document import filled
from fastrec.summary.significance import to_double

Scope = tuple[str, str | None]  # an evaluation_name and one of its metrics; None for records that name no metric

ModelName = tuple[str, str | None, str]  # an evaluation_name, a metric and a model_id

MOST_SIZES: Final = 1_000  # of differences; the exact sign-flip test gives up far below
_MODEL: Final = ("evaluation_name", METRIC, "model_id")
_HASH: Final = ("evaluation_name", METRIC, "sample_hash")
_FEW: Final = 1 << 21  # combinations that are numbered without sorting


NUMBERS: Final = (
    "old_records",
    "new_records",
    "old_questions",
    "new_questions",
    "old_answered",
    "questions",  # that can be compared
    "repeated",  # those of them with several answers in a corpus
    "old_means",  # sums over the questions that can be compared
    "new_means",
    "fell",
    "rose",
    "gain",  # sum of the differences of their means
    "squares",  # of these differences
    "pairs",
    "changed",
    "relabelled",
    "added",
    "removed",
    "repeats_old",
    "repeats_new",
)
"""What is counted of a model on an evaluation and metric."""


class CompareTask(msgspec.Struct, frozen=True):
    old: Sequence[PartFile]
    new: Sequence[PartFile]
    bounds: Bounds
    bound_fields: tuple[str, ...]  # of the positions in bounds
    fields: tuple[str, ...]  # that identify a question of a model, beside its metric
    by: tuple[str, ...]
    scored: frozenset[Scope]  # what is compared by score; all else is compared by the share of right answers
    errors_as_wrong: bool
    split: SplitHashes  # hashes of which each `sample_id` is a question
    examples: int

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(part.path) for part in (*self.old, *self.new))}"


class Changes:
    """What differs in a range, or in all of them."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self.numbers: Counter[tuple[ModelName, str]] = Counter()
        """By model and name, which is one of `NUMBERS`."""
        self.differences: defaultdict[ModelName, Counter[Fraction]] = defaultdict(Counter)
        """Questions whose mean changed, by difference; not all if there are more than `MOST_SIZES` different ones."""
        self.fields: Counter[str] = Counter()
        self.text_bytes = 0  # of the lines that were read
        self.listed: defaultdict[Hashable, list[Any]] = defaultdict(list)
        """By kind of change, its first records. By model and whether they rose, the first flips."""

    def add(self, other: Changes) -> None:
        self.numbers.update(other.numbers)
        self.fields.update(other.fields)
        self.text_bytes += other.text_bytes
        for model, differences in other.differences.items():
            if len(self.differences[model]) <= MOST_SIZES:
                self.differences[model].update(differences)
        for kind, records in other.listed.items():
            self.list(kind, records)

    def list(self, kind: Hashable, records: Sequence[Any]) -> None:
        listed = self.listed[kind]
        listed += records[: self._examples - len(listed)]


@collector_off()
def compare_range(task: CompareTask) -> Changes:
    """Compare a range of two corpora. Runs in a worker."""
    comparison = _Comparison(task)
    comparison.compare_questions(comparison.match())
    return comparison.changes


class _Comparison:
    def __init__(self, task: CompareTask) -> None:
        self._task = task
        self._records = records = Records(task.old, task.new, task.bounds, task.bound_fields)
        self._sides = {"old": ~records.is_new, "new": records.is_new}
        codes = records.codes
        self._model = _numbered(*(codes[field] for field in _MODEL))
        self._models: list[ModelName] = records.names(self._model, _MODEL)
        question = [codes[METRIC], *(codes[field] for field in task.fields)]
        if task.split:
            hashes = _numbered(*(codes[field] for field in _HASH))
            is_split = np.array([name in task.split for name in records.names(hashes, _HASH)])
            question.append(np.where(is_split[hashes], codes["sample_id"] + 1, 0))
        self._question = _numbered(*question)
        self._group = _numbered(self._question, *(codes[field] for field in task.by))
        is_in = [np.bincount(self._group[side], minlength=_size(self._group)) > 0 for side in self._sides.values()]
        self._compared = (is_in[0] & is_in[1])[self._group]
        self.changes = Changes(task.examples)

    def _count(self, name: str, models: Array) -> None:
        """Count records or questions, given the codes of their models."""
        for model, number in enumerate(np.bincount(models).tolist()):
            if number:
                self.changes.numbers[self._models[model], name] += number

    def _list(self, kind: str, rows: Array) -> None:
        names = [self._records.name(row) for row in rows[: self._task.examples].tolist()]
        self.changes.list(kind, names)

    def match(self) -> Array:
        """Pair records, and compare the pairs; return which records are not equal to a counterpart."""
        records = self._records
        for kind, side in (("removed", "old"), ("added", "new")):
            alone = np.flatnonzero(self._sides[side] & ~self._compared)
            self._count(kind, self._model[alone])
            self._list(kind, alone)
        identity = _numbered(self._group, *(records.codes[field] for field in FIELDS))

        def exact(rows: Array) -> Array:
            _, fingerprints = np.unique(records.fingerprint[rows], return_inverse=True)
            return _numbered(identity[rows], fingerprints)

        left = self._compared.copy()
        found = []
        # Most identities have one record in each corpus. Of the others, equal records are paired first.
        for ids_of in (identity.__getitem__, exact, identity.__getitem__, self._group.__getitem__):
            rows = np.flatnonzero(left)
            found.append(rows[_pairs(ids_of(rows), records.is_new[rows])])
            left[found[-1]] = False
        pairs = np.concatenate(found)
        old, new = pairs.T
        self._count("pairs", self._model[new])
        differ = (records.fingerprint[old] != records.fingerprint[new]) | (records.bytes[old] != records.bytes[new])
        self._compare_pairs(pairs[differ])
        self.changes.text_bytes = int(records.bytes[pairs[differ]].sum())
        for side in self._sides:
            self._count(f"repeats_{side}", self._model[left & self._sides[side]])
        repeats = np.flatnonzero(left & ~records.is_new)
        _, first = np.unique(self._group[repeats], return_index=True)
        self._list("repeats", repeats[np.sort(first)])
        left[pairs[differ]] = True
        return left

    def _compare_pairs(self, pairs: Array) -> None:
        """Compare the lines of pairs."""
        most_fields = current_limits().diff_fields
        fields = self.changes.fields
        for row, before, after in self._lines(pairs[np.argsort(pairs[:, 0])]):
            try:
                paths = compare_lines(before, after)
                relabelled = is_relabelled(before, after, paths)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as exc:
                reason = f"or another part has a line that is not a record in normal form; {VERIFY_HINT}"
                raise CorpusError(self._task.new[0].path, reason) from exc
            if not paths:
                continue
            model = self._models[self._model[row]]
            self.changes.numbers[model, "changed"] += 1
            self.changes.numbers[model, "relabelled"] += relabelled
            for path in paths:
                known = path in fields or len(fields) < most_fields
                fields[path if known else OTHER_FIELDS] += 1
            self.changes.list("relabelled" if relabelled else "changed", [self._records.name(row, paths)])

    def _lines(self, pairs: Array) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the row of NEW and both lines of each pair, in the order of OLD.

        In NEW, only pairs of one question may have another order. Lines that come too early wait.
        """
        old, new = pairs.T
        lines = self._records.lines(np.sort(new))
        waiting: dict[int, bytes] = {}
        for row, (_, before) in zip(new.tolist(), self._records.lines(old), strict=True):
            while row not in waiting:
                waiting.update([next(lines)])
            yield row, before, waiting.pop(row)

    def compare_questions(self, differs: Array) -> None:
        """Count questions, add up their means, and find those that changed, given the records that differ."""
        records, question = self._records, self._question
        size = _size(question)
        model_of = np.zeros(size, dtype=np.int64)
        model_of[question] = self._model
        scored = np.array([model[:2] in self._task.scored for model in self._models], dtype=bool)[self._model]
        value = np.where(scored, records.score, records.correct & ~records.error)
        is_answer = ~records.error | self._task.errors_as_wrong
        counted = self._compared & is_answer
        answers, means = [], []
        for name, side in self._sides.items():
            self._count(f"{name}_records", self._model[side])
            for kind, rows in (("questions", side), ("answered", side & is_answer)):
                self._count(f"{name}_{kind}", model_of[np.bincount(question[rows], minlength=size) > 0])
            rows = counted & side
            answers.append(np.bincount(question[rows], minlength=size))
            totals = np.bincount(question[rows], weights=value[rows], minlength=size)
            means.append(totals / np.maximum(answers[-1], 1))
        both = (answers[0] > 0) & (answers[1] > 0)
        repeated = both & (answers[0] + answers[1] > 2)
        self._count("questions", model_of[both])
        self._count("repeated", model_of[repeated])
        by_model = np.argsort(model_of[both], kind="stable")
        ends = np.cumsum(np.bincount(model_of[both], minlength=len(self._models)))
        for name, column in zip(self._sides, means, strict=True):
            for model, values in zip(self._models, np.split(column[both][by_model], ends), strict=False):
                self.changes.numbers[model, f"{name}_means"] = _sum(values.tolist())
        may_differ = np.zeros(size, dtype=bool)
        may_differ[question[differs & counted]] = True
        if not records.has_exact_scores:
            may_differ &= repeated | (means[0] != means[1])
        self._find_flips(np.flatnonzero(counted & (both & may_differ)[question]), scored)

    def _find_flips(self, rows: Array, scored: Array) -> None:
        """Compare the means of questions exactly, given the rows of their answers."""
        records = self._records
        compared = np.flatnonzero(self._compared & records.is_new)[::-1]
        shown_rows = np.zeros(_size(self._question), dtype=np.int64)
        shown_rows[self._question[compared]] = compared  # the first one of each question is the last assigned
        questions: defaultdict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for row, shown_row in zip(rows.tolist(), shown_rows[self._question[rows]].tolist(), strict=True):
            value = records.exact_score(row) if scored[row] else bool(records.correct[row] and not records.error[row])
            questions[shown_row][int(records.is_new[row])].append(value)
        for row, values in sorted(questions.items()):
            was, now = (Fraction(sum(some)) / len(some) for some in values)
            difference = now - was
            if difference:
                model = self._models[self._model[row]]
                numbers = Counter({"fell": difference < 0, "rose": difference > 0})
                numbers.update(gain=difference, squares=difference**2)
                self.changes.numbers.update({(model, name): number for name, number in numbers.items()})
                self.changes.differences[model][difference] += 1
                flip = filled(Flip, records.name(row), old=to_double(was), new=to_double(now))
                self.changes.list((model, now > was), [flip])


def _numbered(*columns: Array) -> Array:
    """Number the distinct combinations of codes from 0 on."""
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for codes in columns:
        if size * _size(codes) >= 1 << 63:
            packed = _dense(packed, size)
            size = _size(packed)
        packed = packed * _size(codes) + codes
        size *= _size(codes)
    return _dense(packed, size)


def _dense(codes: Array, size: int) -> Array:
    if size < _FEW:
        is_used = np.bincount(codes, minlength=size) > 0
        return (np.cumsum(is_used) - 1)[codes]
    # With `return_index` the sort is stable, which is fast because both corpora are sorted.
    _, _, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return numbers


def _size(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1


def _pairs(ids: Array, is_new: Array) -> Array:
    """Pairs of places whose id one record of OLD and one of NEW have, and no other; those of OLD come first."""
    number = _size(ids)
    is_pair = (np.bincount(ids[~is_new], minlength=number) == 1) & (np.bincount(ids[is_new], minlength=number) == 1)
    paired = np.flatnonzero(is_pair[ids])
    return paired[np.argsort(ids[paired], kind="stable")].reshape(-1, 2)


def _sum(values: list[float]) -> float | Fraction:
    """The sum with twice the digits of a double, so that ranges do not matter; not a number if it overflows one."""
    try:
        total = math.fsum(values)
        return Fraction(total) + Fraction(math.fsum([*values, -total]))
    except (OverflowError, ValueError):
        return math.nan
