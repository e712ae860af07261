"""Which corpora are trusted: the lines of a trusted corpus are valid and in normal form, so they are not judged again.

A manifest proves that the parts are complete. It does not prove that somebody judged their records, because anybody can
write a manifest. So the state directory has a list of the manifests that this user has published, with the build that
made each. Only these corpora are trusted, unless the user says otherwise (`--trust`, `--judge`). A corpus made with
records that were taken on trust (`--trust`) is not on the list: its manifest names where they are from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from fastrec._version import __version__
from fastrec.build import identity
from fastrec.corpus.manifest import MANIFEST, Manifest
from fastrec.corpus.scan import Position, position_maker
from fastrec.errors import shown, utf8
from fastrec.schemas.schema import Schema
from fastrec.sources.shard import Shard
from fastrec.storage import join, parent_and_name, storage_of
from fastrec.storage.local import user_directory

_Range = tuple[Position, Position, str]  # the first and the last position of a part, and its path

_LIST: Final = "published"
_MOST: Final = 10_000  # corpora on the list; the oldest ones are forgotten


def remember(document: bytes) -> None:
    """Note that this build has published a corpus with this manifest. If that is not possible, it is judged again."""
    path, line = _list_path(), _line_of(document)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = _read_list()
        if line in lines:
            return
        if len(lines) < _MOST:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as file:
                file.write(line + "\n")
            return
        new = path.with_name(f"{_LIST}-{os.getpid()}")
        new.touch(0o600)
        new.write_text("\n".join([*lines[_MOST // 2 :], line, ""]))
        new.replace(path)


def trusted_shards(
    shards: Sequence[Shard],
    target: Schema,
    *,
    algorithm: str,
    sort_fields: tuple[str, ...],
    trust: bool,
    judge: bool,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Shard]:
    """Mark the shards that are parts of trusted corpora; `notice` receives why the other corpora are judged.

    `sort_fields` is the order of the new corpus.
    """
    if judge:
        return list(shards)
    marked: dict[str, Shard] = {}
    ranges: list[_Range] = []
    position_of = position_maker(sort_fields)
    corpora = dict.fromkeys(parent_and_name(shard.path)[0] for shard in shards if shard.listed)
    published = set(_read_list()) if corpora else set()
    for corpus in corpora:
        document = storage_of(corpus).read_all(join(corpus, MANIFEST))
        try:
            manifest = msgspec.json.decode(document, type=Manifest)
            reason = _why_judged(document, manifest, published, target, algorithm, trust=trust)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            reason = "another build of fastrec made it"
        if reason:
            notice(f"the records of {shown(corpus)} are judged again: {reason}")
            continue
        is_ours, options = _line_of(document) in published, manifest.options
        compression = f"{options.get('compression')} {options.get('level')}" if is_ours else ""
        parts = {part.file: part for part in manifest.parts}
        for shard in shards:
            folder, name = parent_and_name(shard.path)
            part = parts.get(name) if folder == corpus and shard.listed else None
            if part and shard.listed and shard.listed.sha256 == part.sha256:
                marked[shard.path] = replace(shard, trusted=True, compression=compression)
                if manifest.sort_fields == sort_fields:
                    ranges.append((position_of(part.first), position_of(part.last), shard.path))
    for path in _alone(ranges):
        marked[path] = replace(marked[path], alone=True)
    return [marked.get(shard.path, shard) for shard in shards]


def taken_on_trust(shards: Iterable[Shard]) -> list[str]:
    """The corpora that are trusted although this user has not published them."""
    return sorted({utf8(parent_and_name(shard.path)[0]) for shard in shards if shard.trusted and not shard.compression})


def _alone(ranges: list[_Range]) -> set[str]:
    """The paths of the parts that overlap no other: parts of one corpus never do."""
    alone: set[str] = set()
    end: Position = ()
    head = ""  # the first of several parts that overlap
    for first, last, path in sorted(ranges):
        if head and first <= end:
            alone.discard(head)
            end = max(end, last)
        else:
            alone.add(path)
            end, head = last, path
    return alone


def _why_judged(
    document: bytes, manifest: Manifest, published: set[str], target: Schema, algorithm: str, *, trust: bool
) -> str:
    """Why a corpus is not trusted, or does not have the form of the corpus that is made from it; empty if it is."""
    options = manifest.options
    if manifest.schema != target.label:
        return f"they have schema {manifest.schema}, and the new corpus has {target.label}"
    if options.get("hash") != algorithm:
        return f"their sample_hash is by {options.get('hash')}, and that of the new corpus by {algorithm}"
    if options.get("sample_hash") == "fill":
        return "it was made with --sample-hash fill, so a sample_hash may be wrong"
    if manifest.refused:
        return "it was refused"
    if _line_of(document) in published:
        return ""
    digest = sha256(document).hexdigest()
    if any(line.startswith(digest) for line in published) or manifest.fastrec != __version__:
        return "another build of fastrec made it"
    if trust:
        return ""
    reason = "it was made with --trust" if manifest.trusted else "you have not published it with this fastrec"
    return f"{reason}; --trust takes them as they are"


def _line_of(document: bytes) -> str:
    build = sha256(msgspec.json.encode(identity(), order="sorted")).hexdigest()
    return f"{sha256(document).hexdigest()} {build}"


def _read_list() -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        return _list_path().read_text().splitlines()
    return []


def _list_path() -> Path:
    return state_directory() / _LIST


def state_directory() -> Path:
    """The directory of what fastrec keeps about this user: published corpora, and the history of queries."""
    if named := os.environ.get("FASTREC_STATE"):
        return Path(named)
    return user_directory("XDG_STATE_HOME", "~/.local/state")
