"""Comparing a range of two corpora: match their records, and count what differs.

1. Number the models, questions and groups of the records. A *group* has records that agree in all
   fields to compare by. A group that only one corpus has is added or removed.
2. Pair the other records: first those with equal fingerprints, then those of the same run, then two
   that are left of their group. All others are repeats.
3. Read the lines of pairs whose fingerprints or sizes differ, and compare their fields.
4. Compare the mean of each question in OLD and in NEW. A record counts as 1 if its answer is right,
   else as 0; with a graded metric, it counts with its score. A question may have several records of
   a model, its repeats. Their mean counts, so every question has the same weight. A record with an
   error is no answer, unless errors count as wrong.

Means are sums of doubles. What tests need is exact: the differences of questions whose mean
changed.

Memory holds the columns of the range, and few lines.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastrec.answers.codes import Array, distinct_of
from fastrec.commands.diff.document import Flip, Loss
from fastrec.commands.diff.fields import (
    OTHER_FIELDS,
    cause_of_loss,
    compare_records,
    is_relabelled,
    split_object,
)
from fastrec.commands.diff.records import CompareTask, ModelName, Records
from fastrec.corpus.scan import VERIFY_HINT
from fastrec.engine.base import collector_off
from fastrec.errors import CorpusError
from fastrec.limits import current_limits
from fastrec.schemas.view import REFUSALS
from fastrec.sorting.keys import FIELDS, METRIC
from fastrec.statistics.exact import to_double
from fastrec.summary.document import filled

_MODEL = ("evaluation_name", METRIC, "model_id")
_HASH = ("evaluation_name", METRIC, "sample_hash")


class Changes:
    """What differs in a range, or in all of them."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        # By model: its records, questions and answered questions in OLD and in NEW (`old_records`
        # …); all of `Counts`; the `questions` that can be compared, and the sums of their
        # means in OLD and in NEW. By the number of a cluster: the
        # sum of the differences of its questions.
        self.numbers: defaultdict[ModelName, Any] = defaultdict(Counter)
        # By model: how many questions have each difference of means, if that is not 0.
        self.differences: defaultdict[ModelName, Counter[Fraction]] = defaultdict(Counter)
        self.fields: Counter[str] = Counter()
        self.text_bytes = 0  # of the lines that were read
        # By kind of change, its first records. By model and whether they rose, the first flips.
        self.listed: defaultdict[Hashable, list[Any]] = defaultdict(list)

    def add(self, other: Changes) -> None:
        for model, numbers in other.numbers.items():
            self.numbers[model].update(numbers)
        self.fields.update(other.fields)
        self.text_bytes += other.text_bytes
        for model, differences in other.differences.items():
            self.differences[model].update(differences)
        for kind, records in other.listed.items():
            self.list(kind, records)

    def count_fields(self, paths: Sequence[str]) -> None:
        most = current_limits().diff_fields
        for path in paths:
            known = path in self.fields or len(self.fields) < most
            self.fields[path if known else OTHER_FIELDS] += 1

    def list(self, kind: Hashable, records: Sequence[Any]) -> None:
        listed = self.listed[kind]
        listed += records[: self._examples - len(listed)]

    def has_room(self, kind: Hashable) -> bool:
        return len(self.listed[kind]) < self._examples


@collector_off()
def compare_range(task: CompareTask) -> Changes:
    """Compare a range of two corpora. Runs in a worker."""
    comparison = _Comparison(task)
    comparison.compare_questions(comparison.match())
    return comparison.changes


class _Comparison:
    def __init__(self, task: CompareTask) -> None:
        self._task = task
        self._records = records = Records(task)
        codes = records.codes
        self._model = _numbered(*(codes[field] for field in _MODEL))
        self._models: list[ModelName] = records.names(self._model, _MODEL)
        question = [codes[METRIC], *(codes[field] for field in task.fields)]
        if task.split and "sample_id" not in task.fields:
            hashes = _numbered(*(codes[field] for field in _HASH))
            is_split = np.array([name in task.split for name in records.names(hashes, _HASH)])
            question.append(np.where(is_split[hashes], codes["sample_id"] + 1, 0))
        self._question = _numbered(*question)
        self._group = _numbered(self._question, *(codes[field] for field in task.by))
        in_both = np.all(_by_side(self._group, records.is_new), axis=1)
        self._compared: Array = in_both[self._group]
        self.changes = Changes(task.examples)
        old = np.flatnonzero(self._compared & ~records.is_new)
        # Of each question, if it can be compared.
        self._cluster = records.cluster[_first(self._question, old)]

    def _count(self, name: str, models: Array) -> None:
        """Count records or questions, given the codes of their models."""
        for model, number in enumerate(np.bincount(models).tolist()):
            self.changes.numbers[self._models[model]][name] += number

    def _list(self, kind: str, rows: Array) -> None:
        names = [self._records.name(row) for row in rows[: self._task.examples].tolist()]
        self.changes.list(kind, names)

    def match(self) -> Array:
        """Pair records, and compare the pairs.

        Return which records are not equal to a counterpart.
        """
        records = self._records
        is_new = self._records.is_new
        for kind, side in (("removed", ~is_new), ("added", is_new)):
            rows = np.flatnonzero(side & ~self._compared)
            self._count(kind, self._model[rows])
            self._list(kind, rows)
        identity = _numbered(self._group, *(records.codes[field] for field in FIELDS))
        _, fingerprint = np.unique(records.fingerprint, return_inverse=True)
        content = _numbered(identity, fingerprint)
        left = self._compared.copy()
        found = []
        for ids in (content, identity, self._group):
            rows = np.flatnonzero(left)
            pairs = rows[_pairs(ids[rows], is_new[rows])]
            left[pairs] = False
            found.append(pairs)
        pairs = np.concatenate(found)
        self._count("unchanged", self._model[pairs[:, 1]])
        self._count("repeats_old", self._model[left & ~is_new])
        self._count("repeats_new", self._model[left & is_new])
        repeats = np.flatnonzero(left & ~is_new)
        _, first = np.unique(self._group[repeats], return_index=True)
        self._list("repeats", repeats[np.sort(first)])
        marks = np.stack([records.fingerprint[pairs], records.bytes[pairs]])
        changed = pairs[(marks[..., 0] != marks[..., 1]).any(axis=0)]
        self._compare_pairs(changed[np.argsort(changed[:, 0])])
        left[changed] = True
        return left

    def _compare_pairs(self, pairs: Array) -> None:
        """Compare the lines of pairs, which have the order of OLD."""
        changes = self.changes
        records = self._records
        changes.text_bytes = int(records.bytes[pairs].sum())
        old, new = pairs.T
        new_lines = records.lines(np.sort(new))
        waiting: dict[
            int, bytes
        ] = {}  # lines of NEW; only those of one question may have another order than in OLD
        is_right = records.correct & ~records.error
        is_lost = (is_right[old] & ~is_right[new]).tolist()
        lines = zip(new.tolist(), is_lost, records.lines(old), strict=True)
        for row, lost, (_, before) in lines:
            while row not in waiting:
                waiting.update([next(new_lines)])
            after = waiting.pop(row)
            try:
                was, now = map(split_object, (before, after))
                paths = compare_records(was, now)
                relabelled = is_relabelled(was, now, paths)
                cause = cause_of_loss(before, after) if lost else None
            except (*REFUSALS, KeyError) as exc:
                reason = (
                    f"or another part has a line that is not a record in normal form; {VERIFY_HINT}"
                )
                raise CorpusError(self._task.new[0].path, reason) from exc
            model = self._models[self._model[row]]
            if cause:
                changes.numbers[model][cause] += 1
                if changes.has_room((model, "lost")):
                    changes.list((model, "lost"), [filled(Loss, records.name(row), cause=cause)])
            if paths:
                changes.numbers[model].update(unchanged=-1, changed=1, relabelled=relabelled)
                changes.count_fields(paths)
                kind = "relabelled" if relabelled else "changed"
                if changes.has_room(kind):
                    changes.list(kind, [records.name(row, paths)])

    def compare_questions(self, differs: Array) -> None:
        """Count questions, add up their means, and find those whose mean changed.

        `differs` says which records are not equal to a counterpart.
        """
        records = self._records
        question = self._question
        is_new = self._records.is_new
        model_of = np.zeros(_size(question), dtype=np.int64)
        model_of[question] = self._model
        is_scored = np.array(
            [model[:2] in self._task.scored for model in self._models], dtype=bool
        )[self._model]
        value = np.where(is_scored, records.score, records.correct & ~records.error)
        is_answer = ~records.error | self._task.errors_as_wrong
        counted = self._compared & is_answer
        answers = _by_side(question, is_new, counted).astype(np.int64)
        means = _by_side(question, is_new, np.where(counted, value, 0)) / np.maximum(answers, 1)
        both = np.all(answers, axis=1)
        repeated = both & (answers.sum(axis=1) > 2)
        self._count("questions", model_of[both])
        compared = np.flatnonzero(both)
        first, _ = distinct_of(model_of[compared], self._cluster[compared])
        for number in compared[first].tolist():
            model = self._models[model_of[number]]
            self.changes.numbers[model][int(self._cluster[number])] = 0
        all_records = _by_side(question, is_new)
        all_answers = _by_side(question, is_new, is_answer)
        for side, name in enumerate(("old", "new")):
            self._count(f"{name}_records", self._model[is_new == side])
            self._count(f"{name}_questions", model_of[all_records[:, side] > 0])
            self._count(f"{name}_answered", model_of[all_answers[:, side] > 0])
            rows = np.flatnonzero(counted & both[question] & (is_new == side))
            self._add_means(name, rows, answers[question[rows], side], value[rows])
        may_differ = both & np.any(_by_side(question, is_new, differs & counted), axis=1)
        if not records.exact_scores:
            may_differ &= repeated | (means[:, 0] != means[:, 1])
        self._find_flips(np.flatnonzero(counted & may_differ[question]), value, is_scored)

    def _add_means(self, side: str, rows: Array, answers: Array, values: Array) -> None:
        """Add up the means of questions, given their records.

        `answers` has how many answers the question of each record has.

        The values of questions with equally many answers are added up first, so nothing is rounded.
        """
        pieces = _numbered(self._model[rows], answers)
        order = np.argsort(pieces, kind="stable")
        cuts = np.flatnonzero(np.diff(pieces[order])) + 1
        for places in np.split(order, cuts):
            if len(places):
                model = self._models[self._model[rows[places[0]]]]
                mean = _sum(values[places].tolist()) / int(answers[places[0]])
                self.changes.numbers[model][f"{side}_means"] += mean

    def _find_flips(self, rows: Array, value: Array, is_scored: Array) -> None:
        """Compare the means of questions exactly, given the rows of their answers."""
        records = self._records
        # Of each question, the first group that was compared is shown, by its first record in NEW.
        old, new = (np.flatnonzero(self._compared & (records.is_new == side)) for side in (0, 1))
        first_groups = self._group[_first(self._question, old)]
        shown_rows = _first(self._group, new)[first_groups]
        questions: defaultdict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for row in rows.tolist():
            exact = records.exact_scores.get(row) if is_scored[row] else None
            sides = questions[int(shown_rows[self._question[row]])]
            sides[int(records.is_new[row])].append(
                _spelled(float(value[row])) if exact is None else exact
            )
        for row, sides in sorted(questions.items()):
            was, now = (Fraction(sum(values)) / len(values) for values in sides)
            if was == now:
                continue
            model = self._models[self._model[row]]
            self.changes.differences[model][now - was] += 1
            cluster = int(self._cluster[self._question[row]])
            self.changes.numbers[model][cluster] += now - was
            kind = (model, now > was)
            if self.changes.has_room(kind):
                self.changes.list(
                    kind, [filled(Flip, records.name(row), old=to_double(was), new=to_double(now))]
                )


def _numbered(*columns: Array) -> Array:
    """Number the distinct combinations of codes from 0 on."""
    return distinct_of(*columns).place


def _size(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1


def _first(ids: Array, rows: Array) -> Array:
    """The first of some sorted rows for each id; 0 if there is none."""
    first = np.zeros(_size(ids), dtype=np.int64)
    first[ids[rows[::-1]]] = rows[::-1]
    return first


def _by_side(ids: Array, is_new: Array, weights: Array | None = None) -> Array:
    """Count or add up by id: a column for OLD, and one for NEW."""
    return np.bincount(2 * ids + is_new, weights, 2 * _size(ids)).reshape(-1, 2)


def _pairs(ids: Array, is_new: Array) -> Array:
    """Pairs of places whose id one record of OLD and one of NEW have, and no other.

    Those of OLD come first.
    """
    is_pair = (_by_side(ids, is_new) == 1).all(axis=1)
    places = np.flatnonzero(is_pair[ids])
    return places[np.argsort(ids[places], kind="stable")].reshape(-1, 2)


def _sum(values: list[float]) -> float | Fraction:
    """The sum with twice the digits of a double, so that ranges do not matter.

    Not a number if it overflows one.
    """
    try:
        total = math.fsum(values)
        return Fraction(total) + Fraction(math.fsum([*values, -total]))
    except (OverflowError, ValueError):
        return math.nan


@lru_cache(maxsize=4_096)
def _spelled(value: float) -> Fraction:
    """A score as it is spelled: 0.1 is a tenth, not the double next to it.

    So the mean of 0.1 and 0.2 is that of 0 and 0.3, and equal steps have equal sizes.
    """
    return Fraction(value) if value.is_integer() else Fraction(repr(value))
