"""The input of a run: find the shards, and read streams.

Logs of a harness are refused, with advice.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any

import msgspec

from fastrec.errors import (
    BadShardsError,
    ForeignFormatError,
    NoMatchError,
    ShardError,
    UsageError,
    arguments,
    counted,
    listed,
    shown,
)
from fastrec.normalize.results import Piece
from fastrec.schemas.registry import SCHEMAS, fields_of
from fastrec.schemas.view import REFUSALS
from fastrec.sources.formats import why_foreign
from fastrec.sources.inputs import find_files, find_shards, walk
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Shards
from fastrec.storage import is_url, join
from fastrec.where import FieldPath, parse_condition, paths_of, spell_path, unknown_field

_MOST_FILES = 100  # looked at to tell what they are
_PEEKED_SHARDS = 64  # to find the names of fields
_PEEKED_TEXT = 64 << 10
_MISSPELT = 0.85  # similarity to a known field, from which a field is taken for misspelt
_MOST_BESIDE = 300  # files that are no shards, looked at to tell whether they are logs
# Telling the others takes 70 ms to import harnesses.
_OWN = ("manifest.json", "summary.json", "import.json")
# Keys of harnesses that write JSON lines: each line has one of them.
_MARKS = (b'"doc_id"', b'"spec"', b'"question_id"')


def find_records(
    paths: Sequence[str], *, files_from: str | None = None
) -> tuple[list[Shard], list[str]]:
    """Find shards as `find_shards` does.

    UsageError if they are logs: all of their lines would be rejected.
    """
    try:
        shards, notices = find_shards(paths, files_from=files_from)
    except UsageError as exc:
        if "cannot be found" in str(exc):  # what else is there does not explain it
            raise
        harness, foreign = _found_instead(paths)
        if harness:
            raise _these_are_logs(harness, paths) from exc
        if foreign:
            raise UsageError(f"{exc}\n{foreign}") from exc
        raise
    # In a store, another request for each shard would cost more than it is worth.
    local = [shard for shard in shards if not shard.stream and not is_url(shard.path)]
    logs = {shard.path: harness for shard in local if (harness := _harness_of(shard))}
    named = [path for path in logs if path in paths or files_from]
    if logs and (named or len(logs) == len(shards)):
        raise _these_are_logs(next(iter(logs.values())), named or paths)
    others = _logs_beside(paths, {shard.path for shard in shards})
    if logs or others:
        unread = [*logs, *others]
        notices.append(
            f"{counted(unread, 'file')} not read, logs of a harness: "
            f"{listed(map(shown, unread), 3)}; "
            f"for them: fastrec import {arguments(paths)} -o records"
        )
    return [shard for shard in shards if shard.path not in logs], notices


def _logs_beside(paths: Sequence[str], known: Collection[str]) -> list[str]:
    """Find files of harnesses that are no shards in directories.

    Only so many files are looked at.
    """
    from fastrec.harnesses.recognise import harness_of  # noqa: PLC0415 - takes a millisecond

    directories = [path for path in paths if os.path.isdir(path)]
    folders = chain.from_iterable(walk(path, []) for path in directories)
    files = (join(folder, name) for folder, names in folders for name in names if name not in _OWN)
    others = (file for file in files if ".jsonl" not in file and file not in known)
    first = islice(others, _MOST_BESIDE)
    return [file for file in first if os.path.isfile(file) and harness_of(file)]


def check_fields(
    shards: Shards,
    conditions: Sequence[str],
    paths: Iterable[FieldPath] = (),
    *,
    lacks: Callable[[str], bool] | None = None,
    nothing_matches: bool = False,
) -> None:
    """Raise a NoMatchError if a condition or a path is about a field that no record has.

    The columns of a corpus tell which keys of metadata it `lacks`. Any other field may be rare, so
    one that the first lines lack is an error only if nothing matches, if it is spelled almost like
    a known one, or if it is the end of one. A negated condition would match everything, so it is
    refused at once.
    """
    parsed = list(map(parse_condition, conditions))
    asked = [*(condition.path for condition in parsed), *paths]
    if not asked:
        return
    certain = {condition.path for condition in parsed if condition.negated or nothing_matches}
    known = set(fields_of(schema.shape for schema in SCHEMAS.values()))
    doubtful = [path for path in asked if unknown_field([path], known)]
    for path in doubtful:
        if path[0] == "metadata" and lacks and not lacks(path[1]):
            known.add(path)
    if unknown_field(doubtful, known) is None:
        return
    known |= {path for record in _first_records(shards) for path in paths_of(record)}
    names = list(map(spell_path, known))
    ends = {path[-1] for path in known}
    for path in doubtful:
        is_told = lacks and (
            path[0] == "metadata"
            or path[-1] in ends
            or get_close_matches(spell_path(path), names, 1, _MISSPELT)
        )
        if (is_told or path in certain) and (mistake := unknown_field([path], known)):
            raise NoMatchError(mistake)


def spread(shards: Shards, most: int) -> list[Shard]:
    """A few shards, spread over all of them, without streams."""
    files = [shard for shard in shards if not shard.stream]
    count = min(len(files), most)
    return [files[number * len(files) // count] for number in range(count)]


def _first_records(shards: Shards) -> Iterator[Any]:
    """Decode the first lines of a few shards."""
    for shard in spread(shards, _PEEKED_SHARDS):
        with suppress(
            ShardError, OSError, MemoryError
        ):  # what cannot be read is reported in pass 1
            chunk = next(shard.read(chunk_bytes=_PEEKED_TEXT), None)
            for line in chunk.data.split(b"\n") if isinstance(chunk, Chunk) else ():
                with suppress(*REFUSALS):
                    yield msgspec.json.decode(line)


def _these_are_logs(harness: str, paths: Sequence[str]) -> UsageError:
    named = arguments(paths)
    return UsageError(
        f"these are {harness} logs, not records: {named}\n"
        f"Turn them into records first: fastrec import {named} -o records"
    )


def _harness_of(shard: Shard) -> str | None:
    """The harness that wrote a file; None if it may be a shard. Most shards cost one small read."""
    from fastrec.harnesses.recognise import harness_of, head_of  # noqa: PLC0415 - takes a millisecond

    try:
        if ".jsonl" in shard.path:
            line = head_of(shard.path).lstrip().partition(b"\n")[0]
            if not any(mark in line for mark in _MARKS):
                return None
    except (OSError, ShardError):
        return None  # reading the shard will report the error
    return harness_of(shard.path)


def _found_instead(paths: Sequence[str]) -> tuple[str | None, str]:
    """The harness whose logs are there instead of shards.

    Else a sentence about a file of another format.
    """
    from fastrec.harnesses.recognise import harness_of, head_of  # noqa: PLC0415 - only for input that is wrong

    foreign = (0, "")  # the largest file says most about a directory
    with suppress(UsageError, OSError, ShardError):
        for file in find_files(paths)[:_MOST_FILES]:
            if harness := harness_of(file.path):
                return harness, ""
            if file.size > foreign[0] and (reason := why_foreign(head_of(file.path), file.path)):
                foreign = file.size, f"{shown(file.path)} {reason}"
    return None, foreign[1]


def check_formats(shards: Shards) -> None:
    """Refuse files that are not JSON Lines, before any work is done.

    This looks at some files only: at the first one, and at those that are not named *.jsonl*.
    Reading finds the others.
    """
    files = [shard for shard in shards if not shard.stream and not is_url(shard.path)]
    wanted = [
        shard for number, shard in enumerate(files) if not number or ".jsonl" not in shard.path
    ][:_MOST_FILES]
    errors = []
    for shard in wanted:
        try:
            next(shard.read(chunk_bytes=_PEEKED_TEXT, text_bytes=_PEEKED_TEXT), None)
        except ForeignFormatError as exc:
            errors.append(exc)
        except (ShardError, MemoryError):
            pass  # reading the shard will report the error
    if errors:
        raise errors[0] if len(errors) == 1 else BadShardsError(errors)


class Decompressed(msgspec.Struct):
    """A shard that the driver reads from front to back."""

    chunks: Iterator[Chunk | LongLine]  # that were not read yet
    stats: ReadStats
    count: int = 0  # of chunks that became pieces
    long_lines: list[LongLine] = []  # after the last one
    pieces: list[Piece] = []  # of a stream that may be read again
    error: ShardError | None = None


class Streams(msgspec.Struct):
    """Standard input and pipes, which can be read only once; a run may have to start again.

    While it may, their chunks stay in files. A second reading takes the pieces of these files, and
    continues with the rest of the stream.
    """

    kept: bool = False  # whether further chunks stay
    opened: dict[int, Decompressed] = {}  # by number of the shard

    @property
    def files(self) -> set[str]:
        """The files of chunks that stay."""
        opened = self.opened.values()
        return {piece.slice.shard.path for stream in opened for piece in stream.pieces}
