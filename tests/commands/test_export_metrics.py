"""`fastrec export` of corpora whose records name a metric: all values in all formats, and no cell
mixes metrics.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastrec
from fastrec.commands.export.parquet import Decoder, batch_of, table_schema
from fastrec.commands.export.table import table_columns
from fastrec.commands.generate import Recipe, lines
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from tests.commands.test_export import (
    assert_equal,
    double,
    exactly,
    exported,
    restored,
    spelled,
    table,
)
from tests.normalize.normalizing import Corpus, normalized, write
from tests.samples import sample_of

METRIC = "evaluation_result_id"
HUGE = 10**30


def later(name: str = "single_turn", **changes: Any) -> dict[str, Any]:
    return sample_of("0.3.0", name, **{"error": None, **changes})


def corpus_of(folder: Path, records: list[dict[str, Any]], **options: Any) -> Corpus:
    write(folder / "a.jsonl", [json.dumps(record).encode() for record in records])
    corpus = normalized(folder / "a.jsonl", folder / "corpus", schema="0.3.0", **options)
    assert len(corpus.lines) == len(records)
    return corpus


def odd_records() -> list[dict[str, Any]]:
    """Lists of every length, scores and counts that no column can hold, unknown keys, absent and
    empty values.
    """
    bare = later(sample_id="bare", output={"raw": []})
    for key in (METRIC, "sample_hash", "token_usage", "performance", "error", "metadata"):
        del bare[key]
    turns = later("agentic")["messages"]
    return [
        bare,
        *(
            later("agentic", sample_id=f"m{n}", **{METRIC: metric})
            for n, metric in enumerate(["", "f1", "\0", "é,\n"])
        ),
        *(
            later(sample_id=f"s{n}", evaluation={"score": score, "is_correct": False})
            for n, score in enumerate([0, 0.0, -0.0, 1, 1.0, 0.5, 2**53 + 1, HUGE, 10**400, 1e300])
        ),
        later(sample_id="refs", input={"raw": "", "reference": ["a", "", "é"], "choices": []}),
        later(
            sample_id="none",
            input={"raw": "q", "reference": []},
            output={"raw": ["x", "yz"], "y": HUGE},
        ),
        later(
            sample_id="texts",
            metadata={"a": "1", "": ""},
            performance={"additional_details": {"b": "2"}, "zz": 1},
        ),
        later("agentic", sample_id="turns", messages=[]),
        later(
            "agentic",
            sample_id="ids",
            messages=[{**turns[1], "tool_call_id": ["a", "b"], "x": [1]}, turns[0]],
        ),
    ]


# Parquet


def test_every_reader_restores_odd_records(tmp_path: Path) -> None:
    """With pyarrow, Polars and DuckDB."""
    corpus = corpus_of(tmp_path, odd_records())
    assert_equal(corpus, exported(corpus, tmp_path / "tables"))


def test_every_reader_restores_generated_records(tmp_path: Path) -> None:
    """Of all versions, upgraded to the latest, in several parts."""
    write(
        tmp_path / "a.jsonl",
        list(lines(Recipe(records=300, seed=4, schema="mixed", unknown_keys=0.3, text="words"))),
    )
    corpus = normalized(
        tmp_path / "a.jsonl", tmp_path / "corpus", part_size=200_000, schema="0.3.0"
    )
    assert len(corpus.parts) > 2
    assert len(corpus.lines) > 250
    assert_equal(corpus, exported(corpus, tmp_path / "tables"))


def test_columns_have_one_type_where_the_schema_has_one() -> None:
    """Lists are lists, ids are text, and only numbers have a second column for their type."""
    columns = table_schema(NEWEST_SCHEMA)
    assert str(columns.field(METRIC).type) == "string"
    assert str(columns.field("input").type.field("reference").type) == "list<item: string>"
    assert str(columns.field("output").type.field("raw").type) == "list<item: string>"
    assert "sample_id_type" not in columns.names
    assert [each.name for each in columns.field("evaluation").type][:3] == [
        "score",
        "score_type",
        "is_correct",
    ]
    assert "messages" in columns.names
    assert METRIC not in table_schema(DEFAULT_SCHEMA).names


# CSV


def test_csv_has_the_metric_and_all_digits(tmp_path: Path) -> None:
    """Of every record, beside the evaluation."""
    corpus = corpus_of(tmp_path, odd_records())
    header, *rows = table(exported(corpus, tmp_path / "csv", format="csv") / "records.csv")
    assert header[:3] == ["evaluation_name", METRIC, "sample_hash"]
    for line, cells in zip(corpus.lines, rows, strict=True):
        record = json.loads(line)
        row = dict(zip(header, cells, strict=True))
        for name in (
            "evaluation_name",
            METRIC,
            "sample_hash",
            "model_id",
            "evaluation_id",
            "sample_id",
        ):
            assert row[name] == record.get(name, "")
        assert row["score"] == double(record["evaluation"]["score"])
        assert row["sample_id_type"] == "string"
        said = record.get("output", {}).get("raw")
        if said is not None:
            assert row["response_characters"] == str(sum(map(len, said)))
        else:
            assert row["turns"] == str(len(record["messages"]))
            calls = sum(len(turn.get("tool_calls", ())) for turn in record["messages"])
            assert row["tool_calls"] == str(calls)


def test_the_sizes_of_a_response_are_the_same_in_parquet(tmp_path: Path) -> None:
    """Also of answers in several texts."""
    corpus = corpus_of(tmp_path, odd_records())
    header, *rows = table(exported(corpus, tmp_path / "csv", format="csv") / "records.csv")
    decoder = Decoder(NEWEST_SCHEMA)
    columns = batch_of([decoder.decode(line) for line in corpus.lines], NEWEST_SCHEMA).to_pylist()
    for cells, row in zip(rows, columns, strict=True):
        named = dict(zip(header, cells, strict=True))
        for name in ("response_characters", "turns", "tool_calls"):
            assert named[name] == spelled(row[name])
        assert exactly(restored(row, NEWEST_SCHEMA))


def test_the_table_of_records_without_metrics_is_as_before() -> None:
    """The first schema version has no such column."""
    assert table_columns(DEFAULT_SCHEMA) == tuple(
        name for name in table_columns(NEWEST_SCHEMA) if name != METRIC
    )


# The matrix


def test_no_cell_of_the_matrix_mixes_metrics(tmp_path: Path) -> None:
    """Each question has a column for each metric; of several answers the first counts.

    Compared with brute force.
    """
    write(
        tmp_path / "a.jsonl",
        list(lines(Recipe(records=500, seed=9, schema="0.3.0", conflicts=0.2))),
    )
    corpus = normalized(
        tmp_path / "a.jsonl", tmp_path / "corpus", part_size=100_000, schema="0.3.0"
    )
    records = [json.loads(line) for line in corpus.lines]
    scopes = {(record["evaluation_name"], record.get(METRIC)) for record in records}
    answers = [record for record in records if not record.get("error")]
    graded = {
        (record["evaluation_name"], record.get(METRIC))
        for record in answers
        if record["evaluation"]["score"] not in (0, 1)
    }
    assert len({name for name, _ in scopes}) < len(scopes)
    assert graded < scopes
    done = fastrec.export(corpus.path, tmp_path / "matrix", format="matrix")

    def column(record: dict[str, Any]) -> str:
        return "/".join(
            [
                record["evaluation_name"],
                *([record[METRIC]] if METRIC in record else []),
                record["sample_hash"],
            ]
        )

    columns = {
        column(record): (record["evaluation_name"], record.get(METRIC)) for record in records
    }
    cells: dict[tuple[str, str], tuple[str, str]] = {}
    for record in answers:
        value = double(record["evaluation"]["score"]), str(int(record["evaluation"]["is_correct"]))
        cells.setdefault((record["model_id"], column(record)), value)
    for index, name in enumerate(("scores.csv", "correct.csv")):
        header, *rows = table(tmp_path / "matrix" / name)
        expected = {each for each, scope in columns.items() if index == 0 or scope not in graded}
        assert set(header[1:]) == expected
        assert len(header) == 1 + len(expected)
        assert [row[0] for row in rows] == sorted({record["model_id"] for record in records})
        for model, *values in rows:
            assert values == [cells.get((model, each), ("", ""))[index] for each in header[1:]]
    header, *rows = table(tmp_path / "matrix" / "samples.csv")
    assert header == ["sample", "evaluation_name", METRIC, "graded", "sample_hash", "sample_id"]
    assert [row[0] for row in rows] == table(tmp_path / "matrix" / "scores.csv")[0][1:]
    for row in rows:
        name, metric = columns[row[0]]
        assert row[1:4] == [name, metric or "", "true" if (name, metric) in graded else "false"]
    left_out = sum(scope in graded for scope in columns.values())
    reason = "their scores are no verdicts"
    assert done.notices == [
        f"{len(records) - len(answers)} records with an error left out: their cells are empty",
        (
            f"{len(answers) - len(cells)} answers left out: only a model's first answer to a question "
            "is in the matrix"
        ),
        f"correct.csv lacks {left_out} columns of graded metrics: {reason}",
    ]
    text = (tmp_path / "matrix" / "README.md").read_text()
    assert "so no column mixes metrics" in text
    assert done.notices[2] in text


def test_eight_metrics_on_ten_samples_are_eighty_columns(tmp_path: Path) -> None:
    """None of their answers is a repeat."""
    records = [
        later(
            sample_id=f"q{number}",
            input={"raw": f"q{number}", "reference": []},
            **{METRIC: f"metric {metric}"},
        )
        for number in range(10)
        for metric in range(8)
    ]
    done = fastrec.export(corpus_of(tmp_path, records).path, tmp_path / "matrix", format="matrix")
    assert done.notices == []
    header, row = table(tmp_path / "matrix" / "scores.csv")
    assert len(set(header)) == 81
    assert row[1:] == ["1.0"] * 80
