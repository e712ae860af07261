"""The questions of a selection of records, and what models made of them.

    `Selection` ──▶ `ScopeRecords` of a scope ──▶ facts about each question, for all models or some
    ──▶ rows, values

Everything follows from columns, except the texts that are shown: those are read when a row or an
answer is asked for. The facts about a choice of models and the questions of the last queries are
kept, so that the next page is quick.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from fastrec.answers.counts import count_evaluations
from fastrec.answers.facts import Facts, facts_of, mean_lengths, spread_range
from fastrec.answers.finding import find_questions, shortest_prefixes
from fastrec.answers.reading import Answer, find_phrase, is_short, read_answers, read_excerpts
from fastrec.answers.records import (
    ANSWERS,
    ERROR,
    RIGHT,
    WRONG,
    RecordsOfScopes,
    ScopeRecords,
)
from fastrec.answers.selection import Array, Groups, Selection, select
from fastrec.answers.table import (
    OUTCOME_FILTERS,
    OUTCOMES_BY_FLAGS,
    Outcome,
    Page,
    Query,
    QuestionRow,
    Scope,
)
from fastrec.answers.trials import read_trials
from fastrec.corpus.columns import METADATA
from fastrec.corpus.sources import has_sources
from fastrec.engine import check_jobs
from fastrec.errors import NoMatchError, UsageError, counted, listed
from fastrec.filters import Filters, Strings, as_tuple, matches_any
from fastrec.judge.parse import spell
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.statistics.exact import Value, mean_of
from fastrec.statistics.repeats import MEAN, RepeatsAs, Trial, match_trials
from fastrec.summary.document import EvaluationSummary, ModelSummary, filled
from fastrec.summary.present_choice import check_patterns, matching_scopes, with_directions
from fastrec.where import text_of

_EXAMPLES: Final = 5  # ids in a message
_LONGEST: Final = 80  # characters of an id in a message
_KEPT: Final = 16  # queries, and choices of models
_KEPT_SEARCHES: Final = 4
_MOST_FIELDS: Final = 8  # keys of metadata that are suggested
_MOST_VALUES: Final = 100
_CELLS: Final = 4_000_000  # of a matrix of questions × models
_KINDS: Final = {"right": RIGHT, "wrong": WRONG, "error": ERROR}
_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


class _Kept(OrderedDict[_Key, _Item]):
    """The last items that were made."""

    def get_or_make(self, key: _Key, make: Callable[[], _Item], most: int = _KEPT) -> _Item:
        if key not in self:
            self[key] = make()
            while len(self) > most:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]


class Index:
    """The questions of a selection. May be used by several threads."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.corpus = selection.corpus
        self.manifest = selection.manifest
        self._records = RecordsOfScopes(selection)
        self.evaluations: Sequence[EvaluationSummary] = count_evaluations(selection, self._records)
        """The results of the selected records, as they are in a summary."""
        self.scopes = list(map(scope_of, self.evaluations))
        self.models = sorted({model for scope in self.scopes for model in scope.models})
        self._numbers = {
            (one.evaluation_name, one.metric): number for number, one in enumerate(self.evaluations)
        }
        self._lock = threading.RLock()
        self._facts: _Kept[tuple[int, tuple[str, ...], bool], Facts] = _Kept()
        self._ids: _Kept[Query, Array] = _Kept()
        self._found: _Kept[tuple[str, str | None], tuple[Array, Array]] = _Kept()
        """By text and evaluation: the numbers of records with this text, and where it is."""

    def direct(self, lower_is_better: Sequence[str]) -> None:
        """Set the directions of metrics that `--lower-is-better` names.

        Their questions are sorted accordingly.
        """
        self.scopes[:] = with_directions(self.scopes, lower_is_better)

    def scope(self, query: Query) -> Scope | None:
        number = self._numbers.get((query.evaluation_name, query.metric))
        return None if number is None else self.scopes[number]

    def table(self, query: Query) -> ScopeRecords:
        """The records of the scope of a query."""
        number = self._numbers[query.evaluation_name, query.metric]
        found = self._records.of(number)
        found.check_models(self.scopes[number].models)
        return found

    def facts(self, query: Query) -> Facts:
        """What the models of a query made of each question of its scope."""
        number = self._numbers[query.evaluation_name, query.metric]
        scope = self.scopes[number]
        chosen = () if len(query.models) == len(scope.models) else query.models
        key = number, chosen, scope.graded

        def make() -> Facts:
            table = self.table(query)
            return facts_of(table, self._positions(scope, chosen), graded=scope.graded)

        with self._lock:
            return self._facts.get_or_make(key, make)

    def _positions(self, scope: Scope, models: Sequence[str]) -> Array | None:
        """Whether each model of a scope is one of some models.

        None if there are none, which stands for all.
        """
        if not models:
            return None
        wanted = set(models)
        return np.array([model in wanted for model in scope.models], dtype=np.bool_)

    def ids(self, query: Query) -> Array:
        """The questions of a scope that a query chooses, in its order: positions among all of its questions."""
        if self.scope(query) is None:
            return np.array([], dtype=np.int64)
        with self._lock:
            return self._ids.get_or_make(query, lambda: self._choose(query))

    def _choose(self, query: Query) -> Array:
        scope = self.scope(query)
        assert scope is not None
        facts = self.facts(query)
        table = self.table(query)
        chosen = facts.kinds > 0
        if query.which == "all-wrong":
            chosen &= facts.kinds & ANSWERS == WRONG
        elif query.which == "all-right":
            chosen &= facts.kinds & ANSWERS == RIGHT
        elif query.which == "disagreement":
            chosen &= facts.spread > 0
        elif query.which == "errors":
            chosen &= facts.kinds & ERROR > 0
        elif query.which == "metrics-differ":
            chosen &= self._metrics_differ(query)
        if query.outcomes:
            chosen &= facts.kinds & sum(_KINDS[outcome] for outcome in set(query.outcomes)) > 0
        for names, flag in ((query.right, RIGHT), (query.wrong, WRONG)):
            for name in names:
                chosen &= self._has_only(table, name, flag)
        if query.least_score is not None:
            chosen &= facts.score >= query.least_score
        if query.most_score is not None:
            chosen &= facts.score <= query.most_score
        if query.text:
            in_input, answers = self._hits(query)
            places = {"both": in_input | (answers > 0), "input": in_input, "answers": answers > 0}
            chosen &= places[query.place]
        if query.sample_ids:
            chosen &= self._has_sample_id(table, query.sample_ids)
        if query.hashes:
            matching = [
                matches_any(table.hash_of(number), query.hashes)
                for number in range(table.questions)
            ]
            chosen &= np.array(matching, dtype=np.bool_)
        order = self._order(query, scope, facts)
        return order[chosen[order]]

    def _order(self, query: Query, scope: Scope, facts: Facts) -> Array:
        """The questions of a scope in the order of a query; those without a value come last."""
        with np.errstate(invalid="ignore", divide="ignore"):
            value = facts.score if scope.graded else facts.right / facts.models
        if scope.graded and scope.lower_is_better:
            value = -value
        if query.sort == "order":
            return np.arange(len(value))
        if query.sort == "hardest":
            return np.argsort(value, kind="stable")
        if query.sort == "easiest":
            highest_first = value
        elif query.sort == "disagreement":
            highest_first = facts.spread
        elif query.sort == "longest-input":
            highest_first = self._input_chars(query).astype(np.float64)
        elif query.sort == "longest-output":
            highest_first = self._output_chars(query)
        else:
            highest_first = facts.errors.astype(np.float64)
        return np.argsort(-highest_first, kind="stable")

    def _has_only(self, table: ScopeRecords, model: str, flag: int) -> Array:
        """Whether a model has answers to each question, and all of them with one verdict."""
        found = np.zeros(table.questions, dtype=np.bool_)
        if model in table.models:
            cells = table.cells
            is_own = cells.model == table.models.index(model)
            found[cells.question[is_own & (cells.flags & ANSWERS == flag)]] = True
        return found

    def _has_sample_id(self, table: ScopeRecords, patterns: Sequence[str]) -> Array:
        ids = table.records.sample_ids
        matching = [matches_any(str(sample_id), patterns) for sample_id in ids]
        of_record = np.array(matching, dtype=np.bool_)[table.records.sample_id[table.place]]
        found = np.zeros(table.questions, dtype=np.bool_)
        found[table.question[of_record]] = True
        return found

    def _metrics_differ(self, query: Query) -> Array:
        """Whether another metric of the same models has another outcome of a model on each question."""
        scope = self.scope(query)
        table = self.table(query)
        assert scope is not None
        found = np.zeros(table.questions, dtype=np.bool_)
        mine = _flags_by_question(table)
        for other in self.scopes:
            is_same = (
                other.evaluation_name == scope.evaluation_name and other.models == scope.models
            )
            if is_same and other.metric != scope.metric:
                others = self.table(query_of(other))
                for name, flags in zip(others.names, _flags_by_question(others), strict=True):
                    number = table.numbers.get(name)
                    if number is not None and mine[number] != flags:
                        found[number] = True
        return found

    def _input_chars(self, query: Query) -> Array:
        table = self.table(query)
        found: Array = table.gather("input_characters")[table.first]
        return found

    def _output_chars(self, query: Query) -> Array:
        """By question: the mean over models of the mean length of their answers.

        NaN without answers.
        """
        scope = self.scope(query)
        table = self.table(query)
        assert scope is not None
        return mean_lengths(table, self._positions(scope, query.models))

    def search(
        self,
        text: str,
        evaluation: str | None = None,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> None:
        """Find a text in the inputs and answers of an evaluation, or of all of them, if this was not done already."""
        with self._lock:
            if (text, None) in self._found or (text, evaluation) in self._found:
                return
            numbers = range(len(self.selection.parts))
            if evaluation is not None:
                numbers = self.selection.number_parts(evaluation)
            hits = find_phrase(self.selection, numbers, text, jobs=jobs, progress=progress)
            self._found.get_or_make((text, evaluation), lambda: hits, _KEPT_SEARCHES)

    def _hits(self, query: Query) -> tuple[Array, Array]:
        """By question: whether its input has the text of a query, and how many answers of chosen models have it."""
        self.search(query.text, query.evaluation_name)
        scope = self.scope(query)
        table = self.table(query)
        assert scope is not None
        key = (
            (query.text, None)
            if (query.text, None) in self._found
            else (query.text, query.evaluation_name)
        )
        numbers, places = self._found[key]
        order = np.argsort(table.number, kind="stable")
        at = np.searchsorted(table.number[order], numbers)
        at[at == len(order)] = 0
        there = order[at] if len(order) else at
        is_own = table.number[there] == numbers if len(order) else np.zeros(len(at), dtype=np.bool_)
        records = there[is_own]
        places = places[is_own]
        in_input = np.zeros(table.questions, dtype=np.bool_)
        in_input[table.question[records[places & 1 > 0]]] = True
        positions = self._positions(scope, query.models)
        in_answer = places & 2 > 0
        if positions is not None:
            in_answer &= positions[table.model[records]]
        return in_input, np.bincount(table.question[records[in_answer]], minlength=table.questions)

    def page(self, query: Query, offset: int = 0, limit: int = 100) -> Page:
        """Some of the questions that a query chooses, in its order.

        None if there is no such scope.
        """
        ids = self.ids(query)
        return Page(total=len(ids), rows=self.rows(query, ids[offset : offset + limit].tolist()))

    def pages(self, queries: Sequence[Query], limit: int) -> list[Page]:
        """The first page of each of many queries."""
        found = []
        for query in queries:
            ids = self.ids(query)
            found.append(Page(total=len(ids), rows=self._rows(query, ids[:limit].tolist())))
        self._add_texts([row for page in found for row in page.rows])
        return found

    def rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        """Some questions of the scope of a query, in the given order, as its models have answered them."""
        found = self._rows(query, ids)
        self._add_texts(found)
        return found

    def _add_texts(self, rows: Sequence[QuestionRow]) -> None:
        """Set what is in the texts of the first records of questions."""
        ordered = sorted(rows, key=lambda row: row.first)
        numbers = np.array([row.first for row in ordered], dtype=np.int64)
        distinct, places = np.unique(numbers, return_inverse=True)
        excerpts = list(read_excerpts(self.selection, distinct))
        for row, place in zip(ordered, places.tolist(), strict=True):
            row.sample_id, row.excerpt, row.metadata = excerpts[place]

    def _rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        """The same without texts."""
        if not ids:
            return []
        scope = self.scope(query)
        table = self.table(query)
        facts = self.facts(query)
        assert scope is not None
        input_chars = self._input_chars(query)
        output_chars = self._output_chars(query)
        distance = spread_range(table) if scope.graded else 1.0
        hits = self._hits(query) if query.text else None
        found = []
        for number in ids:
            models = int(facts.models[number])
            right = float(facts.right[number])
            spread = _or_none(facts.spread[number])
            found.append(
                QuestionRow(
                    number=number,
                    first=int(table.number[table.first[number]]),
                    evaluation_name=scope.evaluation_name,
                    metric=scope.metric,
                    name=table.names[number],
                    sample_hash=table.hash_of(number),
                    sample_id="",
                    excerpt="",
                    models=models,
                    right=right,
                    share=right / models if models else None,
                    mean_score=_or_none(facts.score[number]),
                    disagreement=None if spread is None else min(spread / distance, 1.0),
                    errors=int(facts.errors[number]),
                    input_chars=int(input_chars[number]),
                    output_chars=_or_none(output_chars[number]),
                    metadata={},
                    in_input=None if hits is None else bool(hits[0][number]),
                    in_answers=None if hits is None else int(hits[1][number]),
                )
            )
        return found

    def find(self, text: str, limit: int = 1_000, shortest: int = 1) -> list[QuestionRow]:
        """Find questions by their `sample_hash`, or else by a `sample_id`, or else by the beginning of a hash.

        A question is listed once per metric. The beginning of a hash needs at least `shortest`
        characters.
        """
        found: list[tuple[int, Scope, int]] = []
        for scope_number, numbers in find_questions(self.selection, text, shortest, limit):
            scope = self.scopes[scope_number]
            table = self.table(query_of(scope))
            places = np.flatnonzero(np.isin(table.number, numbers))
            questions = np.unique(table.question[places]).tolist()
            found += [(int(table.number[table.first[one]]), scope, one) for one in questions]
        found.sort(key=lambda one: one[0])
        rows = [
            row
            for _, scope, question in found[:limit]
            for row in self._rows(query_of(scope), [question])
        ]
        self._add_texts(rows)
        return rows

    def prefixes_of(self, hashes: Iterable[str], shortest: int) -> dict[str, str]:
        """The shortest beginning of each `sample_hash`, of at least so many characters, that `find`s no other hash."""
        return shortest_prefixes(self.selection, hashes, shortest)

    def number_of(self, query: Query, name: str) -> int | None:
        """Find a question by its name; if the hash is split in another metric only, its first question here."""
        if self.scope(query) is None:
            return None
        table = self.table(query)
        starts = [
            name,
            *(name[:at] for at, char in enumerate(name) if char == "/"),
        ]  # a hash may have a slash
        whole = [number for one in starts if (number := table.numbers.get(one)) is not None]
        split = (
            number
            for number, own in enumerate(table.names)
            if any(own.startswith(f"{one}/") and table.hash_of(number) == one for one in starts)
        )
        return next(chain(whole, split), None)

    def row(self, query: Query, name: str) -> QuestionRow | None:
        """One question of a scope (`QuestionRow.name`), as the models of the query have answered it."""
        number = self.number_of(query, name)
        return None if number is None else self._one(query, number)

    def _one(self, query: Query, number: int) -> QuestionRow:
        return self.rows(query, [number])[0]

    def neighbours(
        self, query: Query, name: str, model: str | None = None
    ) -> tuple[QuestionRow | None, QuestionRow | None]:
        """The questions before and after one, in the order of the query.

        None if there is none, or it is not chosen.

        With a model, the nearest questions that it has a record of.
        """
        ids, at = self._position(query, name)
        if at is None:
            return None, None
        return self._first(query, ids[:at][::-1], model), self._first(query, ids[at + 1 :], model)

    def _first(self, query: Query, ids: Array, model: str | None) -> QuestionRow | None:
        """The first of some questions, or the first that a model has a record of."""
        if model is not None:
            table = self.table(query)
            if model not in table.models:
                return None
            ids = ids[np.isin(ids, table.question[table.model == table.models.index(model)])]
        return self._one(query, int(ids[0])) if len(ids) else None

    def next_disagreement(self, query: Query, name: str) -> QuestionRow | None:
        """The next question on which the models disagree.

        The first one if the query does not choose the question.
        """
        ids, at = self._position(query, name)
        following = ids[0 if at is None else at + 1 :]
        if not len(following):
            return None
        disputed = following[self.facts(query).spread[following] > 0]
        return self._one(query, int(disputed[0])) if len(disputed) else None

    def _position(self, query: Query, name: str) -> tuple[Array, int | None]:
        ids = self.ids(query)
        number = self.number_of(query, name)
        if number is None:
            return ids, None
        places = np.flatnonzero(ids == number)
        return ids, int(places[0]) if len(places) else None

    def outcomes(self, query: Query, name: str) -> dict[str, Outcome]:
        """What each model of a scope made of a question: the best first, in the end those without an answer."""
        scope = self.scope(query)
        number = self.number_of(query, name)
        if scope is None or number is None:
            return {}
        table = self.table(query)
        cells = table.cells
        places = np.flatnonzero(cells.question == number)
        values = (cells.score if scope.graded else cells.share)[places].tolist()
        sign = 1 if scope.lower_is_better else -1
        known = {}
        for model, flags, value in zip(
            cells.model[places].tolist(), cells.flags[places].tolist(), values, strict=True
        ):
            known[model] = flags, value if flags & ANSWERS else None

        def order(model: int) -> tuple[bool, bool, float]:
            flags, value = known.get(model, (0, None))
            return not flags, value is None, sign * (value or 0)

        ordered = sorted(range(len(scope.models)), key=order)
        return {
            scope.models[model]: OUTCOMES_BY_FLAGS[known.get(model, (0,))[0]] for model in ordered
        }

    def trials(self, query: Query, name: str) -> dict[str, list[Outcome]]:
        """The outcome of each record of the models that have several of a question, in the order of trials."""
        number = self.number_of(query, name)
        if number is None:
            return {}
        table = self.table(query)
        counts = np.bincount(table.model[table.question == number], minlength=len(table.models))
        several = {table.models[model] for model in np.flatnonzero(counts > 1).tolist()}
        found = self._trials_of(table, np.flatnonzero(table.question == number), several)
        return {
            model: [OUTCOMES_BY_FLAGS[trial.flag] for trial in trials]
            for (_, model), trials in found.items()
            if model in several
        }

    def _trials_of(
        self,
        table: ScopeRecords,
        places: Array,
        models: Collection[str] | None = None,
        *,
        texts: bool = True,
    ) -> dict[tuple[int, str], list[Trial]]:
        """The records at some places by question and model.

        In the order of trials, if their texts are read.
        """
        if models is not None:
            wanted = np.array([model in models for model in table.models], dtype=np.bool_)
            places = places[wanted[table.model[places]]]
        places = places[np.argsort(table.number[places], kind="stable")]
        return read_trials(self.selection, table, places, texts=texts)

    def values(
        self,
        query: Query,
        models: Sequence[str],
        *,
        graded: bool | None = None,
        repeats: RepeatsAs = MEAN,
    ) -> dict[str, tuple[Value, ...]]:
        """By name (`QuestionRow.name`), the value of each of some models on a question.

        None without an answer.

        The value is the share of right answers, or the score if the metric is graded; `graded` says
        so if it must be the same in several corpora. Several answers become one value, an exact
        one, as `repeats` says.
        """
        scope = self.scope(query)
        if scope is None:
            return {}
        table = self.table(query)
        cells = table.cells
        by_score = (scope.graded if graded is None else graded) and not repeats.by_verdict
        ids = self.ids(query)
        column_of = {model: column for column, model in enumerate(models)}
        columns = np.array([column_of.get(model, -1) for model in table.models], dtype=np.int64)
        row_of = np.full(table.questions, -1, dtype=np.int64)
        row_of[ids] = np.arange(len(ids))
        rows: list[list[Value]] = [[None] * len(models) for _ in range(len(ids))]
        places = np.flatnonzero((row_of[cells.question] >= 0) & (columns[cells.model] >= 0))
        values = (cells.score if by_score else cells.share)[places]
        found = zip(
            row_of[cells.question[places]].tolist(),
            columns[cells.model[places]].tolist(),
            cells.flags[places].tolist(),
            cells.records[places].tolist(),
            values.tolist(),
            strict=True,
        )
        several = np.zeros(len(cells.question), dtype=np.bool_)
        for place, (row, column, flags, records, value) in zip(places.tolist(), found, strict=True):
            if records > 1:
                several[place] = True
            else:
                rows[row][column] = repeats.alone(value if flags & ANSWERS else None, flags)
        if several.any():
            of_several = np.flatnonzero(several[cells.place])
            trials = self._trials_of(table, of_several, texts=repeats.kind in ("majority", "first"))
            for (question, model), some in trials.items():
                rows[row_of[question]][column_of[model]] = repeats.value(some, graded=by_score)
        return {
            table.names[number]: tuple(row) for number, row in zip(ids.tolist(), rows, strict=True)
        }

    def blocks(
        self, query: Query, models: Sequence[str], *, graded: bool, common: bool = False
    ) -> Iterator[Array]:
        """Yield the values of some models, many questions at a time: questions × models, NaN without an answer.

        With `common`, only questions that all of them have answered.
        """
        table = self.table(query)
        cells = table.cells
        column_of = {model: column for column, model in enumerate(models)}
        columns = np.array([column_of.get(model, -1) for model in table.models], dtype=np.int64)
        is_wanted = (columns[cells.model] >= 0) & (cells.flags & ANSWERS > 0)
        question = cells.question[is_wanted]
        column = columns[cells.model[is_wanted]]
        values = (cells.score if graded else cells.share)[is_wanted]
        step = max(_CELLS // max(len(models), 1), 1)
        for start in range(0, table.questions, step):
            begin, end = np.searchsorted(question, [start, start + step]).tolist()
            block = np.full((min(step, table.questions - start), len(models)), np.nan)
            block[question[begin:end] - start, column[begin:end]] = values[begin:end]
            yield block[~np.isnan(block).any(axis=1)] if common else block

    def pairs(
        self, first: Query, second: Query
    ) -> Iterator[tuple[str, str, Trial | None, Trial | None]]:
        """The verdicts of two metrics on the same answers (`match_trials`), with the names of question and model.

        An answer that only one of them judged has None for the other. If the queries choose
        questions by outcome, those that only one of them chooses are left out.
        """
        others = self.records(second)
        alone: dict[str, dict[str, list[Trial]]] = {}
        for name, records in self.records(first).items():
            if name in others:
                yield from _pairs_of(name, records, others.pop(name))
            else:
                alone[name] = records
        if alone and others:
            alone = {self._split_name(first, name): records for name, records in alone.items()}
            others = {self._split_name(second, name): records for name, records in others.items()}
        for name in alone.keys() & others.keys() if first.outcomes else {**alone, **others}:
            yield from _pairs_of(name, alone.get(name, {}), others.get(name, {}))

    def _split_name(self, query: Query, name: str) -> str:
        """The name of a question where its hash is split, as it may be for one metric only; if it has one sample_id."""
        only, *others = self.sample_ids_of(query, name)
        end = f"/{only.decode()}"
        return name if others or name.endswith(end) else name + end

    def sample_ids_of(self, query: Query, name: str) -> list[bytes]:
        """The different `sample_id`s of the records of a question, spelled in JSON."""
        number = self.number_of(query, name)
        assert number is not None
        table = self.table(query)
        codes = table.records.sample_id[table.place][table.question == number]
        return [spell(table.records.sample_ids[code]) for code in dict.fromkeys(codes.tolist())]

    def records(self, query: Query) -> dict[str, dict[str, list[Trial]]]:
        """By name of the question and by model: the records of the questions and models of a query."""
        scope = self.scope(query)
        if scope is None:
            return {}
        table = self.table(query)
        ids = self.ids(query)
        places = np.flatnonzero(np.isin(table.question, ids))
        trials = self._trials_of(table, places, query.models or None)
        found: dict[str, dict[str, list[Trial]]] = {
            table.names[number]: {} for number in ids.tolist()
        }
        for (number, model), some in trials.items():
            found[table.names[number]][model] = some
        return found

    def answer_counts(self, query: Query, repeats: RepeatsAs) -> dict[str, tuple[int, int]]:
        """How many answers each model gave to the questions that count, and how many of these are right."""
        table = self.table(query)
        cells = table.cells
        is_answer = table.flag & ANSWERS > 0
        if repeats.errors_as_wrong:
            is_answer = np.ones(len(table.flag), dtype=np.bool_)
        answers = np.bincount(cells.place[is_answer], minlength=len(cells.question))
        counts = is_answer & (answers[cells.place] >= repeats.k)
        number = np.bincount(table.model[counts], minlength=len(table.models)).tolist()
        right = np.bincount(
            table.model[counts & (table.flag == RIGHT)], minlength=len(table.models)
        ).tolist()
        return dict(zip(table.models, zip(number, right, strict=True), strict=True))

    def numbers_of(self, query: Query) -> Array:
        """The numbers of the records of the questions and models of a query, in ascending order."""
        scope = self.scope(query)
        if scope is None:
            return np.array([], dtype=np.int64)
        table = self.table(query)
        is_wanted = np.isin(table.question, self.ids(query))
        positions = self._positions(scope, query.models)
        if positions is not None:
            is_wanted &= positions[table.model]
        return np.sort(table.number[is_wanted])

    def answers(
        self, row: QuestionRow, models: Sequence[str] = (), most: int | None = None
    ) -> list[Answer]:
        """Read the answers to a question from the parts, in the order of the corpus.

        Of some models, or of all.

        Raises:
            UsageError: There are more than `most` of them.
        """
        query = Query(evaluation_name=row.evaluation_name, metric=row.metric)
        scope = self.scope(query)
        table = self.table(query)
        assert scope is not None
        is_wanted = table.question == row.number
        positions = self._positions(scope, models)
        if positions is not None:
            is_wanted &= positions[table.model]
        return read_answers(
            self.selection,
            np.sort(table.number[is_wanted]),
            schema=CORPUS_LABELS[self.manifest.schema],
            sample_hash=row.sample_hash,
            has_sources=has_sources(self.manifest),
            most=most,
        )

    @cached_property
    def fields(self) -> list[tuple[str, str]]:
        """The most frequent keys of metadata with a few values, with each of these, the most frequent ones first."""
        counts: dict[str, Counter[str]] = {}
        for part in range(len(self.selection.parts)):
            columns = self.selection.columns(part)
            for key in columns.metadata_keys:
                records = np.bincount(columns.numbers(METADATA + key), minlength=1).tolist()
                values = columns.values(METADATA + key)
                known = zip(values[1:], records[1:], strict=False)
                short = {
                    text_of(value): number
                    for value, number in known
                    if is_short(msgspec.json.encode(value))
                }
                counts.setdefault(key, Counter()).update(short)
        few = {key: some for key, some in counts.items() if 2 <= len(some) <= _MOST_VALUES}
        keys = sorted(few, key=lambda key: (-few[key].total(), key))[:_MOST_FIELDS]
        found = [(-number, key, value) for key in keys for value, number in few[key].items()]
        return [(key, value) for _, key, value in sorted(found)]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _flags_by_question(table: ScopeRecords) -> list[bytes]:
    """By question: the models that have records, and what they made of it."""
    cells = table.cells
    packed = np.stack([cells.model.astype(np.uint32), cells.flags.astype(np.uint32)], axis=1)
    bounds = np.searchsorted(cells.question, np.arange(table.questions + 1)).tolist()
    return [packed[bounds[at] : bounds[at + 1]].tobytes() for at in range(table.questions)]


def _pairs_of(
    name: str, ones: Mapping[str, Sequence[Trial]], others: Mapping[str, Sequence[Trial]]
) -> Iterator[tuple[str, str, Trial | None, Trial | None]]:
    for model in {**ones, **others}:
        for one, other in match_trials(ones.get(model, ()), others.get(model, ())):
            yield name, model, one, other


def scope_of(evaluation: EvaluationSummary) -> Scope:
    return filled(Scope, evaluation, models=tuple(model.model_id for model in evaluation.by_model))


def query_of(scope: Scope) -> Query:
    """All questions of a scope."""
    return Query(evaluation_name=scope.evaluation_name, metric=scope.metric)


def open_index(
    corpus: str | os.PathLike[str],
    filters: Filters = Filters(),  # noqa: B008 - frozen
    groups: Groups = (),
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Index:
    """Open the questions of a corpus: of all records, or of those that match.

    With groups, each is an evaluation.
    """
    check_jobs(jobs)
    return Index(select(corpus, filters, groups, jobs=jobs, progress=progress))


def open_scopes(
    corpus: str | os.PathLike[str],
    filters: Filters,
    groups: Groups = (),
    *,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[Index, list[tuple[Scope, Query]]]:
    """Open the questions of a corpus, and choose its scopes by filters: how commands about questions begin."""
    by_record = Filters(where=filters.where)
    if groups:
        names = {"evaluation": filters.evaluation, "exclude_evaluation": filters.exclude_evaluation}
        by_record = msgspec.structs.replace(by_record, **names)
        filters = msgspec.structs.replace(filters, **dict.fromkeys(names, ()))
    index = open_index(corpus, by_record, groups, jobs=jobs, progress=progress)
    index.direct(as_tuple("lower_is_better", lower_is_better))
    return index, choose_scopes(index.scopes, filters, "all" if groups else metrics)


_REDUCED_CELLS: Final = 1_000_000  # values of questions and models to hold at a time
_MEANS: Final = ("accuracy", "accuracy_standard_error", "mean_score", "score_standard_error")


def reduce_repeats(index: Index, repeats: RepeatsAs) -> list[EvaluationSummary]:
    """Replace the means over answers in results by means over the values that several answers become.

    Answers, right ones, and questions are those that count: not of questions with too few answers.
    """
    reduced = []
    for one in index.evaluations:
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.graded and not repeats.by_verdict
        counts = index.answer_counts(query, repeats)
        models: list[ModelSummary] = []
        while some := one.by_model[len(models) :][: max(_REDUCED_CELLS // one.questions, 1)]:
            names = [model.model_id for model in some]
            values = (
                index.values(query, names, graded=by_score, repeats=repeats)
                for by_score in (False, graded)
            )
            shares, scores = (zip(*found.values(), strict=True) for found in values)
            for model, share, score in zip(
                some, map(mean_of, shares), map(mean_of, scores), strict=True
            ):
                means: dict[str, Any] = dict(zip(_MEANS, (*share[1:], *score[1:]), strict=True))
                with_errors = msgspec.structs.replace(model.errors_as_wrong, **means)
                means |= {
                    "questions": share[0],
                    "questions_answered": share[0],
                    "errors_as_wrong": with_errors,
                }
                means |= dict(zip(("answers", "correct"), counts[model.model_id], strict=True))
                models.append(msgspec.structs.replace(model, **means))
        reduced.append(msgspec.structs.replace(one, graded=graded, by_model=models))
    if reduced and not any(model.questions_answered for one in reduced for model in one.by_model):
        raise NoMatchError(
            f"no model has {counted(repeats.k, 'answer')} to a question, which {repeats} needs"
        )
    return reduced


def choose_scopes(
    scopes: Sequence[Scope], filters: Filters, metrics: str = "judgements"
) -> list[tuple[Scope, Query]]:
    """Choose the scopes that match some filters, each with a query for the questions and models that do.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen
    model.
    """
    chosen = []
    for scope, models in matching_scopes(scopes, filters, lambda scope: scope.models, metrics):
        query = Query(
            evaluation_name=scope.evaluation_name,
            metric=scope.metric,
            models=()
            if len(models) == len(scope.models)
            else tuple(filter(models.__contains__, scope.models)),
            sample_ids=filters.sample_id,
            hashes=filters.hash,
            outcomes=tuple(
                outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name)
            ),
        )
        chosen.append((scope, query))
    return chosen


def other_metrics(index: Index, chosen: Sequence[tuple[Scope, Query]], filters: Filters) -> int:
    """How many metrics are not chosen because they judge no answer: costs and bookkeeping."""
    return (
        len(choose_scopes(index.scopes, filters, "all")) - len(chosen)
        if len(chosen) < len(index.scopes)
        else 0
    )


def check_questions(index: Index, scopes: Iterable[tuple[Scope, Query]], filters: Filters) -> None:
    """Check that some question has a chosen `sample_id` and `sample_hash`, whatever its answers."""
    if not (filters.sample_id or filters.hash):
        return
    examples: dict[str, str] = {}
    for _, query in scopes:
        if index.page(msgspec.structs.replace(query, outcomes=()), limit=1).total:
            return
        first = msgspec.structs.replace(query, outcomes=(), sample_ids=(), hashes=())
        examples |= {
            str(row.sample_id)[:_LONGEST]: row.sample_hash
            for row in index.page(first, limit=_EXAMPLES).rows
        }
    asked = Filters(sample_id=filters.sample_id, hash=filters.hash)
    if filters.sample_id:
        there_are = f"sample_ids: {', '.join(list(examples)[:_EXAMPLES])}, …"
    else:
        there_are = (
            f"hashes: {', '.join(list(examples.values())[:2])}, …; give 'abcd*' for the "
            "beginning of a hash"
        )
    raise NoMatchError(f"no question matches {asked}; {there_are}")


def choose_model(pattern: str, models: Collection[str]) -> str:
    if pattern in models:
        return pattern
    found = [model for model in models if matches_any(model, [pattern])]
    check_patterns("model", [pattern], models)
    if len(found) > 1:
        raise UsageError(
            f"{pattern!r} matches {len(found):,} models: {listed(sorted(found))}. Name one of them"
        )
    return found[0]
