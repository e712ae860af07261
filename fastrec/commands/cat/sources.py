"""`cat --source`: print each record with the shard and the line that it comes from."""

from __future__ import annotations

from itertools import islice

from fastrec.corpus.scan import VERIFY_HINT
from fastrec.corpus.sources import decode_source, line_begin, source_lines
from fastrec.errors import CorpusError

__all__ = ["SourceLabels"]


class SourceLabels:
    """Adds their sources to the matching lines of a part, buffer by buffer."""

    def __init__(self, path: str) -> None:
        """Read the sources of a part from the file at `path`."""
        self._path = path
        self._sources = source_lines(path)
        self._done = 0  # records in the buffers before

    def label(self, data: bytearray, end: int, text: bytes) -> bytes:
        """Return the matching lines of the next buffer with their sources; `text` has these lines, without others.

        No two lines of a part are the same, so a line is found in the buffer by its text.
        """
        records = data.count(b"\n", 0, end)
        sources = list(islice(self._sources, records))
        if len(sources) < records:
            raise CorpusError(self._path, f"has fewer lines than its part has records; {VERIFY_HINT}")
        first, self._done = self._done, self._done + records
        if not text:
            return b""
        lines = enumerate(bytes(memoryview(data)[:end]).split(b"\n"))
        labelled = []
        for wanted in text.removesuffix(b"\n").split(b"\n"):
            at = next(at for at, line in lines if line == wanted)
            source = decode_source(self._path, first + at + 1, sources[at])
            labelled.append(line_begin(source.shard) + b'%d,"record":%b}\n' % (source.line, wanted))
        return b"".join(labelled)
