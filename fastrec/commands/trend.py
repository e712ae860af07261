"""`trend`: models over several corpora, such as those of successive nights."""

from __future__ import annotations

from pathlib import Path

from fastrec.engine import check_jobs
from fastrec.filters import Paths, Strings, make_filters, several_paths
from fastrec.limits import current_limits
from fastrec.normalize.scratch import grouped_corpora, parse_groups
from fastrec.progress import Progress
from fastrec.trends import EvaluationTrend, Trend, adjusted, collect_trend, find_corpora, follow_groups
from fastrec.where import with_groups


def trend(
    corpora: Paths,
    *,
    evaluation: Strings = (),
    metric: Strings = (),
    model: Strings = (),
    exclude_evaluation: Strings = (),
    exclude_model: Strings = (),
    group_by: Strings = (),
    p: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Trend:
    """Follow models over several corpora, and find the changes that are more than chance.

    Args:
        corpora: Directories or URLs that `normalize` published, in order; or directories of such directories, which are
            taken in the order of their names.
        evaluation: Only evaluations whose name matches this shell-style pattern, or one of these.
        metric: Only metrics (`evaluation_result_id`) that match this pattern, or one of these.
        model: Only models whose id matches this pattern, or one of these.
        exclude_evaluation: Leave out evaluations that match.
        exclude_model: Leave out models that match.
        group_by: Also follow the models on groups of records, as in `stats`. Bins are the same in all corpora.
        p: A change is significant if its adjusted p-value is below this.
        jobs: Processes to use for building an index.
        progress: Receives the progress of building indexes.

    Raises:
        UsageError: A path is not a corpus and has none, or a pattern matches nothing.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    limits = current_limits()
    check_jobs(jobs)
    filters = make_filters(
        evaluation=evaluation,
        metric=metric,
        model=model,
        exclude_evaluation=exclude_evaluation,
        exclude_model=exclude_model,
    )
    paths, groups = several_paths("corpora", corpora), parse_groups(group_by)
    found = collect_trend(paths, filters=filters, p=p, jobs=jobs, progress=progress, limits=limits)
    if not groups:
        return found
    names, directories = zip(*find_corpora(paths)[0], strict=True)
    with grouped_corpora(
        directories, filters, groups, jobs=jobs, allow_empty=True, progress=progress, limits=limits
    ) as made:
        # The indexes of grouped records are kept next to them, since all are removed afterwards.
        cache = Path(made[0]).with_name("index")
        parts = follow_groups(
            list(zip(names, made, strict=True)), cache=cache, jobs=jobs, progress=progress, limits=limits
        )
    metrics = {(one.evaluation_name, one.metric): one.metrics for one in found.evaluations}
    found.evaluations = with_groups(found.evaluations, parts, groups, _records, found.notices.append)
    for one in found.evaluations:
        one.metrics = metrics[one.evaluation_name, one.metric]
    return adjusted(found)


def _records(evaluation: EvaluationTrend) -> int:
    return sum(point.records for model in evaluation.models for point in model.points)
