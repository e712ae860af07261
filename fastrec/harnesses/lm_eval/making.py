"""Turn a sample of lm-eval into one of fastrec.

requests                             kind              output.raw
a continuation each, several         choice            the choice that the metric picks
a continuation, one                  likelihood        the continuation, if the model would have said it
a text alone                         rolling           nothing: the text is only read
settings of a generation             generation        all responses
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from fastrec.harnesses.lm_eval.choices import MUTUAL_INFO, choices_of, correct_choices, likelihoods_in
from fastrec.harnesses.lm_eval.questions import Question, prompt_of
from fastrec.harnesses.lm_eval.rows import RowReader
from fastrec.harnesses.lm_eval.scoring import Scores
from fastrec.harnesses.lm_eval.setup import TaskSetup
from fastrec.harnesses.log import Sample, Score
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import AnswerAttribution, Input, Output

__all__ = ["SampleMaker"]

_ORDERED: Final = 10  # up to this many requests, their names sort as their numbers do
_NO_OUTPUT: Final = Output(raw=[])
_INDEX: Final = [{"choice_index": str(index)} for index in range(100)]
_NO_RESPONSE: Final = "the log has no response to this request"

_decode: Final = msgspec.json.Decoder().decode


class _Draft(msgspec.Struct, gc=False):
    """A row that is about to become a sample."""

    row: Any
    contexts: list[msgspec.Raw]
    continuations: list[Any]
    filtered: Any
    filter: str
    metrics: list[str]
    """The name of the metric of each score."""
    scores: list[Score]
    metadata: dict[str, str]


class SampleMaker:
    """Makes the samples of a task."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._question = Question(setup.question)
        keys = list(self._question.keys)
        self._target_key = ""
        if setup.target and "{{" not in setup.target:  # the name of a key of the document
            if setup.target not in keys:
                keys.append(setup.target)
            self._target_key = f"key_{keys.index(setup.target)}"
        self.reader = RowReader(keys, setup.metrics)
        self._scores = Scores(setup, self.reader.attributes)

    def make(self, row: Any) -> Sample:
        """Make the sample of a row; ValueError if the row is damaged."""
        contexts, continuations = _requests(row.arguments)
        filtered = _decode(row.filtered_resps) if row.filtered_resps else None
        name, metrics, scores = self._scores.of(row)
        metadata = {"doc_hash": row.doc_hash} if row.doc_hash else {}
        if name not in ("none", ""):
            metadata["filter"] = name
        draft = _Draft(row, contexts, continuations, filtered, name, metrics, scores, metadata)
        if continuations[0].__class__ is str:
            likelihoods = likelihoods_in(filtered, row.resps, len(continuations))
            if likelihoods is not None:
                return self._choice(draft, likelihoods) if len(contexts) > 1 else self._likelihood(draft, likelihoods)
        if continuations[0].__class__ is not dict and (sample := self._rolling(draft)) is not None:
            return sample
        return self._generation(draft)

    def _generation(self, draft: _Draft) -> Sample:
        row, filtered = draft.row, draft.filtered
        responses = row.resps
        if len(draft.contexts) > 1:  # squad_v2 asks for a likelihood besides
            is_answer = [continuation.__class__ is not str for continuation in draft.continuations]
            responses, filtered = _only(responses, is_answer), _only(filtered, is_answer)
        raw, lost = _texts(responses)
        answers, _ = _texts(filtered)
        if answers == raw and draft.filter in ("none", ""):
            answers = []  # nothing was extracted
        return Sample(
            sample_id=str(row.doc_id),
            input=self._input(draft, _decode(draft.contexts[0]), _references(row.target)),
            scores=draft.scores,
            output=Output(raw=raw),
            answers=[_attribution(text, draft.filter) for text in answers],
            error=_NO_RESPONSE if lost else "",
            metadata=draft.metadata,
        )

    def _choice(self, draft: _Draft, likelihoods: list[float]) -> Sample:
        row, metadata = draft.row, draft.metadata
        contexts, continuations, unconditional = draft.contexts, draft.continuations, []
        if MUTUAL_INFO in draft.metrics and len(contexts) % 2 == 0:  # the second half has no context
            half = len(contexts) // 2
            contexts, continuations = contexts[:half], continuations[:half]
            likelihoods, unconditional = likelihoods[:half], likelihoods[half:]
        first = contexts[0]
        if all(context == first for context in contexts):
            sent = _decode(first)
            _, choices = choices_of([""], continuations, likelihoods, self._setup.delimiter)
        else:
            sent, choices = choices_of(list(map(_text, contexts)), continuations, likelihoods, "")
        choices.unconditional = unconditional
        is_text = bool(self._target_key) and isinstance(getattr(row.doc, self._target_key, None), str)
        correct = correct_choices(row.target, choices, is_text=is_text)
        if not correct:
            correct = _correct_by_score(draft, choices.pick("acc"), len(contexts))
        picks = [
            choices.checked_pick(metric, score.value, correct)
            for metric, score in zip(draft.metrics, draft.scores, strict=True)
        ]
        for index, score in zip(picks, draft.scores, strict=True):
            if index is None:
                score.output = _NO_OUTPUT
            else:
                score.output = Output(raw=[choices.texts[index]])
                score.metadata = _INDEX[index] if index < len(_INDEX) else {"choice_index": str(index)}
        metadata["log_likelihoods"] = spell(likelihoods)
        references = [choices.texts[index] for index in correct] or _references(row.target)
        if correct:
            metadata["reference_index"] = ",".join(map(str, correct))
        asked = self._input(draft, sent, references)
        asked.choices = choices.texts
        return Sample(sample_id=str(row.doc_id), input=asked, scores=draft.scores, output=_NO_OUTPUT, metadata=metadata)

    def _likelihood(self, draft: _Draft, likelihoods: list[float]) -> Sample:
        row = draft.row
        is_greedy = _is_greedy(draft.filtered, row.resps)
        draft.metadata["log_likelihood"] = spell(likelihoods[0])
        text = draft.continuations[0]
        return Sample(
            sample_id=str(row.doc_id),
            input=self._input(draft, _decode(draft.contexts[0]), [text.strip()]),
            scores=draft.scores,
            output=Output(raw=[text.strip()]) if is_greedy else _NO_OUTPUT,
            metadata=draft.metadata,
        )

    def _rolling(self, draft: _Draft) -> Sample | None:
        """Make the sample of a text whose likelihood was measured; None if it was not that."""
        if self._setup.output_type not in ("", "loglikelihood_rolling") or len(draft.contexts) > 1:
            return None
        texts, _ = _texts(draft.filtered if draft.filtered is not None else draft.row.resps)
        try:
            likelihood = next(map(float, texts))
        except (ValueError, StopIteration):
            return None
        text = draft.continuations[0]
        draft.metadata["log_likelihood"] = spell(likelihood)
        return Sample(
            sample_id=str(draft.row.doc_id),
            input=Input(raw=text if isinstance(text, str) else _text(draft.contexts[0]), reference=[]),
            scores=draft.scores,
            output=_NO_OUTPUT,
            metadata=draft.metadata,
        )

    def _input(self, draft: _Draft, sent: Any, references: list[str]) -> Input:
        raw, formatted = prompt_of(sent)
        if self._question.keys:
            question = self._question.render(draft.row.doc)
            if question and question != raw and question in raw:
                return Input(raw=question, formatted=raw if formatted is UNSET else formatted, reference=references)
        return Input(raw=raw, formatted=formatted, reference=references)


def _requests(arguments: Any) -> tuple[list[msgspec.Raw], list[Any]]:
    """Return the contexts and the continuations, or settings, of all requests."""
    if arguments.__class__ is dict:
        if len(arguments) > _ORDERED:
            arguments = dict(sorted(arguments.items(), key=lambda item: (len(item[0]), item[0])))
        requests = [request for request in arguments.values() if request is not None]
        contexts = [request.arg_0 for request in requests]
        continuations = [request.arg_1 for request in requests]
    else:
        contexts = [request[0] for request in arguments if request]
        continuations = [_decode(request[1]) if len(request) > 1 else None for request in arguments if request]
    if not contexts or not all(contexts):
        raise ValueError("it has no prompt")
    return contexts, continuations


def _text(context: msgspec.Raw) -> str:
    return spell(_decode(context))


def _only(values: Any, wanted: list[bool]) -> Any:
    if not isinstance(values, list) or len(values) != len(wanted):
        return values
    return [value for value, is_wanted in zip(values, wanted, strict=True) if is_wanted]


def _texts(values: Any) -> tuple[list[str], bool]:
    """Return all texts of nested lists, in order, and whether one is missing."""
    if values.__class__ is str:
        return [values], False
    if values is None:
        return [], True
    if values.__class__ is not list:
        return [spell(values)], False
    found = [_texts(value) for value in values]
    return [text for texts, _ in found for text in texts], any(lost for _, lost in found)


def _references(target: Any) -> list[str]:
    if target is None:
        return []
    if isinstance(target, list):
        return [text for one in target for text in _references(one)]
    return [target if isinstance(target, str) else str(target)]


def _attribution(text: str, name: str) -> AnswerAttribution:
    return AnswerAttribution(
        turn_idx=0,
        source="output.raw",
        extracted_value=text,
        extraction_method=name or "unknown filter",
        is_terminal=True,
    )


def _correct_by_score(draft: _Draft, index: int, count: int) -> list[int]:
    """Return the correct choice as the accuracy tells it: it is the one that was picked, or, of two, the other."""
    for metric, score in zip(draft.metrics, draft.scores, strict=True):
        if metric == "acc" and score.value == 1:
            return [index]
        if metric == "acc" and score.value == 0 and count == 2:
            return [1 - index]
    return []


def _is_greedy(filtered: Any, responses: Any) -> bool:
    """Return whether the model would have said just the continuation."""
    for values in (filtered, responses):
        while isinstance(values, list) and values and isinstance(values[0], list):
            values = values[0]
        if isinstance(values, list) and len(values) > 1:
            return values[1] in (True, "True")
    return False
