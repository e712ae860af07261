"""`cat`: print the lines of a corpus in order, byte for byte, all of them or those that match a selection.

1. Turn patterns of names into the names that the summary has (`resolve`).
2. Choose the parts that can hold a matching record, by the first and last keys in the manifest (`select`).
3. Search them. If the matching records are contiguous, or there is little text, this process does it. Otherwise one
   task per part writes what it finds to a file, and the files are copied out in order.

Mostly, only the heads of candidates are decoded, and the head of the last line in each buffer, to see if a match can
follow.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Unpack

import msgspec
from stringzilla import count

from fastrec.commands.cat.resolve import needs_summary, resolve
from fastrec.commands.cat.select import Finder, Selection, SortRange
from fastrec.commands.cat.sources import SourceLabels
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.corpus.line_head import read_head
from fastrec.corpus.scan import VERIFY_HINT, PartFile, parts_of, run_in_order, skim_lines
from fastrec.corpus.sources import need_sources, sources_file
from fastrec.engine import check_jobs, jobs_for
from fastrec.errors import CorpusError, FastrecError, UsageError, shown
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.limits import LIMITS, Limits

__all__ = ["cat", "cat_blocks"]

_SPEED: Final = 4  # searching is 4 times faster than other work on text, so a pool pays only for 4 times as much


def cat(
    corpus: str | os.PathLike[str],
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int = 1,
    limits: Limits = LIMITS,
    **filters: Unpack[FilterArguments],
) -> Iterator[bytes]:
    """Yield the lines of a corpus in order, without newlines: all records, or only those that match every filter.

    Args:
        corpus: A directory that `normalize` published.
        limit: Stop after this many lines.
        source: Yield `{"source": …, "line": …, "record": {…}}` instead: the shard and the line that a record comes
            from, and the record, byte for byte. The corpus needs `normalize --track-sources`.
        jobs: Processes to use if every part has to be searched.
        limits: Sizes of buffers.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, it does not have the sources of its records, or another argument is
            invalid.
        CorpusError: The manifest, a line or a source is not what fastrec writes.
        ShardError: A part cannot be read.
    """
    for block in cat_blocks(corpus, make_filters(**filters), limit=limit, source=source, jobs=jobs, limits=limits):
        yield from block.removesuffix(b"\n").split(b"\n")


def cat_blocks(
    corpus: str | os.PathLike[str],
    filters: Filters,
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int = 1,
    limits: Limits = LIMITS,
) -> Iterator[bytes]:
    """Yield the text of the matching lines in blocks of whole lines; see `cat`."""
    check_jobs(jobs)
    if limit is not None and limit < 1:
        raise UsageError(f"the limit must be at least one line, not {limit}")
    directory = os.fspath(corpus)
    manifest = read_manifest(directory)
    if source:
        need_sources(directory, manifest)
    summary = None
    if needs_summary(filters):
        with contextlib.suppress(FastrecError, OSError):  # without a summary, every line is looked at
            summary = read_summary(directory, manifest)
    selection = resolve(filters, summary)
    if selection is None:
        return iter(())
    wanted = SortRange(selection, manifest.sort_fields)
    tasks = [
        _SearchTask(
            part,
            selection,
            manifest.sort_fields,
            limit,
            limits,
            sources=sources_file(directory, part.entry) if source else "",
        )
        for part in parts_of(directory, manifest)
        if wanted.may_be_in(part.entry)
    ]
    blocks = _search(tasks, 1 if wanted.is_contiguous else jobs, limits)
    return blocks if limit is None else _first_lines(blocks, limit)


class _SearchTask(msgspec.Struct, frozen=True):
    """A part to search."""

    part: PartFile
    selection: Selection
    sort_fields: tuple[str, ...]
    limit: int | None
    """No more lines than this are needed."""
    limits: Limits
    output: str = ""
    """The file for the matching lines, if a worker searches the part."""
    sources: str = ""
    """The file with the sources of the part, if they are wanted."""

    def __str__(self) -> str:
        return f"reading {shown(self.part.path)}"


def _search(tasks: Sequence[_SearchTask], jobs: int, limits: Limits) -> Generator[bytes]:
    """Yield the matching text of parts in order."""
    text_bytes = sum(task.part.entry.text_bytes for task in tasks) // _SPEED
    # With a limit, the first part often has all the lines that are needed.
    alone = jobs_for(text_bytes, len(tasks), jobs, limits) == 1
    here = len(tasks) if alone else int(tasks[0].limit is not None)
    for task in tasks[:here]:
        yield from _matching_text(task)
    if here == len(tasks):
        return
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        rest = [msgspec.structs.replace(task, output=f"{scratch}/{n}") for n, task in enumerate(tasks[here:])]
        with closing(run_in_order(_search_part, rest, text_bytes=text_bytes, jobs=jobs, limits=limits)) as done:
            for task in done:
                yield from _take(task.output, limits.cat_block_bytes)


def _search_part(task: _SearchTask) -> _SearchTask:
    """Write the matching lines of one part to a file. Runs in a worker."""
    with open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        text = _matching_text(task)
        file.writelines(text if task.limit is None else _first_lines(text, task.limit))
    return task


def _take(path: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file, and remove it."""
    with open(path, "rb") as file:  # noqa: PTH123
        while block := file.read(block_bytes) + file.readline():
            yield block
    Path(path).unlink()


def _matching_text(task: _SearchTask) -> Generator[bytes]:
    """Yield the matching lines of one part, whole buffers where every line matches, until no match can follow."""
    wanted, finder = SortRange(task.selection, task.sort_fields), Finder(task.selection)
    labels = SourceLabels(task.sources) if task.sources else None
    for data, end in skim_lines(task.part, task.limits):
        last = data.rfind(b"\n", 0, end - 1) + 1
        try:
            if wanted.is_contiguous and finder.matches(data, 0, end) and finder.matches(data, last, end):
                text = bytes(memoryview(data)[:end])
            else:
                text = b"".join(finder.lines(data, end))
            if labels:
                text = labels.label(data, end, text)
            if text:
                yield text
            if wanted.can_end_early and not wanted.may_follow(read_head(data, last), task.part.entry):
                return
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            reason = f"has a line that is not a record in normal form: {exc}; {VERIFY_HINT}"
            raise CorpusError(task.part.path, reason) from exc


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
