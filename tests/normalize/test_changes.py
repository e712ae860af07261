"""Which shards are unchanged, new, changed or gone since the last run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from fastrec.engine import make_engine
from fastrec.engine.base import Engine, SerialEngine
from fastrec.normalize import kept as changes
from fastrec.normalize.kept import Changes, KeptShard, match_shards
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage import hash_of_file
from tests.sizes import examples

ENGINE = SerialEngine()


def kept_of(path: Path, *, certain: bool = True, hashed: bool = True) -> KeptShard:
    ranges = ((0, *hash_of_file(str(path))),) if hashed else ()
    return KeptShard(str(path), shard_at(str(path)).signature, certain, ranges)


def compared(
    paths: Iterable[Path], kept: Sequence[KeptShard], *, by_content: bool = False
) -> Changes:
    return match_shards(
        [shard_at(str(path)) for path in paths], kept, by_content=by_content, engine=ENGINE
    )


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of the same size."""
    paths = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for number, path in enumerate(paths):
        path.write_bytes(b'{"n": %d}\n' % number)
    return paths


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file may be read."""

    def refuse(argument: object) -> str:
        raise AssertionError(f"{argument} was read")

    monkeypatch.setattr(changes, "_hash_ranges", refuse)


@pytest.mark.usefixtures("unread")
def test_nothing_changed(files: list[Path]) -> None:
    """No file is read, whatever the order."""
    kept = [kept_of(path, hashed=False) for path in files]
    assert compared(files, kept) == Changes({0: 0, 1: 1, 2: 2}, [], [], [])
    assert compared(files[::-1], kept) == Changes({0: 2, 1: 1, 2: 0}, [], [], [])


@pytest.mark.usefixtures("unread")
def test_added_changed_and_removed(files: list[Path]) -> None:
    kept = [kept_of(path, hashed=False) for path in files[:2]]
    files[1].write_bytes(b"longer than before\n")
    assert compared(files[1:], kept) == Changes({}, [1], [0], [0, 1])


@pytest.mark.usefixtures("unread")
def test_renamed_and_swapped(files: list[Path]) -> None:
    """A file is the same under another name, also if that was the name of another one."""
    kept = [kept_of(path, hashed=False) for path in files]
    one, other, third = files
    temporary = one.rename(one.with_suffix(".temporary"))
    other.rename(one)
    temporary.rename(other)
    moved = third.rename(third.with_name("moved.jsonl"))
    assert compared([one, other, moved], kept) == Changes({0: 1, 1: 0, 2: 2}, [], [], [])


@pytest.mark.parametrize(
    ("name", "is_same"), [("x", True), ("x.ndjson", True), ("x.jsonl.gz", False)]
)
def test_a_name_that_promises_another_compression(
    name: str, is_same: bool, files: list[Path]
) -> None:
    """The file has to be read, because it is bad if it is neither that nor text."""
    kept = [kept_of(files[0])]
    renamed = files[0].rename(files[0].with_name(name))
    for by_content in (False, True):
        found = compared([renamed], kept, by_content=by_content)
        assert found == (Changes({0: 0}, [], [], []) if is_same else Changes({}, [0], [], [0]))


def test_a_touched_file_changed_unless_its_content_decides(files: list[Path]) -> None:
    kept = [kept_of(path) for path in files]
    os.utime(files[1], ns=(1, 1))
    assert compared(files, kept) == Changes({0: 0, 2: 2}, [], [1], [1])
    assert compared(files, kept, by_content=True) == Changes({0: 0, 1: 1, 2: 2}, [], [], [])


@pytest.mark.parametrize("certain", [True, False])
def test_a_change_that_keeps_the_signature(files: list[Path], certain: bool) -> None:
    """It is found by content, and also without if the file was modified just before it was read."""
    kept = [kept_of(path, certain=certain) for path in files]
    status = files[1].stat()
    files[1].write_bytes(b'{"n": 7}\n')
    os.utime(files[1], ns=(status.st_mtime_ns, status.st_mtime_ns))
    found = Changes({0: 0, 2: 2}, [], [1], [1])
    assert compared(files, kept, by_content=True) == found
    assert compared(files, kept) == (Changes({0: 0, 1: 1, 2: 2}, [], [], []) if certain else found)


@pytest.mark.parametrize("by_content", [True, False])
def test_without_a_hash_nothing_is_proven(files: list[Path], by_content: bool) -> None:
    kept = [kept_of(path, certain=by_content, hashed=False) for path in files]
    assert compared(files, kept, by_content=by_content) == Changes({}, [], [0, 1, 2], [0, 1, 2])


def test_copies_by_content(files: list[Path]) -> None:
    """Each kept shard is used at most once: a second copy of a file is new."""
    kept = [kept_of(files[0])]
    for copy in files[1:]:
        copy.write_bytes(files[0].read_bytes())
    assert compared(files, kept, by_content=True) == Changes({0: 0}, [1, 2], [], [])
    assert compared(files[:0:-1], kept, by_content=True) == Changes({1: 0}, [0], [], []), (
        "the first by path"
    )


def test_a_store_that_tells_no_version() -> None:
    """Only the content tells whether an object changed."""
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only this test needs it

    path = "memory://changes/a.jsonl"
    OBJECT_STORE.write_all(path, b"{}\n")
    kept = [KeptShard(path, shard_at(path).signature, True, ((0, *hash_of_file(path)),))]
    assert match_shards([shard_at(path)], kept, by_content=False, engine=ENGINE).unchanged == {0: 0}
    OBJECT_STORE.write_all(path, b"[]\n")
    assert match_shards([shard_at(path)], kept, by_content=False, engine=ENGINE).changed == [0]


@pytest.mark.parametrize("by_content", [True, False])
def test_streams_are_always_new(by_content: bool) -> None:
    kept = [KeptShard("-", "", True, ((0, 3, "0" * 32),))]
    found = match_shards([shard_at("-")], kept, by_content=by_content, engine=ENGINE)
    assert found == Changes({}, [0], [], [0])


def test_an_unreadable_file_has_changed(files: list[Path]) -> None:
    """Reading it as a shard will report the error."""
    kept = [kept_of(path) for path in files]
    shards = [shard_at(str(path)) for path in files]
    files[0].unlink()
    found = match_shards(shards, kept, by_content=True, engine=ENGINE)
    assert found == Changes({1: 1, 2: 2}, [], [0], [0])


def in_ranges(path: Path, *sizes: int) -> KeptShard:
    """A kept shard that was read in ranges of these sizes."""
    data = path.read_bytes()
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    ranges = [
        (start, size, xxh3_128_hexdigest(data[start : start + size]))
        for start, size in zip(starts, sizes, strict=True)
    ]
    return KeptShard(str(path), shard_at(str(path)).signature, True, tuple(ranges[::-1]))


def test_a_file_that_was_read_in_ranges(files: list[Path]) -> None:
    """It is compared in the same ranges, each of which may be read by another process."""
    kept = [in_ranges(files[0], 4, 0, 5), in_ranges(files[1], 9), kept_of(files[2])]
    moved = files[0].rename(files[0].with_name("moved.jsonl"))
    os.utime(moved, ns=(1, 1))
    assert compared([*files[1:], moved], kept, by_content=True).unchanged == {0: 1, 1: 2, 2: 0}
    moved.write_bytes(b'{"n": 8}\n')
    assert compared([*files[1:], moved], kept, by_content=True).new == [2]


@pytest.mark.parametrize("sizes", [(4,), (4, 4), (4, 6), ()])
def test_ranges_that_are_not_the_whole_file_prove_nothing(
    files: list[Path], sizes: tuple[int, ...]
) -> None:
    assert compared(files, [in_ranges(files[0], *sizes)], by_content=True).changed == [0]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    kept = [kept_of(tmp_path / "empty.jsonl")]
    assert compared([tmp_path / "empty.jsonl"], kept, by_content=True).unchanged == {0: 0}


def test_files_are_read_in_parallel(files: list[Path]) -> None:
    kept = [kept_of(path) for path in files]
    with make_engine(2) as engine:
        shards = [shard_at(str(path)) for path in files]
        assert match_shards(shards, kept, by_content=True, engine=engine).unchanged == {
            0: 0,
            1: 1,
            2: 2,
        }


class Disk(Engine):
    """Hashes imagined files: their content is their hash."""

    jobs = 1

    def __init__(self, contents: dict[str, str]) -> None:
        self.contents = contents

    def run(  # type: ignore[override]
        self, _task: object, arguments: Iterable[Any]
    ) -> Iterator[tuple[int, Any]]:
        asked = list(arguments)
        assert len(set(asked)) == len(asked)
        yield from reversed([(number, self.hashed(*task)) for number, task in enumerate(asked)])

    def hashed(
        self, path: str, layout: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int, str], ...] | None:
        text = self.contents[path]
        if any(start + size > len(text) for start, size in layout):
            return None
        return tuple((start, size, text[start : start + size]) for start, size in layout)


def hashes(data: str, way: str) -> tuple[tuple[int, int, str], ...]:
    """The hashes of a file that was read as a whole, or in two ranges, the second of which may be
    empty.
    """
    if way == "whole":
        return ((0, len(data), data),)
    return ((0, 1, data[:1]), (1, len(data) - 1, data[1:])) if way == "halves" else ()


PATHS = st.sampled_from([f"{name}.jsonl" for name in "abcdef"])
FILE = st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 3), st.sampled_from("xyz"))
"""Size, modification time, inode and content."""
FILES = st.dictionaries(PATHS, FILE)
FLAGS = st.lists(st.booleans(), min_size=6, max_size=6)
WAYS = st.lists(st.sampled_from(["whole", "halves", "unknown"]), min_size=6, max_size=6)
"""How a kept shard was hashed."""


@settings(max_examples=examples(36, 600))
@given(before=FILES, now=FILES, same=st.sets(PATHS), moves=st.permutations("abcdef"), certain=FLAGS,
       hashed=WAYS, by_content=st.booleans(), seed=st.integers(0, 9))  # fmt: skip
def test_any_two_nights(
    *, before: dict[str, tuple[int, int, int, str]], now: dict[str, tuple[int, int, int, str]], same: set[str],
    moves: list[str], certain: list[bool], hashed: list[str], by_content: bool, seed: int,
) -> None:  # fmt: skip
    """Whatever was renamed, swapped, touched, copied or reordered: the definition holds, and order
    does not matter.
    """
    now = now | {path: file for path, file in before.items() if path in same}
    new_names = dict(zip("abcdef", moves, strict=True))
    now = {new_names[path[0]] + path[1:]: file for path, file in now.items()} if seed % 2 else now
    shards = [
        Shard(path, size, Format.PLAIN, time, file_id=inode)
        for path, (size, time, inode, _) in sorted(now.items())
    ]
    kept = [
        KeptShard(path, f"{size}-{time}-{inode}", sure, hashes(content * size, way))
        for (path, (size, time, inode, content)), way, sure in zip(
            sorted(before.items()), hashed, certain, strict=False
        )
    ]
    disk = Disk({path: content * size for path, (size, _, _, content) in now.items()})
    found = match_shards(shards, kept, by_content=by_content, engine=disk)
    check(found, shards, kept, disk, by_content=by_content)

    random = Random(seed)
    shuffled = random.sample(shards, len(shards))
    kept_shuffled = random.sample(kept, len(kept))
    again = match_shards(shuffled, kept_shuffled, by_content=by_content, engine=disk)
    assert named(again, shuffled, kept_shuffled) == named(found, shards, kept)


def named(found: Changes, shards: Sequence[Shard], kept: Sequence[KeptShard]) -> tuple[object, ...]:
    """The result with paths instead of numbers."""
    return (
        {shards[number].path: kept[position].path for number, position in found.unchanged.items()},
        {shards[number].path for number in found.new},
        {shards[number].path for number in found.changed},
        {kept[position].path for position in found.gone},
    )


def check(
    found: Changes,
    shards: Sequence[Shard],
    kept: Sequence[KeptShard],
    disk: Disk,
    *,
    by_content: bool,
) -> None:
    """Compare a result with the definition, pair by pair."""
    doubtful = {one.signature for one in kept if not one.certain}

    def is_same(shard: Shard, one: KeptShard) -> bool:
        content = "".join(content for _, _, content in one.ranges)
        same_content = content == disk.contents[shard.path]
        if by_content:
            return same_content
        needs_content = one.signature in doubtful or not shard.version
        return one.signature == shard.signature and (same_content or not needs_content)

    unchanged = found.unchanged
    paths = {one.path for one in kept}
    used = list(unchanged.values())
    assert len(set(used)) == len(used)
    assert all(is_same(shards[number], kept[position]) for number, position in unchanged.items())
    for number, shard in enumerate(shards):
        matches = [position for position, one in enumerate(kept) if is_same(shard, one)]
        own = [position for position in matches if kept[position].path == shard.path]
        if own:
            assert unchanged[number] == own[0], "the shard of the same path comes first"
        elif number not in unchanged:
            assert set(matches) <= set(used), "a kept shard that matches is left"
    assert found.gone == sorted(set(range(len(kept))) - set(used))
    rest = [number for number in range(len(shards)) if number not in unchanged]
    assert found.changed == [number for number in rest if shards[number].path in paths]
    assert found.new == [number for number in rest if shards[number].path not in paths]
