r"""Compare the contents of records: contradictions, and records that are equal but for their run.

Records of equal keys are adjacent, so a part finds *contradictions* by itself. Only these records
are decoded, and only the compared fields:

    same question, same trial, same output, another verdict    contradiction: one of them is wrong
    anything else                                              repeat: another epoch, trial …

The question is the `sample_hash`. The verdict is score, is_correct and error.

An evaluation that was scraped or converted again has records that are equal but for their run and
their label. A line in normal form begins with the label and the run, so the *body* that follows has
to be equal:

    {"schema_version":…,"evaluation_id":…,"model_id":…
                                         \_____________ body

An upgrade keeps a label that does not belong to the record's version in `metadata`; it is no part
of the body either. Such records mostly have different keys, and may be in different parts. Each
part writes a list of its bodies' digests. The merged lists have equal bodies next to each other;
the one with the lowest key stays, and *supersedes* the others.

Superseded records may be as many as records. They are written as sorted runs, from which each part
reads its range of keys. The text of a superseded record is the digest of its body; an empty text
stands for all records of the key.
"""

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import accumulate, islice
from typing import Any

import msgspec
from msgspec import Raw
from xxhash import xxh3_128_digest

from fastrec.engine.base import Engine
from fastrec.schemas.registry import TARGETS
from fastrec.schemas.view import NO_COUNTS, encode_json, view, view_decoder
from fastrec.sorting.gather import gather
from fastrec.sorting.keys import key_splitter, split_scope, text_of
from fastrec.sorting.runs import Run, spill
from fastrec.sorting.slices import Bound, RunSlice, slice_run
from fastrec.storage import FileDigest
from fastrec.summary.census import CountTask, count_lists, merge_lists, write_rows
from fastrec.summary.rows import Sums

# The fields that tell trials apart, in `metadata` or at the root of a record.
TRIAL_FIELDS = (
    "epoch",  # Inspect
    "trial",  # tau-bench
    "trial_id",
    "trial_index",
    "train_trial_index",  # HELM
    "perturbation",  # HELM
    "repeat",
    "repeat_id",
    "repeat_index",
    "repetition",
    "attempt",
    "iteration",
    "run",
    "run_id",
    "run_index",
    "sample_index",
    "generation_index",
    "seed",
    "filter",  # lm-evaluation-harness: what extracts the answer from the output
)

# By key: which contradiction each of its records belongs to; None if it contradicts no other.
#
# The contradictions of a key are numbered from 0. Keys without a contradiction are absent.
Contradictions = dict[bytes, list[int | None]]
ContradictionsByFields = dict[tuple[bytes, ...], list[int | None]]  # of keys

_ABSENT = Raw()
_TRIAL = dict.fromkeys(TRIAL_FIELDS, (Raw, _ABSENT))
_TURNS = sorted({schema.turns_field for schema in TARGETS.values()})


_TRIAL_METADATA = view(**_TRIAL)
_decode = view_decoder(
    evaluation=view(score=Raw, is_correct=bool),
    metadata=(_TRIAL_METADATA, _TRIAL_METADATA()),
    **dict.fromkeys(("output", "error", *_TURNS), (Raw, _ABSENT)),
    **_TRIAL,
)


def find_contradictions(
    keys: Sequence[bytes], texts: Sequence[bytes | memoryview], groups: Iterable[tuple[int, int]]
) -> Contradictions:
    """Find the contradictions among sorted records without duplicates, by key."""
    return {
        keys[first]: numbers
        for first, end in groups
        if (numbers := contradictions_of(texts[first:end]))
    }


def contradictions_of(texts: Sequence[bytes | memoryview]) -> list[int | None]:
    """Number the contradictions among the records of one key by their first records.

    Empty if there are none.
    """
    judged = [_judged(text) for text in texts]
    verdicts: dict[Any, set[Any]] = {}
    for answer, verdict in judged:
        verdicts.setdefault(answer, set()).add(verdict)
    several = [answer for answer, different in verdicts.items() if len(different) > 1]
    numbers = {answer: number for number, answer in enumerate(several)}
    return [numbers.get(answer) for answer, _ in judged] if numbers else []


def _judged(text: bytes | memoryview) -> tuple[Any, Any]:
    """What tells an answer from others to the same question, and the verdict on it.

    In normal form, equal values are equal bytes.
    """
    record = _decode(text)
    trial = [
        bytes(getattr(level, name)) for level in (record, record.metadata) for name in TRIAL_FIELDS
    ]
    # Digests, because there may be thousands of long outputs.
    outputs = [xxh3_128_digest(getattr(record, name)) for name in ("output", *_TURNS)]
    error = bytes(record.error)
    evaluation = record.evaluation
    return (*outputs, *trial), (
        _number(evaluation.score),
        evaluation.is_correct,
        b"" if error == b'""' else error,
    )


def _number(score: Raw) -> Any:
    """Decode a score: 1, 1.0 and true are the same verdict."""
    try:
        return msgspec.json.decode(score)
    except msgspec.MsgspecError:  # an integer with more digits than msgspec decodes
        return bytes(score)


_MOST_HELD = 1 << 17
_WINDOW_BYTES = 1 << 20
_ROW: Sequence[Any] = (0, 0)  # superseded records have no piece and no line


def write_superseded(path: str, records: Iterable[tuple[bytes, bytes]]) -> list[Run]:
    """Write superseded records, given their keys and texts, as runs of bounded size."""
    # The random suffix keeps two workers apart if one was wrongly taken for dead.
    path = f"{path}-{secrets.token_hex(4)}"
    records = iter(records)
    runs: list[Run] = []
    while held := list(islice(records, _MOST_HELD)):
        keys, texts = map(list, zip(*held, strict=True))
        ends = list(accumulate(map(len, texts)))
        rows = [_ROW] * len(held)
        runs.append(spill(f"{path}-{len(runs):04d}", bytearray().join(texts), ends, keys, rows))
    return runs


def slices_of(runs: Sequence[Run], low: Bound, high: Bound) -> list[RunSlice]:
    """Find the superseded records in a range of keys; the list is empty if there are none."""
    slices = [piece for run in runs if (piece := slice_run(run, low, high))]
    # The blocks at the ends of a range may have no key in it.
    return slices if next(superseded_in(slices, low, high), None) else []


def superseded_in(
    slices: Sequence[RunSlice], low: Bound, high: Bound
) -> Iterator[tuple[bytes, bytes]]:
    for window in gather(slices, low, high, _WINDOW_BYTES):
        yield from zip(window.keys, map(bytes, window.texts), strict=True)


_RUN_PAIRS = 100
_LIST = "run"
# quotes inside a string are escaped, so its first occurrence ends the evaluation_id
_BODY = b',"model_id":'
_LABEL = b'"schema_version":"'
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
_METADATA = re.compile(
    rb',"metadata":(\{(?:%b:%b,?)*+\})\}$' % (_TEXT, _TEXT)
)  # of the root, with texts only

# evaluation_name, model_id, the evaluation_id of the record that stays, and that of the record
# that is dropped.
RunPair = tuple[str, str, str, str]


class SameRunCounts(Sums):
    """Records that were dropped because they are equal to others but for their run."""

    records: int = 0
    # Records by runs: only the first hundred pairs in order, whose counts are exact.
    pairs: Counter[RunPair] = NO_COUNTS
    superseded: list[Run] = []  # their keys and the digests of their bodies

    def add(self, pair: RunPair) -> None:
        self.records += 1
        self.pairs[pair] += 1
        if len(self.pairs) > 2 * _RUN_PAIRS:
            # A pair that is among the first of all was among the first at any time.
            self.pairs = Counter(
                {pair: self.pairs[pair] for pair in nsmallest(_RUN_PAIRS, self.pairs)}
            )


def body_digest(text: bytes | memoryview) -> bytes:
    """Hash everything in a line in normal form but its label and its run."""
    line = bytes(text)
    start = line.index(_BODY)
    if line.find(_LABEL, start) >= 0:  # rare
        line = _without_kept_label(line)
    return xxh3_128_digest(memoryview(line)[start:])


def _without_kept_label(line: bytes) -> bytes:
    """Remove a `schema_version` from `metadata`, and `metadata` if nothing else is in it."""
    end = line.rfind(b',"metadata":{')
    match = _METADATA.match(line, end) if end >= 0 else None
    if not match:
        return line
    metadata = msgspec.json.decode(match[1], type=dict[str, str])
    if metadata.pop("schema_version", None) is None:
        return line
    rest = b',"metadata":' + encode_json(metadata) if metadata else b""
    return line[:end] + rest + line[match.end(1) :]


def write_bodies(
    prefix: str, bodies: Iterable[tuple[bytes, bytes]], *, compressed: bool
) -> FileDigest:
    """Write the list of a part, given the digest of each record's body, and its key."""
    rows = sorted((digest, b"", key) for digest, key in bodies)
    return write_rows(f"{prefix}-{_LIST}", rows, compressed=compressed)


def find_same_run(
    prefixes: Sequence[str],
    path: str,
    sort_fields: tuple[str, ...],
    *,
    directory: str,
    engine: Engine,
) -> SameRunCounts:
    """Find equal bodies in all parts; write superseded records to files that begin with `path`."""
    total = SameRunCounts()
    rule = path, sort_fields
    lists = count_lists(_count, rule, [prefixes], (_LIST,), directory=directory, engine=engine)
    for _, counts in lists:
        total += counts
    return total


def _count(task: CountTask) -> SameRunCounts:
    path, _ = task.rule
    counts = SameRunCounts()
    counts.superseded = write_superseded(path, _superseded(task, counts))
    return counts


def _superseded(task: CountTask, counts: SameRunCounts) -> Iterator[tuple[bytes, bytes]]:
    """Yield the superseded records that a part cannot drop by itself, and count all of them."""
    _, sort_fields = task.rule
    split = key_splitter(sort_fields)
    last = kept = b""
    for digest, _, key in merge_lists(task.prefixes, _LIST):
        if digest != last:
            last = digest
            kept = key
            continue
        scope, _, model, kept_id, _ = split(kept)
        _, _, _, dropped_id, _ = split(key)
        counts.add((split_scope(scope)[0], text_of(model), text_of(kept_id), text_of(dropped_id)))
        if key != kept:  # a part drops records of equal keys by itself
            yield key, digest
