"""A sample of Inspect as records: what was asked, what the model said, scores, and what went wrong."""

from __future__ import annotations

import base64
import contextlib
import json
import math
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.errors import LogError
from tests.harnesses.inspect_logs import (
    assistant,
    conversation,
    entry,
    header,
    imported,
    only,
    sample,
    scored,
    system,
    tool,
    user,
    write_eval,
    write_json,
)
from tests.sizes import examples

PIXELS = b"\x89PNG pixels"
IMAGE = "data:image/png;base64," + base64.b64encode(PIXELS).decode()
PLACEHOLDER = f"[image: image/png, sha256:{sha256(PIXELS).hexdigest()}]"
HASH = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def log(tmp_path):
    """Write samples to a log and return its path."""
    return lambda *samples, **others: write_eval(tmp_path / "log.eval", *samples, **others)


def call(identity="c1", function="bash", **arguments):
    return {"id": identity, "function": function, "arguments": arguments, "type": "function"}


# What was asked


def test_a_plain_question(log):
    assert only(log(sample()))["input"] == {"raw": "What is 6 x 7?", "reference": ["42"]}


def test_the_prompt_of_a_single_user_message_is_its_text(log):
    asked = conversation(user("Answer: What is 6 x 7?"), assistant("42"))
    assert only(log(asked))["input"]["formatted"] == "Answer: What is 6 x 7?"


def test_a_prompt_of_several_messages_is_json(log):
    asked = conversation(system("Be brief."), user("What is 6 x 7?"), assistant("42"))
    prompt = only(log(asked))["input"]["formatted"]
    assert json.loads(prompt) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 6 x 7?"},
    ]


def test_the_question_in_messages_is_what_the_user_says(log):
    messages = [
        system("Be brief."),
        user([{"type": "text", "text": "What is"}, {"type": "text", "text": "6 x 7?"}]),
    ]
    record = only(log(conversation(*messages, assistant("42"), input=messages)))
    assert record["input"]["raw"] == "What is\n6 x 7?"
    assert json.loads(record["input"]["formatted"])[0]["content"] == "Be brief."
    unanswered = only(log(sample(input=messages, messages=None, output=None)))
    assert unanswered["input"] == record["input"], (
        "the prompt is known even if the model was never called"
    )


def test_a_conversation_is_a_question_as_a_whole(log):
    messages = [system("x"), user("Pick a number."), assistant("7"), user("Double it.")]
    asked = only(log(conversation(*messages, assistant("14"), input=messages)))["input"]
    assert [one["content"] for one in json.loads(asked["raw"])] == [
        "Pick a number.",
        "7",
        "Double it.",
    ]
    assert json.loads(asked["formatted"])[0] == {"role": "system", "content": "x"}


@pytest.mark.parametrize(
    ("target", "reference", "index"),
    [
        ("B", ["blue"], "1"),
        (["A", "C"], ["red", "C"], "0,2"),
        ("AC", ["red", "C"], "0,2"),
        ("blue", ["blue"], "1"),
        ("C", ["C"], "2"),
        ("Z", ["Z"], None),
        ("yellow", ["yellow"], None),
        ("", [], None),
    ],
)
def test_references_are_texts_of_choices(log, target, reference, index):
    record = only(log(sample(choices=["red", "blue", "C"], target=target)))
    assert record["input"]["choices"] == ["red", "blue", "C"]
    assert record["input"]["reference"] == reference
    assert record["metadata"].get("reference_index") == index


def test_references_without_choices(log):
    assert only(log(sample(target=["42", "forty-two"])))["input"]["reference"] == [
        "42",
        "forty-two",
    ]
    assert only(log(sample(target="A")))["input"]["reference"] == ["A"]
    assert only(log(sample(target=["a", ""])))["input"]["reference"] == ["a", ""]
    assert only(log(sample(target="")))["input"]["reference"] == []


# What the model said


def test_the_output_is_what_the_model_said_not_what_the_scorer_made_of_it(log):
    graded = {"match": {"value": "C", "answer": "42", "explanation": "The last number is 42."}}
    record = only(log(sample(scores=graded)))
    assert record["interaction_type"] == "single_turn"
    assert record["output"] == {"raw": ["It is 42."]}
    assert record["answer_attribution"] == [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": "42",
            "extraction_method": "match",
            "is_terminal": True,
        }
    ]
    assert record["metadata"]["explanation"] == "The last number is 42."


def test_an_explanation_that_repeats_the_output_is_left_out(log):
    assert (
        "explanation"
        not in only(log(sample(scores={"match": {"value": 1, "explanation": "It is 42."}})))[
            "metadata"
        ]
    )


def test_all_choices_of_a_model_are_kept(log):
    thought = [{"type": "reasoning", "reasoning": "6 x 7"}, {"type": "text", "text": "42"}]
    choices = [{"message": assistant(content)} for content in ("41", thought)]
    record = only(log(sample(messages=[user("q"), assistant("41")], output={"choices": choices})))
    assert record["output"] == {"raw": ["41", "42"], "reasoning_trace": ["", "6 x 7"]}


def test_an_output_of_completion_only_or_of_messages_only(log):
    assert only(log(sample(messages=None, output={"completion": "42"})))["output"]["raw"] == ["42"]
    assert only(log(sample(output=None)))["output"]["raw"] == ["It is 42."]
    assert only(log(sample(output=None, messages=None)))["output"]["raw"] == []


def test_an_output_that_a_solver_changed_loses_nothing(log):
    changed = {"choices": [{"message": assistant("B"), "stop_reason": "stop"}], "error": "filtered"}
    record = only(log(sample(output=changed)))
    assert record["output"]["raw"] == ["B"]
    assert record["metadata"]["assistant_message"] == "It is 42."
    assert record["metadata"]["output_error"] == "filtered"


# Transcripts


def test_an_agent_run_is_a_whole_transcript(log):
    thought = [
        {"type": "reasoning", "reasoning": "I look."},
        {"type": "text", "text": "One"},
        {"type": "text", "text": "two"},
    ]
    turns = [
        system("You have a shell."),
        user("Count the files."),
        assistant(thought, call(cmd="ls", depth=2, flags=["-a"]), call("c2", "wc")),
        tool("a\nb", "c1"),
        tool("", "c2", error={"type": "timeout", "message": "too slow"}),
        assistant("Two."),
    ]
    graded = {"match": {"value": "C", "answer": "2", "explanation": "Two."}}
    record = only(log(conversation(*turns, scores=graded)))
    assert record["interaction_type"] == "agentic"
    assert "output" not in record
    assert "formatted" not in record["input"]
    assert [message["role"] for message in record["messages"]] == [turn["role"] for turn in turns]
    assert record["messages"][2] == {
        "turn_idx": 2,
        "role": "assistant",
        "content": "One\ntwo",
        "reasoning_trace": "I look.",
        "tool_calls": [
            {
                "id": "c1",
                "name": "bash",
                "arguments": {"cmd": "ls", "depth": "2", "flags": '["-a"]'},
            },
            {"id": "c2", "name": "wc", "arguments": {}},
        ],
    }
    assert record["messages"][3] == {
        "turn_idx": 3,
        "role": "tool",
        "content": "a\nb",
        "tool_call_id": ["c1"],
    }
    assert record["messages"][4]["content"] == "[tool error: timeout: too slow]"
    assert record["evaluation"] == {
        "score": 1.0,
        "is_correct": True,
        "num_turns": 6,
        "tool_calls_count": 2,
    }
    (answer,) = record["answer_attribution"]
    assert (answer["turn_idx"], answer["source"]) == (5, "messages")


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([user("a"), assistant("b")], "single_turn"),
        ([user("a")], "single_turn"),
        ([user("a"), assistant("b"), user("c"), assistant("d")], "multi_turn"),
        ([user("a"), assistant("b"), user("c")], "multi_turn"),
        ([user("a"), assistant("b", call())], "agentic"),
        ([{"role": "tool", "content": "a"}], "agentic"),
        (
            [
                user("a"),
                assistant([{"type": "tool_use", "id": "x", "name": "web_search", "result": "r"}]),
            ],
            "agentic",
        ),
    ],
)
def test_interaction_types(log, messages, kind):
    record = only(log(conversation(*messages)))
    assert record["interaction_type"] == kind
    assert ("messages" in record) == (kind != "single_turn")


def test_errors_of_tools(log):
    turns = [
        assistant("", call("c1"), call("c2"), call("c3")),
        tool("no", "c1", error={"type": "permission", "message": "no"}),
        tool("half", "c2", error={"type": "output_limit", "message": "too long"}),
        tool("", "c3", tool_error="an old error"),
    ]
    contents = [message["content"] for message in only(log(conversation(*turns)))["messages"]]
    assert contents == [
        "",
        "[tool error: permission: no]",
        "half\n[tool error: output_limit: too long]",
        "[tool error: an old error]",
    ]


def test_unreadable_arguments_keep_their_error(log):
    broken = call(bash="{oops") | {"parse_error": "not JSON"}
    old = {"id": "c2", "function": "f", "arguments": "[1"}
    record = only(log(conversation(user("a"), assistant("b", broken, old))))
    first, second = record["messages"][1]["tool_calls"]
    assert first["arguments"] == {"bash": "{oops", "parse_error": "not JSON"}
    assert second["arguments"] == {"arguments": "[1"}


def test_tools_of_the_provider(log):
    used = {"type": "tool_use", "tool_type": "web_search", "id": "s1", "name": "search"}
    parts = [
        {"type": "text", "text": "I search."},
        used | {"arguments": '{"q": "sums"}', "result": "nothing"},
        used | {"arguments": "sums", "result": "", "error": "down"},
        {"type": "text", "text": "Done."},
    ]
    message = only(log(conversation(user("a"), assistant(parts))))["messages"][1]
    assert (
        message["content"]
        == "I search.\n[result of search: nothing]\n[result of search: ] [tool error: down]\nDone."
    )
    assert [one["arguments"] for one in message["tool_calls"]] == [
        {"q": "sums"},
        {"arguments": "sums"},
    ]


def test_every_part_of_the_content_is_kept(log):
    parts = [
        {"type": "image", "image": IMAGE, "detail": "auto"},
        {"type": "image", "image": f"attachment://{HASH}"},
        {"type": "image", "image": "https://example.org/cat.png"},
        {"type": "image", "image": "<base64-data-removed>"},
        {"type": "image", "image": "attachment://00000000000000000000000000000000"},
        {"type": "audio", "audio": "data:audio/wav;base64,????", "format": "wav"},
        {"type": "video", "video": "clip.mp4", "format": "mp4"},
        {
            "type": "document",
            "document": "data:,plain%20text",
            "filename": "a.txt",
            "mime_type": "text/plain",
        },
        {"type": "data", "data": {"blob": [1, f"attachment://{HASH}"]}},
        {"type": "hologram", "text": "new"},
    ]
    asked = conversation(
        user(parts), assistant("b"), input=[user(parts)], attachments={HASH: IMAGE}
    )
    lines = only(log(asked))["input"]["raw"].split("\n")
    assert lines[:5] == [
        PLACEHOLDER,
        PLACEHOLDER,
        "[image: https://example.org/cat.png]",
        "[image: its data is not in the log]",
        "[image: attachment://00000000000000000000000000000000 is not in the log]",
    ]
    assert lines[5].startswith("[audio: audio/wav, sha256:")
    assert lines[6] == "[video: video/mp4, clip.mp4]"
    assert (
        lines[7] == f"[document: a.txt, text/plain, sha256:{sha256(b'plain%20text').hexdigest()}]"
    )
    assert lines[8] == f'[data: {{"blob":[1,"{IMAGE}"]}}]'
    assert lines[9] == '[hologram: {"text":"new"}]'


@pytest.mark.parametrize(
    ("part", "trace"),
    [
        ({"reasoning": "6 x 7"}, "6 x 7"),
        ({"reasoning": "", "summary": "I multiply."}, "I multiply."),
        ({"reasoning": "encrypted", "redacted": True, "summary": "I multiply."}, "I multiply."),
        ({"reasoning": "encrypted", "redacted": True}, "[redacted reasoning]"),
    ],
)
def test_reasoning(log, part, trace):
    content = [{"type": "reasoning", **part}, {"type": "text", "text": "42"}]
    assert only(log(conversation(user("q"), assistant(content))))["output"]["reasoning_trace"] == [
        trace
    ]


def test_reasoning_beside_the_content(log):
    old = assistant("42") | {"reasoning": "6 x 7"}
    assert only(log(conversation(user("q"), old)))["output"] == {
        "raw": ["42"],
        "reasoning_trace": ["6 x 7"],
    }


def test_attachments_are_resolved_wherever_they_are(log):
    attached = f"attachment://{HASH}"
    asked = conversation(
        user(f"Read this: {attached}!"),
        assistant(attached, call(text=attached, nested={"deep": [attached]})),
        tool([{"type": "text", "text": attached}], "c1"),
        attachments={HASH: "a long text"},
        choices=[attached],
        input=attached,
    )
    record = only(log(asked))
    assert "attachment://" not in json.dumps(record)
    assert record["input"]["raw"] == "a long text"
    assert record["messages"][0]["content"] == "Read this: a long text!"
    assert (
        record["messages"][1]["tool_calls"][0]["arguments"]["nested"] == '{"deep":["a long text"]}'
    )


def test_an_output_that_is_not_in_the_transcript_is_kept(log):
    turns = [user("a"), assistant("b", call()), tool("c", "c1")]
    choices = [{"message": assistant("b")}, {"message": assistant("other")}]
    record = only(log(sample(messages=turns, output={"choices": choices})))
    assert record["metadata"]["completions"] == '["other"]'


# Scores


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1),
        ("P", 0.5),
        ("I", 0),
        ("N", 0),
        (True, 1),
        (False, 0),
        (0.25, 0.25),
        (-3, -3),
        ("yes", 1),
        ("No", 0),
        ("TRUE", 1),
        ("0.75", 0.75),
    ],
)
def test_values_by_the_rule_of_inspect(log, value, score):
    record = only(log(scored(value)))
    assert record["evaluation"] == {"score": score, "is_correct": score == 1}
    assert "error" not in record


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, "not scored: the score is NaN"),
        (math.inf, "the score is not finite"),
        (10**400, "the score is not finite"),
        ("maybe", "the score 'maybe' is not a number"),
        ([1, 0], "the score is a list, which is not a number"),
        ({}, "the score is an empty dict"),
        (None, "the score has no value"),
    ],
)
def test_a_value_that_is_no_number_is_an_error(tmp_path, value, error):
    for write in (write_eval, write_json):
        record = only(write(tmp_path / "log", scored(value)))
        assert record["error"] == error
        assert record["evaluation"] == {"score": 0.0, "is_correct": False}


def test_nan_does_not_change_texts(tmp_path):
    """NaN is made readable for the fast decoder only where it is a value, never inside a text."""
    text = '{"a": NaN, "b": [NaN], \\"c\\": NaN}'
    record = only(
        write_json(
            tmp_path / "log.json",
            conversation(user("q"), assistant(text), scores={"match": {"value": math.nan}}),
        )
    )
    assert record["output"]["raw"] == [text]
    listed = sample(scores={"match": {"value": [math.nan]}}, input=text, store={"x": [math.inf]})
    assert only(write_json(tmp_path / "log.json", listed))["input"]["raw"] == text


def test_halves_of_surrogate_pairs(tmp_path):
    record = only(
        write_json(tmp_path / "log.json", conversation(user("q"), assistant("a \ud83d b")))
    )
    assert record["output"]["raw"] == ["a \ufffd b"]


def test_a_dict_gives_one_metric_per_key(log):
    head = header(entry("judge", "tone"), entry("judge", "facts"))
    value = {"tone": "C", "comment": "fine", "none": None}
    records = imported(
        log(sample(scores={"judge": {"value": value, "answer": "x"}}), head=head)
    ).by_metric()
    assert list(records) == ["judge:tone", "judge:comment", "judge:none", "judge:facts"]
    assert records["judge:tone"]["evaluation"]["score"] == 1
    assert records["judge:comment"]["error"] == "the score 'fine' is not a number"
    assert records["judge:none"]["error"] == "the score has no value"
    assert records["judge:facts"]["error"] == "the score has no such key"
    assert {one["answer_attribution"][0]["extraction_method"] for one in records.values()} == {
        "judge"
    }


def test_an_unscored_sample_has_an_error_for_each_metric(log):
    head = header(entry("judge", "tone"), entry("judge", "facts"), entry("match"), samples=3)
    scores = {"judge": {"value": {"tone": 1, "facts": 0}}, "match": {"value": "C"}}
    nan = {"judge": {"value": math.nan}, "match": {"value": "C"}}
    samples = [sample(1, scores=scores), sample(2, scores=None), sample(3, scores=nan)]
    found = imported(log(*samples, head=head))
    unscored = found.by_metric(sample_id="2")
    half = found.by_metric(sample_id="3")
    assert list(unscored) == ["judge:tone", "judge:facts", "match"] == list(half)
    assert all(one["error"].startswith("not scored") for one in unscored.values())
    assert half["judge:tone"]["error"] == "not scored: the score is NaN"
    assert "error" not in half["match"]


def test_an_error_belongs_to_the_scorers_of_other_samples_if_the_log_declares_none(log):
    """A run that was stopped has no results, and older logs declare no scorers."""
    scores = {"judge": {"value": {"tone": 1, "facts": 0}}, "match": {"value": "C"}}
    samples = [
        sample(1, scores=None, error={"message": "OSError('disk')"}),
        sample(2, scores=scores),
    ]
    head = header(status="error", results=None)
    found = imported(log(*samples, head=head)).by_metric(sample_id="1")
    assert list(found) == ["judge:tone", "judge:facts", "match"]
    assert all(one["error"].startswith("OSError('disk'); not scored") for one in found.values())


def test_a_log_without_scorers(log):
    record = only(log(sample(scores=None), head=header()))
    assert "evaluation_result_id" not in record
    assert record["error"] == "the log has no score for this sample"


def test_several_scorers_and_epochs(log):
    both = {"match": {"value": "C"}, "match1": {"value": 0.5, "reason": "slow"}}
    head = header(entry("match"), entry("match1"), samples=4, epochs=2)
    samples = [sample(number, epoch=epoch, scores=both) for number in (1, 2) for epoch in (1, 2)]
    records = imported(log(*samples, head=head)).records
    identities = [
        (one["sample_id"], one["metadata"]["epoch"], one["evaluation_result_id"]) for one in records
    ]
    assert len(set(identities)) == 8
    assert records[1]["metadata"]["score_reason"] == "slow"


def test_an_edited_score_has_its_last_value(log):
    history = [{"value": "I"}, {"value": "C", "provenance": {"author": "me"}}]
    record = only(log(sample(scores={"match": {"value": "C", "history": history}})))
    assert record["evaluation"]["score"] == 1
    assert record["metadata"]["score_edited"] == "true"
    unedited = only(log(sample(scores={"match": {"value": "C", "history": [{"value": "C"}]}})))
    assert "score_edited" not in unedited["metadata"]


@pytest.mark.parametrize(
    ("answer", "index"), [("B", "1"), ("A, C", "0,2"), ("blue", None), ("E", None), ("", None)]
)
def test_the_choice_of_the_model(log, answer, index):
    graded = {"choice": {"value": "C", "answer": answer}}
    record = only(log(sample(scores=graded, choices=["a", "b", "c"]), head=header(entry("choice"))))
    assert record["metadata"].get("choice_index") == index
    assert record["answer_attribution"][0]["extracted_value"] == answer


# What went wrong


def test_a_failed_sample(log):
    failed = sample(
        scores=None, error={"message": "OSError('disk')", "traceback": "…", "traceback_ansi": "…"}
    )
    record = only(log(failed))
    assert record["error"].startswith("OSError('disk'); not scored")
    assert record["evaluation"]["is_correct"] is False


def test_scores_of_failed_samples_count_where_inspect_counts_them(log):
    failed = sample(error={"message": "boom"})
    head = header(
        entry("match", accuracy=1.0) | {"scored_samples": 1, "unscored_samples": 0}, samples=1
    )
    head["results"]["completed_samples"] = 0
    record = only(log(failed, head=head))
    assert (record["evaluation"], record["error"]) == ({"score": 1.0, "is_correct": False}, "boom")
    record = only(log(failed))
    assert record["evaluation"]["score"] == 0
    assert record["error"] == "boom; its score of 1 does not count"


def test_an_invalidated_sample(log):
    record = only(log(sample(invalidation={"author": "me", "reason": "leaked"})))
    assert record["error"] == "the sample was invalidated: leaked; its score of 1 does not count"
    assert record["evaluation"] == {"score": 0.0, "is_correct": False}
    unscored = only(log(sample(scores=None, invalidation={"author": "me"})))
    assert unscored["error"].startswith("the sample was invalidated; not scored")


def test_limits_and_retries(log):
    retried = sample(
        limit={"type": "token", "limit": 500}, error_retries=[{"message": "a", "events": []}, {}]
    )
    metadata = only(log(retried))["metadata"]
    assert (metadata["limit"], metadata["error_retries"]) == ("token: 500", "2")


# Tokens and times


def test_tokens_of_all_models(log):
    usage = {
        "a": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_cache_read": 3,
        },
        "b": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "reasoning_tokens": 1,
            "total_cost": 0.1,
        },
    }
    last = {"choices": [], "usage": {"input_tokens": 99, "output_tokens": 0, "total_tokens": 99}}
    assert only(log(sample(model_usage=usage, output=last)))["token_usage"] == {
        "input_tokens": 11,
        "output_tokens": 6,
        "total_tokens": 17,
        "input_tokens_cache_read": 3,
        "reasoning_tokens": 1,
    }


def test_tokens_of_logs_without_usage_by_model(log):
    usage = {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
    model = {"event": "model", "output": {"usage": usage, "choices": []}}
    events = [
        model,
        {"event": "sandbox", "output": "text"},
        {"event": "subtask", "events": [model]},
    ]
    turns = [user("a"), assistant("b"), user("c"), assistant("d")]
    expected = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
    assert only(log(sample(messages=turns, events=events)))["token_usage"] == expected
    assert (
        only(log(sample(messages=turns, events=None, transcript={"events": events})))["token_usage"]
        == expected
    )
    once = sample(events=events, output={"choices": [], "usage": usage})
    assert only(log(once))["token_usage"] == usage
    assert "token_usage" not in only(log(sample()))


@pytest.mark.parametrize(("working", "latency"), [(1.5, 1500.0), (-0.25, 0.0), (0, 0.0)])
def test_latency_is_the_working_time(log, working, latency):
    record = only(log(sample(working_time=working, total_time=9.25)))
    assert record["performance"] == {
        "latency_ms": latency,
        "additional_details": {"total_time_ms": "9250.0"},
    }


def test_no_times(log):
    assert "performance" not in only(log(sample()))
    assert "latency_ms" not in only(log(sample(total_time=1)))["performance"]


# Anything else

FULL = sample(
    "x",
    choices=["a", "b"],
    input=[system("s"), user([{"type": "image", "image": IMAGE}])],
    messages=[
        user([{"type": "text", "text": f"attachment://{HASH}"}, {"type": "data", "data": {}}]),
        assistant(
            [{"type": "reasoning", "reasoning": "r"}, {"type": "tool_use", "name": "n", "id": "i"}],
            call(a=1),
        ),
        tool("b", "c1", error={"type": "t", "message": "m"}),
    ],
    scores={
        "match": {"value": {"a": 1}, "answer": "A", "history": [{"provenance": {}}]},
        "other": {"value": "C"},
    },
    model_usage={"m": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}},
    working_time=1.0,
    error={"message": "e"},
    error_retries=[{"message": "e"}],
    invalidation={"reason": "r"},
    limit={"type": "t", "limit": 1},
    attachments={HASH: "text"},
)


def places(value, path=()):
    """Yield the path of every value in a sample."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


PLACES = list(places(FULL))
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("attachment://0"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(27, 450))
@given(st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=3))
def test_values_of_any_type_give_valid_records_or_a_log_error(tmp_path_factory, changes):
    changed = json.loads(json.dumps(FULL))
    for path, value in changes:
        inner = changed
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed the place
    path = tmp_path_factory.getbasetemp() / "changed.json"
    document = header(entry("match"), entry("third", "key")) | {"samples": [changed]}
    path.write_text(json.dumps(document))
    with contextlib.suppress(LogError):
        imported(path)
