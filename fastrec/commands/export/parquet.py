"""Parquet: one file per part, all with the same columns, in row groups that a viewer can load one at a time."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fastrec.commands.export.columns import batch_of, table_schema
from fastrec.commands.export.decode import Decoder
from fastrec.commands.export.part import PartToExport, decoded_chunks

__all__ = ["write_empty", "write_parquet"]

_BATCH_BYTES: Final = 2 << 20  # text that is held as records at a time
_GROUP_BYTES: Final = 32 << 20  # text of a row group
_GROUP_ROWS: Final = 100_000


def write_parquet(part: PartToExport) -> int:
    """Write one part as a Parquet file, and give the number of rows. Runs in a worker."""
    pa.set_cpu_count(1)  # the other processes have the other cores
    pa.set_io_thread_count(1)
    decoder = Decoder()
    rows = 0
    with pq.ParquetWriter(part.into, table_schema(), **_settings()) as writer:
        group: list[pa.RecordBatch] = []
        size = 0
        for some, text_bytes in decoded_chunks(part, decoder.decode, _BATCH_BYTES):
            group.append(batch_of(some))
            size += text_bytes
            rows += len(some)
            if size >= _GROUP_BYTES or sum(map(len, group)) >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
                group, size = [], 0
        if group:
            writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
    return rows


def write_empty(path: str) -> None:
    """Write a file without rows: the columns of a corpus that has none."""
    with pq.ParquetWriter(path, table_schema(), **_settings()):
        pass


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = {"compression": "zstd", "write_page_index": True}
    # Pages cut by content stay the same if rows are added elsewhere, and storage that knows chunks need not move them.
    if "use_content_defined_chunking" in inspect.signature(pq.ParquetWriter).parameters:
        settings["use_content_defined_chunking"] = True
    return settings
