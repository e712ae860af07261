"""Requests and scores of HELM are joined by instance, perturbation and trial, in whatever order the
files have them.
"""

from __future__ import annotations

import random
import tracemalloc

import pytest

from fastrec.harnesses import helm
from tests.harnesses.helm_logs import (
    DIALECT,
    TYPOS,
    completion,
    entry,
    imported,
    instance,
    log_in,
    stat,
    state,
    write_run,
)


def big_run(count: int = 6, trials: int = 2):
    """Every instance plain and perturbed, in several trials: each request has its own answer, and
    its own scores.
    """
    states = []
    entries = []
    scores = {}
    for trial in range(trials):
        for number in range(count):
            for perturbation, label in ((None, ""), (TYPOS, "typos"), (DIALECT, "dialect")):
                of = instance(number, perturbation=perturbation)
                value = (number * 7 + trial * 3 + len(label)) % 10 / 10
                states.append(
                    state(of, completion(f"answer {number} {label} {trial}"), trial=trial)
                )
                entries.append(entry(of, trial, f1_score=value, exact_match=float(value > 0.4)))
                scores[f"id{number}", label, str(trial)] = value
    return states, entries, scores


@pytest.mark.pairwise
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("order", ["same", "reversed", "shuffled"])
@pytest.mark.parametrize("slice_bytes", [1, 5000, 1 << 20])
def test_every_request_gets_its_own_scores(tmp_path, monkeypatch, indent, order, slice_bytes):
    monkeypatch.setattr(helm, "_SLICE_BYTES", slice_bytes)
    states, entries, scores = big_run()
    if order == "reversed":
        entries.reverse()
    elif order == "shuffled":
        random.Random(0).shuffle(entries)
        random.Random(1).shuffle(states)
    found = imported(write_run(tmp_path, states, entries, trials=2, indent=indent))
    by_label = {
        label: found.scores(f"f1_score:test{label and ':' + label}")
        for label in ("", "typos", "dialect")
    }
    assert by_label[""] | by_label["typos"] | by_label["dialect"] == scores
    for record in found.records:
        metadata = record["metadata"]
        number = record["sample_id"].removeprefix("id")
        said = f"answer {number} {metadata.get('perturbation', '')} {metadata['trial']}"
        assert record["output"]["raw"] == [said]
    assert len(found.records) == 2 * len(states)
    assert (
        len(found.plan.slices) == len(states) if slice_bytes == 1 else len(found.plan.slices) >= 1
    )
    assert len(found.plan.aggregates) == 6
    assert found.plan.expected_samples == len(states)
    found.check_aggregates()


def test_slices_do_not_change_the_records(tmp_path, monkeypatch):
    """Samples come in the order of their first request."""
    states, entries, _ = big_run()
    write_run(tmp_path, states, entries, trials=2)
    whole = imported(tmp_path).records
    monkeypatch.setattr(helm, "_SLICE_BYTES", 3000)
    assert imported(tmp_path).records == whole
    assert [one["sample_id"] for one in whole[::2]] == [one["instance"]["id"] for one in states]


def test_a_slice_has_few_ranges_where_the_order_is_the_same(tmp_path, monkeypatch):
    """HELM writes the entries of one metric object after those of another."""
    monkeypatch.setattr(helm, "_SLICE_BYTES", 20_000)
    instances = [instance(number) for number in range(60)]
    entries = [entry(of, exact_match=1.0) for of in instances] + [
        entry(of, judge=0.5) for of in instances
    ]
    write_run(tmp_path, [state(of) for of in instances], entries)
    plan = helm.plan(log_in(tmp_path))
    assert len(plan.slices) > 3
    assert {(len(piece.requests), len(piece.entries)) for piece in plan.slices} == {(1, 2)}
    found = imported(tmp_path)
    assert len(found.records) == 120
    found.check_aggregates()


def test_entries_of_several_metric_objects_are_united(tmp_path):
    of = instance()
    entries = [
        entry(of, exact_match=1.0, num_references=3.0),
        entry(of, num_references=3.0, judge=0.25),
    ]
    found = imported(write_run(tmp_path, [state(of)], entries))
    assert [one["evaluation_result_id"] for one in found.records] == [
        "exact_match:test",
        "num_references:test",
        "judge:test",
    ]
    found.check_aggregates()


def test_several_values_of_one_metric_are_an_error(tmp_path):
    of = instance()
    entries = [
        entry(of, judge=1.0, empty=None),
        entry(of, judge=0.0, empty=0.5),
        entry(of, judge=1.0),
    ]
    found = imported(write_run(tmp_path, [state(of)], entries))
    assert (
        found.of("judge:test")["error"]
        == "HELM has several values of this metric for this instance"
    )
    assert found.of("empty:test")["evaluation"]["score"] == 0.5
    assert "error" not in found.of("empty:test")


def test_ids_may_be_integers_in_one_file(tmp_path):
    of = instance(1, id=7)
    found = imported(
        write_run(tmp_path, [state(of)], [entry(instance(1, id="7"), exact_match=1.0)])
    )
    assert found.scores("exact_match:test") == {("7", "", "0"): 1.0}


def test_one_name_of_two_perturbations(tmp_path):
    """What tells them apart is part of the names of metrics."""
    weak = dict(TYPOS)
    strong = TYPOS | {"prob": 0.5, "seed": 3}
    some = [instance(1, perturbation=weak), instance(1, perturbation=strong), instance(1)]
    entries = [
        entry(of, exact_match=value) for of, value in zip(some, (1.0, 0.0, 0.5), strict=True)
    ]
    found = imported(write_run(tmp_path, [state(of) for of in some], entries))
    assert found.scores("exact_match:test:typos(prob=0.1)") == {
        ("id1", "typos(prob=0.1)", "0"): 1.0
    }
    assert found.scores("exact_match:test:typos(prob=0.5,seed=3)") == {
        ("id1", "typos(prob=0.5,seed=3)", "0"): 0.0
    }
    assert found.scores("exact_match:test") == {("id1", "", "0"): 0.5}
    assert len(found.plan.aggregates) == 3
    found.check_aggregates()


def test_the_order_of_fields_of_a_perturbation_does_not_matter(tmp_path):
    of = instance(perturbation=TYPOS)
    other = instance(perturbation=dict(reversed(TYPOS.items())) | {"seed": None})
    found = imported(write_run(tmp_path, [state(of)], [entry(other, exact_match=1.0)]))
    assert found.scores("exact_match:test:typos") == {("id1", "typos", "0"): 1.0}


def test_what_has_no_partner_is_counted(tmp_path):
    """Scores without a request are left out; a request without scores has a record that says so."""
    entries = [
        entry(instance(1), exact_match=1.0),
        entry(instance(2), exact_match=1.0),
        entry(instance(1), 1, f1=0.5),
    ]
    entries += [entry(instance(2), judge=1.0)]
    found = imported(
        write_run(
            tmp_path, [state(instance(1)), state(instance(3))], entries, stats=[stat("other", 1.0)]
        )
    )
    assert found.plan.left_out == {"no request has its instance, perturbation and trial": 2}
    assert [one["sample_id"] for one in found.records] == ["id1", "id3"]
    assert found.records[1]["error"] == "the log has no score for this sample"


def test_a_request_without_scores_has_an_error_for_each_metric_of_its_kind(tmp_path):
    """Its kind is its split and perturbation: metrics of others are not about it."""
    scored = [instance(1), instance(2, perturbation=TYPOS), instance(3, split="valid")]
    unscored = [instance(4), instance(5, perturbation=TYPOS), instance(6, split="train")]
    entries = [entry(of, exact_match=1.0, f1=0.5) for of in scored]
    found = imported(write_run(tmp_path, [state(of) for of in (*unscored, *scored)], entries))
    errors = [
        (one["sample_id"], one.get("evaluation_result_id"))
        for one in found.records
        if one.get("error")
    ]
    assert errors == [
        ("id4", "exact_match:test"),
        ("id4", "f1:test"),
        ("id5", "exact_match:test:typos"),
        ("id5", "f1:test:typos"),
        ("id6", None),
    ]


def test_requests_of_one_key_belong_together_wherever_they_are(tmp_path, monkeypatch):
    """With several trials of one prompt, HELM writes all requests again after the first ones."""
    monkeypatch.setattr(helm, "_SLICE_BYTES", 4000)
    some = [instance(number) for number in range(10)]
    states = [
        state(of, completion(f"{of['id']} {seed}"), request={"random": seed})
        for seed in ("0", "1")
        for of in some
    ]
    found = imported(write_run(tmp_path, states, [entry(of, exact_match=1.0) for of in some]))
    assert [one["output"]["raw"] for one in found.records] == [
        [f"id{n} 0", f"id{n} 1"] for n in range(10)
    ]
    assert all(one["input"]["formatted"].startswith("Question: ") for one in found.records)


@pytest.mark.parametrize(("order", "most"), [("usual", 150), ("shuffled", 600)])
def test_a_million_samples_fit_into_memory(order, most):
    """A scan holds the slice of each sample, and the ranges of slices: neighbours share one."""
    count = 5_000
    requests = list(range(count))
    entries = [*requests, *requests]  # of two metric objects
    if order == "shuffled":
        random.Random(0).shuffle(requests)
        random.Random(1).shuffle(entries)
    tracemalloc.start()
    try:
        scan = helm.Scan()
        for position, number in enumerate(requests):
            sample = scan.slice_of.setdefault(hash(str(number)), number // 100)
            scan.requests.add(position * 5000, 5000, sample)
        for position, number in enumerate(entries):
            scan.entries.add(position * 4000, 4000, scan.slice_of[hash(str(number))])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / count < most
    assert sum(map(len, scan.requests.ranges.values())) == (
        count // 100 if order == "usual" else pytest.approx(count, rel=0.05)
    )
