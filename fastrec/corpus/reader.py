"""A published corpus that is open for reading: each document is read once, when needed."""

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from functools import cached_property, lru_cache
from itertools import accumulate

from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import read_manifest, read_summary
from fastrec.corpus.scan import VERIFY_HINT, PartFile, decoding, parts_of, skim_lines
from fastrec.errors import CorpusError
from fastrec.filters import Filters
from fastrec.judge.parse import decoded
from fastrec.parameters import AnyPath
from fastrec.storage import fingerprint, is_url
from fastrec.storage.local import LOCAL
from fastrec.summary.document import Summary

_KEPT_COLUMNS = 512  # files whose beginnings are kept, 64 KB each


class CorpusReader(os.PathLike[str]):
    """The documents of a corpus. Functions take it in the place of a path.

    May be used by several threads.

    It stays what it was when it was opened: a corpus that takes its place has to be opened again.
    """

    def __init__(self, corpus: AnyPath) -> None:
        """Open a corpus.

        Raises:
            UsageError: The directory is not a corpus.
            CorpusError: The manifest is damaged.
        """
        self.path = os.fspath(corpus)
        self.manifest = read_manifest(self.path)
        self._open_columns = lru_cache(_KEPT_COLUMNS)(lambda part: open_columns(self.parts[part]))

    def __fspath__(self) -> str:
        return self.path

    @cached_property
    def summary(self) -> Summary:
        """The document `summary.json`."""
        return read_summary(self.path, self.manifest)

    @cached_property
    def parts(self) -> list[PartFile]:
        """The parts in order, each with its path and its entry of the manifest."""
        return parts_of(self.path, self.manifest)

    def lacks(self, key: str) -> bool:
        """Whether no record has a key of metadata."""
        return all(self.part_columns(number).lacks(key) for number in range(len(self.parts)))

    def damaged_files(self) -> list[str]:
        """Parts and columns that are missing or cut, as far as their sizes tell.

        An object of a store cannot be cut, and asking for each would take long.
        """
        if is_url(self.path):
            return []
        expected = {}
        for part in self.parts:
            expected[part.path] = part.entry.bytes
            expected[part.beside(part.entry.columns.file)] = part.entry.columns.bytes
        return [
            path
            for path, size in expected.items()
            if not LOCAL.exists(path) or LOCAL.size_of(path) != size
        ]

    def part_columns(self, part: int) -> PartColumns:
        """The columns of a part."""
        return self._open_columns(part)


def open_columns(part: PartFile) -> PartColumns:
    """Open the columns of a part; CorpusError if they do not have its records."""
    path = part.beside(part.entry.columns.file)
    columns = PartColumns(path, part.entry.text_xxh3_128)
    if columns.records != part.entry.records:
        reason = f"has {columns.records:,} records, but the manifest says {part.entry.records:,}"
        raise CorpusError(path, f"{reason}; {VERIFY_HINT}")
    return columns


def lines_of(part: PartFile, columns: PartColumns, positions: Iterable[int]) -> Generator[bytes]:
    """Yield the lines of a part at some positions, in ascending order, without their newlines.

    Raises:
        CorpusError: The part has another line there.
    """
    sizes = columns.array("bytes")
    ends = list(accumulate(sizes))
    fingerprints = columns.array("fingerprint")
    offset = size = 0  # of the buffer
    buffer: bytes | bytearray = b""
    with closing(skim_lines(part)) as buffers:
        for position in positions:
            while ends[position] > offset + size:
                offset += size
                buffer, size = next(buffers, (buffer, 0))
                if not size:
                    break
            end = ends[position] - offset
            line = bytes(memoryview(buffer)[max(end - sizes[position], 0) : end])
            if fingerprint(line) != fingerprints[position]:
                begin = ends[position] - sizes[position]
                reason = f"does not have the line that its columns describe, at byte {begin:,}"
                raise CorpusError(part.path, f"{reason} of its text; {VERIFY_HINT}")
            yield line[:-1]


def unmatched(
    part: PartFile, columns: PartColumns, positions: Sequence[int], filters: Filters
) -> list[int]:
    """Which of some records of a part a condition of filters refuses, by their lines."""
    with decoding(part):
        return [
            position
            for position, line in zip(positions, lines_of(part, columns, positions), strict=True)
            if not filters.accepts_fields(decoded(line))
        ]


def open_corpus(corpus: AnyPath) -> CorpusReader:
    """Open a corpus, unless it is open already."""
    return corpus if isinstance(corpus, CorpusReader) else CorpusReader(corpus)
