"""Synthetic shards from a seed: any size, every spelling, every kind of invalid line, the same text everywhere.

    tasks → evaluation ─┐
    text → words ───────┴─▶ questions ─┐
    producers ─────────────────────────┼─▶ records ─▶ variations, invalid ─▶ stream ─▶ shards on disk (here)
                                       └─▶ versions ─▶ mistakes ───────────▶

`labelled_lines` names the kind of each line, so a test knows what a run must find. The same recipe gives the same text
on every platform and Python version. Compressed bytes may change with the version of zstd or zlib.
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

from fastrec.commands.generate.stream import Recipe, labelled_lines
from fastrec.errors import UsageError
from fastrec.schemas.registry import DEFAULT_SCHEMA

__all__ = ["FRAME_BYTES", "Generated", "generate"]

FRAME_BYTES: Final = 4 << 20
"""Text per compressed frame. A frame declares its size, so its text must fit in memory."""
COMPRESSORS: Final[dict[str, tuple[str, Callable[[bytes], bytes]]]] = {
    "zst": (".zst", lambda text: zstandard.ZstdCompressor(level=3, threads=0, write_checksum=True).compress(text)),
    "gz": (".gz", lambda text: gzip.compress(text, 1, mtime=0)),  # level 1 is three times as fast as 6
    "none": ("", bytes),
}
MIXED: Final = ("none", "zst", "gz")


class Generated(msgspec.Struct, frozen=True):
    """What `generate` wrote: shards in order, number of lines, bytes of text and of files, lines by kind."""

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
    schema: str = DEFAULT_SCHEMA.name,
    text: str = "evaluation",
) -> Generated:
    """Write synthetic shards into the directory `output`, which must be empty or not exist.

    The lines are those of `labelled_lines` for the same recipe, spread evenly over the shards. The second shard has
    CRLF line ends, the third begins with a byte order mark, and the fourth lacks its last newline.

    Args:
        output: The directory; shards are named `shard-00000.jsonl`, with `.zst` or `.gz` added as needed.
        records: Number of lines, of all kinds.
        seed: Seed of the random numbers.
        shards: Number of files.
        compression: `zst`, `gz`, `none`, or `mixed` for all three in turn.
        duplicates: Share of lines that repeat a record, in the same bytes or in another spelling.
        conflicts: Share of lines with the identity of another record and other content: another answer or, in versions
            after the oldest one, the same answer with another verdict in half of them.
        unknown_keys: Share of records with keys that the schema does not name.
        rejects: Share of invalid lines, of all codes in turn.
        blanks: Share of blank lines.
        warnings: Share of records with a warning, of all codes in turn.
        mix: `mixed` interaction types, or only `single_turn`, or only `agentic`.
        schema: The version of the records, or `mixed`: each producer has one of the versions, so that most shards have
            records of several. Versions after the oldest one have several metrics and epochs, labels of other versions,
            and hashes of all recipes; their invalid lines are mistakes of known producers.
        text: `evaluation` for questions and answers that can be read, or `words` for random words, which give longer
            lines, as in benchmarks.

    Raises:
        UsageError: An argument is wrong, or the directory is not empty.
    """
    recipe = Recipe(
        records=records, seed=seed, duplicates=duplicates, conflicts=conflicts, unknown_keys=unknown_keys,
        rejects=rejects, blanks=blanks, warnings=warnings, mix=mix, schema=schema, text=text,
    )  # fmt: skip
    if shards < 1:
        raise UsageError("the number of shards must be at least 1")
    formats = MIXED if compression == "mixed" else (compression,)
    if not COMPRESSORS.keys() >= set(formats):
        raise UsageError(f"compression must be one of {', '.join(COMPRESSORS)}, mixed, not {compression!r}")
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory; choose another output")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty, and its files would mix with the new shards; choose another output")
    kinds: Counter[str] = Counter()
    stream = labelled_lines(recipe)
    paths, text_bytes, file_bytes = [], 0, 0
    for number in range(shards):
        count = records * (number + 1) // shards - records * number // shards
        suffix, compress = COMPRESSORS[formats[number % len(formats)]]
        path = folder / f"shard-{number:05d}.jsonl{suffix}"
        with path.open("wb") as file:
            for frame in _frames(islice(stream, count), number, kinds):
                text_bytes += len(frame)
                file_bytes += file.write(compress(frame))
        paths.append(str(path))
    return Generated(tuple(paths), records, text_bytes, file_bytes, dict(sorted(kinds.items())))


def _frames(shard: Iterator[tuple[str, bytes]], number: int, kinds: Counter[str]) -> Iterator[bytes]:
    """Yield the text of one shard in frames of whole lines; at least one, so that an empty shard is a valid file."""
    end = b"\r\n" if number == 1 else b"\n"
    frame = bytearray(b"\xef\xbb\xbf" if number == 2 else b"")
    for kind, line in shard:
        if len(frame) >= FRAME_BYTES:
            yield bytes(frame)
            frame.clear()
        kinds[kind] += 1
        frame += line + end
    yield bytes(frame.removesuffix(end) if number == 3 else frame)
