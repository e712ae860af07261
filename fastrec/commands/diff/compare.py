"""Comparing a range of two corpora: match their records, and count what differs.

1. Number the models, questions and groups of the records. A *group* has records that agree in all
   fields to compare by. A group that only one corpus has is added or removed.
2. Pair the other records: two that are alone in their group, one of each corpus. In groups with
   more records, first those with equal fingerprints, then those of the same run, then two that are
   left of their group. All others are repeats.
3. Compare the mean of each question in OLD and in NEW. A record counts as 1 if its answer is right,
   else as 0; with a graded metric, it counts with its score. A question may have several records of
   a model, its repeats. Their mean counts, so every question has the same weight. A record with an
   error is no answer, unless errors count as wrong.
4. Have the lines of pairs whose fingerprints or sizes differ compared (`fields`), and count what
   they say.

Means are sums of doubles. What tests need is exact: the differences of questions whose mean
changed.

Memory holds the columns of a few ranges, and few lines.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import fsum, inf, nan
from typing import Any

import numpy as np
from msgspec import Struct

from fastrec.answers.codes import (
    Array,
    CodedColumn,
    Distinct,
    by_code,
    distinct_of,
    is_there,
    look_up,
    ranks_of,
)
from fastrec.answers.selection import Selection
from fastrec.commands.diff.document import Flip, Loss, RecordName
from fastrec.commands.diff.fields import LineChange, LinesTask, PartLines
from fastrec.corpus.columns import new_codes
from fastrec.corpus.part_records import KEY_COLUMNS
from fastrec.corpus.scan import SplitHashes
from fastrec.parameters import Names
from fastrec.sorting.keys import FIELDS, METRIC
from fastrec.statistics.exact import to_double
from fastrec.summary.document import ModelName, filled, json_safe
from fastrec.where import ScopeName

# An evaluation_name and one of its metrics; None for records that name no metric.

_MODEL = ("evaluation_name", METRIC, "model_id")
_HASH = ("evaluation_name", METRIC, "sample_hash")


class Records:
    """Some records of both corpora, given by number: their columns, as codes common to both.

    Rows are numbers of records: first those of OLD, then those of NEW, each in the order of the
    lines.

        field        OLD            NEW
        model_id     0 0 1 1 2 2    0 0 2 2 3        one code for each value
        bytes        …              …                the sizes of lines tell where they are
    """

    def __init__(self, old: Selection, new: Selection, numbers: Sequence[Array]) -> None:
        self._corpora = old, new
        self._numbers = numbers
        sizes = list(map(len, numbers))
        self._old_rows = sizes[0]
        self.is_new = np.repeat([False, True], sizes)
        self._columns: dict[str, CodedColumn] = {}
        self.error = self._gather("error") > 0
        self.is_right = (self._gather("correct") > 0) & ~self.error
        self.score = self._gather("score")
        self.bytes = self._gather("bytes")
        self.fingerprint = self._gather("fingerprint")
        # By row, the scores that a double cannot hold.
        self.exact_scores = old.exact("score", numbers[0])
        for place, score in new.exact("score", numbers[1]).items():
            self.exact_scores[self._old_rows + place] = score
        for row, score in self.exact_scores.items():
            if abs(score) > sys.float_info.max:
                self.score[row] *= inf

    def _sides(self) -> Iterator[tuple[Selection, Array]]:
        return zip(self._corpora, self._numbers, strict=True)

    def _gather(self, column: str) -> Array:
        return np.concatenate([side.gather(column, own) for side, own in self._sides()])

    def column(self, field: str) -> CodedColumn:
        """A field of the sort key."""
        if field not in self._columns:
            values = new_codes()
            sides = [side.codes(KEY_COLUMNS[field], own) for side, own in self._sides()]
            codes = np.concatenate([look_up(values, known)[codes] for codes, known in sides])
            self._columns[field] = CodedColumn(codes, list(values))
        return self._columns[field]

    def clusters(self, rows: Array) -> Array:
        """The clusters of the questions of some records of OLD; 0 if questions have none."""
        clusters = self._corpora[0].clusters
        return np.zeros_like(rows) if clusters is None else clusters[self._numbers[0][rows]]

    def number(self, *fields: str) -> Distinct:
        """Number the distinct values of some fields from 0 on."""
        return distinct_of(*(self.column(field).codes for field in fields))

    def numbered_lines(self, rows: Array) -> Array:
        """Number the distinct lines of some records."""
        return np.unique(self.fingerprint[rows], return_inverse=True)[1]

    def numbered_keys(self, rows: Array) -> Array:
        """Number the distinct sort keys of some records, without their metrics."""
        return self.number(*FIELDS).place[rows]

    def names(self, rows: Array, fields: Sequence[str]) -> list[Any]:
        """The values of some fields in some records."""
        columns = [
            [values[code] for code in codes[rows].tolist()]
            for codes, values in map(self.column, fields)
        ]
        return list(zip(*columns, strict=True))

    def name(self, row: int) -> RecordName:
        key = {field: self.column(field).value(row) for field in KEY_COLUMNS}
        key["sample_id"] = json_safe(key["sample_id"])
        return RecordName(metric=key.pop(METRIC), **key)

    def lines(self, corpus: int, rows: Array) -> list[PartLines]:
        """Where to read the lines of some records of OLD (0) or NEW (1), which are in order."""
        selection = self._corpora[corpus]
        numbers = self._numbers[corpus][rows - corpus * self._old_rows]
        return [
            PartLines(selection.parts[part], positions)
            for part, positions in selection.by_part(numbers)
        ]


class Rules(Struct, frozen=True):
    """How records are matched, and what counts."""

    question: Names  # the fields that identify a question of a model, beside its metric
    by: Names
    # What is compared by score; all else is compared by the share of right answers.
    scored: frozenset[ScopeName]
    errors_as_wrong: bool
    split: SplitHashes  # hashes of which each `sample_id` is a question
    examples: int


class Changes:
    """What differs in all ranges so far."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        # By model: its records, questions and answered questions in OLD and in NEW (`old_records`
        # …); all of `Counts`; the `questions` that can be compared, and the sums of their means in
        # OLD and in NEW.
        self.numbers = defaultdict[ModelName, Any](Counter)
        # By model and cluster: the sum of the differences of its questions.
        self.clusters = defaultdict[ModelName, Any](Counter)
        # By model: how many questions have each difference of means, if that is not 0.
        self.differences = defaultdict[ModelName, Counter[Fraction]](Counter)
        self.fields = Counter[str]()
        # By kind of change, its first records. By model and whether they rose, the first flips.
        self.listed = defaultdict[Hashable, list[Any]](list)

    def room(self, kind: Hashable) -> int:
        """How many more examples of a kind to list."""
        return self._examples - len(self.listed[kind])


class Comparison:
    """The records of a range, whose differences are added to all changes."""

    def __init__(self, records: Records, rules: Rules, changes: Changes) -> None:
        self._records = records
        self._rules = rules
        self._changes = changes
        models = records.number(*_MODEL)
        self._model = models.place
        self._models: list[ModelName] = records.names(models.first, _MODEL)
        self._counts = [changes.numbers[name] for name in self._models]
        questions = self._refined(models, rules.question)
        if rules.split and "sample_id" not in rules.question:
            hashes = records.number(*_HASH)
            names = records.names(hashes.first, _HASH)
            is_split = np.array([name in rules.split for name in names])[hashes.place]
            sample_id = np.where(is_split, records.column("sample_id").codes + 1, 0)
            questions = distinct_of(questions.place, sample_id)
        self._question = questions.place
        self._model_of: Array = self._model[questions.first]  # by question
        more = [field for field in rules.by if field not in rules.question]
        self._group = self._refined(questions, more).place
        in_both = np.all(_by_side(self._group, records.is_new), axis=0)
        self._compared: Array = in_both[self._group]
        old = np.flatnonzero(self._compared & ~records.is_new)
        # Of each question, if it can be compared.
        self._cluster = records.clusters(_first(self._question, old))
        self._changed, unequal = self._match()
        self._compare_questions(unequal)

    def _refined(self, known: Distinct, fields: Sequence[str]) -> Distinct:
        """Find the distinct combinations of what is known with the values of further fields."""
        others = [self._records.column(field).codes for field in fields if field not in _MODEL]
        return distinct_of(*others, known.place)

    def _count(self, name: str, models: Array) -> None:
        """Count records or questions, given the codes of their models."""
        for counts, number in zip(self._counts, np.bincount(models).tolist(), strict=False):
            counts[name] += number

    def _list(self, kind: str, rows: Array) -> None:
        first = rows[: self._changes.room(kind)].tolist()
        self._changes.listed[kind] += map(self._records.name, first)

    def _match(self) -> tuple[Array, Array]:
        """Pair records.

        Return the pairs whose lines differ, and which records are not equal to a counterpart.
        """
        records = self._records
        is_new = records.is_new
        for kind, side in (("removed", ~is_new), ("added", is_new)):
            rows = np.flatnonzero(side & ~self._compared)
            self._count(kind, self._model[rows])
            self._list(kind, rows)
        left = self._compared.copy()
        matched = []
        for number in (None, records.numbered_lines, records.numbered_keys, None):
            rows = np.flatnonzero(left)
            if not len(rows):
                break
            ids = self._group[rows]
            if number:
                ids = distinct_of(ids, number(rows)).place
            pairs = rows[_pairs(ids, is_new[rows])]
            left[pairs] = False
            matched.append(pairs)
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *matched])
        self._count("unchanged", self._model[pairs[:, 1]])
        self._count("repeats_old", self._model[left & ~is_new])
        self._count("repeats_new", self._model[left & is_new])
        repeats = np.flatnonzero(left & ~is_new)
        _, first = np.unique(self._group[repeats], return_index=True)
        self._list("repeats", repeats[np.sort(first)])
        old, new = pairs.T
        has_same_text = records.fingerprint[old] == records.fingerprint[new]
        has_same_size = records.bytes[old] == records.bytes[new]
        changed = pairs[~(has_same_text & has_same_size)]
        left[changed] = True
        return changed[np.argsort(changed[:, 0])], left

    def _compare_questions(self, unequal: Array) -> None:
        """Count questions, add up their means, and find those whose mean changed.

        `unequal` says which records are not equal to a counterpart.
        """
        records = self._records
        question = self._question
        is_new = records.is_new
        scored = [model[:2] in self._rules.scored for model in self._models]
        is_scored = np.array(scored, dtype=np.bool_)[self._model]
        value = np.where(is_scored, records.score, records.is_right)
        is_answer = ~records.error | self._rules.errors_as_wrong
        for name, side in (("old", ~is_new), ("new", is_new)):
            self._count(f"{name}_records", self._model[side])
            self._count(f"{name}_questions", self._model_of[self._has(side)])
            self._count(f"{name}_answered", self._model_of[self._has(side & is_answer)])
        counted = self._compared & is_answer
        answers = _by_side(question, is_new, counted).astype(np.int64)
        both = np.all(answers, axis=0)
        self._count("questions", self._model_of[both])
        self._add_clusters(np.flatnonzero(both))
        may_differ = both & self._has(unequal & counted)
        differs = counted & may_differ[question]
        same = counted & ~is_new & (both & ~may_differ)[question]
        for names, chosen, number in (
            (("old_means", "new_means"), same, answers[0]),
            (("old_means",), differs & ~is_new, answers[0]),
            (("new_means",), differs & is_new, answers[1]),
        ):
            rows = np.flatnonzero(chosen)
            self._add_means(names, rows, number[question[rows]], value[rows])
        if not records.exact_scores:
            sums = _by_side(question, is_new, np.where(differs, value, 0))
            means = sums / np.maximum(answers, 1)
            may_differ &= (answers.sum(axis=0) > 2) | (means[0] != means[1])
            differs &= may_differ[question]
        if differs.any():
            self._find_flips(np.flatnonzero(differs), value, is_scored)

    def _has(self, rows: Array) -> Array:
        """Which questions have any of some records."""
        return is_there(self._question[rows], len(self._model_of))

    def _add_clusters(self, questions: Array) -> None:
        """Add the clusters of questions: those without any difference count, too."""
        clusters = self._cluster[questions]
        models = self._model_of[questions]
        first, _ = distinct_of(models, clusters)
        for model, cluster in zip(models[first].tolist(), clusters[first].tolist(), strict=True):
            self._changes.clusters[self._models[model]][cluster] += 0

    def _add_means(self, names: Sequence[str], rows: Array, answers: Array, values: Array) -> None:
        """Add up the means of questions, given their records.

        `answers` has how many answers the question of each record has.

        The values of questions with equally many answers are added up first, so nothing is rounded.
        """
        models = self._model[rows]
        first, place = distinct_of(models, answers)
        for piece, numbers in by_code(place, values):
            counts = self._counts[models[first[piece]]]
            mean = _sum(numbers) / int(answers[first[piece]])
            for name in names:
                counts[name] += mean

    def _find_flips(self, rows: Array, value: Array, is_scored: Array) -> None:
        """Compare the means of questions exactly, given the rows of their answers."""
        records = self._records
        changes = self._changes
        # Of each question, the first group that was compared is shown, by its first record in NEW.
        old = np.flatnonzero(self._compared & ~records.is_new)
        new = np.flatnonzero(self._compared & records.is_new)
        first_groups = self._group[_first(self._question, old)]
        shown_rows = _first(self._group, new)[first_groups]
        exact = {row: score for row, score in records.exact_scores.items() if is_scored[row]}
        is_new = records.is_new.tolist()
        values = value.tolist()
        for shown, answers in by_code(shown_rows[self._question[rows]], rows):
            scores: tuple[list[Any], list[Any]] = ([], [])  # of OLD, and of NEW
            for row in answers:
                score = exact[row] if row in exact else _spelled(values[row])
                scores[is_new[row]].append(score)
            was, now = (Fraction(sum(of_side)) / len(of_side) for of_side in scores)
            if was == now:
                continue
            model = self._models[self._model[shown]]
            changes.differences[model][now - was] += 1
            changes.clusters[model][int(self._cluster[self._question[shown]])] += now - was
            kind = (model, now > was)
            if changes.room(kind):
                flip = filled(Flip, records.name(shown), old=to_double(was), new=to_double(now))
                changes.listed[kind].append(flip)

    @property
    def text_bytes(self) -> int:
        """The bytes of the lines that have to be compared."""
        return int(self._records.bytes[self._changed].sum())

    def lines(self) -> LinesTask:
        """The pairs whose lines have to be compared."""
        old, new = self._changed.T
        in_order = np.argsort(new)
        is_right = self._records.is_right
        return LinesTask(
            old=self._records.lines(0, old),
            new=self._records.lines(1, new[in_order]),
            places=ranks_of(in_order),
            lost=is_right[old] & ~is_right[new],
            examples=self._rules.examples,
        )

    def add_lines(self, pairs: Sequence[LineChange], fields: Counter[str]) -> None:
        """Add how lines differ."""
        changes = self._changes
        changes.fields.update(fields)
        for row, (kind, paths, cause) in zip(self._changed[:, 1].tolist(), pairs, strict=True):
            model = self._models[self._model[row]]
            if cause:
                changes.numbers[model][cause] += 1
                if changes.room((model, "lost")):
                    loss = filled(Loss, self._records.name(row), cause=cause)
                    changes.listed[model, "lost"].append(loss)
            if kind != "unchanged":
                relabelled = kind == "relabelled"
                changes.numbers[model].update(unchanged=-1, changed=1, relabelled=relabelled)
                if changes.room(kind):
                    name = self._records.name(row)
                    name.fields = list(paths)
                    changes.listed[kind].append(name)


def _size(codes: Array) -> int:
    return int(codes.max(initial=-1)) + 1


def _first(ids: Array, rows: Array) -> Array:
    """The first of some sorted rows for each id; 0 if there is none."""
    first = np.zeros(_size(ids), dtype=np.int64)
    first[ids[rows[::-1]]] = rows[::-1]
    return first


def _by_side(ids: Array, is_new: Array, weights: Array | None = None) -> Array:
    """Count or add up by id: a row for OLD, and one for NEW."""
    size = _size(ids)
    return np.bincount(ids + size * is_new, weights, 2 * size).reshape(2, size)


def _pairs(ids: Array, is_new: Array) -> Array:
    """Pairs of places whose id one record of OLD and one of NEW have, and no other.

    Those of OLD come first.
    """
    is_pair = (_by_side(ids, is_new) == 1).all(axis=0)
    places = np.flatnonzero(is_pair[ids])
    return places[np.argsort(ids[places], kind="stable")].reshape(-1, 2)


def _sum(values: list[float]) -> float | Fraction:
    """The sum with twice the digits of a double, so that ranges do not matter.

    Not a number if it overflows one.
    """
    try:
        total = fsum(values)
        return Fraction(total) + Fraction(fsum([*values, -total]))
    except (OverflowError, ValueError):
        return nan


@lru_cache(maxsize=4_096)
def _spelled(value: float) -> Fraction:
    """A score as it is spelled: 0.1 is a tenth, not the double next to it.

    So the mean of 0.1 and 0.2 is that of 0 and 0.3, and equal steps have equal sizes.
    """
    return Fraction(value) if value.is_integer() else Fraction(repr(value))
