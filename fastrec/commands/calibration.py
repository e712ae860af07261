"""`calibration`: whether the confidence that answers state is how often they are right."""

from typing import Unpack

from fastrec.answers.calibration import find_calibration
from fastrec.answers.choosing import choose_scopes, open_index
from fastrec.filters import FilterArguments, make_filters
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.statistics.calibration import Calibration


class Calibrations(Tabular):
    """How well models know which of their answers are right."""

    #: By evaluation, metric and model.
    models: list[Calibration]


def calibration(
    corpus: AnyPath,
    *,
    confidence: str,
    metrics: str = "judgements",
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Calibrations:
    """Compare the confidence of answers with how often they are right.

    Args:
        corpus: A directory or URL that `normalize` published.
        confidence: A field of records with the confidence, such as `metadata.confidence`, or a
            metric whose scores are confidences; from 0 to 1, or with `:100` after it from 0 to 100.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: No answer has such a confidence, or a pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    by_name, by_record = make_filters(**filters).split()
    index = open_index(corpus, by_record, jobs=jobs, progress=progress)
    queries = [query for _, query in choose_scopes(index.scopes, by_name, metrics)]
    return Calibrations(find_calibration(index, confidence, queries))
