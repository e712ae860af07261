"""A row of details, the same for both layouts.

    since 0.11                      up to 0.10
    doc {query, choices, …}         example, full_prompt, choices, gold, gold_index, specifics
    model_response {text, …}        predictions, input_tokens, cont_tokens
    metric {name: value}            metrics

Types vary from file to file: a column can be null, a value or a list, and up to 0.10 also the text of a Python value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from fastrec.harnesses.lighteval.literals import value_of
from fastrec.harnesses.values import as_list, replace_lone_surrogates, spell

__all__ = ["COLUMNS", "FLAT_COLUMNS", "Detail", "Rows", "details_of", "flat_details_of"]

_DOC: Final = ("query", "original_query", "choices", "gold_index", "id", "task_name", "sampling_methods")
_RESPONSE: Final = ("input", "text", "text_post_processed", "reasonings", "logprobs", "unconditioned_logprobs")
_TOKENS: Final = ("input_tokens", "output_tokens")
_EXTRACTED: Final = "extracted_predictions"

COLUMNS: Final = (
    *(f"doc.{name}" for name in _DOC),
    f"doc.specific.{_EXTRACTED}",
    *(f"model_response.{name}" for name in (*_RESPONSE, *_TOKENS)),
    "metric",
)
_FLAT: Final = ("example", "full_prompt", "predictions", "choices", "gold", "gold_index", "specifics", "metrics")
_FLAT_TOKENS: Final = ("input_tokens", "cont_tokens")
FLAT_COLUMNS: Final = (*_FLAT, *_FLAT_TOKENS)


class Rows(Protocol):
    """Some rows of details, column by column."""

    rows: int

    def values(self, column: str, field: str = "") -> list[Any]:
        """Return the values of a column, or of a field of it."""

    def lengths(self, column: str, field: str = "") -> list[list[int]]:
        """Return the lengths of the lists in a column."""


class Detail(msgspec.Struct, kw_only=True):
    """What a run did with one question."""

    sample_id: str
    task: str = ""
    """Empty if the row does not say it."""
    question: str
    prompt: str = ""
    """The prompt as sent; empty if the log does not have it."""
    is_generative: bool
    choices: list[str]
    correct: list[int]
    """The indices of the correct choices."""
    references: list[str]
    texts: list[str]
    """What the model wrote."""
    processed: list[str] = []
    """The same without reasoning, if lighteval removed it."""
    reasonings: list[str | None] = []
    extracted: list[str] = []
    """The answers that a metric found in the texts."""
    logprobs: list[float] = []
    unconditioned: list[float] = []
    input_tokens: list[int] = []
    """The number of tokens of each prompt."""
    output_tokens: list[int] = []
    """The number of tokens of each answer, or of each choice."""
    metrics: dict[str, Any]


def details_of(rows: Rows) -> Iterator[Detail]:
    """Read rows of the layout since 0.11."""
    docs = zip(*(rows.values("doc", name) for name in _DOC), rows.values("doc", "specific"), strict=True)
    responses = zip(*(rows.values("model_response", name) for name in _RESPONSE), strict=True)
    tokens = zip(*(rows.lengths("model_response", name) for name in _TOKENS), strict=True)
    for doc, response, (input_tokens, output_tokens), metrics in zip(
        docs, responses, tokens, rows.values("metric"), strict=True
    ):
        query, original, choices, gold_index, number, task, methods, specific = doc
        metrics = value_of(metrics)
        prompt, texts, processed, reasonings, logprobs, unconditioned = response
        choices = as_list(choices)
        correct = _indices(gold_index, choices)
        texts, logprobs = _texts(texts), _numbers(logprobs)
        yield Detail(
            sample_id=_text(number),
            task=_text(task),
            question=_text(original) or _text(query),
            prompt=_text(prompt),
            is_generative=bool(texts) or (not logprobs and "LOGPROBS" not in as_list(methods)),
            choices=_texts(choices),
            correct=correct,
            references=_references(choices, correct),
            texts=texts,
            processed=_texts(processed),
            reasonings=[None if text is None else _text(text) for text in as_list(reasonings)],
            extracted=_extracted(specific),
            logprobs=logprobs,
            unconditioned=_numbers(unconditioned),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            metrics=metrics if isinstance(metrics, dict) else {},
        )


def flat_details_of(rows: Rows, before: int) -> Iterator[Detail]:
    """Read rows of the layout up to 0.10. They have no id: it is the number of the row, counted from 0."""
    columns = zip(*(rows.values(name) for name in _FLAT), strict=True)
    tokens = zip(*(rows.lengths(name) for name in _FLAT_TOKENS), strict=True)
    for row, (values, (input_tokens, output_tokens)) in enumerate(zip(columns, tokens, strict=True), before):
        example, prompt = values[:2]
        predictions, choices, gold, gold_index, specifics, metrics = map(value_of, values[2:])
        predictions = _flattened(predictions)
        choices = as_list(choices)
        correct = _indices(gold_index, choices)
        is_generative = all(isinstance(item, str | None) for item in predictions) and (bool(predictions) or not choices)
        logprobs = [] if is_generative else _first_numbers(predictions)
        unconditioned: list[float] = []
        if choices and len(logprobs) == 2 * len(choices):  # with the question, then without
            logprobs, unconditioned = logprobs[: len(choices)], logprobs[len(choices) :]
        yield Detail(
            sample_id=str(row),
            question=_text(example),
            prompt=_text(prompt),
            is_generative=is_generative,
            choices=_texts(choices),
            correct=correct,
            references=_texts(gold) or _references(choices, correct),
            texts=_texts(predictions) if is_generative else [],
            extracted=_extracted(specifics),
            logprobs=logprobs,
            unconditioned=unconditioned,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            metrics=metrics if isinstance(metrics, dict) else {},
        )


def _text(value: Any) -> str:
    """Spell a value as text; messages are spelled as JSON."""
    if value is None:
        return ""
    text = spell(value)
    return text if text.isascii() else replace_lone_surrogates(text)


def _texts(value: Any) -> list[str]:
    return [_text(item) for item in as_list(value)]


def _numbers(value: Any) -> list[float]:
    """Return the numbers of a list, or none if one of its items is no number."""
    items = as_list(value)
    return [float(item) for item in items] if all(isinstance(item, int | float) for item in items) else []


def _first_numbers(predictions: list[Any]) -> list[float]:
    """Return the log-probabilities of predictions, each of which may be followed by whether it is the likeliest."""
    return _numbers([item[0] if isinstance(item, list) and item else item for item in predictions])


def _flattened(predictions: Any) -> list[Any]:
    """Return predictions as one list: several answers to one request are a list of lists."""
    items = as_list(predictions)
    if any(isinstance(item, list) and all(isinstance(part, str) for part in item) for item in items):
        return [part for item in items for part in as_list(item)]
    return items


def _indices(value: Any, choices: list[Any]) -> list[int]:
    """Return the indices of the correct choices; those that no choice has are left out."""
    return [index for index in as_list(value) if index.__class__ is int and 0 <= index < len(choices)]


def _references(choices: list[Any], correct: list[int]) -> list[str]:
    """Return the texts of the correct choices, each of which may be several texts."""
    return [text for index in correct for text in _texts(choices[index])]


def _extracted(specific: Any) -> list[str]:
    return _texts(specific.get(_EXTRACTED)) if isinstance(specific, dict) else []
