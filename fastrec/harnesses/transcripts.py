"""Trials of agents: rewards, turns with tool calls and their results, and how long they took.

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
from msgspec import UNSET

from fastrec.harnesses.log import Sample, Score
from fastrec.harnesses.prompts import text_of
from fastrec.harnesses.values import (
    REFUSALS,
    Fields,
    JsonObject,
    Texts,
    as_list,
    as_object,
    number_of,
    spell,
    texts_of,
)
from fastrec.schemas.newest import Input, Message, Output, Performance, ToolCall

_ROLES = {"agent": "assistant"}  # the sources of steps that are no roles


def trial_of(
    task_id: Any, trial: Any, rewards: JsonObject, asked: Any = None, expected: Any = None
) -> Sample:
    """One trial of a task, with a score for each reward.

    The first reward is an error if it is missing. If the log does not have what was asked, the id
    of the task is the question.
    """
    main = next(iter(rewards))
    return Sample(
        sample_id=spell(task_id),
        input=Input(raw=spell(asked or task_id), reference=texts_of(expected)),
        scores=[
            Score(name, number_of(reward), "the log states no number")
            for name, reward in rewards.items()
            if reward is not None or name == main
        ],
        metadata={"trial": spell(trial)},
    )


def with_chat(sample: Sample, chat: Any) -> Sample:
    """Give a sample its conversation; without one, it has a single turn and no output."""
    messages = Fields(chat=chat).objects("chat")
    if not messages:
        sample.output = Output(raw=[])
        return sample
    sample.output = None
    sample.interaction_type = "agentic"
    sample.messages = []
    sample.tool_calls = 0
    sample.num_turns = len(messages)
    for index, message in enumerate(messages):
        calls = [_call_of(as_object(call)) for call in as_list(message["tool_calls"])]
        sample.tool_calls += len(calls)
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
    return sample


def _call_of(call: Fields) -> ToolCall:
    function = as_object(call["function"]) or call
    return ToolCall(
        id=call.text("id") or call.text("tool_call_id"),
        name=function.text("name") or function.text("function_name"),
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


def time_of(seconds: Any) -> Performance | None:
    number = number_of(seconds)
    latency = number_of(None if number is None else number * 1000)
    return None if latency is None or latency < 0 else Performance(latency_ms=latency)
