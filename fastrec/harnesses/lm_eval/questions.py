"""The prompt of a sample, and the question alone where the log proves which part of the prompt it is.

A task says how its question is made of a document (`doc_to_text`): the name of a key, or a template. Where the template
only inserts values, the question is rendered here. It counts if the prompt contains it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.harnesses.lm_eval.json_text import encode

__all__ = ["KEY", "Question", "prompt_of"]

_EXPRESSION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_VALUE: Final = re.compile(
    r"""\s*([A-Za-z_]\w*)((?:\.(?!strip\()\w+|\[\d+\]|\['[^'\\]*'\]|\["[^"\\]*"\])*)(\.strip\(\)|\s*\|\s*trim)?\s*"""
)
_STEP: Final = re.compile(r"""\.(\w+)|\[(\d+)\]|\[['"]([^'"]*)['"]\]""")

KEY: Final = re.compile(r"(?!def )[^{}\n]{1,100}")
"""What may be the name of a key of a document, and is no template and no function."""

_decode: Final = msgspec.json.Decoder().decode


class _Insert(msgspec.Struct, frozen=True):
    """A value of the document in a template."""

    key: str
    """The attribute of the document."""
    steps: tuple[str | int, ...]
    is_stripped: bool


class Question:
    """Renders the questions of a task."""

    def __init__(self, source: str) -> None:
        """Parse a `doc_to_text`; `keys` are the keys of a document that it needs, none if it cannot be rendered."""
        self.keys: list[str] = []
        self._parts: list[Any] = []
        if "{{" not in source:
            if KEY.fullmatch(source):
                self.keys = [source]
                self._parts = [_Insert("key_0", (), is_stripped=False)]
        elif "{%" not in source and "{#" not in source:
            self._parse(source)
        inserts = [part for part in self._parts if isinstance(part, _Insert)]
        self._around: tuple[str, str] | None = None
        if len(inserts) == 1 and not inserts[0].steps and not inserts[0].is_stripped:
            at = self._parts.index(inserts[0])
            self._around = "".join(self._parts[:at]), "".join(self._parts[at + 1 :])

    def _parse(self, source: str) -> None:
        parts: list[str | _Insert] = []
        for number, text in enumerate(_EXPRESSION.split(source)):
            if number % 2 == 0:
                parts.append(text)
                continue
            found = _VALUE.fullmatch(text)
            if found is None:
                self.keys = []
                return
            name, path, strip = found.groups()
            if name not in self.keys:
                self.keys.append(name)
            steps = [int(at) if at else key or quoted for key, at, quoted in _STEP.findall(path)]
            parts.append(_Insert(f"key_{self.keys.index(name)}", tuple(steps), is_stripped=bool(strip)))
        self._parts = parts

    def render(self, doc: Any) -> str:
        """Return the question of a document; empty if it cannot be rendered."""
        if self._around is not None:  # mostly there is just one text to insert
            before, after = self._around
            value: Any = getattr(doc, "key_0", None)
            if value.__class__ is str:
                return f"{before}{value}{after}"
        texts = []
        for part in self._parts:
            if part.__class__ is str:
                texts.append(part)
                continue
            value = getattr(doc, part.key, UNSET)
            try:
                for step in part.steps:
                    value = value[step]
            except (LookupError, TypeError):
                return ""
            if not isinstance(value, str | int | float):
                return ""
            texts.append(str(value).strip() if part.is_stripped else str(value))
        return "".join(texts)


def prompt_of(context: Any) -> tuple[str, str | UnsetType]:
    """Return the question of a prompt as far as the prompt itself tells it, and the prompt as sent if it is more.

    A chat is a list of messages, or JSON text of one, which may be the only item of a list.
    """
    if isinstance(context, str):
        if context.startswith("[{") and '"role"' in context and (asked := _last_question(context)) is not None:
            return asked, context
        return context, UNSET
    if isinstance(context, list) and len(context) == 1 and isinstance(context[0], str):
        asked, sent = prompt_of(context[0])
        return asked, sent
    text = "" if context is None else encode(context).decode()
    asked_last = _last_question(text)
    return (text, UNSET) if asked_last is None else (asked_last, text)


def _last_question(text: str) -> str | None:
    """Return what the user said last in a chat; None if the text is no chat."""
    try:
        messages = _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not isinstance(messages, list) or not all(isinstance(one, dict) and "role" in one for one in messages):
        return None
    for message in reversed(messages):
        if message["role"] == "user":
            return _text_of(message.get("content"))
    return None


def _text_of(content: Any) -> str | None:
    """Return the text of a message; parts that are not text are named in brackets."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part if isinstance(part, dict) else {"type": "text", "text": part} for part in content]
    return "\n".join(
        part["text"] if isinstance(part.get("text"), str) else f"[{part.get('type', 'unknown')}]" for part in parts
    )
