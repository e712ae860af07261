"""`normalize --track-sources`: each record has the shard and the line of its first occurrence,
however it was made.

`normalized` compares all sources with those found by brute force.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.errors import RefusedError
from fastrec.limits import Limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.sources.formats import Format
from fastrec.sources.inputs import find_shards
from tests.faults.failing import contents
from tests.normalize.nights import Nights, parts_of
from tests.normalize.normalizing import (
    Corpus,
    StopAfter,
    audited,
    normalized,
    run_limited,
    text_of,
    write,
)
from tests.normalize.piles import MODELS, Pile, answers
from tests.normalize.test_determinism import DECOMPRESS_IN_DRIVER, SMALL_RUNS
from tests.normalize.test_merge_rounds import MERGE_EARLY
from tests.running import run_here

PART = 5_000
FEW = answers("eval-0", MODELS[0])


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Shards of all formats with duplicates within and between them, repeats, invalid and blank
    lines.
    """
    folder = tmp_path_factory.mktemp("shards")
    one = answers("eval-0", MODELS[0])
    two = answers("eval-1", MODELS[1])
    again = [line.replace(b":", b" : ", 1) for line in one]  # the same records in another spelling
    return [
        write(folder / "z.jsonl", [b"", *two, b"{", *two[:3], b" "]),
        write(folder / "a.jsonl", [*again, *answers("eval-2", MODELS[2])], Format.ZSTD),
        write(
            folder / "b.jsonl",
            [b"\xef\xbb\xbf" + one[0], *one, *two, *answers("eval-1", MODELS[3])],
            Format.GZIP,
        ),
        write(
            folder / "c.jsonl", [*answers("eval-2", MODELS[0], score=0.5), b"[]", *one], Format.XZ
        ),
        write(folder / "d.jsonl", answers("eval-2", MODELS[0], score=0.0), Format.BZ2),
    ]


@pytest.fixture(scope="module")
def expected(shards: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Their corpus, made in the simplest way."""
    return normalized(
        shards, tmp_path_factory.mktemp("expected") / "out", part_size=PART, track_sources=True
    )


WAYS: dict[str, dict[str, Any]] = {
    "two jobs": {"jobs": 2, "limits": Limits(small_input=0)},
    "little memory": {"memory": 1 << 20},
    "small runs": {"limits": SMALL_RUNS},
    "rounds": {"limits": MERGE_EARLY},
    "decompressed by the driver": DECOMPRESS_IN_DRIVER,
    "incremental": {"incremental": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_sources_depend_on_the_input_alone(
    way: str, shards: list[Path], expected: Corpus, tmp_path: Path
) -> None:
    """Not on jobs, memory, or how the input is cut and merged."""
    run_limited(shards, tmp_path / "out", {"part_size": PART, "track_sources": True, **WAYS[way]})
    assert len(expected.parts) > 3
    assert contents(tmp_path / "out") == contents(expected.path)


CONTENT: list[dict[str, Any]] = [
    {"compression": "gz"},
    {"compression": "none", "sort_by": ("model_id",)},
    {"conflicts": "first", "repeats": "first"},
    {"conflicts": "reject", "repeats": "reject", "same_run": "ignore"},
    {"schema": "0.3.0", "hash_algorithm": "xxh3_128"},
]


@pytest.mark.parametrize("content", CONTENT, ids=str)
def test_parts_and_summary_are_the_same_without(
    content: dict[str, Any], shards: list[Path], tmp_path: Path
) -> None:
    """Whatever the other options, only the manifest tells that sources are tracked."""
    with_ = normalized(shards, tmp_path / "with", part_size=PART, track_sources=True, **content)
    without = normalized(shards, tmp_path / "without", part_size=PART, **content)
    assert with_.same_for_all == without.same_for_all
    assert with_.manifest["options"].pop("track_sources") is True
    for entry in with_.manifest["parts"]:
        del entry["sources"]
    assert with_.manifest == without.manifest


def test_the_order_of_shards_decides(shards: list[Path], expected: Corpus, tmp_path: Path) -> None:
    """A duplicate comes from the shard that is named first; parts are the same."""
    corpus = normalized(shards[::-1], tmp_path / "out", part_size=PART, track_sources=True)
    assert corpus.same_for_all == expected.same_for_all
    assert corpus.sources != expected.sources


@pytest.mark.parametrize(
    "way", [{}, {"limits": SMALL_RUNS}, DECOMPRESS_IN_DRIVER], ids=["whole", "small", "chunks"]
)
def test_lines_are_those_of_the_shard_with_filters(
    way: dict[str, Any], shards: list[Path], tmp_path: Path
) -> None:
    """Records that filters leave out count as lines of their shard, before the records that match
    and after them.
    """
    corpus = normalized(
        shards[2:], tmp_path / "out", part_size=PART, track_sources=True, model=MODELS[3], **way
    )
    (counts,) = [entry for entry in corpus.manifest["inputs"] if entry["kept"]]
    assert max(line for _, line in corpus.sources) > counts["lines"]
    assert fastrec.verify(corpus.path).problems == []


def test_the_manifest_lists_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, size and checksum, beside the part."""
    monkeypatch.chdir(tmp_path)
    write(Path("runs/a.jsonl"), [b"", *FEW[:2]])
    run(["runs"], "out", Options(track_sources=True))
    manifest = json.loads(Path("out/manifest.json").read_bytes())
    (part,) = manifest["parts"]
    assert list(manifest["options"])[-1] == "track_sources"
    assert list(part)[-1] == "sources"
    data = Path("out/part-00000.sources.zst").read_bytes()
    assert part["sources"] == {
        "file": "part-00000.sources.zst",
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
    }
    text = text_of(Path("out/part-00000.sources.zst"))
    assert text == b'{"source":"runs/a.jsonl","line":3}\n{"source":"runs/a.jsonl","line":2}\n'


def test_standard_input_and_names_that_are_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same names as in the manifest and in the rejects file."""
    name = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(name)).write_bytes(b"{\n" + FEW[0])
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join([b"{", b"", *FEW[:2]])))
    )
    run(["-", os.fsdecode(name)], tmp_path / "out", Options(track_sources=True))
    corpus = Corpus(tmp_path / "out")
    assert sorted(corpus.sources) == [("-", 3), ("-", 4)]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    run([os.fsdecode(name), "-"], tmp_path / "out", Options(track_sources=True, overwrite=True))
    corpus = Corpus(tmp_path / "out")
    assert corpus.sources == [(corpus.manifest["inputs"][0]["path"], 2)]
    assert corpus.sources[0][0] in {reject["source"] for reject in corpus.rejects}
    assert fastrec.verify(tmp_path / "out").ok


def test_no_records(tmp_path: Path) -> None:
    """No parts, and no sources."""
    write(tmp_path / "a.jsonl", [b"{"])
    assert normalized(tmp_path / "a.jsonl", tmp_path / "out", track_sources=True).parts == []
    assert fastrec.verify(tmp_path / "out").ok


# Sources belong to the corpus


def test_sources_are_no_shards(expected: Corpus, tmp_path: Path) -> None:
    """A corpus as input stands for its parts alone."""
    found, notices = find_shards([str(expected.path)])
    assert [shard.path for shard in found] == [str(path) for path in expected.parts]
    assert notices == []
    assert normalized(expected.path, tmp_path / "out").lines == expected.lines


def test_a_corpus_is_replaced_with_its_sources(shards: list[Path], tmp_path: Path) -> None:
    """By one with sources, and by one without."""
    for track in (True, True, False, True):
        run(shards, tmp_path / "out", Options(part_size=PART, track_sources=track, overwrite=True))
        corpus = audited(tmp_path / "out")
        assert bool(list(corpus.path.glob("*.sources.zst"))) is track


def test_a_refused_corpus_has_its_sources(shards: list[Path], tmp_path: Path) -> None:
    """It can be looked into."""
    with pytest.raises(RefusedError):
        fastrec.normalize(shards, tmp_path / "out", track_sources=True, max_rejects=0)
    found = Corpus(tmp_path / "out.refused")
    assert len(found.sources) == len(found.lines)
    assert fastrec.verify(found.path).ok
    fastrec.normalize(shards, tmp_path / "out", track_sources=True, max_rejects=9)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Interrupted runs


@pytest.mark.parametrize("stop", [3, 9, 12])
def test_an_interrupted_run_is_resumed(
    stop: int, shards: list[Path], expected: Corpus, tmp_path: Path
) -> None:
    """Finished parts keep their sources."""
    options = {"part_size": PART, "track_sources": True, "limits": Limits(task_bytes=2_000)}
    for count in range(stop, 99, 4):
        with contextlib.suppress(KeyboardInterrupt):
            run_limited(shards, tmp_path / "out", options, progress=StopAfter(count))
            break
    assert contents(tmp_path / "out") == contents(expected.path)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("track", [True, False])
def test_the_shards_or_the_option_change_before_a_run_is_resumed(
    track: bool, shards: list[Path], tmp_path: Path
) -> None:
    """Sources have the names of the run that is published."""
    copies = [write(tmp_path / "in" / path.name, []) for path in shards]
    for path, copy in zip(shards, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    options: dict[str, Any] = {"part_size": PART, "limits": Limits(task_bytes=2_000)}
    with pytest.raises(KeyboardInterrupt):
        run_limited(
            copies, tmp_path / "out", {**options, "track_sources": track}, progress=StopAfter(14)
        )
    assert list((tmp_path / ".out.fastrec-new").glob("part-*.jsonl*")), "no part was made"
    if track:
        copies[1] = copies[1].rename(tmp_path / "in" / "renamed.jsonl.zst")
        copies.reverse()
    normalized(copies, tmp_path / "out", **options, track_sources=True)


# Incremental runs


def tracked_night(folder: Path, pile: Pile | None = None) -> Nights:
    """One night has passed, of a corpus with sources and several parts."""
    scene = Nights(folder, pile)
    scene.content = {"part_size": 4 << 10, "track_sources": True}
    scene.run()
    scene.check()
    return scene


def test_a_renamed_shard(tmp_path: Path) -> None:
    """No part is written again, and the sources have the new name; those of other parts stay."""
    pile = Pile(tmp_path / "in", evaluations=4, models=2)
    scene = tracked_night(tmp_path, pile)
    before = parts_of(scene.out)
    files = sources_in(scene.out)
    pile.rename(pile.paths[0], tmp_path / "in" / "renamed.jsonl")
    result = scene.run()
    scene.check()
    assert (result.unchanged, result.parts_written) == (len(pile.paths), 0)
    assert parts_of(scene.out) == before
    written = {name for name, found in sources_in(scene.out).items() if found != files[name]}
    assert 0 < len(written) < len(files)


def sources_in(corpus: Path) -> dict[str, tuple[int, int]]:
    found = {path.name: path.stat() for path in corpus.glob("*.sources.zst")}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def test_nothing_changed(tmp_path: Path) -> None:
    """Neither parts nor sources are written again."""
    scene = tracked_night(tmp_path)
    files = sources_in(scene.out)
    assert scene.run().parts_written == 0
    assert sources_in(scene.out) == files


def test_duplicates_come_and_go(tmp_path: Path) -> None:
    """A shard with the same records comes before all others, moves behind them, and goes; so does
    the first source.
    """
    pile = Pile(tmp_path / "in", evaluations=3, models=2)
    scene = tracked_night(tmp_path, pile)
    copy = pile.add([b"", *answers("eval-1", MODELS[0]), *answers("eval-1", MODELS[1])])
    for position in (0, len(pile.paths) - 1, 1):
        pile.paths.remove(copy)
        pile.paths.insert(position, copy)
        scene.run()
        scene.check()
    pile.write(copy, [b"", b"", *answers("eval-1", MODELS[1])[::-1]])
    scene.run()
    scene.check()
    for path in list(pile.paths[:3]):
        pile.remove(path)
        scene.run()
        scene.check()


def test_the_option_is_given_later(tmp_path: Path) -> None:
    """All shards are unchanged, and sources come from what is kept; no part is written again.

    It may go, too.
    """
    scene = Nights(tmp_path)
    for track in (False, True, False, True):
        scene.content = {"part_size": 4 << 10, **({"track_sources": True} if track else {})}
        before = parts_of(scene.out)
        result = scene.run()
        scene.check()
        assert not before or (result.unchanged, result.parts_written) == (len(scene.pile.paths), 0)
        assert not before or parts_of(scene.out) == before


def test_clean_removes_kept_sources(tmp_path: Path) -> None:
    """The corpus stays as it is."""
    scene = tracked_night(tmp_path)
    files = contents(scene.out)
    assert any(path.name.startswith("sources-") for path in scene.work.iterdir())
    assert run_here("clean", scene.out).returncode == 0
    assert contents(scene.out) == files
    assert [path.name for path in scene.out.parent.iterdir()] == ["out"]
