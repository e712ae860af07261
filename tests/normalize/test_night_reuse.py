"""What an incremental night does again: only new and changed shards are judged, only changed parts
are written.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fastrec.errors import BadShardsError
from fastrec.limits import Limits
from fastrec.normalize import parts as parts_module
from fastrec.normalize.options import RECORDED, Options
from fastrec.normalize.part_steps import PartTask
from fastrec.normalize.run import NormalizeResult
from fastrec.sources.formats import Format
from fastrec.summary.tally import Tally
from tests.normalize.nights import MERGE_EARLY, SMALL_TASKS, TWO_JOBS, Nights, parts_of
from tests.normalize.normalizing import Corpus
from tests.normalize.piles import MODELS, UNSEEN, Pile, answers, record

PART = 4 << 10
EVALUATIONS = 4


@pytest.fixture
def scene(tmp_path: Path) -> Nights:
    """The work of one night."""
    return first_night(tmp_path)


def first_night(folder: Path) -> Nights:
    """Four evaluations with two models each, a shard per evaluation and model, several parts per
    evaluation.
    """
    pile = Pile(folder / "in", evaluations=EVALUATIONS, models=2)
    scene = Nights(folder, pile)
    scene.content = {"part_size": PART}
    scene.run()
    return scene


def shard_of(scene: Nights, evaluation: str, model: str = MODELS[0]) -> Path:
    """Return the shard with the records of a model."""
    first = answers(evaluation, model)[0]
    return next(path for path in scene.pile.paths if first in scene.pile.lines[path])


def counts(result: NormalizeResult) -> tuple[int, int, int, int]:
    return result.unchanged, result.new, result.changed, result.gone


def parts_without(corpus: Path, evaluation: str) -> dict[str, tuple[int, int]]:
    """Return inode and time of the parts without records of an evaluation, by the hash of the text."""
    entries = json.loads((corpus / "manifest.json").read_bytes())["parts"]
    files = parts_of(corpus)
    others = [
        part
        for part in entries
        if not part["first"]["evaluation_name"] <= evaluation <= part["last"]["evaluation_name"]
    ]
    return {part["text_xxh3_128"]: files[part["file"]] for part in others}


# Nothing changed


@pytest.mark.each_value
@pytest.mark.parametrize(
    "way",
    [
        {},
        {"limits": SMALL_TASKS},
        {"limits": MERGE_EARLY},
        {"jobs": 2, "limits": TWO_JOBS},
        {"memory": 5 << 20},
    ],
)
@pytest.mark.parametrize("check", ["stat", "content"])
def test_an_unchanged_night_writes_no_part(way: dict[str, Any], check: str, scene: Nights) -> None:
    """All parts are the files of the night before, however the run works."""
    before = parts_of(scene.out)
    assert len(before) > EVALUATIONS
    result = scene.run(check=check, **way)
    assert counts(result) == (len(scene.pile.paths), 0, 0, 0)
    assert result.parts_written == 0
    assert parts_of(scene.out) == before, "parts have been written again"
    assert result.notices == []
    scene.check()


@pytest.mark.parametrize("deed", sorted(UNSEEN))
def test_renamed_moved_and_reordered_shards_are_not_judged_again(deed: str, scene: Nights) -> None:
    """The manifest has the new names and order; no part is written."""
    before = parts_of(scene.out)
    for seed in range(5):
        UNSEEN[deed](scene.pile, random.Random(seed))
    result = scene.run()
    assert counts(result) == (len(scene.pile.paths), 0, 0, 0)
    assert result.parts_written == 0
    assert parts_of(scene.out) == before
    scene.check()


def test_a_shard_that_is_not_what_its_new_name_says_is_bad(scene: Nights) -> None:
    """As in a full run: a file that is not text may have any name but that of a compressed one."""
    path = scene.pile.add([b'{"a": "\xff"}', *answers("eval-1", MODELS[2])])
    scene.run()
    scene.pile.rename(path, path.with_name("renamed.jsonl"))
    assert scene.run().unchanged == len(scene.pile.paths)
    scene.pile.rename(path.with_name("renamed.jsonl"), path.with_name("renamed.jsonl.gz"))
    with pytest.raises(BadShardsError, match="is neither gzip, as its name says, nor text"):
        scene.run()


def test_line_counts_follow_the_order_of_shards(scene: Nights) -> None:
    """Of two shards with the same record, the first one in tonight's order is credited with it."""
    one = shard_of(scene, "eval-1")
    two = shard_of(scene, "eval-2")
    scene.pile.write(one, scene.pile.lines[one] + scene.pile.lines[two])
    scene.run()
    scene.check()
    scene.pile.paths.reverse()
    result = scene.run()
    assert (result.unchanged, result.parts_written) == (len(scene.pile.paths), 0)
    scene.check()


def test_rejected_lines_of_a_moved_shard_have_its_new_name(scene: Nights) -> None:
    """Rejected lines are not judged again, but their locations are those of tonight."""
    path = shard_of(scene, "eval-3")
    scene.pile.write(path, [b"{", *scene.pile.lines[path], b"", b"[]"])
    scene.run()
    scene.pile.rename(path, scene.pile.folder / "elsewhere" / "zz.jsonl")
    result = scene.run()
    assert counts(result) == (len(scene.pile.paths), 0, 0, 0)
    assert {Path(reject["source"]).name for reject in Corpus(scene.out).rejects} == {"zz.jsonl"}
    scene.check()


def test_records_that_are_left_out_have_the_names_and_lines_of_tonight(scene: Nights) -> None:
    """A shard that has them moves, a copy of it comes in front, and the first one goes."""
    scene.content |= {"conflicts": "first", "repeats": "reject"}
    lines = answers("eval-3", MODELS[0], score=0.0) + answers("eval-2", MODELS[1], epoch=1)
    path = scene.pile.add([b"", *lines])
    scene.run()
    moved = scene.pile.folder / "elsewhere" / "moved.jsonl"
    scene.pile.rename(path, moved)
    result = scene.run()
    assert counts(result) == (len(scene.pile.paths), 0, 0, 0)
    assert str(moved) in {reject["source"] for reject in Corpus(scene.out).rejects}
    scene.check()
    scene.pile.add([b"", b"", *lines])
    scene.pile.paths.reverse()
    scene.run()
    scene.check()
    scene.pile.paths.reverse()
    assert scene.run().unchanged == len(scene.pile.paths)
    scene.check()
    scene.pile.remove(moved)
    scene.run()
    scene.check()


# One evaluation changed


def change(pile: Pile, path: Path) -> None:
    pile.write(path, answers("eval-2", MODELS[0], epoch=1))


def append(pile: Pile, path: Path) -> None:
    pile.write(path, pile.lines[path] + answers("eval-2", MODELS[3], range(3)))


def remove(pile: Pile, path: Path) -> None:
    pile.remove(path)


def add(pile: Pile, _: Path) -> None:
    pile.add(answers("eval-2", MODELS[4], range(4)), Format.ZSTD)


CHANGES: dict[Callable[[Pile, Path], None], tuple[int, int, int]] = {
    change: (0, 1, 0),
    append: (0, 1, 0),
    remove: (0, 0, 1),
    add: (1, 0, 0),
}
"""Changes in eval-2, and how many shards are then new, changed and gone."""


@pytest.mark.parametrize("deed", CHANGES, ids=lambda deed: deed.__name__)
def test_a_change_in_one_evaluation_leaves_the_parts_of_others_alone(
    deed: Callable[[Pile, Path], None], scene: Nights
) -> None:
    """Only that evaluation's shard is judged, and only its parts are written."""
    before = parts_without(scene.out, "eval-2")
    all_before = parts_of(scene.out)
    assert len(all_before) > len(before) > EVALUATIONS
    deed(scene.pile, shard_of(scene, "eval-2"))
    result = scene.run()
    new, changed, gone = CHANGES[deed]
    assert counts(result) == (len(scene.pile.paths) - new - changed, new, changed, gone)
    assert parts_without(scene.out, "eval-2") == before, (
        "parts of other evaluations have been written again"
    )
    written = set(parts_of(scene.out).values()) - set(all_before.values())
    assert 0 < result.parts_written == len(written) <= result.parts - len(before)
    scene.check()


def test_a_change_in_one_evaluation_reads_the_census_of_its_parts_only(
    scene: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The census of other evaluations is kept. Its sums are those of a full run."""
    counted: list[str] = []
    count_census = parts_module.count_census

    def note(groups: Sequence[Sequence[str]], *rest: Any) -> Any:
        counted.extend(prefix for group in groups for prefix in group)
        return count_census(groups, *rest)

    for nights in range(1, 3):
        change(scene.pile, shard_of(scene, "eval-2", MODELS[nights % 2]))
        with monkeypatch.context() as patched:
            patched.setattr(parts_module, "count_census", note)
            scene.run()
        concerned = len(parts_of(scene.out)) - len(parts_without(scene.out, "eval-2"))
        assert 0 < len(counted) == concerned < len(parts_of(scene.out)) / 2
        counted.clear()
        scene.check()


@pytest.mark.parametrize("is_known", [True, False], ids=["new numbers", "numbers in no order"])
def test_only_new_records_of_a_part_are_tallied(
    is_known: bool, scene: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of known records are not new.

    Where numbers of pieces do not tell what is new, all are tallied.
    """
    tallied: list[int] = []
    add = Tally.add

    def note(tally: Tally, keys: Any, rows: Sequence[Any]) -> None:
        tallied.append(len(rows))
        add(tally, keys, rows)

    new = answers("eval-2", MODELS[3], range(1))
    scene.pile.add([*new, *answers("eval-2", MODELS[0])])
    with monkeypatch.context() as patched:
        patched.setattr(Tally, "add", note)
        if not is_known:
            patched.setattr(
                parts_module, "PartTask", lambda **fields: PartTask(**fields | {"first_new": 0})
            )
        scene.run()
    assert (sum(tallied) == len(new)) is is_known
    scene.check()


@pytest.mark.parametrize("name", ["a", "eval-25", "z"])
def test_a_new_evaluation_leaves_all_other_parts_alone(name: str, scene: Nights) -> None:
    """Also if it is before or between others: their parts only get other numbers."""
    before = parts_without(scene.out, name)
    scene.pile.add([line for model in MODELS[:2] for line in answers(name, model)])
    result = scene.run()
    assert counts(result) == (len(scene.pile.paths) - 1, 1, 0, 0)
    assert parts_without(scene.out, name) == before
    assert result.parts_written == result.parts - len(before)
    scene.check()


def test_an_evaluation_goes(scene: Nights) -> None:
    """Its parts go, and no part is written."""
    before = parts_without(scene.out, "eval-1")
    for model in MODELS[:2]:
        scene.pile.remove(shard_of(scene, "eval-1", model))
    result = scene.run()
    assert (result.gone, result.parts_written) == (2, 0)
    assert set(parts_of(scene.out).values()) == set(before.values())
    scene.check()


def test_a_duplicate_in_a_new_shard_changes_no_part(scene: Nights) -> None:
    """A shard whose records are all known changes line counts, and no part of another evaluation."""
    texts = [part.read_bytes() for part in Corpus(scene.out).parts]
    scene.pile.add(answers("eval-1", MODELS[0]))
    scene.run()
    assert [part.read_bytes() for part in Corpus(scene.out).parts] == texts
    scene.check()


@pytest.mark.parametrize("first", [True, False])
def test_a_record_of_two_shards_stays_when_one_goes(first: bool, scene: Nights) -> None:
    """It goes with the last of them."""
    shared = record("eval-0", "shared", 0)
    one = scene.pile.add([shared, *answers("eval-0", MODELS[2])])
    two = scene.pile.add([*answers("eval-3", MODELS[2]), shared, shared])
    scene.run()
    assert scene_has(scene, b'"shared"') == 1
    gone, left = (one, two) if first else (two, one)
    scene.pile.remove(gone)
    assert scene.run().gone == 1
    assert scene_has(scene, b'"shared"') == 1, "the record is in a shard that is still there"
    scene.check()
    scene.pile.remove(left)
    scene.run()
    assert scene_has(scene, b'"shared"') == 0
    scene.check()


def scene_has(scene: Nights, word: bytes) -> int:
    return Counter(word in line for line in Corpus(scene.out).lines)[True]


@pytest.mark.parametrize(
    "options", [{"conflicts": "first"}, {"conflicts": "reject", "repeats": "reject"}]
)
def test_a_record_that_was_left_out_comes_back(options: dict[str, str], scene: Nights) -> None:
    """When the record that it contradicted is gone, it is in the corpus again."""
    scene.content |= options
    path = scene.pile.add(
        answers("eval-3", MODELS[0], score=0.0) + answers("eval-3", MODELS[1], epoch=1)
    )
    scene.run()
    scene.check()
    scene.pile.remove(path)
    scene.run()
    scene.check()
    scene.pile.write(path, scene.pile.gone[path])
    scene.run()
    scene.check()


# Whether a shard changed


def replaced_in_secret(scene: Nights) -> Path:
    """Change the content of a shard, but neither size nor time nor inode."""
    path = next(path for path in scene.pile.paths if path.suffix == ".jsonl")
    status = path.stat()
    data = path.read_bytes().replace(b" says 0", b" says 5")
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert b" says 5" in data
    assert path.stat().st_ino == status.st_ino
    return path


def test_content_tells_what_size_and_time_do_not(scene: Nights) -> None:
    """A change in secret is found by `check="content"`, and not before, as documented."""
    replaced_in_secret(scene)
    assert counts(scene.run()) == (len(scene.pile.paths), 0, 0, 0)
    result = scene.run(check="content")
    assert (result.unchanged, result.new, result.changed) == (len(scene.pile.paths) - 1, 0, 1)
    scene.check()


def test_content_tells_that_touched_and_copied_files_are_the_same(scene: Nights) -> None:
    """With `check="content"`, a file with another time and inode is not judged again."""
    before = parts_of(scene.out)
    for path in list(scene.pile.paths)[:4]:
        data = path.read_bytes()
        path.unlink()
        (scene.pile.folder / "taken").write_bytes(b"")  # it may get the inode
        scene.pile.write_bytes(path, data)
    result = scene.run(check="content")
    assert counts(result) == (len(scene.pile.paths), 0, 0, 0)
    assert parts_of(scene.out) == before
    scene.check()


def test_a_touched_file_is_judged_again_by_default(scene: Nights) -> None:
    """Its records are the same."""
    scene.pile.touch(scene.pile.paths[0])
    result = scene.run()
    assert (result.unchanged, result.new, result.changed) == (len(scene.pile.paths) - 1, 0, 1)
    scene.check()


@pytest.mark.parametrize("hours", [0, 1])
def test_a_change_right_after_the_run_is_found(scene: Nights, hours: int) -> None:
    """A file that was written just before it was read may change again within the resolution of the
    clock.

    So may one that was written before the clock was set back.
    """
    path = next(path for path in scene.pile.paths if path.suffix == ".jsonl")
    now = time.time_ns() + hours * 3_600 * 10**9
    os.utime(path, ns=(now, now))
    scene.run()
    path.write_bytes(path.read_bytes().replace(b" says 0", b" says 5"))
    os.utime(path, ns=(now, now))
    result = scene.run()
    assert result.changed == 1
    scene.check()


# Sizes of parts


@pytest.mark.parametrize("part_size", [6 << 10, 9 << 10, 16 << 10])
def test_parts_are_between_half_and_twice_the_part_size(part_size: int, tmp_path: Path) -> None:
    """Except for a giant question, also after many nights."""
    scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=4, models=3))
    scene.content = {"part_size": part_size}
    check_sizes(scene, scene.run(), part_size)
    scene.pile.add([record("eval-1", MODELS[0], 2, epoch=epoch) for epoch in range(40)])
    for number in range(3):
        scene.pile.add(answers(f"eval-{number * 7}", MODELS[4], range(15)))
        scene.pile.remove(scene.pile.paths[number * 2])
        check_sizes(scene, scene.run(), part_size)
    scene.check()


def check_sizes(scene: Nights, result: NormalizeResult, part_size: int) -> None:
    corpus = Corpus(scene.out)
    assert result.parts == len(corpus.parts) > 2
    for part, text in zip(corpus.parts, corpus.texts, strict=True):
        questions: Counter[tuple[str, str]] = Counter()
        for line in text.splitlines(keepends=True):
            answer = json.loads(line)
            questions[answer["evaluation_name"], answer["sample_hash"]] += len(line)
        assert len(text) >= part_size / 2, f"{part.name} has {len(text)} bytes"
        giant = max(questions.values()) > part_size / 2
        assert giant or len(text) <= 2 * part_size, (
            f"{part.name} has {len(text)} bytes and no giant question"
        )


def test_questions_are_not_cut(scene: Nights) -> None:
    """All records of a question are in one part."""
    seen: Counter[tuple[str, str]] = Counter()
    for text in Corpus(scene.out).texts:
        answers_ = [json.loads(line) for line in text.splitlines()]
        seen.update({(answer["evaluation_name"], answer["sample_hash"]) for answer in answers_})
    assert set(seen.values()) == {1}


def test_many_tasks_per_shard(tmp_path: Path) -> None:
    """Pieces of large shards are reused one night, and judged again the next, however they are cut."""
    lines = [record("eval-0", f"model-{number % 7}", number // 7) for number in range(70)]
    pile = Pile(tmp_path / "in", evaluations=1)
    large = pile.add(lines)
    packed = pile.add(lines[:40], Format.ZSTD)
    scene = Nights(tmp_path, pile)
    for limits in (SMALL_TASKS, TWO_JOBS, MERGE_EARLY, Limits()):
        result = scene.run(limits, jobs=2 if limits is TWO_JOBS else 1)
        assert result.notices == []
        scene.check()
    for path in (large, packed):
        pile.write(path, pile.lines[path][:-15])
        assert scene.run(SMALL_TASKS).changed == 1
        scene.check()


def test_the_option_does_not_change_the_manifest() -> None:
    """Nights and full runs record the same options."""
    assert not {"incremental", "check"} & set(RECORDED)
    assert Options().incremental is False
    assert Options().check == "stat"
