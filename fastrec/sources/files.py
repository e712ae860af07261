"""Discover files of any kind: expand the names that the user gives into files, directories, globs and URLs.

A directory stands for all files in it at any depth, sorted, without hidden ones and without following links to
directories. Everything that is missing is reported in one error.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

import msgspec

from fastrec.errors import UsageError, shown
from fastrec.storage import is_url, without_file_protocol

__all__ = ["AnyFile", "find_files", "walk"]


class AnyFile(msgspec.Struct, frozen=True):
    """A file as discovery found it."""

    path: str
    size: int
    is_named: bool
    """Whether the user named this very file, and not a directory or a pattern."""


def find_files(paths: Iterable[str]) -> list[AnyFile]:
    """Return the files of all names, each once, in the order given; UsageError if a name stands for nothing."""
    found: dict[str, AnyFile] = {}
    problems: list[str] = []
    for path in paths:
        name = without_file_protocol(path)
        before = len(problems)
        files = list(_in_store(name, problems) if is_url(name) else _on_disk(name, problems))
        if not files and len(problems) == before:
            problems.append(f"{shown(name)}: no such file or directory, or nothing in it")
        for file in files:
            found.setdefault(file.path, file)
    if problems:
        raise UsageError("\n".join(["some input cannot be used:", *(f"  {line}" for line in problems)]))
    return list(found.values())


def _on_disk(name: str, problems: list[str]) -> Iterator[AnyFile]:
    is_pattern = not os.path.lexists(name) and any(char in name for char in "*?[")
    names = sorted(glob.glob(name, recursive=True)) if is_pattern else [name]  # noqa: PTH207 - paths stay str
    for path in dict.fromkeys(map(os.path.normpath, names)):
        if os.path.isdir(path):  # noqa: PTH112 - as above
            yield from _in_directory(path, problems)
        elif os.path.isfile(path):  # noqa: PTH113 - as above
            yield AnyFile(path, os.path.getsize(path), is_named=not is_pattern)  # noqa: PTH202 - as above
        elif os.path.exists(path):  # noqa: PTH110 - as above
            problems.append(f"{shown(path)}: not a regular file; logs are read more than once")


def walk(directory: str, problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield all folders of a tree, each with the names of its files, sorted; hidden files and folders are left out.

    A folder that cannot be searched is added to `problems`.
    """

    def complain(exc: OSError) -> None:
        problems.append(f"{shown(str(exc.filename))}: the directory cannot be searched: {exc.strerror}")

    for folder, folders, names in os.walk(directory, onerror=complain):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield folder, sorted(name for name in names if not name.startswith("."))


def _in_directory(directory: str, problems: list[str]) -> Iterator[AnyFile]:
    for folder, names in walk(directory, problems):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - as above
            if os.path.isfile(path):  # noqa: PTH113 - as above
                yield AnyFile(path, os.path.getsize(path), is_named=False)  # noqa: PTH202 - as above


def _in_store(name: str, problems: list[str]) -> Iterator[AnyFile]:
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

    try:
        try:
            found = OBJECT_STORE.look_at(name)
            yield AnyFile(found.path, found.size, is_named=True)
        except IsADirectoryError:
            yield from _below(name)
        except FileNotFoundError:
            for path, match in OBJECT_STORE.glob(name) if any(char in name for char in "*?[") else []:
                if path.count("/.") > name.count("/."):
                    continue  # hidden, as in a shell
                if match:
                    yield AnyFile(match.path, match.size, is_named=False)
                else:
                    yield from _below(path)
    except OSError as exc:
        problems.append(f"{shown(name)}: cannot be found: {exc.strerror}")


def _below(directory: str) -> Iterator[AnyFile]:
    """Yield the objects below a directory, without hidden ones."""
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

    for found in sorted(OBJECT_STORE.find(directory), key=lambda one: one.path):
        if "/." not in found.path.removeprefix(directory.rstrip("/")):
            yield AnyFile(found.path, found.size, is_named=False)
