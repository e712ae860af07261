"""`trend`: models over several corpora, such as those of successive nights."""

from __future__ import annotations

from fastrec.engine import check_jobs
from fastrec.filters import Paths, Strings, as_tuple, make_filters, several_paths
from fastrec.limits import current_limits
from fastrec.progress import Progress
from fastrec.trends import Trend, collect_trend


def trend(
    corpora: Paths,
    *,
    evaluation: Strings = (),
    metric: Strings = (),
    model: Strings = (),
    exclude_evaluation: Strings = (),
    exclude_model: Strings = (),
    metrics: str = "judgements",
    lower_is_better: Strings = (),
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
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower scores are better.
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
    paths = several_paths("corpora", corpora)
    return collect_trend(
        paths,
        filters=filters,
        metrics=metrics,
        lower_is_better=as_tuple("lower_is_better", lower_is_better),
        p=p,
        jobs=jobs,
        progress=progress,
        limits=limits,
    )
