"""Turn samples into records: the same for all harnesses.

A sample becomes one record per score. What its records share, above all the question, is encoded and hashed once.

    score                    is_correct
    not a number             false, and `error` says why
    0 or 1                   whether it is 1
    any other: graded        false; a metric with such a score is graded, and 1 means full marks
    of a metric where
    lower is better          false
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Self

import msgspec

from fastrec.harnesses.bundles import Bundle, BundledScore, LineMaker
from fastrec.harnesses.log import RunInfo, Sample, Score
from fastrec.schemas.hashes import LIST_HASHES
from fastrec.schemas.newest import SCHEMA

__all__ = ["NO_METRIC", "Converter", "MetricTotals"]

NO_METRIC: Final = "no metric matches --metric"

_hash: Final = LIST_HASHES["sha256"]
_SCORE: Final = b',"evaluation":{"score":'
_CORRECT: Final = b',"is_correct":true'
_WRONG: Final = b',"is_correct":false'
_NOT_SCORED: Final = Score(metric="", value=None, problem="the log has no score for this sample")


class MetricTotals(msgspec.Struct):
    """The records of one metric, added up."""

    records: int = 0
    scored: int = 0
    """Records whose score is a number."""
    sum: float = 0.0
    graded: bool = False
    """Whether some score is neither 0 nor 1."""

    def __iadd__(self, other: MetricTotals) -> Self:
        self.records += other.records
        self.scored += other.scored
        self.sum += other.sum
        self.graded = self.graded or other.graded
        return self


class Converter:
    """Turns the samples of one run into lines, and counts them."""

    def __init__(self, harness: str, run: RunInfo, patterns: Iterable[str] = ()) -> None:
        """Write records of the metrics that match one of `patterns`, or of all."""
        self._run = run
        self._patterns = tuple(patterns)
        self._common = {"harness": harness} | ({"harness_version": run.version} if run.version else {}) | run.metadata
        self._encode = encode = msgspec.json.Encoder().encode
        self.head = b"".join(
            (
                b'{"schema_version":' + encode(SCHEMA.label),
                b',"evaluation_id":' + encode(run.evaluation_id),
                b',"model_id":' + encode(run.model),
                b',"evaluation_name":' + encode(run.task),
            )
        )
        """How all records begin."""
        self.numbers: dict[str, int] = {}
        """The metrics in the order in which they came up, each with its position."""
        self._wanted: dict[str, bool] = {}
        self.samples = 0
        self.metrics: dict[str, MetricTotals] = {}
        self.errors = 0
        """Records with an error."""
        self.left_out: dict[str, int] = {}
        """Samples without a record, by reason."""
        self.metrics_left_out: dict[str, int] = {}
        """Scores without a record, by metric."""

    def lines(self, sample: Sample) -> list[tuple[str, bytes]]:
        """Return the records of a sample as lines without their newlines, each with its metric."""
        bundle = self.bundle(sample)
        if bundle is None:
            return []
        text = b"".join(LineMaker(self.head, list(self.numbers)).lines(bundle))
        names = list(self.numbers)
        lines = text.split(b"\n")
        return [(names[score.metric], line) for score, line in zip(bundle.scores, lines, strict=False)]

    def bundle(self, sample: Sample) -> Bundle | None:
        """Return the records of a sample; None if no metric is wanted."""
        self.samples += 1
        scores = sample.scores or [_NOT_SCORED]
        if self._patterns:
            scores = [score for score in scores if self._is_wanted(score.metric)]
            if not scores:
                self.left_out[NO_METRIC] = self.left_out.get(NO_METRIC, 0) + 1
                return None
        encode, numbers = self._encode, self.numbers
        lower_is_better = self._run.lower_is_better
        question = self._question(sample)
        turns = self._turns(sample)
        bundled = []
        for score in scores:
            error = self._count(score, sample)
            value = 0.0 if score.value is None else score.value
            is_correct = value == 1 and not error and score.metric not in lower_is_better
            one = BundledScore(
                numbers.setdefault(score.metric, len(numbers)),
                b"".join((_SCORE, encode(value), _CORRECT if is_correct else _WRONG, turns)),
                b',"error":' + encode(error) if error else b"",
            )
            if score.output is not None or score.answers is not None:
                one.before = question + self._answer(sample, score)
            if score.metadata:
                one.metadata = self._metadata(sample.metadata | score.metadata)
            bundled.append(one)
        return Bundle(
            before=question + self._answer(sample),
            after=self._measured(sample),
            metadata=self._metadata(sample.metadata),
            scores=bundled,
        )

    def _question(self, sample: Sample) -> bytes:
        """Encode the part of a record up to the question."""
        encode = self._encode
        return b"".join(
            (
                b',"sample_id":',
                encode(sample.sample_id),
                b',"sample_hash":',
                encode(_hash(sample.input.raw, sample.input.reference)),
                b',"interaction_type":',
                encode(sample.interaction_type),
                b',"input":',
                encode(sample.input),
            )
        )

    def _answer(self, sample: Sample, score: Score | None = None) -> bytes:
        """Encode what the model said, and what was extracted for all scores or one."""
        encode = self._encode
        output = sample.output if score is None or score.output is None else score.output
        answers = sample.answers if score is None or score.answers is None else score.answers
        return b"".join(
            (
                b"" if output is None else b',"output":' + encode(output),
                b"" if sample.messages is None else b',"messages":' + encode(sample.messages),
                b',"answer_attribution":',
                encode(answers),
            )
        )

    def _turns(self, sample: Sample) -> bytes:
        """Encode the end of the evaluation."""
        turns = b"" if sample.num_turns is None else b',"num_turns":%d' % sample.num_turns
        return turns + (b"}" if sample.tool_calls is None else b',"tool_calls_count":%d}' % sample.tool_calls)

    def _measured(self, sample: Sample) -> bytes:
        tokens = b"" if sample.token_usage is None else b',"token_usage":' + self._encode(sample.token_usage)
        return tokens + (b"" if sample.performance is None else b',"performance":' + self._encode(sample.performance))

    def _metadata(self, own: dict[str, str]) -> bytes:
        """Encode the metadata without its last bracket."""
        return b',"metadata":' + self._encode(self._common | own)[:-1]

    def _count(self, score: Score, sample: Sample) -> str:
        """Count a score, and return what is wrong with it, if anything."""
        totals = self.metrics.get(score.metric)
        if totals is None:
            totals = self.metrics[score.metric] = MetricTotals(graded=score.metric in self._run.lower_is_better)
        totals.records += 1
        error = sample.error
        if score.value is None:
            problem = score.problem or "the score is not a number"
            error = f"{error}; {problem}" if error else problem
        else:
            totals.scored += 1
            totals.sum += score.value
            if score.value not in (0, 1):
                totals.graded = True
        if error:
            self.errors += 1
        return error

    def _is_wanted(self, metric: str) -> bool:
        """Return whether a metric, or its name without the variant, matches a pattern."""
        wanted = self._wanted.get(metric)
        if wanted is None:
            names = (metric, metric.partition(":")[0])
            wanted = any(fnmatchcase(name, pattern) for name in names for pattern in self._patterns)
            self._wanted[metric] = wanted
        if not wanted:
            self.metrics_left_out[metric] = self.metrics_left_out.get(metric, 0) + 1
        return wanted
