"""Turn a row of details into a sample: what was asked, what the model did, and one score per metric."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from fastrec.harnesses.lighteval.choices import Choices
from fastrec.harnesses.lighteval.details import Detail
from fastrec.harnesses.lighteval.results import Metric
from fastrec.harnesses.lighteval.scores import scores_of
from fastrec.harnesses.log import Sample, extracted
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import AnswerAttribution, Input, Output, TokenUsage

__all__ = ["sample_of"]


def sample_of(detail: Detail, metrics: Mapping[str, Metric]) -> Sample:
    """Turn a row into a sample; `metrics` is what the results say about the metrics."""
    choices = None if detail.is_generative else _choices(detail)
    metadata = {}
    if choices is not None:
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
            choices=detail.choices if choices is not None and detail.choices else UNSET,
        ),
        output=_written(detail),
        scores=[score for name, value in detail.metrics.items() for score in scores_of(name, value, choices, metrics)],
        answers=_answers(detail),
        token_usage=_usage(detail),
        metadata=metadata,
    )


def _choices(detail: Detail) -> Choices:
    return Choices(
        texts=detail.choices,
        likelihoods=detail.logprobs,
        correct=detail.correct,
        unconditional=detail.unconditioned,
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
    return [extracted(text, method) for text, method in found]


def _usage(detail: Detail) -> TokenUsage | None:
    read, written = sum(detail.input_tokens), sum(detail.output_tokens)
    if not read and not written:
        return None
    return TokenUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
