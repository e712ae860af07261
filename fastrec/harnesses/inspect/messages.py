"""Messages of Inspect as messages of a record, with reasoning, tool calls, results and errors.

    part of the content          becomes
    text                         content; parts are joined by a newline
    reasoning                    reasoning_trace; its summary if the text is encrypted
    image, audio, video,         a placeholder in the content
    document
    tool_use                     a tool call of the provider, and its result in the content
    data, anything unknown       JSON in the content

What only the interface of a provider needs is left out: signatures, citations, `internal`.
"""

import binascii
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET

from fastrec.harnesses.transcripts import arguments_in, arguments_of
from fastrec.harnesses.values import JsonObject, LogObject, OptionalText, Texts, as_list, spell
from fastrec.schemas.newest import Message, ToolCall
from fastrec.schemas.schema import without_nulls

# The decoder skips fields of a log that no Struct names, above all `events`, which are most of the
# text. Fields whose type varied between versions of Inspect are `Any`.


class Failure(LogObject):
    type: str = ""
    message: str = ""


class Part(LogObject):
    """A part of the content of a message: the union of all types that Inspect has."""

    type: str = "text"
    text: OptionalText = None
    reasoning: OptionalText = None
    summary: OptionalText = None
    redacted: bool | None = None
    image: OptionalText = None
    audio: OptionalText = None
    video: OptionalText = None
    document: OptionalText = None
    mime_type: OptionalText = None
    format: OptionalText = None
    filename: OptionalText = None
    data: Any = None
    id: OptionalText = None
    name: OptionalText = None
    arguments: Any = None
    result: Any = None
    error: Any = None


class Call(LogObject):
    id: OptionalText = None
    function: OptionalText = None
    arguments: Any = None
    parse_error: OptionalText = None


class LoggedMessage(LogObject):
    role: str
    content: str | list[str | Part] | None = None
    reasoning: OptionalText = None  # in logs of early 2025; later it is a part of the content
    tool_calls: list[Call] | None = None
    tool_call_id: str | list[str] | None = None
    error: Failure | None = None
    tool_error: OptionalText = None  # instead of `error`, in logs of 2024


# Inspect takes long texts and data URLs out of a sample: `attachment://HASH` refers to the sample's
# `attachments`, and `attachment://INDEX` to the attachments of a chunked sample. A record has the
# text itself. An image, sound, video or document is named by its media type and the SHA-256 of its
# bytes.

_WHOLE = r"(?:attachment|tc)://(\w+)"  # "tc" until 2024-10
_INSIDE = r"attachment://([0-9a-f]{32})"
_MAX_URL = 2000  # what is longer is data, not the URL or path of it
_FORMATS = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mov": "video/quicktime",
}


class Attachments:
    """The attachments of a sample, which are decoded when the first of them is needed."""

    def __init__(self, load: Callable[[], Texts]) -> None:
        self._load = cache(load)

    def resolve(self, text: OptionalText) -> str:
        """A text with its references replaced by what they refer to; unknown ones stay."""
        if not text or "://" not in text:
            return text or ""
        if whole := re.fullmatch(_WHOLE, text):
            return self._load().get(whole[1], text)
        return re.sub(_INSIDE, lambda match: self._load().get(match[1], match[0]), text)

    def resolve_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.resolve(value)
        if isinstance(value, list):
            return [self.resolve_all(item) for item in value]
        if isinstance(value, dict):
            return {key: self.resolve_all(item) for key, item in value.items()}
        return value


def placeholder(part: Part, attachments: Attachments) -> str:
    """Name an image, sound, video or document.

    >>> none = Attachments(dict)
    >>> placeholder(Part(type="image", image="data:image/png;base64,aGk="), none)
    '[image: image/png, sha256:8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4]'
    >>> placeholder(Part(type="image", image="https://example.org/cat.png"), none)
    '[image: https://example.org/cat.png]'
    """
    data = attachments.resolve(getattr(part, part.type))
    declared = part.mime_type or _FORMATS.get(part.format or "", part.format) or ""
    if data.startswith("data:"):
        details = _of_data_url(data, declared)
    elif data in ("", "<base64-data-removed>"):
        details = [declared, "its data is not in the log"]
    elif data.startswith("attachment://"):
        details = [declared, f"{data} is not in the log"]
    elif len(data) > _MAX_URL:
        details = [declared, f"sha256:{sha256(data.encode()).hexdigest()}"]
    else:
        details = [declared, data]
    name = part.filename if part.filename != data else ""
    return f"[{part.type}: {', '.join(filter(None, [name, *details]))}]"


def _of_data_url(url: str, declared: str) -> list[str]:
    """The media type and digest of a data URL: that of its bytes, or else of its text."""
    head, _, body = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    data = body.encode(errors="replace")
    if "base64" in parameters:
        with suppress(binascii.Error):
            data = binascii.a2b_base64(data)
    return [media_type or declared, f"sha256:{sha256(data).hexdigest()}"]


class Said(msgspec.Struct, gc=False):
    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = []


def said_in(message: LoggedMessage, attachments: Attachments) -> Said:
    content = message.content
    calls = [_tool_call(call, attachments) for call in message.tool_calls or ()]
    if isinstance(content, str) and not message.reasoning:
        return Said(attachments.resolve(content), "", calls)
    texts = []
    thoughts = [message.reasoning]
    for part in as_list(content):
        if isinstance(part, str):
            texts.append(attachments.resolve(part))
        elif part.type == "text":
            texts.append(attachments.resolve(part.text))
        elif part.type == "reasoning":
            thoughts.append(_reasoning(part, attachments))
        elif part.type in ("image", "audio", "video", "document"):
            texts.append(placeholder(part, attachments))
        elif part.type == "tool_use":
            calls.append(_server_call(part, attachments))
            texts.append(_server_result(part, attachments))
        else:
            texts.append(f"[{part.type}: {spell(attachments.resolve_all(_given(part)))}]")
    return Said("\n".join(texts), "\n".join(filter(None, thoughts)), calls)


def messages_of(
    messages: Sequence[LoggedMessage], attachments: Attachments
) -> tuple[list[Message], int]:
    transcript = []
    count = 0
    for index, message in enumerate(messages):
        said = said_in(message, attachments)
        count += len(said.calls)
        transcript.append(
            Message(
                turn_idx=index,
                role=message.role,
                content=_with_error(said.text, message),
                reasoning_trace=said.reasoning or UNSET,
                tool_calls=said.calls or UNSET,
                tool_call_id=as_list(message.tool_call_id) or UNSET,
            )
        )
    return transcript, count


def prompt_text(messages: Sequence[LoggedMessage], attachments: Attachments) -> str:
    """A prompt as text: that of a single user message, or else JSON of all messages."""
    if len(messages) == 1 and messages[0].role == "user":
        return said_in(messages[0], attachments).text
    asked = [
        {"role": message.role, "content": said_in(message, attachments).text}
        for message in messages
    ]
    return msgspec.json.encode(asked).decode() if asked else ""


def _reasoning(part: Part, attachments: Attachments) -> str:
    if part.redacted:  # then `reasoning` is encrypted
        return attachments.resolve(part.summary) or "[redacted reasoning]"
    return attachments.resolve(part.reasoning or part.summary)


def _tool_call(call: Call, attachments: Attachments) -> ToolCall:
    arguments = arguments_of(attachments.resolve_all(call.arguments))
    if call.parse_error:
        arguments["parse_error"] = call.parse_error
    return ToolCall(id=call.id or "", name=call.function or "", arguments=arguments)


def _server_call(part: Part, attachments: Attachments) -> ToolCall:
    """The call of a tool that the provider of the model ran; its arguments are JSON as text."""
    return ToolCall(
        id=part.id or "",
        name=part.name or "",
        arguments=arguments_in(attachments.resolve_all(part.arguments)),
    )


def _server_result(part: Part, attachments: Attachments) -> str:
    result = spell(attachments.resolve_all("" if part.result is None else part.result))
    error = f" [tool error: {spell(attachments.resolve_all(part.error))}]" if part.error else ""
    return f"[result of {part.name or 'tool'}: {result}]{error}"


def _with_error(text: str, message: LoggedMessage) -> str:
    failure = message.error or Failure(message=message.tool_error or "")
    reason = failure.message
    if message.error is None and not reason:
        return text
    kind = f"{failure.type}: " if failure.type else ""
    error = f"[tool error: {kind}{reason}]"
    return f"{text}\n{error}" if text and text != reason else error


def _given(part: Part) -> JsonObject:
    if part.data is not None:
        return part.data if isinstance(part.data, dict) else {"data": part.data}
    fields = msgspec.structs.asdict(part)
    del fields["type"]
    return without_nulls(fields)
