"""The question in a prompt: what the user said last in a chat, or all of any other prompt."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.harnesses.values import REFUSALS, JsonObject, OptionalText, encode

_decode_chat = msgspec.json.Decoder(list[JsonObject]).decode


def prompt_of(context: Any) -> tuple[str, str | UnsetType]:
    """The question of a prompt, and the prompt as it was sent, or UNSET if both are the same.

    A chat is a list of messages, or JSON text of one, which may be the only item of a list.
    """
    if isinstance(context, list) and len(context) == 1 and isinstance(context[0], str):
        context = context[0]
    if isinstance(context, str):
        text = context
        may_be_chat = text.startswith("[{") and '"role"' in text
    else:
        text = "" if context is None else encode(context).decode()
        may_be_chat = True
    question = _last_question(text) if may_be_chat else None
    return (text, UNSET) if question is None else (question, text)


def _last_question(text: str) -> OptionalText:
    """What the user said last in a chat; None if the text is no chat."""
    try:
        messages = _decode_chat(text)
    except REFUSALS:
        return None
    if not all("role" in message for message in messages):
        return None
    for message in reversed(messages):
        if message["role"] == "user":
            return text_of(message.get("content"))
    return None


def text_of(content: Any) -> OptionalText:
    """The text of a message; parts that are not text are named in brackets."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = []
    for part in content:
        if not isinstance(part, dict):
            part = {"type": "text", "text": part}
        text = part.get("text")
        texts.append(text if isinstance(text, str) else f"[{part.get('type', 'unknown')}]")
    return "\n".join(texts)
