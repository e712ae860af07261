"""The parts of HELM's files that become records. Everything else, above all the tokens, is skipped by the decoder.

The oldest runs have plain text where newer ones have objects: inputs and outputs of instances.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["FOREIGN", "AdapterSpec", "Completion", "CountedStat", "EntryCounts", "Envelope", "Input", "Instance"]
__all__ += ["MediaList", "MetricName", "Perturbation", "Request", "RequestKey", "RequestState", "RunSpec", "Scenario"]
__all__ += ["Stat", "StatsEntry"]

FOREIGN: Final = "is not as HELM writes it"
"""The problem of a document that does not decode as these Structs."""

Perturbation = dict[str, Any]
"""The description of a perturbation. All of it is its identity: one name may have several descriptions."""


class _Struct(msgspec.Struct, gc=False):
    """An object of a log; keys that are not fields are skipped."""


class Media(_Struct):
    """A text, or a file that was shown to the model."""

    content_type: str = ""
    text: str | None = None
    location: str | None = None


class MediaList(_Struct):
    """Texts and files in order."""

    media_objects: list[Media] = []


class Input(_Struct):
    """A question, or an answer: of a reference."""

    text: str | None = None
    messages: list[dict[str, Any]] | None = None
    multimedia_content: MediaList | None = None


class Reference(_Struct):
    """A possible answer; the right ones have the tag `correct`."""

    output: Input | str = ""
    tags: list[str] | None = None


class Instance(_Struct):
    """A question with its references."""

    id: str | int | None = None
    input: Input | str = ""
    references: list[Reference] | None = None
    split: str | None = None
    sub_split: str | None = None
    perturbation: Perturbation | None = None


class Request(_Struct):
    """What was sent to the model."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    multimodal_prompt: MediaList | None = None


class Thinking(_Struct):
    """What the model thought before it answered."""

    text: str | None = None


class Completion(_Struct):
    """One answer of the model."""

    text: str | None = None
    logprob: float | None = None
    finish_reason: Any = None
    thinking: Thinking | None = None
    multimodal_content: MediaList | None = None


class Result(_Struct):
    """What came back."""

    success: bool = True
    completions: list[Completion] | None = None
    error: Any = None
    request_time: float | None = None


class RequestState(_Struct):
    """A request for an instance, and its result."""

    instance: Instance
    train_trial_index: int = 0
    reference_index: int | None = None
    request_mode: str | None = None
    output_mapping: dict[str, str | None] | None = None
    request: Request | None = None
    result: Result | None = None


class _KeyInstance(_Struct):
    id: str | int | None = None
    perturbation: Perturbation | None = None


class _KeyResult(_Struct):
    request_datetime: int | float | None = None


class RequestKey(_Struct):
    """Of a request state: what it is joined by, and when it was sent."""

    instance: _KeyInstance
    train_trial_index: int = 0
    result: _KeyResult | None = None


class MetricName(_Struct):
    """A metric, and the instances that it is about. HELM gives the scores of an instance its own perturbation."""

    name: str
    split: str | None = None
    sub_split: str | None = None
    perturbation: Perturbation | None = None


class Stat(_Struct):
    """Values of a metric, added up."""

    name: MetricName
    count: int | float = 1
    sum: Any = None
    mean: Any = None


class StatsEntry(_Struct):
    """What one metric object of HELM says about an instance; several entries may have the same key."""

    instance_id: str | int
    train_trial_index: int = 0
    perturbation: Perturbation | None = None
    stats: list[Stat] | None = None


class _CountedName(msgspec.Struct, frozen=True, gc=False):
    name: str
    split: str | None = None
    sub_split: str | None = None


class CountedStat(msgspec.Struct, frozen=True, gc=False):
    """A metric, and how many values it has; it can be hashed."""

    name: _CountedName
    count: int | float = 1


class EntryCounts(_Struct):
    """Of an entry: what it is joined by, and which values it has."""

    instance_id: str | int
    train_trial_index: int = 0
    perturbation: Perturbation | None = None
    stats: list[CountedStat] | None = None


class AdapterSpec(_Struct):
    """How instances become requests."""

    method: str = ""
    model: str = ""
    model_deployment: str = ""


class RunSpec(_Struct):
    """`run_spec.json`."""

    name: str
    adapter_spec: AdapterSpec | None = None


class Scenario(_Struct):
    """`scenario.json`."""

    name: str


class Envelope(_Struct):
    """`scenario_state.json` without its requests."""

    adapter_spec: AdapterSpec | None = None
