"""Prompts and conversations: the question in a prompt, and trials of agents.

The question is what the user said last in a chat, or all of any other prompt. A trial has rewards,
turns with tool calls and their results, and times.

A chat is a list of messages as OpenAI's interface has them. Harnesses spell a tool call in three
ways, and all are read:

    {"id": …, "function": {"name": …, "arguments": JSON as text}}
    {"id": …, "name": …, "arguments": {…}}
    {"tool_call_id": …, "function_name": …, "arguments": {…}}

A trajectory in ATIF (Agent Trajectory Interchange Format) becomes such a chat.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.harnesses.log import Sample, Score, answer_to
from fastrec.harnesses.values import (
    Fields,
    JsonObject,
    OptionalText,
    Texts,
    as_list,
    as_object,
    encode,
    number_of,
    spell,
    texts_of,
)
from fastrec.schemas.newest import Message, Performance, ToolCall
from fastrec.schemas.view import REFUSALS, json_decoder

_ROLES = {"agent": "assistant"}  # the sources of steps that are no roles


_decode_chat = json_decoder(list[JsonObject])


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
    contents = [message.get("content") for message in messages if message["role"] == "user"]
    return text_of(contents[-1]) if contents else None


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


def trial_of(
    task_id: Any,
    trial: Any,
    rewards: JsonObject,
    asked: Any = None,
    expected: Any = None,
    *,
    chat: Any = None,
    **others: Any,
) -> Sample:
    """One trial of a task, with a score for each reward.

    The first reward is an error if it is missing. If the log does not have what was asked, the id
    of the task is the question. `others` are further fields of the sample.
    """
    main = next(iter(rewards))
    sample = answer_to(
        spell(asked or task_id),
        texts_of(expected),
        others.pop("said", []),
        sample_id=spell(task_id),
        scores=[
            Score(name, number_of(reward), "the log states no number")
            for name, reward in rewards.items()
            if reward is not None or name == main
        ],
        metadata={"trial": spell(trial)} | others.pop("metadata", {}),
        **others,
    )
    add_chat(sample, chat)
    return sample


def add_chat(sample: Sample, chat: Any) -> None:
    """Give a sample its conversation; without one, it has a single turn."""
    messages = Fields(chat=chat).objects("chat")
    if not messages:
        return
    sample.output = None
    sample.interaction_type = "agentic"
    sample.messages = []
    sample.num_turns = len(messages)
    count = 0
    for index, message in enumerate(messages):
        calls = [_call_of(as_object(call)) for call in as_list(message["tool_calls"])]
        count += len(calls)
        role = spell(message["role"])
        # tau2-bench writes the id of the call as the id of its result
        answered = message["tool_call_id"] or (role == "tool" and message["id"])
        sample.messages.append(
            Message(
                turn_idx=index,
                role=role,
                content=text_of(message["content"]) or "",
                reasoning_trace=message.text("reasoning_content") or UNSET,
                tool_calls=calls or UNSET,
                tool_call_id=[spell(answered)] if answered else UNSET,
            )
        )
    sample.tool_calls = count


def _call_of(call: Fields) -> ToolCall:
    function = call.object("function") or call
    return ToolCall(
        id=call.text("id", "tool_call_id"),
        name=function.text("name", "function_name"),
        arguments=arguments_in(function["arguments"]),
    )


def arguments_in(value: Any) -> Texts:
    """The arguments of a call: an object, or JSON of one as text."""
    if isinstance(value, str):
        with suppress(*REFUSALS, ValueError):
            value = msgspec.json.decode(value, type=JsonObject)
    return arguments_of(value)


def arguments_of(value: Any) -> Texts:
    if isinstance(value, dict):
        return {name: spell(argument) for name, argument in value.items()}
    return {} if value is None else {"arguments": spell(value)}


def chat_of(trajectory: Fields) -> Iterator[JsonObject]:
    """The messages of a trajectory in ATIF: a step, and what its tools answered."""
    for step in trajectory.objects("steps"):
        source = spell(step["source"])
        yield {**step, "role": _ROLES.get(source, source), "content": step["message"]}
        for answer in step.objects("observation.results"):
            yield {
                "role": "tool",
                "content": answer["content"],
                "tool_call_id": answer["source_call_id"],
            }


def time_between(start: Any, end: Any) -> Performance | None:
    """The time from one date to another; None unless both are known and in this order."""
    try:
        first, last = (
            moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            for moment in map(datetime.fromisoformat, (start, end))
        )
    except (TypeError, ValueError):
        return None
    return time_of((last - first).total_seconds())


def time_of(time: Any, unit: int = 1000) -> Performance | None:
    """A time in a unit of so many milliseconds; None unless it makes sense."""
    number = number_of(time)
    latency = number_of(None if number is None else number * unit)
    return None if latency is None or latency < 0 else Performance(latency_ms=latency)
