"""A request that fails is an error that names its object, and has no other meaning."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.cli.console import explain_damage
from fastrec.errors import CorpusError, ShardError, UsageError
from tests.answers.small import answer, make_corpus

pytest.importorskip("fsspec")
from tests.stores.fake import FakeStore, Faults, refused

CORPUS = "fake://bucket/nightly/corpus"


def publish(folder: Path, text: str) -> None:
    records = [answer("e", f"q{number}", "m", 1, text=text) for number in range(9)]
    (folder / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    work = {"overwrite": True, "jobs": 1, "work_dir": str(folder)}
    fastrec.normalize(folder / "in.jsonl", CORPUS, **work)


@pytest.fixture
def store(tmp_path: Path) -> Faults:
    faults = Faults()
    publish(tmp_path, "first")
    return faults


def refusing(request: str) -> Callable[[str], None]:
    """Refuse the first such request."""
    left = [request]

    def before(sent: str) -> None:
        if sent in left:
            left.clear()
            raise refused(403, "AccessDenied", errno.EACCES)

    return before


@pytest.mark.parametrize("command", [fastrec.stats, fastrec.open, fastrec.trend])
def test_a_refused_manifest_is_no_missing_manifest(
    store: Faults, command: Callable[[str], Any]
) -> None:
    store.before = refusing("HEAD /bucket/nightly/corpus/manifest.json")
    with pytest.raises(PermissionError, match="AccessDenied") as raised:
        command(CORPUS)
    assert raised.value.filename == f"{CORPUS}/manifest.json"


def test_a_refused_list_has_no_hint_about_other_files(store: Faults, tmp_path: Path) -> None:
    store.before = refusing("LIST /bucket/nightly/corpus")
    with pytest.raises(UsageError) as raised:
        fastrec.normalize(CORPUS, tmp_path / "out")
    assert f"{CORPUS}: cannot be found: AccessDenied" in str(raised.value)
    assert "jq" not in str(raised.value)


def test_a_manifest_that_the_system_does_not_tell_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of a corpus are not read as plain shards."""
    corpus = make_corpus(tmp_path, [answer("e", "q", "m", 1)])
    stat = os.stat

    def failing(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("manifest.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(OSError, match=r"Input/output error: .*manifest\.json"):
        fastrec.stats(corpus)


@pytest.mark.parametrize(
    "read", [lambda corpus: list(fastrec.cat(corpus)), fastrec.stats, fastrec.items]
)
def test_a_replaced_corpus_is_not_damaged(
    store: Faults, tmp_path: Path, read: Callable[[fastrec.Corpus], Any]
) -> None:
    corpus = fastrec.open(CORPUS)
    publish(tmp_path, "second")
    with pytest.raises((CorpusError, ShardError)) as raised, explain_damage(CORPUS):
        read(corpus)
    note = "The corpus was replaced while it was read: run the command again."
    assert raised.value.__notes__ == [note]
    assert len(list(fastrec.cat(CORPUS))) == 9
    for path in [path for path in FakeStore.store if path.endswith((".columns", ".zst"))]:
        del store.objects[path]
    with pytest.raises((CorpusError, ShardError)) as raised, explain_damage(CORPUS):
        fastrec.items(CORPUS)
    assert "The corpus is damaged" in raised.value.__notes__[0]
