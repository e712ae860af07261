"""Turn a sample of a log into the sample that `convert` makes records of.

    interaction type    a sample with
    agentic             a tool call or the message of a tool
    multi_turn          more than one message of the model, or messages after it
    single_turn         anything else

What the model said is `output.raw` or a message, never what a scorer made of it.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf, isfinite, isnan
from typing import Any, NamedTuple

from msgspec import UNSET, Raw, Struct

from fastrec.harnesses.inspect.messages import (
    Attachments,
    Failure,
    LoggedMessage,
    Said,
    messages_of,
    prompt_text,
    said_in,
)
from fastrec.harnesses.log import Sample, Score, extracted
from fastrec.harnesses.values import (
    JsonObject,
    LogObject,
    Names,
    OptionalNumber,
    OptionalText,
    Texts,
    as_list,
    as_object,
    number_in,
    spell,
    spelled,
    texts_of,
    value_at,
)
from fastrec.schemas.newest import Input, Output, Performance, TokenUsage

_NOTHING = Raw(b"")
SKIPPED = (
    "events",
    "transcript",
    "store",
)  # fields of a sample that are looked at, but not read


class Choice(LogObject):
    message: LoggedMessage
    stop_reason: OptionalText = None


class ModelOutput(LogObject):
    choices: list[Choice] = []
    completion: OptionalText = None
    usage: JsonObject | None = None
    error: OptionalText = None


class SampleScore(LogObject):
    value: Any = None
    answer: Any = None
    explanation: Any = None
    reason: Any = None
    metadata: JsonObject | None = None
    # Earlier states of the score, and changes of it, which have a `provenance`.
    history: list[JsonObject] | None = None


class LoggedSample(LogObject):
    """A sample; the shell of a chunked one has `message_refs` instead of `messages`."""

    id: Any
    epoch: int = 1
    input: str | list[LoggedMessage] = ""
    choices: list[Any] | None = None
    target: Any = ""
    messages: list[LoggedMessage] = []
    message_refs: list[tuple[int, int]] | None = None
    output: ModelOutput | None = None
    scores: dict[str, SampleScore] | None = None
    score: SampleScore | None = None  # instead of `scores`, in logs of 2024
    model_usage: dict[str, JsonObject] | None = None
    total_time: OptionalNumber = None
    working_time: OptionalNumber = None
    uuid: OptionalText = None
    error: Failure | None = None
    error_retries: list[Failure] | None = None
    invalidation: Any = None
    limit: Any = None
    metadata: JsonObject | None = None
    events: Raw = _NOTHING
    transcript: Raw = _NOTHING  # instead of `events`, in logs of 2024
    store: Raw = _NOTHING

    @property
    def answer(self) -> ModelOutput:
        """The output; an empty one if the log has none."""
        return self.output or ModelOutput()

    @property
    def unread(self) -> list[str]:
        """The fields that no record holds; tokens of old logs are read of events."""
        return [
            name
            for name in SKIPPED
            if bytes(getattr(self, name)) not in (b"", b"[]", b"{}", b"null")
        ]


def _token_usage_of(sample: LoggedSample, events: Callable[[], Any]) -> TokenUsage | None:
    """The tokens of a whole sample: of all calls of all models, also those that graded it.

    Logs before 2025 have no `model_usage`. If the model was called more than once, their `events`
    have the tokens of each call; the output has those of the last call.
    """
    if sample.model_usage:
        return _sum(sample.model_usage.values())
    answers = sum(message.role == "assistant" for message in sample.messages)
    usages = list(_usages_in(events())) if answers > 1 else []
    if not usages and sample.answer.usage is not None:
        usages = [sample.answer.usage]
    return _sum(usages) if usages else None


def _usages_in(events: Iterable[Any] | None) -> Iterator[JsonObject]:
    """Yield the tokens of each call of a model, also of those inside of tools and subtasks."""
    for event in events or ():
        if event.event == "model" and (usage := as_object(value_at(event.output, "usage"))):
            yield usage
        yield from _usages_in(event.events)


def _sum(usages: Iterable[JsonObject]) -> TokenUsage:
    total = TokenUsage(input_tokens=0, output_tokens=0, total_tokens=0)
    for usage in usages:
        for name in total.__struct_fields__:
            count = usage.get(name)
            if isinstance(count, int):
                setattr(total, name, (getattr(total, name) or 0) + max(count, 0))
    return total


def _performance_of(sample: LoggedSample) -> Performance | None:
    """The times of a sample: `latency_ms` is its working time, without waiting."""
    latency = _milliseconds(sample.working_time)
    total = _milliseconds(sample.total_time)
    if latency is None and total is None:
        return None
    return Performance(
        latency_ms=UNSET if latency is None else latency,
        additional_details=UNSET if total is None else {"total_time_ms": str(total)},
    )


def _milliseconds(seconds: OptionalNumber) -> OptionalNumber:
    if seconds is None or not isfinite(seconds):
        return None
    return max(round(seconds * 1000, 3), 0.0)  # clocks drift: a time may be negative


# Scores: one for each scorer, or one for each key if a scorer gives several values.
#
#     value                                          score
#     a number, true or false                        itself, 1 or 0
#     C, P, I, N                                     1, 0.5, 0, 0
#     yes, true, no, false in any case               1, 1, 0, 0
#     text that spells a finite number               the number
#     a dict                                         one score for each key, `scorer:key`
#     NaN, anything else                             none: the record's error says why
#
# These are the rules of Inspect's own `value_to_float`, but Inspect counts what is no number as 0.
# The `value` of an edited score is that of its last edit.

# The name of the scorer of a log with `score` instead of `scores`, unless the results name it.
OLD_SCORE = "score"

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class Scorer(Struct, frozen=True):
    name: str
    keys: Names = ()  # the keys of its scores, if they are dicts
    is_complete: bool = False  # whether every score has all these keys


class Scoring(Struct, frozen=True):
    scorers: dict[str, Scorer] = {}
    old_name: str = OLD_SCORE  # the scorer of samples with `score` instead of `scores`
    # Whether the aggregates include scores of samples that failed: they do since 2026.
    counts_failed: bool = False


class Answers(NamedTuple):
    """What scores need to know about the sample."""

    texts: list[str]  # what the model said: an explanation that repeats it is left out
    turn: int  # the message with the answer
    source: str  # the field of the record that has it
    choices: int


def _number_or_problem(value: Any) -> tuple[OptionalNumber, str]:
    """A value as a finite number, or the reason why it is none.

    >>> [_number_or_problem(value) for value in ("P", True, "No", "0.25", "1_0")]
    [(0.5, ''), (1.0, ''), (0.0, ''), (0.25, ''), (None, "the score '1_0' is not a number")]
    >>> _number_or_problem(float("nan")), _number_or_problem([1, 0])
    ((None, 'not scored: the score is NaN'), (None, 'the score is a list, which is not a number'))
    """
    if isinstance(value, str):
        number = _LETTERS.get(value, _WORDS.get(value.lower()))
        if number is None:
            try:
                number = number_in(value)
            except ValueError:
                return None, f"the score {value[:80]!r} is not a number"
    elif isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = inf
    elif value is None:
        return None, "the score has no value"
    else:
        return None, f"the score is a {type(value).__name__}, which is not a number"
    if isnan(number):
        return None, "not scored: the score is NaN"
    return (number, "") if isfinite(number) else (None, "the score is not finite")


def scores_in(sample: LoggedSample, old_name: str) -> dict[str, SampleScore]:
    if sample.score is not None:
        return {old_name: sample.score} | (sample.scores or {})
    return sample.scores or {}


def _scores_of(sample: LoggedSample, scoring: Scoring, answers: Answers) -> list[Score]:
    """All scores of a sample, and one without a number for each that the log should have."""
    given = scores_in(sample, scoring.old_name)
    scores = []
    for name, logged in given.items():
        scores += _scores_by(scoring.scorers.get(name) or Scorer(name), logged, answers)
    for name, scorer in scoring.scorers.items():
        if name not in given:
            missing = "not scored: the log has no score of this scorer for this sample"
            scores += [Score(metric, None, missing) for metric in _metrics(scorer)]
    if sample.invalidation is not None or (sample.error is not None and not scoring.counts_failed):
        for score in scores:  # Inspect itself does not count them
            if score.value is not None:
                score.value, score.problem = None, f"its score of {score.value:g} does not count"
    return scores


def _scores_by(scorer: Scorer, given: SampleScore, answers: Answers) -> list[Score]:
    value = given.value
    if isinstance(value, dict) and value:
        parts = {key: _number_or_problem(part) for key, part in value.items()}
        for key in scorer.keys if scorer.is_complete else ():
            parts.setdefault(key, (None, "the score has no such key"))
        scores = [Score(f"{scorer.name}:{key}", *part) for key, part in parts.items()]
    else:
        number, problem = _number_or_problem(value)
        if isinstance(value, dict):
            problem = "the score is an empty dict"
        metrics = _metrics(scorer) if number is None else [scorer.name]
        scores = [Score(metric, number, problem) for metric in metrics]
    extractions = []
    if given.answer is not None:
        extractions.append(
            extracted(spell(given.answer), scorer.name, answers.turn, answers.source)
        )
    metadata = _score_metadata(given, answers)
    fields = given.metadata or {}
    if given.explanation is not None and (text := spell(given.explanation)) not in answers.texts:
        fields = {"explanation": text} | {
            f"score_{key}" * (key == "explanation") or key: fields[key] for key in fields
        }
    for score in scores:
        score.answers = extractions
        score.metadata = metadata
        score.fields = fields
    return scores


def _metrics(scorer: Scorer) -> list[str]:
    return [f"{scorer.name}:{key}" for key in scorer.keys] or [scorer.name]


def _score_metadata(given: SampleScore, answers: Answers) -> Texts:
    metadata = {}
    if given.reason is not None:
        metadata["score_reason"] = spell(given.reason)
    if any(edit.get("provenance") is not None for edit in given.history or ()):
        metadata["score_edited"] = "true"
    if isinstance(given.answer, str):
        letters = given.answer.replace(",", " ").split()
        indices = {chr(ord("A") + index): str(index) for index in range(answers.choices)}
        if letters and indices.keys() >= {*letters}:
            metadata["choice_index"] = ",".join(indices[letter] for letter in letters)
    return metadata


# The attachments and the events of a sample, which are read when they are needed.
Parts = tuple[Attachments, Callable[[], Any]]


def sample_of(logged: LoggedSample, parts: Parts, scoring: Scoring) -> Sample:
    attachments, events = parts
    metadata = _metadata(logged)
    asked, correct = _input(logged, attachments)
    if correct:
        metadata["reference_index"] = correct
    said = [said_in(choice.message, attachments) for choice in logged.answer.choices]
    if not said and logged.answer.completion:
        said = [Said(attachments.resolve(logged.answer.completion))]
    kind = _interaction_type(logged.messages)
    sample = Sample(
        sample_id=spell(logged.id),
        input=asked,
        scores=[],
        interaction_type=kind,
        token_usage=_token_usage_of(logged, events),
        performance=_performance_of(logged),
        error=_error(logged),
        metadata=metadata,
        fields=attachments.resolve_all(logged.metadata or {}),
        unread=logged.unread,
    )
    if kind == "single_turn":
        spoken = _add_output(sample, logged, said, attachments)
        last = 0
        source = "output.raw"
    else:
        spoken, last = _add_messages(sample, logged.messages, said, attachments)
        source = "messages"
    sample.scores = _scores_of(
        logged, scoring, Answers(spoken, last, source, len(logged.choices or ()))
    )
    return sample


def _interaction_type(messages: list[LoggedMessage]) -> str:
    answers = 0
    for message in messages:
        if message.role == "tool" or message.tool_calls:
            return "agentic"
        if any(getattr(part, "type", "") == "tool_use" for part in as_list(message.content)):
            return "agentic"
        answers += message.role == "assistant"
    return (
        "multi_turn"
        if answers > 1 or (answers and messages[-1].role != "assistant")
        else "single_turn"
    )


def _add_output(
    sample: Sample, logged: LoggedSample, said: list[Said], attachments: Attachments
) -> list[str]:
    """Add what the model said in a single turn, and the prompt as sent.

    Return the texts of the model.
    """
    messages = prompt = logged.messages
    contents = [choice.message.content for choice in logged.answer.choices]
    if messages and messages[-1].role == "assistant":
        prompt = messages[:-1]
        if not said or messages[-1].content not in contents:
            final = said_in(messages[-1], attachments)
            said = said or [final]
            if final.text and all(final.text != answer.text for answer in said):
                sample.metadata["assistant_message"] = final.text
    raw = [answer.text for answer in said]
    thoughts = [answer.reasoning for answer in said]
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
    others = [answer.text for answer in said if answer.text and answer.text not in texts]
    if others:  # the solver changed the output, or the model gave several answers at once
        sample.metadata["completions"] = spell(others)
    return texts + others, turns[-1] if turns else len(messages) - 1


def _input(logged: LoggedSample, attachments: Attachments) -> tuple[Input, str]:
    formatted = ""
    if isinstance(logged.input, str):
        raw = attachments.resolve(logged.input)
    else:
        # The question is what the user says. An earlier conversation is part of it, the system's
        # message is not.
        asked = [message for message in logged.input if message.role != "system"]
        raw = prompt_text(asked, attachments)
        if len(asked) < len(logged.input):
            formatted = prompt_text(logged.input, attachments)
    choices = [attachments.resolve(spell(choice)) for choice in logged.choices or ()]
    reference, correct = _reference(logged.target, choices)
    return Input(
        raw=raw, formatted=formatted or UNSET, reference=reference, choices=choices or UNSET
    ), ",".join(map(str, correct))


def _reference(target: Any, choices: list[str]) -> tuple[list[str], list[int]]:
    """The references, and their indices if the target has letters or texts of choices.

    >>> [_reference(target, ["red", "blue"]) for target in ("B", ["A", "B"], "blue")]
    [(['blue'], [1]), (['red', 'blue'], [0, 1]), (['blue'], [1])]
    >>> _reference("42", []), _reference("", []), _reference(["a", ""], [])
    ((['42'], []), ([], []), (['a', ''], []))
    """
    if target in ("", None):  # Inspect's way to say that there is none
        return [], []
    targets = texts_of(target)
    letters = "".join(targets)
    if not choices or not letters:
        return targets, []
    as_texts = [choices.index(text) for text in targets] if {*targets} <= {*choices} else []
    if as_texts and not (len(letters) == len(targets) and letters.isupper()):
        return targets, as_texts
    indices = [ord(letter) - ord("A") for letter in letters]
    if all(0 <= index < min(len(choices), 26) for index in indices):
        return [choices[index] for index in indices], indices
    return targets, as_texts


def _error(logged: LoggedSample) -> str:
    problems = []
    if logged.invalidation is not None:
        reason = value_at(logged.invalidation, "reason")
        problems.append("the sample was invalidated" + (f": {spell(reason)}" if reason else ""))
    if logged.error is not None:
        problems.append(logged.error.message or "the sample failed")
    return "; ".join(problems)


def _metadata(logged: LoggedSample) -> Texts:
    choices = logged.answer.choices
    metadata = {
        "epoch": str(logged.epoch),
        "uuid": logged.uuid,
        "stop_reason": choices[0].stop_reason if choices else None,
        "output_error": logged.answer.error,
    }
    if logged.limit is not None:
        limit = as_object(logged.limit)
        kind = limit["type"]
        metadata["limit"] = f"{kind}: {spell(limit['limit'])}" if kind else spell(logged.limit)
    if logged.error_retries:
        metadata["error_retries"] = str(len(logged.error_retries))
    return spelled(metadata)
