"""Parts of trusted corpora in pass 1: no line is decoded, because columns say what it is.

Filters are applied to columns (`corpus.column_filter`). Only records that pass them are read and
parsed, if a condition is on a field without a column, or if the column does not tell enough.

A part is judged line by line after all if lines may change, or if columns cannot tell what the
judge would say: a line may be too long, or have a label that leaves its version open.
"""

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, cast

from fastrec.corpus.column_filter import match_columns
from fastrec.corpus.columns import PartColumns, listed_columns
from fastrec.errors import CorpusError
from fastrec.filters import Filters
from fastrec.judge.batch import Batch, FilteredOut
from fastrec.judge.findings import label_code
from fastrec.normalize.results import LineStatistics
from fastrec.normalize.task_settings import LineSettings
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.sources.shard import Shard
from fastrec.storage import sha256_of_file

if TYPE_CHECKING:
    from fastrec.corpus.manifest import PartEntry


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
            path,
            "is damaged: it is not the file that the manifest lists. Normalize its shards again, "
            "or the corpus with --judge",
        )
    if lines.judges_all_lines or max(sizes, default=0) > lines.max_line_bytes:
        return None
    target = lines.target
    # Each record of the default version is of that version by its shape, whatever its label says.
    is_sure = target is DEFAULT_SCHEMA or target.labels.issuperset(columns.values("schema_version"))
    return columns if is_sure else None


def choose_records(columns: PartColumns, part: Shard, filters: Filters) -> bytes | None:
    """A byte of each record of a part: 1 if it matches all filters, else 0; None if all do."""
    if not filters:
        return None
    matching = match_columns(columns, filters)
    left = set(matching.positions)
    if matching.to_read:
        from fastrec.corpus.reader import unmatched  # noqa: PLC0415 - few filters need it
        from fastrec.corpus.scan import PartFile  # noqa: PLC0415

        # An entry of the manifest, too, says how large the part is.
        file = PartFile(part.path, cast("PartEntry", part.listed))
        left.difference_update(unmatched(file, columns, matching.to_read, filters))
    chosen = bytes(map(left.__contains__, range(columns.records)))
    return chosen if 0 in chosen else None


def count_records(
    columns: PartColumns, chosen: bytes | None, filters: Filters, target: Schema
) -> tuple[Batch, LineStatistics]:
    """Count the records that were chosen, and those that were filtered out, as the judge does."""
    names = ("evaluation", "metric", "model")
    codes = [columns.array(name) for name in names]
    evaluations, metrics, models = map(columns.values, names)
    everything = Counter(zip(*codes, strict=True))
    kept = everything
    if chosen is not None:
        kept = Counter(compress(zip(*codes, strict=True), chosen))
    batch = Batch(lines=columns.records)
    batch.versions[target.name] = kept.total()
    for (evaluation, metric, model), count in (everything - kept).items():
        left_out = FilteredOut(evaluations[evaluation], metrics[metric] or "", models[model])
        batch.filtered_out[left_out] += count
    labels = columns.values("schema_version")
    if not target.labels.issuperset(labels):
        used = columns.array("schema_version")
        for code, count in Counter(used if chosen is None else compress(used, chosen)).items():
            if labels[code] not in target.labels:
                batch.notes[label_code(labels[code])] += count
    statistics = LineStatistics()
    statistics.add(batch, filters, set())
    for (evaluation, _, model), count in kept.items():
        statistics.recipes[evaluations[evaluation], models[model], target.recipe] += count
    return batch, statistics
