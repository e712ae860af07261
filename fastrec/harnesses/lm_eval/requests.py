"""The requests of a sample of lm-eval, and the texts that answer them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fastrec.harnesses.log import Score
from fastrec.harnesses.values import spell

__all__ = ["NO_RESPONSE", "Draft", "other_responses", "requests_of", "texts_in"]

NO_RESPONSE: Final = "the log has no response to this request"

_ORDERED: Final = 10  # up to this many requests, their names sort as their numbers do
_decode: Final = msgspec.json.Decoder().decode


class Draft(msgspec.Struct, gc=False):
    """A row that is about to become a sample."""

    row: Any
    contexts: list[msgspec.Raw]
    continuations: list[Any]
    filter: str
    metrics: list[str]
    """The name of the metric of each score."""
    scores: list[Score]
    metadata: dict[str, str]


def requests_of(arguments: Any) -> tuple[list[msgspec.Raw], list[Any]]:
    """Return the contexts and the continuations, or settings, of all requests."""
    if arguments.__class__ is dict:
        if len(arguments) == 1:
            (request,) = arguments.values()
            if request is not None and request.arg_0:
                return [request.arg_0], [request.arg_1]
        if len(arguments) > _ORDERED:
            arguments = dict(sorted(arguments.items(), key=lambda item: (len(item[0]), item[0])))
        try:
            contexts = [request.arg_0 for request in arguments.values()]
            continuations = [request.arg_1 for request in arguments.values()]
        except AttributeError:  # a table of samples has empty columns where another sample has more requests
            return requests_of({name: request for name, request in arguments.items() if request is not None})
    else:
        contexts = [request[0] for request in arguments if request]
        continuations = [_decode(request[1]) if len(request) > 1 else None for request in arguments if request]
    if not contexts or not all(contexts):
        raise ValueError("it has no prompt")
    return contexts, continuations


def texts_in(values: Any) -> list[str | None]:
    """Return all texts of nested lists, in order; null is None."""
    while values.__class__ is list and len(values) == 1:
        values = values[0]
    if values is None or values.__class__ is str:
        return [values]
    if values.__class__ is list:
        return [text for value in values for text in texts_in(value)]
    return [spell(values)]


def other_responses(draft: Draft) -> tuple[list[str], list[str], str]:
    """Return all responses of any kind, what was extracted from them, and what is wrong, if anything."""
    responses = texts_in(_of_generations(draft, draft.row.resps))
    raw = [text for text in responses if text is not None]
    answers = [text for text in texts_in(_of_generations(draft, draft.row.filtered_resps)) if text is not None]
    return raw, answers, "" if raw and len(raw) == len(responses) else NO_RESPONSE


def _of_generations(draft: Draft, text: msgspec.Raw) -> Any:
    """Decode the answers to requests for text; squad_v2 asks for a likelihood besides."""
    values = _decode(text) if text else []
    if len(draft.contexts) > 1 and isinstance(values, list):
        pairs = zip(values, draft.continuations, strict=False)
        values = [value for value, continuation in pairs if continuation.__class__ is not str]
    return values
