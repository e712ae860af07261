"""Groups of records by the value of a field: each evaluation and metric once as a whole, and once for each group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from fastrec.corpus.manifest import read_manifest
from fastrec.corpus.scan import decode_lines, parts_of
from fastrec.errors import NoMatchError
from fastrec.filters import Filters
from fastrec.judge.parse import parse
from fastrec.limits import Limits
from fastrec.normalize.scratch import matching_corpus
from fastrec.progress import Progress
from fastrec.summary.present_choice import Chosen
from fastrec.summary.present_ranking import EvaluationStats
from fastrec.where import GroupBy, ungrouped_name, values_of, with_edges

_MOST_GROUPS: Final = 50  # of an evaluation and metric
_CHUNK_BYTES: Final = 1 << 20


@contextlib.contextmanager
def grouped_corpus(
    corpus: str,
    filters: Filters,
    groups: tuple[GroupBy, ...],
    *,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> Iterator[tuple[str, tuple[GroupBy, ...]]]:
    """Yield a corpus of the matching records, with each group as an evaluation; and the groups with their bins."""
    with matching_corpus(corpus, filters, jobs=jobs, progress=progress, limits=limits) as directory:
        groups = tuple(with_edges(one, _values(directory, one)) if one.bins else one for one in groups)
        grouped = matching_corpus(directory, Filters(), group_by=groups, jobs=jobs, progress=progress, limits=limits)
        with grouped as made:
            yield made, groups


def _values(corpus: str, group: GroupBy) -> list[Any]:
    """The first value of the field in each record that has one."""
    found: list[Any] = []
    manifest = read_manifest(corpus)
    for part in parts_of(corpus, manifest):
        for records, _ in decode_lines(part, lambda line: parse(line)[0], _CHUNK_BYTES, manifest.sort_fields):
            for record in records:
                found.extend(islice(values_of(record, group.path), 1))
    return found


def with_directions_of(
    totals: Sequence[EvaluationStats], grouped: Sequence[Chosen], groups: Sequence[GroupBy]
) -> list[Chosen]:
    """Give each group the direction of its evaluation and metric, which an option may have set."""
    lower = {(one.evaluation_name, one.metric) for one in totals if one.lower_is_better}
    for one in grouped:
        name, _ = ungrouped_name(one.evaluation.evaluation_name, groups)
        if (name, one.evaluation.metric) in lower:
            one.evaluation = msgspec.structs.replace(one.evaluation, lower_is_better=True, graded=True)
    return list(grouped)


def with_groups(
    totals: Sequence[EvaluationStats],
    grouped: Sequence[EvaluationStats],
    groups: Sequence[GroupBy],
    notice: Callable[[str], None],
) -> list[EvaluationStats]:
    """Each evaluation and metric, followed by its groups, the largest first.

    Raises:
        NoMatchError: No record has any of the fields.
    """
    by_scope: dict[tuple[str, str | None], list[EvaluationStats]] = {}
    has_values = False
    for one in grouped:
        one.evaluation_name, one.group = ungrouped_name(one.evaluation_name, groups)
        has_values = has_values or any(value is not None for value in one.group.values())
        by_scope.setdefault((one.evaluation_name, one.metric), []).append(one)
    if not has_values:
        raise NoMatchError(f"no record has the field {' or '.join(group.field for group in groups)}")
    found = []
    for total in totals:
        parts = sorted(by_scope.get((total.evaluation_name, total.metric), ()), key=lambda one: -one.records)
        if len(parts) > _MOST_GROUPS:
            notice(f"{total.title}: the {_MOST_GROUPS} largest of {len(parts):,} groups are shown")
        for part in parts:
            part.metrics = total.metrics
        found += [total, *parts[:_MOST_GROUPS]]
    return found
