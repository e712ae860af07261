"""Decompressors of zstd are used again, whatever happened to the shard before."""

from __future__ import annotations

import gc
import os

import pytest
import zstandard

from fastrec.errors import ShardCorruptError, ShardTruncatedError
from fastrec.sources import zstd_frames
from fastrec.sources.members import RawBytes
from fastrec.sources.zstd_frames import zstd_text

TEXT = b'{"a": "%b"}\n' % os.urandom(200).hex().encode() * 4_000
WINDOW = 64 << 20


@pytest.fixture(autouse=True)
def _no_idle_decompressors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd_frames, "_idle_decompressors", {})


def frame(text: bytes, window_log: int = 20) -> bytes:
    """Compress a text, whose size is not declared."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3, window_log=window_log, write_checksum=True
    )
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(text) + stream.flush()


def read(data: bytes) -> bytes:
    return b"".join(zstd_text(RawBytes(iter([data]), "shard"), WINDOW))


def test_a_decompressor_is_used_again() -> None:
    """After a whole shard, a corrupt one, a truncated one, and one that was not read to its end."""
    good = frame(TEXT)
    assert read(good) == TEXT
    (kept,) = zstd_frames._idle_decompressors.values()
    corrupt = bytearray(good)
    corrupt[-1] ^= 1  # the checksum
    with pytest.raises(ShardCorruptError):
        read(bytes(corrupt))
    with pytest.raises(ShardTruncatedError):
        read(good[: len(good) // 2])
    unfinished = zstd_text(RawBytes(iter([good]), "shard"), WINDOW, text_bytes=128 << 10)
    assert TEXT.startswith(next(unfinished))
    unfinished.close()
    assert read(good + good) == TEXT * 2
    assert list(zstd_frames._idle_decompressors.values()) == [kept]


def test_two_readers_do_not_share_a_decompressor() -> None:
    """Shards that are read in turns have one each, and one of them is kept."""
    texts = [TEXT, TEXT.upper()]
    readers = [
        zstd_text(RawBytes(iter([frame(text)]), "shard"), WINDOW, text_bytes=128 << 10)
        for text in texts
    ]
    found = [b"", b""]
    for _ in range(len(TEXT)):
        blocks = [next(reader, b"") for reader in readers]
        found = [before + block for before, block in zip(found, blocks, strict=True)]
        if not any(blocks):
            break
    assert found == texts
    assert len(zstd_frames._idle_decompressors) == 1


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


@pytest.mark.parametrize(("window_log", "kept"), [(23, 1), (24, 0)])
def test_a_large_window_is_not_kept(window_log: int, kept: int) -> None:
    """The memory of a decompressor is as large as the largest window that it has seen."""
    assert read(frame(TEXT) + frame(TEXT, window_log)) == TEXT * 2
    assert len(zstd_frames._idle_decompressors) == kept
