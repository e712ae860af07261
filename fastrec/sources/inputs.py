"""Discover shards: expand the names that the user gives into files, directories, globs, `-` and URLs.

1. Collect the names: the arguments, then the lines of `files_from`.
2. Expand each name. A path that exists is that file, even if it looks like a glob. A directory stands for its
   `*.jsonl*` files at any depth, sorted, without hidden files and without following links to directories.
3. Drop files that were given before, by any name or link, with a notice.
4. Report everything that is missing in one error.

Names are str as the operating system gives them: bytes that are not UTF-8 are lone surrogates.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator

from fastrec.errors import ShardMissingError, UsageError, shown
from fastrec.sources.files import walk
from fastrec.sources.formats import Format, format_of_name
from fastrec.sources.shard import STDIN, Shard, shard_at
from fastrec.storage import is_url, storage_of, without_file_protocol

__all__ = ["find_shards"]

_ADVICE = "Check the names. A directory is searched for *.jsonl* files; hidden files are skipped."


def find_shards(paths: Iterable[str], *, files_from: str | None = None) -> tuple[list[Shard], list[str]]:
    """Return the shards of all names, in the order given and without duplicates, and notices for the user."""
    names = list(paths)
    if files_from is not None:
        if files_from == STDIN and STDIN in names:
            raise UsageError("standard input cannot be both a shard and the list of shards: use a file for one of them")
        names += _listed(files_from)
    if not names:
        raise UsageError("no input: name files, directories, globs, or - for standard input")
    problems: list[str] = []
    shards: list[Shard] = []
    notices: list[str] = []
    seen: dict[object, str] = {}
    for shard, identity in (pair for name in names for pair in _shards_of(without_file_protocol(name), problems)):
        path = shard.path
        if identity in seen:
            same = "given more than once" if path == seen[identity] else f"the same file as {shown(seen[identity])}"
            notices.append(f"{shown(path)} is {same}: counted once")
            continue
        seen[identity] = path
        shards.append(shard)
        notices += _name_notices(shard)
    if problems:
        raise UsageError("\n".join(["some input cannot be used:", *(f"  {line}" for line in problems), _ADVICE]))
    return shards, notices


def _shards_of(name: str, problems: list[str]) -> Iterator[tuple[Shard, object]]:
    """Yield the shards of one name, and a value that is equal for all names of one file; add to `problems`."""
    if is_url(name):
        from fastrec.sources.objects import shards_in_store  # noqa: PLC0415 - only URLs need it

        for shard in shards_in_store(name, problems):
            yield shard, storage_of(name).canonical(shard.path)
        return
    for path in _expanded(name, problems):
        try:
            yield shard_at(path), _identity(path)
        except ShardMissingError as exc:
            problems.append(f"{shown(path)}: {exc.reason}")


def _listed(files_from: str) -> Iterator[str]:
    """Read a list of names, one per line; blank lines are skipped."""
    try:
        data = sys.stdin.buffer.read() if files_from == STDIN else storage_of(files_from).read_all(files_from)
    except OSError as exc:
        raise UsageError(f"the list {shown(files_from)} cannot be read: {exc.strerror}") from exc
    return (os.fsdecode(line) for line in data.split(b"\n") if line.strip())


def _expanded(name: str, problems: list[str]) -> list[str]:
    """Return the paths of one name; add what is wrong with it to `problems`."""
    if name == STDIN:
        return [name]
    if os.path.isdir(name):  # noqa: PTH112 - as above
        found = _in_directory(name, problems)
        if not found:
            problems.append(f"{shown(name)}: the directory has no *.jsonl* files")
        return found
    if os.path.lexists(name) or not any(char in name for char in "*?["):
        return [name]
    found = []
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - as above
        found += _in_directory(match, problems) if os.path.isdir(match) else [match]  # noqa: PTH112
    if not found:
        problems.append(f"{shown(name)}: no such file, and no file matches it as a glob")
    return list(dict.fromkeys(map(os.path.normpath, found)))  # `**` matches a file and also its directory


def _in_directory(directory: str, problems: list[str]) -> list[str]:
    """Return the paths of the shards in a directory at any depth, sorted."""
    found = []
    for parent, files in walk(directory, problems):
        if "manifest.json" in files:  # a published corpus: rejected lines are not part of it
            files = [name for name in files if not name.startswith("rejects.jsonl")]
        for name in files:
            path = os.path.join(parent, name)  # noqa: PTH118 - as above
            # A dangling link is kept, so that it is reported as missing instead of skipped.
            wanted = os.path.isfile(path) or not os.path.exists(path)  # noqa: PTH110, PTH113
            if ".jsonl" in name and wanted:
                found.append(path)
    return sorted(found)


def _identity(path: str) -> object:
    if path == STDIN:
        return path
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError as exc:
        raise ShardMissingError(path, f"cannot be found: {exc.strerror}") from exc
    return status.st_dev, status.st_ino


def _name_notices(shard: Shard) -> Iterator[str]:
    promised = format_of_name(shard.path)
    if shard.format is None or promised is None or promised is shard.format:
        return
    if shard.size == 0:
        yield f"{shown(shard.path)} is empty, not {promised.value}: it has no lines"
    else:
        found = "plain text" if shard.format is Format.PLAIN else shard.format.value
        yield f"{shown(shard.path)} is {found} by its first bytes: read as {found}"
