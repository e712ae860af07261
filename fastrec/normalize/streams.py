"""Streams: standard input and pipes, which can be read only once.

While the target may change, pass 1 may have to start again. So the driver reads streams itself, and keeps their chunks
in files until the target is certain. A second reading takes the chunks from these files, and continues with the rest of
the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fastrec.errors import ShardError
from fastrec.normalize.options import Options
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard
from fastrec.storage import storage_of

__all__ = ["Streams", "read_chunks"]


def read_chunks(shard: Shard, options: Options, stats: ReadStats) -> Iterator[Chunk | LongLine]:
    """Read a shard in chunks that are tasks of their own."""
    return shard.read(
        chunk_bytes=options.limits.decompressed_chunk_bytes,
        max_line_bytes=options.max_line_bytes,
        max_window=options.max_window,
        stats=stats,
    )


class _KeptChunk(NamedTuple):
    path: str
    offset: int
    line: int


class _Stream:
    """A stream, what was read of it, and the rest."""

    def __init__(self, shard: Shard, options: Options) -> None:
        self.stats = ReadStats()
        self.read: list[_KeptChunk | LongLine] = []
        self.rest = read_chunks(shard, options, self.stats)
        self.error: ShardError | None = None


class Streams:
    """The streams of a run."""

    def __init__(self, *, kept: bool = False) -> None:
        """With `kept`, streams can be read again until `release` is called."""
        self.kept = kept
        self._streams: dict[int, _Stream] = {}
        self._finished: dict[str, bool] = {}  # files of chunks, and whether their tasks are finished

    def open(self, number: int, shard: Shard, options: Options) -> ReadStats:
        """Open a stream, unless it is open; return the statistics of reading it."""
        if number not in self._streams:
            self._streams[number] = _Stream(shard, options)
        return self._streams[number].stats

    def chunks(self, number: int) -> Iterator[Chunk | LongLine]:
        """Read an open stream: what was read before, then the rest. Each chunk of the rest has to be kept (`keep`)."""
        stream = self._streams[number]
        self._finished.update(dict.fromkeys((one.path for one in stream.read if isinstance(one, _KeptChunk)), False))
        for one in tuple(stream.read):
            if isinstance(one, LongLine):
                yield one
            else:  # the first byte of the file is not part of the chunk
                yield Chunk(storage_of(one.path).read_all(one.path)[1:], one.offset, one.line)
        try:
            for chunk in stream.rest:
                if self.kept and isinstance(chunk, LongLine):
                    stream.read.append(chunk)
                yield chunk
        except ShardError as exc:
            stream.error = exc
        if stream.error:
            raise stream.error

    def keep(self, number: int, chunk: Chunk, path: str) -> None:
        """Remember the file of a chunk, if it is of a stream that may be read again."""
        if self.kept and number in self._streams and path not in self._finished:
            self._finished[path] = False
            self._streams[number].read.append(_KeptChunk(path, chunk.offset, chunk.line))

    def files(self) -> set[str]:
        """Return the paths of all chunks that are kept."""
        return set(self._finished)

    def finish(self, paths: Iterable[str]) -> list[str]:
        """Return which of the files of a finished task are not needed any more."""
        for path in self._finished.keys() & paths:
            self._finished[path] = True
        return [path for path in paths if path not in self._finished]

    def release(self) -> list[str]:
        """Keep chunks no longer; return the files of finished tasks, which are not needed any more."""
        done = [path for path, is_finished in self._finished.items() if is_finished]
        self.kept = False
        self._finished = {}
        for stream in self._streams.values():
            stream.read = []
        return done
