"""`fastrec export`: tables have the exact values of the records for every reader, and are published
atomically.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.cli import cli
from fastrec.commands import export as module
from fastrec.commands.export.parquet import Decoder, batch_of, table_schema
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus.writer import ShardWriter
from fastrec.csv_writer import escape_cell
from fastrec.errors import CorpusError, FastrecError, ShardError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.schemas.registry import CORPUS_LABELS, DEFAULT_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from tests import strategies
from tests.answers.small import answer, make_corpus
from tests.lazily import Library
from tests.normalize.normalizing import Corpus, normalized, text_of, without_long, write
from tests.running import run_command
from tests.samples import question, sample
from tests.sizes import examples, few_of

duckdb: Any = Library("duckdb")
pa: Any = Library("pyarrow")
pl: Any = Library("polars")
pq: Any = Library("pyarrow.parquet")

TABLES = tuple(one for one in module.FORMATS if one != "pairs")
OF_LINES = tuple(one for one in TABLES if one != "matrix")

HUGE = 10**30
_STEP = re.compile(r'\.([^.\[]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


@pytest.fixture(autouse=True)
def _long_integers() -> Iterator[None]:
    """Let Python convert integers of any length, as a corpus may have them."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


# From a row back to a record, as the README of an export describes


def restored(row: dict[str, Any], version: Schema = DEFAULT_SCHEMA) -> dict[str, Any]:
    """The record of a row."""
    record = _object(row, version.document)
    for path, value in json.loads(row["extra"] or "{}").items():
        *steps, last = [
            int(number) if number else json.loads(quoted) if quoted else name
            for name, number, quoted in _STEP.findall(path)
        ]
        parent: Any = record
        for step in steps:
            parent = parent[step]
        parent[last] = value
    return record


def _object(row: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _value(row[key], sub, row.get(f"{key}_type"))
        for key, sub in node["properties"].items()
        if row[key] is not None
    }


def _value(value: Any, node: dict[str, Any], type_name: str | None) -> Any:
    if type_name is not None:
        kinds: dict[str, Callable[[Any], Any]] = {
            "integer": int,
            "number": float,
            "boolean": bool,
            "array": list,
        }
        return (
            kinds[type_name](value)
            if type_name in kinds
            else value[0]
            if isinstance(value, list)
            else value
        )
    if "properties" in node:
        return _object(value, node)
    if "properties" in node.get("items", {}):
        return [_object(item, node["items"]) for item in value]
    return json.loads(value) if "object" in node.get("type", ()) else value


def exactly(record: dict[str, Any]) -> bytes:
    """JSON text that differs for 1, 1.0 and true, but not for another order of keys."""
    return msgspec.json.encode(record, order="sorted")


def by_pyarrow(files: list[Path]) -> list[dict[str, Any]]:
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def by_polars(files: list[Path]) -> list[dict[str, Any]]:
    return pl.read_parquet(files).to_dicts()


def by_duckdb(files: list[Path]) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT * FROM read_parquet(?)", [[str(file) for file in files]])
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


READERS = [by_pyarrow, by_polars, by_duckdb]


def assert_equal(corpus: Corpus, output: Path) -> None:
    """Every reader restores every record of a corpus, in order."""
    version = CORPUS_LABELS[corpus.manifest["schema"]]
    files = sorted((output / "data").glob("*.parquet"))
    assert len(files) == max(len(corpus.parts), 1)
    schemas = [pq.read_schema(file) for file in files]
    assert all(each == table_schema(version) for each in schemas)
    expected = [exactly(json.loads(line)) for line in corpus.lines]
    for reader in READERS:
        assert [exactly(restored(row, version)) for row in reader(files)] == expected, (
            reader.__name__
        )


def exported(corpus: Corpus, output: Path, **options: Any) -> Path:
    done = fastrec.export(corpus.path, output, **options)
    assert done.rows == len(corpus.lines)
    assert not list(output.parent.glob(f".{output.name}.*"))
    return output


def bare(**changes: Any) -> dict[str, Any]:
    """A record with only the required fields."""
    record = sample(**changes)
    for key in ("sample_hash", "token_usage", "performance", "error", "metadata"):
        del record[key]
    record["input"] = {"raw": "a", "reference": "b"}
    record["output"] = {"raw": "c"}
    record["evaluation"] = {"score": 1, "is_correct": True}
    return record


def odd_records() -> list[dict[str, Any]]:
    """Records that are hard to hold in columns."""
    tokens = {"input_tokens": HUGE, "output_tokens": 2**63 - 1, "total_tokens": 2**63}
    scores: list[Any] = [
        0,
        0.0,
        -0.0,
        False,
        1,
        1.0,
        True,
        2**53,
        2**53 + 1,
        -(2**53) - 1,
        HUGE,
        10**400,
        1e300,
        0.1,
    ]
    turns = sample("agentic")["interactions"]
    return [
        *(
            sample(sample_id=number, evaluation={"score": score, "is_correct": True})
            for number, score in enumerate(scores)
        ),
        *(
            sample("agentic", sample_id=each)
            for each in ("5", 5, HUGE, -HUGE, int("9" * 5_000), "", "\0", "é\u2028")
        ),
        sample(
            sample_id="tokens",
            token_usage=tokens,
            evaluation={"score": 1, "is_correct": True, "num_turns": HUGE},
        ),
        sample(
            sample_id="long",
            token_usage={**tokens, "input_tokens": int("8" * 5_000)},
            zz=int("7" * 5_000),
        ),
        sample(
            sample_id="times",
            performance={"latency_ms": 12, "time_to_first_token_ms": HUGE, "price": 0.5},
        ),
        sample(sample_id="none", performance={}, metadata={}, answer_attribution=[]),
        sample(sample_id="null", metadata={"a": None, "b": [None, {"c": -0.0}]}, unknown=None),
        sample("multi_turn", sample_id="empty", interactions=[]),
        sample(
            "agentic",
            sample_id="ids",
            interactions=[turns[0], {**turns[1], "tool_call_id": ["a", "b"], "x": [1]}],
        ),
        sample("agentic", sample_id="no ids", interactions=[{**turns[1], "tool_call_id": []}]),
        sample(
            "agentic", sample_id="calls", interactions=[{**turns[0], "tool_calls": []}, turns[0]]
        ),
        sample(
            sample_id="unknown",
            **{"a.b": 1, 'c "d"': {"e": [1.0, 1, True]}, "[0]": "", "long" * 100: 2, "é": None},
        ),
        sample(
            sample_id="inner",
            input={**sample()["input"], "x": 1},
            output={"raw": "", "y": {"z": HUGE}},
        ),
        sample(sample_id="deep", metadata={"a": json.loads("[" * 60 + "]" * 60)}),
        bare(sample_id="bare"),
    ]


# Parquet


def test_every_reader_restores_the_real_records(real: Path, tmp_path: Path) -> None:
    """All values of real records of each kind, with pyarrow, Polars and DuckDB."""
    for kind in sorted(real.iterdir()):
        for shard in few_of(sorted(kind.iterdir()), 2, kind.name):
            some = text_of(shard).splitlines(keepends=True)[: examples(40, 1_000_000)]
            (tmp_path / f"{kind.name}-{shard.name.partition('.')[0]}.jsonl").write_bytes(
                b"".join(some)
            )
    # Another test checks that two processes write the same; starting them takes two seconds.
    jobs = examples(1, 2)
    fastrec.normalize(
        sorted(tmp_path.glob("*.jsonl")), tmp_path / "corpus", jobs=jobs
    )  # other tests check this corpus
    corpus = Corpus(tmp_path / "corpus")
    assert_equal(corpus, exported(corpus, tmp_path / "tables", jobs=jobs))


def test_every_reader_restores_odd_records(tmp_path: Path) -> None:
    """Scores of every type, huge integers, ids of both types, empty and absent values, unknown keys
    at every level.
    """
    write(tmp_path / "a.jsonl", [json.dumps(record).encode() for record in odd_records()])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    assert len(corpus.lines) == len(odd_records())
    assert_equal(corpus, exported(corpus, tmp_path / "tables"))


def test_all_files_have_the_same_columns(tmp_path: Path) -> None:
    """Also if one part has no optional fields and another has all of them."""
    few = [
        bare(evaluation_name="a", sample_id=number, model_id="m" * 99, input=question(number))
        for number in range(25)
    ]
    full = [
        sample("agentic", evaluation_name="b", sample_id=number, zz=number, input=question(number))
        for number in range(25)
    ]
    write(tmp_path / "a.jsonl", [json.dumps(record).encode() for record in few + full])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", part_size=10_000)
    assert len(corpus.parts) > 2
    assert b'"performance"' not in corpus.texts[0]
    assert_equal(corpus, exported(corpus, tmp_path / "tables"))


def test_every_reader_restores_generated_records(tmp_path: Path) -> None:
    """With unknown keys and repeats. Another test checks that two processes write the same."""
    write(
        tmp_path / "a.jsonl",
        without_long(
            lines(Recipe(records=120, seed=4, unknown_keys=0.3, conflicts=0.1, text="words"))
        ),
    )
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", part_size=80_000)
    assert len(corpus.parts) > 2
    assert_equal(corpus, exported(corpus, tmp_path / "tables"))


@settings(max_examples=examples(8, 240))
@given(st.lists(strategies.records, min_size=1, max_size=3))
def test_any_records_can_be_restored(records: list[dict[str, Any]]) -> None:
    """Batches of random valid records, decoded by one decoder."""
    decoder = Decoder(DEFAULT_SCHEMA)
    normal = [fastrec.judge(json.dumps(record).encode()).normal for record in records]
    rows = batch_of([decoder.decode(line) for line in normal], DEFAULT_SCHEMA).to_pylist()
    assert [exactly(restored(row)) for row in rows] == [
        exactly(json.loads(line)) for line in normal
    ]


def test_parquet_suits_viewers(tmp_path: Path) -> None:
    """Row groups have a moderate size and a page index, and the config of the dataset card names
    the files.
    """
    write(tmp_path / "a.jsonl", list(lines(Recipe(records=600, seed=3, text="words"))))
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    output = use_limits(Limits(parquet_group_bytes=3 << 20))(exported)(corpus, tmp_path / "tables")
    about = pq.ParquetFile(output / "data" / "part-00000.parquet").metadata
    assert about.num_row_groups == -(-len(corpus.text) // (4 << 20))
    assert about.num_row_groups > 1
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        assert group.total_byte_size < 100 << 20
        assert group.column(0).has_offset_index
        assert group.column(0).has_column_index
    text = (output / "README.md").read_text()
    front = text.split("---\n")[1]
    assert front.splitlines()[:5] == ["configs:", "- config_name: default", "  data_files:", "  - split: train",
                                      '    path: "data/*.parquet"']  # fmt: skip
    assert f"{len(corpus.lines):,} records" in text
    listed = json.loads((output / "export.json").read_bytes())
    assert listed["files"] == {
        f"data/{path.name}": path.stat().st_size for path in (output / "data").iterdir()
    }
    assert listed["text_xxh3_128"] == corpus.manifest["text_xxh3_128"]


@pytest.mark.each_value
@pytest.mark.parametrize("version", TARGETS)
@pytest.mark.parametrize("format_", TABLES)
def test_an_empty_corpus_has_empty_tables(tmp_path: Path, format_: str, version: str) -> None:
    """With columns, but without rows."""
    write(tmp_path / "a.jsonl", [])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", schema=version)
    output = exported(corpus, tmp_path / "tables", format=format_)
    if format_ == "parquet":
        assert_equal(corpus, output)
    else:
        assert len(table(next(output.glob("*s.csv")))) == 1


@pytest.mark.parametrize("format_", TABLES)
def test_the_same_corpus_gives_the_same_bytes(
    fresh: Path, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of jobs: the output has no times, no host names, and no order of
    completion.
    """
    if (
        format_ != "parquet" and sys.platform == "linux"
    ):  # pyarrow has threads, which a forked worker has not
        monkeypatch.setattr("fastrec.engine.pool._has_one_thread", lambda: True)
    corpus = Corpus(fresh)
    limits = Limits(small_input=0)
    outputs = [
        use_limits(limits)(exported)(corpus, tmp_path / f"{jobs}", format=format_, jobs=jobs)
        for jobs in (1, 2)
    ]
    one, two = (
        {path.relative_to(output): path.read_bytes() for path in output.rglob("*.*")}
        for output in outputs
    )
    assert one == two


# CSV


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        csv.field_size_limit(1 << 20)
        return list(csv.reader(file))


def spelled(value: Any) -> str:
    if isinstance(value, float):
        return repr(value).replace("e+", "e")
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def double(value: Any) -> str:
    """A number with a decimal point or an exponent, and the digits of the record."""
    if isinstance(value, bool):
        return "1.0" if value else "0.0"
    return f"{value}.0" if isinstance(value, int) else spelled(value)


def original(cell: str) -> str:
    """The text of a cell, as the README of an export describes."""
    return re.sub("^'('*[=+@\t\r\n-])", r"\1", cell)


def test_csv_has_all_digits_of_all_values(tmp_path: Path) -> None:
    """Ids, types, scores of every type, huge integers, and errors with commas, quotes and line
    breaks.
    """
    records = [
        *odd_records(),
        *(sample(sample_id=f"e{n}", error=error) for n, error in enumerate([',"\n\r', "", "=1"])),
    ]
    write(tmp_path / "a.jsonl", [json.dumps(record).encode() for record in records])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    header, *rows = table(exported(corpus, tmp_path / "csv", format="csv") / "records.csv")
    assert len(rows) == len(records)
    for line, values in zip(corpus.lines, rows, strict=True):
        record = json.loads(line)
        row = dict(zip(header, values, strict=True))
        for name in (
            "evaluation_name",
            "sample_hash",
            "model_id",
            "evaluation_id",
            "sample_id",
            "interaction_type",
        ):
            assert row[name] == spelled(record[name])
        assert row["sample_id_type"] == (
            "string" if isinstance(record["sample_id"], str) else "integer"
        )
        score = record["evaluation"]["score"]
        assert (row["score"], row["score_type"]) == (
            double(score),
            {bool: "boolean", int: "integer", float: "number"}[type(score)],
        )
        assert row["is_correct"] == spelled(record["evaluation"]["is_correct"])
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            assert row[name] == spelled(record.get("token_usage", {}).get(name))
        assert row["latency_ms"] == double(record.get("performance", {}).get("latency_ms"))
        assert original(row["error"]) == record.get("error", "")


FORMULAS = [
    "=1+1",
    "+x",
    "-x",
    "@sum",
    "\tx",
    "\rx",
    "\nx",
    "＝1",
    "=",
    "-",
    "-1-1",
    "+1e",
    "'=1",
    "''@",
    "-1\n",
]
HARMLESS = ["-1", "+1", "-0.5", "-1e-7", "1", "a=1", "'tis", "'", "", "é", " =1", "'a'=1"]


def test_text_that_a_spreadsheet_would_evaluate_is_escaped() -> None:
    """With one single quote in front, which can be removed again. Numbers and other text stay."""
    assert [escape_cell(text) for text in FORMULAS] == [f"'{text}" for text in FORMULAS]
    assert [escape_cell(text) for text in HARMLESS] == HARMLESS


@given(st.text(alphabet="'=+-@\t\r\n1.ea ", max_size=6))
def test_escaped_text_can_be_restored(text: str) -> None:
    """Whatever the text, and no cell is left that a spreadsheet evaluates."""
    cell = escape_cell(text)
    assert original(cell) == text
    assert cell[:1] not in tuple("=+-@\t\r\n") or re.fullmatch(r"[+-][0-9.e+-]+", cell)


@pytest.mark.parametrize("raw_cells", [False, True])
def test_no_csv_has_formulas(tmp_path: Path, raw_cells: bool) -> None:
    """Neither in cells nor in headers, unless raw cells are asked for; the README says which."""
    record = sample(
        evaluation_name="=e", model_id="@m", sample_id="-s", error="=1+1", sample_hash="00ff"
    )
    write(tmp_path / "a.jsonl", [json.dumps(record).encode()])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", sample_hash="fill")
    flat = exported(corpus, tmp_path / "csv", format="csv", raw_cells=raw_cells)
    write(
        tmp_path / "b.jsonl", [json.dumps({**record, "error": ""}).encode()]
    )  # an answer, which has a cell
    answers = normalized(tmp_path / "b.jsonl", tmp_path / "answers", sample_hash="fill")
    matrix = exported(answers, tmp_path / "matrix", format="matrix", raw_cells=raw_cells)
    mark = "" if raw_cells else "'"
    header, row = table(flat / "records.csv")
    values = dict(zip(header, row, strict=True))
    assert [values[name] for name in ("evaluation_name", "model_id", "sample_id", "error")] == [
        f"{mark}{text}" for text in ("=e", "@m", "-s", "=1+1")
    ]
    assert table(matrix / "scores.csv") == [["model_id", f"{mark}=e/00ff"], [f"{mark}@m", "1.0"]]
    assert table(matrix / "correct.csv") == [["model_id", f"{mark}=e/00ff"], [f"{mark}@m", "1"]]
    assert table(matrix / "samples.csv")[1] == [f"{mark}=e/00ff", f"{mark}=e", "00ff", f"{mark}-s"]
    for output in (flat, matrix):
        assert ("single quote in front" in (output / "README.md").read_text()) is not raw_cells


def scored(number: int) -> dict[str, Any]:
    """A record whose types differ from those of the first hundred."""
    late = number >= 150
    score = [True, 1, False, 0][number % 4] if not late else 0.25
    return sample(
        model_id=f"m{number:03d}",
        sample_id=f"q{number}" if late else number,
        evaluation={"score": score, "is_correct": bool(score)},
        performance={"latency_ms": 1.5 if late else 7},
        error="",
    )


def test_other_tools_read_numbers_from_csv(tmp_path: Path) -> None:
    """Polars and DuckDB take scores and latencies for doubles, also where the first hundred rows
    have other types.
    """
    records = [scored(number) for number in range(200)]
    write(tmp_path / "a.jsonl", [json.dumps(record).encode() for record in records])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    path = exported(corpus, tmp_path / "csv", format="csv") / "records.csv"
    rows = [json.loads(line) for line in corpus.lines]
    scores = [float(row["evaluation"]["score"]) for row in rows]
    times = [float(row["performance"]["latency_ms"]) for row in rows]
    counts = {"response_characters": pl.Int64, "turns": pl.Int64, "tool_calls": pl.Int64}
    expected = {
        "score": pl.Float64,
        "latency_ms": pl.Float64,
        "is_correct": pl.Boolean,
        "sample_id": pl.String,
    }
    found = pl.read_csv(path, infer_schema_length=None)
    assert {name: found.schema[name] for name in expected | counts} == expected | counts
    assert (found["score"].to_list(), found["latency_ms"].to_list()) == (scores, times)
    assert (
        pl.read_csv(path, columns=["score", "latency_ms"])["score"].to_list() == scores
    )  # from its first rows
    with duckdb.connect() as connection:
        query = (
            "SELECT score, latency_ms, typeof(score), typeof(is_correct) FROM read_csv(?, "
            "sample_size=-1)"
        )
        answers = connection.execute(query, [str(path)]).fetchall()
    assert answers == [
        (score, time, "DOUBLE", "BOOLEAN") for score, time in zip(scores, times, strict=True)
    ]
    matrix = exported(corpus, tmp_path / "matrix", format="matrix")
    for name, type_ in (("scores.csv", pl.Float64), ("correct.csv", pl.Int64)):
        read = pl.read_csv(matrix / name)
        assert set(read.schema.values()) == {pl.String, type_}


def conversation(*turns: tuple[str, str | None, int]) -> dict[str, Any]:
    """An agentic record with turns of a role, a content, and a number of tool calls."""
    calls = [
        [{"id": f"c{number}", "name": "f"} for number in range(count)] for _, _, count in turns
    ]
    return sample(
        "agentic",
        interactions=[
            {
                "turn_idx": index,
                "role": role,
                "content": content,
                "reasoning_trace": "hm",
                "tool_calls": calls[index],
            }
            for index, (role, content, _) in enumerate(turns)
        ],
    )


@pytest.mark.parametrize(
    ("record", "sizes"),
    [
        (sample(output={"raw": "é😀\n", "reasoning_trace": "hm"}), (3, 1, 0)),
        (sample(output={"raw": ""}), (0, 1, 0)),
        (
            conversation(
                ("user", "abc", 0), ("assistant", "de", 2), ("tool", "f", 0), ("assistant", "é", 1)
            ),
            (3, 4, 3),
        ),
        (conversation(("user", "abc", 0), ("assistant", None, 1)), (0, 2, 1)),
        (conversation(("user", "abc", 0)), (None, 1, 0)),
        (sample("multi_turn", interactions=[]), (None, 0, 0)),
    ],
)
def test_tables_have_the_size_of_the_response(
    tmp_path: Path, record: dict[str, Any], sizes: tuple[int | None, int, int]
) -> None:
    """Characters that the model said, turns of all roles, and tool calls.

    The same in CSV and Parquet.
    """
    write(tmp_path / "a.jsonl", [json.dumps(record).encode()])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus")
    names = ("response_characters", "turns", "tool_calls")
    header, cells = table(exported(corpus, tmp_path / "csv", format="csv") / "records.csv")
    row = dict(zip(header, cells, strict=True))
    assert [row[name] for name in names] == ["" if size is None else str(size) for size in sizes]
    columns = batch_of(
        [Decoder(DEFAULT_SCHEMA).decode(corpus.lines[0])], DEFAULT_SCHEMA
    ).to_pylist()[0]
    assert tuple(columns[name] for name in names) == sizes


def test_parquet_has_no_raw_cells(fresh: Path, tmp_path: Path) -> None:
    """The option belongs to CSV."""
    assert isinstance(invoke(fresh, "-o", tmp_path / "tables", "--raw-cells").exception, UsageError)
    with pytest.raises(UsageError, match="raw cells are an option of csv and matrix"):
        fastrec.export(fresh, tmp_path / "tables", raw_cells=True)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("format_", "name", "row"),
    [
        ("csv", "records.csv", ["a\rb", "00ff", "m\r", "eval/1", "'\r", "string"]),
        ("matrix", "samples.csv", ["a\rb/00ff", "a\rb", "00ff", "'\r"]),
        ("matrix", "scores.csv", ["m\r", "1.0"]),
        ("matrix", "correct.csv", ["m\r", "1"]),
    ],
)
def test_a_carriage_return_does_not_end_a_row(
    tmp_path: Path, format_: str, name: str, row: list[str]
) -> None:
    """Cells with one are quoted; rows end with a line feed."""
    record = sample(evaluation_name="a\rb", model_id="m\r", sample_id="\r", error="")
    write(tmp_path / "a.jsonl", [json.dumps(record).encode()])
    corpus = normalized(tmp_path / "a.jsonl", tmp_path / "corpus", sample_hash="fill")
    output = exported(corpus, tmp_path / "tables", format=format_)
    assert table(output / name)[1][: len(row)] == row
    assert len(table(output / name)) == 2
    assert b"\r\n" not in (output / name).read_bytes()


# The matrix


@pytest.mark.parametrize("sort_by", [(), ("model_id",)])
def test_every_answer_is_in_its_cell_of_the_matrix(
    tmp_path: Path, sort_by: tuple[str, ...]
) -> None:
    """Rows are models and columns are questions, both sorted.

    Of several answers the first counts.
    """
    write(tmp_path / "a.jsonl", without_long(lines(Recipe(records=400, seed=9, conflicts=0.2))))
    corpus = normalized(
        tmp_path / "a.jsonl", tmp_path / "corpus", part_size=100_000, sort_by=sort_by
    )
    assert len(corpus.parts) > 3
    expected: dict[str, dict[str, tuple[str, str]]] = {}
    samples: dict[str, list[str]] = {}
    errors = 0
    for line in corpus.lines:
        record = json.loads(line)
        name = f"{record['evaluation_name']}/{record['sample_hash']}"
        samples.setdefault(
            name, [record["evaluation_name"], record["sample_hash"], spelled(record["sample_id"])]
        )
        value = double(record["evaluation"]["score"]), str(int(record["evaluation"]["is_correct"]))
        answers = expected.setdefault(record["model_id"], {})
        if record.get("error"):
            errors += 1
        else:
            answers.setdefault(name, value)
    done = fastrec.export(corpus.path, tmp_path / "matrix", format="matrix")
    for index, name in enumerate(("scores.csv", "correct.csv")):
        header, *rows = table(tmp_path / "matrix" / name)
        assert header == ["model_id", *sorted(samples)]
        assert [row[0] for row in rows] == sorted(expected)
        for model, *cells in rows:
            found = dict(zip(header[1:], cells, strict=True))
            assert found == {
                sample: expected[model].get(sample, ("", ""))[index] for sample in header[1:]
            }
    header, *rows = table(tmp_path / "matrix" / "samples.csv")
    assert {row[0]: row[1:] for row in rows} == samples
    left_out = len(corpus.lines) - sum(map(len, expected.values())) - errors
    assert left_out > 1
    assert errors > 1
    assert done.notices == [
        f"{errors} records with an error left out: their cells are empty",
        f"{left_out} answers left out: only a model's first answer to a question is in the matrix",
    ]
    assert done.notices[0] in (tmp_path / "matrix" / "README.md").read_text()


def test_columns_of_the_matrix_have_distinct_names(tmp_path: Path) -> None:
    """An evaluation named a/b is not the evaluation a with the metric b."""
    named = {"evaluation_result_id": "b"}
    records = [
        answer("a", "q", "m", 0, **named),
        answer("a/b", "q", "m", 1),
        answer("a", "other", "m", 1, **named),
    ]
    fastrec.export(make_corpus(tmp_path, records), tmp_path / "matrix", format="matrix")
    samples = {row[0]: row[1:3] for row in table(tmp_path / "matrix" / "samples.csv")[1:]}
    assert sorted(samples.values()) == [["a", "b"], ["a", "b"], ["a/b", ""]]
    [numbered] = (name for name, (evaluation, _) in samples.items() if evaluation == "a/b")
    assert numbered.endswith("_2")
    assert samples[numbered.removesuffix("_2")] == ["a", "b"]
    for name, value in (("scores.csv", "1.0"), ("correct.csv", "1")):
        header, row = table(tmp_path / "matrix" / name)
        assert header == ["model_id", *samples]
        assert row[header.index(numbered)] == value


# Bad input: the exit code, the message, and nothing published


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of several parts; read only."""
    directory = tmp_path_factory.mktemp("export")
    write(directory / "a.jsonl", list(lines(Recipe(records=120, seed=4))))
    return normalized(directory / "a.jsonl", directory / "corpus", part_size=80_000).path


@pytest.fixture
def corpus(fresh: Path, tmp_path: Path) -> Path:
    """A copy of `fresh` to damage."""
    return Path(shutil.copytree(fresh, tmp_path / "corpus"))


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


run = partial(run_command, "export")


def assert_refused(code: int, message: str, *arguments: Any, output: Path) -> None:
    done = run(*arguments, "-o", output)
    assert (done.returncode, done.stdout) == (code, b"")
    assert message in done.stderr.decode()
    assert not output.exists()
    assert not list(output.parent.glob(f".{output.name}.*"))


def test_wrong_usage_is_refused(corpus: Path, tmp_path: Path) -> None:
    """No corpus, no manifest, an unknown format, no output: exit code 2, nothing published."""
    output = tmp_path / "tables"
    assert_refused(
        2, "none is not a corpus: there is no such directory", tmp_path / "none", output=output
    )
    assert_refused(2, "is not a corpus: it holds no manifest.json", tmp_path, output=output)
    assert_refused(2, "'parquet', 'csv', 'matrix'", corpus, "--format", "xlsx", output=output)
    assert_refused(2, "--jobs", corpus, "--jobs", "0", output=output)
    assert_refused(2, "lies in the input", corpus, output=corpus / "tables")
    assert run(corpus).returncode == 2
    with pytest.raises(
        UsageError, match="format must be one of parquet, csv, matrix, pairs, not 'xlsx'"
    ):
        fastrec.export(corpus, output, format="xlsx")
    with pytest.raises(UsageError, match="at least one job"):
        fastrec.export(corpus, output, jobs=0)


@pytest.mark.parametrize("format_", OF_LINES)
def test_an_unreadable_corpus_is_reported(corpus: Path, tmp_path: Path, format_: str) -> None:
    """A damaged manifest, a truncated part, a missing part: exit code 3, nothing published."""
    output = tmp_path / "tables"
    part = sorted(corpus.glob("part-*.jsonl*"))[1]
    data = part.read_bytes()
    part.write_bytes(data[:-6])
    assert_refused(
        3, f"{part}: ends inside the zstd frame", corpus, "--format", format_, output=output
    )
    part.unlink()
    assert_refused(
        3, f"{part}: cannot be found: No such file", corpus, "--format", format_, output=output
    )
    part.write_bytes(data)
    (corpus / "manifest.json").write_bytes(b"{")
    assert_refused(
        3, "manifest.json: is not a manifest", corpus, "--format", format_, output=output
    )


def test_the_matrix_reports_unreadable_columns(corpus: Path, tmp_path: Path) -> None:
    """They are all that it reads: exit code 3, nothing published."""
    output = tmp_path / "tables"
    columns = sorted(corpus.glob("part-*.columns"))[1]
    data = columns.read_bytes()
    columns.write_bytes(data[: len(data) // 5])
    assert_refused(3, f"{columns}: is damaged: ", corpus, "--format", "matrix", output=output)
    columns.unlink()
    assert_refused(3, f"{columns}: is missing", corpus, "--format", "matrix", output=output)
    columns.write_bytes(data)
    for part in corpus.glob("part-*.jsonl*"):
        part.unlink()
    assert run(corpus, "-o", output, "--format", "matrix").returncode == 0


@pytest.mark.each_value
@pytest.mark.parametrize("format_", OF_LINES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":1}\n', "has 8 bytes of text, but the manifest says "),
        (b"", "has 0 bytes of text, but the manifest says "),
    ],
)
def test_an_edited_part_is_reported(
    tmp_path: Path, corpus: Path, format_: str, text: bytes, message: str
) -> None:
    """Nothing is published."""
    with ShardWriter(str(min(corpus.glob("part-*.jsonl*"))), "zst", 3) as writer:
        writer.write([text])
        writer.finish()
    with pytest.raises(CorpusError, match=re.escape(message)):
        fastrec.export(corpus, tmp_path / "tables", format=format_)
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("format_", OF_LINES)
def test_lines_are_read_by_their_columns(tmp_path: Path, corpus: Path, format_: str) -> None:
    """Columns that are missing, or have other records than the manifest says, are an error."""
    columns = min(corpus.glob("part-*.columns"))
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    manifest["parts"][0]["records"] += 1
    (corpus / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorpusError, match="records, but the manifest says"):
        fastrec.export(corpus, tmp_path / "tables", format=format_)
    columns.unlink()
    with pytest.raises(CorpusError, match=r"is missing\. Normalize its shards again"):
        fastrec.export(corpus, tmp_path / "tables", format=format_)
    assert not (tmp_path / "tables").exists()


def test_an_error_in_a_worker_publishes_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No temporary file stays either."""
    if sys.platform == "linux":
        monkeypatch.setattr(
            "fastrec.engine.pool._has_one_thread", lambda: True
        )  # workers that start fast
    part = max(corpus.glob("part-*.jsonl*"))
    part.write_bytes(part.read_bytes()[:-6])
    with pytest.raises(ShardError, match="ends inside"):
        use_limits(Limits(small_input=0))(fastrec.export)(
            corpus, tmp_path / "tables", format="csv", jobs=2
        )
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_parquet_without_pyarrow_says_what_to_install(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 2, before anything is written. The other formats do not need it."""
    monkeypatch.setattr("fastrec.errors.find_spec", lambda _: None)
    with pytest.raises(FastrecError, match=r"Parquet needs pyarrow.*pip install pyarrow") as caught:
        fastrec.export(corpus, tmp_path / "tables")
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    assert fastrec.export(corpus, tmp_path / "tables", format="csv").rows == 120


def test_csv_needs_no_other_package(corpus: Path, tmp_path: Path) -> None:
    """Neither pyarrow nor numpy nor pandas is imported."""
    code = (
        f"import sys, fastrec; fastrec.export({str(corpus)!r}, {str(tmp_path / 'tables')!r}, "
        "format='csv'); "
        "print(*{'pyarrow', 'numpy', 'pandas'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "\n"


def test_an_existing_output_needs_overwrite(corpus: Path, tmp_path: Path) -> None:
    """And it must be an export, of any format."""
    output = tmp_path / "tables"
    assert invoke(corpus, "-o", output, "--format", "csv").exit_code == 0
    done = run(corpus, "-o", output)
    assert done.returncode == 2
    assert b"tables exists: give another output, or --overwrite to replace it" in done.stderr
    assert (output / "records.csv").exists()
    assert invoke(corpus, "-o", output, "--overwrite", "-q").stderr == ""
    assert sorted(path.name for path in output.iterdir()) == ["README.md", "data", "export.json"]
    (output / "export.json").unlink()
    done = run(corpus, "-o", output, "--overwrite")
    assert done.returncode == 2
    assert (
        b"holds something other than an export (no export.json): it is not replaced" in done.stderr
    )
    done = run(corpus, "-o", corpus, "--overwrite")
    assert done.returncode == 2
    assert (corpus / "manifest.json").exists()


def test_a_failed_export_keeps_the_old_one(corpus: Path, tmp_path: Path) -> None:
    """The old export is replaced only when the new one is complete."""
    output = tmp_path / "tables"
    fastrec.export(corpus, output, format="csv")
    before = (output / "records.csv").read_bytes()
    min(corpus.glob("part-*.jsonl*")).unlink()
    assert run(corpus, "-o", output, "--overwrite", "--format", "csv").returncode == 3
    assert (output / "records.csv").read_bytes() == before


def test_the_result_is_one_line_on_stderr(corpus: Path, tmp_path: Path) -> None:
    """A closed pipe is no error."""
    done = run(corpus, "-o", tmp_path / "tables")
    assert (done.returncode, done.stdout) == (0, b"")
    files = len(list((tmp_path / "tables").rglob("*.parquet")))
    assert re.match(rb"120 records: %d files in .*tables, .* MB/s\n$" % files, done.stderr)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(corpus, "-o", tmp_path / "again", stdout=writer, stderr=writer)
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert (tmp_path / "again" / "export.json").exists()


def test_help_fits_a_terminal() -> None:
    """It has examples and at most 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("version", TARGETS.values(), ids=list(TARGETS))
def test_every_property_of_the_schema_is_a_column(version: Schema) -> None:
    """At every level."""

    def check(type_: Any, node: dict[str, Any]) -> None:
        fields = {field.name: field.type for field in type_}
        for name, sub in node["properties"].items():
            inner = fields[name]
            items = sub.get("items", sub)
            if "properties" in items:
                check(inner.value_type if pa.types.is_list(inner) else inner, items)

    check(table_schema(version), version.document)
