"""`trend`: models over several corpora, such as those of successive nights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Unpack

from fastrec.corpus.manifest import read_manifest
from fastrec.engine import check_jobs
from fastrec.filters import FilterArguments, Paths, Strings, as_tuple, make_filters, several_paths
from fastrec.normalize.scratch import grouped_corpora, matching_corpus, parse_groups
from fastrec.progress import Progress
from fastrec.trends import EvaluationTrend, Trend, adjusted, collect_trend, find_corpora, follow_groups
from fastrec.where import largest_groups, with_groups


def trend(
    corpora: Paths,
    *,
    group_by: Strings = (),
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    p: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Trend:
    """Follow models over several corpora, and find the changes that are more than chance.

    Args:
        corpora: Directories or URLs that `normalize` published, in order; or directories of such directories, which are
            taken in the order of their names.
        group_by: Also follow the models on groups of records, as in `stats`. Bins are the same in all corpora.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower scores are better.
        p: A change is significant if its adjusted p-value is below this.
        jobs: Processes to use for building an index.
        progress: Receives the progress of building indexes.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: A path is not a corpus and has none, or a pattern matches nothing.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    check_jobs(jobs)
    reading: dict[str, Any] = {"jobs": jobs, "progress": progress}
    wanted = make_filters(**filters)
    by_name, by_record = wanted.split()
    lower = as_tuple("lower_is_better", lower_is_better)
    paths, groups = several_paths("corpora", corpora), parse_groups(group_by)
    with ExitStack() as stack:

        def matching(paths: Sequence[str]) -> list[str]:
            """Make corpora of the matching records; it is an error if all of them are empty."""
            made: list[str] = []
            for path in paths:
                allow_empty = len(made) + 1 < len(paths) or any(read_manifest(one).records for one in made)
                made.append(stack.enter_context(matching_corpus(path, by_record, allow_empty=allow_empty, **reading)))
            return made

        found = collect_trend(
            paths, filters=by_name, matching=matching, metrics=metrics, lower_is_better=lower, p=p, **reading
        )
        if not groups:
            return found
        named = find_corpora(paths)[0]
        grouped = grouped_corpora([path for _, path in named], wanted, groups, allow_empty=True, **reading)
        parts = follow_groups(named, stack.enter_context(grouped), lower_is_better=lower, **reading)
    numbers = {(one.evaluation_name, one.metric): one.metrics for one in found.evaluations}
    shown = largest_groups(found.evaluations, parts, groups, _records, found.notices.append)
    found.evaluations = with_groups(found.evaluations, shown, groups)
    for one in found.evaluations:
        one.metrics = numbers[one.evaluation_name, one.metric]
    return adjusted(found)


def _records(evaluation: EvaluationTrend) -> int:
    return sum(point.records for model in evaluation.models for point in model.points)
