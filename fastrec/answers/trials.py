"""The records of a model for one question as trials, which several answers become one value by."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from fastrec.answers.codes import Array, by_key, rows_of
from fastrec.answers.records import ScopeRecords
from fastrec.judge.parse import decoded
from fastrec.schemas.view import encode_json
from fastrec.statistics.repeats import Trial, TrialFields
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.where import Record, said

_ANSWER_FIELDS = tuple(
    name for name in TRIAL_FIELDS if name != "filter"
)  # a filter reads an answer in its way


def read_trials(
    table: ScopeRecords, places: Array, *, texts: bool = True
) -> dict[tuple[int, int], list[Trial]]:
    """The records at some places, by question and model, both as codes.

    With `texts`, lines are read: several trials are in the order of their number, such as the
    epoch, and those without a number in the order of the corpus. Then a trial also has fingerprints
    of its output and of the extracted answer.
    """
    places = places[np.argsort(table.number[places], kind="stable")]
    columns = (table.question, table.model, table.flag, table.score)
    rows = rows_of(*(column[places] for column in columns))
    lines: Iterable[bytes | None] = repeat(None, len(places))
    if texts:
        lines = table.selection.lines(table.number[places])
    by_cell = by_key(
        ((question, model), _read_trial(flag, score, line))
        for (question, model, flag, score), line in zip(rows, lines, strict=True)
    )
    return {cell: _in_order(trials) for cell, trials in by_cell.items()}


def _read_trial(flag: int, score: float, line: bytes | None) -> tuple[Any, Trial]:
    """A trial, after what it is sorted by."""
    if line is None:
        return 0, Trial(flag, score, 0, 0)
    record = decoded(line)
    output = fingerprint(list(said(record)))
    attributions = record.get("answer_attribution") or ()
    extracted = [attribution["extracted_value"] for attribution in attributions]
    answer = fingerprint(extracted) if any(extracted) else output
    return _order(record), Trial(flag, score, answer, output, trial_of(record))


def _in_order(trials: list[tuple[Any, Trial]]) -> list[Trial]:
    if len(trials) == 1:
        trial = trials[0][1]
        return [trial._replace(answer=trial.output)]
    return [trial for _, trial in sorted(trials, key=itemgetter(0))]


def fingerprint(texts: Sequence[str]) -> int:
    """A number that tells some texts from others."""
    return xxh3_64_intdigest(encode_json(texts)[1:-1])


def trial_of(fields: Record, names: Sequence[str] = _ANSWER_FIELDS) -> TrialFields:
    """The fields of a record that say which of several answers it judges."""
    known = {**fields, **(fields.get("metadata") or {})}
    return tuple([(name, str(known[name])) for name in names if known.get(name) is not None])


def _order(fields: Record) -> tuple[bool, int, str]:
    _, text = next(iter(trial_of(fields, TRIAL_FIELDS)), ("", ""))
    text = text.removesuffix(".0")  # of a number
    return (False, int(text), "") if text.isdecimal() and len(text) < 20 else (True, 0, text)
