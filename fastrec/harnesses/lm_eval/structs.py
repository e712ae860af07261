"""What is read of the files of lm-eval: JSON as it writes it, samples, and the settings of a task.

The JSON has bare NaN and Infinity, which become the texts "NaN" and "Infinity".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from fastrec.harnesses.values import REFUSALS, replace_lone_surrogates
from fastrec.sources.shard import Slice

_T = TypeVar("_T")
_LARGEST: Final = 1 << 63

encode: Final = msgspec.json.Encoder().encode


def decoder_of(kind: type[_T]) -> Callable[[bytes | memoryview], _T]:
    """Make a function that decodes JSON as a type, which may have Raw in it; ValueError if the text does not fit.

    What msgspec refuses is parsed by Python's `json`, written again as JSON, and decoded then.
    """
    fast = msgspec.json.Decoder(kind).decode

    def decode(text: bytes | memoryview) -> _T:
        try:
            return fast(text)
        except REFUSALS as refusal:
            try:
                again = encode(plain(json.loads(bytes(text))))
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            except ValueError:
                raise ValueError(str(refusal)) from None
        try:
            return fast(again)
        except REFUSALS as refusal:
            raise ValueError(str(refusal)) from None

    return decode


def plain(value: Any) -> Any:
    """Replace what JSON cannot hold: numbers that are not finite or too long, and lone surrogates."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else replace_lone_surrogates(value)
    if kind is float:
        return value if math.isfinite(value) else json.dumps(value)
    if kind is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if kind is int and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


_NO_TEXT: Final = msgspec.Raw(b"")
_MOST_NAMES: Final = 1_000


class Request(msgspec.Struct, gc=False):
    """What the model was asked: a context, and a continuation or the settings of a generation."""

    arg_0: msgspec.Raw = _NO_TEXT
    arg_1: Any = None


_KEYS: Final[list[tuple[str, Any] | tuple[str, Any, Any]]] = [
    ("doc_id", int | str),
    ("arguments", dict[str, Request | None] | list[list[msgspec.Raw]]),
    ("doc", Any, None),
    ("target", Any, None),
    ("resps", msgspec.Raw, _NO_TEXT),
    ("filtered_resps", msgspec.Raw, _NO_TEXT),
    ("filter", str | None, None),
    ("metrics", list[str] | None, None),
    ("doc_hash", str | None, None),
    ("prompt_hash", msgspec.Raw, _NO_TEXT),
    ("target_hash", msgspec.Raw, _NO_TEXT),
]
_ODD: Final = re.compile(r'["\\\x00-\x1f]')  # what a field of a Struct cannot have in its name
_KNOWN: Final = frozenset(key[0] for key in _KEYS)


class RowReader:
    """Decodes samples.

    The keys of a sample are known, but for the metrics, whose names are keys, too. The decoder knows those that were
    seen so far and refuses others; then it is made anew. So nothing is parsed that is not needed.
    """

    def __init__(self, metrics: Iterable[str]) -> None:
        self.attributes: dict[str, str] = {}
        """By name of a metric, the attribute of a sample that has its value; UNSET if the sample does not have it."""
        self._add(metrics)

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in _KNOWN:
                self.attributes.setdefault(name, f"metric_{len(self.attributes)}")
        if len(self.attributes) > _MOST_NAMES:
            raise ValueError(f"it is one of samples with more than {_MOST_NAMES:,} different keys")
        fields = [*_KEYS, *((name, Any, UNSET) for name in self.attributes.values())]
        rename = {attribute: name for name, attribute in self.attributes.items() if not _ODD.search(name)}
        kind = msgspec.defstruct("Row", fields, rename=rename, forbid_unknown_fields=True, kw_only=True, gc=False)
        decoder = msgspec.json.Decoder(kind)
        self._decode = decoder.decode
        self._decode_lines = decoder.decode_lines

    def rows(self, lines: bytes) -> list[Any] | None:
        """Decode some lines; None if one of them has to be decoded alone."""
        try:
            return self._decode_lines(lines)
        except REFUSALS:
            return None

    def row(self, text: bytes | msgspec.Raw) -> Any:
        """Decode one sample; ValueError if it is none."""
        try:
            return self._decode(text)
        except REFUSALS as exc:
            refusal = str(exc)
        try:
            value = json.loads(bytes(text))
            if not isinstance(value, dict):
                raise ValueError("it is not an object")  # noqa: TRY004 - a damaged text
            self._add(value)
            value = {self.attributes[key] if _ODD.search(key) else key: item for key, item in value.items()}
            return self._decode(encode(plain(value)))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except json.JSONDecodeError:
            raise ValueError(refusal) from None
        except REFUSALS as exc:
            raise ValueError(str(exc)) from None


class TaskSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a task that decide what its records look like."""

    question: str = ""
    """`doc_to_text`: a key of the document or a template; empty if it is a function."""
    target: str = ""
    """`doc_to_target`, likewise."""
    delimiter: str = " "
    """What comes between the context and a choice."""
    output_type: str = ""
    """`multiple_choice`, `loglikelihood`, `loglikelihood_rolling` or `generate_until`; empty if unknown."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics in the results."""
    filters: tuple[str, ...] = ()
    """Names of the filters, in the order in which they were applied."""


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of the samples; small and picklable."""

    piece: Slice
    is_array: bool
    """Whether the file is one JSON array instead of lines."""
    setup: TaskSetup
