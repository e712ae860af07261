"""A real run of HELM, where it lies beside the checkout: its figures are reproduced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harnesses.helm_logs import imported

LOGS = Path(__file__).parents[3] / "shared" / "logs" / "helm"

pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the real logs are not beside the checkout"
)


@pytest.fixture(scope="module")
def run():
    return next(LOGS.glob("commonsense-dataset=hellaswag*"))


def test_all_metrics_of_all_instances_are_records(run):
    found = imported(run)
    entries = json.loads((run / "per_instance_stats.json").read_text())
    values = {
        (one["instance_id"], f"{stat['name']['name']}:{stat['name']['split']}"): stat["mean"]
        for one in entries
        for stat in one["stats"]
        if "mean" in stat
    }
    records = {
        (one["sample_id"], one["evaluation_result_id"]): one["evaluation"]["score"]
        for one in found.records
    }
    assert records == values
    assert len(found.records) == len(records) == 250


def test_the_aggregates_are_reproduced(run):
    found = imported(run)
    assert len(found.plan.aggregates) == 25
    assert found.plan.expected_samples == 10
    found.check_aggregates()


def test_the_answer_is_the_text_of_the_choice(run):
    """The model says a letter; the extracted answer is comparable with the reference."""
    for record in imported(run).records:
        if record["evaluation_result_id"] == "exact_match:valid":
            right = [one["extracted_value"] for one in record["answer_attribution"]] == record[
                "input"
            ]["reference"]
            assert right == record["evaluation"]["is_correct"]
            assert record["output"]["raw"][0].strip() in "ABCD"
