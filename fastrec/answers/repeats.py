"""Several answers of one model to one question, such as epochs or trials: what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastrec.answers.transcript import Transcript
from fastrec.summary.contradictions import TRIAL_FIELDS

__all__ = ["tell_apart", "trial_of"]


def trial_of(evaluation_id: str, sample_id: int | str, transcript: Transcript) -> dict[str, str]:
    """Return what may tell a record from other records of its model and question: run, sample, epoch, trial, seed."""
    known = transcript.other | transcript.metadata
    named = {name: known[name] for name in TRIAL_FIELDS if name in known}
    return {"evaluation_id": evaluation_id, "sample_id": str(sample_id)} | named


def tell_apart(trials: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Leave out of each trial what all of them have in common.

    >>> tell_apart([{"run": "a", "epoch": "1"}, {"run": "a", "epoch": "2"}])
    [{'epoch': '1'}, {'epoch': '2'}]
    """
    common = {(name, value) for name, value in (trials[0] if trials else {}).items()
              if all(one.get(name) == value for one in trials)}  # fmt: skip
    return [{name: value for name, value in one.items() if (name, value) not in common} for one in trials]
