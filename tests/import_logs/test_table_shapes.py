"""`import` of tables of any shape: rows in documents, paths as columns, names of files, scales."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.errors import UsageError
from fastrec.harnesses.table.columns import TableColumns, getter, leaves
from tests.running import run_command
from tests.sizes import examples

ROW: dict[str, Any] = {
    "q": "2 + 2?",
    "said": {"text": ["4"]},
    "verdict": {"ok": True},
    "metadata": {"task": "sums", "skills": ["a", "b"], "deep": {"x": 1, "none": None}},
}
OTHER: dict[str, Any] = {"q": "3 + 3?", "said": None, "verdict": None, "metadata": []}
PATHS = {
    "evaluation": "e",
    "model": "m",
    "input_column": "q",
    "output_column": "said.text",
    "correct_column": "verdict.ok",
}


def records_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(fastrec.encode(record)) for record in fastrec.read(folder)]


def write(path: Path, value: Any, indent: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=indent))
    return path


def imported(path: Path, **options: str) -> tuple[Any, list[dict[str, Any]]]:
    """The only log of an import, and its records."""
    result = fastrec.import_logs(path, path.parent / "out", **options)
    assert not result.bad_logs, result.bad_logs
    [log] = result.logs
    return log, records_of(path.parent / "out")


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize(
    ("document", "options"),
    [
        ([ROW, OTHER], {}),
        ({"1": ROW, "2": OTHER}, {"id_column": "@key"}),
        ({"by": "x", "results": [ROW, OTHER]}, {"rows": "results"}),
        (
            {"run": {"results": {"1": ROW, "2": OTHER}}},
            {"rows": "run.results", "id_column": "@key"},
        ),
        ([0, {"results": [ROW, OTHER]}], {"rows": "1.results"}),
    ],
)
def test_rows_may_be_anywhere_in_a_document(
    tmp_path: Path, document: Any, options: dict[str, str], indent: int | None
) -> None:
    log, (first, second) = imported(
        write(tmp_path / "t.json", document, indent), **PATHS, **options
    )
    assert (log.samples, log.records, log.errors, log.left_out) == (2, 2, 1, {})
    assert (first["input"]["raw"], first["output"]["raw"]) == ("2 + 2?", ["4"])
    assert first["evaluation"] == {"score": 1.0, "is_correct": True}
    assert second["error"] == "'verdict.ok' is empty"
    if "id_column" in options:
        assert [first["sample_id"], second["sample_id"]] == ["1", "2"]
    assert first["metadata"]["task"] == "sums"
    assert first["metadata"]["skills"] == '["a","b"]'
    assert first["metadata"]["deep.x"] == "1"
    assert second["metadata"]["metadata"] == "[]"


def test_values_beside_the_rows_serve_all_of_them(tmp_path: Path) -> None:
    document = {
        "model": "outer",
        "run": {"model": "org/a", "settings": {"t": 0.5}, "rows": [ROW, ROW | {"q": "x"}]},
        "long": "x" * 10_000,
    }
    path = write(tmp_path / "t.json", document)
    options = PATHS | {"model": "", "model_column": "^model", "rows": "run.rows"}
    _, records = imported(path, **options)
    assert {one["model_id"] for one in records} == {"org/a"}
    assert {one["metadata"]["settings.t"] for one in records} == {"0.5"}
    assert {len(one["metadata"]["long"]) for one in records} == {4_096}
    [bad] = fastrec.import_logs(
        path, tmp_path / "o", **options | {"model_column": "^modle"}
    ).bad_logs
    assert "has no column ^modle; its columns are q, said.text" in bad.reason
    assert "^model" in bad.reason


def test_shared_metadata_can_be_chosen(tmp_path: Path) -> None:
    document = {"by": "x", "graded": 1, "date": "inner", "settings": {"t": 1}, "rows": [ROW]}
    path = write(tmp_path / "2026.json", document)
    options = PATHS | {"rows": "rows", "from_path": "{date}.json"}
    own = {"graded", "harness", "metric_kind", "primary_metric"}
    for chosen, names in {
        "none": set(),
        "date": {"date", "table.date"},
        "by,settings,task": {"by", "settings.t", "task"},
    }.items():
        _, [record] = imported(path, **options, metadata=chosen)
        assert record["metadata"].keys() - own == names
    _, [record] = imported(path, **options)
    said = record["metadata"]
    assert (said["date"], said["table.date"], said["table.graded"]) == ("2026", "inner", "1")


def test_a_document_of_one_row(tmp_path: Path) -> None:
    """Files of one trial each are one import and one run, whatever is in their names."""
    for name in ("2026_org-a/t1", "2026_org-a/t2", "2026_b/t1"):
        write(tmp_path / "in" / name / "r.json", {"task": "x", "ok": True, "t": name}, indent=1)
    write(tmp_path / "in" / "readme.json", {"task": "x", "ok": True})
    write(tmp_path / "in" / "README.md", "# Read, me\n")
    options = {
        "evaluation": "e",
        "id_column": "task",
        "question_by": "id",
        "correct_column": "ok",
        "from_path": "{date}_{model}/{trial}/r.json",
    }
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **options)
    assert len(result.logs) == 3
    [(kind, files)] = result.skipped_files.items()
    assert kind == "--from-path {date}_{model}/{trial}/r.json does not match"
    assert [Path(file).name for file in files] == ["README.md", "readme.json"]
    records = records_of(tmp_path / "out")
    assert {one["evaluation_id"] for one in records} == {"e/org-a/2026", "e/b/2026"}
    assert sorted(one["metadata"]["trial"] for one in records) == ["t1", "t1", "t2"]
    assert {one["metadata"]["date"] for one in records} == {"2026"}
    assert {one["metadata"]["question_by"] for one in records} == {"id"}


def test_the_id_is_the_question(tmp_path: Path) -> None:
    """Models with other prompts have questions in common; without the option, `stats` says why."""
    for model in "ab":
        rows = [
            {"id": number, "prompt": f"{model}: {number}?", "ok": model == "a"}
            for number in range(20)
        ]
        write(tmp_path / "in" / f"{model}.json", rows)
    options = {
        "evaluation": "e",
        "from_path": "{model}.json",
        "id_column": "id",
        "input_column": "prompt",
        "correct_column": "ok",
    }
    fastrec.import_logs(tmp_path / "in", tmp_path / "r", **options)
    fastrec.normalize(tmp_path / "r", tmp_path / "c")
    said = run_command("stats", tmp_path / "c").stdout.decode()
    assert "20 sample_ids with several inputs" in said
    assert "import --question-by id" in said
    fastrec.import_logs(tmp_path / "in", tmp_path / "r", **options, question_by="id")
    fastrec.normalize(tmp_path / "r", tmp_path / "c", overwrite=True)
    said = run_command("stats", tmp_path / "c").stdout.decode()
    assert "20 questions, 20 answered by all models" in said
    assert "--question-by" not in said
    first = records_of(tmp_path / "r")[0]
    assert first["input"] == {"raw": "0", "formatted": "a: 0?", "reference": []}
    assert first["metadata"]["question_by"] == "id"


def test_a_scale_is_declared(tmp_path: Path) -> None:
    """Scores stay as they are, so the mean is that of the table. The highest is full marks."""
    rows = [{"q": str(number), "s": text} for number, text in enumerate(["1", " 7.0 ", 10, "11"])]
    options = {"evaluation": "e", "model": "m", "input_column": "q", "score_column": "s"}
    log, records = imported(write(tmp_path / "t.json", rows), **options, scale="1:10")
    assert log.left_out == {"row 4: 's' is not on the scale 1:10: '11'": 1}
    assert log.metrics[""].mean == 6
    assert [one["evaluation"]["score"] for one in records] == [1, 7, 10]
    assert [one["evaluation"]["is_correct"] for one in records] == [False, False, True]
    said = records[0]["metadata"]
    assert (said["min_score"], said["max_score"], said["graded"]) == ("1", "10", "true")


SPELLINGS = {"Correct": 1, "wrong": 0, " PASS ": 1, "failed": 0, "✓": 1, "✗": 0, "T": 1, "n": 0}


@pytest.mark.parametrize(("null", "errors"), [("", 4), ("error", 4), ("wrong", 0)])
def test_verdicts_have_many_spellings(tmp_path: Path, null: str, errors: int) -> None:
    values = [*SPELLINGS, True, False, 1.0, 0, None, "", "None", "n/a"]
    rows = [{"q": str(number), "ok": value} for number, value in enumerate(values)]
    options = {"evaluation": "e", "model": "m", "input_column": "q", "correct_column": "ok"}
    log, records = imported(write(tmp_path / "t.json", rows), **options, null_verdict=null)
    assert (log.samples, log.left_out, log.errors) == (len(values), {}, errors)
    expected = [*SPELLINGS.values(), 1, 0, 1, 0, 0, 0, 0, 0]
    assert [one["evaluation"]["score"] for one in records] == expected


def test_copies_of_a_run_are_reported(tmp_path: Path) -> None:
    """A copy under another name is another model, so it is imported, with a note."""
    rows = [{"q": str(number), "ok": number % 3 == 0} for number in range(9)]
    for model in ("b", "a", "c"):
        write(tmp_path / "in" / model / "t.json", rows if model != "c" else rows[1:])
    write(tmp_path / "in" / "d" / "t.json", [row | {"seconds": 1} for row in rows])
    write(tmp_path / "in" / "a" / "again" / "t.json", rows)
    options = {"evaluation": "e", "input_column": "q", "correct_column": "ok", "run": "r"}
    result = fastrec.import_logs(
        tmp_path / "in", tmp_path / "out", **options, from_path="in/{model}/**t.json"
    )
    assert [len(log.notes) for log in result.logs] == [0, 1, 0, 0]
    original = f"e/a/r ({tmp_path}/in/a/t.json)"
    assert result.logs[1].notes == [f"all 9 rows of e/b/r are equal to those of {original}"]
    assert list(result.same_logs) == [str(tmp_path / "in/a/again/t.json")]


def test_copies_in_one_table_and_in_files_of_one_row(tmp_path: Path) -> None:
    rows = [{"m": model, "q": str(number), "ok": 1} for model in "ab" for number in range(3)]
    options = {"evaluation": "e", "input_column": "q", "correct_column": "ok", "run": "r"}
    log, _ = imported(write(tmp_path / "t.json", rows), **options, model_column="m")
    assert log.notes == [f"all 3 rows of e/b/r are equal to those of e/a/r ({tmp_path}/t.json)"]
    for row in rows:
        write(tmp_path / "in" / row["m"] / f"{row['q']}.json", row | {"m": 0})
    result = fastrec.import_logs(
        tmp_path / "in", tmp_path / "out", **options, from_path="{model}/{id}.json"
    )
    assert [note for log in result.logs for note in log.notes] == [
        f"all 3 rows of e/b/r are equal to those of e/a/r ({tmp_path}/in/a/0.json)"
    ]


HOSTILE = {
    '{"1": {"q": "x"}, "1": {"q": "y"}}': "has the key '1' twice",
    '{"1": [1], "2": {"q": "y", "ok": 1}}': {"row 1: it is no JSON object": 1},
    '{"1": null, "2": {"q": "y", "ok": 1}}': {"row 1: it is no JSON object": 1},
    '[{"q": "y", "ok": 1}]': "has no object of rows, which @key needs, at 'its top'",
    '{"1": {"q": "y", "ok": 1}': "is no JSON, or it is cut or damaged: Input data was truncated",
    '{"1": {"q": ["a", "b"], "ok": 1}, "2": {"q": "y", "ok": 1}}': {
        "row 1: 'q' has several texts": 1
    },
    '{"1": {"\\ud800": NaN, "ok": 1}, "2": {"q": "y", "ok": 1}}': {"row 1: 'q' is empty": 1},
    f'{{"1": {"[" * 50_000 + "]" * 50_000}, "2": {{"q": "y", "ok": 1}}}}': "nested too deeply",
    f'{{"1": {"[" * 500 + "]" * 500}, "2": {{"q": "y", "ok": 1}}}}': {
        "row 1: it is no JSON object": 1
    },
    "{}": "has no rows that can be read",
    "5": "has no rows that can be read",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_documents(tmp_path: Path, text: str) -> None:
    """Whatever is in a document, it is an error that says what, or each row is accounted for."""
    expected = HOSTILE[text]
    path = write(tmp_path / "t.json", text)
    options = {"evaluation": "e", "model": "m", "id_column": "@key"}
    options |= {"input_column": "q", "correct_column": "ok"}
    result = fastrec.import_logs(path, tmp_path / "out", **options)
    if isinstance(expected, str):
        [bad] = result.bad_logs
        assert expected in bad.reason
    else:
        [log] = result.logs
        assert (log.samples, log.records, log.left_out) == (2, 1, expected)


def test_many_keys(tmp_path: Path) -> None:
    """A row has all of its columns as metadata, but an object with very many keys is one text."""
    many = {f"k{number}": number for number in range(1_000)}
    rows = {str(number): {"q": "x", "ok": 1} for number in range(1_000)}
    rows["0"] |= {"many": many, **many}
    options = {"evaluation": "e", "model": "m", "id_column": "@key"}
    options |= {"input_column": "q", "correct_column": "ok"}
    log, records = imported(write(tmp_path / "t.json", rows), **options)
    assert (log.samples, log.records) == (1_000, 1_000)
    assert json.loads(records[0]["metadata"]["many"]) == many
    assert records[0]["metadata"]["k7"] == "7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "10"}, "scale must be"),
        ({"scale": "10:1"}, "scale must be"),
        ({"scale": "a:b"}, "scale must be"),
        ({"from_path": "x.json"}, "has no name in braces"),
        ({"from_path": "{a}/{a}"}, "is no pattern"),
        ({"question_by": "hash"}, "question_by must be one of input, id"),
        ({"null_verdict": "right"}, "null_verdict must be one of error, wrong"),
        ({"question_by": "id", "input_column": ""}, "--id-column with --question-by id"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, str], message: str) -> None:
    path = write(tmp_path / "t.json", [ROW])
    with pytest.raises(UsageError, match=message):
        fastrec.import_logs(path, tmp_path / "out", **PATHS | options)


def test_files_of_a_directory_that_are_no_such_tables_are_named(tmp_path: Path) -> None:
    """They are skipped, if at least one is a table; a damaged one is an error."""
    write(tmp_path / "in" / "a.json", [ROW])
    write(tmp_path / "in" / "score.json", {"average": 0.5})
    write(tmp_path / "in" / "README.md", "# A, table\n")
    write(tmp_path / "in" / "cut.json", '[{"q": "x", "verdict":')
    (tmp_path / "in" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n\0,")
    (tmp_path / "in" / "empty.csv").touch()
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **PATHS)
    assert [Path(log.log).name for log in result.logs] == ["a.json"]
    assert [Path(bad.path).name for bad in result.bad_logs] == ["cut.json"]
    assert {kind: len(files) for kind, files in result.skipped_files.items()} == {
        "no tables": 3,
        "tables that lack columns: q": 1,
    }
    assert result.other_files == 4
    with pytest.raises(UsageError, match=r"all files are left out; .*--guess"):
        fastrec.import_logs(
            tmp_path / "in", tmp_path / "o", **PATHS | {"from_path": "{x}/none.json"}
        )
    said = run_command("import", tmp_path / "in", "-o", tmp_path / "o").stderr
    assert b"--guess" in said


def test_a_column_that_only_some_tables_lack_is_noted(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.json", [ROW | {"why": "timeout"}])
    write(tmp_path / "in" / "b.json", [ROW | {"q": "y"}])
    options = PATHS | {"error_column": "why"}
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **options)
    assert [log.notes for log in result.logs] == [[], ["has no column why"]]
    options["error_column"] = "whi"
    bad = fastrec.import_logs(tmp_path / "in", tmp_path / "o", **options).bad_logs
    assert len(bad) == 2
    assert bad[0].reason.startswith("has no column whi; its columns are q, said.text, ")


KEYS = st.text(st.sampled_from("ab"), min_size=1, max_size=2)
OBJECTS = st.recursive(
    st.integers(0, 9) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, OBJECTS, max_size=3))
@settings(max_examples=examples(30, 2_000))
def test_paths_lead_to_all_values(row: dict[str, Any]) -> None:
    paths = {path: value for item in row.items() for path, value in leaves(*item)}
    assert {path: getter(path, {})(row) for path in paths} == paths
    text = json.dumps(row)
    assert json.dumps(list(paths.values())).count("[") - 1 == text.count("[")
    assert sum(map(str.isdigit, text)) == sum(map(str.isdigit, json.dumps(list(paths.values()))))


def test_names_of_files_may_be_no_utf8(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a\udcff.json", [ROW])
    options = {**PATHS, "model": "", "from_path": "{model}.json"}
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **options)
    assert [log.records for log in result.logs] == [1]
    assert records_of(tmp_path / "out")[0]["model_id"].startswith("a")


GUESSED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "table": (
        {
            "t.csv": "model,question,gold,response,ok,subject\na,2 + 2,4,4,yes,math\nb,2 + 2,4,5,no,x\n"
        },
        {"--model-column", "--input-column", "--reference-column", "--correct-column"},
    ),
    "keys": (
        {
            f"{model}/output_{model}.json": {
                str(number): {"query": "q", "response": "r", "true_false": number > 1}
                for number in range(3)
            }
            for model in ("a", "b")
        }
        | {"README.md": "# Read, me", "scores.json": {"average": {"accuracy": 1}}},
        {"--from-path", "--correct-column", "--input-column", "--id-column"},
    ),
    "list": (
        {"r.json": {"model": "x", "results": [{"task_id": "t", "is_resolved": True}]}},
        {"--rows", "--model-column", "--question-by", "--correct-column"},
    ),
    "folders": (
        {f"{name}/t.jsonl": '{"id": 1, "score": "7"}\n{"id": 2, "score": 3}\n' for name in "ab"},
        {"--from-path", "--score-column", "--id-column", "--question-by"},
    ),
    "evaluations": (
        {
            f"{task}/gpt-{size}.jsonl": f'{{"id": 1, "ok": 1, "question": "{task}"}}\n'
            for task in ("arc", "gsm")
            for size in "45"
        },
        {"--from-path", "{evaluation}/{model}.jsonl"},
    ),
    "answers": (
        {"x.json": [{"prompt": "p", "output": ["o"], "generator": "g", "dataset": "d"}]},
        {"--output-column", "--model-column", "--evaluation-column"},
    ),
    "letters": (
        {
            "m.json": [
                {
                    "question_id": number,
                    "question": f"q{number}",
                    "options": ["yes", "no"],
                    "answer": "A",
                    "pred": "B",
                    "model_outputs": "The answer is (B).",
                }
                for number in range(3)
            ]
        },
        {"--output-column", "model_outputs", "--reference-column", "answer"},
    ),
}


@pytest.mark.parametrize("name", GUESSED)
def test_a_guess_is_one_command_that_runs(tmp_path: Path, name: str) -> None:
    """Each further line is a comment. Nothing is written until the command runs."""
    files, options = GUESSED[name]
    for file, value in files.items():
        write(tmp_path / "in" / file, value)
    result = run_command("import", tmp_path / "in", "-o", tmp_path / "out", "--guess")
    assert not (tmp_path / "out").exists()
    line, *comments = result.stdout.decode().splitlines()
    assert all(comment.startswith("# ") for comment in comments)
    assert any("README.md" in comment for comment in comments) == ("README.md" in files)
    words = shlex.split(line)
    assert words[:2] == ["fastrec", "import"]
    assert options < {*words}
    imported = run_command(*words[1:])
    assert (imported.returncode, b"left out" in imported.stderr) == (0, False), imported.stderr
    models = {record["model_id"] for record in records_of(tmp_path / "out")}
    assert models == {"keys": {"a", "b"}, "folders": {"a", "b"}, "table": {"a", "b"}}.get(
        name, models
    )


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    """With the files that have it; without any record, an earlier import stays."""
    rows = {"a.csv": "m,1,q,yes\nm,2,q,huh\n", "b.csv": "m,3,q,no\nm,4,q,huh\n"}
    for name, text in rows.items():
        (tmp_path / name).write_text("model,id,question,ok\n" + text)
    given = (tmp_path, "--evaluation", "E", "--model-column", "model", "--id-column", "id")
    given += ("--input-column", "question")
    done = run_command("import", *given, "-o", tmp_path / "out", "--correct-column", "ok")
    reason = "2 samples left out: line 3: 'ok' is not true or false: 'huh'"
    assert f"a.csv, {tmp_path}/b.csv: {reason}" in done.stderr.decode()
    assert b"next: fastrec normalize" in done.stdout
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    done = run_command("import", *given, "-o", tmp_path / "out", "--score-column", "ok")
    assert (done.returncode, done.stdout) == (3, b"")
    reason = "a.csv: line 2: 'ok' is not a number: 'yes'"
    assert f"error: no sample became a record: {tmp_path}/{reason}" in done.stderr.decode()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == made


def guessed(folder: Path) -> tuple[str, str]:
    """The proposed command, and the comments about it."""
    result = run_command("import", folder, "-o", folder.parent / "out", "--guess")
    command, _, comments = result.stdout.decode().partition("\n")
    return command, comments


def test_questions_without_answers_are_no_such_tables(tmp_path: Path) -> None:
    """Neither are objects of texts. The pattern of names is that of the others."""
    asked = {"1": {"question": "q", "answer": "4"}, "2": {"question": "r", "answer": "5"}}
    for name in "ab":
        rows = {
            key: row | {"response": "5", "true_false": key == "2"} for key, row in asked.items()
        }
        write(tmp_path / f"in/output_{name}.json", rows, 1)
    write(tmp_path / "in/questions.json", asked, 1)
    texts = write(tmp_path / "in/texts.json", {"1": "q", "2": "r"}, 1)
    command, comments = guessed(tmp_path / "in")
    assert "--from-path 'output_{model}.json'" in command
    assert "questions.json" in comments
    options = {"evaluation": "e", "id_column": "@key", "correct_column": "true_false"}
    options |= {"question_by": "id", "from_path": "{model}.json"}
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **options)
    assert (len(result.logs), result.bad_logs) == (2, [])
    [bad] = fastrec.import_logs(texts, tmp_path / "out", **options).bad_logs
    assert "has no rows that can be read" in bad.reason


def test_a_guess_knows_tables_of_swe_bench(tmp_path: Path) -> None:
    rows = [
        {"instance_id": f"django-{number}", "model_name_or_path": "m", "resolved": number > 1}
        for number in range(3)
    ]
    write(tmp_path / "in/t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    command, _ = guessed(tmp_path / "in")
    for option in (
        "--id-column instance_id",
        "--model-column model_name_or_path",
        "--correct-column resolved",
    ):
        assert option in command


@pytest.mark.parametrize(("verdicts", "is_error"), [("yn", False), ("nn", True), ("y", True)])
def test_errors_of_right_answers_are_no_errors(
    tmp_path: Path, verdicts: str, *, is_error: bool
) -> None:
    """Otherwise the right answers would not count."""
    lines = [f"m,q{number},{verdict},slow" for number, verdict in enumerate(verdicts)]
    rows = [*lines, "m,r,y,None", "m,s,y,"] if len(lines) > 1 else ["m,r,y,None"]
    write(tmp_path / "in/t.csv", "\n".join(["model,question,ok,error", *rows]))
    command, comments = guessed(tmp_path / "in")
    assert ("--error-column" in command) == is_error
    assert ("right answers have one" in comments) != is_error


def test_a_guess_takes_columns_that_have_values(tmp_path: Path) -> None:
    """Not a few corrections of references, and no scores that are not there."""
    row = {"model": "m", "question": "q", "answer": "4", "output": "5", "reference": None}
    rows = [row | {"score": score, "gold": None} for score in ("7", 3, None)]
    rows[0]["gold"] = "five"
    write(tmp_path / "in/t.json", rows)
    command, comments = guessed(tmp_path / "in")
    assert "--reference-column answer" in command
    assert "from 3 to 7" in comments
    assert "they are repeats" not in comments
    write(tmp_path / "in/other_judge/t.json", rows)
    assert "they are repeats" in guessed(tmp_path / "in")[1]


def test_logs_of_a_harness_need_no_guess(tmp_path: Path) -> None:
    trial = {"trial_name": "t", "task_id": "t", "is_resolved": True}
    write(tmp_path / "in/20250101_a_b/results.json", {"results": [trial]})
    command, comments = guessed(tmp_path / "in")
    assert command.endswith(str(tmp_path / "out"))
    assert "terminal-bench" in comments
    # Samples of lm-eval without the results of their run are no log, but a table.
    sample = {"doc_id": 1, "doc": {"q": "2"}, "target": "4", "resps": [["4"]], "acc": 1.0}
    write(tmp_path / "other/m.jsonl", json.dumps(sample))
    assert "--correct-column acc" in guessed(tmp_path / "other")[0]


def test_documents_without_the_rows_are_skipped(tmp_path: Path) -> None:
    """Settings beside results, unless they are named."""
    write(tmp_path / "in/m.json", {"data": {"rows": [{"q": "2", "ok": True}]}})
    settings_file = write(tmp_path / "in/settings.json", {"seed": 1})
    options = {"evaluation": "e", "model": "m", "input_column": "q", "correct_column": "ok"}
    options["rows"] = "data.rows"
    result = fastrec.import_logs(tmp_path / "in", tmp_path / "out", **options)
    assert (len(result.logs), result.bad_logs) == (1, [])
    [bad] = fastrec.import_logs(settings_file, tmp_path / "out", **options).bad_logs
    assert "has no list of rows at 'data.rows'" in bad.reason


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no table"),
        ('{"a": 1}', "no columns look like questions or ids, and answers or verdicts"),
        ("[1, 2]", "there is no table"),
        ("{", "is cut or damaged"),
    ],
)
def test_what_cannot_be_guessed_is_said(tmp_path: Path, content: str, message: str) -> None:
    result = run_command("import", write(tmp_path / "t.json", content), "--guess")
    assert result.returncode == 2
    assert message in result.stderr.decode()


def test_paths_match_patterns_at_their_end() -> None:
    columns = TableColumns(from_path="results/{date}_{model}/{trial}/*.json")
    assert columns.in_path("/x/results/2026-01-02_a_b/t.1/results.json") == {
        "date": "2026-01-02",
        "model": "a_b",
        "trial": "t.1",
    }
    assert columns.in_path("xresults/d_m/t/r.json") is None
    assert columns.in_path("results/d_m/t/u/r.json") is None
    assert TableColumns().in_path("any") == {}
