"""Turn the requests and scores of one key into a sample.

method                       output.raw                           extracted answer
multiple_choice_joint        completions                          the choice of the letter that the metric looks at
multiple_choice_separate_*   the choice that the metric picks     the same choice
any other                    all completions of all requests      none
"""

from __future__ import annotations

from typing import Final

from fastrec.harnesses.helm.keys import Key
from fastrec.harnesses.helm.scores import SampleScores
from fastrec.harnesses.helm.structs import Completion, Instance, RequestState
from fastrec.harnesses.helm.texts import input_of, media_text, references_of
from fastrec.harnesses.log import Sample, extracted
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Output, Performance, TokenUsage

__all__ = ["sample_of"]

_SEPARATE: Final = "multiple_choice_separate"
_MANY: Final = 1 << 53


def sample_of(
    key: Key, requests: list[RequestState], found: SampleScores, method: str, labels: dict[str, str]
) -> Sample:
    """Return the sample of a key; `method` is how the run turned instances into requests."""
    shown = requests
    if len(requests) > 1:
        shown = [one for one in requests if one.request_mode != "calibration"] or requests
    instance = shown[0].instance
    texts, right = references_of(instance)
    metadata = _metadata(key, instance, labels)
    if right and len(texts) > 1:
        metadata["reference_index"] = ",".join(map(str, right))
    completions = [one for state in shown if state.result for one in state.result.completions or ()]
    output = Output(raw=[_text(one) for one in completions])
    if thoughts := [one.thinking.text for one in completions if one.thinking and one.thinking.text]:
        output.reasoning_trace = thoughts
    if completions and (reason := _stop_reason(completions[0])):
        metadata["stop_reason"] = reason
    answer, extraction = None, ""
    if method.startswith(_SEPARATE):
        answer, extraction = _picked(found, texts), "predicted_index"
        metadata["log_likelihoods"] = spell([one.logprob for one in completions])
        if answer is not None:
            output = Output(raw=[texts[answer]])
            shown = [one for one in shown if one.reference_index == answer] or shown
    elif completions and shown[0].output_mapping:
        answer, extraction = _mapped(shown[0].output_mapping, completions, texts), "output_mapping"
    answers = []
    if answer is not None:
        metadata["choice_index"] = str(answer)
        answers.append(extracted(texts[answer], method=extraction))
    return Sample(
        sample_id=key.instance,
        input=input_of(instance, shown, texts, right),
        scores=list(found.scores.values()),
        output=output,
        answers=answers,
        token_usage=_token_usage(found),
        performance=_performance(requests),
        error=_error(requests),
        metadata=metadata,
    )


def _metadata(key: Key, instance: Instance, labels: dict[str, str]) -> dict[str, str]:
    metadata = {"trial": str(key.trial)}
    if instance.split:
        metadata["split"] = instance.split
    if instance.sub_split:
        metadata["sub_split"] = instance.sub_split
    if key.perturbation:
        metadata["perturbation"] = labels.get(key.perturbation, key.perturbation)
    return metadata


def _text(completion: Completion) -> str:
    if not completion.text and completion.multimodal_content:
        return media_text(completion.multimodal_content)
    return completion.text or ""


def _stop_reason(completion: Completion) -> str:
    reason = completion.finish_reason
    if isinstance(reason, dict):
        reason = reason.get("reason")
    return spell(reason) if reason else ""


def _picked(found: SampleScores, texts: list[str]) -> int | None:
    """Return the choice that HELM's metric picked: the one with the highest score, by its own normalisation."""
    index = found.totals.get("predicted_index")
    return int(index) if index is not None and index in range(len(texts)) else None


def _mapped(mapping: dict[str, str | None], completions: list[Completion], texts: list[str]) -> int | None:
    """Return the choice whose letter the model said, as HELM's metric does: in the most probable completion."""
    best = completions[0]
    if len(completions) > 1:
        best = max(completions, key=lambda one: 0.0 if one.logprob is None else one.logprob)
    letter = _text(best).strip()
    choice = mapping.get(letter)
    if choice is None or choice not in texts:
        return None
    position = list(mapping).index(letter)  # choices may be equal
    return position if position < len(texts) and texts[position] == choice else texts.index(choice)


def _token_usage(found: SampleScores) -> TokenUsage | None:
    """Return what HELM's tokenizer counted."""
    asked, said = found.totals.get("num_prompt_tokens"), found.totals.get("num_output_tokens")
    if asked is None or said is None or not 0 <= asked < _MANY or not 0 <= said < _MANY:
        return None
    return TokenUsage(input_tokens=round(asked), output_tokens=round(said), total_tokens=round(asked) + round(said))


def _performance(requests: list[RequestState]) -> Performance | None:
    times = [one.result.request_time for one in requests if one.result and one.result.request_time is not None]
    total = sum(times) * 1000
    return Performance(generation_time_ms=total) if times and 0 <= total < float("inf") else None


def _error(requests: list[RequestState]) -> str:
    """Say which requests failed, if any did."""
    problems: dict[str, None] = {}
    for one in requests:
        if one.result is None:
            problems["the request was not executed"] = None
        elif not one.result.success:
            error = one.result.error
            problems[f"the request failed: {spell(error)}" if error else "the request failed"] = None
    return "; ".join(problems)
