"""`items`: which questions of an evaluation are good, and how well all of them tell models apart.

`answers.items` analyses each evaluation and metric.
"""

import os
from collections.abc import Sequence
from typing import Unpack

from fastrec.answers.choosing import open_scopes
from fastrec.answers.items import EvaluationItems
from fastrec.errors import UsageError
from fastrec.filters import FilterArguments, Strings, make_filters
from fastrec.notebook import Rows, Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.statistics.items import FEWEST_MODELS
from fastrec.storage.local import check_new_file, write_file
from fastrec.summary.document import scope_rows


class Items(Tabular):
    """What scores say about the questions of a corpus."""

    #: By evaluation and metric.
    evaluations: list[EvaluationItems]

    def rows(self) -> Rows:
        """A row for each question of each evaluation and metric."""
        return scope_rows(self.evaluations, "questions")


def items(
    corpus: AnyPath,
    output: AnyPath | None = None,
    *,
    overwrite: bool = False,
    subset: int | None = None,
    seed: int = 0,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Items:
    """Tell which questions are good, for each evaluation and metric.

    Args:
        corpus: A directory or URL that `normalize` published.
        output: A file for the questions of the subset, which the filter `questions` reads.
        overwrite: Replace an existing file.
        subset: Also choose this many questions that stand for all of them.
        seed: Of the random numbers of permutations and subsets.
        metrics: Which metrics to show if none is chosen by name: `judgements`, or `all`.
        lower_is_better: Patterns of metrics whose lower scores are better.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Which records count (`FilterArguments`).

    Raises:
        UsageError: A pattern matches nothing, the file exists, or an evaluation has too many
            models and questions.
    """
    chosen = make_filters(**filters)
    if subset is not None and subset < 1:
        raise UsageError("subset must be at least 1")
    if output is not None:
        if subset is None:
            raise UsageError("an output needs a subset")
        check_new_file(os.fspath(output), overwrite=overwrite)
    index, scopes = open_scopes(
        corpus,
        chosen,
        metrics=metrics,
        lower_is_better=lower_is_better,
        jobs=jobs,
        progress=progress,
    )
    evaluations = [index.items(query, subset=subset, seed=seed) for _, query in scopes]
    if subset is not None and not any(scope.subset for scope in evaluations):
        raise UsageError(
            f"no evaluation has a subset of {subset:,}: that takes {FEWEST_MODELS} models with "
            "nearly all questions, and more questions that all of them answered"
        )
    if output is not None:
        _write_subsets(evaluations, os.fspath(output))
    return Items(evaluations=evaluations)


def _write_subsets(evaluations: Sequence[EvaluationItems], path: str) -> None:
    """Write the questions of subsets to a file, a hash on each line, as `--questions` reads it."""
    lines = []
    for scope in evaluations:
        if scope.subset:
            lines.append(f"# {len(scope.subset.questions):,} questions of {scope.evaluation_name}")
            lines += scope.subset.questions
    write_file(path, "\n".join([*lines, ""]).encode(errors="surrogatepass"))
