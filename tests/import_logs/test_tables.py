"""`import` of tables: each format gives the same records, and each row is a sample or is listed
with its line.
"""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.errors import FastrecError, LogError, UsageError
from fastrec.harnesses.log import HEAD_BYTES
from fastrec.harnesses.table import rows as table
from fastrec.harnesses.table.columns import TableColumns
from tests.lazily import Library
from tests.sizes import examples
from tests.timing import grows_linearly

pa: Any = Library("pyarrow")
pq: Any = Library("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [
    {
        "id": "1",
        "model": "org/a",
        "question": 'What is\n"2 + 2", é?',
        "gold": "4",
        "said": "4,",
        "ok": "true",
    },
    {
        "id": "2",
        "model": "org/a",
        "question": "Capital of Peru?",
        "gold": "Lima",
        "said": "",
        "ok": "No",
    },
    {
        "id": "1",
        "model": "org/b",
        "question": 'What is\n"2 + 2", é?',
        "gold": "4",
        "said": "\u20285",
        "ok": "0",
    },
]
MEANING = {
    "evaluation": "sums",
    "model_column": "model",
    "id_column": "id",
    "input_column": "question",
}
MEANING |= {
    "output_column": "said",
    "reference_column": "gold",
    "correct_column": "ok",
    "run": "tonight",
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a table in the format that the name of the file says."""
    kind = path.name.removesuffix(".zst").rpartition(".")[2]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        return path
    if kind == "json":
        data = json.dumps(rows).encode()
    elif kind == "jsonl":
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    else:
        text = io.StringIO()
        writer = csv.DictWriter(
            text, list(rows[0]), delimiter={"tsv": "\t", "csv": ",", "ssv": ";"}[kind]
        )
        writer.writeheader()
        writer.writerows(rows)
        data = text.getvalue().encode("utf-8-sig")
    path.write_bytes(zstandard.compress(data) if path.name.endswith(".zst") else data)
    return path


def records_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(fastrec.encode(record)) for record in fastrec.read(folder)]


@pytest.mark.parametrize(
    "name",
    ["t.csv", "t.tsv", "t.ssv", "t.jsonl", "t.json", "t.parquet", "t.csv.zst", "t.jsonl.zst"],
)
def test_every_format_gives_the_same_records(tmp_path: Path, name: str) -> None:
    result = fastrec.import_logs(write(tmp_path / name, ROWS), tmp_path / "out", **MEANING)
    assert [(log.samples, log.records, log.left_out) for log in result.logs] == [(3, 3, {})]
    found = records_of(tmp_path / "out")
    assert [one["model_id"] for one in found] == ["org/a", "org/a", "org/b"]
    assert [one["evaluation_id"] for one in found] == [
        f"sums/org/{model}/tonight" for model in "aab"
    ]
    assert [one["input"]["raw"] for one in found] == [row["question"] for row in ROWS]
    assert [one["input"]["reference"] for one in found] == [["4"], ["Lima"], ["4"]]
    assert [one["output"]["raw"] for one in found] == [["4,"], [], ["\u20285"]]
    assert [one["evaluation"]["is_correct"] for one in found] == [True, False, False]
    assert [one["sample_id"] for one in found] == ["1", "2", "1"]


def test_rows_that_do_not_fit_are_listed_with_their_lines(tmp_path: Path) -> None:
    """A line is that of the file, also after cells of several lines; lines add up."""
    text = b'model,q,score\nm,"a\nb",1\nm,,1\nm,c,high\nm,d\nm,e,nan\nm,f,\n\nm,\xff,1\nm,g,0.5\n'
    (tmp_path / "t.csv").write_bytes(text)
    meaning = {
        "evaluation": "e",
        "model_column": "model",
        "input_column": "q",
        "score_column": "score",
    }
    result = fastrec.import_logs(tmp_path / "t.csv", tmp_path / "out", **meaning)
    [log] = result.logs
    assert log.left_out == {
        "line 4: 'q' is empty": 1,
        "line 5: 'score' is not a number: 'high'": 1,
        "line 6: it has 2 cells, and the table 3 columns": 1,
        "line 7: 'score' is not a number: 'nan'": 1,
        "line 10: it is not UTF-8": 1,
    }
    assert (log.samples, log.records, log.errors) == (8, 3, 1)
    assert [(one["input"]["raw"], one.get("error")) for one in records_of(tmp_path / "out")] == [
        ("a\nb", None),
        ("f", "'score' is empty"),
        ("g", None),
    ]


def test_types_are_checked(tmp_path: Path) -> None:
    """Numbers are text where text is wanted; objects and lists of lists are not.

    The number of a row is named.
    """
    rows = [
        {"q": 5, "s": True, "said": [1, "b"], "more": {"x": [1]}, "graded": 1},
        {"q": {"a": 1}, "s": 1, "said": "x"},
        {"q": "x", "s": [1], "said": "x"},
        {"q": "x", "s": 0.5, "said": [["x"]]},
        {"q": "y", "s": 0.5, "said": None},
    ]
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "score_column": "s",
        "output_column": "said",
    }
    [log] = fastrec.import_logs(write(tmp_path / "t.json", rows), tmp_path / "out", **meaning).logs
    assert [reason.partition(":")[0] for reason in log.left_out] == ["row 2", "row 3", "row 4"]
    first, last = records_of(tmp_path / "out")
    assert (first["input"]["raw"], first["output"]["raw"]) == ("5", ["1", "b"])
    written = {
        "graded": "true",
        "harness": "table",
        "metric_kind": "judgement",
        "primary_metric": "true",
    }
    assert first["metadata"] == written | {"more.x": "[1]", "table.graded": "1"}
    assert (last["output"]["raw"], last["evaluation"]) == ([], {"score": 0.5, "is_correct": False})
    assert last["sample_id"] == last["sample_hash"][:16]


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.json.zst"])
def test_a_row_without_the_key_of_a_score_is_a_record_with_an_error(
    tmp_path: Path, name: str
) -> None:
    """A key that is missing in a row of JSON is an empty cell."""
    rows = [
        {"q": "x", "ok": True, "f1": 0.5},
        {"q": "y", "f1": 1},
        {"q": "z", "ok": False},
        {"q": "w"},
    ]
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "correct_column": "ok",
        "score_column": "f1",
    }
    [log] = fastrec.import_logs(write(tmp_path / name, rows), tmp_path / "out", **meaning).logs
    assert (log.samples, log.records, log.errors, log.left_out) == (4, 8, 4, {})
    found = records_of(tmp_path / "out")
    errors = [(one["input"]["raw"], one["error"]) for one in found if "error" in one]
    empty = [
        ("y", "'ok' is empty"),
        ("z", "'f1' is empty"),
        ("w", "'ok' is empty"),
        ("w", "'f1' is empty"),
    ]
    assert errors == empty


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("score", ["1_0", "1_000.5", "_1"])
def test_a_score_with_an_underscore_is_no_number(tmp_path: Path, name: str, score: str) -> None:
    rows = [{"q": "x", "s": "1"}, {"q": "y", "s": score}]
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [log] = fastrec.import_logs(write(tmp_path / name, rows), tmp_path / "out", **meaning).logs
    assert [reason.partition(": ")[2] for reason in log.left_out] == [
        f"'s' is not a number: {score!r}"
    ]
    assert [one["evaluation"]["score"] for one in records_of(tmp_path / "out")] == [1.0]


def test_several_columns_are_several_metrics(tmp_path: Path) -> None:
    rows = [{"q": "x", "ok": 1, "f1": 0.5, "bleu": 0.25}]
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "correct_column": "ok",
        "score_column": "f1,bleu",
    }
    fastrec.import_logs(write(tmp_path / "t.jsonl", rows), tmp_path / "out", **meaning)
    found = {
        one["evaluation_result_id"]: one["evaluation"]["score"]
        for one in records_of(tmp_path / "out")
    }
    assert found == {"ok": 1.0, "f1": 0.5, "bleu": 0.25}


CELL = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6
) | st.sampled_from(['"', "\n", '"\n"'])


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=12), st.integers(1, 60))
@settings(max_examples=examples(36, 2000))
def test_pieces_of_a_table_have_all_its_rows(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]], size: int
) -> None:
    """Wherever a table may be cut, its pieces have the same rows with the same lines as the whole."""
    path = tmp_path_factory.mktemp("cut") / "t.csv"
    write(
        path,
        [{"id": str(number), "q": one, "a": other} for number, (one, other) in enumerate(cells)],
    )
    plain = TableColumns()
    whole = list(table.open_table(str(path), plain).rows)
    assert [row for _, row in whole] == [
        {"id": str(number), "q": one, "a": other} for number, (one, other) in enumerate(cells)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_PIECE_BYTES", size)
        pieces = table.pieces_of(str(path), plain)
    opened = [table.open_table(str(path), plain, piece) for piece in pieces]
    assert [row for piece in opened for row in piece.rows] == whole


def test_a_wrong_cut_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stray quotes move the borders into a cell with quotes.

    The table is refused, not read wrongly.
    """
    text = 'q,s\na5",1\n' + '"x\ny",1\n' * 20 + 'b5",1\n'
    (tmp_path / "t.csv").write_text(text)
    monkeypatch.setattr(table, "_PIECE_BYTES", 40)
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [bad] = fastrec.import_logs(tmp_path / "t.csv", tmp_path / "out", **meaning).bad_logs
    assert "must be doubled" in bad.reason


def test_columns_come_from_a_file(tmp_path: Path) -> None:
    """Options of the command line replace those of the file.

    Unknown keys and missing ones are errors.
    """
    write(tmp_path / "t.csv", ROWS)
    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in MEANING.items()]
    (tmp_path / "c.toml").write_text("".join(lines))
    fastrec.import_logs(
        tmp_path / "t.csv", tmp_path / "out", columns=tmp_path / "c.toml", evaluation="other"
    )
    assert {one["evaluation_name"] for one in records_of(tmp_path / "out")} == {"other"}
    (tmp_path / "c.toml").write_text('modle = "x"\n')
    with pytest.raises(UsageError, match="modle"):
        fastrec.import_logs(tmp_path / "t.csv", tmp_path / "out", columns=tmp_path / "c.toml")
    with pytest.raises(
        UsageError,
        match="needs --evaluation or --evaluation-column, --input-column or --id-column with",
    ):
        fastrec.import_logs(tmp_path / "t.csv", tmp_path / "out", model="m")
    [bad] = fastrec.import_logs(
        tmp_path / "t.csv", tmp_path / "out2", **{**MEANING, "input_column": "x"}
    ).bad_logs
    assert bad.reason == "has no column x; its columns are id, model, question, gold, said, ok"


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ("all", {"subject", "level"}),
        ("none", set()),
        ("level, subject", {"subject", "level"}),
        ("level", {"level"}),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_metadata_of_a_table_can_be_chosen(
    name: str, chosen: str, kept: set[str], tmp_path: Path
) -> None:
    """Plain rows of CSV and all others agree. A column that is not there is an error."""
    path = write(tmp_path / name, [{**row, "subject": "x", "level": "3"} for row in ROWS])
    fastrec.import_logs(path, tmp_path / "out", metadata=chosen, **MEANING)
    for record in records_of(tmp_path / "out"):
        assert {"subject", "level"} & record["metadata"].keys() == kept
    [bad] = fastrec.import_logs(path, tmp_path / "out", metadata="level,lvl", **MEANING).bad_logs
    assert bad.reason.startswith("has no column lvl;")


def test_dates_and_decimals_of_parquet_are_plain_texts(tmp_path: Path) -> None:
    """Arrow spells them, in lists and objects too, whatever Python or pandas can hold.

    Decimals can be scores.
    """
    nanoseconds = pa.array([1_700_000_000_123_456_789, None], pa.int64()).cast(pa.timestamp("ns"))
    price = pa.array([Decimal("1.50"), Decimal("2.00")])
    columns = {
        "q": pa.array(["x", "y"]),
        "score": pa.array([Decimal("0.50"), Decimal("1.00")]),
        "day": pa.array([19_000, 2**31 - 1], pa.int32()).cast(pa.date32()),
        "at": pa.array([1_767_323_045, None], pa.int64()).cast(pa.timestamp("s")),
        "exact": nanoseconds,
        "price": price,
        "days": pa.array([[date(2026, 1, 2)], []]),
        "more": pa.array([{"price": Decimal("1.50"), "n": 1}, None]),
        "category": nanoseconds.cast(pa.string()).dictionary_encode(),
        "bytes": pa.array([b"\xff", None]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "score_column": "score",
        "output_column": "days",
    }
    [log] = fastrec.import_logs(tmp_path / "t.parquet", tmp_path / "out", **meaning).logs
    assert (log.records, log.left_out) == (2, {})
    first, second = records_of(tmp_path / "out")
    assert [one["evaluation"]["score"] for one in (first, second)] == [0.5, 1.0]
    assert [one["output"]["raw"] for one in (first, second)] == [["2026-01-02"], []]
    expected = {
        "day": "2022-01-08",
        "at": "2026-01-02 03:04:05.000",
        "exact": "2023-11-14 22:13:20.123456789",
    }
    expected |= {
        "price": "1.50",
        "more.price": "1.50",
        "more.n": "1",
        "category": expected["exact"],
        "bytes": "/w==",
    }
    assert first["metadata"].items() >= expected.items()
    assert (second["metadata"]["day"], second["metadata"]["price"]) == (
        "<value out of range: 2147483647>",
        "2.00",
    )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"a":1} {"b":2}\n\n', {1: 0}),
        ('{"a":\n1}\n{"b":2} {"c":3}\n', {1: 0, 2: 0, 3: 0}),
        ('{"a":1}\r\n\n {"b":2}', {1: 1, 3: 1}),
        ('{"a":1}\n{"b":2}', {1: 1, 2: 1}),
    ],
)
def test_a_row_is_a_line(text: str, rows: dict[int, int], tmp_path: Path) -> None:
    """Objects that share a line or have several are no rows."""
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    found = table._json_rows(str(path), table._WHOLE)
    assert {number: int(isinstance(row, dict)) for number, row in found} == rows


ODD_ROWS = {
    '{"q": "a", "s": 1, "q": "b"}': "it has the key 'q' twice",
    '{"q": "a", "s": 1, "\\u0071": "b"}': "it has the key 'q' twice",
    '{"q": "a", "s": 1, "q" :"b"}': "it has the key 'q' twice",
    '{"q": "a", "s": 1, "\\\\": 1, "\\\\": 2, "t": "\\\\\\":"}': r"it has the key '\\' twice",
    '{"q": "a", "s": 1, "t": [{"u": [], "u": []}]}': "it has the key 'u' twice",
    '{"q": "\\ud800", "s": 1}': "'q' contains half of a surrogate pair, which UTF-8 cannot encode",
    '{"q": "a", "s": 1, "t": {"\\udc00": ["b"]}}': "'t' contains half of a surrogate pair, which "
    "UTF-8 cannot encode",
    '["q", 1]': "it is no JSON object",
}


@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_rows_of_json_that_would_lose_something_are_left_out(
    tmp_path: Path, name: str, indent: str
) -> None:
    """Each is named by its line or row and the reason. All other rows are samples."""
    good = [
        '{"q": "x", "s": 1, "t": "a \\": b"}',
        '{"q" : ": \\ud83d\\ude00", "s": 0, "t": [{"q": ":"}, NaN]}',
        "{}",
    ]
    rows = [indent + row for row in (*good, *ODD_ROWS)]
    (tmp_path / name).write_text(
        "[" + ",\n".join(rows) + "]" if name == "t.json" else "\n".join(rows)
    )
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [log] = fastrec.import_logs(tmp_path / name, tmp_path / "out", **meaning).logs
    reasons = dict(reason.split(": ", 1) for reason in log.left_out)
    word = "row" if name == "t.json" else "line"
    assert reasons.pop(f"{word} 3") == "'q' is empty"
    assert reasons == {
        f"{word} {number}": reason for number, reason in enumerate(ODD_ROWS.values(), 4)
    }
    assert [one["input"]["raw"] for one in records_of(tmp_path / "out")] == ["x", ": \U0001f600"]


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_integers_of_any_length_are_read(tmp_path: Path, name: str) -> None:
    """Python converts no more than 4,300 digits. Longer integers are texts, and no scores."""
    digits = "7" * 5_000
    rows = [
        f'{{"q": {digits}, "s": 1, "t": -{digits}}}',
        f'{{"q": "x", "s": {digits}}}',
        '{"q": "y", "s": 1}',
    ]
    (tmp_path / name).write_text(
        "[" + ",".join(rows) + "]" if name == "t.json" else "\n".join(rows)
    )
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [log] = fastrec.import_logs(tmp_path / name, tmp_path / "out", **meaning).logs
    assert [reason.partition(": ")[2] for reason in log.left_out] == [
        f"'s' is not a number: '{digits[:40]}'"
    ]
    first, second = records_of(tmp_path / "out")
    assert (first["input"]["raw"], first["metadata"]["t"], second["input"]["raw"]) == (
        digits,
        f"-{digits}",
        "y",
    )


@given(
    st.lists(
        st.dictionaries(
            st.text(st.sampled_from('a":\\ '), max_size=3),
            st.recursive(
                st.text(st.sampled_from('a":\\ \n'), max_size=4),
                lambda inner: (
                    st.lists(inner, max_size=2)
                    | st.dictionaries(st.sampled_from('":'), inner, max_size=2)
                ),
                max_leaves=3,
            ),
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",\t", "\t\r:")]),
)
@settings(max_examples=examples(40, 5_000))
def test_keys_are_counted_in_the_text(
    rows: list[dict[str, Any]], separators: tuple[str, str]
) -> None:
    """Wherever a text has quotes and colons, a key that is there twice is told."""
    text = "\n".join(json.dumps(row, separators=separators) for row in rows).encode()
    assert not table._loses_keys(text, rows)
    assert [table._json_row(line) for line in text.split(b"\n")] == rows
    for row in filter(None, rows):
        twice = json.dumps(row, separators=separators)[:-1] + ", " + json.dumps(row)[1:]
        assert "twice" in table._json_row(twice.encode())


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_two_columns_of_the_same_name_are_refused(tmp_path: Path, name: str) -> None:
    if name == "t.csv":
        (tmp_path / name).write_text("q,s,a,a\nx,1,2,3\n")
    else:
        pq.write_table(
            pa.table([["x"], [1], [2], [3]], names=["q", "s", "a", "a"]), tmp_path / name
        )
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [bad] = fastrec.import_logs(tmp_path / name, tmp_path / "out", **meaning).bad_logs
    assert bad.reason == "has two columns of the same name: q, s, a, a"


@pytest.mark.parametrize(
    "text", ["\r\n\n\tq\ts\n0\tx\t1\n\n1\ty\t0\n", "\tq\ts\r\n0\tx\t1\r\n1\ty\t0"]
)
def test_blank_lines_and_a_column_without_a_name(tmp_path: Path, text: str) -> None:
    """As pandas writes it, with an index.

    Blank lines before the names of the columns are no rows.
    """
    (tmp_path / "t.tsv").write_bytes(text.encode())
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [log] = fastrec.import_logs(tmp_path / "t.tsv", tmp_path / "out", **meaning).logs
    assert (log.samples, log.left_out) == (2, {})
    records = records_of(tmp_path / "out")
    assert [one["input"] for one in records] == [
        {"raw": "x", "reference": []},
        {"raw": "y", "reference": []},
    ]
    assert [(one["metadata"][""], one.get("error")) for one in records] == [
        ("0", None),
        ("1", None),
    ]


@pytest.mark.parametrize("text", ["q,s\n", "", "[]", "{\n", "{}x"])
def test_a_table_without_rows_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    meaning = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    [bad] = fastrec.import_logs(tmp_path / "t.csv", tmp_path / "out", **meaning).bad_logs
    assert bad.reason == "has no rows that can be read"


ROW = st.fixed_dictionaries(
    {
        "id": CELL,
        "model": st.sampled_from(["a", 'b"é']),
        "question": CELL | st.just("DEL \x7f, \\n 😀"),
        "gold": CELL,
        "said": CELL,
        "ok": st.sampled_from(["true", "No", "", "perhaps"]),
        "f1": st.sampled_from(["0.1", "1", ""]),
        "wrong": st.sampled_from(["", "", "timeout"]),
        "harness": CELL,
        "": CELL,
    }
)
OPTIONS = st.sampled_from(
    [
        MEANING | {"error_column": "wrong"},
        *({**MEANING, "correct_column": "", "score_column": one} for one in ("f1", "f1,ok")),
        {**MEANING, "id_column": "", "metric": "f*"},
    ]
)


@given(st.lists(ROW, min_size=1, max_size=8), OPTIONS, st.sampled_from(["t.csv", "t.tsv"]))
@settings(max_examples=examples(12, 1000))
def test_csv_and_json_lines_give_the_same_records(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, str]],
    meaning: dict[str, str],
    name: str,
) -> None:
    folder = tmp_path_factory.mktemp("same")
    rows = [{column: row[column] for column in rows[0]} for row in rows]
    found = []
    for path in (folder / name, folder / "t.jsonl"):
        try:
            [log] = fastrec.import_logs(write(path, rows), folder / "out", **meaning).logs
        except UsageError as exc:
            found.append(str(exc))
            continue
        except FastrecError as exc:
            found.append(str(exc).partition(": ")[0])  # reasons differ in the numbers of lines
            continue
        text = (
            zstandard.ZstdDecompressor()
            .decompressobj()
            .decompress((folder / "out" / log.file).read_bytes())
        )
        reasons = sorted(reason.partition(": ")[2] for reason in log.left_out)
        found.append(
            (text, log.samples, log.records, log.errors, log.metrics, reasons, log.metrics_left_out)
        )
    assert found[0] == found[1]


def csv_rows() -> list[tuple[int, list[str]]]:
    """The rows of a table whose blocks are those of a replaced `shard_at`, each with its first
    line.
    """
    return list(table._csv_cells("t.csv", table._WHOLE, ","))


csv_text = st.text(st.sampled_from('a,;"\n\r é\x85\u2028\x00'), max_size=40)


@given(text=csv_text, block=st.sampled_from([1, 3, 1 << 20]))
@settings(max_examples=examples(180, 5_000))
@example(text='5" disk,"two\nlines"\n', block=3)
@example(text='"a""b",""\r\n""\n\n"x\n"', block=1)
def test_rows_are_those_of_csv(text: str, block: int) -> None:
    """Whatever the text and the blocks that it is read in, its rows are those of the `csv` module,
    or none are.
    """
    lines = (text[at : at + block].encode() for at in range(0, len(text), block))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "shard_at", lambda _: SimpleNamespace(read_text=lambda: lines))
        try:
            found: Any = [row for _, row in csv_rows()]
        except LogError:
            found = None
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        expected: Any = [row for row in rows if row]
    except csv.Error:
        expected = None
    assert found == expected


@pytest.mark.parametrize(
    ("start", "cell", "end"),
    [
        (b'q,s,a\nx,1,"', b"some words, ", b'"\n'),
        (b'q,s,a\nx,1,"', b"some words\n", b'"\n'),
        (b'q,s,a\n5" x,1,"', b"some words\n", b'"\n'),
        (b'{"q":"x","s":1,"a":"', b"some words, ", b'"}\n'),
    ],
)
def test_time_is_linear_in_the_size_of_a_cell(
    start: bytes, cell: bytes, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(blocks: int) -> None:
        texts = [start, *[cell] * blocks, end]
        monkeypatch.setattr(
            table, "shard_at", lambda _: SimpleNamespace(read_text=lambda: iter(texts))
        )
        if start.startswith(b"{"):
            assert len(list(table._json_rows("t.jsonl", table._WHOLE))) == 1
        else:
            assert len(csv_rows()) == 2

    assert grows_linearly(read, 8_000)


@pytest.mark.parametrize(("name", "copies"), [("t.csv", 12), ("t.jsonl", 6)])
def test_a_long_cell_takes_few_copies_of_itself(tmp_path: Path, name: str, copies: int) -> None:
    """`csv` holds a cell with four bytes per character."""
    size = examples(4, 8) << 20
    path = write(tmp_path / name, [{"q": "x", "s": 1, "said": "some words, " * (size // 12)}])
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "score_column": "s",
        "output_column": "said",
    }
    fastrec.import_logs(
        write(tmp_path / f"small-{name}", ROWS[:1]), tmp_path / "out", **MEANING
    )  # imports modules
    tracemalloc.start()
    try:
        fastrec.import_logs(path, tmp_path / "out", **meaning)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < copies * size


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_table_may_have_many_columns(tmp_path: Path, delimiter: str) -> None:
    """The names of the columns may be longer than what tells the format, and have lines of their
    own.
    """
    names = ["q", "s", *(f"column {number}\nof many" for number in range(4_000))]
    rows = [dict.fromkeys(names, str(number)) | {"q": f"question {number}"} for number in range(2)]
    path = write(tmp_path / ("t.csv" if delimiter == "," else "t.tsv"), rows)
    assert path.read_bytes().index(b"question 0") > HEAD_BYTES
    meaning = {
        "evaluation": "e",
        "model": "m",
        "input_column": "q",
        "score_column": "s",
        "metadata": names[-1],
    }
    [log] = fastrec.import_logs(path, tmp_path / "out", **meaning).logs
    assert (log.records, log.left_out) == (2, {})
    assert [one["metadata"][names[-1]] for one in records_of(tmp_path / "out")] == ["0", "1"]


def test_rows_have_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A return alone ends a row, but no line."""
    text = b'a,b\n\n"x\ny",""\r\nc\rd\nlast,"""q"""'
    monkeypatch.setattr(table, "shard_at", lambda _: SimpleNamespace(read_text=lambda: [text]))
    expected = [(1, ["a", "b"]), (3, ["x", "y"]), (5, ["c"]), (5, ["d"]), (6, ["last", '"q"'])]
    expected[1] = (3, ["x\ny", ""])
    assert csv_rows() == expected


def test_answers_without_verdicts_can_be_scored(tmp_path: Path) -> None:
    """A table needs no verdicts if it has answers: `score` judges them."""
    (tmp_path / "t.csv").write_text("m,q,gold,said\na,2 + 2,4,it is 4\nb,2 + 2,4,it is 5\n")
    fastrec.import_logs(
        tmp_path / "t.csv",
        tmp_path / "out",
        evaluation="sums",
        model_column="m",
        input_column="q",
        reference_column="gold",
        output_column="said",
    )
    fastrec.normalize(tmp_path / "out", tmp_path / "corpus")
    scored = fastrec.score(tmp_path / "corpus", tmp_path / "new", rule="number")
    assert [(model.model_id, model.old, model.new) for model in scored.models] == [
        ("a", None, 1.0),
        ("b", None, 0.0),
    ]
