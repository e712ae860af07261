"""The reader of zstd frees its memory."""

from __future__ import annotations

import gc
import os

import zstandard

from fastrec.sources.members import RawBytes
from fastrec.sources.zstd_frames import zstd_text

TEXT = b'{"a": "%b"}\n' % os.urandom(200).hex().encode() * 4_000
WINDOW = 64 << 20


def frame(text: bytes, window_log: int = 20) -> bytes:
    """Compress a text, whose size is not declared."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, window_log=window_log, write_checksum=True
    )
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(text) + stream.flush()


def read(data: bytes) -> bytes:
    return b"".join(zstd_text(RawBytes(iter([data]), "shard"), WINDOW))


def test_a_reader_is_no_cycle() -> None:
    """Tasks run without the collector, so a cycle with the buffers of a shard would stay until the
    process ends.
    """
    data = frame(TEXT)
    gc.collect()
    gc.disable()
    try:
        collected = []
        for _ in range(5):
            assert read(data) == TEXT
            collected.append(gc.collect())
        assert 0 in collected, "each time; threads of other tests may have left some, too"
    finally:
        gc.enable()
