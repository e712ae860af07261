"""Shards: finding input files, telling their format, and reading them as chunks of whole lines.

inputs (what the user names) → reader (one shard) → decompress (zstd_frames, members; over raw) → lines.
"""

from __future__ import annotations

from fastrec.stages.shards.decompress import MAX_WINDOW, decompress
from fastrec.stages.shards.formats import Format, detect, format_of_name
from fastrec.stages.shards.inputs import find_shards
from fastrec.stages.shards.lines import (
    CHUNK_BYTES,
    MAX_LINE_BYTES,
    Chunk,
    LongLine,
    ReadStats,
    chunks,
    line_start,
)
from fastrec.stages.shards.reader import STDIN, Shard, own_bytes, read_shard, read_text, shard_at
from fastrec.stages.shards.skim import skim_lines
from fastrec.stages.shards.write import COMPRESSIONS, SUFFIXES, ShardWriter, Written

__all__ = [
    "CHUNK_BYTES",
    "COMPRESSIONS",
    "MAX_LINE_BYTES",
    "MAX_WINDOW",
    "STDIN",
    "SUFFIXES",
    "Chunk",
    "Format",
    "LongLine",
    "ReadStats",
    "Shard",
    "ShardWriter",
    "Written",
    "chunks",
    "decompress",
    "detect",
    "find_shards",
    "format_of_name",
    "line_start",
    "own_bytes",
    "read_shard",
    "read_text",
    "shard_at",
    "skim_lines",
]
