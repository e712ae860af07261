"""Build the index of a corpus: scan all parts in parallel, and write a SQLite file.

    one task per part ──▶ files of packed questions, and of questions that may have more records in other parts
    the driver        ──▶ joins the latter, and inserts everything in one transaction

`question` and `marks` have a row per question and scope, `asked` and `search` one per question. A question is
identified by the place of its first record in the corpus, so this is also the order of the corpus.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from heapq import merge
from itertools import groupby
from typing import Final

import msgspec

from fastrec.answers.questions import Question, Rows, ScopeShape, join, read_batches, rows_of
from fastrec.answers.scan import ScanScope, ScanTask, scan_part
from fastrec.corpus.documents import read_summary
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import parts_of, run_in_order, with_progress
from fastrec.limits import Limits
from fastrec.progress import Progress

__all__ = ["INDEX_FORMAT", "build_index"]

INDEX_FORMAT: Final = 1
"""To be increased whenever the content of an index changes."""

_TABLES: Final = """
CREATE TABLE scope (
    id INTEGER PRIMARY KEY, evaluation_name BLOB, metric BLOB, questions INTEGER, models BLOB, graded INTEGER,
    low REAL, high REAL
);
CREATE TABLE asked (id INTEGER PRIMARY KEY, sample_hash BLOB, excerpt BLOB, input_chars INTEGER, ranges BLOB);
CREATE TABLE search (id INTEGER PRIMARY KEY, text BLOB);
CREATE TABLE question (
    scope INTEGER, id INTEGER, kinds INTEGER, models INTEGER, right REAL, score REAL, spread REAL, errors INTEGER,
    output_chars REAL, input_chars INTEGER, PRIMARY KEY (scope, id)
) WITHOUT ROWID;
CREATE TABLE marks (
    scope INTEGER, id INTEGER, sample_ids BLOB, flags BLOB, shares BLOB, scores BLOB, lengths BLOB,
    PRIMARY KEY (scope, id)
) WITHOUT ROWID;
CREATE TABLE several_ids (sample_id BLOB, scope INTEGER, id INTEGER);
"""
_INDEXES: Final = """
CREATE INDEX by_hash ON asked (sample_hash);
CREATE INDEX by_sample_ids ON marks (sample_ids);
CREATE INDEX by_sample_id ON several_ids (sample_id);
"""
_BATCH: Final = 10_000


def build_index(
    path: str, corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None, limits: Limits
) -> None:
    """Write the index of a corpus to a new file."""
    summary = read_summary(corpus, manifest)
    counts = summary.evaluations
    scopes = tuple(
        ScanScope(one.evaluation_name, one.metric, tuple(model.model_id for model in one.by_model), one.graded)
        for one in counts
    )
    parts = parts_of(corpus, manifest)
    by_question = set(manifest.sort_fields[:2]) == {"evaluation_name", "sample_hash"}
    with (
        tempfile.TemporaryDirectory(prefix="fastrec-") as scratch,
        closing(sqlite3.connect(path, isolation_level=None)) as database,
    ):
        tasks = [
            ScanTask(
                part, number, scopes, by_question, limits, f"{scratch}/rows-{number}", f"{scratch}/pieces-{number}"
            )
            for number, part in enumerate(parts)
        ]
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            database.execute(f"PRAGMA {pragma}")  # the file counts only once it is renamed
        database.executescript(_TABLES)
        database.execute("BEGIN")
        bounds: dict[int, tuple[float, float]] = {}
        results = run_in_order(scan_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
        for task, scanned in zip(tasks, with_progress(results, parts, progress, "index"), strict=True):
            for scope, (low, high) in scanned.bounds.items():
                found = bounds.get(scope, (low, high))
                bounds[scope] = min(low, found[0]), max(high, found[1])
            _insert(database, read_batches(task.rows, Rows))
        shapes = [ScopeShape(len(scope.models), scope.graded) for scope in scopes]
        _insert(database, _joined(tasks, shapes))
        database.executemany(
            "INSERT INTO scope VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    number,
                    scope.evaluation_name.encode(),
                    None if scope.metric is None else scope.metric.encode(),
                    counts[number].questions,
                    msgspec.json.encode(scope.models),
                    scope.graded,
                    *bounds.get(number, (None, None)),
                )
                for number, scope in enumerate(scopes)
            ),
        )
        database.execute("COMMIT")
        database.executescript(_INDEXES)


def _joined(tasks: Iterable[ScanTask], shapes: list[ScopeShape]) -> Iterator[Rows]:
    """Join the questions that may have records in several parts."""
    pieces = merge(*(read_batches(task.pieces, Question) for task in tasks), key=lambda question: question.key)
    for _, group in groupby(pieces, key=lambda question: question.key[:2]):
        yield rows_of(join(list(group)), shapes)


def _insert(database: sqlite3.Connection, rows: Iterable[Rows]) -> None:
    """Insert packed questions."""
    for row in rows:
        place, sample_hash, excerpt, input_chars, ranges, text = row.asked
        database.execute("INSERT INTO asked VALUES (?, ?, ?, ?, ?)", (place, sample_hash, excerpt, input_chars, ranges))
        database.execute("INSERT INTO search VALUES (?, ?)", (place, text))
        for scope, _, sample_ids, *columns in row.entries:
            facts, marks = columns[:7], columns[7:]
            database.execute(
                "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (scope, place, *facts, input_chars)
            )
            database.execute("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?)", (scope, place, sample_ids, *marks))
            several = msgspec.json.decode(sample_ids, type=list[msgspec.Raw])
            for sample_id in several if len(several) > 1 else ():
                database.execute("INSERT INTO several_ids VALUES (?, ?, ?)", (bytes(sample_id), scope, place))
