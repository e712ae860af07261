"""Writing shards: the bytes depend on the text alone, and a part is one frame that every decoder
can read.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import pytest
import zstandard
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.writer import ShardWriter, Written
from tests.sizes import LONG, examples

WINDOW = 8 << 20
"""The largest window that every decoder must support."""


def text_of_size(size: int) -> bytes:
    """Text that compresses well: lines drawn from a few."""
    rng = random.Random(7)
    lines = [rng.randbytes(60).hex().encode() + b"\n" for _ in range(2_000)]
    return b"".join(rng.choices(lines, k=size // 121 + 1))[:size]


def written(path: Path, pieces: Iterable[bytes], compression: str, level: int = 3) -> Written:
    with ShardWriter(str(path), compression, level) as writer:
        for piece in pieces:
            writer.write([piece[: len(piece) // 2], memoryview(piece)[len(piece) // 2 :]])
        return writer.finish()


@pytest.mark.each_value
@pytest.mark.parametrize("compression", ["zst", "gz", "none"])
@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (2 << 20) + 17])
def test_bytes_do_not_depend_on_how_the_text_arrives(
    compression: str, size: int, tmp_path: Path
) -> None:
    """All at once, by lines, by window: the same file and checksums."""
    text = text_of_size(size)
    ways = [
        [text],
        text.splitlines(keepends=True),
        [text[start : start + 700_001] for start in range(0, size, 700_001)],
    ]
    results = [written(tmp_path / str(number), way, compression) for number, way in enumerate(ways)]
    data = (tmp_path / "0").read_bytes()
    assert {(tmp_path / str(number)).read_bytes() for number in range(3)} == {data}
    assert set(results) == {
        Written(len(data), sha256(data).hexdigest(), size, xxh3_128_hexdigest(text))
    }
    plain = {
        "zst": lambda: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        "gz": lambda: gzip.decompress(data),
    }
    assert plain.get(compression, lambda: data)() == text


@pytest.mark.parametrize("level", [-7, 1, 2, 3, 4, 9, 19] if LONG else [-7, 3, 4, 19])
def test_a_part_is_one_frame_with_a_small_window_and_a_checksum(level: int, tmp_path: Path) -> None:
    """Whatever the level: naive readers stop after the first frame, and decoders may refuse windows
    over 8 MiB.
    """
    text = text_of_size(WINDOW + (1 << 20) if level < 4 else examples(1 << 18, 1 << 20))
    written(tmp_path / "part", [text], "zst", level)
    data = (tmp_path / "part").read_bytes()
    header = zstandard.get_frame_parameters(data)
    assert header.window_size <= WINDOW
    assert header.has_checksum
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    assert reader.decompress(data) == text
    assert reader.eof
    assert not reader.unused_data


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    """A writer that is not finished leaves no file."""
    with pytest.raises(ZeroDivisionError), ShardWriter(str(tmp_path / "part"), "zst", 3) as writer:
        writer.write([text_of_size(3 << 20)])
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_writers_at_the_same_time_and_one_after_the_other_write_the_same_bytes(
    tmp_path: Path,
) -> None:
    """A compressor is used again only after its stream has ended."""
    texts = [b'{"number": %d}\n' % number for number in range(20_000)]
    with ShardWriter(str(tmp_path / "alone"), "zst", 3) as alone:
        alone.write(texts)
        alone.finish()
    with (
        ShardWriter(str(tmp_path / "one"), "zst", 3) as one,
        ShardWriter(str(tmp_path / "two"), "zst", 3) as two,
    ):
        for start in range(0, len(texts), 1_000):
            one.write(texts[start : start + 1_000])
            two.write(reversed(texts[start : start + 1_000]))
        one.finish()
        two.finish()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "alone").read_bytes()
    assert (tmp_path / "two").read_bytes() != (tmp_path / "alone").read_bytes()
