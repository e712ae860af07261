"""Find the pairs of a tree: JSON files and samples files of the same name in one folder.

Hidden files and folders are skipped, as in all commands. Which JSON files are aggregates is decided when they are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import msgspec

from fastrec.commands.check_pairs.names import SAMPLES, UUID_LIKE, Place, place_of
from fastrec.errors import ShardError, UsageError, shown
from fastrec.sources.files import walk
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage import is_url, join, parent_and_name, storage_of, without_file_protocol

__all__ = ["FoundPairs", "Pair", "find_pairs"]


class Pair(msgspec.Struct, frozen=True):
    """A JSON file and the samples files of the same name, or one of both alone."""

    folder: str
    """The path of the folder."""
    names: tuple[str, ...]
    """The last names of its absolute path."""
    place: Place
    stem: str
    """The name without `.json` and `_samples.jsonl`."""
    aggregate: str | None
    """The path of the JSON file."""
    samples: tuple[Shard, ...]

    @property
    def is_meant(self) -> bool:
        """Whether the JSON file must be an aggregate by its name."""
        return bool(self.samples) or UUID_LIKE.fullmatch(self.stem) is not None


class FoundPairs(msgspec.Struct):
    """What is in some directories."""

    pairs: list[Pair] = msgspec.field(default_factory=list)
    ignored: int = 0
    """JSONL files that are no samples files."""
    bad_files: list[str] = msgspec.field(default_factory=list)
    """Files and folders that cannot be read, and why."""


class _Folder(NamedTuple):
    """A folder of a tree, the names of its files, sorted, and what finds a samples file in it."""

    path: str
    files: list[str]
    shard_at: Callable[[str], Shard]


def find_pairs(directories: Iterable[str]) -> FoundPairs:
    """Find the pairs in directories, in the order given, each once.

    Raises:
        UsageError: A directory does not exist, or has nothing to check.
    """
    found = FoundPairs()
    seen: set[str] = set()
    problems = []
    for directory in map(without_file_protocol, directories):
        storage = storage_of(directory)
        if not is_url(directory) and not storage.is_directory(directory):
            why = "is a file: name its directory" if storage.exists(directory) else "there is no such directory"
            problems.append(f"  {shown(directory)}: {why}")
            continue
        absolute = directory if is_url(directory) else os.path.abspath(directory)  # noqa: PTH100 - as given
        given = absolute.rstrip("/").split("/")
        is_empty = True
        for folder in _in_store(directory) if is_url(directory) else _in_directory(directory, found):
            below = folder.path.removeprefix(directory).strip("/")
            names = [*given, *below.split("/")] if below else given
            pairs = list(_pairs_in(folder, names, place_of(names, len(given)), found))
            is_empty = is_empty and not pairs
            canonical = storage.canonical(folder.path)
            if canonical not in seen:
                seen.add(canonical)
                found.pairs += pairs
                found.ignored += sum(".jsonl" in name and not SAMPLES.fullmatch(name) for name in folder.files)
        if is_empty and not found.bad_files:
            problems.append(f"  {shown(directory)}: the directory has no *.json and no *_samples.jsonl* files")
    if problems:
        raise UsageError("\n".join(["some input cannot be used:", *problems]))
    return found


def _in_directory(directory: str, found: FoundPairs) -> Iterator[_Folder]:
    """Yield the folders of a tree on this machine."""
    for folder, names in walk(directory, found.bad_files):
        yield _Folder(folder, names, shard_at)


def _in_store(directory: str) -> Iterator[_Folder]:
    """Yield the folders of a tree in an object store."""
    from fastrec.sources.objects import shards_below  # noqa: PLC0415 - only URLs need it

    paths, shards = shards_below(directory, lambda name: SAMPLES.fullmatch(name) is not None)
    for folder, files in groupby(sorted(map(parent_and_name, paths)), key=lambda path: path[0]):
        if "/." not in folder.removeprefix(directory.rstrip("/")):
            yield _Folder(folder, [name for _, name in files if not name.startswith(".")], shards.__getitem__)


def _pairs_in(folder: _Folder, names: list[str], place: Place, found: FoundPairs) -> Iterator[Pair]:
    """Yield the pairs of one folder. A pair whose samples file cannot be found by the system is left out."""
    by_stem: dict[str, list[str]] = {}
    for name in folder.files:
        if matched := SAMPLES.fullmatch(name):
            by_stem.setdefault(matched["stem"], []).append(name)
        elif name.endswith(".json"):
            by_stem.setdefault(name.removesuffix(".json"), [])
    for stem, samples in sorted(by_stem.items()):
        aggregate = f"{stem}.json" if f"{stem}.json" in folder.files else None
        try:
            shards = [_regular(folder.shard_at(join(folder.path, name))) for name in samples]
        except ShardError as exc:
            found.bad_files.append(str(exc))
            continue
        path = join(folder.path, aggregate) if aggregate else None
        yield Pair(folder.path, tuple(names[-4:]), place, stem, path, tuple(shards))


def _regular(shard: Shard) -> Shard:
    if shard.stream:
        raise ShardError(shard.path, "is not a regular file")
    return shard
