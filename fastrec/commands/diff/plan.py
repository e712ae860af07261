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

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

import msgspec
import numpy as np

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import Selection
from fastrec.answers.table import Query
from fastrec.commands.diff.compare import CompareTask, ModelName, Scope
from fastrec.commands.diff.records import ChosenPart
from fastrec.corpus.manifest import MANIFEST, Manifest, skipped_lines
from fastrec.corpus.scan import Position, SplitHashes, position_maker
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.filters import Filters
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


class ComparedCorpus(msgspec.Struct):
    path: str
    manifest: Manifest
    parts: list[ChosenPart]
    schema: Schema
    models: dict[ModelName, ModelSummary]
    graded: frozenset[Scope]  # what has scores other than 0 and 1
    other_scale: frozenset[Scope]  # metrics with mean scores below 0 or above 1
    lower: frozenset[Scope]  # metrics whose records say that lower scores are better
    split: SplitHashes
    notes: list[str]  # about clusters of questions


class _Place(NamedTuple):
    first: Position
    last: Position
    file: ChosenPart


class Plan(msgspec.Struct):
    tasks: list[CompareTask]
    by: tuple[str, ...]
    fields: tuple[str, ...]  # the fields that identify a question of a model
    skipped: int  # parts that are the same in both corpora
    notices: list[str]


def read_corpus(
    whole: Selection, filters: Filters, *, allow_empty: bool, cluster: str | None = None
) -> ComparedCorpus:
    """Read the documents of a corpus, and select its matching records.

    Unless `allow_empty`, there must be some. With `cluster`, find the clusters of questions.
    """
    selection = whole.filtered(filters, allow_empty=allow_empty)
    if cluster and selection.scopes:
        selection.set_clusters(cluster)
    parts = []
    for number, part in enumerate(selection.parts):
        chosen = None
        if not selection.is_whole:
            chosen = np.packbits(selection.scope_codes(number) >= 0).tobytes()
        columns = selection.reader.columns_path(number)
        clusters = b""
        if selection.clusters is not None:
            clusters = selection.clusters[slice(*selection.starts[number : number + 2])].tobytes()
        parts.append(ChosenPart(part.path, part.entry, columns, chosen, clusters))
    index = QuestionTable(selection)
    models: dict[ModelName, ModelSummary] = {}
    split: set[tuple[str, str | None, str]] = set()
    for evaluation in index.evaluations:
        scope = (evaluation.evaluation_name, evaluation.metric)
        for model in evaluation.by_model:
            models[*scope, model.model_id] = model
        if evaluation.split_hashes:
            table = index.table(Query(evaluation_name=scope[0], metric=scope[1]))
            split.update((*scope, sample_hash) for sample_hash in table.split_hashes())
    return ComparedCorpus(
        path=selection.corpus,
        manifest=selection.manifest,
        parts=parts,
        schema=CORPUS_LABELS[selection.manifest.schema],
        models=models,
        graded=_scopes_with("graded", index),
        other_scale=_scopes_with("other_scale", index),
        lower=_scopes_with("lower_is_better", index),
        split=frozenset(split),
        notes=selection.notes,
    )


def _scopes_with(fact: str, index: QuestionTable) -> frozenset[Scope]:
    found = [one for one in index.evaluations if getattr(one, fact)]
    return frozenset((one.evaluation_name, one.metric) for one in found)


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


def _fields_of(old: ComparedCorpus, new: ComparedCorpus, by: tuple[str, ...]) -> tuple[str, ...]:
    """The fields to compare by, with the metric if records name one.

    UsageError if schema versions differ.
    """
    if old.schema is not new.schema:
        versions = list(CORPUS_LABELS.values())  # the oldest first
        earlier, later = sorted((old, new), key=lambda corpus: versions.index(corpus.schema))
        raise UsageError(
            f"{shown(old.path)} has records of schema {old.schema.name} and {shown(new.path)} of "
            f"{new.schema.name}: "
            "their hashes differ. Upgrade the earlier version with `fastrec normalize "
            f"{shown(earlier.path)} -o "
            f"UPGRADED --schema {later.schema.name}`, and compare UPGRADED"
        )
    if METRIC in old.schema.sort_fields:
        return (*(field for field in by if field != METRIC), METRIC)
    if METRIC in by:
        raise UsageError(
            f"records of schema {old.schema.name} have no {METRIC}: they cannot be compared by it"
        )
    return by


def make_plan(
    old: ComparedCorpus,
    new: ComparedCorpus,
    by: tuple[str, ...],
    scored: frozenset[Scope],
    *,
    errors_as_wrong: bool,
    examples: int,
) -> Plan:
    """Check that two corpora can be compared, and cut the work into ranges."""
    by = _fields_of(old, new, by)
    fields = _position_fields(old, new, by)
    bound_fields = fields
    if any(_has_long_id(part) for part in (*old.parts, *new.parts)):
        bound_fields = tuple(takewhile(lambda field: field != "sample_id", fields))
    position_of = position_maker(bound_fields)
    places = [
        [
            _Place(position_of(part.entry.first), position_of(part.entry.last), part)
            for part in corpus.parts
        ]
        for corpus in (old, new)
    ]
    for corpus, parts in zip((old, new), places, strict=True):
        if any(before.last > after.first for before, after in pairwise(parts)):
            raise CorpusError(join(corpus.path, MANIFEST), "does not list its parts in sort order")
    cuts = _cuts([*places[0], *places[1]], current_limits().diff_range_records)
    tasks = [
        CompareTask(
            old=_within(places[0], *bounds),
            new=_within(places[1], *bounds),
            bounds=bounds,
            bound_fields=bound_fields,
            fields=fields,
            by=by,
            scored=scored,
            errors_as_wrong=errors_as_wrong,
            # A hash that is split in one corpus is split in both here.
            split=old.split | new.split,
            examples=examples,
        )
        for bounds in pairwise([None, *cuts, None])
    ]
    texts, other_texts = (
        {part.entry.text_xxh3_128 for part in corpus.parts} for corpus in (old, new)
    )
    notices = []
    ours = old.manifest.fastrec
    theirs = new.manifest.fastrec
    if ours != theirs:
        versions = f"fastrec {ours} made OLD and fastrec {theirs} made NEW"
        notices.append(
            f"{versions}: values that the two versions write differently count as changed"
        )
    for name, corpus in (("OLD", old), ("NEW", new)):
        if skipped := skipped_lines(corpus.manifest.skipped):
            notices.append(f"{name} is {skipped[0]} {'; '.join(map(str.strip, skipped[1:]))}")
    notices += _metric_notices(old, new)
    return Plan(
        tasks if old.parts or new.parts else [], by, fields, len(texts & other_texts), notices
    )


def _has_long_id(part: ChosenPart) -> bool:
    ids = (part.entry.first.sample_id, part.entry.last.sample_id)
    return any(isinstance(sample_id, str) and len(sample_id) > _LONGEST_ID for sample_id in ids)


def _metric_notices(old: ComparedCorpus, new: ComparedCorpus) -> Iterator[str]:
    """Yield a notice for each evaluation of both corpora that has no metric in common."""
    ours, theirs = (_metrics_of(corpus) for corpus in (old, new))
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name].keys().isdisjoint(theirs[name]):
            first, second = (", ".join(metrics[name]) for metrics in (ours, theirs))
            yield (
                f"{name!r} has no metric in common, so nothing of it is compared: OLD has {first}, "
                f"NEW has {second}"
            )


def _metrics_of(corpus: ComparedCorpus) -> dict[str, dict[str, None]]:
    """The metrics of each evaluation, as they are shown."""
    metrics: dict[str, dict[str, None]] = {}
    for evaluation, metric, _ in corpus.models:
        metrics.setdefault(evaluation, {})["none" if metric is None else repr(metric)] = None
    return metrics


def _position_fields(
    old: ComparedCorpus, new: ComparedCorpus, by: Sequence[str]
) -> tuple[str, ...]:
    """The fields of a position; UsageError if hashes or sort orders do not allow a merge."""
    algorithm = old.manifest.options.get("hash")
    other = new.manifest.options.get("hash")
    if algorithm != other and "sample_hash" in by:
        raise UsageError(
            f"{shown(old.path)} has {algorithm} hashes and {shown(new.path)} has {other} hashes: "
            "normalize one of them "
            f"again, for example with `fastrec normalize {shown(new.path)} -o NEW "
            f"--hash-algorithm {algorithm}`"
        )
    ours, theirs = (_sample_fields(corpus.manifest.sort_fields, by) for corpus in (old, new))
    if ours != theirs:
        order = ",".join(old.manifest.sort_fields)
        raise UsageError(
            f"{shown(old.path)} and {shown(new.path)} have different sort orders: normalize one "
            "of them again, "
            f"for example with `fastrec normalize {shown(new.path)} -o NEW --sort-by {order}`"
        )
    if not _names_a_sample(ours):
        first = ",".join(field for field in by if field != "sample_hash" or "sample_id" not in by)
        raise UsageError(
            f"corpora sorted by {', '.join(old.manifest.sort_fields)} cannot be compared by "
            f"{', '.join(by)}: normalize "
            f"both again, for example with `fastrec normalize {shown(old.path)} -o OLD --sort-by "
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
