"""The records of scopes as arrays: which model made what of which question.

    scope codes and columns of parts ──▶ `Records` of a run of scopes ──▶ `ScopeRecords` ──▶ `Cells`

Neighbouring scopes are loaded together, as many as `_RECORDS` allows, so that a corpus with many
small scopes is not read once for each, and one with many records is never in memory as a whole. A
scope with more records is loaded alone.

A question is a `sample_hash` within a scope, or a `sample_id` of it if the hash is split
(`keys.is_split`). Questions are in the order of their first records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from math import fsum
from threading import RLock
from typing import NamedTuple

import numpy as np

from fastrec.answers.codes import (
    NO_NUMBERS,
    Array,
    CodedColumn,
    by_code,
    count_of,
    distinct_of,
    order_of,
    ranks_of,
    split_records,
    used_codes,
)
from fastrec.answers.selection import Selection
from fastrec.corpus.scan import VERIFY_HINT
from fastrec.errors import CorpusError
from fastrec.judge.parse import spell
from fastrec.summary.document import SampleId
from fastrec.where import without_group

RIGHT = 1
WRONG = 2
ERROR = 4
ANSWERS = RIGHT | WRONG
_RECORDS = 4_000_000  # to load at a time
_KEPT = 2  # runs of scopes
# What `Records` have of each record.
_ARRAYS = ("number", "scope", "model", "hash", "split_hashes", "flag", "score", "question")
_FLAGS = np.array([WRONG, RIGHT, ERROR, ERROR], dtype=np.uint8)  # by correct + 2 · error


def name_of_split(sample_hash: str, sample_id: SampleId) -> str:
    """The name of a question whose hash is split."""
    return f"{sample_hash}/{spell(sample_id).decode()}"


def _names_of(
    hashes: Sequence[str], first: Array, is_split: Array, sample_ids: CodedColumn
) -> list[str]:
    """The names of questions, given their hashes and first records, and which records are split."""
    names = list(hashes)
    for question in np.flatnonzero(is_split[first]).tolist():
        names[question] = name_of_split(names[question], sample_ids.value(first[question]))
    return names


class Records:
    """All records of a run of scopes, scope by scope, in the order of the corpus."""

    def __init__(
        self, selection: Selection, scopes: range, parts: Sequence[int] | None = None
    ) -> None:
        """Load the records of some scopes; with `parts`, only those in these parts."""
        self.selection = selection
        self.scopes = scopes
        self._tables: dict[int, ScopeRecords] = {}
        numbers = [NO_NUMBERS]
        of_scope = [NO_NUMBERS]
        for part in self._parts() if parts is None else parts:
            positions, codes = selection.members(part)
            chosen = (codes >= scopes.start) & (codes < scopes.stop)
            numbers.append(positions[chosen] + selection.starts[part])
            of_scope.append(codes[chosen])
        self.scope = np.concatenate(of_scope)
        order = np.argsort(self.scope, kind="stable")
        self.scope = self.scope[order]
        self.number = np.concatenate(numbers)[order]
        self.model, self.models = self.codes("model")
        self.hash, self.hashes = self.codes("hash")
        self.flag = _FLAGS[self.gather("correct") + 2 * self.gather("error")]
        self.score = self.gather("score")
        columns = [self.scope, self.hash]
        if self.split_hashes.any():
            columns.append(np.where(self.split_hashes, self.sample_ids.codes + 1, 0))
        # Questions are in the order of scopes, because records are.
        first, place = distinct_of(*columns)
        order = np.argsort(first)
        self.question = ranks_of(order)[place]
        self.first = first[order]

    def _parts(self) -> Sequence[int]:
        # The order of groups may be another one than that of their evaluations.
        names = [self.selection.scopes[scope][0] for scope in self.scopes]
        return self.selection.number_parts(min(map(without_group, names)), max(names))

    @cached_property
    def split_hashes(self) -> Array:
        """Whether the hash of each record is split."""
        if not self.selection.has_split_hashes:
            return np.zeros(len(self.hash), dtype=np.bool_)
        of_hash = distinct_of(self.scope, self.hash)
        return split_records(of_hash, self.sample_ids.codes, self.model, self.codes("run").codes)

    def gather(self, name: str) -> Array:
        """The values of another column of these records."""
        return self.selection.gather(name, self.number)

    def exact(self, name: str) -> dict[int, int]:
        """The integers that a column cannot hold, by position among these records."""
        return self.selection.exact(name, self.number)

    def codes(self, name: str) -> CodedColumn:
        """Another column of these records."""
        return self.selection.codes(name, self.number)

    @cached_property
    def sample_ids(self) -> CodedColumn:
        return self.codes("sample_id")

    @cached_property
    def names(self) -> list[str]:
        """The name of each question: its hash; if split, also `/` and the `sample_id` in JSON."""
        hashes = [self.hashes[code] for code in self.hash[self.first].tolist()]
        return _names_of(hashes, self.first, self.split_hashes, self.sample_ids)

    def where(self, chosen: Array) -> Records:
        """Some of these records, with the same questions."""
        arrays = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        subset = copy(self)
        subset.__dict__.update(arrays)
        subset.__dict__.pop("sample_ids", None)
        return subset

    def of_scope(self, scope: int) -> ScopeRecords:
        """The records of a scope; they are kept."""
        if scope not in self._tables:
            begin, end = np.searchsorted(self.scope, [scope, scope + 1]).tolist()
            self._tables[scope] = ScopeRecords(self, scope, slice(begin, end))
        return self._tables[scope]


class Cells(NamedTuple):
    """What each model made of each question: a cell for each question and model with records."""

    question: Array
    model: Array
    flags: Array  # `RIGHT`, `WRONG` and `ERROR`, added up.
    share: Array  # of right answers; 0 without an answer
    score: Array  # the mean of the scores of answers; 0 without one
    records: Array  # how many there are
    place: Array  # By record: the position of its cell.

    @property
    def is_answered(self) -> Array:
        return self.flags & ANSWERS > 0

    def values(self, *, graded: bool) -> Array:
        """The scores, or else the shares of right answers."""
        return self.score if graded else self.share


class ScopeRecords:
    """The records of a scope, in the order of the corpus."""

    def __init__(self, records: Records, scope: int, place: slice) -> None:
        self.records = records
        self.selection = records.selection
        self.place = place  # of these records among those that were loaded together
        self.name = records.selection.scopes[scope]
        self.number = records.number[place]
        self.flag = records.flag[place]
        self.score = records.score[place]
        self.is_split = records.split_hashes[place]
        question = records.question[place]
        # Questions are numbered scope by scope.
        begin = int(question.min(initial=len(records.first)))
        end = int(question.max(initial=-1)) + 1
        self.question = question - begin
        self.first = records.first[begin:end] - place.start  # By question, among these records.
        models = records.model[place]
        of_models, places = distinct_of(models)
        names = [records.models[code] for code in models[of_models].tolist()]
        order, ranks = order_of(names)
        self.models = tuple(names[at] for at in order)
        self.model = ranks[places]

    @property
    def questions(self) -> int:
        """How many questions the scope has."""
        return len(self.first)

    @property
    def is_answer(self) -> Array:
        """Whether each record is an answer."""
        return np.asarray(self.flag & ANSWERS > 0)

    @cached_property
    def hashes(self) -> list[str]:
        """The hash of each question."""
        codes = self.records.hash[self.place][self.first]
        return [self.records.hashes[code] for code in codes.tolist()]

    @property
    def sample_ids(self) -> CodedColumn:
        """The `sample_id` of each record."""
        codes, values = self.records.sample_ids
        return CodedColumn(codes[self.place], values)

    def of_models(self, models: Collection[str]) -> Array:
        """Whether each record is of one of the given models; without any, all are."""
        return np.asarray(self.are_models(models)[self.model])

    def count_questions(self, records: Array) -> Array:
        """By question: how many of some records it has."""
        return count_of(self.question[records], self.questions)

    def count_models(self, records: Array) -> Array:
        """By model: how many of some records it has."""
        return count_of(self.model[records], len(self.models))

    def are_models(self, models: Collection[str]) -> Array:
        """Whether each model of the scope is among the given models; without any, all are."""
        wanted = set(models or self.models)
        return np.array([model in wanted for model in self.models], dtype=np.bool_)

    def columns_of(self, models: Sequence[str]) -> Array:
        """By model of the scope: its position among some models, or -1."""
        columns = {model: column for column, model in enumerate(models)}
        return np.array([columns.get(model, -1) for model in self.models], dtype=np.int64)

    def split_hashes(self) -> set[str]:
        """The hashes that are split."""
        codes = self.records.hash[self.place][self.is_split]
        return {self.records.hashes[code] for code in used_codes(codes).tolist()}

    @cached_property
    def names(self) -> list[str]:
        """The name of each question."""
        return _names_of(self.hashes, self.first, self.is_split, self.sample_ids)

    def split_by(self, hashes: Collection[str]) -> ScopeRecords:
        """The same records, with these hashes split, too: another metric or corpus splits them."""
        if not hashes:
            return self
        finer = copy(self)
        for name, value in vars(ScopeRecords).items():
            if isinstance(value, cached_property):  # it was computed for the coarser questions
                finer.__dict__.pop(name, None)
        is_split = np.array([name in hashes for name in self.hashes])[self.question]
        samples = np.where(is_split, self.sample_ids.codes + 1, 0)
        finer.is_split = is_split | self.is_split
        finer.first, finer.question = distinct_of(self.question, samples)
        return finer

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Questions by name."""
        return {name: number for number, name in enumerate(self.names)}

    def number_of(self, name: str) -> int | None:
        """Find a question by its name.

        If only another metric or corpus splits the hash, it is the first question of the hash here.
        """
        # A hash may have a slash.
        starts = [name, *(name[:at] for at, char in enumerate(name) if char == "/")]
        for start in starts:
            if start in self.numbers:
                return self.numbers[start]
        for number, (own, sample_hash) in enumerate(zip(self.names, self.hashes, strict=True)):
            if sample_hash in starts and own.startswith(f"{sample_hash}/"):
                return number
        return None

    @cached_property
    def clusters(self) -> Array:
        """The cluster of each question, numbered in the order of their first questions."""
        by_record = self.selection.clusters
        if by_record is None:
            return np.arange(self.questions)
        first, place = distinct_of(by_record[self.number[self.first]])
        return ranks_of(np.argsort(first))[place]

    def clusters_of(self, names: Iterable[str]) -> list[int] | None:
        """The clusters of some questions; None if questions do not come in clusters."""
        if self.selection.clusters is None:
            return None
        return [int(self.clusters[self.number_of(name)]) for name in names]

    def gather(self, name: str) -> Array:
        """The values of another column of these records."""
        return self.selection.gather(name, self.number)

    @cached_property
    def cells(self) -> Cells:
        first, place = distinct_of(self.question, self.model)
        count = len(first)
        is_answer = self.is_answer
        flags = np.zeros(count, dtype=np.uint8)
        for kind in (RIGHT, WRONG, ERROR):
            flags[place[self.flag == kind]] |= kind
        answers = count_of(place[is_answer], count)
        share = count_of(place[self.flag == RIGHT], count) / np.maximum(answers, 1)
        score = np.zeros(count)
        score[place[is_answer]] = self.score[is_answer]
        repeated = is_answer & (answers[place] > 1)
        for cell, scores in by_code(place[repeated], self.score[repeated]):
            score[cell] = mean_of_doubles(scores)
        records = count_of(place, count)
        return Cells(self.question[first], self.model[first], flags, share, score, records, place)

    def values_of(self, models: Sequence[str], *, graded: bool) -> Array:
        """The values of some models, models × questions; NaN without an answer."""
        cells = self.cells
        row = self.columns_of(models)[cells.model]
        is_chosen = (row >= 0) & cells.is_answered
        values = np.full((len(models), self.questions), np.nan)
        places = row[is_chosen], cells.question[is_chosen]
        values[places] = cells.values(graded=graded)[is_chosen]
        return values

    def check_models(self, models: Sequence[str]) -> None:
        """Check that the models are those of the summary."""
        if tuple(models) != self.models:
            reason = f"its columns have other models than its summary; {VERIFY_HINT}"
            raise CorpusError(self.selection.corpus, reason)


def mean_of_doubles(values: Sequence[float]) -> float:
    try:
        return fsum(values) / len(values)
    except OverflowError:  # rounding must not lead beyond the largest double
        mean = 2 * fsum([value / len(values) / 2 for value in values])
        return sorted([min(values), mean, max(values)])[1]


class RecordsOfScopes:
    """Loads the records of scopes as they are asked for, and keeps the last ones.

    May be used by several threads.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._lock = RLock()
        self._load = lru_cache(_KEPT)(partial(Records, selection))

    @cached_property
    def runs(self) -> list[range]:
        """All scopes, as they are loaded together."""
        starts = []
        together = _RECORDS  # records of the last run
        for scope, records in enumerate(records_by_scope(self._selection)):
            together += records
            if together > _RECORDS:
                starts.append(scope)
                together = records
        return [range(*ends) for ends in pairwise([*starts, len(self._selection.scopes)])]

    def load(self, run: range) -> Records:
        """The records of some scopes that are loaded together."""
        with self._lock:
            return self._load(run)

    def of(self, scope: int) -> ScopeRecords:
        """The records of a scope."""
        with self._lock:
            return self.load(next(run for run in self.runs if scope in run)).of_scope(scope)


def records_by_scope(selection: Selection) -> list[int]:
    """How many records each scope has."""
    if selection.is_whole:
        return [evaluation.records for evaluation in selection.summary.evaluations]
    counts = np.zeros(len(selection.scopes), dtype=np.int64)
    for part in range(len(selection.parts)):
        counts += np.bincount(selection.members(part).scopes, minlength=len(counts))
    return counts.tolist()
