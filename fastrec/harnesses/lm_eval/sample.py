"""Turn a sample of lm-eval into one of fastrec.

requests                             kind              output.raw
a continuation each, several         choice            the choice that the metric picks
a continuation, one                  likelihood        the continuation, if the model would have said it
a text alone                         rolling           nothing: the text is only read
settings of a generation             generation        all responses
"""

from __future__ import annotations

import ast
import warnings
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.harnesses.lm_eval.questions import (
    KEY,
    MUTUAL_INFO,
    NO_RESPONSE,
    Choices,
    Draft,
    Question,
    choices_after,
    correct_choices,
    likelihoods_in,
    other_responses,
    prompt_of,
    requests_of,
    texts_in,
    with_and_without_context,
)
from fastrec.harnesses.lm_eval.scores import ScoreReader, TaskSetup
from fastrec.harnesses.lm_eval.structs import RowReader, encode
from fastrec.harnesses.log import Sample, extracted
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Input, Output

# @@ references: The reference answers of a sample.
#
# lm-eval writes the target with `str`. If a task has several references (triviaqa, nq_open, squad), they are one text in
# the syntax of Python: `['Paris', 'City of Paris']`.


def _references_of(target: Any, *, may_be_list: bool = False) -> list[str]:
    """Return the references of a target.

    `may_be_list` says that the task can have several: the document has a list, or `doc_to_target` is a template, whose
    result lm-eval itself reads as a list if it is in brackets. The text of any other target is one reference.

    >>> references_of("['a', 'b']", may_be_list=True), references_of("['a', 'b']"), references_of(None)
    (['a', 'b'], ["['a', 'b']"], [])
    """
    if target.__class__ is str:
        return (_listed(target) if may_be_list and target.startswith("[") else None) or [target]
    if target is None:
        return []
    if isinstance(target, list):
        return [text for one in target for text in _references_of(one)]
    return [str(target)]


def _listed(text: str) -> list[str] | None:
    """Return the items of a list that `str` wrote; None if it is no list of texts and numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text that is no list
            items = ast.literal_eval(text)
        if isinstance(items, list) and all(isinstance(item, str | int | float) for item in items):
            texts = list(map(str, items))
            "".join(texts).encode()  # fails for escaped lone surrogates
            return texts if str(items) == text else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    return None


_NO_FILTER: Final = ("none", "")
_NO_OUTPUT: Final = Output(raw=[])
_INDEX: Final = [{"choice_index": str(index)} for index in range(30)]

_decode: Final = msgspec.json.Decoder().decode
_decode_responses: Final = msgspec.json.Decoder(list[list[str]]).decode
_decode_filtered: Final = msgspec.json.Decoder(list[str]).decode


class SampleMaker:
    """Makes the samples of a task."""

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._question = Question(setup.question)
        keys = list(self._question.keys)
        self._target_key = ""
        if KEY.fullmatch(setup.target):
            if setup.target not in keys:
                keys.append(setup.target)
            self._target_key = f"key_{keys.index(setup.target)}"
        self._target_is_template = "{{" in setup.target
        self.reader = RowReader(keys, setup.metrics)
        self._scores = ScoreReader(setup, self.reader.attributes)

    def make(self, row: Any) -> Sample:
        """Make the sample of a row; ValueError or MsgspecError if the row is damaged."""
        contexts, continuations = requests_of(row.arguments)
        name, metrics, scores = self._scores.read(row)
        metadata = {"doc_hash": row.doc_hash} if row.doc_hash else {}
        if name not in _NO_FILTER:
            metadata["filter"] = name
        draft = Draft(row, contexts, continuations, name, metrics, scores, metadata)
        kind = continuations[0].__class__
        if kind is dict:
            return self._generation(draft)
        if kind is str:
            if not all(one.__class__ is str for one in continuations):
                raise ValueError("a request has no continuation, unlike the first one")
            answers = likelihoods_in(row.filtered_resps, row.resps, len(continuations))
            if answers is not None:
                return self._choice(draft, answers) if len(contexts) > 1 else self._likelihood(draft, *answers[0])
        return self._rolling(draft) or self._generation(draft)

    def _generation(self, draft: Draft) -> Sample:
        row, name = draft.row, draft.filter
        try:
            (raw,), answers = _decode_responses(row.resps), _decode_filtered(row.filtered_resps)
            error = "" if raw else NO_RESPONSE
        except (msgspec.MsgspecError, ValueError):  # several requests, or something else than text
            raw, answers, error = other_responses(draft)
        if name in _NO_FILTER and answers == raw:
            answers = []  # nothing was extracted
        sent = _decode(draft.contexts[0])
        return Sample(
            sample_id=str(row.doc_id),
            input=self._input(row, sent, self._references(row)),
            scores=draft.scores,
            output=Output(raw=raw),
            answers=[extracted(text, name or "unknown filter") for text in answers],
            error=error,
            metadata=draft.metadata,
        )

    def _choice(self, draft: Draft, answers: list[tuple[float, bool]]) -> Sample:
        row, metadata = draft.row, draft.metadata
        contexts, continuations = draft.contexts, draft.continuations
        likelihoods = [likelihood for likelihood, _ in answers]
        unconditional: list[float] = []
        if MUTUAL_INFO in draft.metrics and len(contexts) % 2 == 0:
            choices_at, bare_at = with_and_without_context(contexts)
            unconditional = [likelihoods[index] for index in bare_at]
            likelihoods = [likelihoods[index] for index in choices_at]
            continuations = [continuations[index] for index in choices_at]
            contexts = [contexts[index] for index in choices_at]
        if contexts.count(contexts[0]) == len(contexts):
            sent = _decode(contexts[0])
            texts = list(map(str.strip, continuations))
            choices = Choices(texts, likelihoods, continuations, self._setup.delimiter)
        else:
            sent, choices = choices_after([spell(_decode(one)) for one in contexts], continuations, likelihoods)
            texts = choices.texts
        choices.unconditional = unconditional
        is_text = bool(self._target_key) and isinstance(getattr(row.doc, self._target_key, None), str)
        correct = correct_choices(row.target, texts, is_text=is_text)
        if not correct:
            correct = _correct_by_score(draft, choices.pick("acc"), len(texts))
        metadata["log_likelihoods"] = encode(likelihoods).decode()
        if correct:
            metadata["reference_index"] = ",".join(map(str, correct))
        asked = self._input(row, sent, [texts[index] for index in correct] or _references_of(row.target))
        asked.choices = texts
        sample = Sample(sample_id=str(row.doc_id), input=asked, scores=draft.scores, metadata=metadata)
        _add_picks(sample, texts, choices.picks(draft.metrics, draft.scores, correct))
        return sample

    def _likelihood(self, draft: Draft, likelihood: float, is_said: bool) -> Sample:
        row, text = draft.row, draft.continuations[0].strip()
        draft.metadata["log_likelihood"] = spell(likelihood)
        return Sample(
            sample_id=str(row.doc_id),
            input=self._input(row, _decode(draft.contexts[0]), [text]),
            scores=draft.scores,
            output=Output(raw=[text]) if is_said else _NO_OUTPUT,
            metadata=draft.metadata,
        )

    def _rolling(self, draft: Draft) -> Sample | None:
        """Make the sample of a text whose likelihood was measured; None if it was not that."""
        row = draft.row
        if self._setup.output_type not in ("", "loglikelihood_rolling") or len(draft.contexts) > 1:
            return None
        found = row.filtered_resps or row.resps
        try:
            likelihood = float((texts_in(_decode(found)) if found else [])[0] or "")
        except (ValueError, IndexError):
            return None
        draft.metadata["log_likelihood"] = spell(likelihood)
        text = draft.continuations[0]
        return Sample(
            sample_id=str(row.doc_id),
            input=Input(raw=spell(text or _decode(draft.contexts[0])), reference=[]),
            scores=draft.scores,
            output=_NO_OUTPUT,
            metadata=draft.metadata,
        )

    def _references(self, row: Any) -> list[str]:
        may_be_list = self._target_is_template
        if self._target_key:
            may_be_list = isinstance(getattr(row.doc, self._target_key, None), list)
        return _references_of(row.target, may_be_list=may_be_list)

    def _input(self, row: Any, sent: Any, references: list[str]) -> Input:
        formatted: str | UnsetType = UNSET
        if sent.__class__ is str and not sent.startswith("[{"):
            raw = sent
        else:
            raw, formatted = prompt_of(sent)
        if self._question.keys:
            question = self._question.render(row.doc)
            if question and len(question) < len(raw) and (raw.endswith(question) or question in raw):
                return Input(raw=question, formatted=raw if formatted is UNSET else formatted, reference=references)
        return Input(raw=raw, formatted=formatted, reference=references)


def _correct_by_score(draft: Draft, index: int, count: int) -> list[int]:
    """Return the correct choice as the accuracy tells it: it is the one that was picked, or, of two, the other."""
    for metric, score in zip(draft.metrics, draft.scores, strict=True):
        if metric == "acc" and score.value == 1:
            return [index]
        if metric == "acc" and score.value == 0 and count == 2:
            return [1 - index]
    return []


def _add_picks(sample: Sample, texts: list[str], picks: list[int | None]) -> None:
    """Say which choice each metric picks: once for the sample, if all pick the same."""
    first = picks[0] if picks else None
    if first is not None and picks.count(first) == len(picks):
        sample.output = Output(raw=[texts[first]])
        sample.metadata["choice_index"] = str(first)
        return
    sample.output = _NO_OUTPUT
    for index, score in zip(picks, sample.scores, strict=True):
        if index is not None:
            score.output = Output(raw=[texts[index]])
            score.metadata = _INDEX[index] if index < len(_INDEX) else {"choice_index": str(index)}
