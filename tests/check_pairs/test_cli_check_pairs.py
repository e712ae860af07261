"""`fastrec check-pairs` on the command line: what is printed, and the exit code; and pairs in
object stores.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import fsspec
import pytest

import fastrec
from tests.check_pairs.trees import UUID, UUIDS, Tree, aggregate, result, row, rows, text_of
from tests.running import run_command

check = partial(run_command, "check-pairs")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path)


def printed(done: object) -> str:
    """The standard output without durations."""
    text = done.stdout.decode()  # type: ignore[attr-defined]
    return text.rpartition(" (")[0]


def test_no_findings(tree: Tree) -> None:
    """Exit 0, and one line for scores and one for the verdict."""
    tree.add()
    tree.add(
        None,
        result(),
        result(0.5, "elo", metric_name="elo"),
        uuid=UUIDS[1],
        stated={"checksum": ...},
    )
    tree.write(aggregate(), UUIDS[2])
    (tree.root / "manifest.json").write_text("{}")
    done = check(".")
    assert done.returncode == 0
    assert done.stderr == b""
    assert printed(done) == (
        "scores of 3 results: 2 reproduced by the rows, 0 different, 1 not compared (1 no rows)\n"
        "1 of 2 pairs: the aggregate states no checksum\n"
        "OK: 2 pairs, 3 aggregates, 2 samples files, 8 rows, 1 other file ignored"
    )


def test_nothing_to_check(tree: Tree) -> None:
    """A directory of other files is a mistake, as an empty one is."""
    (tree.root / "import.json").write_text("{}")
    done = check(".")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: there is nothing to check")


def test_findings_as_text(tree: Tree) -> None:
    """Groups with a count, the first message and the first locations, as `validate` prints them.

    Exit 1.
    """
    tree.add([*rows(1, 0, model_id="other"), {}], result(1.0), stated={"total_rows": 7})
    done = check("data")
    assert done.returncode == 1
    assert printed(done) == (
        "error pair.model_id  2 ×\n"
        '    $.model_id: expected "org/model", found "other"\n'
        f"    data/gsm8k/org/model/{UUID}_samples.jsonl:1, "
        f"data/gsm8k/org/model/{UUID}_samples.jsonl:2\n"
        "error pair.invalid_row  1 ×\n"
        "    $.answer_attribution: the required field is missing [schema.required]\n"
        f"    data/gsm8k/org/model/{UUID}_samples.jsonl:3\n"
        "error pair.total_rows  1 ×\n"
        "    $.detailed_evaluation_results.total_rows: expected 7, as the aggregate states, found "
        "3 rows\n"
        f"    data/gsm8k/org/model/{UUID}.json:1\n"
        "scores of 1 result: 0 reproduced by the rows, 0 different, 1 not compared (1 invalid "
        "rows)\n"
        "not OK: 4 errors, 0 warnings; 1 pair, 1 aggregate, 1 samples file, 3 rows"
    )
    assert done.stderr == b"note: `fastrec validate` lists all errors of rows\n"


def test_findings_as_json(tree: Tree) -> None:
    """The document is what the function returns."""
    tree.add(rows(1, 0, evaluation_id="other"))
    done = check("data", "--format", "json", "--jobs", "2")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    expected = fastrec.check_pairs("data")
    assert found.pop("seconds") > 0
    assert found.pop("groups") == [
        {
            "code": group.code,
            "path": group.path,
            "message": group.message,
            "severity": group.severity,
            "count": group.count,
            "locations": [{"source": one.source, "line": one.line} for one in group.locations],
            "version": None,
        }
        for group in expected.groups
    ]
    assert found == {name: getattr(expected, name) for name in found}


def test_findings_as_annotations(tree: Tree) -> None:
    """One workflow command for each group, with escaped characters."""
    path = tree.add(stated={"file_path": "100%\n, a:b"})
    done = check("data", "--format", "github")
    assert done.returncode == 1
    first = done.stdout.decode().splitlines()[0]
    where = path.relative_to(tree.root)
    assert first == (
        "::error "
        f"file={where},line=1,title=pair.file_path::$.detailed_evaluation_results.file_path: "
        "expected "
        f'data/gsm8k/org/model/{UUID}_samples.jsonl, found "100%25\\n, a:b" [pair.file_path]'
    )


def test_warnings_are_findings(tree: Tree) -> None:
    """Exit 1 if there are any, unless they are allowed; errors are not."""
    tree.add(None, result(metric_id="score"))
    done = check("data")
    assert done.returncode == 1
    assert done.stdout.startswith(b"warning pair.generic_metric  1")
    assert b"not OK: 0 errors, 1 warning; 1 pair" in done.stdout
    done = check("data", "--allow-warnings")
    assert done.returncode == 0
    assert b"OK: 0 errors, 1 warning; 1 pair" in done.stdout
    tree.add(None, result(metric_id="score"), stated={"file_path": f"{UUID}_samples.jsonl"})
    assert check("data", "--allow-warnings").returncode == 1


def test_a_file_that_cannot_be_read(tree: Tree) -> None:
    """Exit 3, an error on stderr, and the others are checked."""
    tree.add()
    (tree.folder / f"{UUIDS[1]}_samples.jsonl").symlink_to("nowhere")
    done = check("data")
    assert done.returncode == 3
    name = f"data/gsm8k/org/model/{UUIDS[1]}_samples.jsonl"
    assert done.stderr.decode() == f"error: {name}: cannot be found: No such file or directory\n"
    assert printed(done).endswith(
        "not OK: 1 pair, 1 aggregate, 1 samples file, 4 rows, 1 file unreadable"
    )


def test_many_kinds_of_findings(tree: Tree) -> None:
    """Twenty groups are printed; the rest is counted."""
    lines = [
        b'{"key%d": 1, "key%d": 2, %s' % (number, number, text_of([row(0)])[1:])
        for number in range(30)
    ]
    tree.add(b"".join(lines))
    done = check("data")
    assert done.returncode == 1
    assert done.stdout.count(b"error pair.invalid_row  1") == 20
    assert b"\xe2\x80\xa6 and 10 other findings; --format json has more\n" in done.stdout


def test_settings_and_terminal_control(tree: Tree) -> None:
    """Options can be set in a file; text of input cannot control a terminal."""
    (tree.root / "fastrec.toml").write_text('[check-pairs]\nformat = "json"\n')
    tree.add(rows(1, 0, model_id="\x1b[31m\u202e"))
    done = check("data")
    assert json.loads(done.stdout)["codes"]["pair.model_id"] == 2
    text = check("data", "--format", "text").stdout.decode()
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_store_is_checked_like_a_directory(tree: Tree) -> None:
    """The same findings, with URLs in place of paths."""
    tree.add()
    tree.add(rows(1, 0), uuid=UUIDS[1])
    (tree.folder / "odd").mkdir()
    (tree.folder / "odd" / f"{UUID.upper()}.json").write_text(json.dumps(aggregate()))
    (tree.folder / ".hidden").mkdir()
    (tree.folder / ".hidden" / f"{UUID}_samples.jsonl").write_text("{}")
    store = fsspec.filesystem("memory")
    store.put(str(tree.root / "data"), "memory://pairs/data", recursive=True)
    try:
        for where in ("data", "data/gsm8k"):
            found = fastrec.check_pairs(f"memory://pairs/{where}", jobs=2)
            expected = fastrec.check_pairs(where)
            assert expected.codes["pair.score"] == 1
            assert found.codes == expected.codes
            assert (found.pairs, found.rows, found.reproduced) == (
                expected.pairs,
                expected.rows,
                expected.reproduced,
            )
            for mine, other in zip(found.groups, expected.groups, strict=True):
                assert mine.message == other.message
                assert [f"memory://pairs/{one.source}" for one in other.locations] == [
                    one.source for one in mine.locations
                ]
        assert check("memory://pairs/nothing").returncode == 2
    finally:
        store.rm("/pairs", recursive=True)
