"""Turn the requests and scores of one key into a sample.

method                       output.raw                           extracted answer
multiple_choice_joint        completions                          the choice of the letter
multiple_choice_separate_*   the choice that the metric picks     the same choice
any other                    all completions of all requests      none
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import inf
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from fastrec.errors import LogError
from fastrec.harnesses.files import open_plain
from fastrec.harnesses.log import (
    Log,
    RunInfo,
    Sample,
    Samples,
    Score,
    extracted,
    lists_by,
    tokens_of,
    with_every_metric,
)
from fastrec.harnesses.transcripts import text_of
from fastrec.harnesses.values import (
    JsonObject,
    LogObject,
    OptionalInt,
    OptionalNumber,
    OptionalText,
    Texts,
    decoder,
    explaining,
    number_of,
    spell,
    spelled,
)
from fastrec.schemas.newest import Input, Output, Performance
from fastrec.schemas.schema import without_nulls
from fastrec.storage import base_name
from fastrec.storage.base import read_at

# The parts of HELM's files that become records. Everything else, above all the tokens, is skipped
# by the decoder. The oldest runs have plain text where newer ones have objects: inputs and outputs
# of instances.

_MOST_METRICS = 10_000  # whose ids are remembered

FOREIGN = "is not as HELM writes it"

METHOD = "adapter_method"  # the key of the metadata that names the method of adaptation

# the method that sends a request for each part of a long text
LANGUAGE_MODELING = "language_modeling"

# The description of a perturbation. All of it is its identity: one name may have several.
Perturbation = JsonObject


class Media(LogObject):
    content_type: str = ""
    text: OptionalText = None
    location: OptionalText = None


class MediaList(LogObject):
    media_objects: list[Media] = []


class HelmInput(LogObject):
    """A question, or an answer: of a reference."""

    text: OptionalText = None
    messages: list[JsonObject] | None = None
    multimedia_content: MediaList | None = None


class Reference(LogObject):
    """A possible answer; the right ones have the tag `correct`."""

    output: HelmInput | str = ""
    tags: list[str] | None = None


class Instance(LogObject):
    id: str | int | None = None
    input: HelmInput | str = ""
    references: list[Reference] | None = None
    split: OptionalText = None
    sub_split: OptionalText = None
    perturbation: Perturbation | None = None
    extra_data: Any = None
    contrast_inputs: Any = None
    contrast_references: Any = None


class Request(LogObject):
    prompt: OptionalText = None
    messages: list[JsonObject] | None = None
    multimodal_prompt: MediaList | None = None


class _Token(LogObject):
    """Not read: a record has no place for its log-probability."""


class Completion(LogObject):
    text: OptionalText = None
    tokens: list[_Token] | None = None
    logprob: OptionalNumber = None
    finish_reason: Any = None
    thinking: HelmInput | None = None
    multimodal_content: MediaList | None = None


class Result(LogObject):
    success: bool = True
    completions: list[Completion] | None = None
    error: Any = None
    request_time: OptionalNumber = None


class RequestState(LogObject):
    instance: Instance
    train_trial_index: int = 0
    reference_index: OptionalInt = None
    request_mode: OptionalText = None
    output_mapping: dict[str, OptionalText] | None = None
    request: Request | None = None
    result: Result | None = None
    annotations: Any = None


class MetricName(Struct, frozen=True, gc=False):
    """A metric, and the instances that it is about.

    HELM gives the scores of an instance its own perturbation.
    """

    name: str
    split: OptionalText = None
    sub_split: OptionalText = None


class Stat(LogObject):
    name: MetricName
    count: int | float = 1
    sum: Any = None
    mean: Any = None


class Entry(LogObject):
    """What one metric object of HELM says about an instance.

    Several entries may have the same key.
    """

    instance_id: str | int
    train_trial_index: int = 0
    perturbation: Perturbation | None = None
    stats: list[Stat] | None = None


Ranges = list[tuple[int, int]]  # of the bytes of whole items: start and end


class LogSlice(Struct, frozen=True):
    requests: Ranges
    entries: Ranges
    # what to call each perturbation of the run, by its canonical description
    labels: Texts
    empty_metrics: frozenset[str]  # metrics that have no value in the whole run


class Key(NamedTuple):
    """The identity of a sample, by which requests and scores are joined."""

    instance: str
    perturbation: str  # its description as canonical JSON; empty if there is none
    trial: int


def key_of_request(path: str, state: Any) -> Key:
    return _key_of(path, state.instance.id, state.instance.perturbation, state.train_trial_index)


def key_of_entry(path: str, entry: Entry) -> Key:
    return _key_of(path, entry.instance_id, entry.perturbation, entry.train_trial_index)


def _key_of(
    path: str, instance: str | int | None, perturbation: Perturbation | None, trial: int
) -> Key:
    if instance is None:
        raise LogError(path, "has an instance without an id")
    return Key(str(instance), canonical(perturbation) if perturbation else "", trial)


def canonical(perturbation: Perturbation) -> str:
    """The description of a perturbation as one text, whatever the order of its fields.

    >>> canonical({"name": "typos", "prob": 0.1, "seed": None})
    '{"name":"typos","prob":0.1}'
    """
    fields = without_nulls(perturbation)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def metric_id(name: MetricName, label: str) -> str:
    return ":".join(part for part in (name.name, name.split, name.sub_split, label) if part)


known_metric_id = lru_cache(_MOST_METRICS)(metric_id)  # metrics come again with every sample


def _input_of(
    instance: Instance, requests: Sequence[RequestState], texts: list[str], right: list[int]
) -> Input:
    """Return the question, its right references, and the prompts of these requests."""
    question = _question(instance.input)
    prompts = list(dict.fromkeys(filter(None, (_prompt(state.request) for state in requests))))
    prompt = spell(prompts) if len(prompts) > 1 else "".join(prompts)
    is_choice = len(texts) > 1 and (len(right) < len(texts) or bool(requests[0].output_mapping))
    return Input(
        raw=question or prompt,
        formatted=prompt if question and prompt else UNSET,
        reference=[texts[index] for index in right],
        choices=texts if is_choice else UNSET,
    )


def _references_of(instance: Instance) -> tuple[list[str], list[int]]:
    """The texts of the references, and the positions of the right ones."""
    references = instance.references or []
    texts = [_question(reference.output) for reference in references]
    return texts, [
        position
        for position, reference in enumerate(references)
        if "correct" in (reference.tags or ())
    ]


def _question(asked: HelmInput | str) -> str:
    if isinstance(asked, str):
        return asked
    if asked.text:
        return asked.text
    if asked.messages:
        users = [message for message in asked.messages if message.get("role") == "user"]
        return text_of((users or asked.messages)[-1].get("content")) or ""
    return _media_text(asked.multimedia_content)


def _prompt(request: Request | None) -> str:
    request = request or Request()
    if request.prompt:
        return request.prompt
    if request.messages:
        return spell(request.messages)
    return _media_text(request.multimodal_prompt)


def _media_text(media: MediaList | None) -> str:
    """Return texts as they are, and a placeholder for each file: its type and name."""
    parts = []
    for item in media.media_objects if media else ():
        name = base_name(item.location) if item.location else "unnamed"
        parts.append(item.text if item.text is not None else f"[{item.content_type}: {name}]")
    return "\n".join(parts)


_EMPTY = "HELM has no value of this metric for this instance"
_TOTALS = frozenset({"num_prompt_tokens", "num_output_tokens", "predicted_index"})

# The scores of a sample, and the values of metrics in _TOTALS.
_SampleScores = tuple[list[Score], dict[str, float]]


def _scores_of(
    entries: Sequence[Entry],
    perturbation: str,
    log_slice: LogSlice,
    *,
    adds_up: bool,
) -> _SampleScores:
    """Read the scores of a sample.

    Several metric objects of HELM may state the same metric: equal values count once, different
    ones are an error. Only in language modeling, entries are about different requests of one
    instance; they are added up, as HELM does itself.
    """
    scores = {}
    totals = {}
    stats: Iterable[Stat] = [stat for entry in entries for stat in entry.stats or ()]
    if adds_up and len(entries) > 1:
        stats = _added(stats)
    label = log_slice.labels.get(perturbation, perturbation)
    for stat in stats:
        metric = known_metric_id(stat.name, label)
        mean = stat.mean
        if mean.__class__ is float and -inf < mean < inf and metric not in scores:
            scores[metric] = Score(metric, mean)  # nearly always
        elif metric not in log_slice.empty_metrics:
            score = _score(metric, stat)
            earlier = scores.get(metric)
            scores[metric] = score if earlier is None else _combined(earlier, score)
        name = stat.name.name
        if name in _TOTALS and stat.count and (total := number_of(stat.sum)) is not None:
            totals[name] = total
    return list(scores.values()), totals


def mean_of(stat: Stat) -> OptionalNumber:
    if stat.mean is not None:
        return number_of(stat.mean)
    total = number_of(stat.sum)
    count = number_of(stat.count)
    return None if total is None or not count else number_of(total / count)


def _score(metric: str, stat: Stat) -> Score:
    value = mean_of(stat)
    if value is not None:
        return Score(metric, value)
    problem = (
        _EMPTY if stat.mean is None else f"the score is not a number: {spell(stat.mean)[:100]}"
    )
    return Score(metric, None, problem)


def _combined(earlier: Score, score: Score) -> Score:
    if earlier.value == score.value or score.problem == _EMPTY:
        return earlier
    if earlier.problem == _EMPTY:
        return score
    return Score(
        score.metric,
        None,
        "HELM has several values of this metric for this instance",
    )


def _added(stats: Iterable[Stat]) -> Iterable[Stat]:
    totals: dict[MetricName, Stat] = {}
    for stat in stats:
        total = totals.setdefault(stat.name, Stat(stat.name, 0, 0.0))
        if stat.count:
            added = number_of(stat.sum)
            total.count += stat.count
            total.sum = None if added is None or total.sum is None else total.sum + added
    return totals.values()


def _sample_of(
    key: Key,
    requests: list[RequestState],
    sample_scores: _SampleScores,
    method: str,
    labels: Texts,
) -> Sample:
    """Return the sample of a key; `method` is how the run turned instances into requests."""
    scores, totals = sample_scores
    shown = [state for state in requests if state.request_mode != "calibration"] or requests
    instance = shown[0].instance
    texts, right = _references_of(instance)
    results = [state.result for state in shown if state.result]
    completions = [completion for result in results for completion in result.completions or ()]
    output = _output_of(completions)
    is_separate = method.startswith("multiple_choice_separate")
    if is_separate:
        choice = _predicted(totals, texts)
        if choice is not None:
            output = Output(raw=[texts[choice]])
            shown = [state for state in shown if state.reference_index == choice] or shown
    else:
        choice = _mapped(shown[0].output_mapping, completions, texts)
    extraction = "predicted_index" if is_separate else "output_mapping"
    about = {
        "trial": str(key.trial),
        "split": instance.split,
        "sub_split": instance.sub_split,
        "perturbation": labels.get(key.perturbation, key.perturbation),
        "reference_index": ",".join(map(str, right)) if len(texts) > 1 else "",
        "stop_reason": _stop_reason(completions),
        "log_likelihoods": spell([completion.logprob for completion in completions])
        if is_separate
        else "",
        "choice_index": "" if choice is None else str(choice),
    }
    return Sample(
        sample_id=key.instance,
        input=_input_of(instance, shown, texts, right),
        scores=scores,
        output=output,
        answers=[] if choice is None else [extracted(texts[choice], extraction)],
        token_usage=tokens_of(totals.get("num_prompt_tokens"), totals.get("num_output_tokens")),
        performance=_performance_of(requests),
        error=_error(requests),
        metadata=spelled(about),
        fields=_fields_of(shown[0]),
        unread=["tokens"] if any(completion.tokens for completion in completions) else (),
    )


def _output_of(completions: Sequence[Completion]) -> Output:
    thinking = [completion.thinking or HelmInput() for completion in completions]
    thoughts = [thought.text for thought in thinking if thought.text]
    return Output(raw=[*map(_text, completions)], reasoning_trace=thoughts or UNSET)


def _stop_reason(completions: Sequence[Completion]) -> Any:
    reason = completions[0].finish_reason if completions else None
    return reason.get("reason") if isinstance(reason, dict) else reason


def _fields_of(state: RequestState) -> JsonObject:
    instance = state.instance
    extra = instance.extra_data
    fields = {
        "contrast_inputs": instance.contrast_inputs,
        "contrast_references": instance.contrast_references,
        "annotations": state.annotations,
    }
    return fields | (extra if isinstance(extra, dict) else {"extra_data": extra})


def _performance_of(requests: Iterable[RequestState]) -> Performance | None:
    times = [state.result.request_time for state in requests if state.result]
    known = [time for time in times if time is not None]
    total = sum(known) * 1000
    return Performance(generation_time_ms=total) if known and 0 <= total < inf else None


def _predicted(totals: dict[str, float], texts: list[str]) -> OptionalInt:
    """Return the choice with the highest score, by the normalisation of HELM's metric."""
    index = totals.get("predicted_index")
    return int(index) if index is not None and index in range(len(texts)) else None


def _text(completion: Completion) -> str:
    if not completion.text and completion.multimodal_content:
        return _media_text(completion.multimodal_content)
    return completion.text or ""


def _mapped(
    mapping: dict[str, OptionalText] | None, completions: list[Completion], texts: list[str]
) -> OptionalInt:
    """Return the choice whose letter is the most probable completion, as HELM does."""
    if not completions or not mapping:
        return None
    best = max(
        completions,
        key=lambda completion: 0.0 if completion.logprob is None else completion.logprob,
    )
    letter = _text(best).strip()
    choice = mapping.get(letter)
    if choice is None or choice not in texts:
        return None
    position = list(mapping).index(letter)  # choices may be equal
    return position if position < len(texts) and texts[position] == choice else texts.index(choice)


def _error(requests: list[RequestState]) -> str:
    problems = []
    for state in requests:
        result = state.result
        if not result:
            problems.append("the request was not executed")
        elif not result.success:
            reason = f": {spell(result.error)}" if result.error else ""
            problems.append(f"the request failed{reason}")
    return "; ".join(dict.fromkeys(problems))


_decode_requests = decoder(list[RequestState])
_decode_entries = decoder(list[Entry])


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Samples:
    """Read the samples of a slice: requests and scores of the same key become one sample.

    Metrics depend on the perturbation and the split, so samples without scores get the metrics of
    samples that have the same.
    """
    path = log.paths["per_instance_stats"]
    entries = lists_by(partial(key_of_entry, path), _read(path, log_slice.entries, _decode_entries))
    path = log.paths["scenario_state"]
    requests = lists_by(
        partial(key_of_request, path), _read(path, log_slice.requests, _decode_requests)
    )
    method = run.metadata.get(METHOD, "")
    by_kind = defaultdict(list)
    all_samples = []
    for key, its_requests in requests.items():
        scores = _scores_of(
            entries.get(key, ()), key.perturbation, log_slice, adds_up=method == LANGUAGE_MODELING
        )
        sample = _sample_of(key, its_requests, scores, method, log_slice.labels)
        asked = its_requests[0].instance
        by_kind[key.perturbation, asked.split, asked.sub_split].append(sample)
        all_samples.append(sample)
    for same in by_kind.values():
        with_every_metric(same)
    return all_samples


def _read(path: str, ranges: Ranges, decode: Any) -> Iterator[Any]:
    with open_plain(path) as source:
        for start, end in ranges:
            text = read_at(source, end - start, start)
            if len(text) < end - start:
                raise LogError(
                    path,
                    "changed while it was read: wait until it is complete, and import it again",
                )
            with explaining(path, f"{FOREIGN} after byte {start:,}"):
                yield from decode(b"[" + text + b"]")
