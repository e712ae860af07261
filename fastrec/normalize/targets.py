"""The target: the schema version of a corpus, to which all of its records are upgraded.

With `--schema auto` it follows from the content alone: the default version if every valid record is of that version,
also if there is none; else the newest one. Nobody knows before everything is read, so a run guesses:

1. The target of an interrupted run whose finished work can be reused. Else the one that the first lines of some shards
   give.
2. If the guess is the default version, pass 1 stops at the first later record. If it is the newest version, pass 1 may
   end without any later record. In both cases, the run starts again with the other target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from fastrec.errors import ShardError
from fastrec.filters import Filters
from fastrec.judge.batch import Batch
from fastrec.judge.judge import Judge, SampleHashMode
from fastrec.normalize.options import AUTO, Options
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sources.lines import Chunk
from fastrec.sources.shard import Shard

__all__ = ["WrongTargetError", "guess_target", "has_later", "judge_for", "prepare_judge"]

_VALID_ELSEWHERE: Final = ("version.newer", "hash.mismatch")
"""Codes of lines that follow a schema version, but are rejected: by the target, or by `--sample-hash verify`."""

_PEEKED_SHARDS: Final = 4  # shards whose first lines are read for a guess
_PEEKED_BYTES: Final = 16 << 10  # text that is judged of each of them
_PEEKED_TEXT: Final = 128 << 10  # text that is decompressed at a time
_PEEKED_LINE: Final = 1 << 20  # a first line longer than this is not judged


class WrongTargetError(Exception):
    """The target was guessed wrong: the run has to start again with the other one."""

    def __init__(self, target: Schema) -> None:
        super().__init__(target)
        self.target = target
        """The other target."""

    def __str__(self) -> str:
        if self.target is NEWEST_SCHEMA:
            reason = f"there are records of a later schema version than {DEFAULT_SCHEMA.name}"
        else:
            reason = f"all records are of schema version {DEFAULT_SCHEMA.name}"
        return f"{reason}: starting again with --schema {self.target.name}, which would have saved the time"


def judge_for(target: Schema, options: Options, *, is_auto: bool) -> Judge:
    """Return the judge of this process for a target. What it learns from the first lines serves pass 1, too."""
    repairs = frozenset(options.repair)
    return _judge(
        target.name,
        options.hash_algorithm,
        options.sample_hash,
        repairs,
        options.filters,
        is_auto=is_auto,
        memory=options.known_input_bytes,
    )


@lru_cache(maxsize=4)
def _judge(
    target: str,
    algorithm: str,
    mode: SampleHashMode,
    repairs: frozenset[str],
    filters: Filters,
    *,
    is_auto: bool,
    memory: int,
) -> Judge:
    return Judge(
        target=TARGETS[target],
        algorithm=algorithm,
        sample_hash=mode,
        repairs=repairs,
        is_guess=is_auto,
        known_input_bytes=memory,
        filters=filters,
    )


def has_later(batch: Batch) -> bool:
    """Return whether a chunk has a record of a later version than the default one, whichever target it is judged for.

    A record counts even if its `sample_hash` is the reason to reject it.
    """
    default = DEFAULT_SCHEMA.name
    return any(name != default for name, count in batch.versions.items() if count) or any(
        line.is_later or (line.version != default and line.findings[0].code in _VALID_ELSEWHERE)
        for line in batch.rejected
    )


def guess_target(shards: Sequence[Shard], options: Options) -> Schema:
    """Return the target, or guess it from the first lines of some shards, spread over all of them."""
    if options.schema != AUTO:
        return options.target
    files = [shard for shard in shards if not shard.stream]
    count = min(len(files), _PEEKED_SHARDS)
    # Without filters: what matches is rarely among the first lines, and mostly of the same version as other records.
    judge = judge_for(DEFAULT_SCHEMA, msgspec.structs.replace(options, filters=Filters()), is_auto=True)
    for number in range(count):
        # An unreadable shard is reported when it is read completely.
        with contextlib.suppress(ShardError, OSError, MemoryError):
            if _begins_with_later(files[number * len(files) // count], judge, options):
                return NEWEST_SCHEMA
    return DEFAULT_SCHEMA


def prepare_judge(target: Schema, shards: Sequence[Shard], options: Options) -> None:
    """Make the judge of this process for a target, and let it learn from the first lines of a shard."""
    is_auto = options.schema == AUTO
    judge = judge_for(target, options, is_auto=is_auto)
    first = next((shard for shard in shards if not shard.stream), None)
    if first and not (is_auto and target is DEFAULT_SCHEMA and not options.filters):  # else it has made the guess
        with contextlib.suppress(ShardError, OSError, MemoryError):
            _begins_with_later(first, judge, options)


def _begins_with_later(shard: Shard, judge: Judge, options: Options) -> bool:
    """Return whether the first lines of a shard have a record of a later version than the default one."""
    longest = min(options.max_line_bytes, _PEEKED_LINE)
    chunks = shard.read(
        chunk_bytes=_PEEKED_BYTES,
        max_line_bytes=longest,
        max_window=options.max_window,
        text_bytes=_PEEKED_TEXT,
    )
    first = next(chunks, None)
    del chunks  # closes the file
    return isinstance(first, Chunk) and has_later(judge.judge_chunk(first.data, bytearray()))
