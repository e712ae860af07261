"""What every format has in common: the order to a worker, and the lines of a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from fastrec.errors import CorpusError, shown
from fastrec.sources.lines import MAX_LINE_BYTES, LongLine
from fastrec.sources.reader import read_shard, shard_at

__all__ = ["PartToExport", "decoded_chunks"]

Decoded = TypeVar("Decoded")


class PartToExport(msgspec.Struct, frozen=True):
    """What a worker is told."""

    path: str
    text_bytes: int
    records: int
    into: str
    """The file to write."""

    def __str__(self) -> str:
        return f"exporting {shown(self.path)}"


def decoded_chunks(
    part: PartToExport, decode: Callable[[bytes], Decoded], chunk_bytes: int
) -> Iterator[tuple[list[Decoded], int]]:
    """Give the decoded lines of a part, about so many bytes at a time, and how many these were.

    Raises:
        ShardError: The part cannot be read whole.
        CorpusError: It holds what fastrec does not write, or not as many records as the manifest says.
    """
    longest = max(part.text_bytes, MAX_LINE_BYTES)
    count = 0
    for chunk in read_shard(shard_at(part.path), chunk_bytes=chunk_bytes, max_line_bytes=longest):
        if isinstance(chunk, LongLine):
            raise CorpusError(part.path, f"is longer than the {longest:,} bytes of text in this part", chunk.line)
        rows = []
        for number, line in enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.line):
            try:
                rows.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
                raise CorpusError(
                    part.path, f"is not what fastrec writes: {exc}; fastrec verify tells more", number
                ) from exc
        count += len(rows)
        yield rows, len(chunk.data)
    if count != part.records:
        reason = f"has {count:,} records, and the manifest says {part.records:,}; fastrec verify tells more"
        raise CorpusError(part.path, reason)
