"""Groups of records by the value of a field: each evaluation and metric once as a whole, and once for each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fastrec.errors import NoMatchError
from fastrec.summary.present_choice import Chosen
from fastrec.summary.present_ranking import EvaluationStats
from fastrec.where import GroupBy, ungrouped_name

_MOST_GROUPS: Final = 50  # of an evaluation and metric


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
