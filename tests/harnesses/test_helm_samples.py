"""What becomes of a sample of HELM: question, prompt, choices, answers, errors, tokens and times."""

from __future__ import annotations

import json

import pytest

from tests.harnesses.helm_logs import completion, entry, imported, instance, stat, state, write_run

MAPPING = {"A": "Lyon", "B": "Paris", "C": "Nice"}


def record(tmp_path, *states, method="generation", of=None, **values):
    """The record of the metric exact_match of a run with one sample."""
    of = of or states[0]["instance"]
    entries = [entry(of, **({"exact_match": 1.0} | values))]
    return imported(write_run(tmp_path, states, entries, method=method)).of("exact_match:test")


def test_a_generation(tmp_path):
    found = record(
        tmp_path,
        state(instance()),
        num_prompt_tokens=12.0,
        num_output_tokens=3.0,
        num_completion_tokens=9.0,
    )
    assert found["sample_id"] == "id1"
    assert found["evaluation_id"] == "capitals:region=europe/acme/tiny/1700000000"
    assert found["input"] == {
        "raw": "What is the capital of France, no. 1?",
        "formatted": "Question: What is the capital of France, no. 1?\nAnswer:",
        "reference": ["Paris"],
        "choices": ["Lyon", "Paris", "Nice"],
    }
    assert found["output"] == {"raw": [" Paris"]}
    assert found["answer_attribution"] == []
    assert found["evaluation"] == {"score": 1.0, "is_correct": True}
    assert found["token_usage"] == {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    assert found["performance"] == {"generation_time_ms": 250.0}
    assert found["metadata"] == {
        "harness": "helm",
        "scenario": "capitals",
        "adapter_method": "generation",
        "model_deployment": "acme/tiny",
        "trial": "0",
        "split": "test",
        "reference_index": "1",
        "stop_reason": "stop",
    }


def test_references_that_are_all_right_are_no_choices(tmp_path):
    of = instance(
        references=[
            {"output": {"text": text}, "tags": ["correct"]} for text in ("Paris", "paris, France")
        ]
    )
    found = record(tmp_path, state(of))
    assert found["input"]["reference"] == ["Paris", "paris, France"]
    assert "choices" not in found["input"]
    assert found["metadata"]["reference_index"] == "0,1"


def test_old_runs_have_plain_text_for_inputs_and_outputs(tmp_path):
    of = instance(input="Where?", references=[{"output": "Here", "tags": ["correct"]}])
    found = record(tmp_path, state(of))
    assert found["input"] == {
        "raw": "Where?",
        "formatted": "Question: Where?\nAnswer:",
        "reference": ["Here"],
    }


def test_an_instance_without_references(tmp_path):
    found = record(tmp_path, state(instance(references=[])))
    assert found["input"]["reference"] == []


def test_several_completions_and_their_thoughts(tmp_path):
    said = [completion(text, thinking={"text": f"Hm, {text}"}) for text in ("Paris", "Lyon")]
    found = record(tmp_path, state(instance(), *said))
    assert found["output"] == {
        "raw": ["Paris", "Lyon"],
        "reasoning_trace": ["Hm, Paris", "Hm, Lyon"],
    }


@pytest.mark.parametrize(
    ("completions", "choice"),
    [
        ([completion(" B")], 1),
        (
            [completion(" C"), completion(" A", logprob=-0.1)],
            0,
        ),  # the metric looks at the most probable one
        ([completion(" C"), completion(" A")], 2),
        ([completion(" M")], None),
        ([completion("B. Paris")], None),
        ([], None),
    ],
)
def test_the_letter_of_a_choice_is_mapped(tmp_path, completions, choice):
    asked = state(instance(), result={"completions": completions}, output_mapping=MAPPING)
    found = record(tmp_path, asked, method="multiple_choice_joint")
    assert found["output"]["raw"] == [one["text"] for one in completions]
    assert found["metadata"].get("choice_index") == (None if choice is None else str(choice))
    answers = [
        (one["extracted_value"], one["extraction_method"]) for one in found["answer_attribution"]
    ]
    assert answers == (
        [] if choice is None else [(["Lyon", "Paris", "Nice"][choice], "output_mapping")]
    )
    assert found["input"]["choices"] == ["Lyon", "Paris", "Nice"]


def test_equal_choices_are_told_apart_by_their_letters(tmp_path):
    same = [{"output": {"text": "Paris"}, "tags": ["correct"] * right} for right in (False, True)]
    asked = state(
        instance(references=same), completion("B"), output_mapping={"A": "Paris", "B": "Paris"}
    )
    assert (
        record(tmp_path, asked, method="multiple_choice_joint")["metadata"]["choice_index"] == "1"
    )


def separate(of, calibrated=False, **others):
    """One request per reference, and one for its probability without the question."""
    states = []
    for number, reference in enumerate(of["references"]):
        text = f"Question: … Answer: {reference['output']['text']}"
        for mode in ("original", "calibration") if calibrated else ("original",):
            said = completion(f"{text} ({mode})", logprob=-10.0 - number)
            states.append(
                state(
                    of,
                    said,
                    reference_index=number,
                    request_mode=mode,
                    request={"prompt": text + mode},
                    **others,
                )
            )
    return states


@pytest.mark.parametrize(
    "method", ["multiple_choice_separate_original", "multiple_choice_separate_calibrated"]
)
def test_separate_choices_are_one_sample(tmp_path, method):
    """What the metric picked is in the log: how it normalises the probabilities needs the tokenizer
    of the model.
    """
    of = instance()
    states = separate(of, calibrated=method.endswith("calibrated"))
    found = record(
        tmp_path, *states, method=method, predicted_index=2.0, num_prompt_tokens=[10.0, 11.0, 12.0]
    )
    assert found["output"]["raw"] == ["Nice"]
    assert [one["extraction_method"] for one in found["answer_attribution"]] == ["predicted_index"]
    assert found["answer_attribution"][0]["extracted_value"] == "Nice"
    assert found["metadata"]["choice_index"] == "2"
    assert found["metadata"]["log_likelihoods"] == "[-10.0,-11.0,-12.0]"
    assert found["input"]["formatted"] == "Question: … Answer: Niceoriginal"
    assert found["input"]["choices"] == ["Lyon", "Paris", "Nice"]
    assert found["performance"]["generation_time_ms"] == 250.0 * len(states)


def test_separate_choices_without_a_pick(tmp_path):
    """Old runs do not say what was picked: all completions are kept, and nothing is guessed."""
    found = record(tmp_path, *separate(instance()), method="multiple_choice_separate_original")
    assert found["output"]["raw"] == [
        f"Question: … Answer: {name} (original)" for name in ("Lyon", "Paris", "Nice")
    ]
    assert found["answer_attribution"] == []
    assert "choice_index" not in found["metadata"]
    assert len(json.loads(found["input"]["formatted"])) == 3


def test_ranking_keeps_all_answers(tmp_path):
    of = instance()
    states = [
        state(
            of,
            completion(said),
            reference_index=number,
            request_mode="original",
            output_mapping={"Yes": "yes"},
        )
        for number, said in enumerate(("No", "Yes", "No"))
    ]
    found = record(tmp_path, *states, method="ranking_binary")
    assert found["output"]["raw"] == ["No", "Yes", "No"]
    assert found["answer_attribution"] == []


def test_windows_of_language_modeling_are_added_up(tmp_path):
    """A long text has several requests, each with an entry.

    HELM's aggregates are means over requests.
    """
    of = instance()
    states = [
        state(of, completion(text), request={"prompt": text}) for text in ("Once upon", "a time")
    ]
    entries = [entry(of, logprob=-3.0, num_prompt_tokens=2.0, num_output_tokens=0.0, none=None)]
    entries += [entry(of, logprob=-5.0, num_prompt_tokens=4.0, num_output_tokens=0.0, none=None)]
    found = imported(write_run(tmp_path, states, entries, method="language_modeling"))
    one = found.of("logprob:test")
    assert one["evaluation"]["score"] == -4.0
    assert one["output"]["raw"] == ["Once upon", "a time"]
    assert json.loads(one["input"]["formatted"]) == ["Once upon", "a time"]
    assert one["token_usage"]["input_tokens"] == 6
    assert found.plan.aggregates == []
    assert (
        found.plan.not_compared["logprob:test"] == "it is a mean over requests, not over instances"
    )
    assert found.plan.expected_samples == 1


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (
            {"success": False, "error": "content filter", "completions": [completion("")]},
            "the request failed: content filter",
        ),
        ({"success": False, "completions": []}, "the request failed"),
        ({"success": False, "error": {"code": 429}}, 'the request failed: {"code":429}'),
        (None, "the request was not executed"),
    ],
)
def test_failed_requests_are_errors(tmp_path, result, error):
    """HELM scores a failed request as an empty answer: the score stays, the record says what it is
    worth.
    """
    of = instance()
    states = [state(of, result=result), state(instance(2))]
    entries = [entry(of, exact_match=0.0), entry(instance(2), exact_match=1.0)]
    found = imported(write_run(tmp_path, states, entries))
    failed, fine = found.records
    assert failed["error"] == error
    assert failed["evaluation"] == {"score": 0.0, "is_correct": False}
    assert "error" not in fine
    assert found.converter.result.errors == 1
    found.check_aggregates()


def test_a_failed_request_is_never_correct(tmp_path):
    found = record(tmp_path, state(instance(), result={"success": False, "error": "refused"}))
    assert found["evaluation"] == {"score": 1.0, "is_correct": False}


def test_one_failed_request_of_several_is_an_error(tmp_path):
    states = separate(instance())
    states[1]["result"] |= {"success": False, "error": "timeout"}
    found = record(tmp_path, *states, method="multiple_choice_separate_original")
    assert found["error"] == "the request failed: timeout"


def test_messages(tmp_path):
    """The question is the last message of the user; the prompt is all messages."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Where is Paris?"},
    ]
    of = instance(input={"messages": messages})
    found = record(tmp_path, state(of, request={"prompt": "", "messages": messages}))
    assert found["input"]["raw"] == "Where is Paris?"
    assert json.loads(found["input"]["formatted"]) == messages


def test_a_question_that_is_only_in_the_prompt(tmp_path):
    found = record(tmp_path, state(instance(input={"text": ""}), request={"prompt": "Say hello"}))
    assert found["input"] == {
        "raw": "Say hello",
        "reference": ["Paris"],
        "choices": ["Lyon", "Paris", "Nice"],
    }


def test_files_are_named_without_their_paths(tmp_path):
    shown = [
        {"content_type": "text/plain", "text": "What is this?"},
        {"content_type": "image/png", "location": "/home/me/benchmark_output/scenarios/x/cat.png"},
    ]
    made = {
        "media_objects": [{"content_type": "image/jpeg", "location": "s3://bucket/made/dog.jpg"}]
    }
    of = instance(input={"text": "", "multimedia_content": {"media_objects": shown}})
    asked = state(
        of,
        completion("", multimodal_content=made),
        request={"prompt": "", "multimodal_prompt": made},
    )
    found = record(tmp_path, asked)
    assert found["input"]["raw"] == "What is this?\n[image/png: cat.png]"
    assert found["input"]["formatted"] == "[image/jpeg: dog.jpg]"
    assert found["output"]["raw"] == ["[image/jpeg: dog.jpg]"]


def test_encrypted_prompts_stay_as_they_are(tmp_path):
    of = instance(input={"text": "[encrypted_text_17]"})
    found = record(tmp_path, state(of, request={"prompt": "[encrypted_text_18]"}))
    assert found["input"]["raw"] == "[encrypted_text_17]"
    assert found["input"]["formatted"] == "[encrypted_text_18]"


def test_parts_of_a_split(tmp_path):
    of = instance(sub_split="toxic")
    found = imported(write_run(tmp_path, [state(of)], [entry(of, exact_match=1.0)]))
    assert found.of("exact_match:test:toxic")["metadata"]["sub_split"] == "toxic"
    found.check_aggregates()


@pytest.mark.parametrize(
    ("changes", "score", "error"),
    [
        ({"mean": 0.5}, 0.5, None),
        ({"mean": 1}, 1, None),
        ({"mean": 0.5, "count": None, "sum": None}, 0.5, None),
        ({"mean": None, "count": 4, "sum": 3}, 0.75, None),
        ({"mean": float("nan")}, 0.0, "the score is not a number: NaN"),
        ({"mean": float("inf")}, 0.0, "the score is not a number: Infinity"),
        ({"mean": [1.0]}, 0.0, "the score is not a number: [1.0]"),
        (
            {"mean": None, "count": 0, "sum": 0},
            0.0,
            "HELM has no value of this metric for this instance",
        ),
        (
            {"mean": None, "count": 1, "sum": float("nan")},
            0.0,
            "HELM has no value of this metric for this instance",
        ),
    ],
)
def test_the_score_is_the_mean(tmp_path, changes, score, error):
    one = entry(instance(1), f1=1.0)
    other = entry(instance(2), f1=1.0)
    one["stats"][0] |= changes
    one["stats"][0] = {key: value for key, value in one["stats"][0].items() if value is not None}
    states = [state(instance(1)), state(instance(2))]
    found = imported(write_run(tmp_path, states, [one, other], stats=[stat("num_instances", 2.0)]))
    assert found.records[0]["evaluation"] == {"score": score, "is_correct": score == 1}
    assert found.records[0].get("error") == error
    assert "error" not in found.records[1]


def test_bookkeeping_is_no_judgement(tmp_path):
    """A 1 of these metrics does not say that the answer is right."""
    values = {
        "num_train_trials": 1.0,
        "finish_reason_stop": 1.0,
        "max_prob": 1.0,
        "bits_per_byte": 1.0,
        "f1": 1.0,
    }
    of = instance()
    found = imported(write_run(tmp_path, [state(of)], [entry(of, **values)]))
    assert {
        one["evaluation_result_id"]: one["evaluation"]["is_correct"] for one in found.records
    } == {
        "num_train_trials:test": False,
        "finish_reason_stop:test": False,
        "max_prob:test": False,
        "bits_per_byte:test": False,
        "f1:test": True,
    }


@pytest.mark.parametrize("time", [None, -1.0, 1e308])
def test_odd_times_are_left_out(tmp_path, time):
    asked = state(instance(), result={"request_time": time})
    assert "performance" not in record(tmp_path, asked)


@pytest.mark.parametrize("count", [-1.0, 1e300, None])
def test_odd_numbers_of_tokens_are_left_out(tmp_path, count):
    assert "token_usage" not in record(
        tmp_path, state(instance()), num_prompt_tokens=count, num_output_tokens=3.0
    )


@pytest.mark.parametrize("count", [1e-300, 10**400, float("nan")])
def test_a_mean_beyond_all_numbers(tmp_path, count):
    one = entry(instance(1), f1=1.0)
    one["stats"][0] |= {"mean": None, "sum": 1e300, "count": count}
    del one["stats"][0]["mean"]
    found = imported(
        write_run(
            tmp_path, [state(instance(1))], [one], stats=[stat("num_instances", 1e308, 1e308)]
        )
    )
    assert found.records[0]["error"] == "HELM has no value of this metric for this instance"
