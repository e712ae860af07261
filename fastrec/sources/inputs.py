"""Discover input: expand names into files. Names are paths, globs, `-` and URLs.

`find_files` finds files of any kind, such as logs: a directory stands for all files in it.
`find_shards` finds shards:

1. Collect the names: the arguments, then the lines of `files_from`.
2. Expand each name. A path that exists is that file, even if it looks like a glob. A directory
   stands for its `*.jsonl*` files at any depth, sorted. Parquet has to be named, or to match a
   glob: beside tables of records are often others.
3. Drop files that were given before, by any name or link, with a notice.
4. Report everything that is missing in one error.

Hidden files are skipped, links to directories are not followed, and URLs follow the same rules. In
a store, a published corpus stands for the parts that its manifest names: other files may be
leftovers of a killed run. A corpus without a manifest is not finished yet, and is reported as a
problem.

Names are str as the operating system gives them: bytes that are not UTF-8 are lone surrogates.
"""

from __future__ import annotations

import glob
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from os.path import normpath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import MsgspecError, Struct, convert
from msgspec.structs import replace

from fastrec.errors import CorpusError, ShardMissingError, UsageError, counted, listed, shown
from fastrec.sources.formats import MAGIC_BYTES, Format, detect, format_of_name
from fastrec.sources.shard import STDIN, Listed, Shard, shard_at
from fastrec.storage import (
    base_name,
    file_in,
    is_url,
    join,
    parent_and_name,
    parent_of,
    storage_of,
    without_file_protocol,
)

if TYPE_CHECKING:
    from fastrec.storage.object_store import FoundObject, ObjectStore


class AnyFile(Struct, frozen=True):
    path: str
    size: int
    is_named: bool  # whether the user named this very file, and not a directory or a pattern


def _is_pattern(name: str) -> bool:
    return name.count("/") < 500 and "\0" not in name and any(char in name for char in "*?[")


def _store() -> ObjectStore:
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - takes 20 ms, and only URLs need it

    return OBJECT_STORE


def find_files(paths: Iterable[str]) -> list[AnyFile]:
    """Find the files of all names, each once, in the order given.

    UsageError if a name stands for nothing.
    """
    by_path: dict[str, AnyFile] = {}
    problems: list[str] = []
    for name in map(without_file_protocol, paths):
        before = len(problems)
        files = list(_files_of(name, problems))
        if not files and len(problems) == before:
            problems.append(_nothing_at(name, "files but hidden ones"))
        for file in files:
            by_path.setdefault(file.path, file)
    refuse(problems)
    return list(by_path.values())


def refuse(problems: Sequence[str], *advice: str) -> None:
    """UsageError if there are problems, each of which begins with the input that has it."""
    if problems:
        lines = [f"  {line}" for line in problems]
        raise UsageError("\n".join(["some input cannot be used:", *lines, *advice]))


def _nothing_at(name: str, files: str) -> str:
    """Say why a name stands for no files of a kind."""
    if storage_of(name).is_directory(name):
        return f"{shown(name)}: the directory has no {files}"
    kind = "object" if is_url(name) else "file"
    return f"{shown(name)}: no such {kind}, and no {kind} matches it as a glob"


_Folders = Iterable[tuple[str, Collection[str]]]  # paths, each with the names of the files in it


def _expand(
    name: str, files_in: Callable[[_Folders], Iterable[str]], problems: list[str]
) -> Iterator[tuple[str, FoundObject | None]]:
    """Yield the paths that a name stands for; in a store, each with its object, if there is one.

    `files_in` chooses from the folders of a directory.
    """
    if not is_url(name):
        is_pattern = not os.path.lexists(name) and _is_pattern(name)
        paths = sorted(glob.glob(name, recursive=True)) if is_pattern else [name]
        for path in paths:
            files = files_in(walk(path, problems)) if os.path.isdir(path) else [path]
            for file in files:
                yield normpath(file) if is_pattern else file, None
        return
    for path, match in _objects_at(name):
        if match:
            yield match.path, match
            continue
        objects = {stored.path: stored for stored in _store().find(path)}
        by_parent = defaultdict(list)
        for object_path in objects:
            parent, file = parent_and_name(object_path)
            if "/." not in parent.removeprefix(path.rstrip("/")):
                by_parent[parent].append(file)
        for file in files_in(sorted(by_parent.items())):
            yield file, objects.get(file)


def _inside(folder: str, name: str) -> str:
    """The path of a file in a folder; the key of an object may have two slashes."""
    return f"{folder}/{name}" if is_url(folder) else join(folder, name)


def _files_of(name: str, problems: list[str]) -> Iterator[AnyFile]:
    try:
        for path, match in _expand(name, _all_files, problems):
            local = normpath(path)
            if match:
                yield AnyFile(path, match.size, is_named=path == name)
            elif os.path.isfile(local):
                size = os.path.getsize(local)
                yield AnyFile(local, size, is_named=local == normpath(name))
            elif os.path.exists(local):
                problems.append(f"{shown(local)}: not a regular file; logs are read more than once")
    except OSError as exc:
        problems.append(f"{shown(name)}: cannot be found: {exc.strerror}")


def _all_files(folders: _Folders) -> Iterator[str]:
    for folder, names in folders:
        for name in names:
            path = _inside(folder, name)
            if os.path.isfile(path) or (is_url(path) and not name.startswith(".")):
                yield path


def walk(directory: str, problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield all folders of a tree, each with the names of its files, sorted.

    Hidden files and folders are left out.
    """

    def complain(exc: OSError) -> None:
        problems.append(
            f"{shown(str(exc.filename))}: the directory cannot be searched: {exc.strerror}"
        )

    for folder, folders, names in os.walk(directory, onerror=complain):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield folder, sorted(name for name in names if not name.startswith("."))


def _objects_at(name: str) -> Iterator[tuple[str, FoundObject | None]]:
    """Yield the paths that a URL stands for, each with its object, or None if it is a directory."""
    try:
        yield name, _store().look_at(name)
    except IsADirectoryError:
        yield name, None
    except FileNotFoundError:
        for path, match in _store().glob(name) if _is_pattern(name) else []:
            if path.count("/.") <= name.count("/."):  # others are hidden, as in a shell
                yield path, match


_MANIFEST = "manifest.json"
MANIFEST_FORMAT = 4  # that this version reads
_UNFINISHED = ".fastrec-writing"
_MOST_UNNAMED = 3  # in a notice


class _Manifest(Struct):
    """What reading the parts of a corpus needs of its manifest; `corpus.manifest` has all of it."""

    records: int
    parts: list[Listed]
    rejects: Listed | None


def check_format(manifest: str, document: dict[str, Any]) -> None:
    """CorpusError if a manifest is of a format that this version does not read."""
    format_ = document.get("format")
    if isinstance(format_, int) and format_ != MANIFEST_FORMAT:
        reads = f"this version of fastrec reads {MANIFEST_FORMAT}"
        raise CorpusError(
            manifest, f"its format is {format_}, and {reads}: normalize its shards again"
        )


def _manifest_in(folder: str, names: Collection[str]) -> _Manifest | None:
    """Read the manifest of a corpus, given its files.

    None if the folder has none, or one of another program.
    """
    path = join(folder, _MANIFEST)
    if _MANIFEST not in names and (is_url(path) or not os.path.lexists(path)):
        return None
    data = storage_of(path).read_all(path)
    try:
        document = msgspec.json.decode(data)
        is_ours = isinstance(document, dict) and "fastrec" in document
        if not is_ours and not any(
            name.startswith("summary") and name.endswith(".json") for name in names
        ):
            return None
        file_in(folder, _MANIFEST, path)
        check_format(path, document if isinstance(document, dict) else {})
        manifest = convert(document, _Manifest)
    except (MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        advice = "Restore it; or give its *.jsonl* files by a pattern, to read them without it"
        raise CorpusError(
            path, f"is not a manifest, so the parts of this corpus are unknown: {exc}. {advice}"
        ) from exc
    if (records := sum(part.records for part in manifest.parts)) != manifest.records:
        raise CorpusError(
            path, f"says {manifest.records:,} records, but its parts have {records:,}"
        )
    return manifest


class _Search(Struct):
    """The search for shards: which files are parts of a corpus, and what to tell the user."""

    parts: dict[str, Listed] = {}  # by path
    notices: list[str] = []
    problems: list[str] = []
    corpora: list[str] = []
    damages: list[tuple[str, str]] = []  # parts of corpora, and what is wrong with each

    def shards_in(self, folders: _Folders) -> Iterator[str]:
        """Yield the paths of the shards in folders: *.jsonl* files.

        In a corpus, only its parts, by its manifest.
        """
        unnamed: dict[str, list[str]] = {}  # by corpus
        for folder, names in folders:
            shards = [name for name in names if ".jsonl" in name and not name.startswith(".")]
            paths = [_inside(folder, name) for name in sorted(shards)]
            corpora = [above for above in _folders_above(folder) if above in unnamed]
            if corpora:
                unnamed[corpora[0]] += paths
            elif manifest := _manifest_in(folder, names):
                listing = join(folder, _MANIFEST)
                self.corpora.append(folder)
                parts = {file_in(folder, part.file, listing): part for part in manifest.parts}
                for path, part in parts.items():
                    self.parts[normpath(path)] = part
                known = set(parts)
                if manifest.rejects:
                    known.add(join(folder, manifest.rejects.file))
                unnamed[folder] = [path for path in paths if path not in known]
                yield from parts
            elif is_url(folder) and _UNFINISHED in names:
                self.problems.append(
                    f"{shown(folder)}: an unfinished corpus: run `normalize` again, or leave it out"
                )
            else:
                yield from paths
        for corpus, paths in unnamed.items():
            if paths:
                self._note_unnamed(corpus, paths)

    def local_shards_in(self, folders: _Folders) -> list[str]:
        # A dangling link is kept, so that it is reported as missing instead of skipped; so is a
        # part that is no file.
        return sorted(
            path
            for path in self.shards_in(folders)
            if os.path.isfile(path) or not os.path.exists(path) or normpath(path) in self.parts
        )

    def _note_unnamed(self, corpus: str, paths: list[str]) -> None:
        """Tell the user that some files of a corpus are not read."""
        files = counted(paths, "file")
        verb = "is" if len(paths) == 1 else "are"
        examples = listed(map(shown, paths), _MOST_UNNAMED)
        self.notices.append(
            f"{shown(corpus)} is a corpus: {files} in it that its {_MANIFEST} does not name "
            f"{verb} not read: {examples}"
        )

    def as_listed(self, shard: Shard) -> Shard:
        part = self.parts.get(normpath(shard.path))
        return replace(shard, listed=part) if part else shard

    def complain(self, path: str, reason: str) -> None:
        """Note that a shard cannot be used."""
        if normpath(path) in self.parts:
            self.damages.append((path, reason))
        else:
            self.problems.append(f"{shown(path)}: {reason}")

    def check(self) -> None:
        refuse(self.problems, _ADVICE)
        if self.damages:
            (path, reason), *others = self.damages
            lines = [
                f"this part of a corpus {reason}",
                *(f"{shown(path)}: {reason}" for path, reason in others),
            ]
            lines.append("`fastrec verify` lists everything that is wrong with a corpus")
            raise CorpusError(path, "\n".join(lines))


def _folders_above(folder: str) -> Iterator[str]:
    while folder and folder != (folder := parent_of(folder)):
        yield folder


def shards_below(
    directory: str, is_shard: Callable[[str], bool]
) -> tuple[list[str], dict[str, Shard]]:
    """List all objects below a directory, and by path the shards among them."""
    objects = _store().find(directory)
    shards = _shards([stored for stored in objects if is_shard(base_name(stored.path))])
    return [stored.path for stored in objects], {shard.path: shard for shard in shards}


def _shards(objects: Sequence[FoundObject]) -> list[Shard]:
    """Detect the formats of objects; their first bytes are read concurrently."""
    # Stores refuse to read an empty object.
    filled = [stored.path for stored in objects if stored.size]
    heads = dict(zip(filled, _store().heads(filled, MAGIC_BYTES), strict=True)) if filled else {}
    shards = []
    for path, size, version in objects:
        head = heads.get(path, b"")
        # Reading the shard will report the error.
        format_ = detect(head) if isinstance(head, bytes) else None
        shards.append(Shard(path, size, format_, version))
    return shards


_ADVICE = "Check the names. A directory is searched for *.jsonl* files; hidden files are skipped."


def find_shards(
    paths: Iterable[str], *, files_from: str | None = None
) -> tuple[list[Shard], list[str]]:
    """Find the shards of all names, and notices for the user.

    Shards are in the order given, without duplicates.
    """
    names = list(paths)
    if files_from is not None:
        names += _listed(files_from, names)
    if not names:
        raise UsageError("no input: name files, directories, globs, or - for standard input")
    search = _Search()
    shards = []
    notices = search.notices
    seen: dict[object, str] = {}
    for shard, identity in chain.from_iterable(
        _shards_of(without_file_protocol(name), search) for name in names
    ):
        path = shard.path
        if identity in seen:
            same = (
                "given more than once"
                if path == seen[identity]
                else f"the same file as {shown(seen[identity])}"
            )
            notices.append(f"{shown(path)} is {same}: counted once")
            continue
        seen[identity] = path
        shards.append(shard)
        notices += _name_notices(shard)
    search.check()
    return shards, notices


def _shards_of(name: str, search: _Search) -> Iterator[tuple[Shard, object]]:
    """Yield the shards of one name, and a value that is equal for all names of one file."""
    problems = search.problems
    files_in = search.shards_in if is_url(name) else search.local_shards_in
    try:
        known = len(search.corpora)
        matches = {name: None} if name == STDIN else dict(_expand(name, files_in, problems))
        if not matches and len(search.corpora) == known:  # a corpus may have no parts
            problems.append(_nothing_at(name, "*.jsonl* files"))
        shards = _shards(list(filter(None, matches.values())))
    except OSError as exc:
        if not is_url(name):
            raise
        problems.append(f"{shown(name)}: cannot be found: {exc.strerror}")
        return
    for shard in shards:
        yield search.as_listed(shard), storage_of(name).canonical(shard.path)
    for path in [path for path, match in matches.items() if not match]:
        if is_url(path):
            search.complain(path, f"is missing, but listed in {_MANIFEST}")
            continue
        is_part = normpath(path) in search.parts
        try:
            shard = search.as_listed(shard_at(path, may_be_stream=not is_part))
            status = None if path == STDIN else os.stat(path)
        except ShardMissingError as exc:
            search.complain(path, exc.reason)
        except OSError as exc:
            search.complain(path, f"cannot be found: {exc.strerror}")
        else:
            yield shard, status and (status.st_dev, status.st_ino)


def _listed(files_from: str, shards: Collection[str]) -> Iterator[str]:
    """Read a list of names, one per line; blank lines are skipped."""
    if files_from == STDIN and STDIN in shards:
        raise UsageError(
            "standard input cannot be both a shard and the list of shards: use a file for one "
            "of them"
        )
    try:
        if files_from == STDIN:
            data = sys.stdin.buffer.read()
        elif is_url(files_from):
            data = storage_of(files_from).read_all(files_from)
        else:
            with open(files_from, "rb") as file:  # it may be a FIFO
                data = file.read()
    except OSError as exc:
        raise UsageError(f"the list {shown(files_from)} cannot be read: {exc.strerror}") from exc
    return (os.fsdecode(line) for line in data.split(b"\n") if line.strip())


def _name_notices(shard: Shard) -> Iterator[str]:
    promised = format_of_name(shard.path)
    if shard.format is None or promised is None or promised is shard.format:
        return
    if shard.size == 0:
        yield f"{shown(shard.path)} is empty, not {promised.value}: it has no lines"
    else:
        actual = "plain text" if shard.format is Format.PLAIN else shard.format.value
        yield f"{shown(shard.path)} is {actual} by its first bytes: read as {actual}"
