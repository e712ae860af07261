"""One run on damaged shards, and the checks that always hold."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import msgspec

from fastrec.errors import BadShardsError, ForeignFormatError
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.faults import mutating
from tests.faults.failing import contents
from tests.normalize.normalizing import Corpus, audited


def write_shards(folder: Path, shards: list[tuple[str, bytes]]) -> Path:
    folder.mkdir()
    for number, (suffix, data) in enumerate(shards):
        (folder / f"{number}.jsonl{suffix}").write_bytes(data)
    return folder


def damaged(dice: random.Random) -> list[tuple[str, bytes]]:
    return [mutating.shard(dice) for _ in range(dice.randint(1, 4))]


def try_shards(folder: Path, shards: list[tuple[str, bytes]], options: Options) -> int:
    """Normalize, and again without the bad shards.

    Give the exit code that the first run stands for.

    Nothing but errors of the family, or of the operating system, may come out of it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place = write_shards(folder / "in", shards)
    try:
        report = run([place], folder / "out", options)
    except ForeignFormatError:  # such as an array: the run ends before it reads anything
        assert not (folder / "out").exists()
        return 3
    except BadShardsError as exc:
        bad = {error.path for error in exc.errors}
    else:
        corpus = audited(folder / "out", report)
        check_lines(corpus)
        return 1 if corpus.line_counts["rejected"] else 0
    assert not (folder / "out").exists()
    check_the_rest(folder, options, bad)
    return 3


def check_the_rest(folder: Path, options: Options, bad: set[str]) -> None:
    """Check that skipping bad shards gives the same corpus as the other shards alone."""
    skipping = msgspec.structs.replace(options, skip_bad_shards=True)
    corpus = audited(folder / "out", run([folder / "in"], folder / "out", skipping))
    check_lines(corpus)
    assert len(corpus.manifest["skipped"]) == len(bad)
    for path in bad:
        Path(path).unlink()
    if any((folder / "in").iterdir()):
        run([folder / "in"], folder / "rest", options)
        same = {
            name: data
            for name, data in contents(folder / "rest").items()
            if name != "manifest.json"
        }
        assert {
            name: data for name, data in contents(folder / "out").items() if name != "manifest.json"
        } == same


def check_lines(corpus: Corpus) -> None:
    """Check that every input line is counted."""
    counts = corpus.line_counts
    accounted = counts["kept"] + counts["duplicates"] + counts["rejected"] + counts["blank"]
    assert (
        accounted == counts["lines"] == sum(entry["lines"] for entry in corpus.manifest["inputs"])
    )
