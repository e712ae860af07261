"""Parquet: one file per part, all with the same columns, in row groups that a viewer can load one by one."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fastrec.commands.export.columns import batch_of, table_schema
from fastrec.commands.export.decode import Decoder
from fastrec.commands.export.table import ExportTask
from fastrec.corpus.scan import decode_lines
from fastrec.schemas.schema import Schema

__all__ = ["write_empty", "write_parquet"]

_BATCH_BYTES: Final = 2 << 20  # text to hold as records at a time
_GROUP_ROWS: Final = 100_000


def write_parquet(task: ExportTask) -> None:
    """Write one part as a Parquet file. Runs in a worker."""
    pa.set_cpu_count(1)  # the other processes use the other cores
    pa.set_io_thread_count(1)
    schema = task.schema
    decoder = Decoder(schema)
    with pq.ParquetWriter(task.output, table_schema(schema), **_settings()) as writer:
        group: list[pa.RecordBatch] = []
        size = 0
        for rows, text_bytes in decode_lines(task.part, decoder.decode, _BATCH_BYTES):
            group.append(batch_of(rows, schema))
            size += text_bytes
            if size >= task.limits.parquet_group_bytes or sum(map(len, group)) >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
                group, size = [], 0
        if group:
            writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)


def write_empty(path: str, schema: Schema) -> None:
    """Write a file without rows, for a corpus without records."""
    with pq.ParquetWriter(path, table_schema(schema), **_settings()):
        pass


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = {"compression": "zstd", "write_page_index": True}
    # Pages cut by content stay the same when other rows change, so deduplicating storage uploads only what is new.
    if "use_content_defined_chunking" in inspect.signature(pq.ParquetWriter).parameters:
        settings["use_content_defined_chunking"] = True
    return settings
