r"""Planning a comparison: can the two corpora be compared, and which ranges of positions does each task get?

    sort order   evaluation_name · sample_hash · model_id · evaluation_id · sample_id · the record's bytes
    compare by   evaluation_name · sample_hash · model_id ·                 sample_id
                 \__________ position ___________/                 \_ rest _/

The leading sort fields that name an evaluation, a model and a sample are a record's *position*. Both corpora are sorted
by it, so they can be merged. The records of one model for one question have one position. The rest distinguishes them.

If records name a metric (`evaluation_result_id`), it is the last sort field, and always one to compare by. Records of a
position may then belong to several *scopes*: an evaluation with one of its metrics. Each scope is compared by itself.

Ranges begin where parts begin. They do not depend on the number of jobs, so neither does the result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, takewhile
from typing import Final

import msgspec

from fastrec.commands.diff.merge import CompareTask
from fastrec.commands.diff.questions import ModelName, Scope
from fastrec.corpus.manifest import MANIFEST, Manifest, read_manifest, read_summary, skipped_lines
from fastrec.corpus.scan import PartFile, Position, PositionOf, SplitHashes, find_split_hashes, parts_of, position_maker
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.limits import current_limits
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC, METRIC_FIELDS
from fastrec.storage import join, storage_of
from fastrec.summary.document import ModelSummary

BY: Final = ("evaluation_name", "sample_hash", "model_id", "sample_id")
"""The fields to compare by if none are given: the whole sort key except the run, which is new every night. The metric
is always compared by, where records name one."""

_RANGES: Final = 16  # enough to keep many workers busy


class Corpus(msgspec.Struct):
    path: str
    manifest: Manifest
    parts: list[PartFile]
    schema: Schema
    models: dict[ModelName, ModelSummary]
    metrics: dict[str, list[str | None]]  # the metrics of each evaluation; None for records that name none
    graded: frozenset[Scope]  # what has scores other than 0 and 1
    lower: frozenset[Scope]  # metrics whose records say that lower scores are better
    one_id_per_hash: bool  # whether in each evaluation, every sample_hash has one sample_id, and the other way round
    split: SplitHashes


class Plan(msgspec.Struct):
    tasks: list[CompareTask]
    by: tuple[str, ...]
    fields: tuple[str, ...]  # the fields that identify a question of a model
    read_all: bool
    text_bytes: int  # text of the parts to read
    skipped: int
    notices: list[str]


def read_corpus(directory: str, path: str, *, jobs: int) -> Corpus:
    """Read the documents of a corpus; `path` is what the user gave, and `directory` may have only matching records."""
    manifest = read_manifest(directory)
    parts = parts_of(directory, manifest)
    summary = read_summary(directory, manifest)
    models: dict[ModelName, ModelSummary] = {}
    metrics: dict[str, list[str | None]] = {}
    for evaluation in summary.evaluations:
        metrics.setdefault(evaluation.evaluation_name, []).append(evaluation.metric)
        for model in evaluation.by_model:
            models[evaluation.evaluation_name, evaluation.metric, model.model_id] = model
    graded, lower = (
        frozenset((each.evaluation_name, each.metric) for each in summary.evaluations if getattr(each, name))
        for name in ("graded", "lower_is_better")
    )
    one_id_per_hash = not any(each.ids_with_many_hashes or each.hashes_with_many_ids for each in summary.evaluations)
    split = find_split_hashes(parts, manifest, summary.evaluations, jobs=jobs)
    schema = CORPUS_LABELS[manifest.schema]
    return Corpus(path, manifest, parts, schema, models, metrics, graded, lower, one_id_per_hash, split)


def check_by(by: Sequence[str]) -> tuple[str, ...]:
    """The fields to compare by in the default sort order; UsageError if they do not identify a sample."""
    for field in by:
        if field not in METRIC_FIELDS:
            raise UsageError(f"records cannot be compared by {field!r}; the fields are {', '.join(METRIC_FIELDS)}")
    if not _names_a_sample(by):
        raise UsageError(
            "records must be compared by evaluation_name, model_id and at least one of sample_hash and sample_id, not "
            f"by {', '.join(by) or 'nothing'}"
        )
    return tuple(field for field in METRIC_FIELDS if field in by)


def _names_a_sample(fields: Sequence[str]) -> bool:
    return {"evaluation_name", "model_id"} <= set(fields) and bool({"sample_hash", "sample_id"} & set(fields))


def _fields_of(old: Corpus, new: Corpus, by: tuple[str, ...]) -> tuple[str, ...]:
    """The fields to compare by, with the metric if records name one; UsageError if schema versions differ."""
    if old.schema is not new.schema:
        versions = list(CORPUS_LABELS.values())  # the oldest first
        earlier, later = sorted((old, new), key=lambda corpus: versions.index(corpus.schema))
        raise UsageError(
            f"{shown(old.path)} has records of schema {old.schema.name} and {shown(new.path)} of {new.schema.name}: "
            f"their hashes differ. Upgrade the earlier version with `fastrec normalize {shown(earlier.path)} -o "
            f"UPGRADED --schema {later.schema.name}`, and compare UPGRADED"
        )
    if METRIC in old.schema.sort_fields:
        return (*(field for field in by if field != METRIC), METRIC)
    if METRIC in by:
        raise UsageError(f"records of schema {old.schema.name} have no {METRIC}: they cannot be compared by it")
    return by


def make_plan(
    old: Corpus, new: Corpus, by: tuple[str, ...], scored: frozenset[Scope], *, errors_as_wrong: bool, examples: int
) -> Plan:
    """Check that two corpora can be compared, and cut the work into ranges."""
    by = _fields_of(old, new, by)
    fields = _position_fields(old, new, by)
    # The summaries count the questions of a sample_hash. A hash that is split in one corpus is split in both here.
    split = old.split | new.split
    one_id_per_hash = "evaluation_id" not in fields and old.one_id_per_hash and new.one_id_per_hash
    by_hash = {*fields} - {METRIC} == {"evaluation_name", "sample_hash", "model_id"}
    read_all = bool(split) or (not by_hash and not one_id_per_hash)
    same = set() if read_all else _same_parts(old.parts, new.parts, position_maker(fields))
    olds, news = _parts_to_read(old, same), _parts_to_read(new, same)
    # Ranges are cut by the fields before `sample_id`: in the manifest a huge integer is a string.
    cut_fields = tuple(takewhile(lambda field: field != "sample_id", fields))
    position_of = position_maker(cut_fields)
    for corpus, parts in ((old, olds), (new, news)):
        if any(position_of(low.entry.last) > position_of(high.entry.first) for low, high in pairwise(parts)):
            raise CorpusError(join(corpus.path, MANIFEST), "does not list its parts in sort order")

    def within(parts: list[PartFile], low: Position | None, high: Position | None) -> list[PartFile]:
        parts = [part for part in parts if high is None or position_of(part.entry.first) < high]
        return [part for part in parts if low is None or position_of(part.entry.last) >= low]

    cuts = _cuts(olds, news, position_of, current_limits().diff_range_parts) if cut_fields else []
    rest = tuple(field for field in by if field not in (*fields, METRIC))
    tasks = [
        CompareTask(
            old=within(olds, *bounds),
            new=within(news, *bounds),
            bounds=bounds,
            fields=fields,
            rest=rest,
            by_metric=METRIC in by and METRIC not in fields,
            scored=scored,
            errors_as_wrong=errors_as_wrong,
            read_all=read_all,
            split=split,
            examples=examples,
        )
        for bounds in pairwise([None, *cuts, None])
    ]
    text_bytes = sum(part.entry.text_bytes for part in (*olds, *news))
    notices = []
    ours, theirs = old.manifest.fastrec, new.manifest.fastrec
    if ours != theirs:
        versions = f"fastrec {ours} made OLD and fastrec {theirs} made NEW"
        notices.append(f"{versions}: values that the two versions write differently count as changed")
    for name, corpus in (("OLD", old), ("NEW", new)):
        if skipped := skipped_lines(corpus.manifest.skipped):
            notices.append(f"{name} is {skipped[0]} {'; '.join(map(str.strip, skipped[1:]))}")
    notices += _metric_notices(old, new)
    return Plan(tasks if olds or news else [], by, fields, read_all, text_bytes, len(same), notices)


def _metric_notices(old: Corpus, new: Corpus) -> Iterator[str]:
    """Yield a notice for each evaluation that has no metric in common, although both corpora have it."""
    for name in sorted(old.metrics.keys() & new.metrics.keys()):
        if set(old.metrics[name]).isdisjoint(new.metrics[name]):
            ours, theirs = (
                ", ".join("none" if metric is None else repr(metric) for metric in corpus.metrics[name])
                for corpus in (old, new)
            )
            yield f"{name!r} has no metric in common, so nothing of it is compared: OLD has {ours}, NEW has {theirs}"


def _same_parts(olds: Sequence[PartFile], news: Sequence[PartFile], position_of: PositionOf) -> set[str]:
    """The checksums of parts that are the same in both corpora and can be skipped.

    A question may have records on both sides of a border between parts. If one of these parts has to be read, so has
    the other.
    """
    same = {part.entry.text_xxh3_128 for part in olds} & {part.entry.text_xxh3_128 for part in news}
    borders = [
        {part.entry.text_xxh3_128 for part in pair}
        for parts in (olds, news)
        for pair in pairwise(parts)
        if position_of(pair[0].entry.last) == position_of(pair[1].entry.first)
    ]
    while torn := [border & same for border in borders if border & same and not border <= same]:
        same.difference_update(*torn)
    return same


def _position_fields(old: Corpus, new: Corpus, by: Sequence[str]) -> tuple[str, ...]:
    """The fields of a position; UsageError if hashes or sort orders do not allow a merge."""
    algorithm, other = old.manifest.options.get("hash"), new.manifest.options.get("hash")
    if algorithm != other and "sample_hash" in by:
        raise UsageError(
            f"{shown(old.path)} has {algorithm} hashes and {shown(new.path)} has {other} hashes: normalize one of them "
            f"again, for example with `fastrec normalize {shown(new.path)} -o NEW --hash-algorithm {algorithm}`"
        )
    ours, theirs = (_sample_fields(corpus.manifest.sort_fields, by) for corpus in (old, new))
    if ours != theirs:
        order = ",".join(old.manifest.sort_fields)
        raise UsageError(
            f"{shown(old.path)} and {shown(new.path)} have different sort orders: normalize one of them again, "
            f"for example with `fastrec normalize {shown(new.path)} -o NEW --sort-by {order}`"
        )
    if not _names_a_sample(ours):
        first = ",".join(field for field in by if field != "sample_hash" or "sample_id" not in by)
        raise UsageError(
            f"corpora sorted by {', '.join(old.manifest.sort_fields)} cannot be compared by {', '.join(by)}: normalize "
            f"both again, for example with `fastrec normalize {shown(old.path)} -o OLD --sort-by {first}`"
        )
    return ours


def _sample_fields(sort_fields: Sequence[str], by: Sequence[str]) -> tuple[str, ...]:
    """The leading sort fields to compare by: as few as name a sample, or all of them."""
    fields = tuple(takewhile(lambda field: field in by, sort_fields))
    return next((fields[:end] for end in range(len(fields)) if _names_a_sample(fields[:end])), fields)


def _parts_to_read(corpus: Corpus, same: set[str]) -> list[PartFile]:
    """The parts that are not the same in both corpora; of the others only the size is checked."""
    for part in corpus.parts:
        if part.entry.text_xxh3_128 in same and storage_of(part.path).size_of(part.path) != part.entry.bytes:
            raise CorpusError(part.path, f"does not have the {part.entry.bytes:,} bytes that {MANIFEST} lists")
    return [part for part in corpus.parts if part.entry.text_xxh3_128 not in same]


def _cuts(olds: list[PartFile], news: list[PartFile], position_of: PositionOf, range_parts: int) -> list[Position]:
    """The positions at which ranges begin: the start of every n-th part of OLD, or of the next part of NEW.

    A range also reads what comes before it in the part of the other corpus in which it begins. Of two nights, parts
    begin at about the same positions. A cut where the second of the two begins avoids reading most of it twice.
    """
    cuts = set()
    starts, other_starts = _shares(olds), _shares(news)
    other_firsts = [position_of(part.entry.first) for part in news]
    for number in range(0, len(olds), max(range_parts, -(-len(olds) // _RANGES)))[1:]:
        cut = position_of(olds[number].entry.first)
        following = bisect_left(other_firsts, cut)
        if 0 < following < len(news) and starts[number] * 2 > other_starts[following - 1] + other_starts[following]:
            cut = other_firsts[following]
        cuts.add(cut)
    return sorted(cuts)


def _shares(parts: Sequence[PartFile]) -> list[float]:
    """The share of the text that comes before each part."""
    ends = list(accumulate((part.entry.text_bytes for part in parts), initial=0))
    return [start / ends[-1] for start in ends[:-1]]
