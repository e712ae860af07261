"""Runs of HELM: which files make one, what it says about itself, its aggregates, and damage."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastrec.errors import LogError
from fastrec.harnesses import helm
from fastrec.harnesses.log import Log
from fastrec.harnesses.registry import HARNESSES
from tests.harnesses.helm_logs import (
    TYPOS,
    aggregate,
    entry,
    grouped,
    imported,
    instance,
    log_in,
    stat,
    state,
    write_run,
)
from tests.sizes import examples

FILES = ["run_spec", "scenario", "scenario_state", "per_instance_stats", "stats"]


def small_run(directory: Path, count: int = 3, **options) -> Path:
    some = [instance(number) for number in range(count)]
    entries = [
        entry(of, exact_match=float(number % 2), f1=number / 7) for number, of in enumerate(some)
    ]
    return write_run(directory, [state(of) for of in some], entries, **options)


def change(directory: Path, file: str, **changes) -> None:
    path = directory / f"{file}.json"
    document = json.loads(path.read_text()) | changes
    path.write_text(
        json.dumps({key: value for key, value in document.items() if value is not None})
    )


@pytest.mark.parametrize(
    "layout", [{"indent": 2}, {}, {"separators": (",", ":")}, {"sort_keys": True}]
)
def test_files_are_told_by_their_content(tmp_path, layout):
    small_run(tmp_path / "a")
    for name in FILES:
        text = json.dumps(
            json.loads((tmp_path / "a" / f"{name}.json").read_text()), **layout
        ).encode()
        assert HARNESSES["helm"].role_in(text[: 1 << 16]) == name


@pytest.mark.parametrize(
    ("document", "role"),
    [
        ([{"input": {"text": "a"}, "references": [], "split": "test", "id": "id1"}], "other"),
        (
            [
                {
                    "instance_id": "id1",
                    "train_trial_index": 0,
                    "predicted_text": "a",
                    "stats": {"f1": 1},
                }
            ],
            "other",
        ),
        ([{"instance_id": "id1", "train_trial_index": 0, "request": {"prompt": "a"}}], "other"),
        ([], None),
        ({}, None),
        ([{"name": "a"}], None),
        ({"name": "a", "description": "b", "tags": []}, None),
        ({"adapter_spec": {}}, None),
        ([{"instance_id": 1}], None),
        ({"results": {"a": 1}}, None),
        ("request_states", None),
    ],
)
def test_other_files(document, role):
    assert HARNESSES["helm"].role_in(json.dumps(document, indent=2).encode()) == role


def test_long_instructions_come_before_the_requests():
    document = {
        "adapter_spec": {"method": "generation", "instructions": "x" * 100_000},
        "request_states": [],
    }
    assert HARNESSES["helm"].role_in(json.dumps(document).encode()[: 1 << 16]) == "scenario_state"


@given(st.binary(max_size=200))
def test_any_bytes_have_a_role_or_none(data):
    assert HARNESSES["helm"].role_in(data) in (None, "other", *FILES)


def test_a_directory_is_a_log(tmp_path):
    for name in ("a", "b/c"):
        small_run(tmp_path / name)
    (tmp_path / "a" / "instances.json").write_text(
        '[{"input": {"text": "x"}, "references": [], "id": "id1"}]'
    )
    found = grouped(tmp_path)
    assert [log.path for log in found.logs] == [str(tmp_path / "a"), str(tmp_path / "b/c")]
    assert [file.role for file in found.logs[0].files] == FILES
    assert (found.bad, len(found.others)) == ([], 1)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (["scenario_state"], "without scenario_state.json with the requests and completions"),
        (["per_instance_stats"], "without per_instance_stats.json with the scores"),
        (
            ["scenario_state", "per_instance_stats"],
            "completions and without per_instance_stats.json",
        ),
        (["run_spec", "scenario"], "its task is unknown"),
    ],
)
def test_a_run_without_its_parts_is_bad(tmp_path, missing, reason):
    small_run(tmp_path)
    for name in missing:
        (tmp_path / f"{name}.json").unlink()
    found = grouped(tmp_path)
    assert not found.logs
    (bad,) = found.bad
    assert bad.path == str(tmp_path)
    assert reason in bad.reason


def test_two_files_of_a_kind_are_bad(tmp_path):
    small_run(tmp_path)
    shutil.copy(tmp_path / "stats.json", tmp_path / "stats (1).json")
    (bad,) = grouped(tmp_path).bad
    assert (
        bad.reason == "it has 2 files of the kind stats: which of them belong together is unknown"
    )


@pytest.mark.parametrize(
    ("name", "task"),
    [
        (
            "mmlu:subject=anatomy,method=multiple_choice_joint,model=acme_tiny",
            "mmlu:subject=anatomy,method=multiple_choice_joint",
        ),
        ("mmlu:model=acme_tiny,subject=anatomy", "mmlu:subject=anatomy"),
        ("gsm:model_deployment=x_y,model=acme_tiny", "gsm"),
        ("gsm", "gsm"),
        (
            "wmt:supermodel=1,model=a,data_augmentation=canonical",
            "wmt:supermodel=1,data_augmentation=canonical",
        ),
    ],
)
def test_the_task_is_the_run_without_its_model(tmp_path, name, task):
    run = helm.plan(log_in(small_run(tmp_path, name=name))).run
    assert (run.task, run.model) == (task, "acme/tiny")
    assert run.metadata["scenario"] == "capitals"


def test_the_model_may_be_in_the_name_only(tmp_path):
    small_run(tmp_path)
    change(tmp_path, "scenario_state", adapter_spec=None)
    change(tmp_path, "run_spec", adapter_spec={"method": "generation"})
    assert helm.plan(log_in(tmp_path)).run.model == "acme_tiny"
    change(tmp_path, "run_spec", name="capitals")
    with pytest.raises(LogError, match="does not say its model"):
        helm.plan(log_in(tmp_path))


def test_the_start_is_the_earliest_request(tmp_path):
    some = [instance(number) for number in range(3)]
    times = (1_700_000_009, 1_700_000_003, float("inf"))
    states = [
        state(of, result={"request_datetime": time}) for of, time in zip(some, times, strict=True)
    ]
    write_run(tmp_path, states, [entry(of, f1=1.0) for of in some])
    assert helm.plan(log_in(tmp_path)).run.started == "1700000003"
    write_run(
        tmp_path, [state(some[0], result={"request_datetime": None})], [entry(some[0], f1=1.0)]
    )
    assert helm.plan(log_in(tmp_path)).run.started == ""


def test_optional_files(tmp_path):
    small_run(tmp_path)
    (tmp_path / "stats.json").unlink()
    (tmp_path / "scenario.json").unlink()
    found = imported(tmp_path)
    assert len(found.records) == 6
    assert found.plan.notes == ("there is no stats.json: the records are compared with nothing",)
    assert found.plan.aggregates == []


def test_a_run_without_instances(tmp_path):
    small_run(tmp_path, count=1)
    change(tmp_path, "scenario_state", request_states=[])
    found = imported(tmp_path)
    assert found.records == []
    assert found.plan.left_out == {"no request has its instance, perturbation and trial": 1}


def test_means_are_compared_and_others_are_not(tmp_path):
    some = [
        instance(number, perturbation=perturbation)
        for number in range(4)
        for perturbation in (None, TYPOS)
    ]
    entries = [entry(of, f1=number / 9, co2=None) for number, of in enumerate(some)]
    stats = aggregate(entries)
    stats.append(
        stat(
            {"name": "f1", "split": "test", "perturbation": TYPOS | {"computed_on": "original"}},
            0.5,
        )
    )
    stats.append(stat({"name": "perplexity", "split": "test"}, 3.0))
    stats.append(stat({"name": "f1", "split": "valid"}, float("nan")))
    found = imported(write_run(tmp_path, [state(of) for of in some], entries, stats=stats))
    assert sorted(stated.metric for stated in found.plan.aggregates) == ["f1:test", "f1:test:typos"]
    found.check_aggregates()
    reasons = found.plan.not_compared
    assert reasons["f1:test:robustness (worst)"].startswith("it is the mean of the lowest score")
    assert reasons["f1:test:typos (original)"].startswith(
        "it is the mean over the unperturbed versions"
    )
    assert (
        reasons["perplexity:test"]
        == "it is computed over all instances together: no instance has a score"
    )
    assert reasons["f1:valid"] == "its value is not a number"
    assert (
        reasons["co2:test"]
        == "HELM has no value of it in any of 4 instances: they have no record of it"
    )
    assert not any("co2" in one["evaluation_result_id"] for one in found.records)


def test_weighted_means_are_not_compared(tmp_path):
    some = [instance(1), instance(2)]
    entries = [entry(some[0], f1=[1.0, 0.0, 0.0]), entry(some[1], f1=1.0)]
    found = imported(write_run(tmp_path, [state(of) for of in some], entries))
    assert found.plan.aggregates == []
    assert (
        found.plan.not_compared["f1:test"]
        == "it is a weighted mean: instances have different numbers of values"
    )


def test_means_over_unequal_trials_are_not_compared(tmp_path):
    keys = [(1, 0), (2, 0), (1, 1)]
    states = [state(instance(number), trial=trial) for number, trial in keys]
    entries = [entry(instance(number), trial, f1=number / 3) for number, trial in keys]
    found = imported(write_run(tmp_path, states, entries, trials=2))
    reason = "it is a mean over trials that have different numbers of instances"
    assert found.plan.not_compared["f1:test"] == reason
    assert found.plan.expected_samples == 3


def test_the_same_run_gives_the_same_plan(tmp_path):
    first, second = (helm.plan(log_in(small_run(tmp_path / name))) for name in ("a", "b"))
    assert first == second


def read_all(log: Log) -> int:
    plan = helm.plan(log)
    return sum(1 for piece in plan.slices for _ in helm.samples(log, plan.run, piece))


@pytest.mark.each_value
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_cut_file_is_named(tmp_path, file, indent):
    log = log_in(small_run(tmp_path, indent=indent))
    path = tmp_path / f"{file}.json"
    data = path.read_bytes()
    for end in {*range(0, len(data), len(data) // 25), len(data) - 1}:
        path.write_bytes(data[:end])
        with pytest.raises(LogError) as caught:
            read_all(log)
        assert caught.value.path == str(path)
        assert caught.value.reason


@settings(
    max_examples=examples(13, 240), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(FILES), st.data())
def test_damage_is_an_error_or_harmless(tmp_path, file, data):
    """Whatever the bytes: a LogError, or samples."""
    log = log_in(small_run(tmp_path, count=2))
    path = tmp_path / f"{file}.json"
    text = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        text[start : start + data.draw(st.integers(0, 20))] = data.draw(
            st.sampled_from(
                [
                    b"",
                    b"null",
                    b"{}",
                    b"[]",
                    b'"x"',
                    b"1e999",
                    b"NaN",
                    b"\xff",
                    b"\\ud800",
                    b"-1",
                    b"true",
                ]
            )
        )
    path.write_bytes(bytes(text))
    with contextlib.suppress(LogError):
        assert read_all(log) >= 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"request_states": [{"instance": {"input": {"text": "a"}}}]},
            "has an instance without an id",
        ),
        ({"request_states": [1]}, "has an unexpected item at byte"),
        ({"request_states": [{"train_trial_index": 0}]}, "has an unexpected item at byte"),
        (
            {"request_states": [{"instance": {"id": "id0", "references": 5}}]},
            "is not as HELM writes it after byte",
        ),
        ({"adapter_spec": "x"}, "is not as HELM writes it"),
    ],
)
def test_wrong_types_are_named(tmp_path, changes, reason):
    log = log_in(small_run(tmp_path))
    change(tmp_path, "scenario_state", **changes)
    with pytest.raises(LogError, match=reason) as caught:
        read_all(log)
    assert caught.value.path.endswith("scenario_state.json")


def test_compressed_files_are_read(tmp_path):
    small_run(tmp_path)
    plain = imported(tmp_path).records
    for path in tmp_path.glob("*.json"):
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert imported(tmp_path).records == plain


def test_a_file_that_shrinks_meanwhile_is_named(tmp_path):
    log = log_in(small_run(tmp_path))
    plan = helm.plan(log)
    (tmp_path / "scenario_state.json").write_text("{}")
    with pytest.raises(LogError, match="changed while it was read"):
        list(helm.samples(log, plan.run, plan.slices[0]))
