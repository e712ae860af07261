"""Read a slice of a run: requests and scores of the same key become one sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastrec.errors import LogError
from fastrec.harnesses.files import read_at
from fastrec.harnesses.helm.grouping import file_of
from fastrec.harnesses.helm.index import LogSlice
from fastrec.harnesses.helm.keys import Key, key_of
from fastrec.harnesses.helm.run import LANGUAGE_MODELING, METHOD
from fastrec.harnesses.helm.sample import sample_of
from fastrec.harnesses.helm.scores import ScoreReader
from fastrec.harnesses.helm.structs import FOREIGN, RequestState, StatsEntry
from fastrec.harnesses.log import Log, RunInfo, Sample
from fastrec.harnesses.values import decoder
from fastrec.storage import storage_of

__all__ = ["samples"]

_decode_requests: Final = decoder(list[RequestState])
_decode_entries: Final = decoder(list[StatsEntry])


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:
    """Read the samples of a slice."""
    state, scores = file_of(log, "scenario_state"), file_of(log, "per_instance_stats")
    assert state is not None
    assert scores is not None
    entries: dict[Key, list[StatsEntry]] = {}
    for entry in _read(scores.path, log_slice.entries, _decode_entries):
        key = key_of(entry.instance_id, entry.perturbation, entry.train_trial_index, scores.path)
        entries.setdefault(key, []).append(entry)
    requests: dict[Key, list[RequestState]] = {}
    for one in _read(state.path, log_slice.requests, _decode_requests):
        key = key_of(one.instance.id, one.instance.perturbation, one.train_trial_index, state.path)
        requests.setdefault(key, []).append(one)
    method = run.metadata.get(METHOD, "")
    reader = ScoreReader(log_slice.labels, log_slice.empty_metrics, method == LANGUAGE_MODELING)
    for key, some in requests.items():
        found = reader.read(entries.get(key, ()), key.perturbation)
        yield sample_of(key, some, found, method, log_slice.labels)


def _read(path: str, ranges: Sequence[tuple[int, int]], decode: Any) -> Iterator[Any]:
    with storage_of(path).open_reader(path) as source:
        for start, end in ranges:
            text = read_at(source, end - start, start)
            if len(text) < end - start:
                raise LogError(path, "changed while it was read: wait until it is complete, and import it again")
            try:
                yield from decode(b"[" + text + b"]")
            except ValueError as exc:
                raise LogError(path, f"{FOREIGN} after byte {start:,}: {exc}") from exc
