"""Turn a sample of a log into the sample that `convert` makes records of.

    interaction type    a sample with
    agentic             a tool call or the message of a tool
    multi_turn          more than one message of the model, or messages after it
    single_turn         anything else

What the model said is `output.raw` or a message, never what a scorer made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from fastrec.harnesses.inspect.media import Attachments
from fastrec.harnesses.inspect.messages import Said, messages_of, prompt_text, said_in
from fastrec.harnesses.inspect.sample_structs import LoggedMessage, LoggedSample
from fastrec.harnesses.inspect.scores import Answers, Scoring, scores_of
from fastrec.harnesses.inspect.usage import performance_of, token_usage_of
from fastrec.harnesses.log import Sample
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import Input, Output

__all__ = ["LazyParts", "sample_of"]


class LazyParts:
    """The parts of a sample that are read when they are needed."""

    def __init__(self, attachments: Callable[[], Mapping[str, str]], events: Callable[[], Any]) -> None:
        self.attachments = Attachments(attachments)
        self.events = events


def sample_of(logged: LoggedSample, parts: LazyParts, scoring: Scoring) -> Sample:
    """Turn a logged sample into a sample."""
    attachments = parts.attachments
    metadata = _metadata(logged)
    asked, correct = _input(logged, attachments)
    if correct:
        metadata["reference_index"] = correct
    said = [said_in(choice.message, attachments) for choice in logged.output.choices] if logged.output else []
    if not said and logged.output and logged.output.completion:
        said = [Said(attachments.resolve(logged.output.completion))]
    kind = _interaction_type(logged.messages)
    sample = Sample(
        sample_id=str(logged.id) if type(logged.id) is int else spell(logged.id),
        input=asked,
        scores=[],
        interaction_type=kind,
        token_usage=token_usage_of(logged, parts.events),
        performance=performance_of(logged),
        error=_error(logged),
        metadata=metadata,
    )
    if kind == "single_turn":
        spoken = _add_output(sample, logged, said, attachments)
        last = 0
    else:
        spoken, last = _add_messages(sample, logged.messages, said, attachments)
    source = "output.raw" if kind == "single_turn" else "messages"
    answers = Answers(tuple(spoken), last, source, len(logged.choices or ()))
    sample.scores = scores_of(logged, scoring, answers)
    return sample


def _interaction_type(messages: list[LoggedMessage]) -> str:
    answers = 0
    for message in messages:
        content = message.content
        if message.role == "tool" or message.tool_calls:
            return "agentic"
        if isinstance(content, list) and any(not isinstance(part, str) and part.type == "tool_use" for part in content):
            return "agentic"
        answers += message.role == "assistant"
    return "multi_turn" if answers > 1 or (answers and messages[-1].role != "assistant") else "single_turn"


def _add_output(sample: Sample, logged: LoggedSample, said: list[Said], attachments: Attachments) -> list[str]:
    """Add what the model said in a single turn, and the prompt as sent; return the texts of the model."""
    messages = prompt = logged.messages
    contents = [choice.message.content for choice in logged.output.choices] if logged.output else []
    if messages and messages[-1].role == "assistant":
        prompt = messages[:-1]
        if not said or messages[-1].content not in contents:
            final = said_in(messages[-1], attachments)
            said = said or [final]
            if final.text and all(final.text != one.text for one in said):
                sample.metadata["assistant_message"] = final.text
    raw = [one.text for one in said]
    thoughts = [one.reasoning for one in said]
    sample.output = Output(raw=raw, reasoning_trace=thoughts if any(thoughts) else UNSET)
    if prompt:
        formatted = prompt_text(prompt, attachments)
        sample.input.formatted = UNSET if formatted == sample.input.raw else formatted
    return raw


def _add_messages(
    sample: Sample, messages: list[LoggedMessage], said: list[Said], attachments: Attachments
) -> tuple[list[str], int]:
    """Add the transcript; return the texts of the model, and the position of the last one."""
    transcript, calls = messages_of(messages, attachments)
    sample.messages, sample.tool_calls, sample.num_turns = transcript, calls, len(transcript)
    turns = [index for index, message in enumerate(messages) if message.role == "assistant"]
    texts = [str(transcript[index].content) for index in turns]
    others = [one.text for one in said if one.text and one.text not in texts]
    if others:  # the solver changed the output, or the model gave several answers at once
        sample.metadata["completions"] = spell(others)
    return texts + others, turns[-1] if turns else len(messages) - 1


def _input(logged: LoggedSample, attachments: Attachments) -> tuple[Input, str]:
    """Return what was asked, and the indices of the correct choices."""
    formatted = None
    if isinstance(logged.input, str):
        raw = attachments.resolve(logged.input)
    else:
        # The question is what the user says. An earlier conversation is part of it, the system's message is not.
        raw = prompt_text([message for message in logged.input if message.role != "system"], attachments)
        if any(message.role == "system" for message in logged.input):
            formatted = prompt_text(logged.input, attachments)
    choices = [attachments.resolve(spell(choice)) for choice in logged.choices or ()]
    reference, correct = _reference(logged.target, choices)
    asked = Input(raw=raw, formatted=formatted or UNSET, reference=reference, choices=choices or UNSET)
    return asked, ",".join(map(str, correct))


def _reference(target: Any, choices: list[str]) -> tuple[list[str], list[int]]:
    """Return the references, as texts of choices if the target has letters or texts of them, and their indices.

    >>> _reference("B", ["red", "blue"]), _reference(["A", "B"], ["red", "blue"]), _reference("blue", ["red", "blue"])
    ((['blue'], [1]), (['red', 'blue'], [0, 1]), (['blue'], [1]))
    >>> _reference("42", []), _reference("", []), _reference(["a", ""], [])
    ((['42'], []), ([], []), (['a', ''], []))
    """
    if target in ("", None):  # Inspect's way to say that there is none
        return [], []
    targets = [spell(one) for one in (target if isinstance(target, list) else [target])]
    letters = "".join(targets)
    if not choices or not letters:
        return targets, []
    are_texts = all(one in choices for one in targets)
    are_single = len(letters) == len(targets) and letters.isupper()
    if are_texts and not are_single:
        return targets, [choices.index(one) for one in targets]
    indices = [ord(letter) - ord("A") for letter in letters]
    if all(0 <= index < min(len(choices), 26) for index in indices):
        return [choices[index] for index in indices], indices
    return targets, [choices.index(one) for one in targets] if are_texts else []


def _error(logged: LoggedSample) -> str:
    """Return what went wrong with a sample."""
    problems = []
    if logged.invalidation is not None:
        reason = logged.invalidation.get("reason") if isinstance(logged.invalidation, dict) else None
        problems.append("the sample was invalidated" + (f": {spell(reason)}" if reason else ""))
    if logged.error is not None:
        problems.append(logged.error.message or "the sample failed")
    return "; ".join(problems)


def _metadata(logged: LoggedSample) -> dict[str, str]:
    metadata = {"epoch": str(logged.epoch)}
    if logged.uuid:
        metadata["uuid"] = logged.uuid
    output = logged.output
    if output is not None:
        if output.choices and output.choices[0].stop_reason:
            metadata["stop_reason"] = output.choices[0].stop_reason
        if output.error:
            metadata["output_error"] = output.error
    if logged.limit is not None:
        limit = logged.limit
        is_object = isinstance(limit, dict) and "type" in limit
        metadata["limit"] = f"{limit['type']}: {spell(limit.get('limit'))}" if is_object else spell(limit)
    if logged.error_retries:
        metadata["error_retries"] = str(len(logged.error_retries))
    return metadata
