"""Decode the samples of lm-eval.

The keys of a sample are known, but for the metrics, whose names are keys, too. The decoder knows those that were seen
so far and refuses others; then it is made anew. So nothing is parsed that is not needed, above all not the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fastrec.harnesses.lm_eval.json_text import encode, plain
from fastrec.harnesses.values import REFUSALS

__all__ = ["Request", "RowReader"]

_NO_TEXT: Final = msgspec.Raw(b"")
_MOST_NAMES: Final = 1_000


class Request(msgspec.Struct, gc=False):
    """What the model was asked: a context, and a continuation or the settings of a generation."""

    arg_0: msgspec.Raw = _NO_TEXT
    arg_1: Any = None


_KEYS: Final[list[tuple[str, Any] | tuple[str, Any, Any]]] = [
    ("doc_id", int | str),
    ("arguments", dict[str, Request | None] | list[list[msgspec.Raw]]),
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
_KNOWN: Final = frozenset({"doc", *(key[0] for key in _KEYS)})


class RowReader:
    """Decodes samples, of whose documents it only keeps some keys."""

    def __init__(self, doc_keys: Sequence[str], metrics: Iterable[str]) -> None:
        self.attributes: dict[str, str] = {}
        """By name of a metric, the attribute of a sample that has its value; UNSET if the sample does not have it."""
        fields = [(f"key_{number}", Any, UNSET) for number in range(len(doc_keys))]
        names = {f"key_{number}": key for number, key in enumerate(doc_keys) if not _ODD.search(key)}
        doc: Any = msgspec.defstruct("Doc", fields, rename=names, gc=False)
        self._doc = doc | None | bool | int | float | str | list[msgspec.Raw]
        self._add(metrics)

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in _KNOWN:
                self.attributes.setdefault(name, f"metric_{len(self.attributes)}")
        if len(self.attributes) > _MOST_NAMES:
            raise ValueError(f"it is one of samples with more than {_MOST_NAMES:,} different keys")
        fields = [*_KEYS, ("doc", self._doc, None), *((name, Any, UNSET) for name in self.attributes.values())]
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
