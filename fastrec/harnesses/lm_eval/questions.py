"""What a sample of lm-eval asked: its requests, its choices, the prompt, and the question alone.

The question counts where the log proves which part of the prompt it is. A task says how its
question is made of a document (`doc_to_text`): the name of a key, or a template. Where the template
only inserts values, the question is rendered here. It counts if the prompt contains it.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
from msgspec import MsgspecError, Raw, Struct

from fastrec.harnesses.choices import Choices
from fastrec.harnesses.log import Score
from fastrec.harnesses.values import OptionalText, Texts, as_list, spell
from fastrec.schemas.schema import without_nulls
from fastrec.schemas.view import json_decoder

NO_RESPONSE = "the log has no response to this request"

_ORDERED = 10  # up to this many requests, their names sort as their numbers do
decode = msgspec.json.Decoder().decode

_decode_indices = json_decoder(list[int])
# Log-likelihood, and whether the model would have said just that: numbers, or since May 2024 texts
# of them.
Likelihoods = list[tuple[float, bool]]  # each also says whether the model would say just that
_decode_likelihoods = msgspec.json.Decoder(Likelihoods, strict=False).decode
_decode_all_likelihoods = msgspec.json.Decoder(list[Likelihoods], strict=False).decode
_NO_CONTEXT = Raw(b'""')


class Draft(Struct, gc=False):
    row: Any
    contexts: list[Raw]
    continuations: list[Any]
    filter: str
    metrics: list[str]  # the name of the metric of each score
    scores: list[Score]
    metadata: Texts


def requests_of(arguments: Any) -> tuple[list[Raw], list[Any]]:
    if arguments.__class__ is dict:
        if len(arguments) > _ORDERED:
            arguments = dict(sorted(arguments.items(), key=lambda item: (len(item[0]), item[0])))
        try:
            contexts = [request.arg_0 for request in arguments.values()]
            continuations = [request.arg_1 for request in arguments.values()]
        except (
            AttributeError
        ):  # a table of samples has empty columns where another sample has more requests
            return requests_of(without_nulls(arguments))
    else:
        contexts = [request[0] for request in arguments if request]
        continuations = [
            decode(request[1]) if len(request) > 1 else None for request in arguments if request
        ]
    if not contexts or not all(contexts):
        raise ValueError("it has no prompt")
    return contexts, continuations


def texts_in(values: Any) -> list[OptionalText]:
    """All texts of nested lists, in order; null is None."""
    while values.__class__ is list and len(values) == 1:
        values = values[0]
    if values is None or values.__class__ is str:
        return [values]
    if values.__class__ is list:
        return [text for value in values for text in texts_in(value)]
    return [spell(values)]


def other_responses(draft: Draft) -> tuple[list[str], list[str], str]:
    """All responses of any kind, what was extracted from them, and what is wrong, if anything."""
    responses, filtered = (
        texts_in(_of_generations(draft, texts))
        for texts in (draft.row.resps, draft.row.filtered_resps)
    )
    raw, answers = ([text for text in texts if text is not None] for texts in (responses, filtered))
    return raw, answers, "" if raw and len(raw) == len(responses) else NO_RESPONSE


def _of_generations(draft: Draft, text: Raw) -> Any:
    """Decode the answers to requests for text; squad_v2 asks for a likelihood besides."""
    values = decode(text) if text else []
    if len(draft.contexts) > 1 and isinstance(values, list):
        pairs = zip(values, draft.continuations, strict=False)
        values = [value for value, continuation in pairs if continuation.__class__ is not str]
    return values


def likelihoods_in(filtered: Raw, responses: Raw, count: int) -> Likelihoods | None:
    """The log-likelihood of each request, and whether the model would have said just that.

    None if these are no answers to requests of this kind.
    """
    try:
        likelihoods = _decode_likelihoods(filtered)
        if len(likelihoods) == count:
            return likelihoods
    except MsgspecError:
        pass
    try:
        likelihoods = [answers[0] for answers in _decode_all_likelihoods(responses)]
    except (MsgspecError, IndexError):
        return None
    return likelihoods if len(likelihoods) == count else None


def with_and_without_context(contexts: Sequence[Raw]) -> tuple[list[int], list[int]]:
    """Where the requests with a context are, and where the same choices without it.

    Those without follow all others; until version 0.4.5, each followed its own.
    """
    numbers = range(len(contexts))
    bare = [number for number in numbers if contexts[number] == _NO_CONTEXT]
    if 2 * len(bare) != len(contexts):  # no request has a context
        bare = list(numbers[len(contexts) // 2 :])
    return [number for number in numbers if number not in bare], bare


def choices_after(
    contexts: Sequence[str], continuations: Sequence[str], likelihoods: Sequence[float]
) -> tuple[str, Choices]:
    """The prompt and the choices if the contexts differ, as in winogrande.

    The prompt is the words that all of them begin with. A choice is what follows, with the
    continuation.
    """
    same = _common_words(contexts)
    texts = [
        f"{context[len(same) :]}{continuation}".strip()
        for context, continuation in zip(contexts, continuations, strict=True)
    ]
    return same, Choices(texts, likelihoods, sent=contexts)


def _common_words(texts: Sequence[str]) -> str:
    """The longest beginning that all texts share and that ends with whitespace."""
    first, last = min(texts), max(texts)
    lengths = range(min(len(first), len(last)))
    # Comparing slices is faster than comparing characters.
    end = bisect_left(lengths, True, key=lambda size: first[: size + 1] != last[: size + 1])
    while end and not first[end - 1].isspace():
        end -= 1
    return first[:end]


def correct_choices(target: Any, texts: Sequence[str], *, is_text: bool) -> list[int]:
    """The indices of the correct choices; none if the target does not tell them.

    The target is mostly an index, or a list of indices, as text. `is_text` says that digits are the
    text of a choice.
    """
    if isinstance(target, str):
        text = target.strip()
        if text.isdecimal() and not is_text:
            target = int(text)
        elif text in texts:
            target = texts.index(text)
        elif text in ("True", "False"):
            target = int(text == "True") if len(texts) > 1 else []
        else:
            try:
                target = _decode_indices(text)
            except MsgspecError:
                return []
    indices = as_list(target)
    if all(isinstance(index, int) and 0 <= index < len(texts) for index in indices):
        return list(map(int, indices))
    return []


_EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_VALUE = (
    r"""\s*([A-Za-z_]\w*)((?:\.(?!strip\()\w+|\[\d+\]|\['[^'\\]*'\]|\["[^"\\]*"\])*)"""
    r"""(\.strip\(\)|\s*\|\s*trim)?\s*"""
)
_STEP = r"""\.(\w+)|\[(\d+)\]|\[['"]([^'"]*)['"]\]"""

# What may be the name of a key of a document, and is no template and no function.
KEY = r"(?!def )[^{}\n]{1,100}"


class Question:
    """Renders a `doc_to_text`, if it only inserts values of the document."""

    def __init__(self, source: str) -> None:
        self._template = ""
        # of each value: where it is in a document, and whether it is stripped
        self._values: list[tuple[list[str | int], bool]] = []
        if "{{" not in source:
            if re.fullmatch(KEY, source):
                self._template = "%s"
                self._values = [([source], False)]
        elif "{%" not in source and "{#" not in source:
            texts = _EXPRESSION.split(source)
            values = [re.fullmatch(_VALUE, text) for text in texts[1::2]]
            self._template = "%s".join(text.replace("%", "%%") for text in texts[::2])
            self._values = [_place(*value.groups()) for value in values if value]
            if not all(values):  # it does more than insert values
                self._values = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def render(self, doc: Any) -> str:
        """The question of a document; empty if the document lacks a value."""
        texts = []
        for path, is_stripped in self._values:
            try:
                value = reduce(getitem, path, doc)
            except (LookupError, TypeError):
                return ""
            if not isinstance(value, str | int | float):
                return ""
            texts.append(str(value).strip() if is_stripped else str(value))
        return self._template % tuple(texts)


def _place(key: str, path: str, strip: str | None) -> tuple[list[str | int], bool]:
    steps = (int(at) if at else name or quoted for name, at, quoted in re.findall(_STEP, path))
    return [key, *steps], bool(strip)
