"""The index of a corpus: a SQLite file with one row per question and metric, kept in the user's cache directory.

It is found by the checksum of the manifest, so it is never stale, and two copies of a corpus share it.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

import msgspec

from fastrec.answers.answer import Answer
from fastrec.answers.build import INDEX_FORMAT, build_index
from fastrec.answers.cache import cache_directory, index_name, mark_used, new_file, remove_unused
from fastrec.answers.choices import Cut
from fastrec.answers.database import Database
from fastrec.answers.index_file import open_file
from fastrec.answers.marks import Marks, outcome_of, values_or_none
from fastrec.answers.reading import read_answers
from fastrec.answers.table import Outcome, Page, Query, QuestionRow, Scope
from fastrec.corpus.documents import MANIFEST, read_manifest
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import parts_of
from fastrec.corpus.sources import has_sources
from fastrec.engine import check_jobs
from fastrec.errors import DamagedFileError
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.storage import join, storage_of

__all__ = ["Index", "open_index"]


class Index:
    """The index of a corpus. May be used by several threads."""

    corpus: str
    manifest: Manifest
    scopes: list[Scope]
    """By evaluation, then metric."""
    models: list[str]
    """All models, in order of their ids."""

    def __init__(self, corpus: str, manifest: Manifest, database: Database, limits: Limits) -> None:
        self.corpus = corpus
        self.manifest = manifest
        self.scopes = database.scopes
        self.models = sorted({model for scope in self.scopes for model in scope.models})
        self._database = database
        self._limits = limits

    def page(self, query: Query, offset: int = 0, limit: int = 100) -> Page:
        """Return some of the questions that a query chooses, in its order; none if there is no such scope."""
        ids = self._database.ids(query)
        return Page(total=len(ids), rows=self._database.rows(query, ids[offset : offset + limit]))

    def find(self, text: str, limit: int = 1_000, shortest: int = 1) -> list[QuestionRow]:
        """Return the questions whose `sample_id` is some text, or else whose `sample_hash` begins with it.

        If a `sample_hash` is that text, only these questions are returned. A question is listed once per metric. The
        beginning of a hash needs at least `shortest` characters.
        """
        return self._database.find(text, limit, shortest)

    def prefix_of(self, sample_hash: str, shortest: int) -> str:
        """Return the beginning of a `sample_hash` that `find` needs: it finds no question with another hash.

        It has at least `shortest` characters, if the hash has.
        """
        return self._database.prefix_of(sample_hash, shortest)

    def row(self, query: Query, sample_hash: str) -> QuestionRow | None:
        """Return one question of a scope, as the models of the query have answered it; None if there is none."""
        number = self._database.number_of(query, sample_hash)
        return None if number is None else self._row(query, number)

    def neighbours(self, query: Query, sample_hash: str) -> tuple[QuestionRow | None, QuestionRow | None]:
        """Return the questions before and after one, in the order of the query; None at both ends.

        Two Nones if the query does not choose the question.
        """
        ids, at = self._position(query, sample_hash)
        if at is None:
            return None, None
        before = self._row(query, ids[at - 1]) if at else None
        return before, self._row(query, ids[at + 1]) if at + 1 < len(ids) else None

    def next_disagreement(self, query: Query, sample_hash: str) -> QuestionRow | None:
        """Return the next question on which the models of the query disagree, in the order of the query.

        The first one if the query does not choose the question.
        """
        ids, at = self._position(query, sample_hash)
        found = self._database.first_disputed(query, ids[0 if at is None else at + 1 :])
        return None if found is None else self._row(query, found)

    def outcomes(self, query: Query, sample_hash: str) -> dict[str, Outcome]:
        """Return what each model of a scope made of a question."""
        scope, number = self._database.scope(query), self._database.number_of(query, sample_hash)
        if scope is None or number is None:
            return {}
        everyone = Cut(range(len(scope.models)))
        _, flags = next(self._database.marks(query, [number], everyone, "flags"))
        return {model: outcome_of(kind) for model, kind in zip(scope.models, flags[0], strict=True)}

    def values(
        self, query: Query, models: Sequence[str], *, graded: bool | None = None
    ) -> dict[str, tuple[float | None, ...]]:
        """Return, for each question (by `sample_hash`), the mean value of each of some models; None without an answer.

        The value is the share of right answers, or the score if the metric is graded; `graded` says so if it must be
        the same in several corpora.
        """
        scope = self._database.scope(query)
        if scope is None:
            return {}
        wanted = set(models)
        numbers = [number for number, model in enumerate(scope.models) if model in wanted]
        cut = Cut(numbers)
        positions = {scope.models[number]: at for number, at in zip(numbers, cut.models, strict=True)}
        chosen = [positions.get(model) for model in models]
        by_score = scope.graded if graded is None else graded

        @lru_cache(maxsize=1 << 12)  # of few models, most questions have the same marks as another one
        def values(*marks: bytes) -> tuple[float | None, ...]:
            return values_or_none(Marks(*marks), chosen, graded=by_score)

        names = ("flags", "shares", "scores") if by_score else ("flags", "shares")
        found: dict[str, tuple[float | None, ...]] = {}
        for hashes, *marks in self._database.marks(query, self._database.ids(query), cut, *names):
            found.update(zip(hashes, map(values, *marks), strict=True))
        return found

    def answers(self, row: QuestionRow, models: Sequence[str] = ()) -> list[Answer]:
        """Read the answers to a question from the parts, in the order of the corpus; of some models, or of all."""
        return read_answers(
            parts_of(self.corpus, self.manifest),
            self._database.ranges(row.number),
            schema=CORPUS_LABELS[self.manifest.schema],
            sample_hash=row.sample_hash,
            metric=row.metric,
            models=frozenset(models),
            limits=self._limits,
            sources_in=self.corpus if has_sources(self.manifest) else None,
        )

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row(self, query: Query, number: int) -> QuestionRow | None:
        return next(iter(self._database.rows(query, [number])), None)

    def _position(self, query: Query, sample_hash: str) -> tuple[array[int], int | None]:
        """Return the numbers of the questions that a query chooses, and the position of one among them."""
        ids, number = self._database.ids(query), self._database.number_of(query, sample_hash)
        try:
            return ids, None if number is None else ids.index(number)
        except ValueError:
            return ids, None


def open_index(
    corpus: str | os.PathLike[str],
    *,
    jobs: int = 1,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Index:
    """Open the index of a corpus; build it first if there is none in the cache directory.

    Args:
        corpus: A directory or URL that `normalize` published.
        jobs: Processes to use for building.
        cache: The cache directory; by default `FASTREC_CACHE`, or `fastrec` in the user's cache directory.
        progress: Receives the progress of building.
        limits: Sizes of buffers.

    Raises:
        UsageError: The directory is not a corpus.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    check_jobs(jobs)
    corpus = os.fspath(corpus)
    manifest = read_manifest(corpus)
    parts_of(corpus, manifest)
    directory = cache_directory(cache)
    path = directory / index_name(storage_of(corpus).read_all(join(corpus, MANIFEST)), INDEX_FORMAT)
    if database := _opened(path):
        mark_used(path)
        return Index(corpus, manifest, database, limits)
    remove_unused(directory)
    with new_file(directory) as building:
        build_index(str(building), corpus, manifest, jobs=jobs, progress=progress, limits=limits)
        if building.parent == directory:
            building.replace(path)
        else:  # the directory cannot be written
            path = building
        database = _opened(path)
    if database is None:
        raise DamagedFileError(str(path), "it cannot be read after it was written")
    return Index(corpus, manifest, database, limits)


def _opened(path: Path) -> Database | None:
    """Open an index; None if there is none, or if it is damaged."""
    file = open_file(path)
    if file is None:
        return None
    try:
        return Database(file)
    except (DamagedFileError, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError):
        file.close()
        return None
