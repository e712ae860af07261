"""Logs of Inspect: `.eval`, a zip archive, and `.json`, one document. Inspect itself is not needed.

Plan a log: read its header and some samples, its scorers and aggregates, and cut its samples into
slices.

An entry of `results.scores` names a scorer, or a key of its scores if they are dicts. Whether it is
one or the other is told by scores that the log has: results that were recomputed after an edit name
keys as if they were scorers.

`accuracy` and `mean` are means, over samples, of the means over their epochs. If each sample has a
score in each epoch, that is the mean of all scores. Other reducers are applied to the scores of
each sample (`REDUCERS`).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from math import isfinite
from operator import itemgetter
from typing import Any

from msgspec.structs import asdict, replace

from fastrec.errors import LogError
from fastrec.harnesses.convert import REDUCERS, reducer_of
from fastrec.harnesses.files import open_plain
from fastrec.harnesses.inspect.files import (
    ARCHIVE,
    HEADERS,
    Archive,
    LogSlice,
    logged_samples,
    opened_archive,
    role_of,
    sample_members,
    samples,
)
from fastrec.harnesses.inspect.sample import OLD_SCORE, LoggedSample, Scorer, Scoring, scores_in
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.log import (
    Aggregate,
    Figures,
    Files,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    in_groups,
)
from fastrec.harnesses.metadata import row_of
from fastrec.harnesses.values import (
    Fields,
    JsonObject,
    LogObject,
    Names,
    OptionalInt,
    as_list,
    as_object,
    decoder,
    explaining,
    spelled,
)

__all__ = ["logs_of", "plan", "role_of", "samples"]


# The header is `header.json`, `_journal/start.json`, or the document without its samples.


class _Header(LogObject):
    eval: JsonObject
    version: int = 2
    status: str = "started"
    results: JsonObject | None = None
    error: JsonObject | None = None
    invalidated: Any = None


class Header(Fields):
    @property
    def expected_samples(self) -> OptionalInt:
        """The number of samples that the log should have.

        None if the run left out some that were planned.
        """
        results = self.object("results")
        is_partial = results["logged_samples"] is not None or results["early_stopping"] is not None
        is_known = self["status"] == "success" and not is_partial
        return results.count("total_samples") if is_known else None

    @property
    def entries(self) -> list[Fields]:
        """The aggregates of each scorer, or of each key of its scores, by one reducer."""
        results = self.object("results")
        if results["scores"] is None and results["scorer"] is not None:  # in logs of 2024
            name = results["scorer.name"]
            return [Fields(name=name, scorer=name, metrics=results["metrics"])]
        return results.objects("scores")

    @property
    def old_score_name(self) -> str:
        """The scorer of samples with `score` instead of `scores`."""
        return next((entry.text("name") for entry in self.entries), "") or OLD_SCORE


_decode_header = decoder(_Header)

_RECOVERED = "-recovered.eval"
_SHOWN = 200
# Reducers that do not change the score of a single epoch.
_SAME_FOR_ONE = ("", "mean", "median", "mode", "max")
_SAME_FOR_ALL = ("", "mean")


Seen = Mapping[str, Any]  # the scorers that a sample has scores of, each with its score


def _run_of(header: Header, seen: Seen) -> RunInfo:
    spec = header.object("eval")
    metadata = {
        "eval_id": spec["eval_id"],
        "run_id": spec["run_id"],
        "dataset": spec["dataset.name"],
    }
    lower = (
        _resolve(entry, seen)
        for entry in header.entries
        if any((row := row_of("inspect", name)) and row.lower for name in entry.object("metrics"))
    )
    return RunInfo(
        task=spec["task"],
        model=spec["model"],
        # Tasks that were started together have the same time.
        started="/".join(filter(None, (spec["created"], spec.text("task_id")))),
        version=spec.text("packages.inspect_ai"),
        metadata=spelled(metadata),
        lower_is_better=frozenset(f"{scorer}:{key}" if key else scorer for scorer, key in lower),
    )


def _notes_of(header: Header) -> list[str]:
    status = header["status"]
    if status in ("success", "started"):
        return ["the run did not finish"] if status == "started" else []
    message = " ".join(header.text("error.message").split())
    reason = f": {message[:_SHOWN]}" + ("…" if len(message) > _SHOWN else "") if message else ""
    return [f"the run ended with status {status}{reason}"]


def _scores_seen(samples: Iterable[LoggedSample], old_name: str) -> Seen:
    """The scorers of the first sample that has scores."""
    scores = next(filter(None, (scores_in(sample, old_name) for sample in samples)), {})
    return {name: score.value for name, score in scores.items()}


def _keys(seen: Seen, scorer: str) -> Names:
    value = seen.get(scorer)
    return tuple(value) if isinstance(value, dict) else ()


def _scorers_of(header: Header, seen: Seen) -> dict[str, Scorer]:
    """The scorers whose scores every sample should have."""
    keys: dict[str, list[str]] = {}
    for entry in header.entries:
        scorer, key = _resolve(entry, seen)
        known = keys.setdefault(scorer, [])
        if key and key not in known:
            known.append(key)
    if not keys:
        for declared in header.objects("eval.scorers"):
            name = declared.text("name").rpartition("/")[2]
            if not seen or name in seen:
                keys[name] = _declared_keys(declared["metrics"])
    keys = keys or {name: [] for name in seen}
    return {
        name: Scorer(name, tuple(own_keys) or _keys(seen, name), is_complete=bool(own_keys))
        for name, own_keys in keys.items()
    }


def figures_of(header: Header, seen: Seen) -> Figures:
    """The means that the records have to reproduce, and why the other figures are not compared."""
    means = []
    not_compared = {}
    epochs = header.count("eval.config.epochs") or 1
    for entry in header.entries:
        scorer, key = _resolve(entry, seen)
        metric = f"{scorer}:{key}" if key else scorer
        reducer = entry.text("reducer")
        for name, stated in entry.object("metrics").items():
            figure = as_object(stated)
            label = f"{metric}/{name}" + (f" ({reducer})" if reducer else "")
            reason = _why_not(figure, entry, header, epochs)
            if (
                not reason
                and not key
                and (_keys(seen, scorer) or isinstance(seen.get(scorer), list))
            ):
                reason = "the scores are dicts or lists, and it is a mean of something made of them"
            if reason:
                not_compared[label] = reason
            else:
                count = entry.count("scored_samples") if epochs == 1 else None
                same = _SAME_FOR_ONE if epochs == 1 else _SAME_FOR_ALL
                used = "" if reducer in same else reducer
                means.append(Aggregate(metric, label, float(figure["value"]), count, used))
    return means, not_compared


def _why_not(figure: Fields, entry: Fields, header: Header, epochs: int) -> str:
    """Say why a figure cannot be compared with the mean of all scores; empty if it can."""
    value = figure["value"]
    if not isinstance(value, int | float) or not isfinite(value):
        return "the log has no number for it"
    name = figure.text("name").removeprefix("inspect_ai/")
    if name not in ("accuracy", "mean") or figure["group"]:
        return f"{figure['group'] or name or 'it'} is not the mean of all scores"
    reducer = entry.text("reducer")
    if reducer not in _SAME_FOR_ALL and reducer_of(reducer)[0] not in REDUCERS:
        return f"the epochs are reduced by {reducer}"
    completed = header.count("results.completed_samples") or 0
    total = header.count("results.total_samples") or 0
    is_partial = entry["unscored_samples"] or completed < total
    if epochs > 1 and is_partial:
        return (
            "some samples lack scores of some epochs, so the mean of their means is not the "
            "mean of all scores"
        )
    return "the log has invalidated samples, which have no score here" * bool(header["invalidated"])


def _resolve(entry: Fields, seen: Seen) -> tuple[str, str]:
    """The scorer of an entry, and the key of its scores, which is empty if they are not dicts."""
    name = entry.text("name")
    scorer = entry.text("scorer") or name
    if name in seen:
        return name, ""
    owners = [owner for owner in seen if name in _keys(seen, owner)]
    if scorer in owners:
        return scorer, name
    if len(owners) == 1:
        return owners[0], name
    return (scorer, "") if name == scorer or "*" in name else (scorer, name)


def _declared_keys(metrics: Any) -> list[str]:
    """The keys that a task declares metrics for, unless they are patterns."""
    keys = []
    for group in as_list(metrics):
        keys += [key for key in as_object(group) if key not in ("name", "options")]
    has_patterns = any(letter in key for key in keys for letter in "*?[")
    return [] if has_patterns else keys


_SLICE_BYTES = 16 << 20
_LAST_VERSION = 3
_LOOK_AT = 32  # samples, to learn the names of scores


_decode_summaries = decoder(list[LogObject])  # they are only counted


def logs_of(files: Files) -> Grouped:
    """Each file is a log, except one that `inspect log recover` has copied into another."""
    copied = {file.path.replace(_RECOVERED, ".eval") for file in files if _RECOVERED in file.path}
    return Grouped(
        [Log("inspect", file.path, (file,)) for file in files if file.path not in copied]
    )


def plan(log: Log) -> LogPlan:
    file = log.files[0]
    return _plan_archive(file.path) if file.role == ARCHIVE else _plan_document(file.path)


def _plan_archive(path: str) -> LogPlan:
    with opened_archive(path) as archive:
        header, notes = _archived_header(path, archive)
        members, cut_short = sample_members(archive.members)
        summarized = _summarized_samples(archive)
    groups = in_groups(members, lambda sample: sample.size, _SLICE_BYTES)
    planned = _plan(path, header, [LogSlice(members=tuple(group)) for group in groups])
    return replace(
        planned,
        expected_samples=summarized
        if planned.expected_samples is None
        else planned.expected_samples,
        left_out={"a chunked sample without its sample.json": cut_short},
        notes=[*notes, *planned.notes],
    )


def _archived_header(path: str, archive: Archive) -> tuple[Header, list[str]]:
    for name, notes in HEADERS.items():
        if name in archive.members:
            return _decoded(path, f"its member {name}", archive.read(name)), notes
    raise LogError(
        path, "has neither header.json nor _journal/start.json, so it does not say what was run"
    )


def _summarized_samples(archive: Archive) -> OptionalInt:
    """Count the summaries of samples, which runs that did not finish have, too.

    None if they cannot be read.
    """
    names = [name for name in archive.members if name.startswith("_journal/summaries/")]
    if "summaries.json" in archive.members:
        names = ["summaries.json"]
    if not names:
        return None
    with suppress(LogError, ValueError):  # the samples themselves may be whole
        return sum(len(_decode_summaries(archive.read(name))) for name in names)
    return None


def _plan_document(path: str) -> LogPlan:
    with open_plain(path) as reader:
        array = JsonArray(path, reader.read, "samples")
        items = [(start, size) for start, size, _ in array.items()]
    header = _decoded(path, "it", array.envelope)
    return _plan(
        path,
        header,
        [LogSlice(items=tuple(group)) for group in in_groups(items, itemgetter(1), _SLICE_BYTES)],
    )


def _decoded(path: str, what: str, text: bytearray) -> Header:
    with explaining(path, f"{what} is not the header of a log"):
        header = Header(asdict(_decode_header(text)))
        given = {name for name, value in header["eval"].items() if isinstance(value, str)}
        if lacking := {"task", "model", "created"} - given:
            raise ValueError(f"it lacks `eval.{min(lacking)}`")
    version = header["version"]
    if not 1 <= version <= _LAST_VERSION:
        raise LogError(
            path,
            f"has version {version} of the log format, and fastrec knows up to {_LAST_VERSION}",
        )
    return header


def _plan(path: str, header: Header, slices: list[LogSlice]) -> LogPlan:
    logged = (sample for log_slice in slices for sample, _ in logged_samples(path, log_slice))
    seen = _scores_seen(islice(logged, _LOOK_AT), header.old_score_name)
    completed = header.count("results.completed_samples")
    counts_failed = completed is not None and any(
        sum(entry.count(f"{kind}scored_samples") or 0 for kind in ("", "un")) > completed
        for entry in header.entries
    )
    scoring = Scoring(_scorers_of(header, seen), header.old_score_name, counts_failed)
    means, not_compared = figures_of(header, seen)
    return LogPlan(
        run=_run_of(header, seen),
        slices=[replace(log_slice, scoring=scoring) for log_slice in slices],
        aggregates=means,
        not_compared=not_compared,
        expected_samples=header.expected_samples,
        notes=["the log has no samples"] * (not slices) + _notes_of(header),
    )
