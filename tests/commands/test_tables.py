"""The table `answers` and the matrix, compared with a plain reading of the lines of hostile
records.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.commands.export import tables
from fastrec.errors import ShardMissingError
from tests.commands.reading import answers_of, hostile_records, matrix_of
from tests.lazily import Library
from tests.normalize.normalizing import Corpus, write
from tests.samples import sample
from tests.sizes import examples

duckdb: Any = Library("duckdb")

needs_arrow = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow"
)
needs_duckdb = pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="needs duckdb")

FILTERS: list[dict[str, Any]] = [
    {},
    {"model": "org/*"},
    {"wrong": True},
    {"exclude_evaluation": "e"},
    {"where": "output.raw=0"},
    {"where": ["evaluation.score>0.5", "turns<2"]},
]


def corpus_of(folder: Path, records: list[dict[str, Any]], **options: Any) -> Corpus:
    write(folder / "in.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(
        folder / "in.jsonl", folder / "corpus", allow_empty=True, part_size=2_000, **options
    )
    return Corpus(folder / "corpus")


def matching_lines(corpus: Corpus, filters: dict[str, Any]) -> list[bytes] | None:
    """The lines that match, by the command that reads them all; None if filters are refused."""
    try:
        return [line.rstrip(b"\n") for line in fastrec.cat(corpus.path, **filters)]
    except fastrec.FastrecError:
        return None


@needs_arrow
@settings(max_examples=examples(8, 300), deadline=None)
@given(
    st.lists(hostile_records, max_size=8),
    st.sampled_from(FILTERS),
    st.sampled_from(["evaluation_name", "model_id"]),
)
def test_answers_are_a_plain_reading_of_the_lines(
    records: list[dict[str, Any]], filters: dict[str, Any], first: str
) -> None:
    """Whatever columns are asked for, also if the answers to a question are in several parts."""
    order = {} if first == "evaluation_name" else {"sort_by": "model_id"}
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder), records, **order)
        lines = matching_lines(corpus, filters)
        if filters and not lines:
            with pytest.raises(fastrec.FastrecError):
                fastrec.table(corpus.path, **filters)
            return
        expected = answers_of(lines or [])
        found = fastrec.table(corpus.path, **filters).to_pylist()
        assert [row.pop("source") for row in found] == [None] * len(found)
        for row, other in zip(found, expected, strict=True):
            assert row == other
            assert repr(row["score"]) == repr(other["score"])  # 0.0 is not -0.0
        for name in ("question", "trial", "error", "metadata"):
            alone = fastrec.table(corpus.path, columns=[name], **filters).to_pylist()
            assert alone == [{name: row[name]} for row in expected]


CONDITIONS = [
    "correct",
    "not correct and score < 0.5",
    "model = 'org/m' or sample_id = '1'",
    "trial = 2",
    "error is not null",
    "error is null and turns = 1",
    "model in ('m', 'x')",
    "input = 'q' and model <> ''",
    "output is not null",
    "tokens_in is null",
]


@needs_arrow
@needs_duckdb
@settings(max_examples=examples(3, 100), deadline=None)
@given(st.lists(hostile_records, min_size=1, max_size=8))
def test_conditions_choose_the_lines_to_read(records: list[dict[str, Any]]) -> None:
    """A query over columns and texts gives what the same query over a copy of the whole table
    gives.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder), records)
        with fastrec.connect(corpus.path) as ours:
            ours.execute("create table copied as from answers")
            for condition in CONDITIONS:
                query = (
                    "select output, question, metadata::text, trial from answers where "
                    f"{condition} order by all"
                )
                found = ours.execute(query).fetchall()
                assert (
                    found == ours.execute(query.replace("from answers", "from copied")).fetchall()
                ), condition


@needs_arrow
@needs_duckdb
def test_only_columns_that_need_it_read_the_lines(tmp_path: Path) -> None:
    """Parts that are gone are noticed by a query that names a text, and only by rows that it needs."""
    corpus = corpus_of(
        tmp_path, [sample(sample_id=number, error="failed" * (number % 2)) for number in range(9)]
    )
    for part in corpus.parts:
        part.unlink()
    texts = ("input", "reference", "output", "error", "metadata")
    with fastrec.connect(corpus.path) as ours:
        names = [name for name in tables.ANSWERS if name not in texts]
        assert len(ours.execute(f"select {', '.join(names)} from answers").fetchall()) == 9
        assert ours.execute("select sum(errors) from questions").fetchone() == (4,)
        assert ours.execute("select sum(answers) from models").fetchone() == (5,)
        assert ours.execute("select output from answers where model = 'nobody'").fetchall() == []
        for name in texts:
            with pytest.raises(duckdb.Error, match="part-00000"):
                ours.execute(f"select {name} from answers").fetchall()
    opened = tables.open_tables(corpus.path)
    for table in ("answers", "records"):
        with (
            pytest.raises(ShardMissingError, match="part-00000"),
            tables.run_query(opened, f"from {table}") as result,
        ):
            list(result.batches)


def table_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@settings(max_examples=examples(8, 300), deadline=None)
@given(
    st.lists(hostile_records, max_size=8),
    st.sampled_from(FILTERS),
    st.sampled_from(["evaluation_name", "model_id"]),
)
def test_the_matrix_is_a_plain_reading_of_the_lines(
    records: list[dict[str, Any]], filters: dict[str, Any], first: str
) -> None:
    """Of several answers of a model to a question, the first counts.

    Scores have all their digits.
    """
    order = {} if first == "evaluation_name" else {"sort_by": "model_id"}
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder), records, **order)
        output = Path(folder, "matrix")
        lines = matching_lines(corpus, filters)
        if filters and not lines:
            with pytest.raises(fastrec.FastrecError):
                fastrec.export(corpus.path, output, format="matrix", **filters)
            assert not output.exists()
            return
        done = fastrec.export(corpus.path, output, format="matrix", raw_cells=True, **filters)
        assert (done.rows, done.text_bytes) == (
            len(lines or []),
            sum(len(line) + 1 for line in lines or []),
        )
        columns, cells = matrix_of(lines or [])
        assert table_of(output / "samples.csv")[1:] == columns
        for number, name in enumerate(("scores.csv", "correct.csv")):
            header, *rows = table_of(output / name)
            assert header == ["model_id", *(column[0] for column in columns)]
            expected = [
                [model, *(found.get(column[0], ("", ""))[number] for column in columns)]
                for model, found in sorted(cells.items())
            ]
            assert rows == expected


@settings(max_examples=examples(8, 100), deadline=None)
@given(st.lists(hostile_records, min_size=1, max_size=8), st.sampled_from(FILTERS[1:]))
def test_filters_leave_out_rows_and_nothing_else(
    records: list[dict[str, Any]], filters: dict[str, Any]
) -> None:
    """A table of matching records has the rows that the table of all records has for these."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder), records)
        lines = matching_lines(corpus, filters)
        if not lines:
            return
        fastrec.export(corpus.path, Path(folder, "all"), format="csv")
        header, *rows = table_of(Path(folder, "all", "records.csv"))
        by_line = dict(zip(corpus.lines, rows, strict=True))
        done = fastrec.export(corpus.path, Path(folder, "some"), format="csv", **filters)
        assert table_of(Path(folder, "some", "records.csv")) == [
            header,
            *(by_line[line] for line in lines),
        ]
        assert done.rows == len(lines)
