"""A published corpus that is open for reading: each document is read once, when needed."""

import os
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import cached_property
from itertools import accumulate

from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import Manifest, read_manifest, read_summary
from fastrec.corpus.scan import VERIFY_HINT, PartFile, lines_at, parts_of
from fastrec.errors import CorpusError
from fastrec.parameters import AnyPath
from fastrec.storage import is_url, storage_of
from fastrec.summary.document import Summary

_KEPT_COLUMNS = 64  # files whose headers are kept


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
        self.manifest: Manifest = read_manifest(self.path)
        self._columns: OrderedDict[int, PartColumns] = OrderedDict()
        self._lock = threading.Lock()

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
        return [path for path, size in expected.items() if _size_of(path) != size]

    def part_columns(self, part: int) -> PartColumns:
        """The columns of a part."""
        with self._lock:
            if part not in self._columns:
                self._columns[part] = open_columns(self.parts[part])
            self._columns.move_to_end(part)
            if len(self._columns) > _KEPT_COLUMNS:
                self._columns.popitem(last=False)
            return self._columns[part]


def _size_of(path: str) -> int | None:
    try:
        return storage_of(path).size_of(path)
    except OSError:
        return None


def open_columns(part: PartFile) -> PartColumns:
    """Open the columns of a part; CorpusError if they do not have its records."""
    path = part.beside(part.entry.columns.file)
    columns = PartColumns(path, part.entry.text_xxh3_128)
    if columns.records != part.entry.records:
        reason = f"has {columns.records:,} records, but the manifest says {part.entry.records:,}"
        raise CorpusError(path, f"{reason}; {VERIFY_HINT}")
    return columns


def lines_of(part: PartFile, columns: PartColumns, positions: Iterable[int]) -> Generator[bytes]:
    """Yield the lines of a part at some positions, in ascending order, without their newlines."""
    sizes = columns.array("bytes")
    starts = [0, *accumulate(sizes)]
    fingerprints = columns.array("fingerprint")
    places = ((starts[at], sizes[at], fingerprints[at]) for at in positions)
    with closing(lines_at(part, places)) as lines:
        for line in lines:
            yield line[:-1]


def open_corpus(corpus: AnyPath) -> CorpusReader:
    """Open a corpus, unless it is open already."""
    return corpus if isinstance(corpus, CorpusReader) else CorpusReader(corpus)
