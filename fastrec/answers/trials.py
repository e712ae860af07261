"""The records of a model for one question as trials, which several answers become one value by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

from fastrec.answers.records import ERROR, ScopeRecords
from fastrec.answers.selection import Array, Selection
from fastrec.answers.transcript import decoded
from fastrec.statistics.repeats import Trial, TrialFields
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.where import said

_ANSWER_FIELDS: Final = tuple(
    name for name in TRIAL_FIELDS if name != "filter"
)  # a filter reads an answer in its way


def read_trials(
    selection: Selection, table: ScopeRecords, places: Array, *, texts: bool
) -> dict[tuple[int, str], list[Trial]]:
    """The records at some places, in ascending order of their numbers, by question and model.

    With `texts`, lines are read: several trials are in the order of their number, such as the
    epoch, and those without a number in the order of the corpus. Then a trial also has fingerprints
    of its output and of the extracted answer.
    """
    questions = table.question[places].tolist()
    models = table.model[places].tolist()
    flags = table.flag[places].tolist()
    scores = table.score[places].tolist()
    keys = list(zip(questions, models, strict=True))
    found: dict[tuple[int, int], list[tuple[Any, Trial]]] = {key: [] for key in keys}
    if texts:
        for key, flag, score, line in zip(
            keys, flags, scores, selection.lines(table.number[places]), strict=True
        ):
            record = decoded(line)
            output = fingerprint(list(said(record)))
            extracted = [one["extracted_value"] for one in record.get("answer_attribution") or ()]
            answer = fingerprint(extracted) if any(extracted) else output
            found[key].append(
                (_order(record), Trial(flag, score, answer, output, trial_of(record)))
            )
    else:
        for key, flag, score in zip(keys, flags, scores, strict=True):
            found[key].append((0, Trial(flag, score, 0, 0)))
    by_model = {}
    for (question, model), trials in found.items():
        if len(trials) > 1:
            trials.sort(key=lambda one: one[0])
            by_model[question, table.models[model]] = [trial for _, trial in trials]
        else:
            by_model[question, table.models[model]] = [_alone(trials[0][1])]
    return by_model


def _alone(trial: Trial) -> Trial:
    """The only record of a model: what was extracted from it, and the score of an error, do not matter."""
    score = 0.0 if trial.flag == ERROR else trial.score
    return trial._replace(answer=trial.output, score=score)


def fingerprint(texts: Sequence[str]) -> int:
    """A number that tells some texts from others."""
    return xxh3_64_intdigest(msgspec.json.encode(texts)[1:-1])


def trial_of(fields: Mapping[str, Any]) -> TrialFields:
    """The fields of a record that say which of several answers it judges."""
    known = {**fields, **(fields.get("metadata") or {})}
    return tuple([(name, str(known[name])) for name in _ANSWER_FIELDS if name in known])


def _order(fields: Mapping[str, Any]) -> tuple[bool, int, str]:
    known = {**fields, **(fields.get("metadata") or {})}
    text = next((str(known[name]) for name in TRIAL_FIELDS if name in known), "")
    return (False, int(text), "") if text.isdecimal() and len(text) < 20 else (True, 0, text)
