"""Which corpora are trusted: their lines are known to be valid and in normal form.

Pass 1 takes their records from columns. So a corpus is also judged if columns cannot tell what the
judge would find in its lines: turns of two versions, or metrics in a version without metrics.

A manifest proves that the parts are complete. It does not prove that somebody judged their records,
because anybody can write a manifest. So the state directory has a list of the manifests that this
user has published, with the build that made each. Only these corpora are trusted, unless the user
says otherwise (`--trust`, `--judge`). A corpus made with records that were taken on trust
(`--trust`) is not on the list: its manifest names where they are from.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fastrec._version import __version__
from fastrec.build import identity
from fastrec.corpus.manifest import MANIFEST, Manifest, read_summary
from fastrec.corpus.scan import Position, position_maker
from fastrec.errors import CorpusError, shown, utf8
from fastrec.judge.findings import OTHER_TURNS
from fastrec.parameters import Notice
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.schemas.view import REFUSALS
from fastrec.sources.shard import Shard, Shards
from fastrec.storage import join, parent_and_name, parent_of, storage_of

_Range = tuple[Position, Position, str]  # the first and the last position of a part, and its path

_LIST = "published"
_MOST = 10_000  # corpora on the list; the oldest ones are forgotten
# Parts that a part may overlap to be read like a run.
#
# It is decompressed for about as many new parts.
_MOST_OVERLAPS = 3


def remember(document: bytes, *, is_guess: bool = True) -> None:
    """Note that this build has published a corpus with this manifest.

    If that is not possible, it is judged again.

    `is_guess` says that its version followed from its records, so that none of the default version
    names a metric.
    """
    path = _list_path()
    line = _line_of(document, is_guess=is_guess)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = _read_list()
        if line in lines:
            return
        if len(lines) < _MOST:
            path.touch(0o600)
            with path.open("a") as file:
                file.write(line + "\n")
            return
        new = path.with_name(f"{_LIST}-{os.getpid()}")
        new.touch(0o600)
        new.write_text("\n".join([*lines[_MOST // 2 :], line, ""]))
        new.replace(path)


def trusted_shards(
    shards: Shards,
    target: Schema,
    *,
    sort_fields: tuple[str, ...],
    is_guess: bool,
    trust: bool,
    why_judged_again: Callable[[Mapping[str, object]], str],
    notice: Notice,
) -> list[Shard]:
    """Mark the shards that are parts of trusted corpora.

    `notice` receives why the other corpora are judged.

    `sort_fields` is the order of the new corpus. If its version `is_guess`, it follows from the
    records. `why_judged_again` tells why recorded options do not suit the new corpus.
    """
    marked = {}
    ranges = []
    position_of = position_maker(sort_fields)
    corpora = dict.fromkeys(parent_of(shard.path) for shard in shards if shard.listed)
    published = set(_read_list()) if corpora else set()
    for corpus in corpora:
        document = storage_of(corpus).read_all(join(corpus, MANIFEST))
        try:
            manifest = msgspec.json.decode(document, type=Manifest)
            is_default = target is DEFAULT_SCHEMA
            reason = (
                _why_other(manifest, target)
                or why_judged_again(manifest.options)
                or _why_not_ours(
                    document, manifest, published, trust=trust, is_guess=is_guess and is_default
                )
            )
            if is_default:
                reason = reason or _why_other_turns(corpus, manifest)
        except REFUSALS:
            reason = "another build of fastrec made it"
        if reason:
            notice(f"the records of {shown(corpus)} are judged again: {reason}")
            continue
        compression = ""
        if published & _lines_of(document):
            options = manifest.options
            compression = f"{options.get('compression')} {options.get('level')}"
        parts = {part.file: part for part in manifest.parts}
        for shard in shards:
            folder, name = parent_and_name(shard.path)
            part = parts.get(name) if folder == corpus and shard.listed else None
            if part and shard.listed and shard.listed.sha256 == part.sha256:
                marked[shard.path] = replace(shard, trusted=True, compression=compression)
                if manifest.sort_fields == sort_fields:
                    ranges.append((position_of(part.first), position_of(part.last), shard.path))
    for path in _with_few_overlaps(ranges):
        marked[path] = replace(marked[path], is_run=True)
    return [marked.get(shard.path, shard) for shard in shards]


def taken_on_trust(shards: Iterable[Shard]) -> list[str]:
    """The corpora that are trusted although this user has not published them."""
    taken = (shard.path for shard in shards if shard.trusted and not shard.compression)
    return sorted({utf8(parent_of(path)) for path in taken})


def _with_few_overlaps(ranges: list[_Range]) -> list[str]:
    """The paths of the parts that overlap few others; parts of one corpus overlap none."""
    firsts = sorted(first for first, _, _ in ranges)
    lasts = sorted(last for _, last, _ in ranges)
    return [
        path
        for first, last, path in ranges
        # Without itself.
        if bisect_right(firsts, last) - bisect_left(lasts, first) - 1 <= _MOST_OVERLAPS
    ]


def _why_other(manifest: Manifest, target: Schema) -> str:
    """Why a corpus has not the lines that a corpus of the target would have; empty if it has."""
    if manifest.schema != target.label:
        return f"they have schema {manifest.schema}, and the new corpus has {target.name}"
    return "it was refused" if manifest.refused else ""


def _why_not_ours(
    document: bytes, manifest: Manifest, published: set[str], *, trust: bool, is_guess: bool
) -> str:
    """Why a corpus is not trusted; empty if it is."""
    if published & _lines_of(document):
        if _line_of(document) in published or not is_guess:
            return ""
        return f"they may name metrics, because it was made with --schema {DEFAULT_SCHEMA.name}"
    digest = sha256(document).hexdigest()
    if any(line.startswith(digest) for line in published) or manifest.fastrec != __version__:
        return "another build of fastrec made it"
    if trust:
        return ""
    reason = "you have not published it with this fastrec"
    if manifest.trusted:
        reason = "it was made with --trust"
    return f"{reason}; --trust takes them as they are"


def _why_other_turns(corpus: str, manifest: Manifest) -> str:
    """Why records may have turns of two versions; empty if the summary says that none has."""
    try:
        notes = read_summary(corpus, manifest).notes
    except (OSError, CorpusError):
        return "its summary cannot be read"
    return "some have turns of two versions" if OTHER_TURNS.code in notes else ""


def _lines_of(document: bytes) -> set[str]:
    return {_line_of(document), _line_of(document, is_guess=False)}


def _line_of(document: bytes, *, is_guess: bool = True) -> str:
    build = sha256(msgspec.json.encode(identity(), order="sorted")).hexdigest()
    return f"{sha256(document).hexdigest()} {build}" + ("" if is_guess else " given")


def _read_list() -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        return _list_path().read_text().splitlines()
    return []


def _list_path() -> Path:
    return state_directory() / _LIST


def state_directory() -> Path:
    """The directory of what fastrec keeps about this user.

    It has the list of published corpora, and the history of queries.
    In a container, a user may have neither a HOME nor an entry in the list of users. Then the path
    is one where nothing is, and nothing can be made.
    """
    if named := os.environ.get("FASTREC_STATE"):
        return Path(named)
    try:
        base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    except RuntimeError:  # there is no home
        base = os.devnull
    return Path(base, "fastrec")
