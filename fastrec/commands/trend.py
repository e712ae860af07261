"""`trend`: models over several corpora, such as those of successive nights."""

from typing import Unpack

from fastrec.answers.selection import parse_groups
from fastrec.engine import check_jobs
from fastrec.filters import FilterArguments, Paths, Strings, as_tuple, make_filters, several_paths
from fastrec.parameters import CORES
from fastrec.progress import Progress
from fastrec.trends import Trend, collect_trend


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
    return collect_trend(
        several_paths("corpora", corpora, *others),
        make_filters(**filters),
        parse_groups(group_by),
        cluster=cluster,
        metrics=metrics,
        lower_is_better=as_tuple("lower_is_better", lower_is_better),
        p=p,
        jobs=jobs,
        progress=progress,
    )
