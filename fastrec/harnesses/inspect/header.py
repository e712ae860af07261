"""What a log says about its run: task, model and start, its scorers, and its aggregates.

An entry of `results.scores` names a scorer, or a key of its scores if they are dicts. Whether it is one or the other is
told by scores that the log has: results that were recomputed after an edit name keys as if they were scorers.

`accuracy` and `mean` are means, over samples, of the means over their epochs. If each sample has a score in each epoch,
that is the mean of all scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fastrec.harnesses.inspect.header_structs import Entry, Header, Metric, Results
from fastrec.harnesses.inspect.sample_structs import LoggedSample
from fastrec.harnesses.inspect.scores import OLD_SCORE, Scorer, Scoring, scores_in
from fastrec.harnesses.log import Aggregate, RunInfo
from fastrec.harnesses.values import decoder

__all__ = ["Figures", "decode_header", "figures_of", "notes_of", "old_score_name", "run_of", "scores_seen"]
__all__ += ["scoring_of"]

decode_header: Final = decoder(Header)

_SHOWN: Final = 200
_MEANS: Final = ("accuracy", "mean")
_SAME_FOR_ONE: Final = (None, "", "mean", "median", "mode", "max")
"""Reducers that do not change the score of a single epoch."""
_SAME_FOR_ALL: Final = (None, "", "mean")


class Shape(msgspec.Struct, frozen=True):
    """What the scores of a scorer look like."""

    keys: tuple[str, ...] = ()
    """Their keys, if they are dicts."""
    is_list: bool = False


Seen = Mapping[str, Shape]
"""The scorers that a sample has scores of."""


_PLAIN: Final = Shape()


class Figures(msgspec.Struct, frozen=True):
    """The aggregates of a log."""

    means: list[Aggregate]
    not_compared: dict[str, str]


def run_of(header: Header) -> RunInfo:
    """Return what all records of a log have in common."""
    spec = header.eval
    dataset = spec.dataset.name if spec.dataset else None
    metadata = {"eval_id": spec.eval_id, "run_id": spec.run_id, "dataset": dataset}
    return RunInfo(
        task=spec.task,
        model=spec.model,
        started=spec.created,
        version=str((spec.packages or {}).get("inspect_ai", "")),
        metadata={name: value for name, value in metadata.items() if value},
    )


def notes_of(header: Header) -> list[str]:
    """Return what a user should know about a run."""
    if header.status in ("success", "started"):
        return ["the run did not finish"] if header.status == "started" else []
    message = " ".join(header.error.message.split()) if header.error else ""
    reason = f": {message[:_SHOWN]}" + ("…" if len(message) > _SHOWN else "") if message else ""
    return [f"the run ended with status {header.status}{reason}"]


def old_score_name(header: Header) -> str:
    """Return the name of the scorer of samples with `score` instead of `scores`."""
    entries = _entries(header.results)
    return entries[0].name or OLD_SCORE if entries else OLD_SCORE


def scores_seen(samples: Iterable[LoggedSample], old_name: str) -> Seen:
    """Return the scorers of the first sample that has scores."""
    for sample in samples:
        if scores := scores_in(sample, old_name):
            return {name: _shape(score.value) for name, score in scores.items()}
    return {}


def _shape(value: Any) -> Shape:
    return Shape(tuple(value) if isinstance(value, dict) else (), isinstance(value, list))


def scoring_of(header: Header, seen: Seen) -> Scoring:
    """Return how the samples of a log are scored."""
    results = header.results
    completed = results.completed_samples if results else None
    counts_failed = completed is not None and any(
        (entry.scored_samples or 0) + (entry.unscored_samples or 0) > completed for entry in _entries(results)
    )
    return Scoring(_scorers_of(header, seen), old_score_name(header), counts_failed)


def _scorers_of(header: Header, seen: Seen) -> dict[str, Scorer]:
    """Return the scorers whose scores every sample should have."""
    keys: dict[str, list[str]] = {}
    for entry in _entries(header.results):
        scorer, key = _resolve(entry, seen)
        known = keys.setdefault(scorer, [])
        if key and key not in known:
            known.append(key)
    if not keys:
        for declared in header.eval.scorers or ():
            name = declared.name.rpartition("/")[2]
            if not seen or name in seen:
                keys[name] = _declared_keys(declared.metrics)
    return {
        name: Scorer(name, tuple(some) or seen.get(name, _PLAIN).keys, is_complete=bool(some))
        for name, some in keys.items()
    }


def figures_of(header: Header, seen: Seen) -> Figures:
    """Return the means that the records have to reproduce, and why the other figures are not compared."""
    figures = Figures([], {})
    results = header.results
    epochs = (header.eval.config.epochs if header.eval.config else None) or 1
    for entry in _entries(results):
        assert results is not None
        scorer, key = _resolve(entry, seen)
        metric = f"{scorer}:{key}" if key else scorer
        for name, figure in entry.metrics.items():
            label = f"{metric}/{name}" + (f" ({entry.reducer})" if entry.reducer else "")
            reason = _why_not(figure, entry, results, epochs)
            if not reason and header.invalidated:
                reason = "the log has invalidated samples, which have no score here"
            shape = _PLAIN if key else seen.get(scorer, _PLAIN)
            if not reason and (shape.keys or shape.is_list):
                reason = "the scores are dicts or lists, and it is a mean of something made of them"
            if reason:
                figures.not_compared[label] = reason
            else:
                count = entry.scored_samples if epochs == 1 else None
                figures.means.append(Aggregate(metric, label, float(figure.value), count))
    return figures


def _why_not(figure: Metric, entry: Entry, results: Results, epochs: int) -> str:
    """Return why a figure cannot be compared with the mean of all scores; empty if it can."""
    value = figure.value
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "the log has no number for it"
    name = figure.name.removeprefix("inspect_ai/")
    if name not in _MEANS or figure.group:
        return f"{figure.group or name or 'it'} is not the mean of all scores"
    if entry.reducer not in (_SAME_FOR_ONE if epochs == 1 else _SAME_FOR_ALL):
        return f"the epochs are reduced by {entry.reducer}"
    is_partial = bool(entry.unscored_samples) or (results.completed_samples or 0) < (results.total_samples or 0)
    if epochs > 1 and is_partial:
        return "some samples lack scores of some epochs, so the mean of their means is not the mean of all scores"
    return ""


def _entries(results: Results | None) -> list[Entry]:
    if results is None:
        return []
    if results.scores is None and results.scorer is not None:
        name = results.scorer.name
        return [Entry(name=name, scorer=name, metrics=results.metrics or {})]
    return results.scores or []


def _resolve(entry: Entry, seen: Seen) -> tuple[str, str]:
    """Return the scorer of an entry, and the key of its scores, which is empty if they are not dicts."""
    if entry.name in seen:
        return entry.name, ""
    if entry.name in seen.get(entry.scorer, _PLAIN).keys:
        return entry.scorer, entry.name
    owners = [scorer for scorer, shape in seen.items() if entry.name in shape.keys]
    if len(owners) == 1:
        return owners[0], entry.name
    scorer = entry.scorer or entry.name
    return (scorer, "") if entry.name == scorer or "*" in entry.name else (scorer, entry.name)


def _declared_keys(metrics: Any) -> list[str]:
    """Return the keys that a task declares metrics for, unless they are patterns."""
    groups = metrics if isinstance(metrics, list) else [metrics]
    keys = [key for group in groups if isinstance(group, dict) for key in group if key not in ("name", "options")]
    return [] if any(letter in key for key in keys for letter in "*?[") else keys
