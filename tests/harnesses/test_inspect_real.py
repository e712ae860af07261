"""Real logs of Inspect, where they lie beside the checkout: every figure of theirs is reproduced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harnesses.inspect_logs import imported

LOGS = Path(__file__).parents[3] / "shared" / "logs" / "inspect"

pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the real logs are not beside the checkout"
)


@pytest.mark.parametrize(
    ("name", "records", "scored"),
    [
        ("log_streaming.eval", 4, 4),
        ("mmlu-summary-choices.eval", 1, 1),
        ("shortened_gsm8k.json", 5, 5),
        ("shortened_ifeval.json", 25, 25),
        ("inspect_ai_log_tool_call_error.json", 1, 0),
    ],
)
def test_every_sample_has_its_records(name, records, scored):
    found = imported(LOGS / name)
    assert len(found.records) == records
    assert sum(total.scored for total in found.converter.result.metrics.values()) == scored


@pytest.mark.parametrize(
    "name", ["log_streaming.eval", "mmlu-summary-choices.eval", "shortened_gsm8k.json"]
)
def test_the_aggregates_are_reproduced(name):
    found = imported(LOGS / name)
    assert found.plan.aggregates
    for stated in found.plan.aggregates:
        total = found.converter.result.metrics[stated.metric]
        assert total.sum / total.scored == pytest.approx(stated.value)
        assert stated.samples in (None, total.scored)


def test_the_model_is_quoted_not_the_scorer():
    """The explanation of the scorer repeats the answer of the model, and the scorer's answer is one
    number of it.
    """
    for record in imported(LOGS / "shortened_gsm8k.json").records:
        (said,) = record["output"]["raw"]
        (answer,) = record["answer_attribution"]
        assert answer["extracted_value"] in said
        assert len(said) > len(answer["extracted_value"])
        assert "explanation" not in record["metadata"]


def test_choices_are_texts():
    (record,) = imported(LOGS / "mmlu-summary-choices.eval").records
    assert record["input"]["reference"] == ["6.0 e"]
    assert (record["metadata"]["reference_index"], record["metadata"]["choice_index"]) == ("0", "2")


def test_epochs():
    found = imported(LOGS / "log_streaming.eval")
    assert {(one["sample_id"], one["metadata"]["epoch"]) for one in found.records} == {
        ("1", "1"),
        ("1", "2"),
        ("2", "1"),
        ("2", "2"),
    }


def test_errors_of_tools_are_part_of_the_transcript():
    (record,) = imported(LOGS / "inspect_ai_log_tool_call_error.json").records
    assert record["interaction_type"] == "agentic"
    assert sum("[tool error: " in message["content"] for message in record["messages"]) == 11
