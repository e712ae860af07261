"""Nights: `normalize` with `incremental` into one output, and after each night the same shards
without it, elsewhere.

All files of both corpora must have the same bytes, the manifest included.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

import fastrec
from fastrec.filters import Filters
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import NormalizeResult, run
from fastrec.progress import Progress
from tests.faults.failing import contents
from tests.normalize.normalizing import StopAfter, audited
from tests.normalize.piles import DEEDS, SECRET, UNSEEN, Pile, settle

MIB = 1 << 20

CONTENT: tuple[dict[str, Any], ...] = (
    {"part_size": 4 << 10},
    {"part_size": 8 << 10, "conflicts": "first", "repeats": "first"},
    {"part_size": 3 << 10, "conflicts": "reject", "repeats": "reject", "same_run": "ignore"},
    {"part_size": 2 << 10, "same_run": "ignore", "compression": "gz", "level": 1},
    {
        "part_size": 6 << 10,
        "sort_by": ("model_id",),
        "hash_algorithm": "xxh3_128",
        "repeats": "first",
    },
    {"part_size": 64 << 20, "conflicts": "first"},
    {"part_size": 4 << 10, "schema": "0.3.0", "compression": "none", "sort_by": ("sample_hash",)},
    {"part_size": 4 << 10, "track_sources": True},
    {
        "part_size": 3 << 10,
        "track_sources": True,
        "conflicts": "reject",
        "repeats": "first",
        "same_run": "ignore",
    },
    {
        "part_size": 4 << 10,
        "filters": Filters(model=("org/*",)),
        "repeats": "first",
        "allow_empty": True,
    },
    {
        "part_size": 3 << 10,
        "filters": Filters(hash=("[0-9]*",)),
        "track_sources": True,
        "allow_empty": True,
    },
)
"""Options that influence the corpus."""

SMALL_TASKS = Limits(task_bytes=2_000, window_bytes=3_000)
"""Several tasks per shard, and windows of a few records."""
MERGE_EARLY = Limits(
    task_bytes=3_000, run_bytes=6_000, window_bytes=3_000, read_bytes=4, unmerged_runs=2,
    merged_runs=2, merge_fan_in=3, least_merge_fan_in=2, census_fan_in=2, census_partitions=3, part_counts_per_task=2,
)  # fmt: skip
"""Small runs, which are merged in several rounds."""
TWO_JOBS = Limits(small_input=0, task_bytes=20_000, decompressed_chunk_bytes=4_000)
WAYS: tuple[dict[str, Any], ...] = (
    {"limits": SMALL_TASKS},
    {"limits": MERGE_EARLY},
    {"memory": 5 * MIB},
    {"jobs": 2, "limits": TWO_JOBS},
)
"""Options that do not influence the corpus."""


ATTEMPTS: tuple[dict[str, Any], ...] = ({}, {"incremental": False}, {"max_line_bytes": 1 << 20})
"""Other options of a run that is interrupted."""


class Night(msgspec.Struct, frozen=True):
    """What happens to the pile during a day, and how the next night runs."""

    deeds: tuple[tuple[str, int], ...] = ()
    """Names of deeds, each with the seed of its dice."""
    way: int = 0
    content: int | None = None
    """Other options that influence the corpus, from this night on."""
    check: str = "stat"
    stop: int = 0
    """Interrupt a first attempt after so many tasks and parts; 0: there is none."""
    attempt: int = 0
    """What the first attempt is: incremental, not incremental, or one with other options."""
    damage: tuple[str, int] | None = None
    """Damage a file of the kept work first: how, and the seed of the dice that choose it."""


def nights_of(deeds: Iterable[str], **fields: Any) -> st.SearchStrategy[Night]:
    """Return a strategy for nights with these deeds."""
    several = st.lists(
        st.tuples(st.sampled_from(sorted(deeds)), st.integers(0, 999)), max_size=4
    ).map(tuple)
    ways = st.sampled_from([0, 0, 0, 0, 1, 1, 1, 2, 2, 3])  # starting processes takes time
    return st.builds(Night, deeds=several, way=ways, **fields)


def rarely(strategy: st.SearchStrategy[Any], otherwise: Any = None) -> st.SearchStrategy[Any]:
    """Return a strategy that draws from another one in one of five cases."""
    return st.integers(0, 4).flatmap(lambda number: strategy if number == 4 else st.just(otherwise))


HOW_DAMAGED = ("flipped", "cut", "gone")
damages = st.tuples(st.sampled_from(HOW_DAMAGED), st.integers(0, 999))
calm_nights = nights_of(DEEDS) | nights_of(UNSEEN) | nights_of(SECRET, check=st.just("content"))
nights = (
    nights_of(
        DEEDS,
        content=rarely(st.integers(0, len(CONTENT) - 1)),
        stop=rarely(st.integers(1, 12), 0),
        attempt=st.integers(0, len(ATTEMPTS) - 1),
        damage=rarely(damages),
    )
    | calm_nights
)


def random_night(dice: random.Random) -> Night:
    """Return a night for a soak test."""
    check = dice.choice(["stat", "stat", "content"])
    names = sorted(SECRET if check == "content" else DEEDS)
    return Night(
        deeds=tuple((dice.choice(names), dice.randrange(1_000)) for _ in range(dice.randint(0, 5))),
        way=dice.randrange(len(WAYS)),
        content=dice.randrange(len(CONTENT)) if dice.random() < 0.1 else None,
        check=check,
        stop=dice.choice([0, 0, 0, dice.randint(1, 12)]),
        attempt=dice.randrange(len(ATTEMPTS)),
        damage=(dice.choice(HOW_DAMAGED), dice.randrange(1_000)) if dice.random() < 0.2 else None,
    )


def first_attempt(night: Night) -> dict[str, Any]:
    """Return the options of the run that is interrupted, if there is one."""
    options = {**WAYS[night.way], "check": night.check, **ATTEMPTS[night.attempt]}
    if not options.get("incremental", True):
        del options["check"]  # only incremental runs have it
    return options


class Nights:
    """A pile, the corpus that is made from it night after night, and what is known about the last
    night.
    """

    def __init__(self, folder: Path, pile: Pile | None = None, content: int = 0) -> None:
        self.folder = folder
        self.pile = pile or Pile(folder / "in")
        self.out = folder / "place" / "out"
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.content: dict[str, Any] = dict(CONTENT[content])
        self._signatures: set[tuple[int, int, int]] | None = None  # None: no work can be reused
        self._hashes: list[str] = []
        self._paths: list[Path] = []
        self._was_later = False
        self._full: tuple[Any, dict[str, bytes]] | None = (
            None  # the last full run: what it was made of, and its files
        )

    @property
    def work(self) -> Path:
        """The directory of kept work."""
        return self.out.parent / ".out.fastrec-work"

    def options(self, **more: Any) -> Options:
        """Return the options of an incremental night."""
        return Options(**{**self.content, "incremental": True, "overwrite": True, **more})

    def run(
        self, limits: Limits = LIMITS, progress: Progress | None = None, **more: Any
    ) -> NormalizeResult:
        """Run one incremental night."""
        with use_limits(limits):
            return run(self.pile.paths, self.out, self.options(**more), progress=progress)

    def full(self) -> dict[str, bytes]:
        """Return all files of a corpus that is made from the same shards without kept work."""
        made_of = (self.pile.paths, self.pile.hashes(), self.content)
        if self._full and self._full[0] == made_of:
            return self._full[1]
        place = self.folder / "full"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        audited(place / "out", run(self.pile.paths, place / "out", Options(**self.content)))
        self._full = deepcopy(made_of), contents(place / "out")
        return self._full[1]

    def check(self) -> None:
        """Check that the corpus is that of a full run."""
        check_same(contents(self.out), self.full())

    def night(self, night: Night) -> NormalizeResult:
        """Let a day and a night pass, and check the corpus."""
        options = {**WAYS[night.way], "check": night.check}
        self._day(night)
        half = len(night.deeds) // 2 if night.stop else len(night.deeds)
        self._do(night.deeds[:half])
        if night.stop:
            with contextlib.suppress(KeyboardInterrupt):
                self.run(**first_attempt(night), progress=StopAfter(night.stop))
            self._do(night.deeds[half:])
        if night.stop or self._was_later is not self.pile.is_later:
            self._signatures = (
                None  # how much can be reused depends on when, and on where the later record was
            )
        before = parts_of(self.out)
        result = self.run(**options)
        self.check()
        self._check_reuse(result, before, night)
        self._signatures, self._hashes = self.pile.signatures(), self.pile.hashes()
        self._paths = list(self.pile.paths)
        self._was_later = self.pile.is_later
        return result

    def _day(self, night: Night) -> None:
        """Change the options, and damage kept work."""
        if night.content is not None and self.content != CONTENT[night.content]:
            self.content = dict(CONTENT[night.content])
            self._signatures = None
        if night.damage and damage_one(self.work, *night.damage):
            self._signatures = None

    def _do(self, deeds: Iterable[tuple[str, int]]) -> None:
        for name, seed in deeds:
            self.change(name, seed)

    def change(self, name: str, seed: int) -> None:
        """Do something to the pile."""
        SECRET[name](self.pile, random.Random(seed))
        settle(self.pile)

    def forget(self) -> None:
        """Expect no particular work to be reused in the next night, after a kill for example."""
        self._signatures = None

    def _check_reuse(
        self, result: NormalizeResult, before: dict[str, tuple[int, int]], night: Night
    ) -> None:
        """Check the numbers of the result: which shards were judged, and which parts written."""
        shards = self.pile.paths
        assert result.unchanged + result.new + result.changed == len(shards), (
            f"{result} has other shards"
        )
        written = len(set(parts_of(self.out).values()) - set(before.values()))
        if not night.stop and self._signatures is not None:
            assert result.parts_written == written, (
                f"{result.parts_written} parts written, and {written} are new"
            )
        if self._signatures is None:
            return
        if night.check == "stat":
            expected = len(self._signatures & self.pile.signatures())
        else:
            expected = (Counter(self._hashes) & Counter(self.pile.hashes())).total()
        assert result.unchanged == expected, (
            f"{result.unchanged} of {len(shards)} unchanged, expected {expected}"
        )
        left = len(self._hashes) - result.unchanged
        # A shard whose path is still there is not gone, even if its content is now that of another
        # one.
        assert result.gone <= min(left, len(set(self._paths).difference(shards))), (
            f"{result.gone} shards gone"
        )
        if expected == len(shards) == len(self._hashes):
            assert (result.new, result.changed, result.gone) == (0, 0, 0)
            # Records that options left out are listed by shard and line, and their parts are made
            # again.
            may_rename = self.content.keys() & {"conflicts", "repeats"} and shards != self._paths
            assert result.parts_written == 0 or may_rename

    def verify(self) -> None:
        """Check the corpus with `verify`, too."""
        assert fastrec.verify(self.out).problems == []


def parts_of(corpus: Path) -> dict[str, tuple[int, int]]:
    """Return the inode and time of each part: an inode alone may be used again."""
    found = {path.name: path.stat() for path in corpus.glob("part-*.jsonl*")}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def check_same(found: dict[str, bytes], expected: dict[str, bytes]) -> None:
    """Check that two corpora have the same files; else say where they differ."""
    if found == expected:
        return
    words = []
    if found.keys() != expected.keys():
        words.append(f"too many files: {sorted(found.keys() - expected.keys())}")
        words.append(f"missing files: {sorted(expected.keys() - found.keys())}")
    for name in sorted(found.keys() & expected.keys()):
        if found[name] != expected[name]:
            words.append(f"{name} differs")
            if name.endswith(".json"):
                words += differences(json.loads(found[name]), json.loads(expected[name]))[:8]
    raise AssertionError("the corpus is not that of a full run: " + "\n  ".join(words))


def differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Return the paths at which two JSON values differ, with both values."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        return [
            word
            for key in found
            for word in differences(found[key], expected[key], f"{path}.{key}")
        ]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [
            word
            for number, (one, two) in pairs
            for word in differences(one, two, f"{path}[{number}]")
        ]
    return [] if found == expected else [f"{path}: {found!r:.200} instead of {expected!r:.200}"]


# Damage to kept work


def kind_of(path: Path, work: Path) -> str:
    """Return the name of a work file without numbers and tokens."""
    return re.sub(r"[0-9a-f]{8,}|\d+", "N", path.relative_to(work).as_posix())


def work_files(work: Path) -> list[Path]:
    """Return all files of kept work."""
    return sorted(path for path in work.rglob("*") if path.is_file())


def kinds_in(work: Path) -> dict[str, list[Path]]:
    """Return the files of kept work by kind."""
    kinds: dict[str, list[Path]] = {}
    for path in work_files(work):
        kinds.setdefault(kind_of(path, work), []).append(path)
    return kinds


def damage(path: Path, how: str, *, position: float = 0.5, in_secret: bool = False) -> None:
    """Damage a file.

    It may be a link to a part: the part is damaged as well, unless the file is gone.

    The time of a file changes by a second at least, as that of a file damaged on another day does.
    With `in_secret` it does not change.
    """
    if how == "gone":
        path.unlink()
        return
    status = path.stat()
    data = bytearray(path.read_bytes())
    if data:
        if how == "cut":
            del data[int(len(data) * position) :]
        else:
            data[int(len(data) * position)] ^= 0x10
    else:
        data += b"x"
    with path.open("r+b") as file:  # in place
        file.truncate(0)
        file.write(data)
    later = 0 if in_secret else 10**9
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + later))


def damage_one(work: Path, how: str, seed: int) -> bool:
    """Damage some file of kept work; return False if there is none."""
    dice = random.Random(seed)
    kinds: Sequence[list[Path]] = [files for _, files in sorted(kinds_in(work).items())]
    if kinds:
        damage(dice.choice(dice.choice(kinds)), how, position=dice.random())
    return bool(kinds)
