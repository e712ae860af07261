"""The records of scopes as arrays: which model made what of which question.

    scope codes and columns of parts ──▶ `Records` of a run of scopes ──▶ `ScopeRecords` ──▶ `Cells`

Neighbouring scopes are loaded together, as many as `_RECORDS` allows, so that a corpus with many
small scopes is not read once for each, and one with many records is never in memory as a whole. A
scope with more records is loaded alone.

A question is a `sample_hash` within a scope, or a `sample_id` of it if the hash is split
(`keys.is_split`). Questions are in the order of their first records.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from fastrec.answers.selection import Array, Selection
from fastrec.corpus.scan import VERIFY_HINT
from fastrec.errors import CorpusError
from fastrec.judge.parse import spell
from fastrec.where import without_group

RIGHT: Final = 1
WRONG: Final = 2
ERROR: Final = 4
ANSWERS: Final = RIGHT | WRONG
_RECORDS: Final = 4_000_000  # to load at a time
_KEPT: Final = 2  # runs of scopes
_LARGEST_CODE: Final = 1 << 62
_FLAGS: Final = np.array([WRONG, RIGHT, ERROR, ERROR], dtype=np.uint8)  # by correct + 2 · error


class Values:
    """Numbers of values that come from several parts, in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def add(self, values: Sequence[Any]) -> Array:
        """The number of each of some values."""
        numbers = self.numbers
        return np.array(
            [numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64
        )

    def list(self) -> list[Any]:
        return list(self.numbers)


def joint_codes(*columns: tuple[Array, int]) -> Array:
    """One code for each combination of codes, given with a number that they are below."""
    joint = np.zeros(len(columns[0][0]), dtype=np.int64)
    bound = 1
    for codes, size in columns:
        bound *= max(size, 1)
        if bound > _LARGEST_CODE:
            distinct, joint = np.unique(joint, return_inverse=True)
            bound = len(distinct) * max(size, 1)
        joint = joint * max(size, 1) + codes
    return joint


def dense_in_order(codes: Array) -> tuple[Array, Array]:
    """Number codes in the order in which they come first.

    Also return the place where each comes first.
    """
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    return new[places], first[order]


class Records:
    """All records of a run of scopes, scope by scope, in the order of the corpus."""

    def __init__(
        self, selection: Selection, scopes: range, parts: Sequence[int] | None = None
    ) -> None:
        """Load the records of some scopes; with `parts`, only those in these parts."""
        self.selection = selection
        self.scopes = scopes
        self._models = Values()
        self._hashes = Values()
        columns: dict[str, list[Array]] = {
            name: [] for name in ("number", "scope", "model", "hash", "flag", "score")
        }
        for part in self._parts() if parts is None else parts:
            codes = selection.scope_codes(part)
            chosen = np.flatnonzero((codes >= scopes.start) & (codes < scopes.stop))
            if not chosen.size:
                continue
            found = selection.columns(part)
            columns["number"].append(chosen + selection.starts[part])
            columns["scope"].append(codes[chosen])
            columns["model"].append(
                self._models.add(found.values("model"))[found.numbers("model")[chosen]]
            )
            columns["hash"].append(
                self._hashes.add(found.values("hash"))[found.numbers("hash")[chosen]]
            )
            outcome = found.numbers("correct")[chosen] + 2 * found.numbers("error")[chosen]
            columns["flag"].append(_FLAGS[outcome])
            columns["score"].append(found.numbers("score")[chosen])
        nothing = np.array([], dtype=np.int64)
        arrays = {name: np.concatenate(some) if some else nothing for name, some in columns.items()}
        order = np.argsort(arrays["scope"], kind="stable")
        self.number = arrays["number"][order]
        self.scope = arrays["scope"][order]
        self.model = arrays["model"][order]
        self.hash = arrays["hash"][order]
        self.flag = arrays["flag"][order]
        self.score = arrays["score"][order]
        self.models: list[str] = self._models.list()
        self.hashes: list[str] = self._hashes.list()
        self._set_questions()

    def _parts(self) -> Sequence[int]:
        selection = self.selection
        names = [name for name, _ in selection.scopes[self.scopes.start : self.scopes.stop]]
        plain = list(map(without_group, names))
        first = selection.number_parts(min(plain))  # the order of groups may be another one
        last = selection.number_parts(max(plain))
        return range(first.start, max(first.stop, last.stop))

    def _set_questions(self) -> None:
        columns = [(self.scope, self.scopes.stop), (self.hash, len(self.hashes))]
        split = self.split_hashes
        if split.any():
            columns.append((np.where(split, self.sample_id, -1) + 1, len(self.sample_ids) + 1))
        codes = joint_codes(*columns)
        self.question, self.first = dense_in_order(codes)  # in order of scopes, because records are

    @cached_property
    def split_hashes(self) -> Array:
        """Whether the hash of each record is split."""
        evaluations = self.selection.summary.evaluations
        names = {(one.evaluation_name, one.metric) for one in evaluations if one.split_hashes}
        nothing = np.zeros(len(self.hash), dtype=np.bool_)
        if not names:
            return nothing
        run, runs = self.codes("run")
        hashes = (self.scope, self.scopes.stop), (self.hash, len(self.hashes))
        by_hash = joint_codes(*hashes)
        by_run = (*hashes, (self.model, len(self.models)), (run, len(runs)))
        _, hash_codes = np.unique(by_hash, return_inverse=True)
        _, first_of_run = np.unique(joint_codes(*by_run), return_index=True)
        _, first_of_sample = np.unique(
            joint_codes(*by_run, (self.sample_id, len(self.sample_ids))), return_index=True
        )
        distinct_runs = np.bincount(hash_codes[first_of_run], minlength=1)
        distinct_samples = np.bincount(hash_codes[first_of_sample], minlength=len(distinct_runs))
        return (distinct_samples > distinct_runs)[hash_codes] if len(hash_codes) else nothing

    def gather(self, name: str) -> Array:
        """The values of another column of these records."""
        return gather(self.selection, name, self.number)

    def codes(self, name: str) -> tuple[Array, list[Any]]:
        """The codes of another column of these records, and their values.

        Equal values of all parts have one code.
        """
        values = Values()
        selection = self.selection
        order = np.argsort(self.number, kind="stable")
        numbers = self.number[order]
        bounds = np.searchsorted(numbers, selection.starts)
        found = np.empty(len(order), dtype=np.int64)
        for part in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
            columns = selection.columns(part)
            places = order[bounds[part] : bounds[part + 1]]
            codes = columns.numbers(name)[self.number[places] - selection.starts[part]]
            found[places] = values.add(columns.values(name))[codes]
        return found, values.list()

    @cached_property
    def _samples(self) -> tuple[Array, list[Any]]:
        return self.codes("sample_id")

    @property
    def sample_id(self) -> Array:
        """The code of the `sample_id` of each record."""
        return self._samples[0]

    @property
    def sample_ids(self) -> list[Any]:
        """By code."""
        return self._samples[1]

    @cached_property
    def names(self) -> list[str]:
        """The name of each question: its hash; if that is split, also `/` and the `sample_id` in JSON."""
        names = [self.hashes[code] for code in self.hash[self.first].tolist()]
        split = np.flatnonzero(self.split_hashes[self.first]).tolist()
        for question in split:
            sample_id = self.sample_ids[int(self.sample_id[self.first[question]])]
            names[question] += f"/{spell(sample_id).decode()}"
        return names

    def of_scope(self, scope: int) -> ScopeRecords:
        begin, end = np.searchsorted(self.scope, [scope, scope + 1]).tolist()
        return ScopeRecords(self, scope, slice(begin, end))


def gather(selection: Selection, name: str, numbers: Array) -> Array:
    """The values of a column in some records, given their numbers in any order."""
    order = np.argsort(numbers, kind="stable")
    values = selection.gather(name, numbers[order])
    found = np.empty_like(values)
    found[order] = values
    return found


class Cells(NamedTuple):
    """What each model made of each question: one cell for each question and model with records, in this order."""

    question: Array
    model: Array
    flags: Array
    """`RIGHT`, `WRONG` and `ERROR`, added up."""
    share: Array  # of right answers; 0 without an answer
    score: Array  # the mean of the scores of answers; 0 without one
    records: Array  # how many there are
    place: Array
    """By record: the position of its cell."""


class ScopeRecords:
    """The records of a scope, in the order of the corpus."""

    def __init__(self, records: Records, scope: int, place: slice) -> None:
        self.records = records
        self.place = place  # of these records among those that were loaded together
        self.name = records.selection.scopes[scope]
        self.number = records.number[place]
        self.flag = records.flag[place]
        self.score = records.score[place]
        question = records.question[place]
        self.first_question = int(question.min()) if len(question) else 0
        """Its place among the questions that were loaded together."""
        self.question = question - self.first_question
        self.questions = int(self.question.max(initial=-1)) + 1
        first = records.first[self.first_question : self.first_question + self.questions]
        self.first = first - place.start
        """By question: the position of its first record."""
        codes, places = np.unique(records.model[place], return_inverse=True)
        names = [records.models[code] for code in codes.tolist()]
        order = sorted(range(len(names)), key=lambda at: names[at].encode(errors="surrogatepass"))
        self.models = tuple(names[at] for at in order)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        self.model = ranks[places]

    def hash_of(self, question: int) -> str:
        place = self.place.start + int(self.first[question])
        return self.records.hashes[int(self.records.hash[place])]

    def split_hashes(self) -> set[str]:
        """The hashes that are split."""
        codes = self.records.hash[self.place][self.records.split_hashes[self.place]]
        return {self.records.hashes[code] for code in np.unique(codes).tolist()}

    @cached_property
    def names(self) -> list[str]:
        """The name of each question."""
        return self.records.names[self.first_question : self.first_question + self.questions]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Questions by name."""
        return {name: number for number, name in enumerate(self.names)}

    def gather(self, name: str) -> Array:
        """The values of another column of these records."""
        return gather(self.records.selection, name, self.number)

    @cached_property
    def cells(self) -> Cells:
        codes = joint_codes((self.question, self.questions), (self.model, len(self.models)))
        distinct, place = np.unique(codes, return_inverse=True)
        question, model = np.divmod(distinct, max(len(self.models), 1))
        count = len(distinct)
        flags = np.zeros(count, dtype=np.uint8)
        is_answer = (self.flag & ANSWERS) > 0
        is_right = self.flag == RIGHT
        for kind, has_kind in ((RIGHT, is_right), (WRONG, self.flag == WRONG), (ERROR, ~is_answer)):
            flags |= np.where(np.bincount(place[has_kind], minlength=count) > 0, kind, 0).astype(
                np.uint8
            )
        answers = np.bincount(place[is_answer], minlength=count)
        share = np.bincount(place[is_right], minlength=count) / np.maximum(answers, 1)
        score = np.zeros(count)
        score[place[is_answer]] = self.score[is_answer]
        if len(place) > count:
            several = np.flatnonzero(answers > 1)
            for cell, scores in zip(
                several.tolist(), self._grouped(several, place, is_answer), strict=True
            ):
                score[cell] = mean_of_doubles(scores)
        return Cells(
            question, model, flags, share, score, np.bincount(place, minlength=count), place
        )

    def _grouped(self, cells: Array, place: Array, wanted: Array) -> list[list[float]]:
        """The scores of the wanted records of some cells."""
        records = np.flatnonzero(wanted & np.isin(place, cells))
        order = records[np.argsort(place[records], kind="stable")]
        scores = self.score[order].tolist()
        bounds = np.searchsorted(place[order], cells).tolist()
        return [scores[begin:end] for begin, end in pairwise([*bounds, len(scores)])]

    def check_models(self, models: Sequence[str]) -> None:
        """Check that the models are those of the summary."""
        if tuple(models) != self.models:
            path = self.records.selection.corpus
            raise CorpusError(
                path, f"its columns have other models than its summary; {VERIFY_HINT}"
            )


def mean_of_doubles(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # rounding must not lead beyond the largest double
        mean = 2 * math.fsum([value / len(values) / 2 for value in values])
        return sorted([min(values), mean, max(values)])[1]


class RecordsOfScopes:
    """Loads the records of scopes as they are asked for, and keeps the last ones.

    May be used by several threads.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._kept: OrderedDict[range, Records] = OrderedDict()
        self._tables: dict[int, ScopeRecords] = {}
        self._lock = threading.RLock()

    @cached_property
    def runs(self) -> list[range]:
        """All scopes, as they are loaded together."""
        ends = np.cumsum(records_by_scope(self._selection))
        found: list[range] = []
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            beyond = int(np.searchsorted(ends, before + _RECORDS, side="right"))
            found.append(range(start, max(beyond, start + 1)))
            start = found[-1].stop
        return found

    def load(self, run: range) -> Records:
        """The records of some scopes that are loaded together."""
        with self._lock:
            if run not in self._kept:
                self._kept[run] = Records(self._selection, run)
                while len(self._kept) > _KEPT:
                    gone, _ = self._kept.popitem(last=False)
                    for scope in gone:
                        self._tables.pop(scope, None)
            self._kept.move_to_end(run)
            return self._kept[run]

    def of(self, scope: int) -> ScopeRecords:
        """The records of a scope."""
        with self._lock:
            at = bisect_right([run.start for run in self.runs], scope) - 1
            records = self.load(self.runs[at])
            if scope not in self._tables:
                self._tables[scope] = records.of_scope(scope)
            return self._tables[scope]


def records_by_scope(selection: Selection) -> list[int]:
    """How many records each scope has."""
    if selection.is_whole:
        return [one.records for one in selection.summary.evaluations]
    counts = np.zeros(len(selection.scopes), dtype=np.int64)
    for part in range(len(selection.parts)):
        codes = selection.scope_codes(part)
        counts += np.bincount(codes[codes >= 0], minlength=len(counts))
    return [int(count) for count in counts]
