r"""Planning a comparison: can the corpora be compared, and how are they cut into ranges?

    sort order   evaluation_name · sample_hash · model_id · evaluation_id · sample_id · bytes
    compare by   evaluation_name · sample_hash · model_id ·                 sample_id
                 \__________ position ___________/                 \_ rest _/

The leading sort fields that name an evaluation, a model and a sample are a record's *position*.
Both corpora are sorted by it, so a range of positions has all records of its questions. The records
of one model for one question have one position. The rest distinguishes them.

If records name a metric (`evaluation_result_id`), it is the last sort field, and always one to
compare by. Records of a position may then belong to several *scopes*: an evaluation with one of its
metrics. Each scope is compared by itself.

Ranges begin where parts begin. They do not depend on the number of jobs, so neither does the
result.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

import numpy as np

from fastrec.answers.codes import NO_NUMBERS, Array, by_key
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import Selection
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import MANIFEST, KeyEntry, skipped_lines
from fastrec.corpus.part_records import KEY_COLUMNS
from fastrec.corpus.scan import Position, SplitHashes, position_maker
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.filters import Filters
from fastrec.limits import current_limits
from fastrec.parameters import Names
from fastrec.schemas.registry import CORPUS_LABELS, NEWEST_SCHEMA
from fastrec.sorting.keys import METRIC, METRIC_FIELDS
from fastrec.storage import join
from fastrec.where import ScopeName

# The fields to compare by if none are given: the whole sort key except the run, which is new every
# night. The metric is always compared by, where records name one.
BY = ("evaluation_name", "sample_hash", "model_id", "sample_id")

# characters of a `sample_id` in a manifest; a longer one may be an integer in hexadecimal digits
_LONGEST_ID = 1_000

_PositionOf = Callable[[KeyEntry], Position]


def scopes_with(fact: str, corpora: Iterable[QuestionTable]) -> frozenset[ScopeName]:
    """The scopes of which a corpus says something, such as `graded`."""
    return frozenset(
        (scope.evaluation_name, scope.metric)
        for corpus in corpora
        for scope in corpus.scopes
        if getattr(scope, fact)
    )


def split_hashes(corpora: Iterable[QuestionTable]) -> SplitHashes:
    """The hashes that are split: one that is split in one corpus is split in both here."""
    return frozenset(
        (evaluation.evaluation_name, evaluation.metric, sample_hash)
        for corpus in corpora
        for evaluation in corpus.evaluations
        if evaluation.split_hashes
        for sample_hash in corpus.table(evaluation).split_hashes()
    )


def check_by(by: Sequence[str]) -> Names:
    """The fields to compare by in the default sort order.

    UsageError if they do not identify a sample.
    """
    for field in by:
        if field not in METRIC_FIELDS:
            raise UsageError(
                f"records cannot be compared by {field!r}; the fields are "
                f"{', '.join(METRIC_FIELDS)}"
            )
    if not _names_a_sample(by):
        raise UsageError(
            "records must be compared by evaluation_name, model_id and at least one of "
            "sample_hash and sample_id, not "
            f"by {', '.join(by) or 'nothing'}"
        )
    return tuple(field for field in METRIC_FIELDS if field in by)


def _names_a_sample(fields: Sequence[str]) -> bool:
    return {"evaluation_name", "model_id"} <= set(fields) and bool(
        {"sample_hash", "sample_id"} & set(fields)
    )


def fields_to_compare(old: QuestionTable, new: QuestionTable, by: Names) -> Names:
    """The fields to compare by, with the metric if records name one.

    UsageError if schema versions differ.
    """
    schema, other = (CORPUS_LABELS[corpus.manifest.schema] for corpus in (old, new))
    if schema is not other:
        earlier = new if schema is NEWEST_SCHEMA else old
        raise UsageError(
            f"{shown(old.corpus)} has records of schema {schema.name} and {shown(new.corpus)} of "
            f"{other.name}: their hashes differ. Upgrade the earlier version with "
            f"`fastrec normalize {shown(earlier.corpus)} -o UPGRADED --schema "
            f"{NEWEST_SCHEMA.name}`, and compare UPGRADED"
        )
    if METRIC in schema.sort_fields:
        return (*(field for field in by if field != METRIC), METRIC)
    if METRIC in by:
        raise UsageError(
            f"records of schema {schema.name} have no {METRIC}: they cannot be compared by it"
        )
    return by


def make_ranges(
    corpora: Sequence[QuestionTable], fields: Sequence[str]
) -> list[tuple[list[int], ...]]:
    """Cut the corpora into ranges of positions by some fields.

    Return the numbers of the first record of each range and of the one after its last record, in
    OLD and in NEW.
    """
    entries = [part.entry for corpus in corpora for part in corpus.selection.parts]
    if any(_is_long(key.sample_id) for entry in entries for key in (entry.first, entry.last)):
        fields = tuple(takewhile(lambda field: field != "sample_id", fields))
    position_of = position_maker(fields)
    starts = [(position_of(entry.first), entry.records) for entry in entries]
    cuts = _cuts(sorted(starts), current_limits().diff_range_records)
    bounds = [
        [0, *_rows_at(corpus, cuts, position_of), int(corpus.selection.starts[-1])]
        for corpus in corpora
    ]
    return list(zip(*map(pairwise, bounds), strict=True))


def _is_long(sample_id: int | str) -> bool:
    return isinstance(sample_id, str) and len(sample_id) > _LONGEST_ID


def _cuts(starts: Sequence[tuple[Position, int]], most_records: int) -> list[Position]:
    """The positions at which ranges begin, except for the first.

    Given are the positions at which parts begin, in order, and the numbers of their records.
    """
    cuts: list[Position] = []
    records = 0
    for start, number in starts:
        begin = cuts[-1] if cuts else starts[0][0]
        if records + number > most_records and start > begin:
            cuts.append(start)
            records = 0
        records += number
    return cuts


def _rows_at(
    corpus: QuestionTable, cuts: Sequence[Position], position_of: _PositionOf
) -> Iterator[int]:
    """Yield the number of the first record of a corpus at or after each position."""
    selection = corpus.selection
    entries = [part.entry for part in selection.parts]
    ends = [position_of(entry.last) for entry in entries]
    begins = [position_of(entry.first) for entry in entries]
    if any(end > begin for end, begin in zip(ends, begins[1:], strict=False)):
        raise CorpusError(join(corpus.corpus, MANIFEST), "does not list its parts in sort order")
    for cut in cuts:
        number = bisect_left(ends, cut)
        row = 0
        if number < len(ends) and begins[number] < cut:
            row = _row_at(selection.columns(number), cut, position_of)
        yield int(selection.starts[number]) + row


def _row_at(columns: PartColumns, cut: Position, position_of: _PositionOf) -> int:
    fields = {
        field: (columns.values(name), columns.numbers(name)) for field, name in KEY_COLUMNS.items()
    }

    def position_at(row: int) -> Position:
        key = {field: values[codes[row]] for field, (values, codes) in fields.items()}
        return position_of(KeyEntry(**key))

    return bisect_left(range(columns.records), cut, key=position_at)


def numbers_in(selection: Selection, bounds: Sequence[int]) -> Array:
    """The numbers of the selected records in a range."""
    first = int(np.searchsorted(selection.starts, bounds[0], side="right")) - 1
    parts = range(first, int(np.searchsorted(selection.starts, bounds[1])))
    numbers = np.concatenate([NO_NUMBERS, *map(selection.numbers, parts)])
    begin, end = np.searchsorted(numbers, bounds).tolist()
    return numbers[begin:end]


def notices_of(old: QuestionTable, new: QuestionTable, filters: Filters) -> Iterator[str]:
    """Yield what may explain differences: other versions, skipped shards, and other metrics."""
    if filters:
        yield f"only records that match {filters}"
    yield from old.selection.notes
    ours = old.manifest.fastrec
    theirs = new.manifest.fastrec
    if ours != theirs:
        yield (
            f"fastrec {ours} made OLD and fastrec {theirs} made NEW: values that the two versions "
            "write differently count as changed"
        )
    for name, corpus in (("OLD", old), ("NEW", new)):
        if skipped := skipped_lines(corpus.manifest.skipped):
            yield f"{name} is {skipped[0]} {'; '.join(map(str.strip, skipped[1:]))}"
    before, after = map(_metrics_of, (old, new))
    for name in sorted(before.keys() & after.keys()):
        if set(before[name]).isdisjoint(after[name]):
            first, second = (", ".join(metrics[name]) for metrics in (before, after))
            yield (
                f"{name!r} has no metric in common, so nothing of it is compared: OLD has {first}, "
                f"NEW has {second}"
            )


def _metrics_of(corpus: QuestionTable) -> dict[str, list[str]]:
    """The metrics of each evaluation, as they are shown."""
    return by_key(
        (scope.evaluation_name, "none" if scope.metric is None else repr(scope.metric))
        for scope in corpus.scopes
    )


def position_fields(old: QuestionTable, new: QuestionTable, by: Sequence[str]) -> Names:
    """The fields of a position; UsageError if hashes or sort orders do not allow a merge."""
    old_name, new_name = (shown(corpus.corpus) for corpus in (old, new))
    algorithm = old.manifest.options.get("hash")
    other = new.manifest.options.get("hash")
    if algorithm != other and "sample_hash" in by:
        raise UsageError(
            f"{old_name} has {algorithm} hashes and {new_name} has {other} hashes: "
            "normalize one of them "
            f"again, for example with `fastrec normalize {new_name} -o NEW "
            f"--hash-algorithm {algorithm}`"
        )
    ours, theirs = (_sample_fields(corpus.manifest.sort_fields, by) for corpus in (old, new))
    if ours != theirs:
        order = ",".join(old.manifest.sort_fields)
        raise UsageError(
            f"{old_name} and {new_name} have different sort orders: normalize one "
            "of them again, "
            f"for example with `fastrec normalize {new_name} -o NEW --sort-by {order}`"
        )
    if not _names_a_sample(ours):
        first = ",".join(field for field in by if field != "sample_hash" or "sample_id" not in by)
        raise UsageError(
            f"corpora sorted by {', '.join(old.manifest.sort_fields)} cannot be compared by "
            f"{', '.join(by)}: normalize "
            f"both again, for example with `fastrec normalize {old_name} -o OLD --sort-by "
            f"{first}`"
        )
    return ours


def _sample_fields(sort_fields: Sequence[str], by: Sequence[str]) -> Names:
    """The leading sort fields to compare by: as few as name a sample, or all of them."""
    fields = tuple(takewhile(lambda field: field in by, sort_fields))
    return next(
        (fields[:end] for end in range(len(fields)) if _names_a_sample(fields[:end])), fields
    )
