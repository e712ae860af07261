"""What a night says: its closing line, its dry run, and settings that make every night incremental."""

from __future__ import annotations

import re
from pathlib import Path

from tests.normalize.nights import Nights, parts_of
from tests.normalize.piles import MODELS, Pile, answers
from tests.normalize.test_night_reuse import PART, first_night, shard_of
from tests.running import run_here


def command(scene: Nights, *more: str) -> list[str]:
    return [
        "normalize",
        *map(str, scene.pile.paths),
        "-o",
        str(scene.out),
        "--part-size",
        str(PART),
        "--overwrite",
        *more,
    ]


def said(scene: Nights, *more: str) -> str:
    done = run_here(*command(scene, "--incremental", *more))
    assert done.returncode == 0, done.stderr.decode()
    return (done.stdout + done.stderr).decode()


def reuse_line(text: str) -> str:
    """Return what a run says about shards and parts that it reused."""
    found = re.findall(r"[\d,]+ shards?: .*[\d,]+ of [\d,]+ parts? written", text)
    assert len(found) == 1, text
    return str(found[0])


def test_the_closing_line_says_what_was_reused(tmp_path: Path) -> None:
    """Shards by what happened to them, and parts written."""
    scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=3, models=2))
    line = reuse_line(said(scene))
    parts = len(parts_of(scene.out))
    assert line == f"6 shards: 6 new; {parts} of {parts} parts written"
    assert reuse_line(said(scene)) == f"6 shards: 6 unchanged; 0 of {parts} parts written"
    scene.pile.add(answers("eval-1", MODELS[3]))
    found = re.fullmatch(
        r"7 shards: 6 unchanged, 1 new; (\d+) of (\d+) parts written", reuse_line(said(scene))
    )
    assert found
    assert 0 < int(found[1]) < int(found[2]) == len(parts_of(scene.out))
    scene.pile.write(scene.pile.paths[0], answers("eval-0", MODELS[0], epoch=2))
    scene.pile.remove(scene.pile.paths[1])
    line = reuse_line(said(scene))
    assert re.fullmatch(
        r"6 shards: 5 unchanged, 1 changed, 1 gone; \d+ of \d+ parts written", line
    ), line


def test_a_run_that_is_not_incremental_says_nothing_about_reuse(tmp_path: Path) -> None:
    scene = first_night(tmp_path)
    done = run_here(*command(scene))
    assert b"unchanged" not in done.stderr
    assert b"parts written" not in done.stderr


def test_a_dry_run_says_what_a_night_would_do(tmp_path: Path) -> None:
    """It says what is new, changed and gone, and how many parts will be written.

    Nothing changes on disk.
    """
    scene = first_night(tmp_path)
    pile = scene.pile
    parts = len(parts_of(scene.out))
    before = tree(scene.folder)
    text = said(scene, "--dry-run")
    assert f"{len(pile.paths)} unchanged" in text
    assert f"0 of {parts} parts" in text
    assert tree(scene.folder) == before, "a dry run has changed files"
    pile.write(shard_of(scene, "eval-1"), answers("eval-1", MODELS[0], epoch=2))
    pile.remove(shard_of(scene, "eval-3"))
    pile.add(answers("eval-9", MODELS[0]))
    before = tree(scene.folder)
    text = said(scene, "--dry-run")
    for word in (f"{len(pile.paths) - 2} unchanged", "1 new", "1 changed", "1 gone"):
        assert word in text, text
    found = re.search(r"(\d+) of (?:about )?(\d+) parts", text)
    assert found, text
    assert 0 < int(found[1]) <= int(found[2])
    assert tree(scene.folder) == before, "a dry run has changed files"
    scene.run()
    scene.check()


def test_a_dry_run_of_the_first_night_estimates_parts(tmp_path: Path) -> None:
    scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=3, models=2))
    text = said(scene, "--dry-run")
    assert re.search(r"^6 shards: 6 new; about \d+ parts? to write$", text, re.MULTILINE), text


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return size, time and inode of all files."""
    found = {str(path): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        name: (status.st_size, status.st_mtime_ns, status.st_ino) for name, status in found.items()
    }


def test_settings_can_make_every_night_incremental(tmp_path: Path) -> None:
    """`incremental` and `check` in fastrec.toml are as good as the options."""
    scene = first_night(tmp_path)
    (scene.folder / "fastrec.toml").write_text(
        '[normalize]\nincremental = true\ncheck = "content"\n'
    )
    done = run_here(*command(scene), cwd=scene.folder)
    assert done.returncode == 0, done.stderr.decode()
    assert reuse_line(done.stderr.decode()).startswith(
        f"{len(scene.pile.paths)} shards: {len(scene.pile.paths)} unch"
    )
