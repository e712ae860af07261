"""Writing a compressed, checksummed shard: the same text always gives the same bytes.

So everything that influences the bytes is fixed: one thread, no declared size, no time or name in a
header. The compressor gets the text in steps of one size, however it arrives.
"""

import zlib
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Self

import zstandard
from msgspec import Struct
from xxhash import xxh3_128

from fastrec.errors import ShardError
from fastrec.sources.shard import Shard
from fastrec.storage import open_reader, storage_of

SUFFIXES = {"zst": ".jsonl.zst", "gz": ".jsonl.gz", "none": ".jsonl"}
COMPRESSIONS = tuple(SUFFIXES)

_STEP = 1 << 20
# 8 MiB, which every decoder must support (RFC 8878, 3.1.1.1.2). In a sorted corpus, all answers to
# a question are adjacent. A window four times that of level 3 makes corpora 0 to 6 % smaller (long
# transcripts most), and compressing up to 13 % slower.
_WINDOW_LOG = 23
# By level, parameters that differ from those of zstd. At level 3, it looks up two hashes of most
# positions. With half of the entries for the longer one, both tables take 512 instead of 768 KiB,
# and more of them stays in the cache: on five corpora 8 to 15 % faster, for 0.3 to 2.3 % more
# bytes. Six bytes for the shorter hash, not five, save 0.4 to 1 %.
#
# One call for a whole part would gain another 15 %, because a stream is copied to a ring buffer,
# but needs all of its text in memory. The threads of zstd compress whole jobs, too, but each job
# reads the end of the one before again. With jobs of 8 MiB this gains 4 %, for 2 % more bytes and
# 24 MiB more memory per process. Smaller jobs gain nothing.
_TUNED = {3: {"hash_log": 16, "chain_log": 16, "min_match": 6}}
_GZIP = 31  # wbits: the largest window, in a gzip member without name and time


class Written(Struct, frozen=True):
    bytes: int
    sha256: str
    text_bytes: int
    text_xxh3_128: str


class ShardWriter:
    """Writes text to a new file.

    The file appears, complete and synced, when `finish` returns; a context manager.

    Without `synced`, whoever publishes it has to sync it.
    """

    def __init__(self, path: str, compression: str, level: int, *, synced: bool = True) -> None:
        self._file = storage_of(path).create(path, synced=synced)
        self._compress, self._flush = _compressor(compression, level)
        self._file_hash = sha256()
        self._text_hash = xxh3_128()
        self._bytes = self._text_bytes = 0
        self._waiting: list[Any] = []
        self._waiting_bytes = 0

    def write(self, texts: Iterable[bytes | memoryview]) -> None:
        waiting = self._waiting
        size = self._waiting_bytes
        for text in texts:
            waiting.append(text)
            size += len(text)
            if (
                size >= _STEP
            ):  # joined in steps, the text is still in the cache when it is hashed and compressed
                view = memoryview(b"".join(waiting))
                whole = size - size % _STEP
                for start in range(0, whole, _STEP):
                    self._put(view[start : start + _STEP])
                waiting = [view[whole:]]
                size -= whole
        self._waiting = [b"".join(waiting)]
        self._waiting_bytes = size

    def _put(self, text: memoryview) -> None:
        self._text_hash.update(text)
        self._text_bytes += len(text)
        self._store(self._compress(text))

    def _store(self, data: bytes) -> None:
        self._file_hash.update(data)
        self._bytes += len(data)
        self._file.write(data)

    def finish(self) -> Written:
        """Write what is left, and make the file visible."""
        self._put(memoryview(b"".join(self._waiting)))
        self._store(self._flush())
        self._file.finish()
        return Written(
            self._bytes, self._file_hash.hexdigest(), self._text_bytes, self._text_hash.hexdigest()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.give_up()


class NotACopyError(Exception):
    """The text is not that of the part to be copied: it has to be compressed."""


class ShardCopier(ShardWriter):
    """Writes text that is already there, as a part of another corpus, by copying its file.

    `raw_hash` is the 128-bit xxh3 of the file as it was read. If the text `is_known` to be the
    same, it is not written.
    """

    def __init__(
        self, path: str, source: Shard, raw_hash: str, *, is_known: bool, synced: bool = True
    ) -> None:
        super().__init__(path, "none", 0, synced=synced)
        self._source = source
        self._raw_hash = raw_hash
        self._is_known = is_known

    def _store(self, data: bytes) -> None:
        """Do nothing: the text only has to be compared."""

    def finish(self) -> Written:
        """Copy the file.

        NotACopyError if its text is another one, ShardError if it is not the file that was read.
        """
        self._put(memoryview(b"".join(self._waiting)))
        listed = self._source.listed
        digest = xxh3_128()
        if not listed or (
            not self._is_known and self._text_hash.hexdigest() != listed.text_xxh3_128
        ):
            raise NotACopyError
        with open_reader(self._source.path) as source:
            while block := source.read(_STEP):
                digest.update(
                    block
                )  # its SHA-256, which takes far longer, was compared when it was read
                self._file.write(block)
        if digest.hexdigest() != self._raw_hash:
            raise ShardError(
                self._source.path,
                "changed while it was read: wait until it is complete, and run again",
            )
        self._file.finish()
        return Written(listed.bytes, listed.sha256, listed.text_bytes, listed.text_xxh3_128)


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    from_level = zstandard.ZstdCompressionParameters.from_level
    window_log = max(from_level(level).window_log, _WINDOW_LOG)
    parameters = from_level(
        level, window_log=window_log, threads=0, write_checksum=True, **_TUNED.get(level, {})
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def _compressor(compression: str, level: int) -> tuple[Callable[[Any], bytes], Callable[[], bytes]]:
    if compression == "zst":
        stream = _zstd_compressor(level).compressobj()
        return stream.compress, stream.flush
    if compression == "gz":
        member = zlib.compressobj(min(level, 9), zlib.DEFLATED, _GZIP)
        return member.compress, member.flush
    return bytes, bytes
