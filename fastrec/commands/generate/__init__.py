"""Synthetic corpora from a seed: any size, every spelling, every flaw, the same text everywhere.

    words → prose → questions ─┐
    dice  →       producers  ──┼─▶ records ─▶ twists, flaws ─▶ stream ─▶ shards on disk (here)

`labelled_lines` says of each line what it is, so a test knows what a run must find. The *text* is promised:
same recipe, same bytes, on every platform and Python. Compressed bytes may change with the version
of zstd or zlib.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import zstandard

from fastrec.commands.generate.stream import Recipe, labelled_lines, lines
from fastrec.errors import UsageError

__all__ = ["COMPRESSIONS", "Generated", "Recipe", "generate", "labelled_lines", "lines"]

COMPRESSIONS: Final = ("zst", "gz", "none", "mixed")
MIXED: Final = ("none", "zst", "gz")
# A frame holds about this much text: its size can be declared without keeping a whole shard in memory.
FRAME_BYTES: Final = 4 << 20
GZIP_LEVEL: Final = 1  # three times as fast as 6: benchmarks wait for it

Pack = Callable[[bytes], bytes]


class Generated(msgspec.Struct, frozen=True):
    """What was written: the shards in order, all lines, the bytes of text and of files, the lines by kind."""

    paths: tuple[str, ...]
    lines: int
    text_bytes: int
    file_bytes: int
    kinds: dict[str, int]


def generate(
    output: str | Path,
    *,
    records: int = 10_000,
    seed: int = 0,
    shards: int = 8,
    compression: str = "zst",
    duplicates: float = 0.0,
    conflicts: float = 0.0,
    unknown_keys: float = 0.0,
    rejects: float = 0.0,
    blanks: float = 0.0,
    warnings: float = 0.0,
    mix: str = "mixed",
) -> Generated:
    """Write a synthetic corpus into the directory `output`, which must be empty or not exist.

    The lines are those of `labelled_lines` for the same recipe, cut into even shards. The second shard has
    CRLF line ends, the third begins with a byte order mark and the fourth lacks its last newline, as far as
    there are so many.

    Args:
        output: the directory; shards are called `shard-00000.jsonl`, with `.zst` or `.gz` as needed.
        records: how many lines, of all kinds.
        seed: another seed, another corpus.
        shards: how many files.
        compression: `zst`, `gz`, `none`, or `mixed` for all three in turn.
        duplicates: share of lines that repeat a record, in the same bytes or in another spelling.
        conflicts: share of lines with the identity of another record and other content.
        unknown_keys: share of records with keys that the schema does not name.
        rejects: share of lines that are not valid, of all codes in turn.
        blanks: share of blank lines.
        warnings: share of records with something to warn about, of all warnings in turn.
        mix: `mixed` interaction types, or all `single_turn`, or all `agentic`.

    Raises:
        UsageError: an argument makes no sense, or the directory is not empty.
    """
    recipe = Recipe(
        records=records,
        seed=seed,
        duplicates=duplicates,
        conflicts=conflicts,
        unknown_keys=unknown_keys,
        rejects=rejects,
        blanks=blanks,
        warnings=warnings,
        mix=mix,
    )
    if shards < 1:
        raise UsageError("there must be at least one shard")
    if compression not in COMPRESSIONS:
        raise UsageError(f"compression is one of {', '.join(COMPRESSIONS)}, not {compression!r}")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory: give another output")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: stale shards would mix with the new ones; give another output")
    formats = MIXED if compression == "mixed" else (compression,)
    kinds: Counter[str] = Counter()
    stream = _counted(labelled_lines(recipe), kinds)
    paths, text_bytes, file_bytes = [], 0, 0
    for number in range(shards):
        count = records * (number + 1) // shards - records * number // shards
        suffix, pack = _PACKERS[formats[number % len(formats)]]
        path = folder / f"shard-{number:05d}.jsonl{suffix}"
        with path.open("wb") as file:
            for text in _frames(islice(stream, count), number):
                text_bytes += len(text)
                file_bytes += file.write(pack(text))
        paths.append(str(path))
    return Generated(tuple(paths), records, text_bytes, file_bytes, dict(sorted(kinds.items())))


def _counted(stream: Iterator[tuple[str, bytes]], kinds: Counter[str]) -> Iterator[bytes]:
    for kind, line in stream:
        kinds[kind] += 1
        yield line


def _frames(shard: Iterator[bytes], number: int) -> Iterator[bytes]:
    """The text of one shard in frames of whole lines: at least one, so an empty shard is a valid file."""
    end = b"\r\n" if number == 1 else b"\n"
    frame = bytearray(b"\xef\xbb\xbf" if number == 2 else b"")
    for line in shard:
        if len(frame) >= FRAME_BYTES:
            yield bytes(frame)
            frame.clear()
        frame += line
        frame += end
    yield bytes(frame.removesuffix(end) if number == 3 else frame)


def _zstd(text: bytes) -> bytes:
    """One frame, checksummed and with its size declared."""
    compressor = zstandard.ZstdCompressor(level=3, threads=0, write_checksum=True, write_content_size=True)
    return bytes(compressor.compress(text))


def _gzip(text: bytes) -> bytes:
    return gzip.compress(text, GZIP_LEVEL, mtime=0)


_PACKERS: Final[dict[str, tuple[str, Pack]]] = {
    "zst": (".zst", _zstd),
    "gz": (".gz", _gzip),
    "none": ("", bytes),
}
