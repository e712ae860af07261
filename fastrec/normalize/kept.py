"""Kept work: what a run with `--incremental` leaves for the next one.

    parts        the parts of the corpus, which the next run reads like runs; each with its borders
                 and counts, and an index with what its columns lack: the origins of its records
    pieces       per piece of input: its counts, its statistics, and its rejected lines
    shards       size, modification time and inode (or ETag) of each shard, and a hash of its bytes

One document lists all of it (`Kept`). The next one is written just before the corpus is published,
and replaces it; afterwards, if it names files by the place where they are published. So a run that
is killed leaves one whose files are in place: what no document needs is removed by the next run.

Nothing of it is trusted. The document has a checksum. Its settings have to be the same. All files
have to be unchanged, by size, modification time and inode, or by content with `--check content`.
What is read has checksums of its own.

The next run compares its shards with the kept ones (`match_shards`): unchanged, new, changed or
gone. Its base (`Base`) is the last corpus without the records of shards that are gone. So only new
and changed shards are judged.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain

from msgspec import MsgspecError, Struct, convert
from msgspec.structs import replace

from fastrec.corpus.manifest import InputEntry, RejectsEntry
from fastrec.corpus.output import NEXT
from fastrec.engine.base import Engine
from fastrec.errors import DamagedFileError, shown
from fastrec.limits import in_batches
from fastrec.normalize.results import Part, PieceCounts, SortResult
from fastrec.normalize.resume import Settings, difference
from fastrec.sorting.files import read_blocks
from fastrec.sorting.keys import END
from fastrec.sorting.slices import Bound, RunSlice, whole_run
from fastrec.sources.formats import Format, format_of_name
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shards
from fastrec.storage import FileDigest, hash_of_file, is_unchanged, storage_of
from fastrec.summary.document import filled

_FILES = 1_000  # files whose signatures one task asks for


class KeptShard(Struct, frozen=True, array_like=True):
    path: str
    signature: str  # `Shard.signature`; empty for a stream
    # whether it was last modified so long before it was read that a later change has another time
    certain: bool
    # Start, size and hash (128-bit xxh3) of all ranges in which the file was read.
    ranges: tuple[tuple[int, int, str], ...] = ()


class KeptFile(FileDigest, frozen=True):
    signature: str  # size, modification time and inode, or ETag


class Kept(Struct, frozen=True):
    settings: Settings
    shards: list[KeptShard]
    tasks: list[SortResult]  # without runs; the shards of their pieces are positions in `shards`
    # by position in `shards`: those that the driver decompressed
    decompressed: dict[int, ReadStats]
    parts: list[Part]
    inputs: list[InputEntry]
    summary: str  # path of the summary
    rejects: RejectsEntry | None  # its file is a path
    files: list[KeptFile]

    @property
    def next_piece(self) -> int:
        """The first number that no piece has."""
        return max((number + 1 for task in self.tasks for number in task.numbers), default=0)


# None if there is none, or why it cannot be read.
KeptOrReason = Kept | str | None


def read_kept(path: str) -> KeptOrReason:
    """Read the document; None if there is none, or why it cannot be read."""
    try:
        return convert(next(read_blocks(path), None), Kept)
    except DamagedFileError as exc:
        is_missing = isinstance(exc.__cause__, FileNotFoundError)
        return None if is_missing else f"{shown(path)} is damaged"
    except OSError as exc:
        return f"{shown(path)} cannot be read: {exc.strerror or exc}"
    except MsgspecError:
        return f"{shown(path)} is of another version, or damaged"


def recover_kept(path: str) -> KeptOrReason:
    """Read the document that counts, as `read_kept` does.

    If all files of the next one are in place, that one counts, and replaces the other.
    """
    next_path = path + NEXT
    newer = read_kept(next_path)
    if newer is None:
        return read_kept(path)
    storage = storage_of(path)
    is_in_place = isinstance(newer, Kept) and (
        _signatures([file.path for file in newer.files]) == [file.signature for file in newer.files]
    )
    if is_in_place:
        storage.write_all(path, storage.read_all(next_path))
    with suppress(FileNotFoundError):  # another error has hidden that there is none
        storage.remove(next_path)
    return newer if is_in_place else read_kept(path)


def _why_damaged(kept: Kept, engine: Engine, *, by_content: bool) -> str | None:
    if by_content:
        checked = engine.run(is_unchanged, kept.files)
        changed = [kept.files[number] for number, is_same in checked if not is_same]
    else:
        signatures = signatures_of([file.path for file in kept.files], engine)
        changed = [
            file
            for file, signature in zip(kept.files, signatures, strict=True)
            if file.signature != signature
        ]
    if not changed:
        return None
    first = shown(min(file.path for file in changed))
    if len(changed) == 1:
        return f"{first} is missing or has changed"
    return (
        f"{len(changed):,} of its {len(kept.files):,} files are missing or have changed; the "
        f"first is {first}"
    )


def signatures_of(paths: Sequence[str], engine: Engine) -> list[str]:
    """The signatures of files, empty if they are missing.

    Many are asked for in tasks: a store is slow.
    """
    if len(paths) <= _FILES:
        return _signatures(paths)
    return list(chain.from_iterable(engine.in_order(_signatures, in_batches(paths, _FILES))))


def _signatures(paths: Sequence[str]) -> list[str]:
    signatures = []
    for path in paths:
        try:
            signatures.append(storage_of(path).signature(path))
        except OSError:
            signatures.append("")
    return signatures


_Layout = tuple[tuple[int, int], ...]  # ranges of a file: start and size
_Hashed = tuple[tuple[int, int, str], ...]  # the same, with their hashes
_Proof = tuple[str, _Hashed]  # what has to be equal: the signature, hashed ranges, or both


class Changes(Struct):
    """How the shards of a run differ from those that were kept.

    All lists are in ascending order.
    """

    # Numbers of shards, with the position of the kept shard that has the same content.
    unchanged: dict[int, int]
    new: list[int]  # numbers of shards that have no kept shard of the same content or path
    # Numbers of shards that have another content than the kept shard of the same path.
    changed: list[int]
    # Positions of the kept shards that no shard matches; also those of shards that changed.
    gone: list[int]


def match_shards(
    shards: Shards,
    kept: Sequence[KeptShard],
    *,
    by_content: bool,
    engine: Engine,
    may_move: bool = True,
) -> Changes:
    """Compare the shards of a run with those that an earlier run kept work of.

    A kept shard is matched with the shard of the same path first, then with one of another path, if
    it `may_move`: it was renamed or moved. What has to be equal:

        by signature    size, modification time and inode, or ETag; no file is read
        by content      hashes of all bytes; every shard that has the size of a kept one is read

    A signature proves nothing if the file was modified just before it was read: a later write may
    have the same time. Nor does it if the store tells no version. Then the hashes have to be equal,
    too.

    A name that promises another compression is no mere rename: a shard that is neither text nor as
    its name says is bad.

    A large shard is read in several ranges, each with its hash. The ranges of a file depend on its
    lines. So a shard is hashed in the ranges of the kept shards that it may be equal to.
    """
    ours, theirs = _proofs(shards, kept, by_content=by_content, engine=engine)
    unchanged: dict[int, int] = {}
    for is_moved in (False, may_move):
        places = [_place(shard.path, is_moved=is_moved) for shard in shards]
        positions = theirs.keys() - unchanged.values()
        alike = defaultdict(list)
        # By path, because the order must not matter.
        for position in sorted(positions, key=lambda at: kept[at].path):
            place = _place(kept[position].path, is_moved=is_moved)
            alike[place, theirs[position]].append(position)
        for number in sorted(ours.keys() - unchanged.keys(), key=lambda at: shards[at].path):
            same = [alike[places[number], proof] for proof in ours[number]]
            if left := next(filter(None, same), None):
                unchanged[number] = left.pop(0)
    known = {old.path for old in kept if old.signature}
    others = [number for number in range(len(shards)) if number not in unchanged]
    changed = [
        number for number in others if not shards[number].stream and shards[number].path in known
    ]
    return Changes(
        unchanged=dict(sorted(unchanged.items())),
        new=sorted(set(others).difference(changed)),
        changed=changed,
        gone=sorted(set(range(len(kept))).difference(unchanged.values())),
    )


def _place(path: str, *, is_moved: bool) -> str:
    """What two paths of the same shard have in common."""
    return (format_of_name(path) or Format.PLAIN).value if is_moved else path


def _proofs(
    shards: Shards, kept: Sequence[KeptShard], *, by_content: bool, engine: Engine
) -> tuple[dict[int, list[_Proof]], dict[int, _Proof]]:
    """What has to be equal for a shard to be the same as a kept one: of all shards of both kinds.

    A shard has several proofs if it may be equal to kept shards that were read in different ranges.
    """
    doubtful = {old.signature for old in kept if by_content or not old.certain}
    doubtful.update(shard.signature for shard in shards if by_content or not shard.version)

    def likeness(signature: str) -> str:
        """What has to be equal before content is compared."""
        return _size_in(signature) + signature.partition("/")[2] if by_content else signature

    theirs = {}
    layouts = defaultdict(set)
    for position, old in enumerate(kept):
        if not old.signature:  # a stream
            continue
        hashed = _hashed(old) if old.signature in doubtful else ()
        if hashed is not None:
            like = likeness(old.signature)
            theirs[position] = (like, hashed)
            layouts[like].add(tuple((start, size) for start, size, _ in hashed))
    ours: dict[int, list[_Proof]] = {}
    unsure: list[tuple[int, str, _Layout]] = []
    for number, shard in enumerate(shards):
        like = likeness(shard.signature)
        alike = layouts[like] if shard.signature else ()
        ours[number] = [(like, ()) for layout in alike if not layout]
        unsure += [(number, like, layout) for layout in alike if layout]
    tasks = [(shards[number].path, layout) for number, _, layout in unsure]
    for at, hashed in engine.run(_hash_ranges, tasks):
        number, like, _ = unsure[at]
        if hashed:
            ours[number].append((like, hashed))
    return ours, theirs


def _hashed(kept: KeptShard) -> _Hashed | None:
    """The hashes of all bytes of a kept shard by range; None if they are not known."""
    ranges = tuple(sorted(range_ for range_ in kept.ranges if range_[1])) or kept.ranges
    end = 0
    for start, length, content in ranges:
        if start != end or not content:
            return None
        end += length
    return ranges if ranges and end == int(_size_in(kept.signature)) else None


def _size_in(signature: str) -> str:
    return signature.partition("-")[0]


def _hash_ranges(task: tuple[str, _Layout]) -> _Hashed | None:
    """Hash ranges of a file; None if it cannot be read, which pass 1 will report.

    Runs in a worker.
    """
    path, layout = task
    hashed = []
    for start, size in layout:
        try:
            count, content = hash_of_file(path, start, size)
        except OSError:
            return None
        if count != size:
            return None
        hashed.append((start, size, content))
    return tuple(hashed)


def positions_in(cuts: Sequence[bytes], low: Bound, high: Bound) -> tuple[int, int]:
    """The first and the last of the ranges between cuts that overlap another range of keys."""
    first = 0 if low is None else bisect_right(cuts, low)
    return first, len(cuts) if high is None else bisect_left(cuts, high)


class Base(Struct, frozen=True, dict=True):
    """What an incremental run builds on: the corpus of the last run.

    Empty if there is no kept work.
    """

    changes: Changes
    # of shards of the last run that are not there any more, under no other name
    paths_gone: frozenset[str] = frozenset()
    # of unchanged shards; their pieces have the shards of this run
    tasks: tuple[SortResult, ...] = ()
    gone: tuple[PieceCounts, ...] = ()  # pieces of shards that are gone or changed
    # Unchanged shards that the driver of an earlier run decompressed.
    decompressed: dict[int, ReadStats] = {}
    parts: list[Part] = []
    is_same: bool = False  # whether the shards are those of the last run, in the same order
    inputs: list[InputEntry] = []
    summary: str = ""  # path of the summary of the last run
    rejects: RejectsEntry | None = None
    # All kept files, which must stay until this run is complete.
    files: frozenset[str] = frozenset()
    next_piece: int = 0

    @property
    def is_newer_version(self) -> bool:
        """Whether an unchanged shard has a record that decides for the newest version."""
        return any(task.is_newer_version for task in self.tasks)

    @cached_property
    def cuts(self) -> list[bytes]:
        """The first keys of all parts but the first."""
        return [part.low for part in self.parts[1:] if part.low is not None]

    def overlapping(self, low: Bound, high: Bound) -> list[int]:
        """The numbers of the parts that may have records of a range."""
        first, last = positions_in(self.cuts, low, high)
        return [
            first + at
            for at, part in enumerate(self.parts[first : last + 1])
            if (low is None or part.span[1] >= low) and (high is None or part.span[0] < high)
        ]

    def is_within(self, number: int, low: Bound, high: Bound) -> bool:
        first, last = self.parts[number].span
        return (low is None or low <= first) and (high is None or last < high)

    def gaps(self, low: bytes, high: bytes, first_field: Callable[[bytes], bytes]) -> list[bytes]:
        """Where the gaps between parts are in which a range of keys may have new evaluations."""
        gaps = []
        for number, part in enumerate(self.parts):
            first, last = part.span
            end = self.parts[number + 1].low if number + 1 < len(self.parts) else None
            if not number and low < first:
                gaps.append(first_field(first))
            after = first_field(last) + END
            if after <= high and (end is None or (low < end and after < end)):
                gaps.append(after)
        return gaps

    def removed(self, number: int) -> tuple[int, ...]:
        """The pieces that are gone and may have records in a part."""
        return tuple(sorted(piece for first, last, piece in self._gone if first <= number <= last))

    @cached_property
    def _gone(self) -> list[tuple[int, int, int]]:
        """The pieces that are gone, each with the first and the last part that may have records."""
        cuts = self.cuts
        return [
            (bisect_right(cuts, counts.first), bisect_right(cuts, counts.last), counts.piece.number)
            for counts in self.gone
            if counts.first
        ]


def find_base(
    kept: KeptOrReason,
    shards: Shards,
    settings: Settings,
    engine: Engine,
    check: str | None,
) -> tuple[Base, str]:
    """The kept work that a run can build on, and why it cannot.

    Empty if it can, or if there is none.

    `check` is how to tell whether a file changed, by `stat` or `content`; None if the run is not
    incremental.
    """
    nothing = Base(changes=Changes({}, list(range(len(shards))), [], []))
    if not isinstance(kept, Kept):
        return nothing, kept or ""
    reason = difference(kept.settings, settings) if check and kept.settings != settings else ""
    if reason or not check:
        # Files that this run does not use stay: if it is interrupted, a run like the last can still
        # use them.
        files = frozenset(file.path for file in kept.files)
        return replace(nothing, files=files, next_piece=kept.next_piece), reason
    if damage := _why_damaged(kept, engine, by_content=check == "content"):
        return nothing, damage
    return _base_of(kept, shards, engine, by_content=check == "content"), ""


def _base_of(kept: Kept, shards: Shards, engine: Engine, *, by_content: bool) -> Base:
    # Fixes are about lines of shards by their paths.
    may_move = kept.settings["fixes"] == "none"
    changes = match_shards(
        shards, kept.shards, by_content=by_content, engine=engine, may_move=may_move
    )
    numbers = {position: number for number, position in changes.unchanged.items()}
    gone = []
    tasks = []
    for task in kept.tasks:
        left = []
        for counts in task.pieces:
            number = numbers.get(counts.piece.shard)
            if number is None:
                gone.append(counts)
            else:
                piece = replace(counts.piece, shard=number, source=shards[number].path)
                left.append(replace(counts, piece=piece))
        if left:
            tasks.append(replace(task, pieces=tuple(left)))
    paths = [shard.path for shard in shards]
    gone_shards = [kept.shards[position] for position in changes.gone]
    return filled(
        Base,
        kept,
        changes=changes,
        # Bad shards were not in the corpus. They have no ranges.
        paths_gone=frozenset(shard.path for shard in gone_shards if shard.ranges).difference(paths),
        tasks=tuple(tasks),
        gone=tuple(gone),
        decompressed={
            numbers[at]: stats for at, stats in kept.decompressed.items() if at in numbers
        },
        is_same=numbers == {number: number for number in range(len(shards))}
        and paths == [shard.path for shard in kept.shards],
        files=frozenset(file.path for file in kept.files),
    )


def slices_of_part(part: Part, removed: tuple[int, ...]) -> list[RunSlice]:
    """A part of the base, with the records that it left out, as slices that can be gathered."""
    slices = []
    if part.columns:
        whole = RunSlice(
            path=part.path,
            index_start=0,
            index_end=part.index_bytes,
            data_start=0,
            data_end=part.written.text_bytes,
            index=part.index,
            is_part=True,
            removed=removed,
            columns=part.columns.path,
        )
        slices.append(whole)
    if part.excluded:
        slices.append(replace(whole_run(part.excluded), removed=removed))
    return slices
