"""Read both long files of a run once: which samples there are, where they are, and which metrics they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from fastrec.errors import LogError
from fastrec.harnesses.files import check_is_plain
from fastrec.harnesses.helm.index import FileIndex, SampleTable
from fastrec.harnesses.helm.keys import hash_of, key_of
from fastrec.harnesses.helm.structs import FOREIGN, CountedStat, EntryCounts, Envelope, RequestKey
from fastrec.harnesses.json_items import ItemReader
from fastrec.harnesses.text_window import TextWindow
from fastrec.harnesses.values import decoder
from fastrec.storage import storage_of
from fastrec.storage.base import Reader

__all__ = ["Metric", "Scan", "scan_run"]

_T = TypeVar("_T")

_LATEST: Final = 1 << 40  # seconds since 1970
_MOST_SHAPES: Final = 1000  # entries with different metrics to hold

_decode_request = decoder(RequestKey)
_decode_entry = decoder(EntryCounts)
_decode_envelope = decoder(Envelope)


class Metric(NamedTuple):
    """A metric as the scores name it."""

    name: str
    split: str | None
    sub_split: str | None
    perturbation: str
    """Its canonical description; empty if there is none."""


class Scan:
    """What both files say."""

    def __init__(self) -> None:
        self.envelope = Envelope()
        self.samples = SampleTable()
        self.unmatched = SampleTable()
        """Keys of scores that no request has."""
        self.requests = FileIndex()
        self.entries = FileIndex()
        self.started: int | None = None
        """When the earliest request was sent."""
        self.perturbations: set[str] = set()
        self.tally: Counter[tuple[Metric, int, int | float]] = Counter()
        """How often each metric occurs in a trial with a number of values."""
        self._shapes: Counter[tuple[str, int, tuple[CountedStat, ...]]] = Counter()

    def count(self, perturbation: str, trial: int, stats: Sequence[CountedStat]) -> None:
        """Count the metrics of an entry. Most entries have the same ones: they are compared and counted as a whole."""
        self._shapes[perturbation, trial, tuple(stats)] += 1
        if len(self._shapes) > _MOST_SHAPES:
            self.finish()

    def finish(self) -> None:
        """Put what was counted into the tally."""
        for (perturbation, trial, stats), number in self._shapes.items():
            for stat in stats:
                name = stat.name
                self.tally[Metric(name.name, name.split, name.sub_split, perturbation), trial, stat.count] += number
        self._shapes.clear()


def scan_run(state: str, scores: str) -> Scan:
    """Read the requests and the scores of a run."""
    scan = Scan()
    _scan_requests(state, scan)
    _scan_entries(scores, scan)
    return scan


def _scan_requests(path: str, scan: Scan) -> None:
    with storage_of(path).open_reader(path) as source:
        reader = _items(path, source, "request_states", _decode_request)
        for start, size, one in chain.from_iterable(reader):
            key = key_of(one.instance.id, one.instance.perturbation, one.train_trial_index, path)
            if key.perturbation:
                scan.perturbations.add(key.perturbation)
            scan.requests.add(start, size, scan.samples.add(hash_of(key)))
            sent = one.result.request_datetime if one.result else None
            if sent and 0 < sent < _LATEST and (scan.started is None or sent < scan.started):
                scan.started = int(sent)
    try:
        scan.envelope = _decode_envelope(reader.envelope)
    except ValueError as exc:
        raise LogError(path, f"{FOREIGN}: {exc}") from exc


def _scan_entries(path: str, scan: Scan) -> None:
    with storage_of(path).open_reader(path) as source:
        for start, size, one in chain.from_iterable(_items(path, source, None, _decode_entry)):
            key = key_of(one.instance_id, one.perturbation, one.train_trial_index, path)
            number = hash_of(key)
            sample = scan.samples.find(number)
            scan.entries.add(start, size, sample)
            if sample is None:
                scan.unmatched.add(number)
                continue
            scan.count(key.perturbation, one.train_trial_index, one.stats or ())
    scan.finish()


def _items(path: str, source: Reader, key: str | None, decode: Callable[[memoryview], _T]) -> ItemReader[_T]:
    check_is_plain(path)
    return ItemReader(path, TextWindow(path, source.read), key, decode)
