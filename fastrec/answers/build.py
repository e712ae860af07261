"""Build the index of a corpus: scan all parts in parallel, and write a SQLite file.

    one task per part ──▶ files of packed questions, and of questions that may have more records in other parts
    the driver        ──▶ joins the latter, and inserts everything in one transaction

`question` and `marks` have a row per question and scope, `asked` and `search` one per question. A question is
identified by the place of its first record in the corpus, so this is also the order of the corpus.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from heapq import merge
from itertools import groupby, islice
from typing import Final

import msgspec

from fastrec.answers.marks import Facts
from fastrec.answers.questions import Question, Rows, ScopeShape, join, read_batches, rows_of
from fastrec.answers.scan import ScanScope, ScanTask, scan_part
from fastrec.corpus.documents import read_summary
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import PartFile, parts_of, run_in_order, with_progress
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.sorting.keys import FIELDS
from fastrec.summary.document import EvaluationSummary

__all__ = ["INDEX_FORMAT", "build_index"]

INDEX_FORMAT: Final = 4
"""To be increased whenever the content of an index changes."""

_TABLES: Final = """
CREATE TABLE scope (
    id INTEGER PRIMARY KEY, evaluation_name BLOB, metric BLOB, questions INTEGER, models BLOB, graded INTEGER,
    range REAL
);
CREATE TABLE asked (id INTEGER PRIMARY KEY, sample_hash BLOB, excerpt BLOB, input_chars INTEGER, ranges BLOB);
CREATE TABLE search (id INTEGER PRIMARY KEY, text BLOB);
CREATE TABLE question (
    scope INTEGER, id INTEGER, kinds INTEGER, models INTEGER, right REAL, score REAL, spread REAL, errors INTEGER,
    low REAL, high REAL, output_chars REAL, input_chars INTEGER, PRIMARY KEY (scope, id)
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
_BATCH: Final = 1_000
_FACTS_END: Final = 4 + len(Facts._fields)  # and of output_chars, in a `QuestionEntry`
_decode_ids = msgspec.json.Decoder(list[msgspec.Raw]).decode
_QUESTION_FIELDS: Final = set(FIELDS[:2])
"""In a corpus sorted by these two fields first, the records of a question are adjacent."""


def build_index(
    path: str, corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None, limits: Limits
) -> None:
    """Write the index of a corpus to a new file."""
    evaluations = read_summary(corpus, manifest).evaluations
    parts = parts_of(corpus, manifest)
    with (
        tempfile.TemporaryDirectory(prefix="fastrec-") as scratch,
        closing(sqlite3.connect(path, isolation_level=None)) as database,
    ):
        tasks = _tasks(parts, manifest, evaluations, scratch, limits)
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            database.execute(f"PRAGMA {pragma}")  # the file counts only once it is renamed
        database.executescript(_TABLES)
        database.execute("BEGIN")
        results = run_in_order(scan_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
        for task, _ in zip(tasks, with_progress(results, parts, progress, "index"), strict=True):
            _insert(database, read_batches(task.rows, Rows))
        _insert(database, _joined(tasks, [ScopeShape(one.models, one.graded) for one in evaluations]))
        for number, one in enumerate(evaluations):
            _insert_scope(database, number, one)
        database.execute("COMMIT")
        database.executescript(_INDEXES)


def _tasks(
    parts: Sequence[PartFile],
    manifest: Manifest,
    evaluations: Sequence[EvaluationSummary],
    scratch: str,
    limits: Limits,
) -> list[ScanTask]:
    scopes = tuple(
        ScanScope(one.evaluation_name, one.metric, tuple(model.model_id for model in one.by_model), one.graded)
        for one in evaluations
    )
    return [
        ScanTask(
            part=part,
            number=number,
            scopes=scopes,
            sorted_by_question=set(manifest.sort_fields[:2]) == _QUESTION_FIELDS,
            turns_field=CORPUS_LABELS[manifest.schema].turns_field,
            limits=limits,
            rows=f"{scratch}/rows-{number}",
            pieces=f"{scratch}/pieces-{number}",
        )
        for number, part in enumerate(parts)
    ]


def _joined(tasks: Iterable[ScanTask], shapes: list[ScopeShape]) -> Iterator[Rows]:
    """Join the questions that may have records in several parts."""
    pieces = merge(*(read_batches(task.pieces, Question) for task in tasks), key=lambda question: question.key)
    for _, group in groupby(pieces, key=lambda question: question.key[:2]):
        yield rows_of(join(list(group)), shapes)


def _insert(database: sqlite3.Connection, rows: Iterable[Rows]) -> None:
    """Insert packed questions."""
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH)):
        database.executemany("INSERT INTO asked VALUES (?, ?, ?, ?, ?)", [row.asked[:5] for row in batch])
        database.executemany("INSERT INTO search VALUES (?, ?)", [(row.asked[0], row.asked[5]) for row in batch])
        entries = [(entry, row.asked[3]) for row in batch for entry in row.entries]
        database.executemany(
            "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*entry[:2], *entry[3:_FACTS_END], input_chars) for entry, input_chars in entries],
        )
        database.executemany(
            "INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*entry[:3], *entry[_FACTS_END:]) for entry, _ in entries],
        )
        for entry, _ in entries:
            if entry[2].count(b",") and len(several := _decode_ids(entry[2])) > 1:
                ids = [(bytes(sample_id), *entry[:2]) for sample_id in several]
                database.executemany("INSERT INTO several_ids VALUES (?, ?, ?)", ids)


def _insert_scope(database: sqlite3.Connection, number: int, scope: EvaluationSummary) -> None:
    """Insert a scope, with the range of its scores."""
    sql = "SELECT min(low), max(high) FROM question WHERE scope = ?"
    low, high = database.execute(sql, (number,)).fetchone() if scope.graded else (0.0, 1.0)
    distance = 1.0 if low is None or low == high else min(high - low, sys.float_info.max)
    metric = None if scope.metric is None else scope.metric.encode()
    models = msgspec.json.encode([model.model_id for model in scope.by_model])
    row = (number, scope.evaluation_name.encode(), metric, scope.questions, models, scope.graded, distance)
    database.execute("INSERT INTO scope VALUES (?, ?, ?, ?, ?, ?, ?)", row)
