"""`trend`: models over several corpora, such as those of successive nights."""

from functools import partial
from typing import Unpack

from fastrec.answers.selection import parse_groups, select_same_bins
from fastrec.engine import check_jobs
from fastrec.filters import FilterArguments, Paths, Strings, as_tuple, make_filters, several_paths
from fastrec.parameters import CORES
from fastrec.progress import Progress
from fastrec.trends import (
    EvaluationTrend,
    Trend,
    adjusted,
    collect_trend,
    find_corpora,
    follow_groups,
)
from fastrec.where import largest_groups, with_groups


def trend(
    corpora: Paths,
    *others: Paths,
    group_by: Strings = (),
    cluster: str | None = None,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    p: float = 0.05,
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Trend:
    """Follow models over several corpora, and find the changes that are more than chance.

    Args:
        corpora: Directories or URLs that `normalize` published, in order; or directories of such
            directories, which are taken in the order of their names.
        *others: More of them, which come after these.
        group_by: Also follow the models on groups of records, as in `stats`. Bins are the same in
            all corpora.
        cluster: Tests are over clusters of questions with the same value of this field.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        p: A change is significant if its adjusted p-value is below this.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: A path is not a corpus and has none, or a pattern matches nothing.
        CorpusError: A file of a corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    check_jobs(jobs)
    wanted = make_filters(**filters)
    by_name, by_record = wanted.split()
    lower = as_tuple("lower_is_better", lower_is_better)
    paths = several_paths("corpora", corpora, *others)
    groups = parse_groups(group_by)
    selected = partial(select_same_bins, cluster=cluster, jobs=jobs, progress=progress)
    matching = partial(selected, filters=by_record, groups=())
    found = collect_trend(
        paths, filters=by_name, matching=matching, metrics=metrics, lower_is_better=lower, p=p
    )
    found.cluster = cluster
    if not groups:
        return found
    names, places = zip(*find_corpora(paths)[0], strict=True)
    parts = follow_groups(names, selected(places, wanted, groups), lower_is_better=lower)
    numbers = {(one.evaluation_name, one.metric): one.metrics for one in found.evaluations}
    shown = largest_groups(found.evaluations, parts, groups, _records, found.notices.append)
    found.evaluations = with_groups(found.evaluations, shown, groups)
    for one in found.evaluations:
        one.metrics = numbers[one.evaluation_name, one.metric]
    return adjusted(found)


def _records(evaluation: EvaluationTrend) -> int:
    return sum(point.records for model in evaluation.models for point in model.points)
