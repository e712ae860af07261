"""The index of a corpus: a SQLite file with one row per question and metric, kept in the user's cache directory.

Its name has the checksum of the manifest, so it is never stale, and two copies of a corpus share it. It is written
under a temporary name, then renamed. So a file with the right name is whole, and two processes that build the same
index do not disturb each other. Whoever builds one removes those that nobody has used for a month.

    one task per part ──▶ files of packed questions, and of questions that may have more records in other parts
    the driver        ──▶ joins the latter, and inserts everything in one transaction
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from hashlib import sha256
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from fastrec.answers.database import Database, open_database
from fastrec.answers.marks import (
    OUTCOMES_BY_FLAGS,
    Cut,
    Facts,
    Marks,
    unpack_numbers,
    unpack_trials,
    values_or_none,
)
from fastrec.answers.reading import Answer, find_phrase, read_answers
from fastrec.answers.scan import Question, Rows, ScanTask, join_questions, read_batches, rows_of, scan_part
from fastrec.answers.table import OUTCOME_FILTERS, Outcome, Page, Query, QuestionRow, Scope
from fastrec.corpus.manifest import MANIFEST, Manifest, read_manifest, read_summary
from fastrec.corpus.scan import (
    PartFile,
    find_split_hashes,
    is_sorted_by_question,
    parts_of,
    run_in_order,
    with_progress,
)
from fastrec.corpus.sources import has_sources
from fastrec.engine import check_jobs
from fastrec.errors import DamagedFileError, NoMatchError, UsageError, counted, listed
from fastrec.filters import Filters, matches_any
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.statistics.exact import Value, mean_of
from fastrec.statistics.repeats import MEAN, RIGHT, RepeatsAs, Trial, match_trials
from fastrec.storage import join, storage_of
from fastrec.storage.local import user_directory
from fastrec.summary.document import EvaluationSummary, ModelSummary, filled
from fastrec.summary.present_choice import check_patterns, matching_scopes, with_directions

_SUFFIX: Final = ".index"
TABLES_SUFFIX: Final = ".tables"
BUILDING: Final = ".building"
CACHED: Final = {_SUFFIX: 30, TABLES_SUFFIX: 30, BUILDING: 1}
"""What fastrec keeps in the cache directory, by suffix: for how many days after its last use."""
_DAY: Final = 24 * 60 * 60
_EXAMPLES: Final = 5  # ids in a message
_LONGEST: Final = 80  # characters of an id in a message


def cache_directory(cache: str | os.PathLike[str] | None = None) -> Path:
    if cache is not None:
        return Path(cache)
    if named := os.environ.get("FASTREC_CACHE"):
        return Path(named)
    return user_directory("XDG_CACHE_HOME", "~/.cache")


def cached_files() -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in cache_directory().iterdir() if path.suffix in CACHED)
    return []


def remove_unused(directory: Path) -> None:
    """Remove what was not used for 30 days, and what a killed process left behind a day ago."""
    now = time.time()
    with suppress(OSError):
        for path in directory.iterdir():
            days = CACHED.get(path.suffix)
            with suppress(OSError):
                if days and now - path.stat().st_mtime > days * _DAY:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _new_file(directory: Path) -> Iterator[Path]:
    """Yield the path of a new file, which is removed in the end unless it is renamed.

    It is in the directory, or in that of temporary files if the directory cannot be written. If the file cannot be
    written, an OSError names it, whoever noticed that.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(directory)
        number, name = tempfile.mkstemp(BUILDING, "", directory)
    except OSError:
        number, name = tempfile.mkstemp(BUILDING, "fastrec-")
    os.close(number)
    path = Path(name)
    try:
        yield path
    except sqlite3.OperationalError as exc:
        raise OSError(errno.EIO, f"the index cannot be written: {exc}", name) from exc
    except OSError as exc:
        exc.filename = exc.filename or name
        raise
    finally:
        with suppress(OSError):
            path.unlink()


def close_to_others(directory: Path) -> None:
    """Let nobody else read a cache directory that an earlier version made; one with other files is not ours alone."""
    with suppress(OSError):
        if all(path.suffix in CACHED for path in directory.iterdir()):
            directory.chmod(0o700)


_INDEX_FORMAT: Final = 11  # to be increased whenever the content of an index changes

# `question` and `marks` have a row per question and scope, `asked` one per question. A question is
# identified by the place of its first record in the corpus, so this is also the order of the corpus. Only questions of
# split hashes have a sample_id in `asked`. `field` has the most frequent keys of metadata that group questions.
_TABLES: Final = """
CREATE TABLE scope (id INTEGER PRIMARY KEY, scope BLOB, models BLOB, range REAL);
CREATE TABLE asked (
    id INTEGER PRIMARY KEY, sample_hash BLOB, sample_id BLOB, excerpt BLOB, input_chars INTEGER, ranges BLOB,
    metadata TEXT
);
CREATE TABLE question (
    scope INTEGER, id INTEGER, kinds INTEGER, models INTEGER, right REAL, score REAL, spread REAL, errors INTEGER,
    low REAL, high REAL, output_chars REAL, input_chars INTEGER, PRIMARY KEY (scope, id)
) WITHOUT ROWID;
CREATE TABLE marks (
    scope INTEGER, id INTEGER, sample_ids BLOB, flags BLOB, shares BLOB, scores BLOB, lengths BLOB,
    outputs BLOB, numbers BLOB, trials BLOB,
    PRIMARY KEY (scope, id)
) WITHOUT ROWID;
CREATE TABLE several_ids (sample_id BLOB, scope INTEGER, id INTEGER);
"""
_INDEXES: Final = """
CREATE TABLE field AS
    SELECT e.key, e.value FROM asked a, json_each(a.metadata) e WHERE e.key IN (
        SELECT k.key FROM asked b, json_each(b.metadata) k GROUP BY k.key
        HAVING count(DISTINCT k.value) BETWEEN 2 AND 100 ORDER BY count(*) DESC, k.key LIMIT 8
    ) GROUP BY e.key, e.value ORDER BY count(*) DESC, e.key, e.value;
CREATE INDEX by_hash ON asked (sample_hash);
CREATE INDEX by_sample_ids ON marks (sample_ids);
CREATE INDEX by_sample_id ON several_ids (sample_id);
"""
_BATCH: Final = 1_000
_FACTS_END: Final = 4 + len(Facts._fields)  # and of output_chars, in a `QuestionEntry`
_decode_ids = msgspec.json.Decoder(list[msgspec.Raw]).decode


def build_index(path: str, corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None) -> None:
    evaluations = read_summary(corpus, manifest).evaluations
    parts = parts_of(corpus, manifest)
    with (
        tempfile.TemporaryDirectory(prefix="fastrec-") as scratch,
        closing(sqlite3.connect(path, isolation_level=None)) as database,
    ):
        scopes = tuple(map(scope_of, evaluations))
        split = find_split_hashes(parts, manifest, evaluations, jobs=jobs)
        tasks = [
            ScanTask(
                part=part,
                number=number,
                scopes=scopes,
                split=split,
                question_fields=manifest.sort_fields[:2] if is_sorted_by_question(manifest) else (),
                turns_field=CORPUS_LABELS[manifest.schema].turns_field,
                rows=f"{scratch}/rows-{number}",
                pieces=f"{scratch}/pieces-{number}",
            )
            for number, part in enumerate(parts)
        ]
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            database.execute(f"PRAGMA {pragma}")  # the file counts only once it is renamed
        database.executescript(_TABLES)
        database.execute("BEGIN")
        results = run_in_order(scan_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs)
        for task, _ in zip(tasks, with_progress(results, parts, progress, "index"), strict=True):
            _insert(database, read_batches(task.rows, Rows))
        # Join the questions that may have records in several parts.
        pieces = merge(*(read_batches(task.pieces, Question) for task in tasks), key=lambda question: question.key)
        joined = (join_questions(list(group)) for _, group in groupby(pieces, key=lambda question: question.key[:3]))
        _insert(database, (rows_of(question, scopes) for question in joined))
        for number, one in enumerate(scopes):
            sql = "SELECT min(low), max(high) FROM question WHERE scope = ?"
            low, high = database.execute(sql, (number,)).fetchone() if one.graded else (0.0, 1.0)
            distance = 1.0 if low is None or low == high else min(high - low, sys.float_info.max)
            row = (number, msgspec.json.encode(one), msgspec.json.encode(one.models), distance)
            database.execute("INSERT INTO scope VALUES (?, ?, ?, ?)", row)
        database.execute("COMMIT")
        database.executescript(_INDEXES)


def scope_of(evaluation: EvaluationSummary) -> Scope:
    return filled(Scope, evaluation, models=tuple(model.model_id for model in evaluation.by_model))


def _insert(database: sqlite3.Connection, rows: Iterable[Rows]) -> None:
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH)):
        database.executemany("INSERT INTO asked VALUES (?, ?, ?, ?, ?, ?, ?)", [row.asked for row in batch])
        entries = [(entry, row.asked[4]) for row in batch for entry in row.entries]
        database.executemany(
            "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*entry[:2], *entry[3:_FACTS_END], input_chars) for entry, input_chars in entries],
        )
        database.executemany(
            "INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*entry[:3], *entry[_FACTS_END:]) for entry, _ in entries],
        )
        for entry, _ in entries:
            if entry[2].count(b",") and len(several := _decode_ids(entry[2])) > 1:
                ids = [(bytes(sample_id), *entry[:2]) for sample_id in several]
                database.executemany("INSERT INTO several_ids VALUES (?, ?, ?)", ids)


class Index(Database):
    """The index of a corpus. May be used by several threads."""

    def __init__(self, corpus: str, manifest: Manifest, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self.corpus = corpus
        self.manifest = manifest
        self.models = sorted({model for scope in self.scopes for model in scope.models})
        self._searching = threading.RLock()

    def search(
        self, text: str, evaluation: str | None = None, *, jobs: int = 1, progress: Progress | None = None
    ) -> None:
        """Find a text in the inputs and answers of an evaluation, or of all of them, if this was not done already."""
        with self._searching:
            if not self.has_found(text, evaluation):
                parts = self.parts(evaluation)
                with closing(find_phrase(parts, text, jobs=jobs, progress=progress)) as hits:
                    self.keep_found(text, evaluation, hits)

    def parts(self, evaluation: str | None) -> list[PartFile]:
        """The parts that may have records of an evaluation, or of any."""
        parts = parts_of(self.corpus, self.manifest)
        if evaluation is None or self.manifest.sort_fields[0] != "evaluation_name":
            return parts
        keys = ((part, part.entry.first.evaluation_name, part.entry.last.evaluation_name) for part in parts)
        return [part for part, first, last in keys if first <= evaluation <= last]

    def ids(self, query: Query) -> array[int]:
        if not query.text:
            return super().ids(query)
        with self._searching:
            self.search(query.text, query.evaluation_name)
            return super().ids(query)

    def direct(self, lower_is_better: Sequence[str]) -> None:
        """Set the directions of metrics that `--lower-is-better` names; their questions are sorted accordingly."""
        self.scopes[:] = with_directions(self.scopes, lower_is_better)

    def page(self, query: Query, offset: int = 0, limit: int = 100) -> Page:
        """Some of the questions that a query chooses, in its order; none if there is no such scope."""
        ids = self.ids(query)
        return Page(total=len(ids), rows=self.rows(query, ids[offset : offset + limit]))

    def pages(self, queries: Sequence[Query], limit: int) -> Iterator[Page]:
        """The first page of each of many queries."""
        for start in range(0, len(queries), _BATCH):
            some = queries[start : start + _BATCH]
            if any(query.text or query.models for query in some):  # what these need is kept for few queries
                yield from (self.page(query, limit=limit) for query in some)
                continue
            chosen = self.many_ids(some)
            firsts = self.many_rows((query, ids[:limit]) for query, ids in zip(some, chosen, strict=True))
            yield from (Page(total=len(ids), rows=rows) for ids, rows in zip(chosen, firsts, strict=True))

    def row(self, query: Query, name: str) -> QuestionRow | None:
        """One question of a scope (`QuestionRow.name`), as the models of the query have answered it."""
        number = self.number_of(query, name)
        return None if number is None else self._one(query, number)

    def neighbours(
        self, query: Query, name: str, model: str | None = None
    ) -> tuple[QuestionRow | None, QuestionRow | None]:
        """The questions before and after one, in the order of the query; None if there is none, or it is not chosen.

        With a model, the nearest questions that it has a record of.
        """
        ids, at = self._position(query, name)
        if at is None:
            return None, None
        return self._first(query, ids[:at][::-1], model), self._first(query, ids[at + 1 :], model)

    def _first(self, query: Query, ids: Sequence[int], model: str | None) -> QuestionRow | None:
        """The first of some questions, or the first that a model has a record of."""
        scope = self.scope(query)
        if model is None or scope is None:
            return self._one(query, ids[0]) if ids else None
        cut, _ = cut_of(scope, [model])
        for names, flags in self.marks(query, ids, cut, "flags"):
            for name, flag in zip(names, flags, strict=True):
                if any(flag):
                    return self.row(query, name)
        return None

    def next_disagreement(self, query: Query, name: str) -> QuestionRow | None:
        """The next question on which the models disagree; the first one if the query does not choose the question."""
        ids, at = self._position(query, name)
        following = set(ids[0 if at is None else at + 1 :])
        disputed = self.ids(msgspec.structs.replace(query, which="disagreement"))  # in the same order
        found = next(filter(following.__contains__, disputed), None)
        return None if found is None else self._one(query, found)

    def outcomes(self, query: Query, name: str) -> dict[str, Outcome]:
        """What each model of a scope made of a question: the best first, in the end those without an answer."""
        models, *marks = self._marks_of(query, name, "flags", "shares", "scores")
        scope = self.scope(query)
        if not models or scope is None:
            return {}
        values = values_or_none(Marks(*marks), range(len(models)), graded=scope.graded)
        sign = 1 if scope.lower_is_better else -1
        order = sorted(
            range(len(models)), key=lambda at: (not marks[0][at], values[at] is None, sign * (values[at] or 0))
        )
        return {models[at]: OUTCOMES_BY_FLAGS[marks[0][at]] for at in order}

    def trials(self, query: Query, name: str) -> dict[str, list[Outcome]]:
        """The outcome of each record of the models that have several of a question, in the order of trials."""
        models, packed = self._marks_of(query, name, "trials")
        several = unpack_trials(packed).items()
        return {models[at]: [OUTCOMES_BY_FLAGS[trial.flag] for trial in trials] for at, trials in several}

    def _marks_of(self, query: Query, name: str, *columns: str) -> tuple[Any, ...]:
        """The models of a scope, and columns of their marks of a question; nothing if there is none."""
        scope, number = self.scope(query), self.number_of(query, name)
        if scope is None or number is None:
            return (), *(b"" for _ in columns)
        _, *packed = next(self.marks(query, [number], Cut(range(len(scope.models))), *columns))
        return scope.models, *(one for (one,) in packed)

    def values(
        self, query: Query, models: Sequence[str], *, graded: bool | None = None, repeats: RepeatsAs = MEAN
    ) -> dict[str, tuple[Value, ...]]:
        """By name (`QuestionRow.name`), the value of each of some models on a question; None without an answer.

        The value is the share of right answers, or the score if the metric is graded; `graded` says so if it must be
        the same in several corpora. Several answers become one value, an exact one, as `repeats` says.
        """
        scope = self.scope(query)
        if scope is None:
            return {}
        cut, positions = cut_of(scope, models)
        places = [positions.get(model, (None, None)) for model in models]
        chosen = [at for _, at in places]
        by_score = (scope.graded if graded is None else graded) and not repeats.by_verdict

        @lru_cache(maxsize=1 << 12)  # of few models, most questions have the same marks as another one
        def values(trials: bytes, flags: bytes, *marks: bytes) -> tuple[Value, ...]:
            found: list[Value] = list(values_or_none(Marks(flags, *marks), chosen, graded=by_score))
            several = unpack_trials(trials)
            if several or repeats != MEAN:
                for column, (number, at) in enumerate(places):
                    if number in several:
                        found[column] = repeats.value(several[number], graded=by_score)
                    elif at is not None:
                        found[column] = repeats.alone(found[column], flags[at])
            return tuple(found)

        names = ("trials", "flags", "shares", *(["scores"] if by_score else []))
        found: dict[str, tuple[Value, ...]] = {}
        for questions, *marks in self.marks(query, self.ids(query), cut, *names):
            found.update(zip(questions, map(values, *marks), strict=True))
        return found

    def pairs(self, first: Query, second: Query) -> Iterator[tuple[str, str, Trial | None, Trial | None]]:
        """The verdicts of two metrics on the same answers (`match_trials`), with the names of question and model.

        An answer that only one of them judged has None for the other. If the queries choose questions by outcome, those
        that only one of them chooses are left out.
        """
        others = dict(self.records(second))
        alone: dict[str, dict[str, list[Trial]]] = {}
        for name, records in self.records(first):
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
        number = self.number_of(query, name)
        assert number is not None
        _, (ids,) = next(self.marks(query, [number], Cut([]), "sample_ids"))
        only, *others = _decode_ids(ids)
        end = f"/{bytes(only).decode()}"
        return name if others or name.endswith(end) else name + end

    def records(self, query: Query) -> Iterator[tuple[str, dict[str, list[Trial]]]]:
        scope = self.scope(query)
        models = enumerate(scope.models if scope else ())
        chosen = [(at, model) for at, model in models if not query.models or model in query.models]
        cut = Cut(range(len(scope.models) if scope else 0))
        names = ("trials", "numbers", "outputs", "flags", "shares", "scores")
        for batch in self.marks(query, self.ids(query), cut, *names) if scope else ():
            for name, trials, numbers, outputs, *marks in zip(*batch, strict=True):
                several, packed, said = unpack_trials(trials), Marks(*marks), array("Q", outputs)
                number_of = unpack_numbers(numbers)
                scores = values_or_none(packed, [at for at, _ in chosen], graded=True)
                yield (
                    name,
                    {
                        model: several.get(at)
                        or [Trial(packed.flags[at], score or 0.0, said[at], said[at], number_of.get(at, ()))]
                        for (at, model), score in zip(chosen, scores, strict=True)
                        if packed.flags[at]
                    },
                )

    def answers(self, row: QuestionRow, models: Sequence[str] = (), most: int | None = None) -> list[Answer]:
        """Read the answers to a question from the parts, in the order of the corpus; of some models, or of all.

        Raises:
            UsageError: There are more than `most` of them.
        """
        return read_answers(
            parts_of(self.corpus, self.manifest),
            self.ranges(row.number),
            schema=CORPUS_LABELS[self.manifest.schema],
            sample_hash=row.sample_hash,
            metric=row.metric,
            models=frozenset(models),
            sources_in=self.corpus if has_sources(self.manifest) else None,
            most=most,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one(self, query: Query, number: int) -> QuestionRow | None:
        return next(iter(self.rows(query, [number])), None)

    def _position(self, query: Query, name: str) -> tuple[array[int], int | None]:
        ids, number = self.ids(query), self.number_of(query, name)
        try:
            return ids, None if number is None else ids.index(number)
        except ValueError:
            return ids, None


def _pairs_of(
    name: str, ones: Mapping[str, Sequence[Trial]], others: Mapping[str, Sequence[Trial]]
) -> Iterator[tuple[str, str, Trial | None, Trial | None]]:
    for model in {**ones, **others}:
        for one, other in match_trials(ones.get(model, ()), others.get(model, ())):
            yield name, model, one, other


def cut_of(scope: Scope, models: Collection[str]) -> tuple[Cut, dict[str, tuple[int, int]]]:
    """How to cut out the marks of some models, and the position of each in the scope and in what is cut."""
    wanted = set(models)
    numbers = [number for number, model in enumerate(scope.models) if model in wanted]
    cut = Cut(numbers)
    return cut, {scope.models[number]: (number, at) for number, at in zip(numbers, cut.models, strict=True)}


def open_index(
    corpus: str | os.PathLike[str],
    *,
    jobs: int = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Index:
    """Open the index of a corpus; build it first if there is none in the cache directory."""
    check_jobs(jobs)
    corpus = os.fspath(corpus)
    manifest = read_manifest(corpus)
    parts_of(corpus, manifest)
    directory = cache_directory(cache)
    checksum = sha256(storage_of(corpus).read_all(join(corpus, MANIFEST))).hexdigest()
    path = directory / f"{checksum}-{_INDEX_FORMAT}{_SUFFIX}"
    make = partial(Index, corpus, manifest)
    if index := open_database(path, make):
        with suppress(OSError):
            os.utime(path)  # it is in use
        return index
    remove_unused(directory)
    with _new_file(directory) as building:
        build_index(str(building), corpus, manifest, jobs=jobs, progress=progress)
        if building.parent == directory:
            building.replace(path)
        else:  # the directory cannot be written
            path = building
        index = open_database(path, make)
    if index is None:
        raise DamagedFileError(str(path), "it cannot be read after it was written")
    return index


def cache_of(corpus: str, published: Container[str]) -> Path | None:
    """Where `open_index` keeps the index of a corpus: of a temporary one, next to it, since both are removed."""
    return None if corpus in published else Path(corpus).with_name("index")


_CELLS: Final = 1_000_000  # values of questions and models to hold at a time
_MEANS: Final = ("accuracy", "accuracy_standard_error", "mean_score", "score_standard_error")


def reduce_repeats(
    evaluations: Sequence[EvaluationSummary], index: Index, repeats: RepeatsAs
) -> list[EvaluationSummary]:
    """Replace the means over answers in a summary by means over the values that several answers become.

    Answers, right ones, and questions are those that count: not of questions with too few answers.
    """
    reduced = []
    for one in evaluations:
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.graded and not repeats.by_verdict
        counts = _count_answers(index, query, repeats)
        models: list[ModelSummary] = []
        while some := one.by_model[len(models) :][: max(_CELLS // one.questions, 1)]:
            names = [model.model_id for model in some]
            values = (index.values(query, names, graded=by_score, repeats=repeats) for by_score in (False, graded))
            shares, scores = (zip(*found.values(), strict=True) for found in values)
            for model, share, score in zip(some, map(mean_of, shares), map(mean_of, scores), strict=True):
                means: dict[str, Any] = dict(zip(_MEANS, (*share[1:], *score[1:]), strict=True))
                with_errors = msgspec.structs.replace(model.errors_as_wrong, **means)
                means |= {"questions": share[0], "questions_answered": share[0], "errors_as_wrong": with_errors}
                means |= dict(zip(("answers", "correct"), counts[model.model_id], strict=True))
                models.append(msgspec.structs.replace(model, **means))
        reduced.append(msgspec.structs.replace(one, graded=graded, by_model=models))
    if reduced and not any(model.questions_answered for one in reduced for model in one.by_model):
        raise NoMatchError(f"no model has {counted(repeats.k, 'answer')} to a question, which {repeats} needs")
    return reduced


def _count_answers(index: Index, query: Query, repeats: RepeatsAs) -> dict[str, list[int]]:
    """How many answers each model gave to the questions that count, and how many of these are right."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for _, records in index.records(query):
        for model, trials in records.items():
            answers = repeats.answers(trials)
            if len(answers) >= repeats.k:
                counts[model][0] += len(answers)
                counts[model][1] += sum(one.flag == RIGHT for one in answers)
    return counts


def choose_scopes(scopes: Sequence[Scope], filters: Filters, metrics: str = "judgements") -> list[tuple[Scope, Query]]:
    """Choose the scopes that match some filters, each with a query for the questions and models that do.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen model.
    """
    chosen = []
    for scope, models in matching_scopes(scopes, filters, lambda scope: scope.models, metrics):
        query = Query(
            evaluation_name=scope.evaluation_name,
            metric=scope.metric,
            models=() if len(models) == len(scope.models) else tuple(filter(models.__contains__, scope.models)),
            sample_ids=filters.sample_id,
            hashes=filters.hash,
            outcomes=tuple(outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name)),
        )
        chosen.append((scope, query))
    return chosen


def other_metrics(index: Index, chosen: Sequence[tuple[Scope, Query]], filters: Filters) -> int:
    """How many metrics are not chosen because they judge no answer: costs and bookkeeping."""
    return len(choose_scopes(index.scopes, filters, "all")) - len(chosen) if len(chosen) < len(index.scopes) else 0


def check_questions(index: Index, scopes: Iterable[tuple[Scope, Query]], filters: Filters) -> None:
    """Check that some question has a chosen `sample_id` and `sample_hash`, whatever its answers."""
    if not (filters.sample_id or filters.hash):
        return
    examples: dict[str, str] = {}
    for _, query in scopes:
        if index.page(msgspec.structs.replace(query, outcomes=()), limit=1).total:
            return
        first = msgspec.structs.replace(query, outcomes=(), sample_ids=(), hashes=())
        examples |= {str(row.sample_id)[:_LONGEST]: row.sample_hash for row in index.page(first, limit=_EXAMPLES).rows}
    asked = Filters(sample_id=filters.sample_id, hash=filters.hash)
    if filters.sample_id:
        there_are = f"sample_ids: {', '.join(list(examples)[:_EXAMPLES])}, …"
    else:
        there_are = f"hashes: {', '.join(list(examples.values())[:2])}, …; give 'abcd*' for the beginning of a hash"
    raise NoMatchError(f"no question matches {asked}; {there_are}")


def choose_model(pattern: str, models: Collection[str]) -> str:
    if pattern in models:
        return pattern
    found = [model for model in models if matches_any(model, [pattern])]
    check_patterns("model", [pattern], models)
    if len(found) > 1:
        raise UsageError(f"{pattern!r} matches {len(found):,} models: {listed(sorted(found))}. Name one of them")
    return found[0]
