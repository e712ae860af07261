"""`leaderboard`: all models on the primary metrics of all evaluations."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Unpack

from fastrec.answers.board import Leaderboard
from fastrec.answers.choosing import open_index
from fastrec.answers.leaderboard import make_leaderboard
from fastrec.answers.selection import parse_groups
from fastrec.errors import UsageError, shown
from fastrec.filters import FilterArguments, Strings, as_tuple, make_filters
from fastrec.parameters import CORES, AnyPath, Notice
from fastrec.progress import Progress
from fastrec.toml_file import read_toml
from fastrec.where import GroupBy, ungrouped_name

_MOST_WEIGHT = 1e300  # so that sums are finite


def leaderboard(
    corpus: AnyPath,
    *,
    weights: Mapping[str, float] | AnyPath | None = None,
    weight_by: str | None = None,
    primary: Strings = (),
    min_coverage: float = 50.0,
    group_by: Strings = (),
    cluster: str | None = None,
    lower_is_better: Strings = (),
    jobs: int = CORES,
    progress: Progress | None = None,
    notice: Notice | None = None,
    **filters: Unpack[FilterArguments],
) -> Leaderboard:
    """Compare all models on the primary metrics of all evaluations.

    Args:
        corpus: A directory or URL that `normalize` published.
        weights: The weights of evaluations in the mean, by name: a dict, or a TOML file. Others
            have a weight of 1.
        weight_by: `questions` weights an evaluation by the number of its questions.
        primary: `EVALUATION=METRIC` for evaluations whose primary metric is another one; both may
            be patterns.
        min_coverage: The percentage of its questions that a model must have answered for an
            evaluation to count.
        group_by: Each group of records with the same value of a field is an evaluation of its own;
            as in `stats`.
        cluster: Intervals and tests are over clusters of questions with the same value of this
            field.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        notice: Receives notices for the user.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: An argument is wrong, or a pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    if weight_by not in (None, "questions"):
        raise UsageError(f"weight_by must be questions, not {weight_by!r}")
    if weight_by and weights is not None:
        raise UsageError("--weights and --weight-by cannot be combined")
    if not 0 <= min_coverage <= 100:
        raise UsageError(f"min_coverage must be between 0 and 100, not {min_coverage}")
    given = _weights(weights)
    note = notice or (lambda _message: None)
    wanted = make_filters(**filters)
    by_name, by_record = wanted.split()
    groups = parse_groups(group_by)
    index = open_index(
        corpus,
        wanted if groups else by_record,
        groups,
        lower_is_better=lower_is_better,
        cluster=cluster,
        jobs=jobs,
        progress=progress,
    )
    board = make_leaderboard(
        index,
        make_filters() if groups else by_name,
        primary=as_tuple("primary", primary),
        weights=given,
        weight_by=weight_by,
        min_coverage=min_coverage,
        name_of=partial(_name, groups=groups) if groups else str,
    )
    board.cluster = cluster
    board.damaged = index.selection.reader.damaged_files()
    for text in index.selection.notes:
        note(text)
    return board


def _name(evaluation: str, groups: Sequence[GroupBy]) -> str:
    name, values = ungrouped_name(evaluation, groups)
    return f"{name} [{', '.join(f'{field}: {value}' for field, value in values.items())}]"


def _weights(weights: Mapping[str, float] | AnyPath | None) -> dict[str, float]:
    """The weights by evaluation; a file has a line `"evaluation" = 2` for each."""
    given = {} if weights is None else weights
    where = "weights"
    if not isinstance(given, Mapping):
        where = shown(os.fspath(given))
        given = read_toml(os.fspath(given), "the weights")
    for name, value in given.items():
        if type(value) not in (int, float) or not 0 <= value < _MOST_WEIGHT:
            raise UsageError(
                f"{where}: the weight of {name!r} must be a number of at least 0, not {value!r}"
            )
    return {name: float(value) for name, value in given.items()}
