"""Other tools that do some of the work of `normalize`, and what each of them leaves out.

Each contender imports its own library, so only that contender fails if the library is not
installed.
"""

from __future__ import annotations

import shlex
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import zstandard

from bench.job import Contender, Job, batches
from fastrec.engine import make_engine
from fastrec.normalize.options import MEMORY_PER_JOB

__all__ = ["NORMALIZERS", "Decompression", "TunedDuckDB"]

_BLOCK: Final = 1 << 20
_COLUMNS: Final = {
    "schema_version": "VARCHAR",
    "evaluation_id": "VARCHAR",
    "model_id": "VARCHAR",
    "evaluation_name": "VARCHAR",
    "sample_id": "VARCHAR",
    "sample_hash": "VARCHAR",
    "interaction_type": "VARCHAR",
    "input": "JSON",
    "output": "JSON",
    "messages": "JSON",
    "interactions": "JSON",
    "answer_attribution": "JSON",
    "evaluation": "JSON",
    "token_usage": "JSON",
    "performance": "JSON",
    "error": "VARCHAR",
    "metadata": "JSON",
}
_KEYS: Final = ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")


class Recompression:
    """Decompresses and recompresses the same shards in the same pool: the minimum for any tool that rewrites them."""

    label = "bare recompression"
    leaves_out = "everything: it only decompresses and compresses again"

    def run(self, job: Job) -> None:
        """Recompress each shard."""
        with make_engine(job.jobs) as engine:
            for _ in engine.run(
                _recompress, ((batch, job.output, job.level) for batch in batches(job))
            ):
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


class Decompression:
    """Decompresses shards in the same pool and drops the text: the minimum for any tool that searches them."""

    label = "bare decompression"
    leaves_out = "everything: it only decompresses"

    def run(self, job: Job) -> None:
        """Decompress each shard."""
        with make_engine(job.jobs) as engine:
            for _ in engine.run(_decompress, job.shards()):
                pass


def _decompress(shard: str) -> None:
    buffer = bytearray(_BLOCK >> 2)  # one buffer for all text: it stays in the cache
    with (
        Path(shard).open("rb") as source,
        zstandard.ZstdDecompressor().stream_reader(source) as text,
    ):
        while text.readinto(buffer):
            pass


class DuckDB:
    """DuckDB: infers a type for each key, and writes one sorted file.

    As it comes, or with fastrec's memory limit.
    """

    leaves_out = (
        "validation, rejected lines, normal form (absent and null become the same, "
        "numbers change), conflicts, summary"
    )

    def __init__(self, *, limited: bool) -> None:
        self._limited = limited
        self.label = f"DuckDB, {MEMORY_PER_JOB >> 20} MiB per job" if limited else "DuckDB"

    def run(self, job: Job) -> None:
        """Read, hash, deduplicate, sort and write in one statement."""
        import duckdb  # noqa: PLC0415

        database = duckdb.connect(config={"threads": job.jobs, "temp_directory": job.scratch})
        if self._limited:
            database.execute(f"SET memory_limit = '{job.jobs * MEMORY_PER_JOB >> 20} MiB'")
        files = ", ".join(f"'{shard}'" for shard in job.shards())
        read = f"read_ndjson([{files}], union_by_name = true)"
        columns = {row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
        others = "EXCLUDE (sample_hash), " if "sample_hash" in columns else ", "
        database.execute(
            f"COPY (SELECT DISTINCT * {others} sha256(input.raw || input.reference) AS "
            f"sample_hash FROM {read} "
            f"ORDER BY {', '.join(_KEYS)}) TO '{job.output}/corpus.jsonl.zst' (FORMAT json, "
            "COMPRESSION zstd)"
        )


class TunedDuckDB:
    """DuckDB as somebody who knows it would write the query: nothing is inferred, and only the identity is compared."""

    leaves_out = (
        "validation, rejected lines, records with equal identity that differ, unknown keys, "
        "normal form, conflicts, "
        "summary"
    )

    def __init__(self, memory: str = "") -> None:
        self._memory = memory
        self.label = "DuckDB, tuned by hand" + (f", {memory}" if memory else "")

    def run(self, job: Job) -> None:
        """Read with given types, hash, keep one record per identity, sort and write in one statement."""
        import duckdb  # noqa: PLC0415

        database = duckdb.connect(config={"threads": job.jobs, "temp_directory": job.scratch})
        if self._memory:
            database.execute(f"SET memory_limit = '{self._memory}'")
        files = ", ".join(f"'{shard}'" for shard in job.shards())
        columns = ", ".join(f"'{name}': '{kind}'" for name, kind in _COLUMNS.items())
        others = [name for name in _COLUMNS if name != "sample_hash"]
        digest = "sha256((input->>'$.raw') || (input->>'$.reference')) AS sample_hash"
        database.execute(
            f"COPY (SELECT DISTINCT ON ({', '.join(_KEYS)}) * FROM (SELECT {', '.join(others)}, "
            f"{digest} FROM "
            f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
            f"maximum_object_size = 134217728)) ORDER BY {', '.join(_KEYS)}) "
            f"TO '{job.output}/corpus.jsonl.zst' (FORMAT json, COMPRESSION zstd)"
        )


class Polars:
    """Polars in lazy mode: infers a schema from all lines, and writes one sorted file."""

    label = "Polars"
    leaves_out = (
        "validation, rejected lines, normal form (every record gets every key), unknown "
        "keys of mixed types, summary"
    )

    def run(self, job: Job) -> None:
        """Scan, hash, deduplicate, sort and sink."""
        import os  # noqa: PLC0415

        os.environ["POLARS_MAX_THREADS"] = str(job.jobs)
        import polars as pl  # noqa: PLC0415 - it reads the environment once

        asked = pl.col("input").struct.field("raw") + pl.col("input").struct.field("reference")
        frame = pl.scan_ndjson(job.shards(), infer_schema_length=None)
        hashed = frame.with_columns(
            asked.map_elements(_sha256, return_dtype=pl.String).alias("sample_hash")
        )
        sink: Any = hashed.unique().sort(_KEYS).sink_ndjson
        sink(f"{job.output}/corpus.jsonl.zst", compression="zstd", compression_level=job.level)


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class GnuSort:
    """A shell pipeline that treats lines as bytes."""

    label = "zstd | sort -u | zstd"
    leaves_out = (
        "everything except dropping identical lines and sorting by bytes: it parses nothing"
    )

    def run(self, job: Job) -> None:
        """Run the pipeline."""
        shards = shlex.join(job.shards())
        sort = f"LC_ALL=C sort -u --parallel {job.jobs} -S 1G -T {shlex.quote(job.scratch)}"
        target = shlex.quote(f"{job.output}/corpus.jsonl.zst")
        pipeline = (
            f"set -euo pipefail; zstd -dcq {shards} | {sort} | zstd -q -{job.level} "
            f"-T{job.jobs} -o {target}"
        )
        subprocess.run(["bash"], input=pipeline.encode(), check=True)


NORMALIZERS: Final[tuple[Contender, ...]] = (
    Recompression(),
    DuckDB(limited=False),
    DuckDB(limited=True),
    TunedDuckDB(),
    Polars(),
    GnuSort(),
)
