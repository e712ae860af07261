"""`corrected`: scores of a grader, corrected by the labels of people.

    labels ──▶ the answers that they are about ──▶ label minus grader, by question ──▶ corrected
    mean and interval of each model (`statistics.corrected`)

A model with several answers to a question counts with their mean, as in `stats`. `propose` writes
a labels file to fill in: a random sample in which every answer is equally likely.
"""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Unpack

import numpy as np

from fastrec.answers.choosing import open_scopes
from fastrec.answers.codes import Array, count_of, is_there
from fastrec.answers.records import ScopeRecords
from fastrec.answers.selection import Selection
from fastrec.answers.table import Scope
from fastrec.answers.trials import trial_of
from fastrec.errors import UsageError, shown
from fastrec.filters import FilterArguments, make_filters
from fastrec.judge.parse import decoded
from fastrec.normalize.corrections import GivenFile, Labeller, count_unfilled, new_verdict
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.schema import JsonObject
from fastrec.schemas.view import encode_json
from fastrec.sorting.keys import METRIC
from fastrec.statistics.corrected import correct_mean
from fastrec.statistics.intervals import OptionalNumber
from fastrec.storage.local import check_new_file, write_file
from fastrec.summary.document import ScopeNames, filled
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.where import said

_LONGEST = 2_000  # characters of a text in a line to fill in
_ORIGINAL = {"original_score", "original_is_correct"}


class CorrectedModel(ScopeNames):
    """The score of a model by the grader, and as people would judge."""

    #: The model.
    model_id: str
    #: Whether these are mean scores; else they are shares of right answers.
    graded: bool
    #: Questions that it answered.
    questions: int
    #: Questions with a label.
    labels: int
    #: The score by the grader.
    raw: float
    #: The estimate of the score by people; null with fewer than two labels, and so are `low`,
    #: `high` and `to_halve`.
    corrected: OptionalNumber
    #: Lower end of the 95 % interval.
    low: OptionalNumber
    #: Upper end of the 95 % interval.
    high: OptionalNumber
    #: How many labels in all halve the interval.
    to_halve: int | None


class Corrections(Tabular):
    """Scores of models, corrected by labels."""

    #: By evaluation, metric and model.
    models: list[CorrectedModel]
    #: Whether the labels of all models of an evaluation and metric correct each of them.
    pooled: bool
    #: Labels in the file; several for an answer count once.
    labels: int = 0
    #: Labels that match no chosen answer, or lack a score where scores count.
    unused: int = 0
    #: Lines of the file without a verdict.
    unfilled: int = 0
    #: Lines that were written to be filled in.
    proposed: int = 0


def corrected(
    corpus: AnyPath,
    output: AnyPath | None = None,
    *,
    overwrite: bool = False,
    labels: AnyPath | None = None,
    pooled: bool = False,
    propose: int | None = None,
    seed: int = 0,
    metrics: str = "judgements",
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Corrections:
    """Correct the scores of a grader by the labels of people.

    Args:
        corpus: A directory or URL that `normalize` published, without these labels.
        output: The file for `propose`.
        overwrite: Replace an existing file.
        labels: A file of labels, as `normalize` reads it. They must be about answers that were
            chosen at random, such as those of `propose`.
        pooled: Correct each model by the labels of all models of its evaluation and metric, as if
            the grader erred on all of them alike.
        propose: Write so many lines to fill in, about answers without a label.
        seed: Another one gives another sample.
        metrics: Which metrics to use if none is chosen by name: `judgements`, or `all`.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The labels are wrong, the output exists, or a pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    wanted = make_filters(**filters)
    if labels is None and propose is None:
        raise UsageError("give --labels, or --propose N to choose answers to label")
    if (propose is None) != (output is None):
        raise UsageError("--propose needs a file for the lines, -o FILE")
    target = os.fspath(output or "")
    check_new_file(target, overwrite=overwrite)
    file = None if labels is None else GivenFile.at(os.fspath(labels))
    labeller = file and Labeller(file)
    index, scopes = open_scopes(corpus, wanted, metrics=metrics, jobs=jobs, progress=progress)
    models: list[CorrectedModel] = []
    used = set[Any]()
    unlabelled = [np.zeros(0, np.int64)]
    for scope, query in scopes:
        table = index.table(query)
        is_wanted = index.chosen(query) & table.is_answer
        if labeller:
            labelled = _find_labelled(
                table, is_wanted, labeller, used, "score" if scope.graded else "is_correct"
            )
            models += _correct_models(scope, table, is_wanted, labelled, pooled=pooled)
            is_wanted[list(labelled)] = False
        unlabelled.append(_order_for_sampling(table, is_wanted, seed))
    corrections = Corrections(models=models, pooled=pooled)
    if file and labeller:
        corrections.labels = len(labeller.labels)
        corrections.unused = corrections.labels - len(used)
        corrections.unfilled = count_unfilled(file)
    if propose is not None:
        numbers = _sample(np.concatenate(unlabelled), propose, seed)
        graded = {(scope.evaluation_name, scope.metric) for scope, _ in scopes if scope.graded}
        _write_lines(index.selection, numbers, target, graded)
        corrections.proposed = len(numbers)
    return corrections


def _find_labelled(
    table: ScopeRecords, is_wanted: Array, labeller: Labeller, used: set[Any], field: str
) -> dict[int, float]:
    """By position of a labelled answer in a scope: what the label gives, minus the grader.

    Only records are read whose model and question have a label.
    """
    is_named = np.isin(table.models, [label.model for label in labeller.labels.values()])
    places = [
        place
        for place in np.flatnonzero(is_wanted & is_named[table.model]).tolist()
        if labeller.change_of(_names_of(table, place))
    ]
    lines = table.selection.lines(table.number[places])
    differences = {}
    for place, line in zip(places, lines, strict=True):
        record = decoded(line)
        if label := labeller.label_of(record):
            metadata = record.get("metadata") or {}
            if _ORIGINAL & metadata.keys() and "scored_by" not in metadata:
                raise UsageError(
                    f"{shown(table.selection.corpus)} has the verdicts of labels: give the "
                    "corpus from before `normalize --labels`, which has those of the grader"
                )
            verdict = record["evaluation"]
            value = new_verdict(label, verdict).get(field)
            if value is not None:
                differences[place] = float(value) - float(verdict[field])
                used.add(label.answer)
    return differences


def _names_of(table: ScopeRecords, place: int) -> SimpleNamespace:
    """The names of an answer, as a record has them."""
    return SimpleNamespace(
        evaluation_name=table.name[0],
        model_id=table.models[table.model[place]],
        sample_hash=table.hashes[table.question[place]],
        sample_id=table.sample_ids.value(place),
    )


def _correct_models(
    scope: Scope,
    table: ScopeRecords,
    is_wanted: Array,
    labelled: dict[int, float],
    *,
    pooled: bool,
) -> Iterator[CorrectedModel]:
    """Correct the models of a scope, question by question."""
    cells = table.cells
    values = cells.score if scope.graded else cells.share
    of_label = cells.place[list(labelled)]
    number = count_of(of_label, len(values))
    sums = np.bincount(of_label, list(labelled.values()), len(values))
    differences = sums / np.maximum(number, 1)
    is_answered = is_there(cells.place[is_wanted], len(values))
    given = table.score[list(labelled)] + list(labelled.values()) if scope.graded else ()
    known = np.append(values[is_answered], given)
    for code, model in enumerate(table.models):
        is_own = cells.model == code
        graded = values[is_answered & is_own]
        if len(graded):
            yield filled(
                CorrectedModel,
                scope,
                correct_mean(graded, differences[(number > 0) & (is_own | pooled)], known),
                model_id=model,
                questions=len(graded),
                labels=int((is_own & (number > 0)).sum()),
                raw=float(graded.mean()),
            )


def _order_for_sampling(table: ScopeRecords, is_wanted: Array, seed: int) -> Array:
    """The numbers of some answers by model and verdict, else in random order."""
    places = np.flatnonzero(is_wanted)
    chance = np.random.default_rng(seed).random(len(places))
    order = np.lexsort((chance, table.flag[places], table.model[places]))
    return table.number[places[order]]


def _sample(numbers: Array, most: int, seed: int) -> Array:
    """Take answers at equal distances, from a random start.

    So every answer is equally likely, and each model and verdict has its share, up to one answer.
    """
    most = min(most, len(numbers))
    start = np.random.default_rng(seed).random()
    places = (start + np.arange(most)) * len(numbers) / max(most, 1)
    return np.sort(numbers[places.astype(np.int64)])


def _write_lines(selection: Selection, numbers: Array, path: str, graded: set[Any]) -> None:
    """Write lines to fill in, without the verdicts of the grader, which might sway a person."""
    lines = [encode_json(_line_of(decoded(line), graded)) for line in selection.lines(numbers)]
    write_file(path, b"".join(line + b"\n" for line in lines))


def _line_of(record: JsonObject, graded: set[Any]) -> JsonObject:
    """A label without a verdict; of graded evaluations and metrics, without a score."""
    scope = record["evaluation_name"], record.get(METRIC)
    asked = record["input"]
    return {
        "evaluation": scope[0],
        "model": record["model_id"],
        "question": record["sample_hash"],
        "sample_id": record["sample_id"],
        "metric": scope[1],
        "trial": dict(trial_of(record, ("evaluation_id", *TRIAL_FIELDS))),
        "score" if scope in graded else "is_correct": None,
        "text": {
            "input": asked["raw"][:_LONGEST],
            "references": asked["reference"],
            "answer": "\n".join(said(record))[-_LONGEST:],
        },
    }
