"""A run with too many rejected lines, or without any records, does not replace a corpus: it is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from fastrec.corpus import publish
from fastrec.corpus.lock import locked
from fastrec.errors import LockedError, NothingValidError, RefusedError, UsageError
from fastrec.normalize.options import parse_max_rejects
from fastrec.storage import storage_of
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.summary.document import LineCounts
from tests.normalize.normalizing import audited, write
from tests.samples import sample

GOOD = [json.dumps(sample(sample_id=number)).encode() for number in range(8)]
BAD = b'{"nonsense": true}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory with shards of valid records, of both kinds of lines, of invalid lines,
    and of none.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "tempfile.tempdir", str(tmp_path / "scratch")
    )  # work files of an output in a store
    (tmp_path / "scratch").mkdir()
    write(tmp_path / "good.jsonl", GOOD)
    write(tmp_path / "mixed.jsonl", [*GOOD[:6], BAD, BAD])
    write(tmp_path / "foreign.jsonl", [BAD] * 3)
    write(tmp_path / "empty.jsonl", [])
    return tmp_path


@pytest.fixture(params=["local", "store"])
def out(request: pytest.FixtureRequest) -> str:
    """An output on this machine, and one in a store."""
    if request.param == "local":
        return "corpus"
    return str(request.getfixturevalue("in_store"))


@pytest.fixture
def in_store() -> Iterator[str]:
    """An output in a store."""
    yield "memory://bucket/corpus"
    fsspec.filesystem("memory").store.clear()


def files(output: str) -> dict[str, bytes]:
    storage = storage_of(output)
    if not storage.exists(output):
        return {}
    return {path.removeprefix(output): storage.read_all(path) for path in storage.files_in(output)}


def leftovers() -> list[str]:
    """Return files of runs on this machine that should be gone."""
    return [path.name for path in Path().iterdir() if path.name.startswith(".")]


def test_too_many_rejected_lines_leave_the_old_corpus_as_it_is(out: str) -> None:
    """The old corpus stays byte for byte, and the refused one is whole, beside it, and says why."""
    fastrec.normalize("good.jsonl", out)
    before = files(out)
    with pytest.raises(RefusedError) as caught:
        fastrec.normalize("mixed.jsonl", out, overwrite=True, max_rejects="0.1%")
    assert files(out) == before
    assert caught.value.path == f"{out}.refused"
    assert caught.value.summary.line_counts.kept == 6
    assert caught.value.reason == "2 of 8 lines were rejected, and --max-rejects is 0.1%"
    assert fastrec.verify(out).ok
    assert fastrec.verify(f"{out}.refused").ok
    assert len(list(fastrec.read(f"{out}.refused"))) == 6
    assert json.loads(files(f"{out}.refused")["/manifest.json"])["refused"] == caught.value.reason
    assert leftovers() == []


def test_a_first_run_is_refused_too(out: str) -> None:
    """With the option, OUT does not appear; without it, the corpus is published."""
    with pytest.raises(RefusedError):
        fastrec.normalize("mixed.jsonl", out, max_rejects=1)
    assert files(out) == {}
    assert fastrec.verify(f"{out}.refused").ok
    assert fastrec.normalize("mixed.jsonl", out).line_counts.rejected == 2
    assert fastrec.verify(out).ok
    assert leftovers() == []


def test_an_empty_corpus_replaces_none_with_records(out: str) -> None:
    """This holds without the option; a corpus without records may be replaced by another one."""
    for shard in ("empty.jsonl", "foreign.jsonl"):
        fastrec.normalize(shard, out, overwrite=True, allow_empty=True)
    fastrec.normalize("good.jsonl", out, overwrite=True)
    before = files(out)
    for shard in ("empty.jsonl", "foreign.jsonl"):
        with pytest.raises(
            RefusedError, match="it has no records, and would replace a corpus with 8"
        ) as caught:
            fastrec.normalize(shard, out, overwrite=True, allow_empty=True)
        assert files(out) == before
        assert ("`fastrec rejects" in str(caught.value)) is (shard == "foreign.jsonl"), (
            "only if it shows something"
        )
    fastrec.normalize("mixed.jsonl", out, overwrite=True)
    assert fastrec.verify(out).ok


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "options", [{}, {"max_rejects": 0}, {"skip_bad_shards": True}, {"incremental": True}], ids=str
)
@pytest.mark.parametrize("shard", ["empty.jsonl", "blank.jsonl", "foreign.jsonl"])
def test_a_run_without_a_valid_line_publishes_nothing(
    out: str, shard: str, options: dict[str, Any]
) -> None:
    """Not where nothing was, and not in place of a corpus.

    The error says why, and nothing else is left.
    """
    write(Path("blank.jsonl"), [b"", b" ", b""])
    with pytest.raises(
        NothingValidError, match="no line is a valid record, so nothing was published"
    ) as caught:
        fastrec.normalize(shard, out, **options)
    assert caught.value.exit_code == 3
    assert "--allow-empty" in str(caught.value)
    assert ("`fastrec validate foreign.jsonl`" in str(caught.value)) is (shard == "foreign.jsonl")
    assert files(out) == files(f"{out}.refused") == {}
    assert leftovers() == []
    fastrec.normalize("good.jsonl", out)
    before = files(out)
    with pytest.raises(NothingValidError):
        fastrec.normalize(shard, out, overwrite=True, **options)
    assert files(out) == before


def test_a_corpus_without_records_is_published_if_that_is_allowed() -> None:
    """Also if no record matches the filters, which is an error otherwise."""
    assert (
        CliRunner()
        .invoke(cli, ["normalize", "empty.jsonl", "-o", "empty", "--allow-empty"])
        .exit_code
        == 0
    )
    assert (
        CliRunner()
        .invoke(cli, ["normalize", "foreign.jsonl", "-o", "rejected", "--allow-empty"])
        .exit_code
        == 1
    )
    assert (
        fastrec.normalize("good.jsonl", "none", model="x", allow_empty=True).line_counts.kept == 0
    )
    assert all(fastrec.verify(path).ok for path in ("empty", "rejected", "none"))


def test_a_refused_corpus_is_replaced_by_the_next_and_removed_by_a_published_one(out: str) -> None:
    """Each refused run replaces the last one; a run that publishes leaves none."""
    for shard, kept in (("mixed.jsonl", 6), ("foreign.jsonl", 0), ("mixed.jsonl", 6)):
        with pytest.raises(RefusedError):
            fastrec.normalize(shard, out, max_rejects=0, allow_empty=True)
        assert fastrec.verify(f"{out}.refused").records == kept
        assert fastrec.verify(f"{out}.refused").ok
    fastrec.normalize("good.jsonl", out, max_rejects=0)
    assert files(f"{out}.refused") == {}
    assert leftovers() == []


@pytest.mark.parametrize("kind", ["a corpus", "a file"])
def test_somebody_elses_files_are_neither_replaced_nor_removed(out: str, kind: str) -> None:
    """Something else at OUT.refused stops a run that might be refused before it starts, and is
    never removed.
    """
    if kind == "a corpus":
        fastrec.normalize("good.jsonl", f"{out}.refused")
    else:
        Path("corpus.refused").mkdir()
        storage_of(out).write_all(f"{out}.refused/part-00000.jsonl.zst", b"mine")
    before = files(f"{out}.refused")
    for shard in ("mixed.jsonl", "good.jsonl"):
        with pytest.raises(UsageError, match=r"corpus.refused exists, and is not a refused corpus"):
            fastrec.normalize(shard, out, max_rejects=0)
        assert files(out) == {}
    fastrec.normalize("good.jsonl", out)
    assert files(f"{out}.refused") == before


def test_inputs_in_a_refused_corpus_are_not_touched(out: str) -> None:
    """A run that would replace or remove its own input is refused before it starts."""
    with pytest.raises(RefusedError):
        fastrec.normalize("mixed.jsonl", out, max_rejects=0)
    before = files(f"{out}.refused")
    for name in (f"{out}.refused", f"{out}.refused/part-*.jsonl*"):
        with pytest.raises(UsageError, match="is the corpus that was refused last"):
            fastrec.normalize(name, out)
    assert files(f"{out}.refused") == before
    assert files(out) == {}


def test_conflicts_count_as_rejected_lines(out: str) -> None:
    """Records that `--conflicts reject` and `--repeats reject` reject in pass 2 count for the gate."""
    one = sample(sample_id=1)
    other = {**one, "evaluation": {"score": 0, "is_correct": False}}
    write(Path("conflict.jsonl"), [json.dumps(record).encode() for record in (one, other)])
    with pytest.raises(RefusedError, match="2 of 2 lines were rejected, and --max-rejects is 1"):
        fastrec.normalize("conflict.jsonl", out, conflicts="reject", max_rejects=1)
    fastrec.normalize("conflict.jsonl", out, max_rejects=0)
    third = {**one, "output": {**one["output"], "raw": "another answer"}}
    write(Path("repeat.jsonl"), [json.dumps(record).encode() for record in (one, third)])
    with pytest.raises(RefusedError, match="2 of 2 lines were rejected, and --max-rejects is 1"):
        fastrec.normalize("repeat.jsonl", out, repeats="reject", max_rejects=1, overwrite=True)


def test_a_run_that_writes_the_refused_corpus_is_not_disturbed() -> None:
    """Another run holds the lock of OUT.refused: the refused run fails, and keeps its work."""
    with (
        locked(Path("corpus.refused").resolve(), 0),
        pytest.raises(LockedError, match=r"corpus\.refused"),
    ):
        fastrec.normalize("mixed.jsonl", "corpus", max_rejects=0)
    assert not Path("corpus").exists()
    with pytest.raises(RefusedError):
        fastrec.normalize("mixed.jsonl", "corpus", max_rejects=0)
    assert audited(Path("corpus.refused")).line_counts["kept"] == 6


def test_a_refused_corpus_is_replaced_without_exchanging_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the system cannot exchange two directories, two renames do it, and nothing is left
    over.
    """
    monkeypatch.setattr(publish, "exchange", lambda *_: False)
    for shard, kept in (("mixed.jsonl", 6), ("foreign.jsonl", 0)):
        with pytest.raises(RefusedError):
            fastrec.normalize(shard, "corpus", max_rejects=0, allow_empty=True)
        assert audited(Path("corpus.refused")).line_counts["kept"] == kept
    assert leftovers() == []


def test_a_failed_rename_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a refused corpus cannot get its name, the old one and the one refused before stay.

    The next run resumes.
    """
    fastrec.normalize("good.jsonl", "corpus")
    with pytest.raises(RefusedError):
        fastrec.normalize("foreign.jsonl", "corpus", overwrite=True, allow_empty=True)
    before = files("corpus"), files("corpus.refused")

    def fail(one: Path, other: Path) -> bool:
        raise OSError(5, "Input/output error", str(one), None, str(other))

    with monkeypatch.context() as patched:
        patched.setattr(publish, "exchange", fail)
        with pytest.raises(OSError, match="Input/output error"):
            fastrec.normalize("mixed.jsonl", "corpus", overwrite=True, max_rejects=0)
    assert (files("corpus"), files("corpus.refused")) == before
    with pytest.raises(RefusedError):
        fastrec.normalize("mixed.jsonl", "corpus", overwrite=True, max_rejects=0)
    assert files("corpus") == before[0]
    assert audited(Path("corpus.refused")).line_counts["kept"] == 6


@pytest.mark.parametrize("refused", [True, False])
def test_a_crash_between_two_renames_loses_no_corpus(refused: bool) -> None:
    """A corpus that another run had moved aside at OUT.refused is restored.

    It is removed only if it was refused.
    """
    if refused:
        with pytest.raises(RefusedError):
            fastrec.normalize("mixed.jsonl", "corpus", max_rejects=0)
    else:
        fastrec.normalize("good.jsonl", "corpus.refused")
    before = files("corpus.refused")
    Path("corpus.refused").rename(".corpus.refused.fastrec-old")
    fastrec.normalize("good.jsonl", "corpus")
    assert files("corpus.refused") == ({} if refused else before)
    assert leftovers() == []


def test_a_failed_copy_in_a_store_is_repeated(
    in_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store fails while a refused corpus is copied, the old corpus stays, and the next run
    starts over.
    """
    out = in_store
    fastrec.normalize("good.jsonl", out)
    before = files(out)

    def fail(path: str, new_path: str) -> None:
        OBJECT_STORE.write_all(new_path, OBJECT_STORE.read_all(path))
        raise OSError(5, "no answer", path)

    with monkeypatch.context() as patched:
        patched.setattr(
            OBJECT_STORE.__class__, "copy", lambda _, path, new_path: fail(path, new_path)
        )
        with pytest.raises(OSError, match="no answer"):
            fastrec.normalize("mixed.jsonl", out, overwrite=True, max_rejects=0)
    assert {name: data for name, data in files(out).items() if name in before} == before
    with pytest.raises(RefusedError):
        fastrec.normalize("mixed.jsonl", out, overwrite=True, max_rejects=0)
    assert {name: data for name, data in files(out).items() if name in before} == before
    assert fastrec.verify(f"{out}.refused").ok
    assert "/.fastrec-writing" not in files(f"{out}.refused")
    fastrec.normalize("good.jsonl", out, overwrite=True)
    assert len(files(out)) == len(before), "files of the failed run are left"


def test_a_symbolic_link_keeps_its_corpus() -> None:
    """The refused corpus is beside the directory that the link leads to."""
    fastrec.normalize("good.jsonl", "nights/monday")
    Path("latest").symlink_to("nights/monday")
    with pytest.raises(RefusedError) as caught:
        fastrec.normalize("mixed.jsonl", "latest", overwrite=True, max_rejects=0)
    assert caught.value.path == str(Path("nights/monday.refused").resolve())
    assert fastrec.verify("latest").records == 8


def test_the_command_says_what_happened() -> None:
    """It prints the summary as always, and an error with reason, place and what to do, also with
    --quiet.
    """
    assert CliRunner().invoke(cli, ["normalize", "good.jsonl", "-o", "corpus"]).exit_code == 0
    arguments = [
        "normalize",
        "mixed.jsonl",
        "-o",
        "corpus",
        "--overwrite",
        "--max-rejects",
        "1",
        "--format=json",
    ]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, RefusedError)
    assert result.exception.exit_code == 1
    assert str(result.exception) == (
        "refused: 2 of 8 lines were rejected, and --max-rejects is 1. corpus was not changed, and "
        "the refused "
        "corpus is in corpus.refused: run `fastrec rejects corpus.refused` to see why lines were "
        "rejected"
    )
    document = json.loads(result.stdout)
    assert document["output"] == "corpus.refused"
    assert document["refused"] == "2 of 8 lines were rejected, and --max-rejects is 1"
    assert "8 lines: 6 kept, 0 duplicates, 2 rejected" in result.stderr


@pytest.mark.parametrize("value", ["many", -1, float("nan"), "5%%", ""])
def test_a_wrong_limit_is_refused(value: float | str) -> None:
    """A limit is a number of lines or a percentage."""
    with pytest.raises(UsageError, match="is neither a number of lines nor a percentage"):
        fastrec.normalize("good.jsonl", "corpus", max_rejects=value)


def test_a_limit_that_is_met_exactly_is_not_exceeded() -> None:
    """With doubles, 0.7 % of 1,000 lines are 6.999…, and a run with 7 rejected lines was refused."""
    for tenths in range(1_000):
        limit = parse_max_rejects(f"{tenths / 10}%")
        met, exceeded = (
            LineCounts(lines=1_000, kept=1_000 - rejected, duplicates=0, rejected=rejected, blank=0)
            for rejected in (tenths, tenths + 1)
        )
        assert limit.allows(met)
        assert not limit.allows(exceeded)


def test_limits_are_shown_as_they_were_given() -> None:
    assert [str(parse_max_rejects(value)) for value in (0, 100, 12_345_678, "0.1%", "2e0")] == [
        "0", "100", "12345678", "0.1%", "2",
    ]  # fmt: skip
