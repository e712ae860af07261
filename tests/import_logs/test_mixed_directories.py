"""Directories with logs, records and other files: each command reads its own, and names the others."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

import fastrec
from fastrec.commands.import_logs import import_logs
from tests.docs.reference import ROOT
from tests.harnesses.inspect_logs import sample, write_eval
from tests.import_logs.sample_logs import write_all
from tests.running import run_command


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Logs of lm-eval and Inspect, five record shards, and notes."""
    directory = tmp_path / "mixed"
    write_all(directory)
    import_logs(directory / "lm-eval", tmp_path / "made")
    for number, path in enumerate(sorted((tmp_path / "made").glob("*.zst"))):
        shutil.copy(path, directory / f"records-{number}.jsonl.zst")
    (directory / "notes.txt").write_text("notes")
    return directory


def test_import_names_what_it_skips(mixed: Path, tmp_path: Path) -> None:
    """By kind with examples; all of them with -v. The next command reads the records, too."""
    done = run_command("import", mixed, "-o", tmp_path / "out")
    text = done.stderr.decode()
    assert f"note: 4 files skipped, record shards: {mixed}/records-0.jsonl.zst, " in text
    assert "and 1 more\n" in text
    next_command = f"next: fastrec normalize {tmp_path}/out {mixed} -o corpus\n"
    assert done.stdout.decode().endswith(next_command)
    assert f"note: 1 file skipped, files of another kind: {mixed}/notes.txt\n" in text
    (mixed / "table.csv").write_text("model,answer\n")
    text = run_command("import", mixed, "-o", tmp_path / "out", "-v").stderr.decode()
    assert f"{mixed}/table.csv; for a table among them: fastrec import FILE --guess\n" in text
    assert all(f"{mixed}/records-{number}.jsonl.zst" in text for number in range(4))
    skipped = import_logs(mixed, tmp_path / "out").skipped_files
    assert {kind: len(paths) for kind, paths in skipped.items()} == {
        "record shards": 4,
        "files of another kind": 2,
    }


def test_records_beside_other_logs_are_named(mixed: Path, tmp_path: Path) -> None:
    """A directory without logs of the chosen harness is not said to have records only."""
    done = run_command("import", mixed, "-o", tmp_path / "out", "--from", "promptfoo")
    assert done.returncode == 2
    assert (
        f"error: there are no logs of promptfoo in {mixed}, but 4 shards of records\n"
        in done.stderr.decode()
    )


def test_normalize_reads_the_records_alone(mixed: Path, tmp_path: Path) -> None:
    """No line of a log is read as a record, and the command for the logs is named."""
    done = run_command("normalize", mixed, "-o", tmp_path / "corpus")
    assert done.returncode == 0
    text = done.stderr.decode()
    assert "note: 8 files not read, logs of a harness: " in text
    assert f"for them: fastrec import {mixed} -o records" in text
    fastrec.normalize(sorted(map(str, mixed.glob("*.zst"))), tmp_path / "other")
    assert (tmp_path / "corpus" / "summary.json").read_bytes() == (
        tmp_path / "other" / "summary.json"
    ).read_bytes()


@pytest.mark.parametrize("command", ["normalize", "stats"])
def test_a_log_that_is_named_beside_shards_is_refused(
    mixed: Path, tmp_path: Path, command: str
) -> None:
    log = next(mixed.rglob("samples_*.jsonl"))
    output = ["-o", tmp_path / "corpus"] if command == "normalize" else []
    done = run_command(command, mixed / "records-0.jsonl.zst", log, *output)
    assert done.returncode == 2
    assert f"these are lm-eval logs, not records: {log}\n".encode() in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        '{"spec": {"eval_name": "e", "run_id": "r", "completion_fns": ["m"]}}',
        '{"question_id": 1, "category": "math", "turns": ["1+1?"]}',
    ],
)
def test_lines_of_other_logs_are_no_records(mixed: Path, tmp_path: Path, line: str) -> None:
    (mixed / "run.jsonl").write_text(line + "\n")
    done = run_command("normalize", mixed, "-o", tmp_path / "corpus")
    assert done.returncode == 0
    assert b"9 files not read" in done.stderr


def test_directories_of_records_have_no_notice(tmp_path: Path) -> None:
    done = run_command("normalize", ROOT / "corpora" / "demo", "-o", tmp_path / "corpus")
    assert b"not read" not in done.stderr


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-40], lambda data: b"PK\x03\x04" + b"?" * 500, lambda _: b"?"]
)
def test_a_damaged_archive_is_damaged(tmp_path: Path, damage) -> None:
    (tmp_path / "logs").mkdir()
    path = write_eval(tmp_path / "logs" / "log.eval", sample())
    path.write_bytes(damage(path.read_bytes()))
    done = run_command("import", tmp_path / "logs", "-o", tmp_path / "out")
    assert done.returncode == 3
    assert b"damaged" in done.stderr or b"is not a whole zip archive" in done.stderr


def test_compressed_logs_give_the_same_records(tmp_path: Path) -> None:
    for name, pack in (("plain", bytes), ("packed", gzip.compress)):
        (tmp_path / name).mkdir()
        path = write_eval(tmp_path / name / "log.eval", sample(), sample(2))
        path.write_bytes(pack(path.read_bytes()))
        import_logs(tmp_path / name, tmp_path / f"{name}-out")
    plain, packed = (
        list(fastrec.read(str(tmp_path / f"{name}-out"))) for name in ("plain", "packed")
    )
    assert plain == packed
