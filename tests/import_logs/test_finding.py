"""Which files an import takes: any file of a log finds it, and damaged logs are never skipped
without a word.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastrec.commands.import_logs import Import, import_logs
from tests.import_logs.sample_logs import MODELS, STAMP, write_all
from tests.running import run_command

SMALL = MODELS[0].replace("/", "__")
CAPITALS = f"samples_capitals_{STAMP}.jsonl"
APPLES = f"samples_apples_{STAMP}.jsonl"
RESULTS = f"results_{STAMP}.json"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of one run of lm-eval."""
    write_all(tmp_path / "logs")
    return tmp_path / "logs" / "lm-eval" / SMALL


def names_of(result: Import) -> list[str]:
    return [Path(log.log).name for log in result.logs]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ([CAPITALS], [CAPITALS]),
        (["samples_*.jsonl"], [APPLES, CAPITALS]),
        ([RESULTS], [APPLES, CAPITALS]),
        ([RESULTS, CAPITALS], [CAPITALS]),
        ([CAPITALS, RESULTS], [CAPITALS]),
    ],
)
def test_other_files_of_a_log_are_found_beside_it(
    run: Path, tmp_path: Path, named: list[str], found: list[str]
) -> None:
    result = import_logs([run / name for name in named], tmp_path / "records")
    assert not result.bad_logs
    assert sorted(names_of(result)) == found
    whole = import_logs(run, tmp_path / "whole")
    for log in result.logs:
        assert (tmp_path / "records" / log.file).read_bytes() == (
            tmp_path / "whole" / log.file
        ).read_bytes()
        assert log.file in {one.file for one in whole.logs}


def test_files_are_found_beside_a_file_of_the_working_directory(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    result = import_logs(CAPITALS, tmp_path / "records")
    assert names_of(result) == [CAPITALS]
    assert not result.bad_logs


def test_files_are_found_beside_an_object_of_a_store(run: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.put(str(run), "/finding-test/run", recursive=True)
    try:
        result = import_logs(f"memory://finding-test/run/{CAPITALS}", tmp_path / "records")
        assert names_of(result) == [CAPITALS]
    finally:
        files.rm("/finding-test", recursive=True)


def test_samples_without_results_are_named(run: Path, tmp_path: Path) -> None:
    (run / RESULTS).unlink()
    result = import_logs(run / CAPITALS, tmp_path / "records")
    assert [Path(bad.path).name for bad in result.bad_logs] == [CAPITALS]
    assert not result.logs


@pytest.mark.each_value
@pytest.mark.parametrize(
    "name",
    [
        f"samples_more_{STAMP}.jsonl",
        "log.eval",
        "scenario_state.json",
        "per_instance_stats.json",
        f"details_a_{STAMP}.parquet",
    ],
)
@pytest.mark.parametrize("content", [b"", b"\x00 nothing that a harness writes"])
def test_a_damaged_log_in_a_directory_is_named(
    run: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (run / name).write_bytes(content)
    (run / "notes.txt").write_text("hello")
    done = run_command("import", run, "-o", tmp_path / "records")
    assert done.returncode == 3
    assert f"{name}: it is {'damaged' if content else 'empty'}".encode() in done.stderr
    assert b"note: 1 file skipped, files of another kind: " in done.stderr
    assert names_of(import_logs(run, tmp_path / "records")) == [APPLES, CAPITALS]
    assert run_command("import", run, "-o", tmp_path / "records", "--skip-bad-logs").returncode == 0


def test_an_import_killed_while_it_published_can_be_repeated(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "records"
    import_logs(run, out)
    (out / "import.json").unlink()
    (out / ".import-left").mkdir()
    import_logs(run / CAPITALS, out)
    assert len(list(out.glob("*.jsonl.zst"))) == 1
    assert not (out / ".import-left").exists()
