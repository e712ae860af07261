"""Discover shards in an object store: expand a URL by the same rules as a path.

A published corpus stands for the parts that its manifest names: other files may be leftovers of a killed run. A corpus
without a manifest is not finished yet, and is reported as a problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from fastrec.errors import shown
from fastrec.sources.formats import MAGIC_BYTES, Format, detect
from fastrec.sources.shard import Shard
from fastrec.storage import join, parent_and_name
from fastrec.storage.object_client import FoundObject
from fastrec.storage.object_store import OBJECT_STORE

__all__ = ["shards_below", "shards_in_store"]

_MANIFEST: Final = "manifest.json"
_UNFINISHED: Final = ".fastrec-writing"


class _Part(msgspec.Struct):
    file: str


class _Manifest(msgspec.Struct):
    """The fields of a manifest that are needed here."""

    parts: list[_Part]


def shards_in_store(name: str, problems: list[str]) -> list[Shard]:
    """Return the shards of a URL; add what is wrong with it to `problems`."""
    try:
        return _shards(list(_expanded(name, problems)))
    except OSError as exc:
        problems.append(f"{shown(name)}: cannot be found: {exc.strerror}")
        return []


def shards_below(directory: str, is_shard: Callable[[str], bool]) -> tuple[list[str], dict[str, Shard]]:
    """Return the paths of all objects below a directory, and by path the shards among them, told by their names."""
    found = OBJECT_STORE.find(directory)
    shards = _shards([one for one in found if is_shard(parent_and_name(one.path)[1])])
    return [one.path for one in found], {shard.path: shard for shard in shards}


def _expanded(name: str, problems: list[str]) -> Iterator[FoundObject]:
    try:
        yield OBJECT_STORE.look_at(name)
    except FileNotFoundError:
        yield from _matches(name, problems)
    except IsADirectoryError:
        found = list(_in_directory(name, problems))
        if not found:
            problems.append(f"{shown(name)}: the directory has no *.jsonl* files")
        yield from found


def _matches(name: str, problems: list[str]) -> Iterator[FoundObject]:
    found: dict[str, FoundObject] = {}
    for path, match in OBJECT_STORE.glob(name) if any(char in name for char in "*?[") else []:
        if path.count("/.") > name.count("/."):
            continue  # hidden, as in a shell
        inside = [match] if match else _in_directory(path, problems)
        found |= {one.path: one for one in inside}  # `**` matches a file and also its directory
    if not found:
        problems.append(f"{shown(name)}: no such object, and no object matches it as a glob")
    yield from found.values()


def _in_directory(directory: str, problems: list[str]) -> Iterator[FoundObject]:
    """Yield the shards in a directory at any depth."""
    by_parent: defaultdict[str, dict[str, FoundObject]] = defaultdict(dict)
    for found in OBJECT_STORE.find(directory):
        parent, file = parent_and_name(found.path)
        if "/." not in parent.removeprefix(directory.rstrip("/")):
            by_parent[parent][file] = found
    for parent, files in sorted(by_parent.items()):
        if _MANIFEST in files:
            named = _parts_in(join(parent, _MANIFEST))
            if named is not None:
                missing = sorted(named - files.keys())
                problems += [f"{shown(join(parent, file))}: missing, but listed in {_MANIFEST}" for file in missing]
                files = {file: found for file, found in files.items() if file in named}
        elif _UNFINISHED in files:
            problems.append(f"{shown(parent)}: an unfinished corpus: run `normalize` again, or leave it out")
            continue
        for file, found in sorted(files.items()):
            if ".jsonl" in file and not file.startswith("."):
                yield found


def _parts_in(manifest: str) -> set[str] | None:
    try:
        parts = msgspec.json.decode(OBJECT_STORE.read_all(manifest), type=_Manifest).parts
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # not a manifest of fastrec
    return {part.file for part in parts}


def _shards(found: Sequence[FoundObject]) -> list[Shard]:
    """Detect the formats of objects; their first bytes are read concurrently."""
    filled = [one.path for one in found if one.size]  # stores refuse to read an empty object
    formats = {
        path: detect(head) if isinstance(head, bytes) else None  # reading the shard will report the error
        for path, head in zip(filled, OBJECT_STORE.heads(filled, MAGIC_BYTES), strict=True)
    }
    return [Shard(one.path, one.size, formats.get(one.path, Format.PLAIN), one.version) for one in found]
