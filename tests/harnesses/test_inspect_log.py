"""What a log says about its run: header, scorers, aggregates, and samples in each layout that
Inspect has had.
"""

from __future__ import annotations

import gzip
import json

import pytest

import fastrec
from fastrec.errors import LogError
from fastrec.harnesses import inspect
from tests.harnesses.converting import imported as imported_files
from tests.harnesses.converting import role_of
from tests.harnesses.inspect_logs import (
    archive,
    assistant,
    entry,
    header,
    imported,
    log_at,
    only,
    sample,
    scored,
    user,
    write_eval,
    write_json,
)


def samples_of(*values, **others):
    return [scored(value, id=number, **others) for number, value in enumerate(values)]


# Identity


def test_records_name_task_model_start_and_version(tmp_path):
    record = only(write_eval(tmp_path / "log.eval", sample("q1", uuid="abc")))
    assert record["evaluation_id"] == "arithmetic/mockllm/model/2025-02-07T12:00:00+00:00/task1"
    assert record["evaluation_name"] == "arithmetic"
    assert record["model_id"] == "mockllm/model"
    assert record["sample_id"] == "q1"
    assert record["evaluation_result_id"] == "match"
    assert record["metadata"] == {
        "harness": "inspect",
        "harness_version": "0.3.100",
        "eval_id": "eval1",
        "run_id": "run1",
        "dataset": "sums",
        "epoch": "1",
        "uuid": "abc",
        "stop_reason": "stop",
    }


def test_a_recovered_log_replaces_the_one_that_it_was_copied_from(tmp_path):
    """`inspect log recover` copies what a run that crashed had written, and adds the rest."""
    written = samples_of("C")
    head = header(entry("match"), samples=2) | {"status": "error"}
    write_eval(tmp_path / "logs" / "run.eval", *written, head=header(samples=1))
    write_eval(tmp_path / "logs" / "run-recovered.eval", *written, scored("P", id="new"), head=head)
    write_eval(tmp_path / "logs" / "other.eval", *written)
    result, records = imported_files(tmp_path, tmp_path / "logs")
    assert [log.log.rpartition("/")[2] for log in result.logs] == [
        "other.eval",
        "run-recovered.eval",
    ]
    assert len(records) == 3
    assert sum(map(len, result.skipped_files.values())) == 1


@pytest.mark.parametrize("indent", [None, 2, 4])
def test_documents_of_any_indentation_and_archives_give_the_same_records(tmp_path, indent):
    samples = [sample(number, epoch=epoch) for number in range(5) for epoch in (1, 2)]
    from_json = imported(write_json(tmp_path / "log.json", *samples, indent=indent)).records
    assert from_json == imported(write_eval(tmp_path / "log.eval", *samples)).records
    assert [one["metadata"]["epoch"] for one in from_json[:2]] == ["1", "2"]


# Detection


def test_documents_are_told_by_their_keys():
    head = header(entry("match"))
    usual = json.dumps(head).encode()
    assert role_of("inspect", usual, "x") == "json"
    assert role_of("inspect", json.dumps(head, indent=4).encode(), "x") == "json"
    assert role_of("inspect", json.dumps(head, sort_keys=True).encode(), "x") == "json"
    assert role_of("inspect", usual[:200], "x") == "json", "only the beginning is seen"
    assert role_of("inspect", b" \n\t" + usual, "x") == "json"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 2, "status": "success"}',
        b'{"eval": 1}',
        json.dumps({"logs/a.json": header()}).encode(),  # the listing of a directory of logs
        json.dumps([header()]).encode(),
        b'{"results": {}, "config": {"model": "m"}, "lm_eval_version": "0.4"}',
        b"PK",
        b"PK\x03\x04",
    ],
)
def test_other_files_are_no_logs(tmp_path, text):
    (tmp_path / "file").write_bytes(text)
    assert role_of("inspect", text, str(tmp_path / "file")) is None


# Runs that did not finish, and other versions


def test_an_unfinished_log_is_read_from_its_journal(tmp_path):
    path = tmp_path / "log.eval"
    head = header()
    spec = head["eval"] | {"scorers": [{"name": "pkg/match"}, {"name": "judge"}]}
    start = {"version": 2, "eval": spec, "plan": {}}
    path.write_bytes(
        archive(
            [("_journal/start.json", start), ("samples/1_epoch_1.json", sample(error_retries=[]))]
        )
    )
    found = imported(path)
    assert [one["evaluation_result_id"] for one in found.records] == ["match"]
    assert found.plan.notes == ["the log has no header.json", "the run did not finish"]
    assert found.plan.expected_samples is None
    assert not found.plan.aggregates


SUMMARY = {"id": 1, "epoch": 1, "scores": {"match": {"value": float("nan")}}}


@pytest.mark.parametrize(
    ("summaries", "count"),
    [
        (
            [
                ("_journal/summaries/1.json", [SUMMARY]),
                ("_journal/summaries/2.json", [SUMMARY, SUMMARY]),
            ],
            3,
        ),
        ([("_journal/summaries/1.json", [SUMMARY]), ("summaries.json", [SUMMARY, SUMMARY])], 2),
        ([("summaries.json", b"[{")], None),
        ([("summaries.json", {"1": SUMMARY})], None),
        ([], None),
    ],
)
def test_the_summaries_of_an_unfinished_log_state_its_samples(tmp_path, summaries, count):
    """So a sample is missed, even if nothing else states how many there should be."""
    path = tmp_path / "log.eval"
    head = header(status="error", results=None)
    path.write_bytes(
        archive([("samples/1_epoch_1.json", sample()), *summaries, ("header.json", head)])
    )
    found = imported(path)
    assert found.plan.expected_samples == count
    assert len(found.records) == 1


def test_an_unfinished_log_without_scores_expects_those_of_the_declared_scorers(tmp_path):
    path = tmp_path / "log.eval"
    declared = [{"name": "pkg/match"}, {"name": "judge", "metrics": {"tone": [], "facts": []}}]
    spec = header()["eval"] | {"scorers": [*declared, {"name": "any", "metrics": {"*": []}}]}
    members = [
        ("_journal/start.json", {"version": 2, "eval": spec}),
        ("samples/1_epoch_1.json", sample(scores=None)),
    ]
    path.write_bytes(archive(members))
    assert [one["evaluation_result_id"] for one in imported(path).records] == [
        "match",
        "judge:tone",
        "judge:facts",
        "any",
    ]


@pytest.mark.parametrize("status", ["error", "cancelled", "started"])
def test_a_run_that_failed_says_so(tmp_path, status):
    head = header(
        entry("match"),
        samples=9,
        status=status,
        error={"message": "no more quota", "traceback": "…"},
    )
    found = imported(write_eval(tmp_path / "log.eval", sample(), head=head))
    expected = (
        "the run did not finish"
        if status == "started"
        else f"the run ended with status {status}: no more quota"
    )
    assert found.plan.notes == [expected]
    assert found.plan.expected_samples == 1, (
        "the summaries count those that ran, and not all that were planned"
    )


def test_a_log_without_samples(tmp_path):
    for path in (write_eval(tmp_path / "log.eval"), write_json(tmp_path / "log.json")):
        assert imported(path).plan.notes == ["the log has no samples"]
    path.write_text(json.dumps(header(entry("match"))))
    assert imported(path).plan.notes == ["the log has no samples"]
    path.write_text(json.dumps(header(entry("match")) | {"samples": None}))
    assert imported(path).plan.notes == ["the log has no samples"]


def test_a_later_version_of_the_format_is_refused(tmp_path):
    with pytest.raises(LogError, match="version 4 of the log format, and fastrec knows up to 3"):
        imported(write_eval(tmp_path / "log.eval", head=header(version=4)))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions(tmp_path, version):
    assert only(write_json(tmp_path / "log.json", sample(), head=header(version=version)))


def test_a_log_of_2024(tmp_path):
    """One `score`, `scorer` and `metrics` in the results, a `transcript`, no usage, no times."""
    asked = "attachment://" + "0" * 32
    answer = "tc://" + "1" * 32
    old = sample(
        scores=None,
        score={"value": "P", "answer": "41"},
        input=asked,
        messages=[user(asked), assistant(answer)],
        output={
            "choices": [{"message": assistant(answer)}],
            "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        },
        transcript={"events": [], "content": {"0" * 32: "What is 40 + 2?", "1" * 32: "Forty-one."}},
        events=None,
    )
    results = {
        "scorer": {"name": "model_graded"},
        "metrics": {"accuracy": {"name": "accuracy", "value": 0.5}},
    }
    head = header(version=1) | {"results": results}
    found = imported(write_json(tmp_path / "log.json", old, head=head))
    (record,) = found.records
    assert record["evaluation_result_id"] == "model_graded"
    assert record["evaluation"]["score"] == 0.5
    assert record["input"]["raw"] == "What is 40 + 2?"
    assert record["output"]["raw"] == ["Forty-one."]
    assert record["token_usage"] == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    (mean,) = found.plan.aggregates
    assert (mean.metric, mean.value) == ("model_graded", 0.5)


def test_an_old_score_without_results(tmp_path):
    old = sample(scores=None, score={"value": 1})
    head = {key: value for key, value in header(status="error").items() if key != "results"}
    assert (
        only(write_json(tmp_path / "log.json", old, head=head))["evaluation_result_id"] == "score"
    )


# Chunked samples


def chunked(identity="a/b", **shell):
    """A sample in many members: messages 1 to 3 and 0 of the sequence are its own."""
    prefix = f"samples/{identity}_epoch_1"
    pool = [
        user("attachment://0"),
        user("What is 6 x 7?"),
        assistant("attachment://1"),
        user("attachment://12x"),
    ]
    whole = (
        sample(identity, input="attachment://2", messages=None, message_refs=[[1, 4], [0, 1]])
        | shell
    )
    return [
        (f"{prefix}/sample.json", whole),
        (f"{prefix}/metadata.json", {"subject": "sums"}),
        (f"{prefix}/skeleton.json", {}),
        (f"{prefix}/messages/2.json", pool[2:]),
        (f"{prefix}/messages/0.json", pool[:2]),
        (f"{prefix}/events/0.json", []),
        (f"{prefix}/events/stats.json", {}),
        (f"{prefix}/attachments/1.json", ["It is 42.", "A sum."]),
        (f"{prefix}/attachments/0.json", ["Thanks."]),
    ]


def test_chunked_and_whole_samples_in_one_log(tmp_path):
    path = tmp_path / "log.eval"
    head = header(entry("match"), samples=2, version=3)
    path.write_bytes(
        archive([*chunked(), ("samples/2_epoch_1.json", sample(2)), ("header.json", head)])
    )
    record, whole = imported(path).records
    assert (record["sample_id"], whole["sample_id"]) == ("a/b", "2")
    assert record["input"]["raw"] == "A sum."
    assert record["metadata"]["subject"] == "sums"
    contents = [message["content"] for message in record["messages"]]
    assert contents == ["What is 6 x 7?", "It is 42.", "attachment://12x", "Thanks."]


def test_a_chunked_sample_with_wrong_references(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(archive([*chunked(message_refs=[[0, 9]]), ("header.json", header())]))
    with pytest.raises(LogError, match="refers to messages 0 to 9, and there are 4"):
        imported(path)


def test_a_chunked_sample_without_its_shell_is_counted(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(
        archive([*chunked()[3:], ("samples/2_epoch_1.json", sample(2)), ("header.json", header())])
    )
    found = imported(path)
    assert len(found.records) == 1
    assert found.plan.left_out == {"a chunked sample without its sample.json": 1}


# Aggregates


def compared(found):
    """The means of a log, each with the mean of its records."""
    totals = found.converter.result.metrics
    return {
        one.name: (one.value, totals[one.metric].sum / totals[one.metric].scored)
        for one in found.plan.aggregates
    }


def test_means_are_reproduced(tmp_path):
    head = header(entry("match", accuracy=0.625, mean=0.625, stderr=0.2), samples=4)
    found = imported(write_eval(tmp_path / "log.eval", *samples_of("C", "P", "I", "C"), head=head))
    assert compared(found) == {"match/accuracy": (0.625, 0.625), "match/mean": (0.625, 0.625)}
    assert found.plan.not_compared == {"match/stderr": "stderr is not the mean of all scores"}
    assert found.plan.expected_samples == 4


def test_each_key_of_a_dict_has_its_own_entry(tmp_path):
    head = header(
        entry("judge", "tone", mean=0.5), entry("judge", "facts", accuracy=1.0), samples=2
    )
    values = [{"tone": 1, "facts": "C"}, {"tone": 0, "facts": True}]
    samples = [
        sample(number, scores={"judge": {"value": value}}) for number, value in enumerate(values)
    ]
    found = imported(write_eval(tmp_path / "log.eval", *samples, head=head))
    assert compared(found) == {"judge:tone/mean": (0.5, 0.5), "judge:facts/accuracy": (1, 1)}


def test_entries_that_name_keys_as_scorers(tmp_path):
    """Inspect writes such entries when it recomputes the results after an edit."""
    head = header(entry("tone", mean=1.0), entry("match", accuracy=1.0))
    scores = {"judge": {"value": {"tone": 1}}, "match": {"value": "C"}}
    found = imported(write_eval(tmp_path / "log.eval", sample(scores=scores), head=head))
    assert compared(found) == {"judge:tone/mean": (1, 1), "match/accuracy": (1, 1)}
    assert sorted(found.by_metric()) == ["judge:tone", "match"]


@pytest.mark.parametrize(
    ("reducer", "epochs", "is_compared"),
    [
        (None, 1, True),
        ("mean", 1, True),
        ("mode", 1, True),
        ("pass_at_1", 1, True),
        ("own_reducer", 1, False),
        (None, 2, True),
        ("mean", 2, True),
        ("max", 2, True),
        ("at_least_1", 2, True),
        ("own_2", 2, False),
    ],
)
def test_known_reducers_are_compared(tmp_path, reducer, epochs, is_compared):
    head = header(entry("match", accuracy=1.0, reducer=reducer), samples=epochs, epochs=epochs)
    samples = [sample(epoch=epoch + 1) for epoch in range(epochs)]
    plan = imported(write_eval(tmp_path / "log.eval", *samples, head=head)).plan
    assert bool(plan.aggregates) == is_compared
    if not is_compared:
        (reason,) = plan.not_compared.values()
        assert reason == f"the epochs are reduced by {reducer}"


@pytest.mark.parametrize(
    ("reducer", "value"),
    [  # by hand, of 2 and of 1 right answers in 4
        ("mean", 3 / 8),
        ("median", (0.5 + 0) / 2),
        ("max", 1),
        ("at_least_2", 1 / 2),
        ("pass_at_1", 3 / 8),
        ("pass_at_2", ((1 - 1 / 6) + (1 - 3 / 6)) / 2),
        ("pass_k_2", (1 / 6 + 0) / 2),
        ("pass_k_5", None),
    ],
)
def test_reducers_are_reproduced_from_the_records(tmp_path, reducer, value):
    head = header(
        entry("match", accuracy=0.5 if value is None else value, reducer=reducer),
        samples=8,
        epochs=4,
    )
    samples = [
        sample(name, epoch=epoch + 1, scores={"match": {"value": "C" if epoch in right else "I"}})
        for name, right in (("a", (0, 3)), ("b", (2,)))
        for epoch in range(4)
    ]
    found = fastrec.import_logs(
        write_eval(tmp_path / "log.eval", *samples, head=head), tmp_path / "out"
    )
    ((_, mean),) = [log.comparisons for log in found.logs]
    assert (mean.stated, mean.recomputed) == (0.5 if value is None else value, pytest.approx(value))
    assert mean.agrees is (value is not None)


def test_epochs_without_scores_have_no_common_mean(tmp_path):
    head = header(entry("match", accuracy=0.75), samples=4, epochs=2)
    head["results"]["completed_samples"] = 3
    plan = imported(write_eval(tmp_path / "log.eval", sample(), head=head)).plan
    assert plan.not_compared["match/accuracy"].startswith("some samples lack scores of some epochs")


@pytest.mark.parametrize("value", [{"a": 1}, [1, 0]])
def test_a_mean_of_something_made_of_dicts_or_lists(tmp_path, value):
    head = header(entry("match", accuracy=0.5))
    plan = imported(write_eval(tmp_path / "log.eval", scored(value), head=head)).plan
    assert plan.not_compared["match/accuracy"].startswith("the scores are dicts or lists")


def test_figures_of_groups_and_figures_without_a_number(tmp_path):
    head = header(entry("match", accuracy=0.5, mean=float("nan")))
    head["results"]["scores"][0]["metrics"]["accuracy"]["group"] = "grouped"
    plan = imported(write_eval(tmp_path / "log.eval", sample(), head=head)).plan
    assert plan.not_compared == {
        "match/accuracy": "grouped is not the mean of all scores",
        "match/mean": "the log has no number for it",
    }


def test_invalidated_logs_are_not_compared(tmp_path):
    head = header(entry("match", accuracy=1.0), invalidated=True)
    plan = imported(write_eval(tmp_path / "log.eval", sample(), head=head)).plan
    assert plan.not_compared["match/accuracy"].startswith("the log has invalidated samples")


def test_a_partial_run_states_only_the_samples_that_its_summaries_count(tmp_path):
    for more in ({"logged_samples": 1}, {"early_stopping": {}}):
        head = header(entry("match"), samples=9)
        head["results"] |= more
        assert (
            imported(write_json(tmp_path / "log.json", sample(), head=head)).plan.expected_samples
            is None
        )
        assert (
            imported(write_eval(tmp_path / "log.eval", sample(), head=head)).plan.expected_samples
            == 1
        )


# Damage of documents


def test_a_document_is_cut_anywhere(tmp_path):
    path = tmp_path / "log.json"
    whole = write_json(path, sample(1), sample(2)).read_bytes()
    for end in range(200, len(whole) - 1, 37):
        path.write_bytes(whole[:end])
        with pytest.raises(LogError) as error:
            inspect.plan(log_at(path))
        assert error.value.path == str(path)


@pytest.mark.parametrize(
    "broken",
    [
        {"id": None},
        {"messages": 7},
        {"messages": [{"content": "a"}]},
        {"output": []},
        {"scores": [1]},
        {"epoch": "x"},
    ],
)
def test_a_sample_of_wrong_types(tmp_path, broken):
    wrong = {key: value for key, value in (sample() | broken).items() if value is not None}
    with pytest.raises(LogError, match="damaged sample"):
        imported(write_json(tmp_path / "log.json", wrong))


@pytest.mark.parametrize(
    "broken", [{"eval": {"task": "t"}}, {"eval": 3}, {"version": "2"}, {"results": []}]
)
def test_a_header_of_wrong_types(tmp_path, broken):
    path = tmp_path / "log.eval"
    path.write_bytes(archive([("header.json", header() | broken)]))
    with pytest.raises(LogError, match=r"header.json is not the header of a log"):
        imported(path)


@pytest.mark.parametrize("write", [write_json, write_eval])
def test_a_compressed_log(tmp_path, write):
    path = write(tmp_path / "log", sample())
    plain = imported(path).records
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert imported(path).records == plain


def test_a_document_that_is_nested_too_deeply(tmp_path):
    path = tmp_path / "log.json"
    text = write_json(path, sample()).read_text()
    path.write_text(text.replace('"What is 6 x 7?"', "[" * 20_000 + "]" * 20_000, 1))
    with pytest.raises(LogError):
        imported(path)
