"""Other ways to do what `normalize` does, each as far as it can, and what it leaves out.

Libraries are imported by the contender that needs them: one that is not installed fails alone.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import zstandard

from bench.contenders import Contender, Job
from fastrec.engine import make_engine

__all__ = ["NORMALIZING", "Decompression", "batches"]

_BLOCK: Final = 1 << 20
_KEYS: Final = ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")


def batches(job: Job) -> Iterator[list[str]]:
    """Gather shards into tasks for a pool: at least some for each process, tiny ones many to a task."""
    shards = job.shards()
    sizes = [Path(shard).stat().st_size for shard in shards]
    most = min(sum(sizes) / (8 * job.jobs), 8 << 20)
    batch, size = [], 0
    for shard, shard_size in zip(shards, sizes, strict=True):
        batch.append(shard)
        size += shard_size
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Recompression:
    """Decompresses and compresses the same shards in the same pool: the floor that any such tool pays."""

    label = "bare recompression"
    leaves_out = "everything: it only decompresses and compresses again"

    def run(self, job: Job) -> None:
        """Recompress each shard."""
        with make_engine(job.jobs) as engine:
            for _ in engine.run(_recompress, ((batch, job.output, job.level) for batch in batches(job))):
                pass


class Decompression:
    """Decompresses the same shards in the same pool, and throws the text away: the floor for all that reads them."""

    label = "bare decompression"
    leaves_out = "everything: it only decompresses"

    def run(self, job: Job) -> None:
        """Decompress each shard."""
        with make_engine(job.jobs) as engine:
            for _ in engine.run(_decompress, batches(job)):
                pass


def _decompress(shards: list[str]) -> None:
    for shard in shards:
        with Path(shard).open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            while reader.read(_BLOCK):
                pass


def _recompress(task: tuple[list[str], str, int]) -> None:
    shards, output, level = task
    for shard in shards:
        reader = zstandard.ZstdDecompressor()
        writer = zstandard.ZstdCompressor(level=level, write_checksum=True)
        path = Path(shard)
        with (
            path.open("rb") as source,
            (Path(output) / path.name).open("wb") as target,
            reader.stream_reader(source, read_across_frames=True) as text,
            writer.stream_writer(target) as packed,
        ):
            while block := text.read(_BLOCK):
                packed.write(block)


class DuckDB:
    """DuckDB: infers a type for each key, and writes one sorted file."""

    label = "DuckDB"
    leaves_out = "validation, rejects, normal form (absent and null become one, numbers change), conflicts, summary"

    def run(self, job: Job) -> None:
        """Read, hash, drop copies, sort and write in one statement."""
        import duckdb  # noqa: PLC0415

        database = duckdb.connect(config={"threads": job.jobs, "temp_directory": job.scratch})
        files = ", ".join(f"'{shard}'" for shard in job.shards())
        read = f"read_ndjson([{files}], union_by_name = true)"
        columns = {row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
        others = "EXCLUDE (sample_hash), " if "sample_hash" in columns else ", "
        database.execute(
            f"COPY (SELECT DISTINCT * {others} sha256(input.raw || input.reference) AS sample_hash FROM {read} "
            f"ORDER BY {', '.join(_KEYS)}) TO '{job.output}/corpus.jsonl.zst' (FORMAT json, COMPRESSION zstd)"
        )


class Polars:
    """Polars, lazily: infers a schema from all lines, and writes one sorted file."""

    label = "Polars"
    leaves_out = "validation, rejects, normal form (all keys in all records), unknown keys of other types, summary"

    def run(self, job: Job) -> None:
        """Scan, hash, drop copies, sort and sink."""
        import os  # noqa: PLC0415

        os.environ["POLARS_MAX_THREADS"] = str(job.jobs)
        import polars as pl  # noqa: PLC0415 - it reads the environment once

        asked = pl.col("input").struct.field("raw") + pl.col("input").struct.field("reference")
        frame = pl.scan_ndjson(job.shards(), infer_schema_length=None)
        hashed = frame.with_columns(asked.map_elements(_sha256, return_dtype=pl.String).alias("sample_hash"))
        sink: Any = hashed.unique().sort(_KEYS).sink_ndjson
        sink(f"{job.output}/corpus.jsonl.zst", compression="zstd", compression_level=job.level)


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class GnuSort:
    """The shell's way: lines are bytes."""

    label = "zstd | sort -u | zstd"
    leaves_out = "all but dropping lines that are the same bytes, and some order: nothing is parsed"

    def run(self, job: Job) -> None:
        """Run the pipeline."""
        shards = shlex.join(job.shards())
        sort = f"LC_ALL=C sort -u --parallel {job.jobs} -S 1G -T {shlex.quote(job.scratch)}"
        target = shlex.quote(f"{job.output}/corpus.jsonl.zst")
        pipeline = f"set -euo pipefail; zstd -dcq {shards} | {sort} | zstd -q -{job.level} -T{job.jobs} -o {target}"
        subprocess.run(["bash"], input=pipeline.encode(), check=True)


NORMALIZING: Final[tuple[Contender, ...]] = (Recompression(), DuckDB(), Polars(), GnuSort())
