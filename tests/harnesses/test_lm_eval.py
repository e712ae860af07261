"""lm-eval: samples of every kind become records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastrec.harnesses import lm_eval
from fastrec.schemas.hashes import sample_hash
from tests.harnesses.lm_eval_logs import (
    choice,
    generation,
    record_of,
    records_of,
    results,
    write_log,
)

EM = {"exact_match,strict-match": 1.0, "exact_match_stderr,strict-match": "N/A"}
ACC = {
    "acc,none": 1.0,
    "acc_stderr,none": "N/A",
    "acc_norm,none": 0.0,
    "acc_norm_stderr,none": "N/A",
}


def choices_by_metric(records: list[dict[str, Any]]) -> dict[str, tuple[list[str], str | None]]:
    return {
        record["evaluation_result_id"]: (
            record["output"]["raw"],
            record["metadata"].get("choice_index"),
        )
        for record in records
    }


def test_a_generated_answer_with_an_extracted_one(tmp_path: Path) -> None:
    """The model's whole response is the output; what the filter extracted is an attribution."""
    document = results(EM, config={"doc_to_text": "Q: {{question}}\nA:", "num_fewshot": 0})
    assert record_of(tmp_path, generation(3), document) == {
        "schema_version": "0.3.0",
        "evaluation_id": "task/org/model/1740823200.25",
        "model_id": "org/model",
        "evaluation_name": "task",
        "evaluation_result_id": "exact_match:strict-match",
        "sample_id": "3",
        "sample_hash": sample_hash("Q: What is 3 + 1?\nA:", ["4"]),
        "interaction_type": "single_turn",
        "input": {"raw": "Q: What is 3 + 1?\nA:", "reference": ["4"]},
        "output": {"raw": [" It is 4."]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": "4",
                "extraction_method": "strict-match",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": 1.0, "is_correct": True},
        "metadata": {
            "harness": "lm-eval",
            "harness_version": "0.4.8",
            "num_fewshot": "0",
            "task_version": "1.0",
            "doc_hash": generation(3)["doc_hash"],
            "filter": "strict-match",
            "question": "What is 3 + 1?",
            "answer": "4",
        },
    }


def test_nothing_is_attributed_if_no_filter_extracted_anything(tmp_path: Path) -> None:
    row = generation(filter="none", filtered_resps=[" It is 1."])
    record = record_of(tmp_path, row, results({"exact_match,none": 1.0}))
    assert record["evaluation_result_id"] == "exact_match"
    assert record["answer_attribution"] == []
    assert "filter" not in record["metadata"]


def test_all_responses_of_repeats_are_in_the_output(tmp_path: Path) -> None:
    row = generation(resps=[["4", "5", "4"]], filtered_resps=["4"])
    record = record_of(tmp_path, row, results(EM))
    assert record["output"]["raw"] == ["4", "5", "4"]
    assert [one["extracted_value"] for one in record["answer_attribution"]] == ["4"]


def test_filters_are_metrics_of_their_own(tmp_path: Path) -> None:
    rows = [
        generation(n, filter=name)
        for name in ("strict-match", "flexible-extract")
        for n in range(2)
    ]
    figures = {"exact_match,strict-match": 1.0, "exact_match,flexible-extract": 1.0}
    log = write_log(
        tmp_path, rows, results(figures, **{"n-samples": {"task": {"original": 9, "effective": 2}}})
    )
    plan = lm_eval.plan(log)
    assert plan.expected_samples == 4
    assert [(one.metric, one.name) for one in plan.aggregates] == [
        ("exact_match:strict-match", "exact_match,strict-match"),
        ("exact_match:flexible-extract", "exact_match,flexible-extract"),
    ]
    ids = {(record["sample_id"], record["evaluation_result_id"]) for record in records_of(log)}
    assert len(ids) == 4


def test_each_metric_has_the_choice_that_it_picks(tmp_path: Path) -> None:
    log = write_log(tmp_path, [choice()], results(ACC))
    records = records_of(log)
    assert choices_by_metric(records) == {"acc": (["no"], "1"), "acc_norm": (["not at all"], "2")}
    first = records[0]
    assert first["input"] == {
        "raw": "Question 0: is it?\nAnswer:",
        "reference": ["no"],
        "choices": ["yes", "no", "not at all"],
    }
    assert first["metadata"]["reference_index"] == "1"
    assert first["metadata"]["log_likelihoods"] == "[-4.0,-3.0,-9.0]"
    assert [record["evaluation"]["is_correct"] for record in records] == [True, False]


def test_the_first_choice_wins_if_several_are_equal(tmp_path: Path) -> None:
    row = choice(likelihoods=[-2.0, -2.0, -5.0], acc=0.0, acc_norm=0.0)
    assert choices_by_metric(records_of(write_log(tmp_path, [row], results(ACC))))["acc"] == (
        ["yes"],
        "0",
    )


def test_a_score_that_contradicts_the_pick_leaves_it_unknown(tmp_path: Path) -> None:
    """The task scores by a rule of its own, so nothing is said about what was picked."""
    row = choice(acc=0.0, acc_norm=1.0)
    assert choices_by_metric(records_of(write_log(tmp_path, [row], results(ACC)))) == {
        "acc": ([], None),
        "acc_norm": ([], None),
    }


def test_the_length_of_a_choice_is_without_the_delimiter(tmp_path: Path) -> None:
    """-2.5 / 2 is more than -1.4 / 1; with the delimiter, -2.5 / 3 would be less than -1.4 / 2."""
    row = choice(likelihoods=[-1.4, -2.5], target="1", acc=0.0, acc_norm=1.0)
    texts = [" a", " bb"]
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": "?", "arg_1": text} for n, text in enumerate(texts)
    }
    records = choices_by_metric(records_of(write_log(tmp_path, [row], results(ACC))))
    assert records == {"acc": (["a"], "0"), "acc_norm": (["bb"], "1")}
    # In a chat, there is no delimiter.
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": "?", "arg_1": text.strip()} for n, text in enumerate(texts)
    }
    assert (
        choices_by_metric(records_of(write_log(tmp_path / "chat", [row], results(ACC)))) == records
    )


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3]])
def test_bytes_and_mutual_information(tmp_path: Path, order: list[int]) -> None:
    """Half of the requests have no context, and are no choices.

    Until version 0.4.5 they were in between.
    """
    row = choice(
        metrics=["acc", "acc_bytes", "acc_mutual_info"], acc_bytes=0.0, acc_mutual_info=0.0
    )
    del row["acc_norm"]
    requests = [
        ("Is it?", " ééé", "-4.0"),
        ("Is it?", " no", "-3.0"),
        ("", " ééé", "-9.0"),
        ("", " no", "-3.5"),
    ]
    ordered = [requests[number] for number in order]
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": context, "arg_1": text}
        for n, (context, text, _) in enumerate(ordered)
    }
    answers = [[likelihood, "False"] for _, _, likelihood in ordered]
    row |= {"resps": [[answer] for answer in answers], "filtered_resps": answers}
    records = records_of(write_log(tmp_path, [row], results({"acc,none": 1.0})))
    assert choices_by_metric(records) == {
        "acc": (["no"], "1"),
        "acc_bytes": (["ééé"], "0"),
        "acc_mutual_info": (["ééé"], "0"),
    }
    assert records[0]["input"] == {"raw": "Is it?", "reference": ["no"], "choices": ["ééé", "no"]}


def test_mutual_information_without_any_context(tmp_path: Path) -> None:
    row = choice(likelihoods=[-3.0, -1.0], metrics=["acc_mutual_info"], acc_mutual_info=0.5)
    texts = [" a", " b", " a", " b"]
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": "", "arg_1": text} for n, text in enumerate(texts)
    }
    answers = [[text, "False"] for text in ("-4.0", "-3.0", "-9.0", "-3.5")]
    row |= {"resps": [[answer] for answer in answers], "filtered_resps": answers}
    assert record_of(tmp_path, row, results({}))["input"]["choices"] == ["a", "b"]


def test_contexts_that_differ_make_the_choices(tmp_path: Path) -> None:
    """As in winogrande: the target is the common end, so that the accuracy tells which choice is
    correct.
    """
    before = "Sarah was a better surgeon than Maria so"
    row = choice(likelihoods=[-4.0, -3.0], target="got the easy cases.", metrics=["acc"], acc=0.0)
    del row["acc_norm"]
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": f"{before} {name}", "arg_1": " got the easy cases."}
        for n, name in enumerate(("Maria", "Sarah"))
    }
    record = record_of(tmp_path, row, results({"acc,none": 0.0}))
    choices = ["Maria got the easy cases.", "Sarah got the easy cases."]
    assert record["input"] == {"raw": f"{before} ", "reference": [choices[0]], "choices": choices}
    assert record["output"]["raw"] == [choices[1]]
    assert record["metadata"]["reference_index"] == "0"


@pytest.mark.parametrize(
    ("target", "indices"),
    [
        ("1", "1"),
        (1, "1"),
        ("no", "1"),
        (" no", "1"),
        ("[0, 2]", "0,2"),
        ([0, 2], "0,2"),
        ("True", "1"),
        (False, "0"),
        ("7", None),
        ("maybe", None),
        ("-100", None),
        (None, None),
    ],
)
def test_targets_of_choices(tmp_path: Path, target: Any, indices: str | None) -> None:
    """The reference is the text of the correct choices, and their index is in the metadata."""
    row = choice(target=target, metrics=["likelihood_diff"], likelihood_diff=0.25)
    record = record_of(tmp_path, row, results({"likelihood_diff,none": 0.25}))
    assert record["metadata"].get("reference_index") == indices
    texts = ["yes", "no", "not at all"]
    expected = (
        [texts[int(one)] for one in indices.split(",")]
        if indices
        else []
        if target is None
        else [str(target)]
    )
    assert record["input"]["reference"] == expected


def test_digits_may_be_the_text_of_a_choice(tmp_path: Path) -> None:
    """A target is taken for an index unless the document has it as text."""
    row = choice(target="1", doc={"label": "1", "other": 1}, metrics=["score"], score=0.5)
    row["arguments"] = {
        f"gen_args_{n}": {"arg_0": "?", "arg_1": f" {text}"} for n, text in enumerate("123")
    }
    by_index = record_of(
        tmp_path / "a", row, results({"score,none": 0.5}, config={"doc_to_target": "other"})
    )
    by_text = record_of(
        tmp_path / "b", row, results({"score,none": 0.5}, config={"doc_to_target": "label"})
    )
    assert by_index["input"]["reference"] == ["2"]
    assert by_text["input"]["reference"] == ["1"]


@pytest.mark.parametrize(
    ("source", "target", "references"),
    [
        ("answers", "['two', \"it's 2\"]", ["two", "it's 2"]),
        ("{{answers}}", "['two', 'zwei']", ["two", "zwei"]),
        ("{{answers}}", "[1, 2.5]", ["1", "2.5"]),
        ("answers", "[]", ["[]"]),
        ("text", "['two', 'zwei']", ["['two', 'zwei']"]),
        ("def answers(doc):", "['two', 'zwei']", ["['two', 'zwei']"]),
        ("{{answers}}", "[two]", ["[two]"]),
        ("{{answers}}", "['two',  'zwei']", ["['two',  'zwei']"]),
        ("{{answers}}", "['\\ud800']", ["['\\ud800']"]),
        ("{{answers}}", "[" * 5_000, ["[" * 5_000]),
        ("{{answers}}", "[['two']]", ["[['two']]"]),
    ],
)
def test_several_references_of_a_generated_answer(
    tmp_path: Path, source: str, target: str, references: list[str]
) -> None:
    """lm-eval spells a list as Python does. A text that looks like one stays a text."""
    row = generation(target=target, doc={"answers": ["two", "it's 2"], "text": target})
    document = results({"exact_match,strict-match": 1.0}, config={"doc_to_target": source})
    assert record_of(tmp_path, row, document)["input"]["reference"] == references


def test_more_than_ten_requests_in_any_order(tmp_path: Path) -> None:
    count = 12
    row = choice(target="11", metrics=["acc"], acc=1.0)
    del row["acc_norm"]
    requests = {f"gen_args_{n}": {"arg_0": "?", "arg_1": f" choice {n}"} for n in range(count)}
    row["arguments"] = dict(sorted(requests.items())) | {"gen_args_12": None}
    answers = [[str(-count + n), "False"] for n in range(count)]
    row |= {"resps": [[answer] for answer in answers], "filtered_resps": answers}
    record = record_of(tmp_path, row, results({"acc,none": 1.0}))
    assert record["input"]["choices"] == [f"choice {n}" for n in range(count)]
    assert record["output"]["raw"] == ["choice 11"]


@pytest.mark.parametrize(("is_greedy", "said"), [("True", ["word"]), ("False", [])])
def test_a_single_continuation(tmp_path: Path, is_greedy: str, said: list[str]) -> None:
    """As in lambada: the model says the continuation if it is the most likely one.

    `perplexity` is its likelihood.
    """
    row = generation(
        arguments={"gen_args_0": {"arg_0": "the last", "arg_1": " word"}},
        target=" word",
        resps=[[["-3.5", is_greedy]]],
        filtered_resps=[["-3.5", is_greedy]],
        filter="none",
        metrics=["perplexity", "acc"],
        perplexity=-3.5,
        acc=int(is_greedy == "True"),
    )
    figures = {"perplexity,none": 33.1, "acc,none": 1.0}
    log = write_log(
        tmp_path,
        [row],
        results(figures, higher_is_better={"task": {"perplexity": False, "acc": True}}),
    )
    plan = lm_eval.plan(log)
    assert plan.run.lower_is_better == {"perplexity"}
    assert plan.not_compared == {
        "perplexity,none": "lm-eval aggregates it as perplexity, not as a mean"
    }
    perplexity, accuracy = records_of(log)
    assert perplexity["evaluation"] == {"score": -3.5, "is_correct": False}
    assert accuracy["output"]["raw"] == said
    assert accuracy["input"] == {"raw": "the last", "reference": ["word"]}
    assert accuracy["metadata"]["log_likelihood"] == "-3.5"


@pytest.mark.parametrize("request_", [{"arg_0": "a text"}, {"arg_0": "", "arg_1": "a text"}])
def test_a_text_that_is_only_read(tmp_path: Path, request_: dict[str, str]) -> None:
    """Of a rolling likelihood there is no score per sample: lm-eval only aggregates."""
    row = generation(
        arguments={"gen_args_0": request_},
        target="a text",
        resps=[["-12.5"]],
        filtered_resps=["-12.5"],
        filter="none",
        metrics=["word_perplexity"],
        word_perplexity=[-12.5, 2],
    )
    record = record_of(tmp_path, row, results({"word_perplexity,none": 500.0}))
    assert record["input"] == {"raw": "a text", "reference": []}
    assert record["output"] == {"raw": []}
    assert (
        record["error"]
        == "the score is a list, which lm-eval only aggregates over all samples: [-12.5,2]"
    )


def test_a_generation_with_a_likelihood_besides(tmp_path: Path) -> None:
    """As in squad_v2: what was generated is the output, and the likelihood is not."""
    row = generation(
        arguments={
            "gen_args_0": {"arg_0": "Who?", "arg_1": {"until": ["\n"]}},
            "gen_args_1": {"arg_0": "Who?", "arg_1": " unanswerable"},
        },
        resps=[["me"], [["-8.5", "False"]]],
        filtered_resps=["me", ["-8.5", "False"]],
        filter="none",
    )
    record = record_of(tmp_path, row, results({"exact_match,none": 1.0}))
    assert record["output"]["raw"] == ["me"]
    assert record["answer_attribution"] == []


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "0 + 1?"},
]


@pytest.mark.parametrize("sent", [json.dumps(MESSAGES), [json.dumps(MESSAGES)], MESSAGES])
def test_chat_prompts(tmp_path: Path, sent: Any) -> None:
    """The question is what the user said last; the prompt is the whole chat."""
    row = generation(arguments={"gen_args_0": {"arg_0": sent, "arg_1": {}}})
    record = record_of(tmp_path, row, results(EM))
    assert record["input"]["raw"] == "0 + 1?"
    assert json.loads(record["input"]["formatted"]) == MESSAGES


def test_chat_prompts_with_images(tmp_path: Path) -> None:
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:…"}},
    ]
    row = generation(
        arguments={"gen_args_0": {"arg_0": [{"role": "user", "content": content}], "arg_1": {}}}
    )
    assert record_of(tmp_path, row, results(EM))["input"]["raw"] == "What is it?\n[image_url]"


@pytest.mark.parametrize(
    "text", ['[{"role"', '[{"role": "user"}]', '[{"a": "role"}]', "[{}] what is it?"]
)
def test_prompts_that_look_like_chats(tmp_path: Path, text: str) -> None:
    row = generation(arguments={"gen_args_0": {"arg_0": text, "arg_1": {}}})
    assert record_of(tmp_path, row, results(EM))["input"] == {"raw": text, "reference": ["1"]}


@pytest.mark.parametrize(
    ("template", "question"),
    [
        ("Q: {{question}}\nA:", "Q: What is 0 + 1?\nA:"),
        ("question", "What is 0 + 1?"),
        ("Q: {{ question.strip() }}", "Q: What is 0 + 1?"),
        ("{{question|trim}}\nA:", "What is 0 + 1?\nA:"),
        ("{{parts.first}} {{parts['second']}} {{list[1]}} {{number}}?", "What is 0 + 1?"),
        ("Q: {{question}}\nB:", None),  # not in the prompt
        ("{{missing}}", None),
        ("{{list[7]}}", None),
        ("{{question.upper()}}", None),
        ("{% if question %}Q{% endif %}", None),
        ("def doc_to_text(doc):\n    return doc['question']", None),
        ("", None),
        (None, None),
        (["question"], None),
    ],
)
def test_the_question_alone(tmp_path: Path, template: Any, question: str | None) -> None:
    """It is the input where the log proves it: the template only inserts values, and the prompt has
    the result.
    """
    shots = "Q: 5 + 5?\nA: 10\n\n"
    prompt = f"{shots}Q: What is 0 + 1?\nA:"
    doc = {
        "question": "What is 0 + 1?",
        "parts": {"first": "What", "second": "is"},
        "list": [0, "0 +"],
        "number": 1,
    }
    row = generation(arguments={"gen_args_0": {"arg_0": prompt, "arg_1": {}}}, doc=doc)
    record = record_of(tmp_path, row, results(EM, config={"doc_to_text": template}))
    if question is None:
        assert record["input"] == {"raw": prompt, "reference": ["1"]}
    else:
        assert record["input"] == {"raw": question, "formatted": prompt, "reference": ["1"]}


def test_the_question_in_a_chat(tmp_path: Path) -> None:
    """Where the examples are in the same message, the question is a part of it."""
    messages = [{"role": "user", "content": "1 + 1? 2\n0 + 1?"}]
    row = generation(
        arguments={"gen_args_0": {"arg_0": [json.dumps(messages)], "arg_1": {}}},
        doc={"q": "0 + 1?"},
    )
    record = record_of(tmp_path, row, results(EM, config={"doc_to_text": "{{q}}"}))
    assert record["input"]["raw"] == "0 + 1?"
    assert json.loads(record["input"]["formatted"]) == messages


@pytest.mark.parametrize(
    ("value", "score", "error"),
    [
        (0.5, 0.5, None),
        (True, 1.0, None),
        (1, 1.0, None),
        ("True", 1.0, None),
        ("0.5", 0.5, None),
        (float("nan"), 0.0, "the score is NaN"),
        (float("-inf"), 0.0, "the score is -Infinity"),
        ("nan", 0.0, "the score is nan"),
        (None, 0.0, "the score is null: lm-eval did not compute it"),
        (
            ["ref", "pred"],
            0.0,
            'the score is a list, which lm-eval only aggregates over all samples: ["ref","pred"]',
        ),
        ("yes", 0.0, "the score is not a number: yes"),
        ("", 0.0, "the score is not a number: an empty text"),
        ({}, 0.0, "the score is not a number: {}"),
        (10**400, 0.0, "the score is not a number: " + "1" + "0" * 59 + "…"),
    ],
)
def test_values_of_metrics(tmp_path: Path, value: Any, score: float, error: str | None) -> None:
    """A value that is no number is an error that says so, and never a score of 0 by guess."""
    record = record_of(tmp_path, generation(exact_match=value), results(EM))
    assert record["evaluation"]["score"] == score
    assert record.get("error") == error


def test_a_metric_with_parts_is_one_metric_per_part(tmp_path: Path) -> None:
    row = generation(exact_match={"easy": 1, "hard": None})
    easy, hard = records_of(write_log(tmp_path, [row], results(EM)))
    assert easy["evaluation_result_id"] == "exact_match:easy:strict-match"
    assert easy["evaluation"]["score"] == 1.0
    assert hard["evaluation_result_id"] == "exact_match:hard:strict-match"
    assert "null" in hard["error"]


def test_a_metric_without_a_value(tmp_path: Path) -> None:
    row = generation()
    del row["exact_match"]
    record = record_of(tmp_path, row, results(EM))
    assert record["error"] == "the log names this metric, but has no value of it for this sample"


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "a\nb", "é,1", "", "doc", "metric_0", "key_0"])
def test_odd_names_of_metrics(tmp_path: Path, name: str) -> None:
    rows = [generation(n, metrics=["exact_match", name]) | {name: 0.5} for n in range(2)]
    records = records_of(write_log(tmp_path, rows, results(EM | {f"{name},strict-match": 0.5})))
    scores = [
        (one["evaluation_result_id"], one["evaluation"]["score"])
        for one in records
        if not one.get("error")
    ]
    expected = [("exact_match:strict-match", 1.0), (f"{name}:strict-match", 0.5)] * 2
    assert scores == [one for one in expected if name != "doc" or one[0].startswith("exact")]


def test_functions_in_the_settings(tmp_path: Path) -> None:
    source = 'def function(doc):\n    return doc["question"]'
    config = {
        "doc_to_text": source,
        "doc_to_target": source.replace("\n    ", " "),
        "doc_to_choice": source,
    }
    assert len(records_of(write_log(tmp_path, [choice()], results(ACC, config=config)))) == 2


def test_a_sample_without_metrics(tmp_path: Path) -> None:
    record = record_of(tmp_path, generation(metrics=[]), results({}))
    assert record["error"] == "the log has no score for this sample"
    assert "evaluation_result_id" not in record


@pytest.mark.parametrize("resps", [[], [[]], [[None]], [None]])
def test_a_missing_response_is_an_error(tmp_path: Path, resps: Any) -> None:
    record = record_of(tmp_path, generation(resps=resps, exact_match=0.0), results(EM))
    assert record["error"] == "the log has no response to this request"
    assert record["output"]["raw"] == []


def test_text_that_splits_lines_elsewhere(tmp_path: Path) -> None:
    """U+2028 and the like are no line ends; half of a surrogate pair becomes U+FFFD."""
    row = generation(resps=[["a\u2028b\u0085c\x1dd\ud83d"]])
    log = write_log(tmp_path, [generation()], results(EM))
    Path(log.path).write_text(
        json.dumps(row) + "\n" + json.dumps(row | {"doc_id": 1}, ensure_ascii=True)
    )
    assert [record["output"]["raw"] for record in records_of(log)] == [
        ["a\u2028b\u0085c\x1dd\ufffd"]
    ] * 2


def test_metrics_that_only_some_samples_have(tmp_path: Path) -> None:
    rows = [
        generation(n) | ({"metrics": ["exact_match", "extra"], "extra": 0.5} if n == 2 else {})
        for n in range(4)
    ]
    ids = [
        (one["sample_id"], one["evaluation_result_id"])
        for one in records_of(write_log(tmp_path, rows, results(EM)))
    ]
    assert ids == [
        *((str(n), "exact_match:strict-match") for n in range(3)),
        ("2", "extra:strict-match"),
        ("3", "exact_match:strict-match"),
    ]
