"""`cat`: print the lines of a corpus in order, byte for byte: all of them, or those that match.

1. Choose the parts that can hold a matching record, by the first and last keys in the manifest.
2. The columns of a part tell which of its records match (`match_columns`), and where their lines
   are. Only records whose columns do not tell are decoded.
3. If there is little text, this process reads the lines. Otherwise one task per part writes them to
   a file, and the files are copied out in order.
"""

import glob
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from msgspec.structs import replace
from stringzilla import count

from fastrec.corpus.column_filter import match_columns
from fastrec.corpus.manifest import PartEntry
from fastrec.corpus.reader import CorpusReader, lines_of, open_columns, open_corpus
from fastrec.corpus.scan import PartFile, PartTask, run_in_order, skim_lines
from fastrec.corpus.sources import line_begin, need_sources, read_sources
from fastrec.engine import check_jobs, jobs_for
from fastrec.errors import UsageError, naming
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.judge.parse import decoded
from fastrec.limits import current_limits
from fastrec.normalize.inputs import check_fields
from fastrec.parameters import CORES, AnyPath
from fastrec.sources.shard import shard_at

# copying text is 4 times faster than other work on it, so a pool pays only for 4 times as much
_SPEED = 4


def cat(
    corpus: AnyPath,
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int = CORES,
    **filters: Unpack[FilterArguments],
) -> Iterator[bytes]:
    """Yield the lines of a corpus in order, without newlines.

    All records, or only those that match every filter.

    Args:
        corpus: A directory that `normalize` published.
        limit: Stop after this many lines.
        source: Yield `{"source": …, "line": …, "record": {…}}` instead: the shard and the line that
            a record comes from, and the record, byte for byte. The corpus needs `normalize
            --track-sources`.
        jobs: Processes to use if many parts have to be read.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, it does not have the sources of its records, or
            another argument is invalid.
        CorpusError: The manifest, the columns, a line or a source is not what fastrec writes.
        ShardError: A part cannot be read.
    """
    chosen = make_filters(**filters)  # now, so that a misspelled filter is refused at the call
    blocks = cat_blocks(corpus, chosen, limit=limit, source=source, jobs=jobs)
    return (line for block in blocks for line in block.removesuffix(b"\n").split(b"\n"))


def cat_blocks(
    corpus: AnyPath,
    filters: Filters,
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int,
) -> Iterator[bytes]:
    """Yield the text of the matching lines in blocks of whole lines; see `cat`."""
    check_jobs(jobs)
    if limit is not None and limit < 1:
        raise UsageError(f"the limit must be at least one line, not {limit}")
    reader = open_corpus(corpus)
    sort_fields = reader.manifest.sort_fields
    if source:
        need_sources(reader.path, reader.manifest)
    tasks = [
        _CatTask(
            part,
            filters=filters,
            limit=limit,
            with_sources=source,
        )
        for part in reader.parts
        if _may_match(filters, part.entry, sort_fields)
    ]
    by_evaluation = Filters(evaluation=filters.evaluation)
    if not filters or (filters == by_evaluation and sort_fields[0] == "evaluation_name"):
        jobs = 1  # adjacent records are copied faster than by a pool
    blocks = _run(tasks, jobs)
    if filters.where:
        blocks = _with_known_fields(blocks, reader, filters)
    return blocks if limit is None else _first_lines(blocks, limit)


def _may_match(filters: Filters, part: PartEntry, sort_fields: Sequence[str]) -> bool:
    """Whether a part can hold a matching record, by its first and last keys."""
    filtered = {
        "evaluation_name": (filters.accepts_evaluation, filters.evaluation),
        "sample_hash": (filters.accepts_hash, filters.hash),
        "model_id": (filters.accepts_model, filters.model),
    }
    for field in sort_fields:
        accepts, patterns = filtered.get(field, (None, ()))
        first = getattr(part.first, field)
        last = getattr(part.last, field)
        if first != last:
            return not patterns or any(
                glob.has_magic(pattern) or first <= pattern <= last for pattern in patterns
            )
        if accepts and not accepts(first):
            return False
    return True


def _with_known_fields(
    blocks: Generator[bytes], reader: CorpusReader, filters: Filters
) -> Generator[bytes]:
    """Yield all blocks.

    UsageError if there are none because a condition is about a field that no record has.
    """
    parts = [shard_at(part.path) for part in reader.parts]
    check_fields(parts, filters.where, lacks=reader.lacks)
    with closing(blocks):
        first = next(blocks, b"")
        if not first:
            check_fields(parts, filters.where, nothing_matches=True)
            return
        yield first
        yield from blocks


class _CatTask(PartTask, frozen=True):
    filters: Filters
    limit: int | None  # no more lines than this are needed
    with_sources: bool
    output: str = ""  # the file for the matching lines, if a worker reads the part


def _run(tasks: Sequence[_CatTask], jobs: int) -> Generator[bytes]:
    text_bytes = sum(task.part.entry.text_bytes for task in tasks) // _SPEED
    # With a limit, the first part often has all the lines that are needed.
    alone = jobs_for(text_bytes, len(tasks), jobs) == 1
    here = len(tasks) if alone else int(tasks[0].limit is not None)
    for task in tasks[:here]:
        yield from _matching_text(task)
    if here == len(tasks):
        return
    with TemporaryDirectory(prefix="fastrec-") as scratch:
        rest = [replace(task, output=f"{scratch}/{n}") for n, task in enumerate(tasks[here:])]
        with closing(run_in_order(_write_text, rest, text_bytes=text_bytes, jobs=jobs)) as done:
            for task in done:
                with open(task.output, "rb") as file:
                    while block := file.read(current_limits().cat_block_bytes) + file.readline():
                        yield block
                Path(task.output).unlink()


def _write_text(task: _CatTask) -> _CatTask:
    """Write the matching lines of a part to a file. Runs in a worker."""
    with naming(task.output), open(task.output, "wb") as file:
        file.writelines(_matching_text(task))
    return task


def _matching_text(task: _CatTask) -> Generator[bytes]:
    """Yield the matching lines of a part in blocks."""
    part = task.part
    begin = 0
    end = part.entry.text_bytes
    if task.filters or task.with_sources:
        columns = open_columns(part)
        matching = match_columns(columns, task.filters)
        positions = matching.positions
        unsure = frozenset(matching.to_read)
        if unsure or task.with_sources or not _are_adjacent(positions):
            with closing(lines_of(part, columns, positions)) as lines:
                chosen = _matching_lines(task, lines, positions, unsure)
                yield from _joined(islice(chosen, task.limit))
            return
        sizes = columns.array("bytes")
        begin = sum(sizes[: positions[0]])
        end = begin + sum(sizes[positions[0] : positions[-1] + 1])
    yield from _text_between(part, begin, end)


def _are_adjacent(positions: Sequence[int]) -> bool:
    return bool(positions) and positions[-1] - positions[0] < len(positions)


def _text_between(part: PartFile, begin: int, end: int) -> Iterator[bytes]:
    """Yield the text of a part between two places, which is faster than line by line."""
    offset = 0
    with closing(skim_lines(part)) as buffers:
        for data, size in buffers:
            if offset >= end:
                return
            if offset + size > begin:
                yield bytes(memoryview(data)[max(begin - offset, 0) : min(end - offset, size)])
            offset += size


def _matching_lines(
    task: _CatTask, lines: Iterable[bytes], positions: Sequence[int], unsure: frozenset[int]
) -> Iterator[bytes]:
    """Yield those of some lines that match, with their sources if these are wanted."""
    sources = read_sources(task.part, positions) if task.with_sources else repeat(None)
    for position, line, source in zip(positions, lines, sources, strict=False):
        if position in unsure and not task.filters.accepts_fields(decoded(line)):
            continue
        if source is None:
            yield line
        else:
            yield line_begin(source.shard) + b'%d,"record":%b}' % (source.line, line)


def _joined(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines to blocks."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        block += (line, b"\n")
        size += len(line)
        if size >= current_limits().cat_block_bytes:
            yield b"".join(block)
            block.clear()
            size = 0
    if block:
        yield b"".join(block)


def _first_lines(blocks: Generator[bytes], limit: int) -> Generator[bytes]:
    """Yield the first lines of some blocks, then close the generator that they come from."""
    with closing(blocks):
        for block in blocks:
            lines = count(block, b"\n")
            if lines >= limit:
                yield block[: len(block) - len(block.split(b"\n", limit)[limit])]
                return
            limit -= lines
            yield block
