"""`import`: every sample is accounted for, and the shards depend on the content of the logs alone."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

import fastrec
from fastrec.commands import import_logs as pipeline_module
from fastrec.commands.import_logs import Import, import_logs
from fastrec.errors import UsageError
from fastrec.limits import Limits, use_limits
from tests.docs.reference import ROOT
from tests.import_logs.sample_logs import (
    APPLES,
    CAPITALS,
    MODELS,
    STAMP,
    choice_row,
    lm_eval_results,
    write_all,
    write_lines,
)
from tests.running import run_command
from tests.sizes import LONG
from tests.systems import in_terminal, needs_script

SEVERAL = Limits(small_input=0)
DAMAGED = "it is damaged: it has the name of a log, but not the content of one"
SMALL = MODELS[0].replace("/", "__")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_all(tmp_path / "logs")
    return tmp_path / "logs"


def records_of(directory: Path) -> list[dict[str, Any]]:
    """All records of an import, by shard."""
    lines = []
    for path in sorted(directory.glob("*.jsonl.zst")):
        text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        assert text.endswith(b"\n") or not text
        lines += [json.loads(line) for line in text.splitlines()]
    return lines


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def account_in(directory: Path) -> Import:
    return msgspec.json.decode((directory / "import.json").read_bytes(), type=Import)


def spoil(logs: Path, change: dict[str, float]) -> None:
    """State other figures for the capitals of the small model."""
    path = logs / "lm-eval" / SMALL / f"results_{STAMP}.json"
    results = json.loads(path.read_text())
    results["results"]["capitals"] |= change
    path.write_text(json.dumps(results))


def test_the_logs_of_the_repository_are_those_that_the_code_writes(logs: Path) -> None:
    """`corpora/logs` is generated; members of archives are compared, since compressors differ."""
    for made in sorted((logs / "lm-eval").rglob("*.json*")):
        assert (
            made.read_bytes() == (ROOT / "corpora" / "logs" / made.relative_to(logs)).read_bytes()
        )
    assert sorted(path.name for path in (logs / "inspect").iterdir()) == sorted(
        path.name for path in (ROOT / "corpora/logs/inspect").iterdir()
    )


def test_every_sample_and_metric_becomes_a_record(logs: Path, tmp_path: Path) -> None:
    result = import_logs(logs, tmp_path / "records")
    assert not result.bad_logs
    assert len(result.logs) == 6
    per_model = len(CAPITALS) + 2 * len(APPLES) + len(APPLES)
    assert (
        len(records_of(tmp_path / "records"))
        == 2 * per_model
        == sum(log.records for log in result.logs)
    )
    assert account_in(tmp_path / "records") == result


def test_the_records_reproduce_the_figures(logs: Path, tmp_path: Path) -> None:
    result = import_logs(logs, tmp_path / "records")
    assert all(log.comparisons and not log.disagreements for log in result.logs)


def test_all_records_are_valid(logs: Path, tmp_path: Path) -> None:
    import_logs(logs, tmp_path / "records")
    found = fastrec.validate(tmp_path / "records")
    assert found.valid == found.lines > 0
    assert not found.warnings


def test_shards_do_not_depend_on_jobs_paths_or_order(logs: Path, tmp_path: Path) -> None:
    """Neither the number of processes nor the place of the logs changes a byte of a shard, or its
    name.
    """
    import_logs(logs, tmp_path / "one")
    moved = tmp_path / "elsewhere"
    shutil.move(logs, moved)
    parts = sorted(moved.iterdir(), reverse=True)
    use_limits(SEVERAL)(import_logs)(parts, tmp_path / "two", jobs=2)
    one = files_of(tmp_path / "one")
    two = files_of(tmp_path / "two")
    assert one.pop("import.json") != two.pop("import.json")  # it has the paths
    assert one == two
    assert str(tmp_path) not in json.dumps(records_of(tmp_path / "one"))


def test_a_large_shard_is_one_frame_whatever_the_jobs(tmp_path: Path) -> None:
    """Readers that stop after the first frame read all records, also where several threads
    compress.
    """
    rows = [
        choice_row(number, f"country {number}", ["x" * 500, "y"], 0, 0) for number in range(3_000)
    ]
    write_lines(tmp_path / "logs" / f"samples_capitals_{STAMP}.jsonl", rows)
    results = lm_eval_results(MODELS[0], {"capitals": {"acc,none": 1.0}}, {"capitals": len(rows)})
    (tmp_path / "logs" / f"results_{STAMP}.json").write_text(json.dumps(results))
    for jobs in (1, 2, 4) if LONG else (1, 4):
        use_limits(SEVERAL)(import_logs)(tmp_path / "logs", tmp_path / f"records-{jobs}", jobs=jobs)
        assert files_of(tmp_path / f"records-{jobs}") == files_of(tmp_path / "records-1")
    assert len(records_of(tmp_path / "records-4")) == len(rows)


def test_an_import_replaces_an_earlier_one(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "records"
    import_logs(logs, out)
    import_logs(logs / "inspect", out)
    assert len(account_in(out).logs) == len(list(out.glob("*.zst"))) == 2
    assert {path.name for path in out.iterdir()} == {
        "import.json",
        *(log.file for log in account_in(out).logs),
    }


def test_other_directories_are_refused(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match="no import has written"):
        import_logs(logs, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_cut_log_is_named_and_the_others_are_imported(logs: Path, tmp_path: Path) -> None:
    path = logs / "lm-eval" / SMALL / f"samples_capitals_{STAMP}.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    done = run_command("import", logs, "-o", tmp_path / "records")
    assert done.returncode == 3
    assert f"samples_capitals_{STAMP}.jsonl".encode() in done.stderr
    result = account_in(tmp_path / "records")
    assert len(result.logs) == 5
    assert [Path(bad.path).name for bad in result.bad_logs] == [path.name]
    assert not [row for row in records_of(tmp_path / "records")
                if (row["evaluation_name"], row["model_id"]) == ("capitals", MODELS[0])]  # fmt: skip
    assert (
        run_command("import", logs, "-o", tmp_path / "records", "--skip-bad-logs").returncode == 0
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2026-01-01T00-00-00_task_x.eval", b""),
        ("2026-01-01T00-00-00_task_x.eval", b"PK\x03"),
        (f"samples_capitals_{STAMP}.jsonl", b""),
        (f"details_task_{STAMP}.parquet", b"\0" * 100),
    ],
)
def test_a_file_with_the_name_of_a_log_and_other_content_is_named(
    logs: Path, tmp_path: Path, name: str, text: bytes
) -> None:
    """Nothing of it is left that tells what it was. In a directory, too, it is not passed over."""
    (logs / "more").mkdir()
    (logs / "more" / name).write_bytes(text)
    (logs / "more" / "notes.eval.txt").write_bytes(text)
    result = import_logs(logs, tmp_path / "records")
    assert [Path(bad.path).name for bad in result.bad_logs] == [name]
    assert result.bad_logs[0].reason == (DAMAGED if text else "it is empty")
    other = "lm-eval" if name.endswith(".eval") else "inspect"
    assert not import_logs(logs, tmp_path / "records", from_=other).bad_logs


def test_figures_that_do_not_agree_are_listed(logs: Path, tmp_path: Path) -> None:
    spoil(logs, {"acc,none": 0.75})
    done = run_command("import", logs, "-o", tmp_path / "records")
    assert done.returncode == 0
    assert b"acc,none" in done.stdout
    assert b"0.75" in done.stdout
    assert run_command("import", logs, "-o", tmp_path / "records", "--strict").returncode == 1
    [log] = [log for log in account_in(tmp_path / "records").logs if log.disagreements]
    [found] = log.disagreements
    assert (found.metric, found.stated, found.recomputed) == ("acc", 0.75, 0.5)


def test_metrics_can_be_chosen(logs: Path, tmp_path: Path) -> None:
    result = import_logs(logs, tmp_path / "records", metric=["*:last-number", "inc*"])
    found = {row["evaluation_result_id"] for row in records_of(tmp_path / "records")}
    assert found == {"exact_match:last-number", "includes"}
    capitals = next(log for log in result.logs if log.evaluation_name == "capitals")
    assert capitals.records == 0
    assert capitals.left_out == {"no metric matches --metric": len(CAPITALS)}
    assert capitals.metrics_left_out == {"acc": len(CAPITALS)}


def test_a_pattern_that_matches_nothing_is_refused(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no metric matches 'f1\*'; the logs have acc, exact_match:last-number"
    ):
        import_logs(logs, tmp_path / "records", metric="f1*")
    assert not (tmp_path / "records").exists()


def test_the_same_log_is_imported_once(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs, tmp_path / "copy")
    result = import_logs([logs, tmp_path / "copy"], tmp_path / "records")
    assert len(result.logs) == len(result.same_logs) == 6


def test_records_of_graded_metrics_say_so(tmp_path: Path) -> None:
    """One score between 0 and 1 makes the metric graded, also for records of other slices."""
    rows = [choice_row(number, *CAPITALS[number], 0) for number in range(len(CAPITALS))]
    for number, row in enumerate(rows):
        row |= {"metrics": ["acc", "likelihood"], "likelihood": 0.25 if number == 5 else 1.0}
    write_lines(tmp_path / "logs" / f"samples_capitals_{STAMP}.jsonl", rows)
    figures = {"capitals": {"acc,none": sum(row["acc"] for row in rows) / len(rows)}}
    results = lm_eval_results(MODELS[0], figures, {"capitals": len(rows)})
    (tmp_path / "logs" / f"results_{STAMP}.json").write_text(json.dumps(results))
    result = import_logs(tmp_path / "logs", tmp_path / "records")
    records = records_of(tmp_path / "records")
    assert {
        row["evaluation_result_id"] for row in records if row["metadata"].get("graded") == "true"
    } == {"likelihood"}
    graded = [row for row in records if row["evaluation_result_id"] == "likelihood"]
    assert all(row["metadata"]["graded"] == "true" for row in graded)
    assert [row["evaluation"]["is_correct"] for row in graded] == [
        number != 5 for number in range(len(rows))
    ]
    assert {name: metric.graded for name, metric in result.logs[0].metrics.items()} == {
        "acc": False,
        "likelihood": True,
    }
    assert fastrec.validate(tmp_path / "records").valid == len(records)


def test_a_failed_import_leaves_the_earlier_one(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "records"
    import_logs(logs / "inspect", out)
    before = files_of(out)

    def fail(_task: object) -> None:
        raise OSError(28, "No space left on device", str(out))

    monkeypatch.setattr(pipeline_module.ShardTask, "__call__", fail)
    with pytest.raises(OSError, match="No space"):
        import_logs(logs, out)
    assert files_of(out) == before


def test_nothing_is_published_if_all_logs_are_bad(logs: Path, tmp_path: Path) -> None:
    for path in (logs / "inspect").iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    done = run_command("import", logs / "inspect", "-o", tmp_path / "records", "--skip-bad-logs")
    assert done.returncode == 3
    assert not (tmp_path / "records").exists()


@pytest.mark.timeout(20)
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Reading it would wait for a writer."""
    os.mkfifo(tmp_path / "pipe")
    done = run_command("import", tmp_path / "pipe", "-o", tmp_path / "records")
    assert done.returncode == 2
    assert b"not a regular file" in done.stderr


def test_records_are_no_logs(logs: Path, tmp_path: Path) -> None:
    """Who imports records is told to normalize them; beside logs, they are other files."""
    import_logs(logs, tmp_path / "records")
    for shards in (tmp_path / "records", ROOT / "corpora" / "demo"):
        done = run_command("import", shards, "-o", tmp_path / "again")
        assert done.returncode == 2
        assert b"there are no logs of a known harness in " in done.stderr
        assert b"shards of records\n" in done.stderr
        assert done.stderr.endswith(
            f"The next step is: fastrec normalize {shards} -o corpus\n".encode()
        )
    assert import_logs([logs, tmp_path / "records"], tmp_path / "again").other_files == 7


@pytest.mark.parametrize("part", ["lm-eval", "inspect"])
def test_normalize_tells_what_to_do_with_logs(logs: Path, tmp_path: Path, part: str) -> None:
    done = run_command("normalize", logs / part, "-o", tmp_path / "corpus")
    assert done.returncode == 2
    assert f"these are {part} logs".encode() in done.stderr
    assert b"fastrec import" in done.stderr
    assert not (tmp_path / "corpus").exists()
    assert run_command("validate", logs / part).returncode == 2


def test_logs_become_a_corpus(logs: Path, tmp_path: Path) -> None:
    import_logs(logs, tmp_path / "records")
    summary = fastrec.normalize([str(tmp_path / "records")], tmp_path / "corpus")
    assert summary.line_counts.kept == summary.line_counts.lines
    assert {one.evaluation_name for one in summary.evaluations} >= {
        "capitals",
        "apples",
        "apples_with_tools",
    }


def test_an_import_ends_with_the_next_command(logs: Path, tmp_path: Path) -> None:
    """The command is whole, so that it can be pasted, whatever the directory is called."""
    done = run_command("import", "logs", "-o", "my records", cwd=tmp_path)
    *_, last = done.stdout.decode().splitlines()
    assert last == "next: fastrec normalize 'my records' -o corpus"
    words = shlex.split(last.removeprefix("next: fastrec "))
    assert run_command(*words, cwd=tmp_path).returncode == 0
    assert run_command(
        "import", logs, "-o", tmp_path / "other", "--format", "json"
    ).stdout.endswith(b"}\n")


@needs_script
def test_the_table_of_figures_fits_into_a_terminal(logs: Path, tmp_path: Path) -> None:
    """Paths lose their beginning, and names of figures their end; a pipe gets both."""
    deep = tmp_path / ("a-long-name-of-a-directory-" * 4)
    shutil.move(logs, deep)
    spoil(deep, {"acc,none": 0.75, "acc_norm,none": 1 / 3})
    piped = run_command("import", deep, "-o", tmp_path / "records").stdout.decode()
    assert str(deep) in piped
    command = (
        f"stty cols 80; {sys.executable} -m fastrec import {deep} -o {tmp_path / 'records'} "
        "2> /dev/null"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        in_terminal(command), capture_output=True, env=environment, timeout=60, check=False
    )
    table = [line for line in done.stdout.decode().splitlines() if line.startswith("  ")]
    assert max(map(len, table)) <= 80
    [row] = [line for line in table if "acc,none" in line]
    assert row.split()[0].startswith("…")
    assert row.split()[-2:] == ["0.75", "0.5"]


def test_logs_in_a_store(logs: Path, tmp_path: Path) -> None:
    """Logs may be read from a store, and shards written to one."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.put(str(logs), "/import-test/logs", recursive=True)
    try:
        import_logs("memory://import-test/logs", "memory://import-test/records")
        import_logs(logs, tmp_path / "records")
        for name, data in files_of(tmp_path / "records").items():
            if name != "import.json":
                assert files.cat(f"/import-test/records/{name}") == data
    finally:
        files.rm("/import-test", recursive=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], b"nowhere: no such file, and no file matches it as a glob\n"),
        (["nowhere/*.json"], b"nowhere/*.json: no such file, and no file matches it as a glob\n"),
        (["folder"], b"folder: the directory has no files but hidden ones\n"),
        (["hidden"], b"hidden: the directory has no files but hidden ones\n"),
        (["text"], b"no log of"),
        (["empty"], b"empty: it is empty\n"),
    ],
)
def test_wrong_input_is_explained(tmp_path: Path, words: list[str], message: bytes) -> None:
    """The message says what is wrong with each name: it is missing, empty, or no log."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".log").touch()
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "empty").touch()
    done = run_command("import", *(tmp_path / word for word in words), "-o", tmp_path / "records")
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert not (tmp_path / "records").exists()


def test_copies_of_compressed_logs_do_not_stay(logs: Path, tmp_path: Path) -> None:
    """Also those of a process that ends without cleaning up."""
    packed = tmp_path / "packed"
    for path in logs.rglob("*"):
        if path.is_file():
            target = packed / path.relative_to(logs)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.with_name(f"{target.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "fastrec", "import", str(packed), "-o", str(tmp_path / "out")]
    done = subprocess.run(
        command, check=False, capture_output=True, env=os.environ | {"TMPDIR": str(scratch)}
    )
    assert b"Traceback" not in done.stderr
    assert list(scratch.iterdir()) == []
