"""Parts of trusted corpora in pass 1: their columns say what their lines are, so no line is decoded.

Filters, and conditions on fields that have a column, are applied to each distinct value of a column. Only records that
pass all of them are read and parsed for conditions on other fields, or where a column does not tell enough: `true` is 1
in the column of scores.

A part is judged line by line after all if lines may change, or if columns cannot tell what the judge would say: a line
may be too long, or have a label that leaves its version open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from math import isnan
from typing import Any, Final

from fastrec.corpus.columns import METADATA, PartColumns, listed_columns
from fastrec.corpus.part_records import KEY_COLUMNS, PartIndex, PartRecords
from fastrec.errors import CorpusError
from fastrec.filters import Filters
from fastrec.judge.batch import Batch, FilteredOut
from fastrec.judge.findings import label_code
from fastrec.judge.parse import parse
from fastrec.normalize.options import Options
from fastrec.normalize.results import LineStatistics
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.sorting.gather import PartTexts
from fastrec.sorting.keys import METRIC
from fastrec.sorting.runs import BLOCK_ROWS
from fastrec.sources.shard import Shard
from fastrec.storage import sha256_of_file
from fastrec.where import Condition, parse_condition, values_of

_TEXTS: Final[dict[tuple[str, ...], str]] = {
    **{(field,): column for field, column in KEY_COLUMNS.items()},
    ("interaction_type",): "interaction_type",
    ("schema_version",): "schema_version",
}
"""Fields whose texts are in a column; a `sample_id` may be an integer."""

_NUMBERS: Final[dict[tuple[str, ...], str]] = {
    ("evaluation", "score"): "score",
    ("evaluation", "is_correct"): "correct",
    ("token_usage", "input_tokens"): "input_tokens",
    ("token_usage", "output_tokens"): "output_tokens",
    ("token_usage", "total_tokens"): "total_tokens",
    ("performance", "latency_ms"): "latency_ms",
    ("turns",): "turns",
    ("tool_calls",): "tool_calls",
    ("response", "characters"): "response_characters",
}
"""Fields whose numbers are in a column."""

_LARGEST: Final = 1 << 63
_LONG: Final = "long"  # stands for an integer that a column cannot hold

_Verdict = bool | None
"""Whether a condition holds; None if the column does not tell."""


def trusted_columns(part: Shard, options: Options, target: Schema) -> PartColumns | None:
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
        raise CorpusError(path, "is damaged: it is not the file that the manifest lists. Normalize again")
    if options.changes_lines or max(sizes, default=0) > options.max_line_bytes:
        return None
    # Each record of the default version is of that version by its shape, whatever its label says.
    is_sure = target is DEFAULT_SCHEMA or target.sure_labels.issuperset(columns.values("schema_version"))
    return columns if is_sure else None


def choose_records(columns: PartColumns, part: Shard, filters: Filters, target: Schema) -> bytes | None:
    """A byte of each record of a part: 1 if it matches all filters, else 0; None if all do."""
    if not filters:
        return None
    chooser = _Chooser(columns, target)
    chooser.filter_names(filters)
    if filters.chooses_outcomes:
        chooser.filter_outcomes(filters)
    conditions = [parse_condition(text) for text in filters.where]
    is_known = [chooser.filter_field(condition) for condition in conditions]
    unsure = chooser.positions if not all(is_known) else sorted(chooser.unsure.intersection(chooser.positions))
    chosen = _marked(chooser.positions, columns.records)
    for position in _refused(columns, part, unsure, filters) if unsure else ():
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
        batch.filtered_out[found] = everything[evaluation, metric, model] - kept[evaluation, metric, model]
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


class _Chooser:
    """Leaves out records whose columns say that they do not match."""

    def __init__(self, columns: PartColumns, target: Schema) -> None:
        self._columns = columns
        self._target = target
        self.positions: Sequence[int] = range(columns.records)  # of records that are left
        self.unsure: set[int] = set()  # positions of records that have to be read

    def filter_names(self, filters: Filters) -> None:
        accepts: dict[str, Callable[[Any], _Verdict]] = {
            "evaluation": filters.accepts_evaluation,
            "metric": filters.accepts_metric,
            "model": filters.accepts_model,
            "hash": filters.accepts_hash,
        }
        for name, accept in accepts.items():
            self._keep(self._columns.array(name), list(map(accept, self._columns.values(name))))
        if filters.sample_id:
            ids = self._columns.values("sample_id")
            verdicts = [None if isinstance(one, dict) else filters.accepts_sample_id(one) for one in ids]
            self._keep(self._columns.array("sample_id"), verdicts)

    def filter_outcomes(self, filters: Filters) -> None:
        verdicts = [
            filters.accepts_outcome(is_correct=is_correct, has_error=has_error)
            for has_error in (False, True)
            for is_correct in (False, True)
        ]
        outcomes = zip(self._columns.array("correct"), self._columns.array("error"), strict=True)
        self._keep([correct + 2 * error for correct, error in outcomes], verdicts)

    def filter_field(self, condition: Condition) -> bool:
        """Apply a condition; return False if its field has no column."""
        if found := self._codes_of(condition):
            codes, spellings = found
            self._keep(codes, [_verdict(condition, values) for values in spellings])
        return found is not None

    def _keep(self, codes: Sequence[int], verdicts: Sequence[_Verdict]) -> None:
        """Keep the records whose code has no verdict against it."""
        if all(verdicts):
            return
        self.positions = [at for at in self.positions if verdicts[codes[at]] is not False]
        if None in verdicts:
            self.unsure.update(at for at in self.positions if verdicts[codes[at]] is None)

    def _codes_of(self, condition: Condition) -> tuple[Sequence[int], list[Sequence[Any]]] | None:
        """The codes of a field and, for each of them, values of which the field has one; none if they are not known."""
        columns, path = self._columns, condition.path
        is_newest = self._target is NEWEST_SCHEMA
        if path[0] == "metadata" and len(path) > 1 and path[1] in columns.metadata_keys:
            name = METADATA + path[1]
            values, _ = parse(columns.content(f"values.{name}"))
            return columns.array(name), [(value,) for value in values]
        text = _TEXTS.get(path)
        if text and (is_newest or path != (METRIC,)):  # a metric may be an unknown key of earlier versions
            return columns.array(text), [() if isinstance(one, dict) else (one,) for one in columns.values(text)]
        if path == ("error",) and condition.operator == "?":
            return columns.array("error"), [(None,), ("some",)]
        found = _NUMBERS.get(path)
        return self._numbers(found) if found else None

    def _numbers(self, name: str) -> tuple[Sequence[int], list[Sequence[Any]]]:
        columns = self._columns
        values: list[Any] = columns.array(name).tolist()
        if name in ("input_tokens", "output_tokens", "total_tokens"):
            has_tokens = columns.array("has_tokens")
            values = [value if has else None for value, has in zip(values, has_tokens, strict=True)]
        elif name == "latency_ms":
            values = [None if isnan(value) else value for value in values]
        for position in columns.exact(name):
            values[position] = _LONG
        distinct = {value: code for code, value in enumerate(dict.fromkeys(values))}
        return [distinct[value] for value in values], [_spellings(name, value) for value in distinct]


def _spellings(name: str, value: Any) -> Sequence[Any]:
    """The values of which a record has one, given that of its column; none if they are not known."""
    if value is None:
        return (None,)
    if value is _LONG:
        return ()
    if name == "correct":
        return (bool(value),)
    if isinstance(value, float) and value.is_integer():
        if abs(value) >= _LARGEST:
            return ()
        flags = (bool(value),) if name == "score" and value in (0, 1) else ()
        return (value, int(value), *flags)
    return (value,)


def _verdict(condition: Condition, spellings: Iterable[Any]) -> _Verdict:
    """Whether a condition holds for a value, whichever of its spellings a record has; None if that matters."""
    verdicts = set()
    for value in spellings:
        values = _values_in(condition, value)
        verdicts.add(any(map(condition.holds, values)) is not condition.negated)
    return verdicts.pop() if len(verdicts) == 1 else None


def _values_in(condition: Condition, value: Any) -> Iterable[Any]:
    if condition.path[0] == "metadata":
        return values_of({"metadata": {condition.path[1]: value}}, condition.path)
    return () if value is None else (value,)


def _refused(columns: PartColumns, part: Shard, positions: Sequence[int], filters: Filters) -> Iterable[int]:
    """Read and parse records; yield the positions of those that do not match."""
    assert part.listed
    chosen = bytes(_marked(positions, columns.records))
    records = PartRecords(columns, PartIndex(columns.text_hash, (), "", b"", chosen=chosen))
    texts = PartTexts(part.path, part.listed.text_bytes, records.gaps())
    sizes = records.sizes
    for first in range(0, len(positions), BLOCK_ROWS):
        some = slice(first, first + BLOCK_ROWS)
        for position, text in zip(positions[some], texts.take(sizes[some]), strict=True):
            value, _ = parse(bytes(text))
            # A line that was taken on trust may be anything.
            is_record = isinstance(value, dict) and "sample_id" in value
            if not is_record or not (filters.accepts_sample_id(value["sample_id"]) and filters.accepts_fields(value)):
                yield position
