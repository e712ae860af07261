"""Piles of shards on successive nights, made from a corpus.

A pile is a directory of hard links to shards. Shards that a night adds or changes are written in
advance, next to the pile, and dated an hour back. So a pile can be laid out again at any time with
the same paths, sizes, modification times and inodes: to fastrec it is the same pile.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import zstandard

from bench.corpora import LEVEL, shard_lines

__all__ = ["Change", "Pile", "Stock", "lay_out"]

Pile = Mapping[str, Path]
"""The file behind each name in the pile."""

_HOUR: Final = 3600.0
_CHANGED: Final = 10  # every tenth record of a changed shard is another one


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a pile before a night."""

    evaluations: int = 0
    """New evaluations, each of 1 % of the text, in new shards."""
    models: int = 0
    """New models on the largest evaluation: a new shard each."""
    small_models: int = 0
    """New models on a small evaluation."""
    changed: int = 0
    """Shards of a small evaluation of which some records change."""
    removed: int = 0
    """Shards of the largest evaluation that are removed."""

    def described(self) -> list[str]:
        """One short phrase per kind of change.

        A large model is a new model on the largest evaluation.
        """
        phrases = (
            (self.evaluations, "new evaluation"),
            (self.models, "large model"),
            (self.small_models, "small model"),
            (self.changed, "changed shard"),
            (self.removed, "removed shard"),
        )
        return [
            f"{number} {words}{'s' if number > 1 else ''}" for number, words in phrases if number
        ]


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
            evaluations[msgspec.json.decode(next(shard_lines(path)))["evaluation_name"]].append(
                name
            )
        # The largest evaluation, and the second largest as the small one.
        self._large, self._small = sorted(evaluations.values(), key=self._size, reverse=True)[:2]

    def after(self, pile: Pile, change: Change) -> Pile:
        """The pile after a change. The shards that it adds or changes are written now."""
        new = dict(pile)
        for _ in range(change.evaluations):
            new |= self._evaluation()
        for names, models in ((self._large, change.models), (self._small, change.small_models)):
            for _ in range(models):
                new |= self._model(names)
        for _ in range(change.changed):
            number = next(self._numbers)
            name = self._small[number % len(self._small)]
            new[name] = self._write(f"changed-{number}-{name}", _changed(_records(new[name])))
        for _ in range(change.removed):
            del new[next(name for name in reversed(self._large) if name in new)]
        return new

    def first_versions(self) -> Pile:
        """The shards of the first version of each model."""
        return {name: path for name, path in self.base.items() if name.startswith("v0-")}

    def joined_versions(self) -> Pile:
        """One shard per model, with the records of all its versions: as many shards as `first_versions`."""
        joined: dict[str, Path] = {}
        for name, path in self.base.items():
            model = name.partition("-")[2]
            target = joined.setdefault(model, self._folder / f"joined-{model}")
            with target.open("ab") as file:  # zstd frames can be concatenated
                file.write(path.read_bytes())
        for path in joined.values():
            _date_back(path)
        return joined

    def _size(self, names: Sequence[str]) -> int:
        return sum(self.base[name].stat().st_size for name in names)

    def _model(self, names: Sequence[str]) -> Pile:
        number = next(self._numbers)
        source = names[number % len(names)]
        name = f"model-{number}-{source}"
        return {name: self._write(name, _renamed(_records(self.base[source]), "model_id", number))}

    def _evaluation(self) -> Pile:
        number = next(self._numbers)
        written = {}
        size = 0
        for source in self._small:
            records = list(_renamed(_records(self.base[source]), "evaluation_name", number))
            name = f"evaluation-{number}-{source}"
            written[name] = self._write(name, records)
            size += sum(len(msgspec.json.encode(record)) + 1 for record in records)
            if size >= self._one_percent:
                break
        return written

    def _write(self, name: str, records: Iterable[dict[str, Any]]) -> Path:
        path = self._folder / name
        text = msgspec.json.Encoder().encode_lines(list(records))
        path.write_bytes(zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(text))
        _date_back(path)
        return path


def lay_out(pile: Pile, folder: Path) -> None:
    """Make a directory hold exactly the shards of a pile, as hard links.

    Links that are right stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pile or not path.samefile(pile[path.name]):
            path.unlink()
    for name, path in pile.items():
        if not (folder / name).exists():
            os.link(path, folder / name)


def _records(path: Path) -> Iterable[dict[str, Any]]:
    return map(msgspec.json.decode, shard_lines(path))


def _renamed(records: Iterable[dict[str, Any]], key: str, number: int) -> Iterable[dict[str, Any]]:
    for record in records:
        record[key] = f"{record[key]}-{number}"
        record["evaluation_id"] = f"{record['evaluation_id']}-{number}"
        yield record


def _changed(records: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for number, record in enumerate(records):
        if number % _CHANGED == 0:
            record["evaluation"]["is_correct"] = not record["evaluation"]["is_correct"]
        yield record


def _date_back(path: Path) -> None:
    """A shard written just before a night could still change; fastrec reads such a shard again.

    This one is older.
    """
    os.utime(path, (time.time() - _HOUR,) * 2)
