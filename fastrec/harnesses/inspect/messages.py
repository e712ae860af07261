"""Messages of Inspect as messages of a record: every part of the content, reasoning, tool calls, results and errors.

    part of the content          becomes
    text                         content; parts are joined by a newline
    reasoning                    reasoning_trace; its summary if the text is encrypted
    image, audio, video,         a placeholder in the content
    document
    tool_use                     a tool call, and its result in the content: the provider ran the tool
    data, anything unknown       JSON in the content

What only the interface of a provider needs is left out: signatures, citations, `internal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fastrec.harnesses.inspect.media import MEDIA, Attachments, placeholder
from fastrec.harnesses.inspect.sample_structs import Call, LoggedMessage, Part
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Message, ToolCall

__all__ = ["Said", "messages_of", "prompt_text", "said_in"]

_encode: Final = msgspec.json.Encoder().encode
_REDACTED: Final = "[redacted reasoning]"


class Said(msgspec.Struct, gc=False):
    """The content of a message."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = []


def said_in(message: LoggedMessage, attachments: Attachments) -> Said:
    """Return the content of a message, with attachments resolved."""
    content = message.content
    calls = [_tool_call(call, attachments) for call in message.tool_calls or ()]
    if isinstance(content, str) and not message.reasoning:
        return Said(attachments.resolve(content), "", calls)
    texts: list[str] = []
    thoughts = [message.reasoning] if message.reasoning else []
    for part in [content] if isinstance(content, str) else content or ():
        if isinstance(part, str):
            texts.append(attachments.resolve(part))
        elif part.type == "text":
            texts.append(attachments.resolve(part.text or ""))
        elif part.type == "reasoning":
            thoughts.append(_reasoning(part, attachments))
        elif part.type in MEDIA:
            texts.append(placeholder(part, attachments))
        elif part.type == "tool_use":
            calls.append(_server_call(part, attachments))
            texts.append(_server_result(part, attachments))
        else:
            texts.append(f"[{part.type}: {spell(attachments.resolve_all(_given(part)))}]")
    return Said("\n".join(texts), "\n".join(filter(None, thoughts)), calls)


def messages_of(messages: Sequence[LoggedMessage], attachments: Attachments) -> tuple[list[Message], int]:
    """Return a transcript, and the number of tool calls in it."""
    transcript = []
    count = 0
    for index, message in enumerate(messages):
        said = said_in(message, attachments)
        count += len(said.calls)
        answered = message.tool_call_id
        transcript.append(
            Message(
                turn_idx=index,
                role=message.role,
                content=_with_error(said.text, message),
                reasoning_trace=said.reasoning or UNSET,
                tool_calls=said.calls or UNSET,
                tool_call_id=([answered] if isinstance(answered, str) else answered) or UNSET,
            )
        )
    return transcript, count


def prompt_text(messages: Sequence[LoggedMessage], attachments: Attachments) -> str:
    """Return a prompt as text: that of a single user message, or else JSON with role and content of all messages."""
    if len(messages) == 1 and messages[0].role == "user":
        return said_in(messages[0], attachments).text
    asked = [{"role": message.role, "content": said_in(message, attachments).text} for message in messages]
    return _encode(asked).decode() if asked else ""


def _reasoning(part: Part, attachments: Attachments) -> str:
    if part.redacted:  # then `reasoning` is encrypted
        return attachments.resolve(part.summary or "") or _REDACTED
    return attachments.resolve(part.reasoning or "") or attachments.resolve(part.summary or "")


def _tool_call(call: Call, attachments: Attachments) -> ToolCall:
    arguments = _arguments(attachments.resolve_all(call.arguments))
    if call.parse_error:
        arguments["parse_error"] = call.parse_error
    return ToolCall(id=call.id or "", name=call.function or "", arguments=arguments)


def _arguments(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {name: spell(argument) for name, argument in value.items()}
    return {} if value is None else {"arguments": spell(value)}


def _server_call(part: Part, attachments: Attachments) -> ToolCall:
    """Return the call of a tool that the provider of the model ran; its arguments are JSON as text."""
    arguments = attachments.resolve_all(part.arguments)
    if isinstance(arguments, str):
        try:
            decoded = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            decoded = None
        arguments = decoded if isinstance(decoded, dict) else arguments
    return ToolCall(id=part.id or "", name=part.name or "", arguments=_arguments(arguments))


def _server_result(part: Part, attachments: Attachments) -> str:
    result = spell(attachments.resolve_all("" if part.result is None else part.result))
    error = f" [tool error: {spell(attachments.resolve_all(part.error))}]" if part.error else ""
    return f"[result of {part.name or 'tool'}: {result}]{error}"


def _with_error(text: str, message: LoggedMessage) -> str:
    """Return the content of a message, and the error of the tool if it failed."""
    if message.error is not None:
        kind, reason = message.error.type, message.error.message
    elif message.tool_error:
        kind, reason = "", message.tool_error
    else:
        return text
    error = f"[tool error: {kind}: {reason}]" if kind else f"[tool error: {reason}]"
    return f"{text}\n{error}" if text and text != reason else error


def _given(part: Part) -> dict[str, Any]:
    """Return the fields that a part of the content has."""
    if part.data is not None:
        return part.data if isinstance(part.data, dict) else {"data": part.data}
    fields = {name: getattr(part, name) for name in part.__struct_fields__ if name != "type"}
    return {name: value for name, value in fields.items() if value is not None}
