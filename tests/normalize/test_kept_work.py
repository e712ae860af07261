"""Kept work: how large it is, what makes it unusable, and what happens when it is damaged."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastrec import build
from fastrec.commands.generate import Recipe, lines
from fastrec.errors import BadShardsError
from fastrec.judge.repair import repair_codes
from fastrec.limits import Limits, use_limits
from fastrec.normalize import options as module
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from tests.faults.failing import contents
from tests.normalize.nights import (
    ATTEMPTS,
    HOW_DAMAGED,
    MERGE_EARLY,
    SMALL_TASKS,
    Nights,
    check_same,
    damage,
    kinds_in,
    work_files,
)
from tests.normalize.normalizing import Corpus, StopAfter, normalized, shuffled_shards, without_long
from tests.normalize.piles import MODELS, Pile, answers, record
from tests.normalize.test_failures import names_in
from tests.running import run_here
from tests.sizes import LONG, examples


@pytest.fixture
def scene(tmp_path: Path) -> Nights:
    """Work of one night, with rejected lines, duplicates, contradictions and repeats."""
    return first_night(tmp_path)


def first_night(folder: Path, **options: Any) -> Nights:
    pile = Pile(folder / "in", evaluations=4, models=2)
    pile.add(
        [
            *answers("eval-1", MODELS[0], score=0.0),
            b"{",
            b"",
            *answers("eval-2", MODELS[1], range(3)),
        ]
    )
    pile.add(answers("eval-3", MODELS[0], epoch=1))
    scene = Nights(folder, pile)
    scene.content = {"part_size": 6 << 10, "repeats": "first", **options}
    scene.run()
    return scene


# How large it is


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(task_bytes=100_000, unmerged_runs=4, merged_runs=2)]
)
def test_kept_work_is_at_most_half_of_the_text(limits: Limits, tmp_path: Path) -> None:
    """The links to parts included, after the first night and after the second one."""
    every = without_long(
        lines(
            Recipe(
                records=examples(280, 900), seed=3, duplicates=0.05, conflicts=0.02, text="words"
            )
        )
    )
    shards = list(shuffled_shards(every, 9, tmp_path / "in"))
    options = Options(incremental=True, overwrite=True, part_size=200_000)
    for count in (8, 9):
        use_limits(limits)(run)(shards[:count], tmp_path / "out", options)
        text = sum(
            entry["text_bytes"]
            for entry in json.loads((tmp_path / "out/manifest.json").read_bytes())["parts"]
        )
        kept = sum(path.stat().st_size for path in work_files(tmp_path / ".out.fastrec-work"))
        assert 0 < kept <= text / 2, f"{kept / text:.0%} of the text"


def test_kept_work_does_not_grow_with_the_nights(scene: Nights) -> None:
    """What no later night can use is removed."""
    files = []
    size = []
    for number in range(6):
        scene.pile.write(scene.pile.paths[0], answers("eval-0", MODELS[0], epoch=number))
        scene.run(SMALL_TASKS)
        files.append(len(work_files(scene.work)))
        size.append(sum(path.stat().st_size for path in work_files(scene.work)))
    assert max(files) <= min(files) * 1.5 + 4, f"files after each night: {files}"
    assert max(size) <= min(size) * 1.5, f"bytes after each night: {size}"
    scene.check()


def test_without_the_option_nothing_is_kept(scene: Nights) -> None:
    """A run without it removes the work of the nights before, which would never be used again."""
    other = scene.folder / "other"
    other.mkdir()
    run(scene.pile.paths, other / "out", Options(**scene.content))
    assert names_in(other) == ["out"]
    run(scene.pile.paths, scene.out, Options(**scene.content, overwrite=True))
    assert names_in(scene.out.parent) == ["out"]
    result = scene.run()
    assert (result.unchanged, result.parts_written) == (0, result.parts)
    scene.check()


def test_nothing_else_is_left_beside_the_output(scene: Nights) -> None:
    """Only the corpus and the work directory."""
    for _ in range(2):
        assert names_in(scene.out.parent) == [".out.fastrec-work", "out"]
        scene.pile.add(answers("eval-7", MODELS[2]))
        scene.run()


def test_a_work_directory_elsewhere(tmp_path: Path) -> None:
    """Kept work can be anywhere, and outputs of one name do not share it."""
    work = str(tmp_path / "work")
    scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=2))
    other = tmp_path / "other" / "out"
    other.parent.mkdir()
    scene.run(work_dir=work)
    run(scene.pile.paths[:1], other, scene.options(work_dir=work))
    assert names_in(scene.out.parent) == ["out"]
    scene.pile.add(answers("eval-7", MODELS[2]))
    result = scene.run(work_dir=work)
    assert (result.unchanged, result.new) == (4, 1)
    scene.check()
    assert run(scene.pile.paths[:1], other, scene.options(work_dir=work)).unchanged == 1


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """A directory on another file system than the temporary directory."""
    for folder in ("/dev/shm", "/var/tmp", "/tmp"):
        if os.access(folder, os.W_OK) and Path(folder).stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=folder) as work:
                yield work
            return
    pytest.skip("needs another file system")


def test_a_work_directory_on_another_file_system(elsewhere: str, scene: Nights) -> None:
    """Parts cannot be linked: the corpus has to be in place, and damage to it is noticed."""
    scene.run(work_dir=elsewhere)
    scene.pile.add(answers("eval-7", MODELS[2]))
    result = scene.run(work_dir=elsewhere)
    assert (result.unchanged, result.new, result.notices) == (len(scene.pile.paths) - 1, 1, [])
    assert result.parts_written < result.parts
    scene.check()
    assert scene.run(work_dir=elsewhere).parts_written == 0
    shutil.rmtree(scene.out)
    assert len(scene.run(work_dir=elsewhere).notices) == 1
    scene.check()


def test_clean_removes_kept_work(scene: Nights) -> None:
    """`fastrec clean` leaves the corpus alone, and the next night does everything again."""
    before = contents(scene.out)
    assert run_here("clean", scene.out).returncode == 0
    assert names_in(scene.out.parent) == ["out"]
    check_same(contents(scene.out), before)
    result = scene.run()
    assert (result.unchanged, result.parts_written) == (0, result.parts)
    scene.check()


# What makes it unusable


def test_options_are_said_as_users_write_them(scene: Nights) -> None:
    scene.content |= {
        "part_size": 2 << 20,
        "repair": repair_codes(["all"]),
        "sort_by": ("model_id",),
    }
    fields = "evaluation_name,sample_hash,model_id,evaluation_id,sample_id"
    assert scene.run().notices[0].partition("made with ")[2] == (
        f"repair none instead of all, sort_by {fields} instead of "
        f"model_id,{fields.replace('model_id,', '')}, part_size 6KiB instead of 2MiB"
    )


@pytest.mark.parametrize("what", ["fastrec", "zstd"])
def test_work_of_another_build_is_not_used(
    what: str, scene: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the code or of a library may give other bytes."""
    here = build.identity()
    monkeypatch.setattr(module, "identity", lambda: {**here, what: "0.0"})
    result = scene.run()
    assert result.unchanged == 0
    assert len(result.notices) == 1, result.notices
    assert what in result.notices[0]
    monkeypatch.undo()
    assert scene.run().unchanged == 0
    scene.check()


def test_fresh_uses_nothing(scene: Nights) -> None:
    """`fresh` does everything again, without a notice, and keeps work for the next night."""
    result = scene.run(fresh=True)
    assert (result.unchanged, result.parts_written, result.notices) == (0, result.parts, [])
    assert scene.run().unchanged == len(scene.pile.paths)
    scene.check()


def test_a_corpus_that_was_removed_or_replaced_is_made_again(scene: Nights) -> None:
    """Kept work is of a corpus; another one, or none, in its place changes nothing."""
    shutil.rmtree(scene.out)
    scene.run()
    scene.check()
    shutil.rmtree(scene.out)
    run(scene.pile.paths[:3], scene.folder / "another", Options(**scene.content))
    (scene.folder / "another").rename(scene.out)
    scene.run()
    scene.check()


# Damage


@pytest.mark.parametrize("is_changed", [False, True], ids=["unchanged", "changed"])
def test_damaged_work_is_done_again(is_changed: bool, tmp_path: Path) -> None:
    """Every kind of file, one at a time: one line says so, and the corpus is that of a full run.

    Each kind is damaged in one way, with or without a change, or in all of them with
    `make test-long`.
    """
    scene = first_night(tmp_path)
    kinds = list(enumerate(sorted(kinds_in(scene.work))))
    assert len(kinds) > 1
    for number, kind in kinds if LONG else kinds[is_changed::2]:
        some = [WAYS_OF_DAMAGE[(number + 2 * is_changed) % len(WAYS_OF_DAMAGE)]]
        for how in WAYS_OF_DAMAGE if LONG else some:
            if is_changed:
                scene.pile.write(
                    scene.pile.paths[0], answers("eval-0", MODELS[0], epoch=number % 3)
                )
            damage_kind(scene, kind, how)
            result = scene.run()
            try:
                scene.check()
                assert len(result.notices) == 1, result.notices
            except AssertionError as exc:
                exc.add_note(f"{kind} was {how}")
                raise
    scene.verify()
    assert scene.run().notices == []


WAYS_OF_DAMAGE = (*HOW_DAMAGED, "replaced")
"""A replaced file is damaged without its other links: the part in OUT is whole."""


def damage_kind(scene: Nights, kind: str, how: str) -> None:
    files = kinds_in(scene.work)[kind]
    path = files[len(files) // 2]
    if how == "replaced":
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[: len(data) // 2] + b"x" + data[len(data) // 2 + 1 :])
    else:
        damage(path, how)


def test_content_finds_damage_that_size_and_time_do_not(scene: Nights) -> None:
    """With `check="content"`, kept files are compared by their content, too."""
    for kind in sorted(kinds_in(scene.work)):
        damage(kinds_in(scene.work)[kind][-1], "flipped", in_secret=True)
        result = scene.run(check="content")
        try:
            scene.check()
            assert len(result.notices) == 1, result.notices
        except AssertionError as exc:
            exc.add_note(f"{kind} was changed in secret")
            raise


def test_content_does_not_mind_other_times_and_inodes(scene: Nights) -> None:
    """Work that was touched or restored from a copy is used with `check="content"`."""
    scene.work.rename(scene.folder / "copied")
    shutil.copytree(scene.folder / "copied", scene.work)
    result = scene.run(check="content")
    assert (result.unchanged, result.parts_written, result.notices) == (
        len(scene.pile.paths),
        0,
        [],
    )
    assert scene.run().notices == []
    scene.check()


@pytest.mark.parametrize("kind", ["part-*.jsonl*", "part-*.columns"])
def test_damaged_parts_that_are_read_are_noticed(tmp_path: Path, kind: str) -> None:
    """A part that is merged with new records is checked record by record, even if size and time are
    the same.
    """
    scene = first_night(tmp_path)
    for path in scene.out.glob(kind):
        damage(path, "flipped", in_secret=True)
    for evaluation in range(4):  # every part is read
        scene.pile.add([record(f"eval-{evaluation}", MODELS[5], question) for question in range(6)])
    result = scene.run()
    assert any("is damaged: " in notice for notice in result.notices), result.notices
    scene.check()


@pytest.mark.parametrize("name", ["statistics-*", "census-*-index"])
def test_a_file_goes_while_a_night_runs(name: str, scene: Nights) -> None:
    """No step reads it if nothing changed; but a file that is missing must not be listed as kept."""
    files = list(scene.work.glob(name))

    class Remover(Progress):
        def finish(self) -> None:
            for path in files:
                path.unlink(missing_ok=True)

    result = run(scene.pile.paths, scene.out, scene.options(), progress=Remover())
    scene.check()
    assert any("is damaged: " in notice for notice in result.notices), result.notices
    assert scene.run().unchanged == len(scene.pile.paths)
    scene.check()


def test_several_files_are_damaged_at_once(scene: Nights) -> None:
    """Half of all files are gone: one line says so."""
    for path in work_files(scene.work)[::2]:
        path.unlink()
    result = scene.run()
    assert len(result.notices) == 1, result.notices
    assert re.search(
        r": \S+/kept is missing$|: \d+ of its \d+ files are missing or have changed; the first is "
        r"/",
        *result.notices,
    )
    scene.check()


# Nights that fail


@pytest.mark.parametrize("compression", ["zst", "none"])
def test_a_night_that_is_refused(compression: str, tmp_path: Path) -> None:
    """OUT stays as it was.

    The next night compares with the shards that it was made from, or with tonight's.

    Parts that are not compressed are not linked: the list of kept work names them in OUT.
    """
    scene = first_night(tmp_path, compression=compression)
    before = contents(scene.out)
    path = scene.pile.paths[0]
    good = list(scene.pile.lines[path])
    scene.pile.write(path, [*good, *[b"{"] * 19])
    result = scene.run(max_rejects=12)
    assert result.refused
    check_same(contents(scene.out), before)
    scene.pile.add(answers("eval-8", MODELS[1]))
    result = scene.run(max_rejects=12)
    assert result.refused
    assert (result.unchanged >= len(scene.pile.paths) - 2, result.notices) == (True, [])
    scene.pile.write(path, good)
    result = scene.run(max_rejects=12)
    assert not result.refused
    assert result.unchanged >= len(scene.pile.paths) - 2
    scene.check()
    assert names_in(scene.out.parent) == [".out.fastrec-work", "out"]


def test_a_bad_shard(scene: Nights) -> None:
    """The night fails, and OUT stays.

    When the shard is whole again, the next night judges only what changed.
    """
    before = contents(scene.out)
    path = next(path for path in scene.pile.paths if path.suffix == ".zst")
    good = path.read_bytes()
    scene.pile.write_bytes(path, good[:-5])
    with pytest.raises(BadShardsError):
        scene.run()
    check_same(contents(scene.out), before)
    scene.pile.write_bytes(path, good)
    result = scene.run()
    assert result.unchanged == len(scene.pile.paths) - 1
    scene.check()


def test_a_bad_shard_that_is_skipped(scene: Nights) -> None:
    """Its records go tonight, and come back when it is whole again."""
    path = next(path for path in scene.pile.paths if path.suffix == ".gz")
    good = path.read_bytes()
    scene.pile.write_bytes(path, good[:-5])
    assert len(scene.run(skip_bad_shards=True).skipped) == 1
    expected = run(
        scene.pile.paths, scene.folder / "skipped", Options(**scene.content, skip_bad_shards=True)
    )
    assert expected.skipped
    check_same(contents(scene.out), contents(scene.folder / "skipped"))
    again = scene.run(skip_bad_shards=True)
    assert len(again.skipped) == 1, "a bad shard is skipped every night"
    check_same(contents(scene.out), contents(scene.folder / "skipped"))
    scene.pile.write_bytes(path, good)
    scene.run(skip_bad_shards=True)
    scene.check()


@pytest.mark.parametrize("limits", [SMALL_TASKS, MERGE_EARLY], ids=["small", "merged"])
def test_an_interrupted_night_is_resumed(limits: Limits, scene: Nights) -> None:
    """After an interruption anywhere, OUT is that of the night before, and its work is still
    usable.
    """
    unchanged = len(scene.pile.paths)
    for epoch in range(3):
        scene.pile.add(answers("eval-1", MODELS[2 + epoch]), Format.ZSTD)
    before = contents(scene.out)
    count = 0
    for count in range(1, 60, 2):
        try:
            scene.run(limits, progress=StopAfter(count))
            break
        except KeyboardInterrupt:
            check_same(contents(scene.out), before)
    assert count > 3, "no run was interrupted"
    scene.check()
    assert scene.run().unchanged == unchanged + 3


@pytest.mark.parametrize("attempt", ATTEMPTS[1:], ids=["plain", "other"])
def test_an_interrupted_run_of_another_kind(attempt: dict[str, Any], scene: Nights) -> None:
    """A run without the option, or with other options: what it has finished does not get in the way
    of kept work.
    """
    unchanged = len(scene.pile.paths)
    for epoch in range(3):
        scene.pile.add([*answers("eval-1", MODELS[2 + epoch], epoch=epoch), b"{"])
    scene.pile.paths.reverse()
    for count in (2, 7, 14):
        with pytest.raises(KeyboardInterrupt):
            scene.run(SMALL_TASKS, progress=StopAfter(count), **attempt)
    result = scene.run(SMALL_TASKS)
    assert (result.unchanged, result.new) == (unchanged, 3)
    scene.check()
    scene.pile.remove(scene.pile.paths[0])
    scene.run()
    scene.check()


def test_standard_input_is_never_reused(scene: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is judged every night; shards beside it are reused."""
    for epoch in range(2):
        data = b"".join(line + b"\n" for line in answers("eval-1", "streamed", epoch=epoch))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        result = run([*scene.pile.paths, "-"], scene.out, scene.options())
        assert result.unchanged == len(scene.pile.paths)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        full = normalized([*scene.pile.paths, "-"], scene.folder / f"full-{epoch}", **scene.content)
        check_same(contents(scene.out), contents(full.path))


@pytest.mark.parametrize("schema", ["auto", "0.2.0"])
def test_damage_that_is_noticed_late_does_not_lose_a_stream(schema: str, tmp_path: Path) -> None:
    """The run starts again, and has the records that it has read from the pipe before."""
    scene = first_night(tmp_path)
    scene.content["schema"] = schema
    scene.run()
    before = Corpus(scene.out).line_counts["kept"]
    for path in scene.out.glob("part-*.zst"):
        damage(path, "flipped", in_secret=True)
    reader, writer = os.pipe()
    new = [
        record(f"eval-{evaluation}", MODELS[5], question)
        for evaluation in range(4)
        for question in range(6)
    ]
    os.write(writer, b"".join(line + b"\n" for line in new))
    os.close(writer)
    result = run([*scene.pile.paths, f"/dev/fd/{reader}"], scene.out, scene.options())
    os.close(reader)
    assert any("is damaged: " in notice for notice in result.notices), result.notices
    assert result.summary.line_counts.kept == before + len(new)
