"""Scanning a corpus: list its parts, run one task per part, and collect the results in order.

    parts_of(corpus, manifest) ──▶ one task per part, or per range of parts ──▶ run_in_order ──▶ results

A task reads its parts with `skim_lines` (whole lines in a buffer that is reused) or `decode_lines` (decoded lines).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

import msgspec

from fastrec.corpus.documents import MANIFEST, is_plain
from fastrec.corpus.manifest import KeyEntry, Manifest, PartEntry
from fastrec.engine import jobs_for, make_engine
from fastrec.errors import CorpusError
from fastrec.limits import Limits
from fastrec.schemas.registry import SCHEMAS
from fastrec.sources.lines import MAX_LINE_BYTES, LongLine
from fastrec.sources.shard import shard_at
from fastrec.storage import join

__all__ = ["VERIFY_HINT", "PartFile", "decode_lines", "parts_of", "run_in_order"]

VERIFY_HINT = "`fastrec verify` lists everything that is wrong with a corpus"

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class PartFile(msgspec.Struct, frozen=True):
    """A part of a corpus, and what the manifest says about it."""

    path: str
    entry: PartEntry


def parts_of(corpus: str, manifest: Manifest) -> list[PartFile]:
    """List the parts of a corpus in order.

    Raises:
        CorpusError: The manifest has another schema, or a value that fastrec does not write.
    """
    path = join(corpus, MANIFEST)
    if manifest.schema not in SCHEMAS:
        reason = f"its records have schema {manifest.schema}, but this version of fastrec reads {', '.join(SCHEMAS)}"
        raise CorpusError(path, reason)
    if sorted(manifest.sort_fields) != sorted(KeyEntry.__struct_fields__):
        expected, found = ", ".join(KeyEntry.__struct_fields__), ", ".join(manifest.sort_fields)
        raise CorpusError(path, f"sort_fields must name {expected}, found {found}")
    for part in manifest.parts:
        if not is_plain(part.file):
            raise CorpusError(path, f"names a part outside the corpus: {part.file!r}")
    return [PartFile(join(corpus, part.file), part) for part in manifest.parts]


def run_in_order(
    task: Callable[[Argument], Result], arguments: Sequence[Argument], *, text_bytes: int, jobs: int, limits: Limits
) -> Generator[Result]:
    """Run a task on each argument, and yield the results in the order of the arguments.

    Args:
        task: The function to run, in other processes if that pays for `text_bytes` of text.
        arguments: One argument per task.
        text_bytes: Text that all tasks read.
        jobs: Most processes to use.
        limits: Sets how much text pays for several processes.
    """
    early: dict[int, Result] = {}
    turn = 0
    with make_engine(jobs_for(text_bytes, len(arguments), jobs, limits)) as engine:
        for number, result in engine.run(task, arguments):
            early[number] = result
            while turn in early:
                yield early.pop(turn)
                turn += 1


def decode_lines(
    part: PartFile, decode: Callable[[bytes], Result], chunk_bytes: int
) -> Iterator[tuple[list[Result], int]]:
    """Yield the decoded lines of a part, about `chunk_bytes` of text at a time, and the size of that text.

    Raises:
        ShardError: The part cannot be read completely.
        CorpusError: A line cannot be decoded, or the number of records is not the one in the manifest.
    """
    longest = max(part.entry.text_bytes, MAX_LINE_BYTES)
    count = 0
    for chunk in shard_at(part.path).read(chunk_bytes=chunk_bytes, max_line_bytes=longest):
        if isinstance(chunk, LongLine):
            raise CorpusError(part.path, f"is longer than the {longest:,} bytes of text in this part", chunk.line)
        rows = []
        for number, line in enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.line):
            try:
                rows.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
                reason = f"is not a record in normal form: {exc}; {VERIFY_HINT}"
                raise CorpusError(part.path, reason, number) from exc
        count += len(rows)
        yield rows, len(chunk.data)
    if count != part.entry.records:
        reason = f"has {count:,} records, but the manifest says {part.entry.records:,}; {VERIFY_HINT}"
        raise CorpusError(part.path, reason)
