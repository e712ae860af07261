r"""Planning a comparison: can the corpora be compared, and which range does each task get?

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

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from msgspec.structs import replace

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import Selection
from fastrec.answers.table import Query
from fastrec.commands.diff.records import ChosenPart, CompareTask, ModelName, Scope
from fastrec.corpus.manifest import MANIFEST, skipped_lines
from fastrec.corpus.scan import Position, position_maker
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.limits import current_limits
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC, METRIC_FIELDS
from fastrec.storage import join
from fastrec.summary.document import ModelSummary

# The fields to compare by if none are given: the whole sort key except the run, which is new every
# night. The metric is always compared by, where records name one.
BY = ("evaluation_name", "sample_hash", "model_id", "sample_id")

# characters of a `sample_id` in a manifest; a longer one may be an integer in hexadecimal digits
_LONGEST_ID = 1_000


class ComparedCorpus(QuestionTable):
    """One of the two corpora, and what its summary says about the selected records."""

    def __init__(self, selection: Selection) -> None:
        super().__init__(selection)
        self.schema: Schema = CORPUS_LABELS[self.manifest.schema]
        self.parts = [_chosen_part(selection, number) for number in range(len(selection.parts))]
        self.results: dict[ModelName, ModelSummary] = {}
        self.split: set[ModelName] = set()  # scopes with hashes, as in `SplitHashes`
        for evaluation in self.evaluations:
            scope = (evaluation.evaluation_name, evaluation.metric)
            self.results |= {(*scope, model.model_id): model for model in evaluation.by_model}
            if evaluation.split_hashes:
                table = self.table(Query(evaluation_name=scope[0], metric=scope[1]))
                self.split |= {(*scope, sample_hash) for sample_hash in table.split_hashes()}


def _chosen_part(selection: Selection, number: int) -> ChosenPart:
    part = selection.parts[number]
    chosen = None if selection.is_whole else selection.scope_codes(number) >= 0
    clusters = selection.clusters
    if clusters is not None:
        clusters = clusters[slice(*selection.starts[number : number + 2])]
    return ChosenPart(part.path, part.entry, chosen, clusters)


class _Place(NamedTuple):
    first: Position
    last: Position
    file: ChosenPart


def scopes_with(fact: str, corpora: Iterable[ComparedCorpus]) -> frozenset[Scope]:
    """The scopes of which a corpus says something, such as `graded`."""
    return frozenset(
        (one.evaluation_name, one.metric)
        for corpus in corpora
        for one in corpus.scopes
        if getattr(one, fact)
    )


def check_by(by: Sequence[str]) -> tuple[str, ...]:
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


def fields_to_compare(
    old: ComparedCorpus, new: ComparedCorpus, by: tuple[str, ...]
) -> tuple[str, ...]:
    """The fields to compare by, with the metric if records name one.

    UsageError if schema versions differ.
    """
    if old.schema is not new.schema:
        versions = list(CORPUS_LABELS.values())  # the oldest first
        earlier, later = sorted((old, new), key=lambda corpus: versions.index(corpus.schema))
        raise UsageError(
            f"{shown(old.corpus)} has records of schema {old.schema.name} and "
            f"{shown(new.corpus)} of {new.schema.name}: their hashes differ. Upgrade the earlier "
            f"version with `fastrec normalize {shown(earlier.corpus)} -o UPGRADED "
            f"--schema {later.schema.name}`, and compare UPGRADED"
        )
    if METRIC in old.schema.sort_fields:
        return (*(field for field in by if field != METRIC), METRIC)
    if METRIC in by:
        raise UsageError(
            f"records of schema {old.schema.name} have no {METRIC}: they cannot be compared by it"
        )
    return by


def make_tasks(whole: CompareTask, old: ComparedCorpus, new: ComparedCorpus) -> list[CompareTask]:
    """Cut the work into ranges."""
    bound_fields = whole.fields
    if any(_has_long_id(part) for part in (*old.parts, *new.parts)):
        bound_fields = tuple(takewhile(lambda field: field != "sample_id", bound_fields))
    position_of = position_maker(bound_fields)
    places = []
    for corpus in (old, new):
        parts = [
            _Place(position_of(part.entry.first), position_of(part.entry.last), part)
            for part in corpus.parts
        ]
        if any(before.last > after.first for before, after in pairwise(parts)):
            raise CorpusError(
                join(corpus.corpus, MANIFEST), "does not list its parts in sort order"
            )
        places.append(parts)
    if not any(places):
        return []
    cuts = _cuts([*places[0], *places[1]], current_limits().diff_range_records)
    return [
        replace(
            whole,
            old=_within(places[0], *bounds),
            new=_within(places[1], *bounds),
            bounds=bounds,
            bound_fields=bound_fields,
        )
        for bounds in pairwise([None, *cuts, None])
    ]


def notices_of(old: ComparedCorpus, new: ComparedCorpus) -> Iterator[str]:
    """Yield what may explain differences: other versions, skipped shards, and other metrics."""
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


def _has_long_id(part: ChosenPart) -> bool:
    ids = (part.entry.first.sample_id, part.entry.last.sample_id)
    return any(isinstance(sample_id, str) and len(sample_id) > _LONGEST_ID for sample_id in ids)


def _metrics_of(corpus: ComparedCorpus) -> dict[str, list[str]]:
    """The metrics of each evaluation, as they are shown."""
    metrics: dict[str, list[str]] = {}
    for one in corpus.scopes:
        metric = "none" if one.metric is None else repr(one.metric)
        metrics.setdefault(one.evaluation_name, []).append(metric)
    return metrics


def position_fields(old: ComparedCorpus, new: ComparedCorpus, by: Sequence[str]) -> tuple[str, ...]:
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


def _sample_fields(sort_fields: Sequence[str], by: Sequence[str]) -> tuple[str, ...]:
    """The leading sort fields to compare by: as few as name a sample, or all of them."""
    fields = tuple(takewhile(lambda field: field in by, sort_fields))
    return next(
        (fields[:end] for end in range(len(fields)) if _names_a_sample(fields[:end])), fields
    )


def _cuts(parts: Sequence[_Place], most_records: int) -> list[Position]:
    """The positions at which ranges begin, except for the first: starts of parts."""
    starts = sorted((part.first, part.file.entry.records) for part in parts)
    cuts: list[Position] = []
    records = 0
    for start, number in starts:
        begin = cuts[-1] if cuts else starts[0][0]
        if records + number > most_records and start > begin:
            cuts.append(start)
            records = 0
        records += number
    return cuts


def _within(
    parts: Sequence[_Place], low: Position | None, high: Position | None
) -> list[ChosenPart]:
    """The parts that may have records of a range."""
    parts = [part for part in parts if high is None or part.first < high]
    return [part.file for part in parts if low is None or part.last >= low]
