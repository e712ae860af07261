"""The conversation in a record: who said what, with reasoning, tool calls and their results.

All schema versions and interaction types have this one form. A single turn is the input, then the
output. What the schema does not know stays: unknown keys are in `other`, next to what they belong
to.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from operator import itemgetter
from string import ascii_uppercase
from typing import Any

import msgspec
from msgspec import DecodeError, Struct, to_builtins

from fastrec.judge.parse import decoded
from fastrec.where import text_of

_ERROR_TEXT = re.compile(
    r"""\s*(?:
        (?:Error|ERROR)\b                            # Error: payment method not found
      | (?i:error)\s*[:\[(]                          # error[E0308], error (exit 1)
      | (?:\w+\.)*[A-Z]\w*(?:Error|Exception)\s*[:(] # ValueError: …, requests.HTTPError: …
      | Traceback\ \(most\ recent\ call\ last\)
      | (?i:HTTP)(?:/[\d.]+)?\ *(?i:error|status)?\ *[:(]?\ *[45]\d\d\b  # HTTP/1.1 404 …
      | [45]\d\d\ (?:Client|Server)\ Error\b
    )""",
    re.VERBOSE,
)
Texts = dict[str, str]  # by name
_ERROR_KEYS = ("error", "errors", "is_error", "isError")
_STATUS_KEYS = ("status", "status_code", "statusCode")


def is_failure(result: str) -> bool:
    """Return whether the result of a tool says that it is an error.

    It does if it begins with the word `Error`, with the name of an exception and a colon, with a
    traceback or with an HTTP status of 400 to 599, or if it is a JSON object with one of these:

    - `error`, `errors`, `is_error` or `isError` that is not empty, 0, false or null
    - `status`, `status_code` or `statusCode` that is "error" or a number from 400 to 599

    >>> results = ("Error: no such file", '{"error": null}', '{"status": 503}', "Errors: none")
    >>> list(map(is_failure, results))
    [True, False, True, False]
    """
    if _ERROR_TEXT.match(result):
        return True
    if result.lstrip()[:1] != "{":
        return False
    try:
        document: Any = msgspec.json.decode(result)
    except (DecodeError, UnicodeError, RecursionError):
        return False
    return any(map(document.get, _ERROR_KEYS)) or any(
        map(_is_failed_status, map(document.get, _STATUS_KEYS))
    )


def _is_failed_status(status: object) -> bool:
    if isinstance(status, str):
        return status.lower() == "error" or (
            status.isascii() and status.isdigit() and 400 <= int(status[:9]) < 600
        )
    return isinstance(status, int) and 400 <= status < 600


class Call(Struct):
    """A call of a tool, with what it returned."""

    #: The id that its result refers to.
    id: str
    #: The tool.
    name: str
    #: Values that are no text are JSON.
    arguments: Texts
    #: What the tool returned.
    result: str | None = None
    #: The position of that turn in `turns`.
    result_turn: int | None = None
    #: Whether the result is an error, as far as it says so.
    failed: bool = False
    #: Unknown keys.
    other: Texts = {}

    @property
    def argument_text(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.arguments.items())


class Turn(Struct):
    """One turn of a conversation."""

    #: The `turn_idx`; for outputs of a single turn, the position.
    number: int
    #: `system`, `user`, `assistant`, `tool`, or any other word of the record.
    role: str
    #: What was said.
    text: str
    #: The `reasoning_trace`.
    reasoning: str = ""
    #: The tools that it called.
    calls: list[Call] = []
    #: The id of the call whose result it is; several with commas in between.
    answers_call: str | None = None
    #: Whether the text is the `result` of an earlier call, and need not be shown twice.
    is_result: bool = False
    #: Whether it is the result of a tool, and an error as far as it says so.
    failed: bool = False
    #: Unknown keys.
    other: Texts = {}


class Transcript(Struct):
    """A conversation, and what it was judged by."""

    question: str  # the `input.raw`
    prompt: str  # the `input.formatted`; empty if there is none
    references: list[str]
    choices: list[str]
    # What the model said and did; without the question, if the answer is a single turn.
    turns: list[Turn]
    extracted: list[str]
    metadata: Texts = {}  # Values that are no text are JSON.
    other: Texts = {}  # Unknown keys of the record, and of its objects as `input.hint`.

    @property
    def final_text(self) -> str:
        """The last text of the assistant, or else of the conversation; empty without one."""
        texts = [turn for turn in self.turns if turn.text]
        own = [turn for turn in texts if turn.role == "assistant"]
        return (own or texts)[-1].text if texts else ""

    @property
    def reasoning(self) -> str:
        return "\n\n".join(turn.reasoning for turn in self.turns if turn.reasoning)

    @property
    def calls(self) -> list[Call]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def expected(self) -> set[int]:
        """The positions of choices that a reference names, by their text or else their letter."""
        by_text = {at for at, choice in enumerate(self.choices) if choice in self.references}
        letters = zip(range(len(self.choices)), ascii_uppercase, strict=False)
        return by_text or {at for at, letter in letters if letter in self.references}


_KNOWN = {
    section: frozenset(names.split())
    for section, names in {
        "": "schema_version evaluation_id model_id evaluation_name evaluation_result_id sample_id "
        "sample_hash"
        " interaction_type input output answer_attribution evaluation "
        "token_usage performance"
        " error metadata",
        "input": "raw formatted reference choices",
        "output": "raw reasoning_trace",
        "evaluation": "score is_correct num_turns tool_calls_count",
        "token_usage": "input_tokens output_tokens total_tokens input_tokens_cache_write "
        "input_tokens_cache_read"
        " reasoning_tokens",
        "performance": "latency_ms time_to_first_token_ms generation_time_ms",
    }.items()
}
_TURN_KEYS = frozenset(
    {"turn_idx", "role", "content", "reasoning_trace", "tool_calls", "tool_call_id"}
)
_CALL_KEYS = frozenset({"id", "name", "arguments"})


def transcript_of(record: Any) -> Transcript:
    """Return the conversation of a record of any version: a line, a decoded line, or a Struct.

    A Struct has unknown keys only if its class was made for them; a line has them all.
    Results of tools are matched with their calls (`_match_results`).
    """
    record = decoded(record) if isinstance(record, bytes) else record
    values = to_builtins(record) if isinstance(record, Struct) else record
    asked = values["input"]
    # In other records, one of these may be an unknown key.
    key = "interactions" if "interactions" in values else "messages"
    given = (values["interaction_type"] != "single_turn" and values.get(key)) or []
    turns = [_turn(turn, number) for number, turn in enumerate(given)]
    _match_results(turns, [_texts(turn.get("tool_call_id")) for turn in given])
    turns.extend(_outputs(values.get("output") or {}, after_turns=bool(turns)))
    return Transcript(
        question=_text(asked["raw"]),
        prompt=_text(asked.get("formatted")),
        references=_texts(asked["reference"]),
        choices=_texts(asked.get("choices")),
        turns=turns,
        extracted=[
            _text(attribution.get("extracted_value"))
            for attribution in values.get("answer_attribution") or ()
        ],
        metadata=_all_texts(values.get("metadata") or {}),
        other=dict(_unknown({name: value for name, value in values.items() if value is not given})),
    )


def _turn(turn: Mapping[str, Any], position: int) -> Turn:
    return Turn(
        number=turn.get("turn_idx", position),
        role=_text(turn.get("role")),
        text=_text(turn.get("content")),
        reasoning="\n\n".join(_texts(turn.get("reasoning_trace"))),
        calls=[
            Call(
                id=_text(call.get("id")),
                name=_text(call.get("name")),
                arguments=_all_texts(call.get("arguments") or {}),
                other=_all_texts(call, _CALL_KEYS),
            )
            for call in turn.get("tool_calls") or ()
        ],
        other=_all_texts(turn, _TURN_KEYS),
    )


def _outputs(output: Mapping[str, Any], *, after_turns: bool) -> Iterator[Turn]:
    """Yield a turn for each output, with the reasoning at the same position.

    A conversation has its output in its turns already, so there an empty one is left out.
    """
    texts = _texts(output.get("raw"))
    reasoning = _texts(output.get("reasoning_trace"))
    both = zip_longest(texts, reasoning, fillvalue="")
    for number, (text, thought) in enumerate(both):
        if text or thought or not after_turns:
            yield Turn(number=number, role="assistant", text=text, reasoning=thought)


def _match_results(turns: list[Turn], ids: list[list[str]]) -> None:
    """Give each call its result, and each result the ids of its calls.

    Calls that follow each other without a result in between are a group. A result belongs to the
    first open call of the last group that has one with its id. A result without an id belongs to
    the first open call of the last group that has one. So repeated ids, and calls that were never
    answered, do not shift the results after them.
    """
    open_calls: list[tuple[int, Call]] = []  # each with the number of its group
    group = 0
    for position, (turn, wanted) in enumerate(zip(turns, ids, strict=True)):
        if wanted or turn.role in ("tool", "function"):
            turn.answers_call = ", ".join(wanted) or None
            turn.failed = is_failure(turn.text)
            for wanted_id in wanted or [""]:
                fitting = [pair for pair in open_calls if wanted_id in ("", pair[1].id)]
                if fitting:
                    pair = max(fitting, key=itemgetter(0))  # the first one of the last group
                    open_calls.remove(pair)
                    call = pair[1]
                    call.result = turn.text
                    call.result_turn = position
                    call.failed = turn.failed
                    turn.is_result = True
                    turn.answers_call = turn.answers_call or call.id or None
            group = position
        open_calls += [(group, call) for call in turn.calls]


def _unknown(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the unknown keys of a record and of its objects, with their values."""
    for section, known in _KNOWN.items():
        for key, value in ((values.get(section) if section else values) or {}).items():
            if key not in known:
                yield f"{section}.{key}" if section else key, text_of(value)


def _all_texts(values: Mapping[str, Any], without: frozenset[str] = frozenset()) -> Texts:
    return {key: text_of(value) for key, value in values.items() if key not in without}


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return list(map(_text, value if isinstance(value, list) else [value]))


def _text(value: Any) -> str:
    return "" if value is None else text_of(value)
