"""`sql`, `table`, `batches` and `connect`: the tables of a corpus, compared with its records and
with its export.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

import fastrec
from fastrec.commands.export import parquet, tables
from fastrec.commands.generate import Recipe
from fastrec.commands.generate import lines as lines_of
from fastrec.errors import UsageError
from tests.lazily import Library
from tests.normalize.normalizing import Corpus, write
from tests.running import run_command, run_here
from tests.samples import sample

duckdb: Any = Library("duckdb")
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("duckdb", "pyarrow"))),
    reason="the extra `sql` is not installed",
)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Corpus]:
    """Make a corpus of a version of the schema once; read-only."""
    return cache(lambda version: make_corpus(version, tmp_path_factory.mktemp("sql")))


@pytest.fixture(scope="module", params=["0.2.0", "0.3.0"])
def corpus(request: pytest.FixtureRequest, corpora: Callable[[str], Corpus]) -> Corpus:
    """A corpus of each version."""
    return corpora(request.param)


@pytest.fixture(scope="module")
def newest(corpora: Callable[[str], Corpus]) -> Corpus:
    """A corpus for tests of results and files, where the version is not the point."""
    return corpora("0.3.0")


def make_corpus(version: str, folder: Path) -> Corpus:
    recipe = Recipe(records=200, seed=4, schema=version)
    write(folder / "in.jsonl", list(lines_of(recipe)))
    fastrec.normalize(folder / "in.jsonl", folder / "corpus", part_size=30_000, track_sources=True)
    made = Corpus(folder / "corpus")
    assert len(made.manifest["parts"]) > 2
    return made


def said(record: dict[str, Any]) -> str:
    raw = (record.get("output") or {}).get("raw", [])
    turns = record.get("messages") or record.get("interactions") or []
    texts = [turn.get("content") for turn in turns if turn["role"] == "assistant"]
    return "\n".join([*([raw] if isinstance(raw, str) else raw), *filter(None, texts)])


def test_answers_have_the_values_of_the_records(corpus: Corpus) -> None:
    rows = fastrec.table(corpus.path).to_pylist()
    trials: dict[tuple[Any, ...], int] = {}
    assert len(rows) == len(corpus.lines)
    for row, line in zip(rows, corpus.lines, strict=True):
        record = json.loads(line)
        identity = tuple(
            record.get(name)
            for name in ("evaluation_name", "evaluation_result_id", "sample_hash", "model_id")
        )
        trials[identity] = trials.get(identity, 0) + 1
        reference = record["input"]["reference"]
        usage = record.get("token_usage") or {}
        times = record.get("performance") or {}
        metadata = record.get("metadata")
        expected = {
            "evaluation": record["evaluation_name"],
            "metric": record.get("evaluation_result_id"),
            "model": record["model_id"],
            "question": record["sample_hash"],
            "sample_id": str(record["sample_id"]),
            "input": record["input"]["raw"],
            "reference": reference if isinstance(reference, str) else "\n".join(reference),
            "output": said(record),
            "correct": record["evaluation"]["is_correct"],
            "score": float(record["evaluation"]["score"]),
            "tokens_in": usage.get("input_tokens"),
            "tokens_out": usage.get("output_tokens"),
            "latency_ms": times.get("latency_ms"),
            "error": record.get("error") or None,
            "trial": trials[identity],
        }
        assert {name: row[name] for name in expected} == expected
        if metadata:
            texts = {name: value for name, value in metadata.items() if isinstance(value, str)}
            assert dict(row["metadata"]).items() >= texts.items()
            others = {
                name: json.loads(dict(row["metadata"])[name])
                for name in metadata.keys() - texts.keys()
            }
            assert others == {name: metadata[name] for name in others}
    assert {row["source"].rpartition(":")[0] for row in rows} == {
        str(corpus.path.parent / "in.jsonl")
    }


def test_no_cut_between_parts_separates_the_trials_of_a_question(tmp_path: Path) -> None:
    """Many answers of one model to one question are one part, however small parts are to be."""
    line = next(iter(lines_of(Recipe(records=1, seed=1))))
    record = json.loads(line)
    record.pop("sample_hash", None)
    lines = [
        json.dumps(record | {"metadata": {"n": number, "pad": f"{number}" * 500}}).encode()
        for number in range(40)
    ]
    write(tmp_path / "in.jsonl", lines)
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus", part_size=4_000)
    rows = fastrec.table(tmp_path / "corpus", columns=["trial"]).to_pylist()
    assert [row["trial"] for row in rows] == list(range(1, 41))
    assert len(Corpus(tmp_path / "corpus").manifest["parts"]) == 1


def test_token_counts_of_any_size(tmp_path: Path) -> None:
    """Those that fit into 64 bits are exact. `sql --tables` says where larger ones are."""
    counts = [0, 2**53 + 1, 2**63 - 1, 2**63, 10**400]
    record = sample()
    lines = []
    for number, count in enumerate(counts):
        usage = {"input_tokens": count, "output_tokens": 1, "total_tokens": 1}
        lines.append(json.dumps(record | {"sample_id": number, "token_usage": usage}).encode())
    write(tmp_path / "in.jsonl", lines)
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    rows = fastrec.table(tmp_path / "corpus", columns=["sample_id", "tokens_in"]).to_pylist()
    found = {int(row["sample_id"]): row["tokens_in"] for row in rows}
    assert found == dict(enumerate([*counts[:3], None, None]))
    with fastrec.connect(tmp_path / "corpus") as ours:
        (extra,) = ours.execute("select extra from records where sample_id = '4'").fetchone()
    assert json.loads(extra) == {"$.token_usage.input_tokens": 10**400}
    described = run_here("sql", "--tables").stdout.decode()
    assert (
        described.count("null if it is 2^63 or more: such a number is in `extra` of `records`") == 2
    )


# (over the tables of `sql`, over the exported records)
PAIRS = [
    ("select count(*) from answers", "select count(*) from r"),
    ("select model, count(*) from answers group by 1", ("select model_id, count(*) from r group by "
"1")),
    ("select evaluation, avg(score) from answers group by 1",
     "select evaluation_name, avg(evaluation.score) from r group by 1"),
    ("select count(distinct question) from answers", "select count(distinct sample_hash) from r"),
    ("select count(*) from answers where correct", ("select count(*) from r where "
"evaluation.is_correct")),
    ("select count(*) from answers where error is not null", ("select count(*) from r where error "
"<> ''")),
    ("select sum(tokens_out) from answers", "select sum(token_usage.output_tokens) from r"),
    ("select max(latency_ms) from answers", "select max(performance.latency_ms) from r"),
    ("select avg(length(input)) from answers", "select avg(length(input.raw)) from r"),
    ("select min(sample_id) from answers", "select min(sample_id) from r"),
    ("select model, sum(tokens_in) from answers where score < 0.5 group by 1",
     ("select model_id, sum(token_usage.input_tokens) from r where evaluation.score < 0.5 group by "
"1")),
    ("select question, count(*) n from answers group by 1 having n > 3",
     "select sample_hash, count(*) n from r group by 1 having n > 3"),
    ("select evaluation, count(*) from answers where input ilike '%the%' group by 1",
     "select evaluation_name, count(*) from r where input.raw ilike '%the%' group by 1"),
    ("select sum(tool_calls), sum(turns) from answers", "select sum(tool_calls), sum(turns) from r"),
    ("select count(*) from questions",
     "select count(*) from (select distinct evaluation_name, METRIC, sample_hash from r)"),
    ("select sum(answers), sum(errors) from questions",
     "select count(*) filter (not F), count(*) filter (error <> '') from r"),
    ("select question, models from questions",
     ("select sample_hash, count(distinct model_id) filter (not F) from r group by "
"evaluation_name, METRIC, 1")),
    ("select question, accuracy from questions",
     ("select sample_hash, avg(evaluation.is_correct::int) filter (not F) from r group by "
"evaluation_name, METRIC, 1")),
    ("select count(*) from models",
     "select count(*) from (select distinct evaluation_name, METRIC, model_id from r where not F)"),
    ("select evaluation, model, accuracy from models",
     "select e, m, avg(c) from (C group by all) group by e, k, m"),
    ("select model_id, count(*) from records group by 1", ("select model_id, count(*) from r group "
"by 1")),
]  # fmt: skip


NO_ERROR = "coalesce(error, '') = ''"
BY_QUESTION = (
    "select evaluation_name e, METRIC k, model_id m, sample_hash, "
    "avg(evaluation.is_correct::int) c from r where not F "
)


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    some = [
        tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row) for row in rows
    ]
    return sorted(some, key=repr)


def test_queries_give_what_sql_over_the_export_gives(corpus: Corpus, tmp_path: Path) -> None:
    fastrec.export(corpus.path, tmp_path / "export", format="parquet")
    exported = duckdb.connect()
    exported.execute(f"create view r as from read_parquet('{tmp_path}/export/*/*.parquet')")
    metric = "evaluation_result_id" if corpus.summary["schema"] == "0.3.0" else "null::text"
    with fastrec.connect(corpus.path) as ours:
        for query, by_hand in PAIRS:
            expected = exported.execute(
                by_hand.replace("C ", BY_QUESTION)
                .replace("METRIC", metric)
                .replace("not F", NO_ERROR)
            ).fetchall()
            assert rounded(ours.execute(query).fetchall()) == rounded(expected), query


def test_models_are_those_of_stats(corpus: Corpus) -> None:
    with fastrec.connect(corpus.path) as ours:
        found = ours.execute(
            "select evaluation, metric, model, questions, accuracy from models"
        ).fetchall()
    expected = [
        (one.evaluation_name, one.metric, model.model_id, model.questions, model.accuracy)
        for one in fastrec.stats(corpus.path).evaluations
        for model in one.by_model
        if model.questions
    ]
    assert rounded(found) == rounded(expected)


WAYS_OUT = [
    "select * from read_csv('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_parquet('{file}')",
    "select * from '{file}'",
    "select * from glob('{folder}/*')",
    "copy answers to '{folder}/leak.csv'",
    "copy (select 1) to '{folder}/leak.parquet' (format parquet)",
    "export database '{folder}/leak'",
    "import database '{folder}'",
    "attach '{folder}/leak.db'",
    "attach '{file}' as x (type sqlite)",
    "install httpfs",
    "load httpfs",
    "install spatial from community",
    "set enable_external_access = true",
    "pragma enable_external_access = true",
    "reset enable_external_access",
    "set lock_configuration = false",
    "set allowed_directories = ['{folder}']",
    "set home_directory = '{folder}'",
    "set temp_directory = '{folder}/leak'",
    "set extension_directory = '{folder}'",
    "set custom_extension_repository = 'http://127.0.0.1:{port}'",
    "select * from read_csv('http://127.0.0.1:{port}/x')",
    "select * from sniff_csv('{file}')",
    "select * from parquet_metadata('{file}')",
    "call pragma_version('{file}')",
    "create secret (type s3, key_id 'x', secret 'y')",
    "create persistent secret (type http, bearer_token 'x')",
    "select * from secret_variable",
    "pragma enable_profiling = 'json'; pragma profile_output = '{folder}/leak'",
    "set profiling_output = '{folder}/leak'",
    "set log_query_path = '{folder}/leak'",
    "select getenv('HOME')",
    "select * from which_secret('{file}', 's3')",
    "checkpoint '{file}'",
]


@pytest.mark.each_value  # with one of the versions
@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_query_leaves_the_corpus(way: str, corpus: Corpus, tmp_path: Path) -> None:
    """Nothing of the machine is read, nothing is written, and nobody is called."""
    (tmp_path / "secret.csv").write_text("a,b\nsecret,1\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        query = way.format(
            file=tmp_path / "secret.csv", folder=tmp_path, port=server.getsockname()[1]
        )
        done = run_command("sql", str(corpus.path), query)
        assert done.returncode == 2
        assert b"secret" not in done.stdout
        assert done.stderr.startswith(b"error: ")
        assert b"Traceback" not in done.stderr
        with pytest.raises(TimeoutError):
            server.accept()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_python_variables_are_no_tables(corpus: Corpus) -> None:
    hidden = fastrec.table(corpus.path, columns=["model"])
    assert hidden == fastrec.table(corpus.path, columns="model")
    with fastrec.connect(corpus.path, locked=True) as ours, pytest.raises(duckdb.Error):
        ours.execute("select * from hidden")
    assert hidden.num_rows


def test_formats(newest: Corpus, tmp_path: Path) -> None:
    query = (
        "select model, count(*) as n, avg(score) as score, null as x from answers group by 1 "
        "order by 1"
    )
    found = json.loads(run_command("sql", str(newest.path), query, "--format", "json").stdout)
    expected = fastrec.connect(newest.path).execute(query).fetchall()
    assert rounded([tuple(row.values()) for row in found]) == rounded(expected)
    text = run_command("sql", str(newest.path), query, "--format", "csv").stdout.decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["model", "n", "score", "x"]
    assert rounded([(row[0], int(row[1]), float(row[2])) for row in rows[1:]]) == rounded(
        [row[:3] for row in expected]
    )
    markdown = (
        run_command("sql", str(newest.path), query, "--format", "markdown")
        .stdout.decode()
        .splitlines()
    )
    assert markdown[0] == "| model | n | score | x |"
    assert len(markdown) == len(expected) + 2
    (tmp_path / "q.sql").write_text(query)
    output = tmp_path / "out.parquet"
    assert (
        run_command(
            "sql",
            str(newest.path),
            "-f",
            str(tmp_path / "q.sql"),
            "--format",
            "parquet",
            "-o",
            str(output),
        ).returncode
        == 0
    )
    assert rounded(duckdb.sql(f"from '{output}'").fetchall()) == rounded(expected)
    count = "select count(*) as n from answers"
    assert (
        run_command(
            "sql", str(newest.path), count, "--format", "csv", "-o", str(tmp_path / "o.csv")
        ).stdout
        == b""
    )
    assert (tmp_path / "o.csv").read_text() == f"n\n{len(newest.lines)}\n"


def test_columns_with_the_same_name_are_all_in_the_result(newest: Corpus, tmp_path: Path) -> None:
    query = "select 1 as a, 2 as a, 3 as a_1"
    assert json.loads(run_command("sql", str(newest.path), query, "--format", "json").stdout) == [
        {"a": 1, "a_1": 2, "a_1_1": 3}
    ]
    output = tmp_path / "out.parquet"
    run_command("sql", str(newest.path), query, "--format", "parquet", "-o", str(output))
    assert duckdb.sql(f"from '{output}'").columns == ["a", "a_1", "a_1_1"]


TIMES = {
    "date '12000-01-01'": "12000-01-01",
    "date '-43-01-01'": "0044-01-01 (BC)",
    "'infinity'::date": "infinity",
    "timestamp '12000-01-01 01:02:03'": "12000-01-01 01:02:03",
    "timestamp_ns '2020-01-01 01:02:03.123456789'": "2020-01-01 01:02:03.123456789",
    "time '24:00:00'": "24:00:00",
    "interval 40 month": "3 years 4 months",
    "[date '12000-01-01']": ["12000-01-01"],
    "[date '12000-01-01']::date[1]": ["12000-01-01"],
    "{'x y': [date '12000-01-01'], 'size': 1}": {"x y": ["12000-01-01"], "size": 1},
    "map {date '12000-01-01': 1}": {"12000-01-01": 1},
    "union_value(d := date '12000-01-01')": "12000-01-01",
    "1.50::decimal(9, 2)": 1.5,
    "sum(5::bigint)": 5,
}


@pytest.mark.each_value
def test_dates_and_times_of_any_year(corpus: Corpus, tmp_path: Path) -> None:
    """They are spelled as DuckDB does: Python has the years 1 to 9999 only, and no infinity."""
    query = "select " + ", ".join(TIMES)
    (row,) = json.loads(run_command("sql", str(corpus.path), query, "--format", "json").stdout)
    assert dict(zip(TIMES, row.values(), strict=True)) == TIMES
    text = run_command("sql", str(corpus.path), query, "--format", "csv").stdout.decode()
    _, cells = csv.reader(io.StringIO(text))
    for cell, expected in zip(cells, TIMES.values(), strict=True):
        assert cell == expected if isinstance(expected, str) else json.loads(cell) == expected
    for output_format in ("text", "markdown"):
        done = run_command("sql", str(corpus.path), query, "--format", output_format)
        assert b"0044-01-01 (BC)" in done.stdout
    done = run_command(
        "sql",
        str(corpus.path),
        "select interval 1 day x",
        "--format",
        "parquet",
        "-o",
        tmp_path / "x",
    )
    assert done.returncode == 2
    assert b"error: Parquet has no type for a column of this result" in done.stderr


def test_a_file_without_a_query(corpus: Corpus, tmp_path: Path) -> None:
    for name, content in (("missing.sql", None), ("bytes.sql", b"select '\xff'")):
        if content:
            (tmp_path / name).write_bytes(content)
        done = run_command("sql", str(corpus.path), "-f", str(tmp_path / name))
        assert done.returncode == 2
        assert b"error: the query cannot be read: " in done.stderr


def test_the_ending_of_a_file_names_the_format(newest: Corpus, tmp_path: Path) -> None:
    query = "select 1 as n"
    for ending, format_, text in (
        (".csv", "text", "n\n1\n"),
        (".txt", "csv", "n\n1\n"),
        (".json", "text", '[\n  {\n    "n": 1\n  }\n]\n'),
        (".md", "text", "| n |\n| --: |\n| 1 |\n"),
        (".txt", "text", "  n\n  1\n"),
    ):
        output = tmp_path / f"{format_}{ending}"
        run_command("sql", str(newest.path), query, "-o", str(output), "--format", format_)
        assert output.read_text() == text
    output = tmp_path / "result.parquet"
    run_command("sql", str(newest.path), query, "-o", str(output))
    assert duckdb.sql(f"from '{output}'").fetchall() == [(1,)]


@pytest.mark.each_value
@pytest.mark.parametrize("output_format", ["text", "csv", "json", "parquet"])
def test_results_are_streamed(
    output_format: str, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most some batches are held at a time, however many rows there are."""
    monkeypatch.setattr(tables, "_RESULT_ROWS", 2_048)
    alive: list[weakref.ref[Any]] = []
    most = 0
    run_query = tables.run_query

    @contextlib.contextmanager
    def counting(*arguments: Any, **options: Any) -> Iterator[Any]:
        def batches() -> Iterator[Any]:
            nonlocal most
            for batch in result.batches:
                alive.append(weakref.ref(batch))
                most = max(most, sum(one() is not None for one in alive))
                yield batch

        with run_query(*arguments, **options) as result:
            yield result._replace(batches=batches())

    monkeypatch.setattr(tables, "run_query", counting)
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 4_096)
    output = tmp_path / "result"
    query = "select range as n from range(40000)"
    assert (
        run_command(
            "sql", str(corpus.path), query, "--format", output_format, "-o", str(output)
        ).returncode
        == 0
    )
    assert len(alive) >= 10
    assert most <= 3
    if output_format == "csv":
        assert output.read_text().split() == ["n", *map(str, range(40_000))]
    if output_format == "json":
        assert json.loads(output.read_text()) == [{"n": number} for number in range(40_000)]
    if output_format == "parquet":
        assert duckdb.sql(f"from read_parquet('{output}')").fetchall() == [
            (number,) for number in range(40_000)
        ]


def test_json_is_spelled_as_one_document(newest: Corpus) -> None:
    for rows in (0, 1, 3):
        text = run_command(
            "sql", str(newest.path), f"from range({rows})", "--format", "json"
        ).stdout
        document = msgspec.json.encode([{"range": number} for number in range(rows)])
        assert text == msgspec.json.format(document, indent=2) + b"\n"


def test_a_result_that_fails_replaces_no_file(newest: Corpus, tmp_path: Path) -> None:
    output = tmp_path / "result.csv"
    output.write_text("before")
    query = "select case when range > 30000 then error('no') else range end from range(40000)"
    for output_format in ("csv", "parquet"):
        arguments = ("sql", newest.path, query, "--format", output_format, "-o", output)
        done = run_command(*map(str, arguments))
        assert done.returncode == 2
        assert b"result.csv exists; choose another file, or add --overwrite" in done.stderr
        done = run_command(*map(str, arguments), "--overwrite")
        assert done.returncode == 2
        assert b"error: Invalid Input Error: no" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["result.csv"]
    assert output.read_text() == "before"
    done = run_command(
        "sql", str(newest.path), "select 1 as x", "--format", "csv", "-o", tmp_path / "no" / "x"
    )
    assert done.returncode == 3
    assert (
        done.stderr
        == f"error: {tmp_path}/no/x cannot be written: No such file or directory\n".encode()
    )


@pytest.mark.each_value
def test_lack_of_memory_is_not_a_bug(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while libraries are loaded, nor while a query runs."""
    query = "select count(*) from answers"
    error = ImportError("libarrow.so.2600: failed to map segment from shared object")
    with monkeypatch.context() as patch:
        patch.setattr(tables, "open_tables", Mock(side_effect=error))
        loading = run_command("sql", str(corpus.path), query)
    monkeypatch.setattr(
        tables, "_start", Mock(side_effect=duckdb.OutOfMemoryException("no memory"))
    )
    running = run_command("sql", str(corpus.path), query)
    for done in (loading, running):
        assert done.returncode == 3
        assert done.stderr == b"error: this needs more memory than there is: try fewer --jobs\n"


def test_queries_of_any_length(newest: Corpus) -> None:
    """A text that is too long for the name of a file is a query."""
    done = run_command(
        "sql", str(newest.path), f"select {' + '.join(['1'] * 900)} as n", "--format", "csv"
    )
    assert (done.returncode, done.stdout) == (0, b"n\n900\n")


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_ends_a_query_at_once(number: signal.Signals, said: str, corpus: Corpus) -> None:
    """Even a recursive one, which DuckDB runs in one call."""
    command = [sys.executable, "-m", "fastrec", "sql", str(corpus.path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(b"select 1 as begun;\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"  begun\n"
        process.stdin.write(
            b"with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from "
            b"t;\n"
        )
        process.stdin.flush()
        time.sleep(0.2)
        process.send_signal(number)
        try:
            assert process.wait(timeout=10) == 128 + number
        finally:
            process.kill()
        assert process.stderr.read().decode().split("\n")[-2] == f"error: {said}"


def test_errors_show_the_place(newest: Corpus) -> None:
    done = run_command("sql", str(newest.path), "select model frm answers")
    assert done.returncode == 2
    assert b"LINE 1: select model frm answers\n                         ^" in done.stderr
    done = run_command("sql", str(newest.path), "select modl from answers")
    assert b"LINE 1: select modl from answers\n               ^^^^" in done.stderr
    assert run_command("sql").returncode == 2
    assert run_command("sql", "nowhere", "select 1 as x").returncode == 2


@pytest.mark.parametrize("end", ["", "/"])
def test_a_corpus_that_is_given_twice_is_refused(corpus: Corpus, end: str) -> None:
    with pytest.raises(UsageError, match="is given twice"):
        fastrec.connect(corpus.path, f"{corpus.path}{end}")


def test_several_corpora_have_a_column_with_their_names(corpus: Corpus, tmp_path: Path) -> None:
    fastrec.normalize(corpus.path, tmp_path / "other", model="org-1/*")
    with fastrec.connect(corpus.path, tmp_path / "other") as ours:
        counts = dict(ours.execute("select corpus, count(*) from answers group by 1").fetchall())
        assert (
            dict(ours.execute("select corpus, count(*) from records group by 1").fetchall())
            == counts
        )
        assert (
            dict(
                ours.execute(
                    "select corpus, sum(answers + errors) from questions group by 1"
                ).fetchall()
            )
            == counts
        )
    assert counts == {"corpus": len(corpus.lines), "other": len(Corpus(tmp_path / "other").lines)}


def test_filters_of_tables(corpus: Corpus) -> None:
    expected = [
        json.loads(line)["sample_id"]
        for line in fastrec.cat(corpus.path, where="output.raw~the", model="org-*")
    ]
    rows = fastrec.table(
        corpus.path, columns=["sample_id"], where="output.raw~the", model="org-*"
    ).to_pylist()
    assert [row["sample_id"] for row in rows] == list(map(str, expected))
    reader = fastrec.batches(corpus.path, columns=["model"])
    assert sum(batch.num_rows for batch in reader) == len(corpus.lines)
    with pytest.raises(
        UsageError, match="there is no column 'modl'; the columns are evaluation, metric, model"
    ):
        fastrec.table(corpus.path, columns=["modl"])


def test_columns_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    fastrec.generate(tmp_path / "in", records=5, shards=1)
    fastrec.normalize(tmp_path / "in", tmp_path / "corpus")
    columns = tmp_path / "corpus" / "part-00000.columns"
    columns.unlink()
    columns.mkdir()
    done = run_here("sql", tmp_path / "corpus", "select avg(score) from answers")
    assert done.returncode == 3
    assert b"part-00000.columns: is a directory" in done.stderr
