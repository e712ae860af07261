"""The parts of HELM's files that become records. Everything else, above all the tokens, is skipped by the decoder.

The oldest runs have plain text where newer ones have objects: inputs and outputs of instances.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from xxhash import xxh3_64_intdigest

from fastrec.errors import LogError
from fastrec.harnesses.values import spell

_T = TypeVar("_T")

FOREIGN: Final = "is not as HELM writes it"

METHOD: Final = "adapter_method"  # the key of the metadata that names the method of adaptation

LANGUAGE_MODELING: Final = "language_modeling"
"""The method that sends a request for each part of a long text."""

Perturbation = dict[str, Any]
"""The description of a perturbation. All of it is its identity: one name may have several descriptions."""


class _Struct(msgspec.Struct, gc=False):
    """An object of a log; keys that are not fields are skipped."""


class Media(_Struct):
    content_type: str = ""
    text: str | None = None
    location: str | None = None


class MediaList(_Struct):
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
    id: str | int | None = None
    input: Input | str = ""
    references: list[Reference] | None = None
    split: str | None = None
    sub_split: str | None = None
    perturbation: Perturbation | None = None
    extra_data: Any = None
    contrast_inputs: Any = None
    contrast_references: Any = None


class Request(_Struct):
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    multimodal_prompt: MediaList | None = None


class _Token(_Struct):
    """Not read: a record has no place for its log-probability."""


class Completion(_Struct):
    text: str | None = None
    tokens: list[_Token] | None = None
    logprob: float | None = None
    finish_reason: Any = None
    thinking: Input | None = None
    multimodal_content: MediaList | None = None


class Result(_Struct):
    success: bool = True
    completions: list[Completion] | None = None
    error: Any = None
    request_time: float | None = None


class RequestState(_Struct):
    instance: Instance
    train_trial_index: int = 0
    reference_index: int | None = None
    request_mode: str | None = None
    output_mapping: dict[str, str | None] | None = None
    request: Request | None = None
    result: Result | None = None
    annotations: Any = None


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


class MetricName(msgspec.Struct, frozen=True, gc=False):
    """A metric, and the instances that it is about. HELM gives the scores of an instance its own perturbation."""

    name: str
    split: str | None = None
    sub_split: str | None = None


class CountedStat(msgspec.Struct, frozen=True, gc=False):
    """A metric, and how many values it has; it can be hashed."""

    name: MetricName
    count: int | float = 1


class Stat(_Struct):
    name: MetricName
    count: int | float = 1
    sum: Any = None
    mean: Any = None


class Entry(_Struct, Generic[_T]):
    """What one metric object of HELM says about an instance; several entries may have the same key."""

    instance_id: str | int
    train_trial_index: int = 0
    perturbation: Perturbation | None = None
    stats: list[_T] | None = None


class AggregateName(MetricName, frozen=True, gc=False):
    perturbation: Perturbation | None = None


class AggregateStat(Stat):
    name: AggregateName


class AdapterSpec(_Struct):
    method: str = ""
    model: str = ""
    model_deployment: str = ""


class RunSpec(_Struct):
    """Also a scenario, which has a name only."""

    name: str
    adapter_spec: AdapterSpec | None = None


class Envelope(_Struct):
    """`scenario_state.json` without its requests."""

    adapter_spec: AdapterSpec | None = None


class LogSlice(msgspec.Struct, frozen=True):
    """A slice: byte ranges of whole items, as pairs of start and end."""

    requests: list[tuple[int, int]]
    entries: list[tuple[int, int]]
    labels: dict[str, str]
    """What to call each perturbation of the run, by its canonical description."""
    empty_metrics: frozenset[str]  # metrics that have no value in the whole run


class Key(NamedTuple):
    """The identity of a sample, by which requests and scores are joined."""

    instance: str
    perturbation: str
    """Its description as canonical JSON; empty if there is none."""
    trial: int


def key_of(instance: str | int | None, perturbation: Perturbation | None, trial: int, path: str) -> Key:
    if instance is None:
        raise LogError(path, "has an instance without an id")
    return Key(str(instance), canonical(perturbation) if perturbation else "", trial)


def canonical(perturbation: Perturbation) -> str:
    """The description of a perturbation as one text, whatever the order of its fields.

    >>> canonical({"name": "typos", "prob": 0.1, "seed": None})
    '{"name":"typos","prob":0.1}'
    """
    fields = {name: value for name, value in sorted(perturbation.items()) if value is not None}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def hash_of(key: Key) -> int:
    text = f"{key.trial}\0{key.perturbation}\0{key.instance}"
    return xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def labels_of(perturbations: Iterable[str]) -> dict[str, str]:
    """Name each perturbation, given the canonical descriptions of all of a run.

    The name alone is enough, unless the run has several of that name: then what tells them apart is added, as in
    `typos(prob=0.1)`.
    """
    by_name: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for text in perturbations:
        fields = json.loads(text)
        by_name[spell(fields.get("name", "unnamed"))][text] = fields
    labels = {}
    for name, same in by_name.items():
        first, *others = same.values()
        names = sorted({field for fields in same.values() for field in fields})
        differing = [field for field in names if any(one.get(field) != first.get(field) for one in others)]
        for text, fields in same.items():
            marks = ",".join(f"{field}={spell(fields[field])}" for field in differing if field in fields)
            labels[text] = f"{name}({marks})" if len(same) > 1 else name
    return labels


def metric_id(name: MetricName, label: str) -> str:
    return ":".join(part for part in (name.name, name.split, name.sub_split, label) if part)
