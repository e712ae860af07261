"""A row of details as a sample: what was asked, what the model did, and one score per metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from fastrec.harnesses.lighteval.choices import Options, pick
from fastrec.harnesses.lighteval.details import Detail
from fastrec.harnesses.lighteval.results import Metric
from fastrec.harnesses.log import Sample, Score
from fastrec.harnesses.values import number_of, spell
from fastrec.schemas.newest import AnswerAttribution, Input, Output, TokenUsage

__all__ = ["sample_of"]

_CORPUS_INPUTS: Final = ({"golds", "preds"}, {"logprobs", "weights"}, {"source", "hyp", "ref"})
"""What lighteval keeps of a sample for a metric that has no scores, only a value for all samples together."""


def sample_of(detail: Detail, metrics: Mapping[str, Metric]) -> Sample:
    """Turn a row into a sample; `metrics` is what the results say about the metrics."""
    options = None if detail.is_generative else _options(detail)
    metadata = {}
    if options is not None:
        if detail.correct:
            metadata["reference_index"] = ",".join(map(str, detail.correct))
        if len(detail.logprobs) == 1:
            metadata["log_likelihood"] = spell(detail.logprobs[0])
        elif detail.logprobs:
            metadata["log_likelihoods"] = spell(detail.logprobs)
    return Sample(
        sample_id=detail.sample_id,
        input=Input(
            raw=detail.question,
            formatted=detail.prompt if detail.prompt and detail.prompt != detail.question else UNSET,
            reference=detail.references,
            choices=detail.choices if options is not None and detail.choices else UNSET,
        ),
        output=_written(detail),
        scores=[score for name, value in detail.metrics.items() for score in _scores(name, value, options, metrics)],
        answers=_answers(detail),
        token_usage=_usage(detail),
        metadata=metadata,
    )


def _options(detail: Detail) -> Options:
    return Options(
        texts=detail.choices,
        logprobs=detail.logprobs,
        correct=detail.correct,
        unconditioned=detail.unconditioned,
        tokens=detail.output_tokens,
    )


def _written(detail: Detail) -> Output:
    """Return what the model wrote. Of multiple choice, each score has the choice that its metric picks."""
    if not any(detail.reasonings):
        return Output(raw=detail.texts)
    return Output(raw=detail.texts, reasoning_trace=[text or "" for text in detail.reasonings])


def _answers(detail: Detail) -> list[AnswerAttribution]:
    """Return the texts that were scored, if they differ from what the model wrote, and what a metric found in them."""
    found = [(text, "text_post_processed") for text in detail.processed] if detail.processed != detail.texts else []
    found += [(text, "extracted_predictions") for text in detail.extracted]
    return [
        AnswerAttribution(
            turn_idx=0, source="output.raw", extracted_value=text, extraction_method=method, is_terminal=True
        )
        for text, method in found
    ]


def _usage(detail: Detail) -> TokenUsage | None:
    read, written = sum(detail.input_tokens), sum(detail.output_tokens)
    if not read and not written:
        return None
    return TokenUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)


def _scores(name: str, value: Any, options: Options | None, metrics: Mapping[str, Metric]) -> Iterator[Score]:
    """Yield the scores of a metric: one, or one per key of a dict."""
    metric = metrics.get(name)
    if value is None and metric is not None and not _applies(metric, options):
        return  # a column that only rows with the other kind of request fill
    if isinstance(value, dict):
        if any(keys <= value.keys() for keys in _CORPUS_INPUTS):
            yield Score(metric=name, value=None, problem=f"{name} has a value for all samples only, not for each")
            return
        parts = {key: part for key, part in value.items() if part is not None}
        if any(number_of(part) is not None for part in parts.values()):
            for key, part in parts.items():
                yield _score(f"{name}:{key}", part, options, metric)
            return
    yield _score(name, value, options, metric)


def _score(name: str, value: Any, options: Options | None, metric: Metric | None) -> Score:
    number = number_of(value)
    score = Score(metric=name, value=number)
    if number is None:
        shown = spell(value)
        score.problem = (
            f"the log has no value of {name}"
            if value is None
            else f"the value of {name} is not a number: {shown if len(shown) <= 80 else shown[:79] + '…'}"
        )
    if options is not None:
        picked = pick(options, name, None if metric is None else metric.normalization, number)
        if picked is not None:
            score.output = Output(raw=[options.texts[picked]])
            score.metadata = {"choice_index": str(picked)}
    return score


def _applies(metric: Metric, options: Options | None) -> bool:
    """Return whether a metric is computed for rows of a kind: of a request for text, or for log-probabilities."""
    if not metric.category:
        return True
    return metric.category.startswith("GENERATIVE") == (options is None)
