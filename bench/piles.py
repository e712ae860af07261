"""Piles of shards on successive nights, made from a corpus; and snapshots of what nights leave.

A pile is a directory of hard links to shards. Shards that a night adds or changes are written in
advance, next to the pile, and dated an hour back. So a pile can be laid out again at any time with
the same paths, sizes, modification times and inodes: to fastrec it is the same pile.
"""

import os
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from bench.corpora import write_shard
from bench.real import shard_lines

Pile = Mapping[str, Path]  # The file behind each name in the pile.
Record = dict[str, Any]

_HOUR = 3600.0
_CHANGED = 10  # every tenth record of a changed shard is another one


# How often each kind of change happens to a pile before a night: see `Stock`.
Change = Mapping[str, int]


class Stock:
    """The shards of a corpus, and the shards that changes of its pile need."""

    def __init__(self, shards: Iterable[Path], folder: Path, text_bytes: int) -> None:
        folder.mkdir(parents=True)
        self.base: Pile = {path.name: path for path in shards}
        self._folder = folder
        self._one_percent = text_bytes // 100
        self._numbers = count(1)
        evaluations: dict[str, list[str]] = defaultdict(list)
        for name, path in self.base.items():
            evaluations[next(_records(path))["evaluation_name"]].append(name)
        # The largest evaluation, and the second largest as the small one.
        by_size = sorted(evaluations.values(), key=self._size, reverse=True)
        self._large, self._small, *_ = by_size

    def after(self, pile: Pile, change: Change) -> Pile:
        """The pile after a change. The shards that it adds or changes are written now."""
        new = dict(pile)
        for kind in Counter(change).elements():
            self._change(new, kind, next(self._numbers))
        return new

    def _change(self, pile: dict[str, Path], kind: str, number: int) -> None:
        if kind == "new evaluation":  # of 1 % of the text, in new shards
            size = 0
            for source in self._small:
                size += self._renamed(pile, source, "evaluation", number)
                if size >= self._one_percent:
                    break
        elif kind == "removed shard":  # of the largest evaluation
            del pile[next(name for name in reversed(self._large) if name in pile)]
        elif kind == "changed shard":  # of a small evaluation
            name = self._small[number % len(self._small)]
            records = list(_records(pile[name]))
            for record in records[::_CHANGED]:
                record["evaluation"]["is_correct"] = not record["evaluation"]["is_correct"]
            self._write(pile, name, f"changed-{number}-{name}", records)
        else:  # a model on the largest or a small evaluation: a new shard
            names = self._large if kind == "large model" else self._small
            self._renamed(pile, names[number % len(names)], "model", number)

    def first_versions(self) -> Pile:
        """The shards of the first version of each model."""
        return {name: path for name, path in self.base.items() if name.startswith("v0-")}

    def joined_versions(self) -> Pile:
        """One shard per model, with the records of all its versions."""
        joined: dict[str, Path] = {}
        for name, path in self.base.items():
            model = name.partition("-")[2]
            joined[model] = self._folder / f"joined-{model}"
            with joined[model].open("ab") as file:  # zstd frames can be concatenated
                file.write(path.read_bytes())
            _date_back(joined[model])
        return joined

    def _size(self, names: Sequence[str]) -> int:
        return sum(self.base[name].stat().st_size for name in names)

    def _renamed(self, pile: dict[str, Path], source: str, kind: str, number: int) -> int:
        """Add a shard with the records of another one, as those of a new model or evaluation.

        Returns the size of its text.
        """
        key = "model_id" if kind == "model" else "evaluation_name"
        records = list(_records(self.base[source]))
        for record in records:
            record[key] += f"-{number}"
            record["evaluation_id"] += f"-{number}"
        name = f"{kind}-{number}-{source}"
        return self._write(pile, name, name, records)

    def _write(self, pile: dict[str, Path], name: str, file: str, records: list[Record]) -> int:
        path = self._folder / file
        _, _, text_bytes = write_shard(path, map(msgspec.json.encode, records))
        _date_back(path)
        pile[name] = path
        return text_bytes


def lay_out(pile: Pile, folder: Path) -> None:
    """Make a directory hold exactly the shards of a pile, as hard links."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, path in pile.items():
        os.link(path, folder / name)


def _records(path: Path) -> Iterator[Record]:
    return map(msgspec.json.decode, shard_lines(path))


def _date_back(path: Path) -> None:
    """Make a shard older: one written just before a night is read again, as it could change."""
    os.utime(path, (time.time() - _HOUR,) * 2)


class Snapshot:
    """A directory as it is now, with all inodes and modification times.

    fastrec recognises kept files by size, modification time and inode, so copies would not be the
    same state. A snapshot holds hard links to all files, and copies in case a night writes to a
    file in place.
    """

    def __init__(self, state: Path, store: Path) -> None:
        self._state = state
        self._links = store / "links"
        self._copies = store / "copies"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(state, self._links, copy_function=os.link)
        shutil.copytree(state, self._copies)

    def restore(self) -> None:
        """Bring the directory back to the state of the snapshot."""
        for copy in self._copies.rglob("*"):
            link = self._links / copy.relative_to(self._copies)
            if copy.is_file() and _stamp(copy) != _stamp(link):
                link.write_bytes(copy.read_bytes())  # the inode stays
                shutil.copystat(copy, link)
        shutil.rmtree(self._state, ignore_errors=True)
        shutil.copytree(self._links, self._state, copy_function=os.link)


def _stamp(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns
