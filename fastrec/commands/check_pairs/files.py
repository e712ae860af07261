"""Find the pairs of a tree, and check their names.

A pair is a JSON file and a samples file of the same name in one folder. Names follow the rule of
the datastore:

    data/<collection>/<developer>/<model>/<uuid4>.json               and …/<uuid4>_samples.jsonl
    flat/objects/<first two digits>/<next two digits>/<uuid4>.json   and …/<uuid4>_samples.jsonl

Any folder of such a tree can be checked, a copy of a part of it too. So only names that are known
are checked: those below the folder that is checked, and those up to `data` if that is where it
should be. The last two folders follow from the id of the model.

Other JSON files, such as manifests, are told apart by `evaluation_results`, which every aggregate
has, when they are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct

from fastrec.errors import ShardError, shown, utf8
from fastrec.judge.aggregate import (
    NOT_PORTABLE,
    RESERVED,
    Aggregate,
    expected,
    model_folders,
    quoted,
)
from fastrec.judge.findings import Finding
from fastrec.parameters import Names
from fastrec.sources.inputs import refuse, walk
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage import (
    base_name,
    is_url,
    join,
    parent_and_name,
    storage_of,
    without_file_protocol,
)

_SAMPLES = re.compile(
    r"(?P<stem>.+)_samples(?P<more>\.[^.]+)?\.jsonl(?P<packed>\.(?:zst|zstd|gz|gzip|bz2|xz))?"
)
# `more`: early converters wrote `<uuid>_samples.Format.jsonl`.

_UUID_LIKE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
WHERE = "$.detailed_evaluation_results"
_LEVELS = ("<collection>", "<developer>", "<model>")


class Place(Struct, frozen=True):
    """What is known about a folder with pairs."""

    layout: Literal["data", "flat", "unknown"]
    # The known names of the last folders: of `<collection>`, `<developer>`, `<model>`.
    folders: Names
    # Number of folders below `data` or `flat/objects`, or below the folder that is checked.
    depth: int


def place_of(folder: Sequence[str], given: int) -> Place:
    """Return what is known about a folder by its absolute path.

    The first `given` names lead to the checked one.

    >>> place_of(["", "data", "gsm8k", "org", "model"], 4)
    Place(layout='data', folders=('gsm8k', 'org', 'model'), depth=3)
    >>> place_of(["", "tmp", "copy", "org", "model"], 3)
    Place(layout='unknown', folders=('org', 'model'), depth=2)
    """
    for start in range(len(folder) - 1, 0, -1):
        if (folder[start - 1], folder[start]) == ("flat", "objects"):
            return Place("flat", (), len(folder) - start - 1)
    if len(folder) >= 4 and folder[-4] == "data":
        return Place("data", tuple(folder[-3:]), 3)
    roots = [number for number, name in enumerate(folder) if name == "data" and number >= given - 1]
    below = folder[roots[-1] + 1 if roots else given :]
    return Place("data" if roots else "unknown", tuple(below[-3:]), len(below))


def _folder_findings(place: Place) -> Iterator[Finding]:
    if place.layout == "data" and place.depth != 3:
        what = f"three folders below data: {'/'.join(_LEVELS)}"
        yield expected("name.depth", what, str(place.depth))
    for name in place.folders:
        if name == "data":
            yield expected("name.data", "no folder called data below data", "one")
        elif NOT_PORTABLE.search(name) or RESERVED.match(name):
            yield expected("name.portable", "a name that every system allows", quoted(name))


def _file_findings(name: str, stem: str, folder: Sequence[str], place: Place) -> Iterator[Finding]:
    """Find what is wrong with the name of a file; `stem` is without `.json` or `_samples.jsonl`."""
    if not _UUID4.fullmatch(stem):
        yield expected("name.uuid", "a UUID of version 4 in lower case", quoted(stem))
    elif place.layout == "flat":
        digits = f"{stem[:2]}/{stem[2:4]}"
        if "/".join(folder[len(folder) - place.depth :]) != digits:
            where = quoted("/".join(folder[-4:]))
            yield expected("name.flat", f"the folder flat/objects/{digits}", where)
    samples = _SAMPLES.fullmatch(name)
    if samples and samples["more"]:
        yield expected("name.samples", f"the name {utf8(stem)}_samples.jsonl", quoted(name))
    if samples and samples["packed"]:
        yield expected("name.compressed", "a plain file", quoted(name))


def model_finding(aggregate: Aggregate, place: Place) -> Finding | None:
    """Compare the last two folders with those that the id of the model leads to."""
    model = aggregate.model_info
    folders = model_folders(model.id, model.developer)
    if place.layout != "data" or place.depth != 3 or place.folders[1:] == folders:
        return None
    what = "/".join(name or _LEVELS[1] for name in folders)
    actual = quoted("/".join(place.folders[1:]))
    return expected("pair.model_folder", f"the folder {utf8(what)}", actual, "$.model_info.id")


def path_finding(file_path: str, pair: Pair) -> Finding | None:
    """Compare the `file_path` of an aggregate with its samples file."""
    place = pair.place
    is_flat = pair.names[-2:] == (pair.stem[:2], pair.stem[2:4])
    known = () if is_flat or (place.layout == "data" and place.depth != 3) else place.folders
    right = ["data", *_LEVELS[: 3 - len(known)], *known, f"{pair.stem}_samples.jsonl"]
    names = file_path.split("/")
    if len(names) == 5 and all(
        name == wanted or wanted in _LEVELS for name, wanted in zip(names, right, strict=True)
    ):
        return None
    what = utf8("/".join(right))
    return expected("pair.file_path", what, quoted(file_path), f"{WHERE}.file_path")


class Pair(Struct, frozen=True):
    """A JSON file and the samples files of the same name, or one of both alone."""

    folder: str
    names: Names  # the last names of its absolute path
    place: Place
    stem: str  # the name without `.json` and `_samples.jsonl`
    aggregate: str | None  # the path of the JSON file
    samples: tuple[Shard, ...]

    @property
    def is_meant(self) -> bool:
        """Whether the JSON file must be an aggregate by its name."""
        return bool(self.samples) or _UUID_LIKE.fullmatch(self.stem) is not None

    @property
    def sample_names(self) -> str:
        return ", ".join(utf8(base_name(shard.path)) for shard in self.samples)


def name_findings(pair: Pair, *, folder: bool) -> Iterator[tuple[str, Finding]]:
    """Find what is wrong with the names of the files of a pair and, if `folder`, of its folder.

    Each with a path.
    """
    paths = [*filter(None, [pair.aggregate]), *(shard.path for shard in pair.samples)]
    for finding in _folder_findings(pair.place) if folder else ():
        yield paths[0], finding
    for path in paths:
        for finding in _file_findings(base_name(path), pair.stem, pair.names, pair.place):
            yield path, finding


# A folder of a tree, the names of its files, sorted, and what finds a samples file in it.
_Folder = tuple[str, list[str], Callable[[str], Shard]]


def find_pairs(directories: Iterable[str]) -> tuple[list[Pair], int, list[str]]:
    """Find the pairs in directories, in the order given, each once.

    A directory without any is a UsageError.

    Also return the number of JSONL files that are no samples files, and why some files and folders
    cannot be read.
    """
    pairs = []
    ignored = 0
    bad_files: list[str] = []
    seen = set()
    problems = []
    for directory in map(without_file_protocol, directories):
        storage = storage_of(directory)
        if not is_url(directory) and not storage.is_directory(directory):
            is_file = storage.exists(directory)
            why = "is a file: name its directory" if is_file else "there is no such directory"
            problems.append(f"{shown(directory)}: {why}")
            continue
        absolute = directory if is_url(directory) else os.path.abspath(directory)
        given = absolute.rstrip("/").split("/")
        is_empty = True
        known_bad = len(bad_files)
        folders = ((path, files, shard_at) for path, files in walk(directory, bad_files))
        for folder in _in_store(directory) if is_url(directory) else folders:
            path, files, _ = folder
            below = path.removeprefix(directory).strip("/")
            names = [*given, *below.split("/")] if below else given
            in_folder = list(_pairs_in(folder, names, place_of(names, len(given)), bad_files))
            is_empty = is_empty and not in_folder
            canonical = storage.canonical(path)
            if canonical not in seen:
                seen.add(canonical)
                pairs += in_folder
                ignored += sum(".jsonl" in name and not _SAMPLES.fullmatch(name) for name in files)
        if is_empty and len(bad_files) == known_bad:
            problems.append(
                f"{shown(directory)}: the directory has no *.json and no *_samples.jsonl* files"
            )
    refuse(problems)
    return pairs, ignored, bad_files


def _in_store(directory: str) -> Iterator[_Folder]:
    from fastrec.sources.inputs import shards_below  # noqa: PLC0415 - only URLs need it

    paths, shards = shards_below(directory, lambda name: _SAMPLES.fullmatch(name) is not None)
    for folder, files in groupby(sorted(map(parent_and_name, paths)), key=lambda path: path[0]):
        if "/." not in folder.removeprefix(directory.rstrip("/")):
            names = [name for _, name in files if not name.startswith(".")]
            yield folder, names, shards.__getitem__


def _pairs_in(
    folder: _Folder, names: list[str], place: Place, bad_files: list[str]
) -> Iterator[Pair]:
    """Yield the pairs of one folder.

    A pair whose samples file cannot be found by the system is left out.
    """
    parent, files, find_shard = folder
    by_stem: dict[str, list[str]] = {}
    for name in files:
        if matched := _SAMPLES.fullmatch(name):
            by_stem.setdefault(matched["stem"], []).append(name)
        elif name.endswith(".json"):
            by_stem.setdefault(name.removesuffix(".json"), [])
    for stem, samples in sorted(by_stem.items()):
        try:
            shards = [find_shard(join(parent, name)) for name in samples]
        except ShardError as exc:
            bad_files.append(str(exc))
            continue
        aggregate = join(parent, f"{stem}.json") if f"{stem}.json" in files else None
        yield Pair(parent, tuple(names[-4:]), place, stem, aggregate, tuple(shards))
