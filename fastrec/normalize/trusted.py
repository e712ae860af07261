"""Parts of trusted corpora in pass 1: no line is decoded, because columns say what it is.

Filters are applied to columns (`corpus.column_filter`). Only records that pass them are read and
parsed, if a condition is on a field without a column, or if the column does not tell enough.

A part is judged line by line after all if lines may change, or if columns cannot tell what the
judge would say: a line may be too long, or have a label that leaves its version open.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

from fastrec.corpus.column_filter import ColumnFilter
from fastrec.corpus.columns import PartColumns, listed_columns
from fastrec.corpus.part_records import PartIndex, PartRecords
from fastrec.errors import CorpusError
from fastrec.filters import Filters
from fastrec.judge.batch import Batch, FilteredOut
from fastrec.judge.findings import label_code
from fastrec.judge.parse import parse
from fastrec.normalize.options import LineSettings
from fastrec.normalize.results import LineStatistics
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.sorting.gather import PartTexts
from fastrec.sorting.runs import BLOCK_ROWS
from fastrec.sources.shard import Shard
from fastrec.storage import sha256_of_file


def trusted_columns(part: Shard, lines: LineSettings) -> PartColumns | None:
    """The columns of a trusted part; None if its lines have to be judged.

    Raises:
        CorpusError: The columns are not those that the manifest lists.
    """
    assert part.listed
    path, listed = listed_columns(part)
    columns = PartColumns(path, part.listed.text_xxh3_128)
    sizes = columns.array("bytes")
    is_complete = columns.records == part.listed.records and sum(sizes) == part.listed.text_bytes
    if not is_complete or sha256_of_file(path) != (listed.bytes, listed.sha256):
        raise CorpusError(
            path, "is damaged: it is not the file that the manifest lists. Normalize again"
        )
    if lines.judges_all_lines or max(sizes, default=0) > lines.max_line_bytes:
        return None
    target = lines.target
    # Each record of the default version is of that version by its shape, whatever its label says.
    is_sure = target is DEFAULT_SCHEMA or target.labels.issuperset(columns.values("schema_version"))
    return columns if is_sure else None


def choose_records(
    columns: PartColumns, part: Shard, filters: Filters, target: Schema
) -> bytes | None:
    """A byte of each record of a part: 1 if it matches all filters, else 0; None if all do."""
    if not filters:
        return None
    found = ColumnFilter(columns, filters, has_metrics=target is NEWEST_SCHEMA)
    chosen = _marked(found.positions, columns.records)
    if found.to_read:
        for position in _refused(columns, part, found.to_read, filters):
            chosen[position] = 0
    return bytes(chosen) if 0 in chosen else None


def _marked(positions: Iterable[int], records: int) -> bytearray:
    chosen = bytearray(records)
    for position in positions:
        chosen[position] = 1
    return chosen


def count_records(
    columns: PartColumns, chosen: bytes | None, filters: Filters, target: Schema
) -> tuple[Batch, LineStatistics]:
    """Count the records that were chosen, and those that were filtered out, as the judge does."""
    names = ("evaluation", "metric", "model")
    codes = [columns.array(name) for name in names]
    texts = [columns.values(name) for name in names]
    everything = Counter(zip(*codes, strict=True))
    kept = everything
    if chosen is not None:
        kept = Counter(compress(zip(*codes, strict=True), chosen))
    batch = Batch(lines=columns.records)
    batch.versions[target.name] = kept.total()
    for evaluation, metric, model in everything - kept if chosen is not None else ():
        found = FilteredOut(texts[0][evaluation], texts[1][metric] or "", texts[2][model])
        batch.filtered_out[found] = (
            everything[evaluation, metric, model] - kept[evaluation, metric, model]
        )
    labels = columns.values("schema_version")
    if not target.labels.issuperset(labels):
        used = columns.array("schema_version")
        for code, count in Counter(used if chosen is None else compress(used, chosen)).items():
            if labels[code] not in target.labels:
                batch.notes[label_code(labels[code])] += count
    statistics = LineStatistics()
    statistics.add(batch, filters, set())
    for (evaluation, _, model), count in kept.items():
        statistics.recipes[texts[0][evaluation], texts[2][model], target.recipe] += count
    return batch, statistics


def _refused(
    columns: PartColumns, part: Shard, positions: Sequence[int], filters: Filters
) -> Iterable[int]:
    """Read and parse records; yield the positions of those that do not match."""
    assert part.listed
    chosen = bytes(_marked(positions, columns.records))
    records = PartRecords(columns, PartIndex(columns.text_hash, (), "", b"", chosen=chosen))
    texts = PartTexts(part.path, part.listed.text_bytes, records.gaps())
    sizes = records.sizes
    for first in range(0, len(positions), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        for position, text in zip(positions[block], texts.take(sizes[block]), strict=True):
            value, _ = parse(bytes(text))
            # A line that was taken on trust may be anything.
            is_record = isinstance(value, dict) and "sample_id" in value
            if not is_record or not (
                filters.accepts_sample_id(value["sample_id"]) and filters.accepts_fields(value)
            ):
                yield position
