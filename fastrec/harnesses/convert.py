"""Turn samples into records: the same for all harnesses.

A sample becomes one record per score. What its records share, above all the question, is encoded
and hashed once.

    score                    is_correct
    not a number             false, and `error` says why
    0 or 1                   whether it is 1; on another scale, whether it is the highest
    any other: graded        false; a metric with such a score is graded, and 1 means full marks
    any score of a metric
    where lower is better,
    or that judges nothing   false

A sample of HELM has 25 metrics or more. As lines, its question and prompt would be repeated for
each of them: ten times the text of the log. A bundle has the parts that the records of a sample
share once. It becomes lines when the shard is written:

    {"schema_version":…,"evaluation_name":…   ,"evaluation_result_id":…   ,"sample_id":…,"input":{…}
    └──── the run ───────────────────────┘   └─── the metric ────────┘   └──── question ──────────┘

    ,"output":{…},"answer_attribution":[…]   ,"evaluation":{…}   ,"token_usage":{…}   …
    └──── answer ────────────────────────┘   └── the score ──┘   └──── measured ───────┘

    ,"error":…   ,"metadata":{…   }}
    └ error ─┘   └ metadata ──┘   └─ or what they say about the metric: ,"metric_kind":…}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import comb
from statistics import median
from typing import Any, Self

import msgspec
from msgspec import UNSET, Struct
from xxhash import xxh3_64_intdigest

from fastrec.filters import matches_any
from fastrec.harnesses.log import NOT_SCORED, RunInfo, Sample, Score
from fastrec.harnesses.metadata import NO_PLACE, FieldCounts, MetadataKeeper, row_of
from fastrec.harnesses.values import OptionalNumber, Texts, encode, spelled
from fastrec.schemas.hashes import LIST_HASHES
from fastrec.schemas.newest import SCHEMA, AnswerAttribution, Evaluation, Output
from fastrec.schemas.view import NO_COUNTS
from fastrec.storage.base import Reader, read_at

_LENGTH_BYTES = 8
_MOST_REASONS = 1_000  # to leave out a sample, of a slice


class BundledScore(Struct, array_like=True, gc=False):
    """What only one record of a sample has."""

    metric: int  # its position in the list of metrics
    evaluation: bytes
    error: bytes = b""
    # replaces the part that the records of the sample share; so does `metadata`
    answer: bytes = b""
    metadata: bytes = b""


class Bundle(Struct, array_like=True, gc=False):
    question: bytes
    answer: bytes
    measured: bytes
    metadata: bytes  # without its last bracket
    scores: list[BundledScore]
    head: bytes = b""  # the part of the run, if it is another one than that of the log

    @property
    def line_size(self) -> int:
        return len(self.question) + len(self.answer) + 500


def line_maker(
    head: bytes, metrics: Sequence[str], notes: Mapping[str, Texts]
) -> Callable[[Bundle], list[bytes]]:
    """A function that makes the lines of a bundle with their newlines, in parts.

    `head` is the part of the run. `notes` has what metadata say about a metric, such as that it is
    graded.
    """
    names = [b',"evaluation_result_id":' + encode(name) if name else b"" for name in metrics]
    said = [encode(notes[name])[1:-1] if notes.get(name) else b"" for name in metrics]
    ends = [(b"," + note if note else b"") + b"}}\n" for note in said]

    def lines_of(bundle: Bundle) -> list[bytes]:
        parts: list[bytes] = []
        for score in bundle.scores:
            parts += (
                bundle.head or head,
                names[score.metric],
                bundle.question,
                score.answer or bundle.answer,
                score.evaluation,
                bundle.measured,
                score.error,
                score.metadata or bundle.metadata,
                ends[score.metric],
            )
        return parts

    return lines_of


_decode = msgspec.msgpack.Decoder(list[Bundle]).decode


_encode_into = msgspec.msgpack.Encoder().encode_into


def write_bundles(bundles: Sequence[Bundle]) -> bytearray:
    data = bytearray(_LENGTH_BYTES)
    _encode_into(bundles, data, _LENGTH_BYTES)
    data[:_LENGTH_BYTES] = (len(data) - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "little")
    return data


def read_bundles(file: Reader) -> Iterator[Bundle]:
    """Decode the blocks of a work file."""
    at = 0
    while start := read_at(file, _LENGTH_BYTES, at):
        size = int.from_bytes(start, "little")
        yield from _decode(read_at(file, size, at + _LENGTH_BYTES))
        at += _LENGTH_BYTES + size


NO_METRIC = "no metric matches --metric"

_hash = LIST_HASHES["sha256"]
ONE_ROW = 1 << 128
_BINARY = (0.0, 1.0)
_NOT_SCORED = Score("", None, NOT_SCORED)


def _right(scores: Sequence[float]) -> int:
    return sum(score >= 1 for score in scores)


# What Inspect makes of the scores of a sample, by name; the last three with a number.
REDUCERS: dict[str, Callable[[Sequence[float], int], float]] = {
    "median": lambda scores, _: median(scores),
    "mode": lambda scores, _: Counter(scores).most_common(1)[0][0],
    "max": lambda scores, _: max(scores),
    "at_least": lambda scores, k: float(_right(scores) >= k),
    "pass_at": lambda scores, k: 1 - comb(len(scores) - _right(scores), k) / comb(len(scores), k),
    "pass_k": lambda scores, k: comb(_right(scores), k) / comb(len(scores), k),
}


def reducer_of(text: str) -> tuple[str, int]:
    kind, _, number = text.rpartition("_")
    return (kind, int(number)) if number.isdecimal() else (text, 1)


class MetricTotals(Struct):
    number: int = 0  # its position among the metrics of the slice
    full_marks: OptionalNumber = None  # the score that is correct
    records: int = 0
    scored: int = 0  # records whose score is a number
    sum: float = 0.0
    graded: bool = False  # whether some score is neither 0 nor 1
    by_sample: dict[str, list[float]] = {}  # all scores, if a figure of the log needs them

    def reduced_mean(self, reducer: str) -> OptionalNumber:
        """The mean of all scores, or over samples of what a reducer makes of their scores.

        Samples with too few do not count.
        """
        if not reducer:
            return self.mean
        kind, k = reducer_of(reducer)
        reduced = [
            REDUCERS[kind](scores, k) for scores in self.by_sample.values() if len(scores) >= k
        ]
        return sum(reduced) / len(reduced) if reduced else None

    @property
    def mean(self) -> OptionalNumber:
        return self.sum / self.scored if self.scored else None

    def __iadd__(self, other: MetricTotals) -> Self:
        self.records += other.records
        self.scored += other.scored
        self.sum += other.sum
        self.graded = self.graded or other.graded
        for sample, scores in other.by_sample.items():
            self.by_sample.setdefault(sample, []).extend(scores)
        return self


class Converted(Struct):
    """What became of the samples of a slice."""

    number: int = 0  # the position of the log among all logs
    path: str = ""  # the work file with their bundles
    head: bytes = b""
    samples: int = 0
    records: int = 0
    errors: int = 0
    # in the order in which they came up: bundles have positions in it
    metrics: dict[str, MetricTotals] = {}
    left_out: Counter[str] = NO_COUNTS  # samples without a record, by reason
    metrics_left_out: Counter[str] = NO_COUNTS  # scores without a record, by metric
    fields_left_out: FieldCounts = NO_COUNTS
    metadata: set[str] = set()  # all names that came up, as records have them
    # Of each run of a table, by what its records begin with: the sum of the hashes of its rows and
    # of ONE_ROW for each. Runs with the same sum have the same rows, in any order.
    row_sums: Counter[bytes] = NO_COUNTS
    problem: str = ""

    def __iadd__(self, other: Converted) -> Self:
        """Add what became of the next slice of the same log."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for metric, totals in other.metrics.items():
            known = self.metrics.setdefault(metric, MetricTotals())
            known += totals
        self.metadata |= other.metadata
        self.problem = self.problem or other.problem
        return self


_COUNTED = (
    "samples", "records", "errors", "left_out", "metrics_left_out", "fields_left_out", "row_sums",
)  # fmt: skip


class Converter:
    """Turns the samples of one run into lines, and counts them."""

    def __init__(
        self,
        harness: str,
        run: RunInfo,
        patterns: Iterable[str] = (),
        chosen: frozenset[str] | None = None,
        *,
        by_sample: bool = False,
    ) -> None:
        """Write records of the metrics that match a pattern, with the chosen metadata.

        Without patterns, all metrics match; None chooses all metadata.

        With `by_sample`, also collect their scores.
        """
        self._by_sample = by_sample
        self._run = run
        self._patterns = tuple(patterns)
        version = spelled({"harness_version": run.version})
        self._common = {"harness": harness} | version | run.metadata
        self._heads: dict[tuple[str, str], bytes] = {}
        self._no_metadata = self._metadata({})
        self._keeper = MetadataKeeper(harness, chosen)
        self.result = Converted(
            head=self._head(run), fields_left_out=self._keeper.left_out, metadata=self._keeper.names
        )

    def bundle(self, sample: Sample) -> Bundle | None:
        """The records of a sample; None if no metric is wanted."""
        scores = sample.scores or [_NOT_SCORED]
        if self._patterns:
            scores = [score for score in scores if self._is_wanted(score.metric)]
            if not scores:
                self.leave_out(NO_METRIC)
                return None
        self.result.samples += 1
        self.result.records += len(scores)
        metadata = sample.metadata
        if sample.fields:
            metadata = metadata | self._keeper.keep(sample.fields, sample.input, "sample")
        for name in sample.unread:
            self._keeper.left_out[name, NO_PLACE] += 1
        measured = _member(b',"token_usage":', sample.token_usage)
        measured += _member(b',"performance":', sample.performance)
        evaluation = Evaluation(
            score=0.0,
            is_correct=False,
            num_turns=sample.num_turns,
            tool_calls_count=sample.tool_calls,
        )
        bundled = []
        for score in scores:
            bundled_score = self._bundled(score, sample.error, evaluation)
            bundled.append(bundled_score)
            if self._by_sample and score.value is not None:
                totals = self.result.metrics[score.metric]
                totals.by_sample.setdefault(sample.sample_id or "", []).append(score.value)
            if score.output is not None or score.answers is not None:
                bundled_score.answer = _answer(
                    sample,
                    score.output or sample.output,
                    sample.answers if score.answers is None else score.answers,
                )
            if score.metadata or score.fields:
                kept = self._keeper.keep(score.fields, sample.input, "score", metadata)
                bundled_score.metadata = self._metadata(metadata | score.metadata | kept)
        question = _question(sample)
        answer = _answer(sample, sample.output, sample.answers)
        details = self._metadata(metadata) if metadata else self._no_metadata
        head = b""
        if sample.run:
            head = self._head(sample.run)
            own_details = details[len(self._no_metadata) :]
            row = question + answer + bundled[0].evaluation + own_details
            self.result.row_sums[head] += ONE_ROW + xxh3_64_intdigest(row)
        return Bundle(question, answer, measured, details, bundled, head)

    def _bundled(self, score: Score, error: str, evaluation: Evaluation) -> BundledScore:
        """Encode and count a score; all of a sample share the object that is encoded."""
        totals = self.result.metrics.get(score.metric) or self._new_metric(score.metric)
        totals.records += 1
        value = score.value
        if value is None:
            value = 0.0
            problem = score.problem or "the score is not a number"
            error = f"{error}; {problem}" if error else problem
        else:
            totals.scored += 1
            totals.sum += value
            if value not in (0, 1):
                totals.graded = True
        evaluation.score = value
        evaluation.is_correct = value == totals.full_marks and not error
        stated = error or None
        self.result.errors += bool(error)
        return BundledScore(
            totals.number,
            _member(b',"evaluation":', evaluation),
            _member(b',"error":', stated),
        )

    def leave_out(self, reason: str) -> None:
        self.result.samples += 1
        left_out = self.result.left_out
        if reason not in left_out and len(left_out) >= _MOST_REASONS:
            reason = "for other reasons"
        left_out[reason] += 1

    def _head(self, run: RunInfo) -> bytes:
        names = run.task, run.model
        if names not in self._heads:
            head = {
                "schema_version": SCHEMA.label,
                "evaluation_id": run.evaluation_id,
                "model_id": run.model,
                "evaluation_name": run.task,
            }
            self._heads[names] = encode(head)[:-1]
        return self._heads[names]

    def _new_metric(self, name: str) -> MetricTotals:
        can_be_correct = (
            name not in self._run.lower_is_better and row_of(self._common["harness"], name) is None
        )
        scale = self._run.scales.get(name, _BINARY)
        metrics = self.result.metrics
        totals = metrics[name] = MetricTotals(
            number=len(metrics),
            full_marks=scale[1] if can_be_correct else None,
            graded=not can_be_correct or scale != _BINARY,
        )
        return totals

    def _metadata(self, own: Texts) -> bytes:
        """Encode the metadata without its last bracket."""
        return _member(b',"metadata":', self._common | own)[:-1]

    def _is_wanted(self, metric: str) -> bool:
        """Tell whether a metric, or its name without the variant, matches a pattern."""
        names = (metric, metric.partition(":")[0])
        wanted = any(matches_any(name, self._patterns) for name in names)
        if not wanted:
            self.result.metrics_left_out[metric] += 1
        return wanted


def _member(name: bytes, value: Any) -> bytes:
    """A member of a record; `name` is spelled as before its value."""
    return b"" if value is None else name + encode(value)


def _question(sample: Sample) -> bytes:
    asked = sample.input
    text = encode(asked)
    has_more = asked.formatted is not UNSET or asked.choices is not UNSET
    if has_more or not text.isascii() or b"\x7f" in text:
        digest = _hash(asked.raw, asked.reference)
    else:  # it is what the recipe hashes
        digest = sha256(text).hexdigest()
    name = digest[:16] if sample.sample_id is None else sample.sample_id
    return b',"sample_id":%b,"sample_hash":"%b","interaction_type":"%b","input":%b' % (
        encode(name),
        digest.encode(),
        sample.interaction_type.encode(),
        text,
    )


def _answer(sample: Sample, output: Output | None, answers: Sequence[AnswerAttribution]) -> bytes:
    said = _member(b',"output":', output) + _member(b',"messages":', sample.messages)
    return said + _member(b',"answer_attribution":', answers)
