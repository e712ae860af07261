"""Turn a sample of lm-eval into one of fastrec.

requests                             kind              output.raw
a continuation each, several         choice            the choice that the metric picks
a continuation, one                  likelihood        the continuation, if the model says it
a text alone                         rolling           nothing: the text is only read
settings of a generation             generation        all responses
"""

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType, defstruct

from fastrec.harnesses.choices import Choices, Rule, index_of_greatest
from fastrec.harnesses.lm_eval.questions import (
    KEY,
    NO_RESPONSE,
    Draft,
    Likelihoods,
    Question,
    choices_after,
    correct_choices,
    decode,
    likelihoods_in,
    other_responses,
    requests_of,
    texts_in,
    with_and_without_context,
)
from fastrec.harnesses.log import Sample, Score, extracted
from fastrec.harnesses.transcripts import prompt_of
from fastrec.harnesses.values import (
    Names,
    OptionalInt,
    Texts,
    decode_object,
    encode,
    number_in,
    number_of,
    replace_lone_surrogates,
    spell,
    value_of,
)
from fastrec.schemas.newest import Input, Output
from fastrec.schemas.view import REFUSALS, json_decoder

_MOST_SHOWN = 60  # characters of a value in an error
_NOT_FINITE = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})
_NO_FILTER = ("none", "")
_NO_OUTPUT = Output(raw=[])
_MUTUAL_INFO = "acc_mutual_info"
# Metrics that are 1 if the pick is correct, and else 0. All others pick as `acc` does.
_RULES: dict[str, Rule] = {
    "acc": "none",
    "acc_norm": "delimited",
    "acc_bytes": "bytes",
    _MUTUAL_INFO: "pmi",
}

_decode_responses = json_decoder(list[list[str]])
_decode_filtered = json_decoder(list[str])

_NO_TEXT = Raw(b"")
_MOST_NAMES = 1_000


class Request(Struct, gc=False):
    arg_0: Raw = _NO_TEXT
    arg_1: Any = None


_KEYS: list[tuple[str, Any] | tuple[str, Any, Any]] = [
    ("doc_id", int | str),
    ("arguments", dict[str, Request | None] | list[list[Raw]]),
    ("doc", Any, None),
    ("target", Any, None),
    ("resps", Raw, _NO_TEXT),
    ("filtered_resps", Raw, _NO_TEXT),
    ("filter", str | None, None),
    ("metrics", list[str] | None, None),
    ("doc_hash", str | None, None),
    ("prompt_hash", Raw, _NO_TEXT),
    ("target_hash", Raw, _NO_TEXT),
]
_ODD = r'["\\\x00-\x1f]'  # what a field of a Struct cannot have in its name
_KNOWN = frozenset(key[0] for key in _KEYS)


class RowReader:
    """Decodes samples.

    The keys of a sample are known, but for the metrics, whose names are keys, too. The decoder
    knows those that were seen so far and refuses others; then it is made anew. So nothing is parsed
    that is not needed.
    """

    def __init__(self, metrics: Iterable[str]) -> None:
        # By name of a metric, the attribute with its value; UNSET if the sample does not have it.
        self.attributes: Texts = {}
        self._add(metrics)

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in _KNOWN:
                self.attributes.setdefault(name, f"metric_{len(self.attributes)}")
        if len(self.attributes) > _MOST_NAMES:
            raise ValueError(f"it is one of samples with more than {_MOST_NAMES:,} different keys")
        fields = [*_KEYS, *((name, Any, UNSET) for name in self.attributes.values())]
        kind = defstruct(
            "Row",
            fields,
            rename={
                attribute: name
                for name, attribute in self.attributes.items()
                if not re.search(_ODD, name)
            },
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
        self._decode = json_decoder(kind)

    def row(self, text: bytes) -> Any:
        try:
            return self._decode(text)
        except REFUSALS:
            value = decode_object(text)
        self._add(value)
        named = {
            self.attributes[key] if re.search(_ODD, key) else key: item
            for key, item in value.items()
        }
        try:
            return self._decode(encode(named))
        except REFUSALS as exc:
            raise ValueError(str(exc)) from None


class TaskSetup(Struct, frozen=True):
    """The settings of a task that decide what its records look like."""

    # `doc_to_text`: a key of the document or a template; empty if it is a function
    question: str = ""
    target: str = ""  # `doc_to_target`, likewise
    delimiter: str = " "  # what comes between the context and a choice
    output_type: str = ""
    # `loglikelihood`, `loglikelihood_rolling`, `generate_until` …; empty if unknown
    metrics: Names = ()  # names of the metrics in the results
    filters: Names = ()  # names of the filters, in the order in which they were applied


class SampleMaker:
    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._question = Question(setup.question)
        self._target_key = setup.target if re.fullmatch(KEY, setup.target) else ""
        self._target_is_template = "{{" in setup.target
        self.reader = RowReader(setup.metrics)
        self._seen: dict[int | str, int] = {}  # samples by document

    def make(self, row: Any) -> Sample:
        contexts, continuations = requests_of(row.arguments)
        name, metrics, scores = self._scores_of(row)
        metadata = {"doc_hash": row.doc_hash} if row.doc_hash else {}
        if name not in _NO_FILTER:
            metadata["filter"] = name
        draft = Draft(row, contexts, continuations, name, metrics, scores, metadata)
        kind = continuations[0].__class__
        if kind is dict:
            return self._generation(draft)
        if kind is str:
            if not all(continuation.__class__ is str for continuation in continuations):
                raise ValueError("a request has no continuation, unlike the first one")
            answers = likelihoods_in(row.filtered_resps, row.resps, len(continuations))
            if answers is not None:
                return (
                    self._choice(draft, answers)
                    if len(contexts) > 1
                    else self._likelihood(draft, *answers[0])
                )
        return self._rolling(draft) or self._generation(draft)

    def _scores_of(self, row: Any) -> tuple[str, list[str], list[Score]]:
        """The filter of a sample, empty if it is unknown, its metrics, and their scores.

        Samples name their filter and metrics since November 2024. Before, metrics are all keys that
        are not known to be something else. The filter follows from the order: a document has one
        sample per filter, and the filters have an order. A metric with several parts has a score
        for each.
        """
        name = self._filter_by_order(row.doc_id) if row.filter is None else row.filter
        given = row.metrics
        if given is None:
            given = [metric for metric in self.reader.attributes if self._is_metric(row, metric)]
        metrics = []
        scores = []
        for metric in given:
            value = getattr(row, self.reader.attributes.get(metric, ""), UNSET)
            parts = {metric: value}
            if value.__class__ is dict and value:
                parts = {f"{metric}:{key}": part for key, part in value.items()}
            for part_name, part in parts.items():
                metrics.append(metric)
                scores.append(_score(metric_id(part_name, name), part))
        return name, metrics, scores

    def _filter_by_order(self, doc_id: int | str) -> str:
        filters = self._setup.filters
        if len(filters) <= 1:
            return filters[0] if filters else ""
        number = self._seen.get(doc_id, 0)
        self._seen[doc_id] = number + 1
        return filters[number] if number < len(filters) else ""

    def _is_metric(self, row: Any, name: str) -> bool:
        value = getattr(row, self.reader.attributes[name])
        return value is not UNSET and (value.__class__ is not str or name in self._setup.metrics)

    def _generation(self, draft: Draft) -> Sample:
        row = draft.row
        try:
            (raw,), answers = _decode_responses(row.resps), _decode_filtered(row.filtered_resps)
            error = "" if raw else NO_RESPONSE
        except (MsgspecError, ValueError):  # several requests, or something else than text
            raw, answers, error = other_responses(draft)
        if draft.filter in _NO_FILTER and answers == raw:
            answers = []  # nothing was extracted
        sample = _sample(
            draft,
            self._input(row, decode(draft.contexts[0]), self._references(row)),
            Output(raw=raw),
        )
        sample.answers = [extracted(text, draft.filter or "unknown filter") for text in answers]
        sample.error = error
        return sample

    def _choice(self, draft: Draft, answers: Likelihoods) -> Sample:
        row = draft.row
        metadata = draft.metadata
        contexts: Sequence[Raw] = draft.contexts
        continuations: Sequence[Any] = draft.continuations
        likelihoods: Sequence[float] = [likelihood for likelihood, _ in answers]
        unconditional: list[float] = []
        if _MUTUAL_INFO in draft.metrics and len(contexts) % 2 == 0:
            choices_at, bare_at = with_and_without_context(contexts)
            unconditional = [likelihoods[index] for index in bare_at]
            requests = list(zip(contexts, continuations, likelihoods, strict=True))
            contexts, continuations, likelihoods = zip(
                *(requests[index] for index in choices_at), strict=True
            )
        if contexts.count(contexts[0]) == len(contexts):
            sent = decode(contexts[0])
            texts = list(map(str.strip, continuations))
            choices = Choices(
                texts, likelihoods, sent=continuations, delimiter=self._setup.delimiter
            )
        else:
            sent, choices = choices_after(
                [spell(decode(context)) for context in contexts], continuations, likelihoods
            )
            texts = choices.texts
        choices.unconditional = unconditional
        is_text = bool(self._target_key) and isinstance(_value(row.doc, self._target_key), str)
        best = index_of_greatest(likelihoods)
        correct = correct_choices(row.target, texts, is_text=is_text) or _correct_by_score(
            draft, best, len(texts)
        )
        choices.correct = correct
        metadata["log_likelihoods"] = encode(likelihoods).decode()
        if correct:
            metadata["reference_index"] = ",".join(map(str, correct))
        asked = self._input(
            row, sent, [texts[index] for index in correct] or _references_of(row.target)
        )
        asked.choices = texts
        sample = _sample(draft, asked, _NO_OUTPUT)
        _add_picks(sample, texts, _picks(choices, draft.metrics, draft.scores, best))
        return sample

    def _likelihood(self, draft: Draft, likelihood: float, is_said: bool) -> Sample:
        text = draft.continuations[0].strip()
        draft.metadata["log_likelihood"] = spell(likelihood)
        asked = self._input(draft.row, decode(draft.contexts[0]), [text])
        return _sample(draft, asked, Output(raw=[text]) if is_said else _NO_OUTPUT)

    def _rolling(self, draft: Draft) -> Sample | None:
        """Make the sample of a text whose likelihood was measured; None if it was not that."""
        if self._setup.output_type not in ("", "loglikelihood_rolling") or len(draft.contexts) > 1:
            return None
        responses = draft.row.filtered_resps or draft.row.resps
        try:
            likelihood = number_in((texts_in(decode(responses)) if responses else [])[0] or "")
        except (ValueError, IndexError):
            return None
        draft.metadata["log_likelihood"] = spell(likelihood)
        return _sample(
            draft,
            Input(raw=spell(draft.continuations[0] or decode(draft.contexts[0])), reference=[]),
            _NO_OUTPUT,
        )

    def _references(self, row: Any) -> list[str]:
        may_be_list = self._target_is_template
        if self._target_key:
            may_be_list = isinstance(_value(row.doc, self._target_key), list)
        return _references_of(row.target, may_be_list=may_be_list)

    def _input(self, row: Any, sent: Any, references: list[str]) -> Input:
        formatted: str | UnsetType = UNSET
        if sent.__class__ is str and not sent.startswith("[{"):
            raw = sent
        else:
            raw, formatted = prompt_of(sent)
        question = self._question.render(row.doc) if self._question else ""
        if question and len(question) < len(raw) and question in raw:
            formatted = raw if formatted is UNSET else formatted
            raw = question
        return Input(raw=raw, formatted=formatted, reference=references)


def _sample(draft: Draft, asked: Input, output: Output) -> Sample:
    row = draft.row
    return Sample(
        sample_id=str(row.doc_id),
        input=asked,
        scores=draft.scores,
        output=output,
        metadata=draft.metadata,
        fields=row.doc if row.doc.__class__ is dict else {"doc": row.doc},
    )


def _value(doc: Any, key: str) -> Any:
    return doc.get(key) if doc.__class__ is dict else None


def _correct_by_score(draft: Draft, index: int, count: int) -> list[int]:
    """The correct choice by the accuracy: the one that was picked, or, of two, the other."""
    for metric, score in zip(draft.metrics, draft.scores, strict=True):
        if metric == "acc" and score.value == 1:
            return [index]
        if metric == "acc" and score.value == 0 and count == 2:
            return [1 - index]
    return []


def _picks(
    choices: Choices, metrics: Sequence[str], scores: Sequence[Score], best: int
) -> list[OptionalInt]:
    """The choice that each metric picks; `best` is that with the greatest log-likelihood.

    None if it is unknown.
    """
    picks: list[OptionalInt] = []
    for metric, score in zip(metrics, scores, strict=True):
        rule = _RULES.get(metric)
        if rule is None:
            picks.append(best)
        else:
            if rule == "pmi" and not choices.unconditional:
                rule = "none"
            picks.append(choices.pick((rule,), score.value, is_accuracy=True))
    return picks


def _add_picks(sample: Sample, texts: list[str], picks: list[OptionalInt]) -> None:
    """Say which choice each metric picks: once for the sample, if all pick the same."""
    first = picks[0] if picks else None
    if first is not None and picks.count(first) == len(picks):
        sample.output = Output(raw=[texts[first]])
        sample.metadata["choice_index"] = str(first)
        return
    for index, score in zip(picks, sample.scores, strict=True):
        if index is not None:
            score.output = Output(raw=[texts[index]])
            score.metadata = {"choice_index": str(index)}


def _references_of(target: Any, *, may_be_list: bool = False) -> list[str]:
    """The references of a target, which lm-eval writes with `str`.

    `may_be_list` says that the task can have several: the document has a list, or `doc_to_target`
    is a template, whose result lm-eval itself reads as a list if it is in brackets. The text of any
    other target is one reference.

    >>> _references_of("['a', 'b']", may_be_list=True), _references_of("['a', 'b']")
    (['a', 'b'], ["['a', 'b']"])
    """
    if target.__class__ is str:
        return (_listed(target) if may_be_list and target.startswith("[") else None) or [target]
    if target is None:
        return []
    if isinstance(target, list):
        return [text for item in target for text in _references_of(item)]
    return [str(target)]


def _listed(text: str) -> list[str] | None:
    """The items of a list that `str` wrote; None if it is no list of texts and numbers."""
    items = value_of(text)
    if (
        not isinstance(items, list)
        or str(items) != text
        or not all(isinstance(item, str | int | float) for item in items)
    ):
        return None
    texts = list(map(str, items))
    is_finite = all(isfinite(item) for item in items if isinstance(item, float))
    return (
        texts if is_finite and "".join(texts) == replace_lone_surrogates("".join(texts)) else None
    )


def metric_id(metric: str, name: str) -> str:
    """The `evaluation_result_id` of a metric under a filter.

    >>> metric_id("acc", "none"), metric_id("exact_match", "strict-match")
    ('acc', 'exact_match:strict-match')
    """
    return metric if name in ("none", "") else f"{metric}:{name}"


def _score(result_id: str, value: Any) -> Score:
    """The score with a value of any kind; one without a number says why."""
    number = None if value is UNSET else number_of(value)
    if number is not None:
        return Score(result_id, number)
    return Score(result_id, None, _problem(value))


def _problem(value: Any) -> str:
    if value is UNSET:
        return "the log names this metric, but has no value of it for this sample"
    if value is None:
        return "the score is null: lm-eval did not compute it"
    text = spell(value)
    if isinstance(value, str) and text.lower() in _NOT_FINITE:
        return f"the score is {text}"
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    if isinstance(value, list):
        return f"the score is a list, which lm-eval only aggregates over all samples: {shown}"
    return f"the score is not a number: {shown or 'an empty text'}"
