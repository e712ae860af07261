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
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET

from fastrec.harnesses.log import RunInfo, Sample, Score
from fastrec.schemas.hashes import LIST_HASHES
from fastrec.schemas.newest import SCHEMA, Evaluation, Record

__all__ = ["NO_METRIC", "Converter", "MetricTotals"]

NO_METRIC: Final = "no metric matches --metric"

_hash: Final = LIST_HASHES["sha256"]
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
        self._evaluation_id = run.evaluation_id
        self._patterns = tuple(patterns)
        self._common = {"harness": harness} | ({"harness_version": run.version} if run.version else {}) | run.metadata
        self._encode = msgspec.json.Encoder().encode
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
        self.samples += 1
        scores = sample.scores or [_NOT_SCORED]
        if self._patterns:
            scores = [score for score in scores if self._is_wanted(score.metric)]
            if not scores:
                self.left_out[NO_METRIC] = self.left_out.get(NO_METRIC, 0) + 1
                return []
        run, encode = self._run, self._encode
        asked: Any = msgspec.Raw(encode(sample.input))
        question = _hash(sample.input.raw, sample.input.reference)
        # The parts of the records that are long and equal are encoded once.
        output: Any = UNSET if sample.output is None else msgspec.Raw(encode(sample.output))
        messages: Any = UNSET if sample.messages is None else msgspec.Raw(encode(sample.messages))
        metadata = self._common | sample.metadata
        lines = []
        for score in scores:
            error = self._count(score, sample)
            value = 0.0 if score.value is None else score.value
            record = Record(
                schema_version=SCHEMA.label,
                evaluation_id=self._evaluation_id,
                model_id=run.model,
                evaluation_name=run.task,
                evaluation_result_id=score.metric or UNSET,
                sample_id=sample.sample_id,
                sample_hash=question,
                interaction_type=sample.interaction_type,  # type: ignore[arg-type]
                input=asked,
                output=output if score.output is None else score.output,
                messages=messages,
                answer_attribution=sample.answers if score.answers is None else score.answers,
                evaluation=Evaluation(
                    score=value,
                    is_correct=value == 1 and not error and score.metric not in run.lower_is_better,
                    num_turns=UNSET if sample.num_turns is None else sample.num_turns,
                    tool_calls_count=UNSET if sample.tool_calls is None else sample.tool_calls,
                ),
                token_usage=UNSET if sample.token_usage is None else sample.token_usage,
                performance=UNSET if sample.performance is None else sample.performance,
                error=error or UNSET,
                metadata=metadata | score.metadata if score.metadata else metadata,
            )
            lines.append((score.metric, encode(record)))
        return lines

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
