"""Nights in which shards swap names or move, or corpora among them change what they say of parts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.errors import FastrecError
from fastrec.limits import Limits, use_limits
from tests.faults.failing import contents
from tests.normalize.nights import check_same
from tests.normalize.normalizing import write
from tests.normalize.test_names import line
from tests.normalize.test_trust import forge

OLD = 1_000_000_000  # long before a run: the time of a file then tells whether it has changed
GOOD = [line("0.2.1", "a", number) for number in range(6)]


def aged(*files: Path) -> None:
    for file in files:
        os.utime(file, (OLD, OLD))


def check_night(folder: Path, shards: Any, **options: Any) -> None:
    """Run a night in a directory, and compare it with a full run."""
    corpora = (folder / "night", folder / "full")
    shutil.rmtree(corpora[1], ignore_errors=True)
    fastrec.normalize(shards, corpora[0], incremental=True, overwrite=True, **options)
    fastrec.normalize(shards, corpora[1], **options)
    check_same(*map(contents, corpora))


def shards_of(folder: Path, **texts: Iterable[bytes]) -> Path:
    folder.mkdir()
    aged(*(write(folder / f"{name}.jsonl", lines) for name, lines in texts.items()))
    return folder


def test_two_shards_of_a_directory_swap_names(tmp_path: Path) -> None:
    shards = shards_of(tmp_path / "in", a=GOOD[:4], b=[*GOOD[4:], b'{"broken":'])
    check_night(tmp_path, shards, track_sources=True)
    (shards / "a.jsonl").rename(shards / "c")
    (shards / "b.jsonl").rename(shards / "a.jsonl")
    (shards / "c").rename(shards / "b.jsonl")
    check_night(tmp_path, shards, track_sources=True)


def test_fixes_are_for_a_shard_of_their_name(tmp_path: Path) -> None:
    """A shard that moves has none, until it moves back."""
    shards = shards_of(tmp_path / "in", a=[*GOOD[:3], b"{" + GOOD[3]])
    fix = tmp_path / "fix.jsonl"
    fastrec.normalize(shards, tmp_path / "first")
    fastrec.rejects(tmp_path / "first", extract=fix)
    fix.write_bytes(GOOD[3] + b"\n")
    for names in (("a", "a"), ("a", "z"), ("z", "a")):
        old, new = (shards / f"{name}.jsonl" for name in names)
        old.rename(new)
        check_night(tmp_path, shards, fixes=fix)


def test_trust_in_a_corpus_does_not_stay_with_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shards, the parts of a corpus of others are judged."""
    shards = shards_of(tmp_path / "in", a=GOOD)
    with monkeypatch.context() as patch:
        patch.setenv("FASTREC_STATE", str(tmp_path / "state of others"))
        fastrec.normalize(shards, tmp_path / "theirs", compression="none", schema="0.3.0")
    corpus = forge(tmp_path / "theirs")
    aged(*corpus.glob("part-*"))
    check_night(tmp_path, corpus, trust=True, schema="0.3.0")
    parts = [str(path) for path in corpus.glob("part-*.jsonl*")]
    check_night(tmp_path, parts, trust=True, schema="0.3.0")
    night = fastrec.open(tmp_path / "night")
    assert night.summary.line_counts.rejected == 1


@pytest.mark.parametrize("incremental", [True, False])
def test_a_part_that_its_manifest_no_longer_lists_is_refused(
    tmp_path: Path, incremental: bool
) -> None:
    """Such as after a copy that was broken off; also if an interrupted run had read it."""
    corpora = []
    for name, lines in (("x", GOOD[:3]), ("y", GOOD[3:])):
        shards = shards_of(tmp_path / f"in {name}", a=lines)
        fastrec.normalize(shards, tmp_path / name)
        aged(*(tmp_path / name).glob("*"))
        corpora.append(tmp_path / name)
    broken = write(tmp_path / "broken.jsonl.gz", [b"\x1f\x8b no gzip"])
    options: Any = {"incremental": incremental, "overwrite": True}
    with use_limits(Limits(task_bytes=1)):
        if incremental:
            fastrec.normalize(corpora[0], tmp_path / "out", **options)
        else:
            with pytest.raises(FastrecError):
                fastrec.normalize([corpora[0], broken], tmp_path / "out", **options)
        shutil.copy(corpora[1] / "manifest.json", corpora[0])
        with pytest.raises(FastrecError, match=r"belongs to another part|not the part that"):
            fastrec.normalize(corpora[0], tmp_path / "out", **options)
