"""The questions of a selection of records, and what models made of them.

    `Selection` ──▶ `ScopeRecords` of a scope ──▶ facts about each question, for all models or some
    ──▶ questions that a query chooses, in its order ──▶ rows

Everything follows from columns, except the texts that are shown: those are read when a row or an
answer is asked for. The facts about a choice of models and the questions of the last queries are
kept, so that the next page is quick.

`choosing` opens a table and chooses scopes, and `values` has the values of models for tests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from fastrec.answers.codes import (
    NO_NUMBERS,
    Array,
    by_code,
    is_there,
    none_if_nan,
    rows_of,
)
from fastrec.answers.counts import count_evaluations
from fastrec.answers.facts import Facts, facts_of, mean_lengths, spread_range
from fastrec.answers.finding import find_questions
from fastrec.answers.phrases import IN_ANSWER, IN_INPUT, Phrases
from fastrec.answers.reading import Answer, is_short, read_answers, read_excerpts
from fastrec.answers.records import (
    ANSWERS,
    ERROR,
    RIGHT,
    WRONG,
    RecordsOfScopes,
    ScopeRecords,
    name_of_split,
)
from fastrec.answers.selection import Selection
from fastrec.answers.table import (
    OUTCOMES_BY_FLAGS,
    Outcome,
    Page,
    PhraseModel,
    Query,
    QuestionRow,
    Scope,
)
from fastrec.answers.trials import read_trials
from fastrec.corpus.columns import METADATA
from fastrec.filters import matches_any
from fastrec.parameters import Names
from fastrec.schemas.view import encode_json
from fastrec.summary.document import EvaluationSummary, ModelName, ModelSummary, filled
from fastrec.summary.present_choice import with_directions
from fastrec.where import ScopeName, text_of, without_group
from fastrec.wording import Scope as Named

if TYPE_CHECKING:
    from fastrec.answers.items import EvaluationItems

_KEPT = 16  # queries, and choices of models
_MOST_FIELDS = 8  # keys of metadata that are suggested
_MOST_VALUES = 100
_KINDS = {"right": RIGHT, "wrong": WRONG, "error": ERROR}
# Kinds of questions that are flags of items.
ITEM_FLAGS = {"suspected-key": "suspected_key", "near-duplicate": "near_duplicate"}


class QuestionTable:
    """The questions of a selection. May be used by several threads."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.corpus = selection.corpus
        self.manifest = selection.manifest
        self._records = RecordsOfScopes(selection)
        # The results of the selected records, as they are in a summary.
        self._set(count_evaluations(selection, self._records))
        self.models = sorted({model for scope in self.scopes for model in scope.models})
        self._numbers = {name: number for number, name in enumerate(selection.scopes)}
        self._lock = RLock()
        self._facts = lru_cache(_KEPT)(self._find_facts)
        self._ids = lru_cache(_KEPT)(self._choose)
        self._flagged = lru_cache(_KEPT)(self._find_flagged)
        self.phrases = Phrases(selection)

    @cached_property
    def results(self) -> dict[ModelName, ModelSummary]:
        """The results of each model on each evaluation and metric."""
        return results_by_name(self.evaluations)

    def direct(self, lower_is_better: Sequence[str]) -> None:
        """Set the directions of metrics that `--lower-is-better` names.

        Their questions are sorted accordingly.
        """
        if lower_is_better:
            known = self.selection.summary.evaluations
            self._set(with_directions(self.evaluations, lower_is_better, known))

    def direct_like(self, other: QuestionTable) -> None:
        """Set the directions and the primary metrics that another table of the same corpus has."""
        lower = {_name_of(theirs) for theirs in other.scopes if theirs.lower_is_better}
        self._set(
            replace(evaluation, lower_is_better=True, graded=True)
            if _name_of(evaluation) in lower
            else evaluation
            for evaluation in self.evaluations
        )
        self.prefer({_name_of(theirs) for theirs in other.scopes if theirs.primary})

    def prefer(self, primary: Collection[ScopeName]) -> None:
        """Set the primary metrics: these, and no others."""
        self._set(
            replace(evaluation, primary=_name_of(evaluation) in primary)
            for evaluation in self.evaluations
        )

    def _set(self, evaluations: Iterable[EvaluationSummary]) -> None:
        self.evaluations = list(evaluations)
        self.scopes = list(map(scope_of, self.evaluations))

    def scope(self, query: Named) -> Scope | None:
        number = self._numbers.get((query.evaluation_name, query.metric))
        return None if number is None else self.scopes[number]

    def _number(self, query: Named) -> int:
        return self._numbers[query.evaluation_name, query.metric]

    def _scope(self, query: Named) -> Scope:
        return self.scopes[self._number(query)]

    def summary_of(self, query: Named) -> EvaluationSummary:
        """The results of the scope of a query."""
        return self.evaluations[self._number(query)]

    def table(self, query: Named) -> ScopeRecords:
        """The records of the scope of a query."""
        table = self._records.of(self._number(query))
        table.check_models(self._scope(query).models)
        return table

    def facts(self, query: Query) -> Facts:
        """What the models of a query made of each question of its scope."""
        scope = self._scope(query)
        models = () if len(query.models) == len(scope.models) else query.models
        with self._lock:
            return self._facts(scope, models)

    def _find_facts(self, scope: Scope, models: Names) -> Facts:
        table = self.table(scope)
        return facts_of(table, table.are_models(models), graded=scope.graded)

    def ids(self, query: Query) -> Array:
        """The questions that a query chooses, in its order: positions among those of its scope."""
        if not self.scope(query):
            return NO_NUMBERS
        with self._lock:
            return self._ids(query)

    def _choose(self, query: Query) -> Array:
        facts = self.facts(query)
        table = self.table(query)
        chosen = (facts.kinds > 0) & self._is_kind(query, facts)
        for names, flag in ((query.right, RIGHT), (query.wrong, WRONG)):
            for name in names:
                chosen &= _has_only(table, name, flag)
        if query.missing:
            samples = table.sample_ids.codes
            known = samples[table.of_models([query.missing])]
            chosen &= table.count_questions(~np.isin(samples, known)) > 0
        if query.least_score is not None:
            chosen &= facts.score >= query.least_score
        if query.most_score is not None:
            chosen &= facts.score <= query.most_score
        if query.text:
            in_input, answers = self._hits(query)
            places = {"both": in_input | (answers > 0), "input": in_input, "answers": answers > 0}
            chosen &= places[query.place]
        if query.sample_ids:
            chosen &= _has_sample_id(table, query.sample_ids)
        if query.hashes:
            chosen &= _matching(table.hashes, query.hashes)
        order = self._order(query, facts)
        return order[chosen[order]]

    def _is_kind(self, query: Query, facts: Facts) -> Array:
        """Whether each question is of the kind that a query asks for, by all answers to it."""
        if query.which == "metrics-differ":
            is_kind = self._metrics_differ(query)
        else:
            answers = facts.kinds & ANSWERS
            is_kind = {
                "all-wrong": answers == WRONG,
                "all-right": answers == RIGHT,
                "disagreement": facts.spread > 0,
                "errors": facts.kinds & ERROR > 0,
            }.get(query.which, facts.kinds > 0)
        if _flags_of(query):
            flagged = self._flagged(query)
            is_kind = is_kind & [number in flagged for number in range(len(is_kind))]
        if query.outcomes:
            is_kind = is_kind & (facts.kinds & sum(_KINDS[name] for name in {*query.outcomes}) > 0)
        return is_kind

    def items(self, query: Query, *, subset: int | None = None, seed: int = 0) -> EvaluationItems:
        """What scores say about the questions of the scope of a query, by the models that count."""
        from fastrec.answers.items import analyse_items  # noqa: PLC0415 - few commands need it

        table = self.table(query)
        return analyse_items(table, self._scope(query), query.models, subset=subset, seed=seed)

    def _find_flagged(self, query: Query) -> dict[int | None, list[str]]:
        """The flags of the questions that have one of those of a query, by number."""
        table = self.table(query)
        return {
            # Only the name of a question of a split hash has the `sample_id`.
            table.number_of(name_of_split(item.sample_hash, item.sample_ids[0])): item.flags
            for item in self.items(query).questions
            if not _flags_of(query).isdisjoint(item.flags)
        }

    def _order(self, query: Query, facts: Facts) -> Array:
        """The questions of a scope in the order of a query; those without a value come last."""
        scope = self._scope(query)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = facts.score if scope.graded else facts.right / facts.models
        if scope.graded and scope.lower_is_better:
            value = -value
        lowest_first: dict[str, Callable[[], Array]] = {
            "order": lambda: np.arange(len(value)),
            "hardest": lambda: value,
            "easiest": lambda: -value,
            "disagreement": lambda: -facts.spread,
            "errors": lambda: -facts.errors,
            "longest-input": lambda: -self._input_chars(query).astype(np.float64),
            "longest-output": lambda: -self._output_chars(query),
        }
        return np.argsort(lowest_first[query.sort](), kind="stable")

    def _metrics_differ(self, query: Query) -> Array:
        """Whether another metric of the same models has another outcome of a model."""
        scope = self._scope(query)
        table = self.table(query)
        differs = np.zeros(table.questions, dtype=np.bool_)
        for other in self.scopes:
            is_same = (
                other.evaluation_name == scope.evaluation_name and other.models == scope.models
            )
            if is_same and other.metric != scope.metric:
                theirs = self.table(other)
                mine = _flags_by_question(table, theirs)
                for name, flags in _flags_by_question(theirs, table).items():
                    if mine.get(name, flags) != flags:
                        differs[table.number_of(name)] = True
        return differs

    def _input_chars(self, query: Query) -> Array:
        table = self.table(query)
        return np.asarray(table.gather("input_characters")[table.first])

    def _output_chars(self, query: Query) -> Array:
        """By question: the mean over models of the mean length of their answers, or NaN."""
        table = self.table(query)
        return mean_lengths(table, table.are_models(query.models))

    def _hits(self, query: Query) -> tuple[Array, Array]:
        """By question: whether its input has the text of a query, and how many answers have it."""
        table = self.table(query)
        in_input, in_answer = self._places(query)
        return table.count_questions(in_input) > 0, table.count_questions(in_answer)

    def _places(self, query: Query) -> tuple[Array, Array]:
        """By record: whether the text of a query is in its input, and in the answer of a model."""
        table = self.table(query)
        places = self.phrases.places(query.text, query.evaluation_name, table.number)
        in_answer = (places & IN_ANSWER > 0) & table.of_models(query.models)
        return places & IN_INPUT > 0, in_answer

    def found_scopes(self, text: str) -> list[tuple[Scope, int]]:
        """The scopes of the records in which a text was found, and their numbers."""
        records = sorted(self.phrases.by_scope(text).items())
        return [(self.scopes[scope], number) for scope, number in records]

    def _phrase_models(self, query: Query) -> list[PhraseModel]:
        """How many answers of each model have the text of a query, the largest share first."""
        table = self.table(query)
        _, in_answer = self._places(query)
        counts = rows_of(table.count_models(in_answer), table.count_models(table.flag > 0))
        models = [
            PhraseModel(model_id=model, found=hits, answers=number, share=hits / number)
            for model, (hits, number) in zip(table.models, counts, strict=True)
            if model in (query.models or table.models)
        ]
        return sorted(models, key=lambda model: -model.share)

    def page(self, query: Query, offset: int = 0, limit: int = 100) -> Page:
        """Some of the questions that a query chooses, in its order."""
        (page,) = self.pages([query], limit, offset)
        return page

    def pages(self, queries: Sequence[Query], limit: int, offset: int = 0) -> list[Page]:
        """The same of each of many queries."""
        pages = []
        for query in queries:
            ids = self.ids(query)
            page = Page(len(ids), self._rows(query, ids[offset : offset + limit].tolist()))
            if query.text and query.place != "input":
                page.phrase_models = self._phrase_models(query)
            pages.append(page)
        self._add_texts([row for page in pages for row in page.rows])
        return pages

    def rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        """Some questions, in the given order, as the models of a query have answered them."""
        return self._add_texts(self._rows(query, ids))

    def _add_texts(self, rows: list[QuestionRow]) -> list[QuestionRow]:
        """Set what is in the texts of the first records of questions."""
        numbers, places = np.unique([row.first for row in rows], return_inverse=True)
        excerpts = list(read_excerpts(self.selection, numbers.astype(np.int64)))
        for row, place in zip(rows, places.tolist(), strict=True):
            row.sample_id, row.excerpt, row.metadata = excerpts[place]
        return rows

    def _rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        """The same without texts."""
        if not ids:
            return []
        scope = self._scope(query)
        table = self.table(query)
        facts = self.facts(query)
        input_chars = self._input_chars(query)
        output_chars = self._output_chars(query)
        distance = spread_range(table) if scope.graded else 1.0
        hits = self._hits(query) if query.text else None
        flagged = self._flagged(query) if query.flags else {}
        rows = []
        for number in ids:
            models = int(facts.models[number])
            right = float(facts.right[number])
            spread = none_if_nan(facts.spread[number])
            rows.append(
                filled(
                    QuestionRow,
                    scope,
                    number=number,
                    first=int(table.number[table.first[number]]),
                    name=table.names[number],
                    sample_hash=table.hashes[number],
                    sample_id="",
                    excerpt="",
                    models=models,
                    right=right,
                    share=right / models if models else None,
                    mean_score=none_if_nan(facts.score[number]),
                    disagreement=None if spread is None else min(spread / distance, 1.0),
                    errors=int(facts.errors[number]),
                    input_chars=int(input_chars[number]),
                    output_chars=none_if_nan(output_chars[number]),
                    metadata={},
                    in_input=hits and bool(hits[0][number]),
                    in_answers=hits and int(hits[1][number]),
                    flags=flagged.get(number),
                )
            )
        return rows

    def find(
        self,
        text: str,
        limit: int = 1_000,
        shortest: int = 1,
        among: Iterable[Named] | None = None,
    ) -> list[QuestionRow]:
        """Find questions by `sample_hash`, or else by a `sample_id`, or else by a prefix of a hash.

        A question is listed once per metric. The beginning of a hash needs at least `shortest`
        characters.
        """
        rows = []
        wanted = np.array([self._number(scope) for scope in among or self.scopes])
        found = find_questions(self.selection, text, shortest, limit, wanted)
        for scope_number, numbers in found:
            query = query_of(self.scopes[scope_number])
            table = self.table(query)
            questions = np.unique(table.question[np.isin(table.number, numbers)])
            rows += self._rows(query, questions.tolist())
        rows.sort(key=attrgetter("first"))
        return self._add_texts(rows[:limit])

    def number_of(self, query: Query, name: str) -> int | None:
        """Find a question by its name."""
        return self.table(query).number_of(name) if self.scope(query) else None

    def row(self, query: Query, name: str) -> QuestionRow | None:
        """A question by its name (`QuestionRow.name`), as the models of a query answered it."""
        number = self.number_of(query, name)
        return None if number is None else self.rows(query, [number])[0]

    def neighbours(
        self, query: Query, name: str, model: str | None = None
    ) -> tuple[QuestionRow | None, QuestionRow | None]:
        """The questions before and after one, in the order of the query.

        None if there is none, or it is not chosen. With a model, the nearest questions that it has
        a record of.
        """
        ids, place = self._position(query, name)
        if place is None:
            return None, None
        sides = [ids[:place][::-1], ids[place + 1 :]]
        if model is not None:
            table = self.table(query)
            asked = table.question[table.of_models([model])]
            sides = [side[np.isin(side, asked)] for side in sides]
        before, after = (self._first(query, side) for side in sides)
        return before, after

    def next_disagreement(self, query: Query, name: str) -> QuestionRow | None:
        """The next question on which the models disagree.

        The first one if the query does not choose the question.
        """
        ids, place = self._position(query, name)
        following = ids[0 if place is None else place + 1 :]
        if len(following):
            following = following[self.facts(query).spread[following] > 0]
        return self._first(query, following)

    def _first(self, query: Query, ids: Array) -> QuestionRow | None:
        return self.rows(query, [int(ids[0])])[0] if len(ids) else None

    def _position(self, query: Query, name: str) -> tuple[Array, int | None]:
        """The questions that a query chooses, and where a question is among them."""
        ids = self.ids(query)
        number = self.number_of(query, name)
        places = np.flatnonzero(ids == (-1 if number is None else number)).tolist()
        return ids, places[0] if places else None

    def outcomes(self, query: Query, name: str) -> dict[str, tuple[Outcome, float]]:
        """What each model of a scope made of a question, and its score or share of right answers.

        The best comes first, in the end those without an answer.
        """
        number = self.number_of(query, name)
        if number is None:
            return {}
        scope = self._scope(query)
        cells = self.table(query).cells
        places = np.flatnonzero(cells.question == number)
        flags = np.zeros(len(scope.models), dtype=np.uint8)
        flags[cells.model[places]] = cells.flags[places]
        values = np.zeros(len(scope.models))
        values[cells.model[places]] = cells.values(graded=scope.graded)[places]
        lowest_first = values if scope.lower_is_better else -values
        order = np.lexsort((lowest_first, flags & ANSWERS == 0, flags == 0)).tolist()
        return {
            scope.models[model]: (OUTCOMES_BY_FLAGS[flags[model]], float(values[model]))
            for model in order
        }

    def scale(self, query: Query) -> tuple[float, float] | None:
        """The ends of the scale of a graded metric: 0 and 1, or the scores beyond them."""
        if not self._scope(query).graded:
            return None
        scores = self.table(query).cells.score
        return float(scores.min(initial=0)), float(scores.max(initial=1))

    def trials(self, query: Query, name: str) -> dict[str, list[Outcome]]:
        """The outcomes of the models that have several records of a question, by trial."""
        number = self.number_of(query, name)
        if number is None:
            return {}
        table = self.table(query)
        places = np.flatnonzero(table.question == number)
        repeated = table.count_models(places) > 1
        trials = read_trials(table, places[repeated[table.model[places]]])
        return {
            table.models[model]: [OUTCOMES_BY_FLAGS[trial.flag] for trial in own]
            for (_, model), own in trials.items()
        }

    def numbers_of(self, query: Query) -> Array:
        """The numbers of the records of the questions and models of a query, in order."""
        if not self.scope(query):
            return NO_NUMBERS
        return np.sort(self.table(query).number[self.chosen(query)])

    def chosen(self, query: Query) -> Array:
        """By record of a scope: whether a query chooses its question and its model."""
        table = self.table(query)
        is_chosen = np.isin(table.question, self.ids(query))
        return is_chosen & table.of_models(query.models)

    def answers(
        self, row: QuestionRow, models: Sequence[str] = (), most: int | None = None
    ) -> list[Answer]:
        """Read the answers to a question from the parts, in the order of the corpus.

        Of some models, or of all.

        Raises:
            UsageError: There are more than `most` of them.
        """
        table = self.table(row)
        is_chosen = (table.question == row.number) & table.of_models(models)
        numbers = np.sort(table.number[is_chosen])
        return read_answers(self.selection, numbers, row.metric, row.sample_hash, most)

    @cached_property
    def fields(self) -> list[tuple[str, str]]:
        """The most frequent keys of metadata with a few values, with each of these.

        The most frequent values come first.
        """
        counts = defaultdict[str, Counter[str]](Counter)
        for part in range(len(self.selection.parts)):
            columns = self.selection.columns(part)
            for key in columns.metadata_keys:
                records = np.bincount(columns.numbers(METADATA + key), minlength=1).tolist()
                values = columns.values(METADATA + key)
                for value, number in zip(values[1:], records[1:], strict=False):
                    if is_short(encode_json(value)):
                        counts[key][text_of(value)] += number
        few = {key: values for key, values in counts.items() if 2 <= len(values) <= _MOST_VALUES}
        keys = sorted(few, key=lambda key: (-few[key].total(), key))[:_MOST_FIELDS]
        by_number = [(-number, key, value) for key in keys for value, number in few[key].items()]
        return [(key, value) for _, key, value in sorted(by_number)]


def _name_of(scope: Named) -> ScopeName:
    """The name of a scope, or of the one that it is a group of."""
    return without_group(scope.evaluation_name), scope.metric


def _flags_of(query: Query) -> set[str]:
    """The flags that questions must have one of."""
    of_kind = {ITEM_FLAGS[query.which]} if query.which in ITEM_FLAGS else set()
    return of_kind.union(query.flags)


def _has_only(table: ScopeRecords, model: str, flag: int) -> Array:
    """Whether a model has answers to each question, and all of them with one verdict."""
    cells = table.cells
    is_own = table.are_models([model])[cells.model]
    return is_there(cells.question[is_own & (cells.flags & ANSWERS == flag)], table.questions)


def _matching(names: Iterable[str], patterns: Sequence[str]) -> Array:
    return np.array([matches_any(name, patterns) for name in names], dtype=np.bool_)


def _has_sample_id(table: ScopeRecords, patterns: Sequence[str]) -> Array:
    """Whether each question has a record whose `sample_id` matches."""
    codes, sample_ids = table.sample_ids
    is_match = _matching(map(str, sample_ids), patterns)
    return table.count_questions(is_match[codes]) > 0


def _flags_by_question(table: ScopeRecords, other: ScopeRecords) -> dict[str, list[int]]:
    """By name of a question: the models that have records, each with what it made of it.

    A hash that the other metric splits is split here, too.
    """
    table = table.split_by(other.split_hashes())
    cells = table.cells
    flags = cells.flags + 8 * cells.model
    return {table.names[number]: own for number, own in by_code(cells.question, flags)}


def scope_of(evaluation: EvaluationSummary) -> Scope:
    return filled(Scope, evaluation, models=tuple(model.model_id for model in evaluation.by_model))


def results_by_name(evaluations: Iterable[Any]) -> dict[ModelName, Any]:
    """The results of each model on each evaluation and metric."""
    return {
        (evaluation.evaluation_name, evaluation.metric, model.model_id): model
        for evaluation in evaluations
        for model in evaluation.by_model
    }


def query_of(scope: Named) -> Query:
    """All questions of a scope."""
    return Query(evaluation_name=scope.evaluation_name, metric=scope.metric)
