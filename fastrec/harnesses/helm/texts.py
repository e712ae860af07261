"""The texts of instances and requests: questions, prompts, references, and files that were shown to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from fastrec.harnesses.helm.structs import Input as HelmInput
from fastrec.harnesses.helm.structs import Instance, MediaList, Request, RequestState
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Input
from fastrec.storage import parent_and_name

__all__ = ["input_of", "media_text", "references_of"]


def input_of(instance: Instance, requests: Sequence[RequestState], texts: list[str], right: list[int]) -> Input:
    """Return the question with its references, of which some are right, and the prompts of these requests."""
    question = _question(instance.input)
    prompt = _prompt(requests[0].request)
    if len(requests) > 1:
        prompts = list(dict.fromkeys(prompt for state in requests if (prompt := _prompt(state.request))))
        prompt = prompts[0] if len(prompts) == 1 else spell(prompts) if prompts else ""
    is_choice = len(texts) > 1 and (len(right) < len(texts) or bool(requests[0].output_mapping))
    return Input(
        raw=question or prompt,
        formatted=prompt if question and prompt else UNSET,
        reference=[texts[index] for index in right],
        choices=texts if is_choice else UNSET,
    )


def references_of(instance: Instance) -> tuple[list[str], list[int]]:
    """Return the texts of all references, and the positions of those that are right."""
    texts, right = [], []
    for position, reference in enumerate(instance.references or ()):
        output = reference.output
        texts.append(output if isinstance(output, str) else output.text or media_text(output.multimedia_content))
        if reference.tags and "correct" in reference.tags:
            right.append(position)
    return texts, right


def _question(asked: HelmInput | str) -> str:
    if isinstance(asked, str):
        return asked
    if asked.text:
        return asked.text
    if asked.messages:
        users = [message for message in asked.messages if message.get("role") == "user"]
        return _content((users or asked.messages)[-1].get("content"))
    return media_text(asked.multimedia_content)


def _content(content: Any) -> str:
    """Return the text of a message; of its parts, those that are text."""
    if isinstance(content, list):
        return "\n".join(_content(part.get("text", part) if isinstance(part, dict) else part) for part in content)
    return "" if content is None else spell(content)


def _prompt(request: Request | None) -> str:
    if request is None:
        return ""
    if request.prompt:
        return request.prompt
    if request.messages:
        return spell(request.messages)
    return media_text(request.multimodal_prompt)


def media_text(media: MediaList | None) -> str:
    """Return texts as they are, and a placeholder for each file: its type and its name, without its path."""
    if media is None:
        return ""
    parts = []
    for item in media.media_objects:
        name = parent_and_name(item.location)[1] if item.location else "unnamed"
        parts.append(item.text if item.text is not None else f"[{item.content_type}: {name}]")
    return "\n".join(parts)
