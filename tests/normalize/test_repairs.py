"""`normalize --repair`: what is repaired, what would be, and where the numbers are."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fastrec
from fastrec.commands.rejects import rejects
from fastrec.corpus.rejects import decode_rejected
from fastrec.errors import UsageError
from fastrec.judge.findings import REPAIRS
from fastrec.judge.repair import repair_codes
from fastrec.limits import Limits, use_limits
from fastrec.normalize import run as run_module
from fastrec.normalize.options import Options
from fastrec.normalize.pass1_driver import sort_shards
from fastrec.normalize.run import normalize, run
from fastrec.sources.shard import numbered_lines
from fastrec.summary.document import Summary
from tests.judge.test_repair import changed, later, line_of
from tests.running import run_here

CASES: list[tuple[str, Any]] = [
    ("evaluation_result_id", None),
    ("metadata.n", 7),
    ("evaluation.score", "0.5"),
    ("evaluation.score", "@NaN@"),
    ("evaluation.is_correct", "yes"),
    ("sample_id", 5),  # of another version, and valid there but for a null
]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Two shards: one with 2 valid records and 6 to repair, and one with 3 to repair and 1 that
    cannot be.
    """
    folder = tmp_path / "in"
    folder.mkdir()
    records = [changed(later(evaluation_id=f"e{n}"), *case) for n, case in enumerate(CASES)]
    first = [line_of(later(evaluation_id=f"v{n}")) for n in range(2)] + [
        line_of(record) for record in records
    ]
    (folder / "a.jsonl").write_bytes(b"\n".join(first) + b"\n")
    last = [line_of(later(sample_id=f"s{n}", evaluation_result_id=None)) for n in range(3)]
    last.append(line_of(changed(later(), "evaluation.score", None)))
    (folder / "b.jsonl").write_bytes(b"\n".join(last) + b"\n")
    return folder


def documents(corpus: Path) -> tuple[Summary, dict[str, Any]]:
    return Summary.from_json((corpus / "summary.json").read_bytes()), json.loads(
        (corpus / "manifest.json").read_bytes()
    )


EXPECTED = {
    "repair.boolean_from_text": 1,
    "repair.nan_score": 1,
    "repair.null": 1,
    "repair.number_from_text": 1,
    "repair.result_id_null": 4,
    "repair.value_not_text": 1,
}


def test_repaired_lines_are_counted_per_code_and_shard(shards: Path, tmp_path: Path) -> None:
    """In the summary with examples, in the manifest per shard; the corpus verifies."""
    out = tmp_path / "out"
    done = run_here(
        "normalize", shards, "-o", out, "--schema", "0.3.0", "--repair", "all", "--no-progress"
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        b"12 lines: 11 kept, 0 duplicates, 1 rejected, 0 blank; 9 repaired; "
    )
    assert b"would keep" not in done.stderr
    summary, manifest = documents(out)
    assert (summary.repaired.lines, summary.repaired.by_code) == (9, EXPECTED)
    assert EXPECTED.items() <= summary.notes.items()
    assert (summary.repairable.lines, summary.repairable.by_code) == (0, {})
    assert [entry["repaired"] for entry in manifest["inputs"]] == [
        EXPECTED | {"repair.result_id_null": 1},
        {"repair.result_id_null": 3},
    ]
    assert manifest["options"]["repair"] == list(REPAIRS)
    examples = Counter(example.code for example in summary.repaired.examples)
    assert examples == {code: min(count, 3) for code, count in EXPECTED.items()}
    assert fastrec.verify(out).ok


def test_a_score_that_is_not_a_number_is_no_answer(shards: Path, tmp_path: Path) -> None:
    """The record counts as an error; the placeholder does not change a mean."""
    out = tmp_path / "out"
    summary = normalize(shards, out, schema="0.3.0", repair="nan_score")
    (record,) = [json.loads(line) for line in fastrec.cat(out) if b"not a finite number" in line]
    assert (record["evaluation"]["score"], record["evaluation"]["is_correct"]) == (0.0, False)
    (evaluation,) = [one for one in summary.evaluations if one.records == 3]
    assert evaluation.by_model[0].errors >= 1
    assert summary.repaired.by_code == {"repair.nan_score": 1}


def test_lines_that_repairs_would_keep_are_counted(shards: Path, tmp_path: Path) -> None:
    """In the closing lines, the summary, the rejects file and the list of rejected lines, also with
    some repairs.
    """
    out = tmp_path / "out"
    options = (
        "--schema",
        "0.3.0",
        "--repair",
        "null,nan_score",
        "--repair",
        "repair.value_not_text",
        "--no-progress",
    )
    done = run_here("normalize", shards, "-o", out, *options)
    message = (
        "`--repair all` would keep 6 of 7 rejected lines (4 repair.result_id_null, 1 "
        "repair.boolean_from_text, "
        "1 repair.number_from_text)"
    )
    assert f"note: {message}\n" in done.stderr.decode()
    summary, manifest = documents(out)
    left = {code: EXPECTED[code] for code in EXPECTED if "from_text" in code or "result_id" in code}
    assert (summary.repairable.lines, summary.repairable.by_code) == (6, left)
    assert manifest["options"]["repair"] == [
        "repair.null",
        "repair.value_not_text",
        "repair.nan_score",
    ]
    path = str(out / "rejects.jsonl.zst")
    lines = [decode_rejected(path, *numbered) for numbered in numbered_lines(path)]
    assert Counter(code for line in lines for code in line.repairs or ()) == left
    assert [line.repairs for line in lines].count(msgspec.UNSET) == 1
    listed = rejects(out)
    assert (listed.repairable, listed.repairable_by_code) == (6, left)
    assert [(group.path, group.count, group.repairable) for group in listed.groups] == [
        ("$.evaluation_result_id", 4, 4),
        ("$.evaluation.score", 2, 1),
        ("$.evaluation.is_correct", 1, 1),
    ]
    shown = run_here("rejects", out).stdout.decode().splitlines()
    assert shown[0] == "error schema.type  4 ×, judged as 0.3.0; --repair would keep all of them"
    assert shown[3] == "error schema.type  2 ×, judged as 0.3.0; --repair would keep 1 of them"
    assert shown[-2] == message
    assert fastrec.verify(out).ok


def test_rejected_lines_are_the_same_with_repairs_that_do_not_fit(
    shards: Path, tmp_path: Path
) -> None:
    """A repair that a line does not need changes nothing: the same parts and the same rejected
    lines.
    """
    for name, repair in (("none", ()), ("some", "number_from_boolean")):
        normalize(shards, tmp_path / name, schema="0.3.0", repair=repair)
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("none", "some")]
    assert files[0] == files[1]
    for file in files[0]:
        if file != "manifest.json":
            assert (tmp_path / "none" / file).read_bytes() == (
                tmp_path / "some" / file
            ).read_bytes()


def test_settings_and_wrong_names(shards: Path, tmp_path: Path) -> None:
    """fastrec.toml takes a list or a string; an unknown name is an error that lists the names."""
    for setting in ('repair = ["null", "result_id_null"]', 'repair = "null,result_id_null"'):
        (tmp_path / "fastrec.toml").write_text(f"[normalize]\n{setting}\n")
        run_here(
            "normalize",
            shards,
            "-o",
            "out",
            "--overwrite",
            "--schema",
            "0.3.0",
            "--no-progress",
            cwd=tmp_path,
        )
        assert documents(tmp_path / "out")[1]["options"]["repair"] == [
            "repair.result_id_null",
            "repair.null",
        ]
    done = run_here("normalize", shards, "-o", tmp_path / "no", "--repair", "null,all,nan")
    assert (
        done.returncode,
        b"there is no repair 'nan'; give all, or some of result_id_null, " in done.stderr,
    ) == (
        2,
        True,
    )
    with pytest.raises(UsageError, match="there is no repair 'nan'"):
        normalize(shards, tmp_path / "no", repair=["nan"])


def test_validate_lists_repairs(shards: Path, tmp_path: Path) -> None:
    """Each repair is a note with its locations; the log has them, too."""
    log = tmp_path / "log.jsonl"
    done = run_here("validate", shards, "--repair", "all", "--json-log", log, "--no-progress")
    assert done.returncode == 1
    text = done.stdout.decode()
    assert (
        "note repair.result_id_null  4 ×\n    $.evaluation_result_id: null left out\n    "
        f"{shards}/a.jsonl:3" in text
    )
    assert "12 lines, 11 valid (9 repaired), 1 invalid" in text
    logged = Counter(json.loads(line)["code"] for line in log.read_bytes().splitlines())
    assert {code: count for code, count in logged.items() if code in REPAIRS} == EXPECTED
    found = fastrec.validate(shards)
    assert (found.invalid, found.repairable, found.repaired) == (10, 9, 0)
    assert found.repairable_by_code == EXPECTED
    done = run_here("validate", shards, "--no-progress", "--format", "github", "--repair", "all")
    assert b"::notice file=" in done.stdout


def test_counts_of_repairs_survive_an_interrupted_run(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run, and one with another number of tasks, give the same summary as an undisturbed
    one.
    """
    small = Limits(task_bytes=1_000)
    chosen = {"schema": "0.3.0", "repair": ["null", "nan_score", "result_id_null"]}
    normalize(shards, tmp_path / "whole", **chosen)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "make_corpus", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            use_limits(small)(normalize)(shards, tmp_path / "out", **chosen)
    codes = repair_codes(chosen["repair"])
    result = use_limits(small)(run)(
        [shards], tmp_path / "out", Options(schema="0.3.0", repair=codes)
    )
    assert any(notice.startswith("resuming an interrupted run") for notice in result.notices)
    for name in ("summary.json", "rejects.jsonl.zst"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert result.summary.repaired.lines == 6
    assert result.summary.repairable.lines == 3


def _interrupted(*arguments: Any) -> None:
    sort_shards(*arguments)
    raise KeyboardInterrupt
