"""The conversation in a record: every version has the same form, results find their calls, and
nothing gets lost.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.answers.transcript import Call, Transcript, Turn, is_failure, transcript_of
from fastrec.schemas.registry import TARGETS
from tests.samples import sample, sample_of


def decoded(record: dict[str, Any], version: str = "0.2.0") -> Any:
    """The record as a Struct of a version."""
    return msgspec.convert(record, TARGETS[version].record)


@pytest.mark.parametrize("version", TARGETS)
def test_a_single_turn_is_one_output_without_the_question(version: str) -> None:
    found = transcript_of(decoded(sample_of(version), version))
    assert (found.question, found.prompt) == ("6 x 7 = ?", "<s>6 x 7 = ?")
    assert (found.references, found.choices, found.extracted) == (["42"], ["41", "42"], ["42"])
    assert found.turns == [Turn(number=0, role="assistant", text="It is 42: sure", reasoning="6*7")]
    assert found.metadata["subject"] == "maths"


@pytest.mark.parametrize("version", TARGETS)
def test_a_call_has_its_result_and_the_turn_of_the_result_stays(version: str) -> None:
    found = transcript_of(decoded(sample_of(version, "agentic"), version))
    call = Call(
        id="call-1", name="multiply", arguments={"a": "6", "b": "7"}, result="42", result_turn=1
    )
    assert found.turns == [
        Turn(number=0, role="assistant", text="let me see", calls=[call]),
        Turn(number=1, role="tool", text="42", answers_call="call-1", is_result=True),
    ]


def test_a_struct_and_its_decoded_line_are_the_same_conversation() -> None:
    for name in ("single_turn", "multi_turn", "agentic"):
        record = sample(name)
        assert transcript_of(decoded(record)) == transcript_of(record)


def test_several_outputs_are_several_turns_with_their_reasoning() -> None:
    record = sample_of(
        "0.3.0", output={"raw": ["a", "", "c"], "reasoning_trace": ["x", "y", "z", "more"]}
    )
    assert [
        (turn.number, turn.text, turn.reasoning)
        for turn in transcript_of(decoded(record, "0.3.0")).turns
    ] == [
        (0, "a", "x"),
        (1, "", "y"),
        (2, "c", "z"),
        (3, "", "more"),
    ]


def test_unknown_keys_and_values_that_are_no_text_are_kept() -> None:
    record = sample("agentic", hint={"a": [1, None]}, metadata={"n": None, "x": 1.5})
    record["input"]["level"] = 3
    record["interactions"][0] |= {"name": "Ann", "role": "narrator"}
    record["interactions"][0]["tool_calls"][0] |= {"type": "function"}
    found = transcript_of(record)
    assert found.other == {"hint": '{"a":[1,null]}', "input.level": "3"}
    assert found.metadata == {"n": "null", "x": "1.5"}
    assert (found.turns[0].role, found.turns[0].other) == ("narrator", {"name": "Ann"})
    assert found.turns[0].calls[0].other == {"type": "function"}


def conversation(*turns: str) -> Transcript:
    """A conversation in short: `a?` calls a tool with the id a, `a!` is a result of it, `!` one
    without an id.
    """
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        message: dict[str, Any] = {
            "turn_idx": number,
            "role": "assistant",
            "content": f"{turn} {number}",
        }
        if turn.endswith("?"):
            message["tool_calls"] = [
                {"id": one.strip(), "name": "f"} for one in turn[:-1].split(",")
            ]
        elif turn.endswith("!"):
            ids = [one for one in turn[:-1].split(",") if one]
            message |= {"role": "tool"} | ({"tool_call_id": ids} if ids else {})
        messages.append(message)
    return transcript_of(sample("agentic", interactions=messages))


@pytest.mark.parametrize(
    ("turns", "results"),
    [
        (["a?", "a!"], [1]),
        (["a,b?", "b!", "a!"], [2, 1]),
        (["a,b?", "!", "!"], [1, 2]),
        (["a?", "b?", "!", "!"], [2, 3]),
        (["a?", "a!", "a?", "a!"], [1, 3]),  # real logs repeat ids
        (["a,a?", "a!", "a!"], [1, 2]),
        (["a,b?", "a!", "b?", "b!"], [1, None, 3]),  # the first b was never answered
        (["a?", "so", "x!", "a!"], [3]),  # x belongs to no call
        (["a,b?", "a,b!"], [1, 1]),
        ([",?", "!", "!"], [1, 2]),  # calls without ids
        (["a?", "a!", "a!"], [1]),
        (["!", "a?"], [None]),
    ],
)
def test_results_find_their_calls_by_id_then_by_order(
    turns: list[str], results: list[int | None]
) -> None:
    found = conversation(*turns)
    calls = [call for turn in found.turns for call in turn.calls]
    assert [call.result_turn for call in calls] == results
    assert all(
        call.result == found.turns[call.result_turn].text
        for call in calls
        if call.result_turn is not None
    )
    matched = {call.result_turn for call in calls} - {None}
    assert {number for number, turn in enumerate(found.turns) if turn.is_result} == matched


@given(
    st.lists(
        st.sampled_from(["a?", "b?", "a,b?", "a!", "b!", "!", "x!", "a,b!", "so"]), max_size=12
    )
)
def test_every_turn_stays_and_a_result_comes_after_its_call(turns: list[str]) -> None:
    found = conversation(*turns)
    assert [turn.text for turn in found.turns] == [
        f"{turn} {number}" for number, turn in enumerate(turns)
    ]
    for position, turn in enumerate(found.turns):
        for call in turn.calls:
            if call.result_turn is not None:
                assert call.result_turn > position
                ids = found.turns[call.result_turn].answers_call
                assert ids is not None
                assert call.id in ids.split(", ")


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("Error: payment method not found", True),
        ("ERROR", True),
        ("  error: x", True),
        ("Error executing tool", True),
        ("ValueError: bad", True),
        ("requests.exceptions.ConnectionError: x", True),
        ("Traceback (most recent call last):\n…", True),
        ("HTTP/1.1 404 Not Found", True),
        ("HTTP Error 503: Service Unavailable", True),
        ("500 Server Error: …", True),
        ('{"error": "no such file"}', True),
        ('\n{"errors": [1]}', True),
        ('{"status": "error", "message": "x"}', True),
        ('{"status_code": 429}', True),
        ('{"is_error": true}', True),
        ("", False),
        ("Errors found: 0", False),
        ("no Error", False),
        ("errors", False),
        ("HTTP/1.1 200 OK", False),
        ("404", False),
        ('{"error": null}', False),
        ('{"error": "", "errors": []}', False),
        ('{"status": 200}', False),
        ('{"status": "400000000000000000000"}', False),
        ('{"data": {"error": "nested"}}', False),
        ('{"error": "cut', False),
        ('[{"error": "in a list"}]', False),
        ('{"a":' * 100_000, False),
    ],
)
def test_a_result_that_says_it_is_an_error_has_failed(result: str, failed: bool) -> None:
    assert is_failure(result) is failed
    record = sample("agentic")
    record["interactions"][1]["content"] = result
    turns = transcript_of(record).turns
    assert (turns[0].calls[0].failed, turns[1].failed) == (failed, failed)


def test_only_results_of_tools_can_fail() -> None:
    record = sample("multi_turn")
    record["interactions"][1]["content"] = "Error: I cannot do this"
    assert not transcript_of(record).turns[1].failed
