"""Logs of Inspect: `.eval`, a zip archive, and `.json`, one document. Inspect itself is not needed.

Plan a log: read its header and some samples, its scorers and aggregates, and cut its samples into slices.

An entry of `results.scores` names a scorer, or a key of its scores if they are dicts. Whether it is one or the other is
told by scores that the log has: results that were recomputed after an edit name keys as if they were scorers.

`accuracy` and `mean` are means, over samples, of the means over their epochs. If each sample has a score in each epoch,
that is the mean of all scores. Other reducers are applied to the scores of each sample (`REDUCERS`).

A slice is members of an archive, or items of a JSON document. A chunked sample has several members.
`sample.json` is the sample without its messages; `messages/N.json` is the part of the sequence of all messages that
begins with message N, and `message_refs` says which of them the sample has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.convert import REDUCERS, reducer_of
from fastrec.harnesses.inspect.files import ARCHIVE, Archive, directory_of, logs_of, role_of, unpack_members
from fastrec.harnesses.inspect.messages import Attachments
from fastrec.harnesses.inspect.sample import OLD_SCORE, Parts, Scorer, Scoring, sample_of, scores_in
from fastrec.harnesses.inspect.structs import (
    Entry,
    Header,
    LoggedMessage,
    LoggedSample,
    Metric,
    Results,
    SampleAttachments,
    SampleEvents,
    SlowSample,
)
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.log import Aggregate, Log, LogPlan, RunInfo, Sample
from fastrec.harnesses.metadata import row_of
from fastrec.harnesses.values import REFUSALS, decoder, open_plain, read_at

__all__ = ["logs_of", "plan", "role_of", "samples"]

_decode_header: Final = decoder(Header)

_SHOWN: Final = 200
_SAME_FOR_ONE: Final = (None, "", "mean", "median", "mode", "max")
"""Reducers that do not change the score of a single epoch."""
_SAME_FOR_ALL: Final = (None, "", "mean")


Seen = Mapping[str, Any]  # the scorers that a sample has scores of, each with its score


def _run_of(header: Header, seen: Seen) -> RunInfo:
    spec = header.eval
    dataset = spec.dataset.name if spec.dataset else None
    metadata = {"eval_id": spec.eval_id, "run_id": spec.run_id, "dataset": dataset}
    return RunInfo(
        task=spec.task,
        model=spec.model,
        started=spec.created,
        version=str((spec.packages or {}).get("inspect_ai", "")),
        metadata={name: value for name, value in metadata.items() if value},
        lower_is_better=frozenset(_lower_is_better(header, seen)),
    )


def _lower_is_better(header: Header, seen: Seen) -> Iterator[str]:
    for entry in _entries(header.results):
        scorer, key = _resolve(entry, seen)
        if any((row := row_of("inspect", name)) and row.lower for name in entry.metrics):
            yield f"{scorer}:{key}" if key else scorer


def _notes_of(header: Header) -> list[str]:
    if header.status in ("success", "started"):
        return ["the run did not finish"] if header.status == "started" else []
    message = " ".join(header.error.message.split()) if header.error else ""
    reason = f": {message[:_SHOWN]}" + ("…" if len(message) > _SHOWN else "") if message else ""
    return [f"the run ended with status {header.status}{reason}"]


def _old_score_name(header: Header) -> str:
    entries = _entries(header.results)
    return entries[0].name or OLD_SCORE if entries else OLD_SCORE


def _scores_seen(samples: Iterable[LoggedSample], old_name: str) -> Seen:
    """The scorers of the first sample that has scores."""
    for sample in samples:
        if scores := scores_in(sample, old_name):
            return {name: score.value for name, score in scores.items()}
    return {}


def _keys(seen: Seen, scorer: str) -> tuple[str, ...]:
    value = seen.get(scorer)
    return tuple(value) if isinstance(value, dict) else ()


def _scoring_of(header: Header, seen: Seen) -> Scoring:
    results = header.results
    completed = results.completed_samples if results else None
    counts_failed = completed is not None and any(
        (entry.scored_samples or 0) + (entry.unscored_samples or 0) > completed for entry in _entries(results)
    )
    return Scoring(_scorers_of(header, seen), _old_score_name(header), counts_failed)


def _scorers_of(header: Header, seen: Seen) -> dict[str, Scorer]:
    """The scorers whose scores every sample should have."""
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
    return {name: Scorer(name, tuple(some) or _keys(seen, name), is_complete=bool(some)) for name, some in keys.items()}


def figures_of(header: Header, seen: Seen) -> tuple[list[Aggregate], dict[str, str]]:
    """The means that the records have to reproduce, and why the other figures are not compared."""
    means: list[Aggregate] = []
    not_compared: dict[str, str] = {}
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
            if not reason and not key and (_keys(seen, scorer) or isinstance(seen.get(scorer), list)):
                reason = "the scores are dicts or lists, and it is a mean of something made of them"
            if reason:
                not_compared[label] = reason
            else:
                count = entry.scored_samples if epochs == 1 else None
                reducer = "" if entry.reducer in (_SAME_FOR_ONE if epochs == 1 else _SAME_FOR_ALL) else entry.reducer
                means.append(Aggregate(metric, label, float(figure.value), count, reducer or ""))
    return means, not_compared


def _why_not(figure: Metric, entry: Entry, results: Results, epochs: int) -> str:
    """Say why a figure cannot be compared with the mean of all scores; empty if it can."""
    value = figure.value
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "the log has no number for it"
    name = figure.name.removeprefix("inspect_ai/")
    if name not in ("accuracy", "mean") or figure.group:
        return f"{figure.group or name or 'it'} is not the mean of all scores"
    if entry.reducer not in _SAME_FOR_ALL and reducer_of(str(entry.reducer))[0] not in REDUCERS:
        return f"the epochs are reduced by {entry.reducer}"
    is_partial = bool(entry.unscored_samples) or (results.completed_samples or 0) < (results.total_samples or 0)
    if epochs > 1 and is_partial:
        return "some samples lack scores of some epochs, so the mean of their means is not the mean of all scores"
    return ""


def _entries(results: Results | None) -> list[Entry]:
    if results is None:
        return []
    if results.scores is None and results.scorer is not None:
        name = results.scorer.name or ""
        return [Entry(name=name, scorer=name, metrics=results.metrics or {})]
    return results.scores or []


def _resolve(entry: Entry, seen: Seen) -> tuple[str, str]:
    """The scorer of an entry, and the key of its scores, which is empty if they are not dicts."""
    if entry.name in seen:
        return entry.name, ""
    if entry.name in _keys(seen, entry.scorer):
        return entry.scorer, entry.name
    owners = [scorer for scorer in seen if entry.name in _keys(seen, scorer)]
    if len(owners) == 1:
        return owners[0], entry.name
    scorer = entry.scorer or entry.name
    return (scorer, "") if entry.name == scorer or "*" in entry.name else (scorer, entry.name)


def _declared_keys(metrics: Any) -> list[str]:
    """The keys that a task declares metrics for, unless they are patterns."""
    groups = metrics if isinstance(metrics, list) else [metrics]
    keys = [key for group in groups if isinstance(group, dict) for key in group if key not in ("name", "options")]
    return [] if any(letter in key for key in keys for letter in "*?[") else keys


_SLICE_BYTES: Final = 16 << 20
_LAST_VERSION: Final = 3
_LOOK_AT: Final = 32  # samples, to learn the names of scores


class _Summary(msgspec.Struct):
    """One sample in a list of summaries; they are only counted."""


_decode_summary: Final = decoder(_Summary)
_decode_summaries: Final = decoder(list[_Summary])


def plan(log: Log) -> LogPlan:
    file = log.files[0]
    return _plan_archive(file.path) if file.role == ARCHIVE else _plan_document(file.path)


def _plan_archive(path: str) -> LogPlan:
    directory = directory_of(path)
    header, notes = _archived_header(path, directory)
    members, cut_short = sample_members(directory)
    slices = [LogSlice(members=tuple(some)) for some in _slices(members, lambda one: one.size)]
    planned = _plan(path, header, notes, slices)
    left_out = {"a chunked sample without its sample.json": cut_short} if cut_short else {}
    expected = planned.expected_samples
    expected = _summarized_samples(path, directory) if expected is None else expected
    return msgspec.structs.replace(planned, expected_samples=expected, left_out=left_out)


def _archived_header(path: str, directory: dict[str, bytes]) -> tuple[Header, list[str]]:
    for name, notes in (("header.json", []), ("_journal/start.json", ["the log has no header.json"])):
        if name in directory:
            (text,) = _texts_of(path, directory[name])
            return _decoded(path, f"its member {name}", text), notes
    raise LogError(path, "has neither header.json nor _journal/start.json, so it does not say what was run")


def _texts_of(path: str, members: bytes) -> Iterator[bytes | bytearray]:
    with open_plain(path) as reader:
        archive = Archive(path, reader)
        yield from map(archive.read, unpack_members(members))


def _summarized_samples(path: str, directory: dict[str, bytes]) -> int | None:
    """Count the summaries of samples, which runs that did not finish have, too; None if they cannot be read."""
    names = [name for name in directory if name.startswith("_journal/summaries/")]
    if "summaries.json" in directory:
        names = ["summaries.json"]
    if not names:
        return None
    texts = _texts_of(path, b"".join(directory[name] for name in names))
    try:
        return sum(len(_decode_summaries(memoryview(text))) for text in texts)
    except (LogError, ValueError):
        return None  # the samples themselves may be whole


def _plan_document(path: str) -> LogPlan:
    with open_plain(path) as reader:
        array = JsonArray(path, reader.read, "samples")
        items = [(start, size) for start, size, _ in array.items(_check_item)]
    header = _decoded(path, "it", array.envelope)
    slices = [LogSlice(items=tuple(some)) for some in _slices(items, lambda one: one[1])]
    return _plan(path, header, [], slices)


def _check_item(text: memoryview) -> None:
    """Raise ValueError if a text is not the whole of an item."""
    try:
        _decode_skipped(text)
    except REFUSALS:
        _decode_summary(_finite(text))


def _decoded(path: str, what: str, text: bytes | bytearray) -> Header:
    try:
        header = _decode_header(memoryview(text))
    except ValueError as exc:
        raise LogError(path, f"{what} is not the header of a log: {exc}") from exc
    if not 1 <= header.version <= _LAST_VERSION:
        raise LogError(path, f"has version {header.version} of the log format, and fastrec knows up to {_LAST_VERSION}")
    return header


def _plan(path: str, header: Header, notes: list[str], slices: list[LogSlice]) -> LogPlan:
    found = (sample for one in slices for sample, _ in _logged_samples(path, one))
    seen = _scores_seen(islice(found, _LOOK_AT), _old_score_name(header))
    scoring = _scoring_of(header, seen)
    means, not_compared = figures_of(header, seen)
    if not slices:
        notes = [*notes, "the log has no samples"]
    return LogPlan(
        run=_run_of(header, seen),
        slices=[msgspec.structs.replace(one, scoring=scoring) for one in slices],
        aggregates=means,
        not_compared=not_compared,
        expected_samples=header.expected_samples,
        notes=[*notes, *_notes_of(header)],
    )


def _slices(items: Iterable[Any], size_of: Any) -> Iterator[list[Any]]:
    run: list[Any] = []
    size = 0
    for item in items:
        run.append(item)
        size += size_of(item)
        if size >= _SLICE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


_CHUNK: Final = re.compile(
    r"(samples/.+_epoch_\d+)/(?:sample|metadata|skeleton|(messages|events|calls|attachments)/(\d+|stats|uuids))\.json",
    re.DOTALL,
)
_SEQUENCES: Final = ("messages", "attachments", "events", "metadata")
# A quote without a backslash before it is not inside a text, so this is the value of a key.
_NOT_FINITE: Final = re.compile(rb'(?<!\\)"(\s*+:\s*+)(NaN|-?Infinity)(?=\s*+[,}])')

Buffer = bytes | bytearray | memoryview

_decode_sample: Final = decoder(SlowSample)
_decode_messages: Final = decoder(list[LoggedMessage])
_decode_metadata: Final = decoder(dict[str, Any])
_decode_texts: Final = decoder(list[str])
_decode_attachments: Final = decoder(SampleAttachments)
_decode_events: Final = decoder(SampleEvents)
_decode_skipped: Final = msgspec.json.Decoder(msgspec.Raw).decode
_decode_fast: Final = msgspec.json.Decoder(LoggedSample).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODED: Final = {*LoggedSample.__struct_fields__, "attachments"} - {"events", "store"}

MAX_SAMPLE_MEMORY: Final = 1_400_000_000
"""What a sample may need while it is converted, besides what the process has anyway."""
_LARGE_SAMPLE: Final = 8 << 20  # the memory of a smaller one is not estimated
_WIDTH: Final = 7  # copies of the text of values, as measured: in the sample, in its record, in lines …
_WIDE: Final = 5  # more bytes of text, as measured, where a character takes four
_VALUE_BYTES: Final = 160  # of an object in memory, as measured with short messages and nested lists


class SampleMembers(msgspec.Struct, frozen=True):
    """The members of one sample, packed; only a chunked sample has more than the first."""

    sample: bytes
    messages: bytes = b""
    attachments: bytes = b""
    events: bytes = b""
    metadata: bytes = b""

    @property
    def size(self) -> int:
        parts = (self.sample, self.messages, self.attachments, self.metadata)
        return sum(member.size for part in parts for member in unpack_members(part))


def sample_members(directory: Mapping[str, bytes]) -> tuple[list[SampleMembers], int]:
    """Return the members of each sample in the order of the directory, and the number of chunked ones cut short."""
    whole: dict[str, bytes] = {}
    chunks: dict[str, dict[str, dict[int, bytes]]] = {}
    for name, member in directory.items():
        if not name.startswith("samples/"):
            continue
        chunk = _CHUNK.fullmatch(name)
        if chunk is not None:
            sequences = chunks.setdefault(chunk[1], {name: {} for name in _SEQUENCES})
            if chunk[2] in sequences and chunk[3].isdecimal():
                sequences[chunk[2]][int(chunk[3])] = member
            if name.endswith("/metadata.json"):
                sequences["metadata"][0] = member
            if name.endswith("/sample.json"):
                whole[chunk[1]] = member
        elif name.endswith(".json"):
            whole[name] = member
    samples = []
    for name, member in whole.items():
        sequences = chunks.pop(name, {})
        parts = (sequences.get(key, {}) for key in _SEQUENCES)
        samples.append(SampleMembers(member, *(b"".join(part[start] for start in sorted(part)) for part in parts)))
    return samples, len(chunks)


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of a log: samples of an archive, or start and size of adjacent samples of a document."""

    scoring: Scoring = Scoring()
    members: tuple[SampleMembers, ...] = ()
    items: tuple[tuple[int, int], ...] = ()


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has it
    path = log.files[0].path
    for sample, parts in _logged_samples(path, log_slice):
        try:
            yield sample_of(sample, parts, log_slice.scoring)
        except (ValueError, RecursionError) as exc:
            raise LogError(path, f"sample {sample.id} cannot be read: {exc}") from exc


def _logged_samples(path: str, log_slice: LogSlice) -> Iterator[tuple[LoggedSample, Parts]]:
    members, items = log_slice.members, log_slice.items
    return samples_in_archive(path, members) if members else samples_in_document(path, items)


def samples_in_archive(path: str, samples: Iterable[SampleMembers]) -> Iterator[tuple[LoggedSample, Parts]]:
    with open_plain(path) as reader:
        archive = Archive(path, reader)
        for members in samples:
            (member,) = unpack_members(members.sample)
            text = archive.read(member)
            try:
                sample = decode_sample(text)
                if sample.message_refs is None:
                    yield sample, _parts_of(text)
                else:
                    yield _chunked(sample, archive, members)
            except _TooLargeError as exc:
                raise archive.error(member, str(exc)) from exc
            except ValueError as exc:
                raise archive.error(member, f"is not a sample: {exc}") from exc


def _chunked(sample: LoggedSample, archive: Archive, members: SampleMembers) -> tuple[LoggedSample, Parts]:
    texts = [archive.read(member) for member in unpack_members(members.messages)]
    _check_memory(b",".join(texts))
    chunks = [_decode_messages(memoryview(text)) for text in texts]
    pool = [message for chunk in chunks for message in chunk]
    for member in unpack_members(members.metadata):
        sample.metadata = _decode_metadata(memoryview(archive.read(member)))
    if members.events:
        sample.events = msgspec.Raw(b"[0]")  # they are not read
    for start, end in sample.message_refs or ():
        if not 0 <= start <= end <= len(pool):
            raise ValueError(f"it refers to messages {start} to {end}, and there are {len(pool)}")
        sample.messages += pool[start:end]

    def attachments() -> dict[str, str]:
        chunks = [_decode_texts(memoryview(archive.read(member))) for member in unpack_members(members.attachments)]
        return {str(index): text for index, text in enumerate(text for chunk in chunks for text in chunk)}

    return sample, (Attachments(attachments), list)


def samples_in_document(path: str, items: Sequence[tuple[int, int]]) -> Iterator[tuple[LoggedSample, Parts]]:
    first, end = items[0][0], sum(items[-1])
    with open_plain(path) as reader:
        text = memoryview(read_at(reader, end - first, first))
    for start, size in items:
        item = text[start - first : start - first + size]
        try:
            yield decode_sample(item), _parts_of(item)
        except ValueError as exc:
            place = f"between byte {start:,} and byte {start + size:,}"
            raise LogError(path, f"has a damaged sample {place}: {exc}") from exc


class _TooLargeError(ValueError):
    """A sample that is refused because of the memory that it would need."""


def _check_memory(text: Buffer) -> None:
    """Refuse a sample that would need too much memory, before it is decoded.

    A value takes far more memory than its text. Each one has a comma or an opening bracket before it or in it. Fields
    that are skipped do not count, above all `events`.
    """
    if len(text) < _LARGE_SAMPLE:
        return
    fields: Sequence[Buffer] = [text]
    with suppress(*REFUSALS):
        found = _decode_fields(text)
        fields = [memoryview(value) for name, value in found.items() if name in _DECODED]
    need = len(text) + _WIDTH * sum(map(len, fields))
    for value in fields:
        if need > MAX_SAMPLE_MEMORY:
            break  # without a copy of the text
        part = bytes(value)
        if not part.isascii() or b"\\u" in part:  # then a character takes up to four bytes
            need += _WIDE * len(part)
        need += _VALUE_BYTES * sum(map(part.count, (b",", b"{", b"[")))
    if need > MAX_SAMPLE_MEMORY:
        most = f"{MAX_SAMPLE_MEMORY / 1e9:.1f} GB"
        raise _TooLargeError(f"needs {need / 1e9:,.1f} GB of memory or more to convert, and the limit is {most}")


def decode_sample(text: Buffer) -> LoggedSample:
    _check_memory(text)
    with suppress(*REFUSALS):
        return _decode_fast(text)
    with suppress(*REFUSALS):
        return _decode_fast(_finite(text))
    return _decode_sample(memoryview(text))


def _finite(text: Buffer) -> bytes:
    """Put quotes around NaN and Infinity where they are the value of a key: msgspec is much faster than `json`."""
    return _NOT_FINITE.sub(rb'"\1"\2"', bytes(text))


def _parts_of(text: Buffer) -> Parts:
    def attachments() -> dict[str, str]:
        found = _decode_attachments(memoryview(text))
        old = found.transcript.content if found.transcript else None
        return (old or {}) | (found.attachments or {})

    def events() -> Any:
        try:
            found = _decode_events(memoryview(text))
        except ValueError:  # events of an unknown kind: the output has the tokens of the last call
            return None
        old = found.transcript.events if found.transcript else None
        return found.events or old

    return Attachments(attachments), events
