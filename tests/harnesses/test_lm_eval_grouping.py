"""lm-eval: samples find the results of their run, and the results say what they need to."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastrec.commands.import_logs import import_logs
from fastrec.errors import LogError
from fastrec.harnesses import lm_eval
from fastrec.harnesses.lm_eval.files import Results, model_of
from tests.harnesses.lm_eval_logs import (
    DATE,
    choice,
    generation,
    grouped,
    only_log,
    records_of,
    results,
    write_lines,
    write_log,
)

EM = {"exact_match,strict-match": 1.0}


def merged(*documents: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Results of several tasks."""
    fields = ("results", "configs", "versions", "n-shot")
    whole = {
        field: {key: one[field][key] for one in documents for key in one[field]} for field in fields
    }
    return documents[0] | whole | more


def tasks_of(directory: Path) -> dict[str, str]:
    """The task of each file of samples, by its name."""
    return {Path(log.path).name: log.task for log in grouped(directory).logs}


def task_hash(rows: list[dict[str, Any]]) -> str:
    return sha256(
        "".join(r["doc_hash"] + r["prompt_hash"] + r["target_hash"] for r in rows).encode()
    ).hexdigest()


def write_results(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(document, indent=2))


def test_tasks_whose_names_begin_or_end_alike(tmp_path: Path) -> None:
    names = ["mmlu", "mmlu_pro", "pro", "mmlu_2024-01-01"]
    for name in names:
        write_lines(tmp_path / f"samples_{name}_{DATE}.jsonl", [generation()])
    write_results(
        tmp_path / f"results_{DATE}.json", merged(*(results(EM, task=name) for name in names))
    )
    assert tasks_of(tmp_path) == {f"samples_{name}_{DATE}.jsonl": name for name in names}


def test_a_task_that_the_results_do_not_have(tmp_path: Path) -> None:
    """`mmlu` does not take the samples of `mmlu_pro` or `pro_mmlu`."""
    for name in ("mmlu_pro", "pro_mmlu"):
        write_lines(tmp_path / f"samples_{name}_{DATE}.jsonl", [generation()])
    write_results(tmp_path / f"results_{DATE}.json", results({"acc,none": 1.0}, task="mmlu"))
    groups = grouped(tmp_path)
    assert not groups.logs
    assert {bad.reason for bad in groups.bad if "samples" in bad.path} == {
        (
            "no results file beside it has its task: neither its name nor its content tells to which "
            "run it belongs"
        )
    }


def test_runs_of_several_days_in_one_directory(tmp_path: Path) -> None:
    dates = ["2025-03-01T10-00-00.123456", "2025-03-02T10-00-00.5"]
    for number, date in enumerate(dates):
        write_lines(tmp_path / f"samples_task_{date}.jsonl", [generation(number)])
        write_results(tmp_path / f"results_{date}.json", results(EM, date=number))
    logs = grouped(tmp_path).logs
    assert [lm_eval.plan(log).run.started for log in logs] == ["0", "1"]
    assert [records_of(log)[0]["sample_id"] for log in logs] == ["0", "1"]


def test_results_under_a_name_of_the_user(tmp_path: Path) -> None:
    """`--output_path x.json` writes `x_<date>.json`."""
    write_lines(tmp_path / f"samples_task_{DATE}.jsonl", [generation()])
    write_results(tmp_path / f"x_{DATE}.json", results(EM))
    assert tasks_of(tmp_path) == {f"samples_task_{DATE}.jsonl": "task"}


def test_names_of_tasks_with_odd_characters(tmp_path: Path) -> None:
    write_lines(tmp_path / f"samples_a_b_c_{DATE}.jsonl", [generation()])
    write_results(tmp_path / f"results_{DATE}.json", results(EM, task="a|b:c"))
    assert tasks_of(tmp_path) == {f"samples_a_b_c_{DATE}.jsonl": "a|b:c"}


def test_the_longest_task_at_the_end_of_an_old_name(tmp_path: Path) -> None:
    names = ["mmlu", "pro_mmlu"]
    write_results(tmp_path / "results.json", merged(*(results(EM, task=name) for name in names)))
    for name in names:
        write_lines(
            tmp_path / f"pretrained__org__model,dtype__float16_{name}.jsonl", [generation()]
        )
    assert tasks_of(tmp_path) == {
        f"pretrained__org__model,dtype__float16_{name}.jsonl": name for name in names
    }


def test_changed_names_are_told_by_the_hash(tmp_path: Path) -> None:
    rows = {name: [generation(number)] for number, name in enumerate(["a", "b"])}
    hashes = {name: task_hash(some) for name, some in rows.items()}
    write_results(
        tmp_path / "one.json",
        merged(results(EM, task="a"), results(EM, task="b"), task_hashes=hashes),
    )
    write_results(tmp_path / "two.json", results(EM, task="a", task_hashes={"a": "another"}))
    for name, some in rows.items():
        write_lines(tmp_path / f"my-{name}-file.jsonl", some)
    assert tasks_of(tmp_path) == {"my-a-file.jsonl": "a", "my-b-file.jsonl": "b"}


def written_by(model: str, score: float, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Results of a model; all models have the hash of the same prompts."""
    document = results(
        {"exact_match,strict-match": score}, task_hashes={"task": task_hash(rows)}, **more
    )
    return document | {"model_name": model, "config": {"model_args": f"pretrained={model}"}}


def test_a_hash_of_prompts_tells_no_model(tmp_path: Path) -> None:
    """Of two runs with the same prompts, one has a damaged results file; or names were changed."""
    dates = ["2025-03-01T10-00-00.123456", "2025-03-02T10-00-00.5"]
    rows = [generation(0)]
    (tmp_path / "dated").mkdir()
    (tmp_path / "renamed").mkdir()
    for number, (date, model) in enumerate(zip(dates, ("org/A", "org/B"), strict=True)):
        write_lines(tmp_path / "dated" / f"samples_task_{date}.jsonl", rows)
        document = written_by(model, 1.0, rows, date=number)
        write_results(tmp_path / "dated" / f"results_{date}.json", document)
        write_lines(tmp_path / "renamed" / f"{number}.jsonl", rows)
        write_results(tmp_path / "renamed" / f"results-{number}.json", document)
    damaged = tmp_path / "dated" / f"results_{dates[0]}.json"
    damaged.write_text(damaged.read_text()[:50])
    [log] = grouped(tmp_path / "dated").logs
    assert Path(log.path).name == f"samples_task_{dates[1]}.jsonl"
    assert records_of(log)[0]["model_id"] == "org/B"
    assert not grouped(tmp_path / "renamed").logs


def test_results_that_a_further_run_replaced(tmp_path: Path) -> None:
    """Until May 2024, `results.json` was that of the last model."""
    write_results(tmp_path / "results.json", written_by("org/b", 1.0, []))
    for name in "ab":
        write_lines(tmp_path / f"pretrained__org__{name}_task.jsonl", [generation()])
    groups = grouped(tmp_path)
    assert [Path(log.path).name for log in groups.logs] == ["pretrained__org__b_task.jsonl"]
    [bad] = groups.bad
    assert "pretrained__org__a_task.jsonl" in bad.path


def test_a_changed_name_with_only_one_task(tmp_path: Path) -> None:
    write_lines(tmp_path / "mine.jsonl", [generation()])
    write_results(tmp_path / "also-mine.json", results(EM))
    assert tasks_of(tmp_path) == {"mine.jsonl": "task"}
    write_lines(tmp_path / "mine.jsonl", [choice()])  # other metrics: of another task
    assert tasks_of(tmp_path) == {}


def test_another_date_is_another_run(tmp_path: Path) -> None:
    write_lines(tmp_path / "samples_task_2024-01-01T00-00-00.jsonl", [generation()])
    write_results(tmp_path / f"results_{DATE}.json", results(EM))
    assert tasks_of(tmp_path) == {}


def test_samples_without_results(tmp_path: Path) -> None:
    write_lines(tmp_path / f"samples_task_{DATE}.jsonl", [generation()])
    (bad,) = grouped(tmp_path).bad
    assert bad.reason == (
        "there is no results file of the same run beside it, so that the model and the date are "
        "unknown: "
        "put results_<date>.json into its directory, and import the directory"
    )


@pytest.mark.parametrize(
    ("date", "others", "is_paired"),
    [(DATE, "b", True), (DATE, "bc", False), (DATE.partition(".")[0], "b", False)],
    ids=["same microsecond", "several", "same second"],
)
def test_results_of_another_directory(
    tmp_path: Path, date: str, others: str, is_paired: bool
) -> None:
    """They count if they are of the same microsecond, and there are no others of it."""
    (tmp_path / "a").mkdir()
    write_lines(tmp_path / "a" / f"samples_task_{date}.jsonl", [generation()])
    for other in others:
        write_results(tmp_path / other / f"results_{date}.json", results(EM))
    assert bool(tasks_of(tmp_path)) is is_paired


def test_results_without_samples(tmp_path: Path) -> None:
    """They are not needed if there are other logs; alone, they need a hint."""
    write_results(tmp_path / f"results_{DATE}.json", results(EM))
    (bad,) = grouped(tmp_path).bad
    assert (
        bad.reason
        == "it has only aggregates, and there are no samples: run lm_eval with --log_samples"
    )
    write_log(tmp_path / "other", [generation()], results(EM))
    groups = grouped(tmp_path)
    assert (len(groups.logs), groups.bad, len(groups.others)) == (1, [], 1)


def test_the_same_samples_twice(tmp_path: Path) -> None:
    log = write_log(tmp_path, [generation()], results(EM))
    Path(log.path + ".gz").write_bytes(gzip.compress(Path(log.path).read_bytes()))
    groups = grouped(tmp_path)
    assert len(groups.logs) == 1
    assert groups.bad[0].reason.startswith("it has the samples of task of the same run as ")


def test_tasks_with_the_same_samples(tmp_path: Path) -> None:
    """A task under two names has the same samples twice: each is imported."""
    names = ["task", "alias"]
    for name in names:
        write_lines(tmp_path / f"samples_{name}_{DATE}.jsonl", [generation()])
    write_results(
        tmp_path / f"results_{DATE}.json", merged(*(results(EM, task=name) for name in names))
    )
    done = import_logs(tmp_path, tmp_path / "records")
    assert sorted(log.evaluation_name for log in done.logs) == sorted(names)
    assert len({log.file for log in done.logs}) == 2
    assert not done.same_logs


def test_compressed_files(tmp_path: Path) -> None:
    plain = write_log(tmp_path, [generation(n) for n in range(3)], results(EM))
    records = records_of(plain)
    run = lm_eval.plan(plain).run
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    log = only_log(tmp_path)
    assert lm_eval.plan(log).run == run
    assert records_of(log) == records


@pytest.mark.parametrize("configs", ["{", "7"])
def test_damaged_results(tmp_path: Path, configs: str) -> None:
    log = write_log(tmp_path, [generation()], results(EM))
    path = Path(log.files[1].path)
    path.write_text(f'{{"results": {{}}, "configs": {configs}')
    groups = grouped(tmp_path)
    assert not groups.logs
    reasons = {bad.path: bad.reason for bad in groups.bad}
    assert "damaged, or not a results file" in reasons[str(path)]
    assert reasons[log.path] == f"the results file beside it cannot be read: {path}"
    with pytest.raises(LogError):
        lm_eval.plan(log)


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({"config": {"model": "hf", "model_args": "pretrained=org/m,dtype=float16"}}, "org/m"),
        ({"config": {"model_args": "dtype=float16,pretrained=org/m"}}, "org/m"),
        ({"config": {"model_args": {"pretrained": "org/m", "trust_remote_code": True}}}, "org/m"),
        ({"config": {"model_args": "model=gpt-4o,base_url=http://host/v1"}}, "gpt-4o"),
        ({"config": {"model_args": "pretrained=org/base,peft=org/adapter"}}, "org/adapter"),
        ({"config": {"model_args": ""}, "model_name": "org/name"}, "org/name"),
        ({"config": None, "model_name": "", "model_name_sanitized": "org__name"}, "org__name"),
        ({"config": {"model": "dummy", "model_args": None}}, "dummy"),
        ({}, ""),
    ],
)
def test_the_model(fields: dict[str, Any], model: str) -> None:
    document = json.dumps({"results": {}, **fields})
    assert model_of(Results(msgspec.json.decode(document))) == model


def test_results_without_a_model(tmp_path: Path) -> None:
    document = results(EM, config=None)
    document["config"] = {}
    log = write_log(tmp_path, [generation()], document)
    with pytest.raises(LogError, match="does not say which model"):
        lm_eval.plan(log)


@pytest.mark.parametrize(
    ("date", "started"), [(1740823200.123456, "1740823200.123456"), ("2024-01-01", "2024-01-01")]
)
def test_the_start_is_that_of_the_document(tmp_path: Path, date: Any, started: str) -> None:
    log = write_log(tmp_path, [generation()], results(EM, date=date))
    assert lm_eval.plan(log).run.started == started


def test_aggregates(tmp_path: Path) -> None:
    """Means are recomputed; others are listed with the reason."""
    figures = {
        "exact_match,none": 0.5,
        "exact_match_stderr,none": 0.1,
        "own_mean,none": 0.5,
        "own_median,none": 0.5,
        "own_function,none": 0.5,
        "besides,none": 0.5,
        "bleu,none": 33.0,
        "nothing,none": "N/A",
        "broken,none": float("nan"),
        "name": "task",
    }
    listed = [
        {"metric": "exact_match", "aggregation": "mean"},
        {"metric": "own_mean", "aggregation": "nanmean", "higher_is_better": False},
        {"metric": "own_median", "aggregation": "median"},
        {
            "metric": "def own_function(items):\n    return 1",
            "aggregation": "def agg(items):\n    return 1",
        },
        {"metric": "bleu"},
    ]
    plan = lm_eval.plan(
        write_log(tmp_path, [generation()], results(figures, config={"metric_list": listed}))
    )
    assert {one.name: one.value for one in plan.aggregates} == {
        "exact_match,none": 0.5,
        "own_mean,none": 0.5,
        "besides,none": 0.5,
    }
    assert plan.not_compared == {
        "own_median,none": "lm-eval aggregates it as median, not as a mean",
        "own_function,none": "it is aggregated by a function of the task, not as a mean",
        "bleu,none": "lm-eval aggregates it as bleu, not as a mean",
        "broken,none": "its value is NaN",
    }
    assert plan.run.lower_is_better == {"own_mean"}


def test_aggregates_of_tasks_that_list_no_metrics(tmp_path: Path) -> None:
    figures = {"acc,none": 0.5, "special,none": 0.5, "brier_score,none": 0.5}
    plan = lm_eval.plan(write_log(tmp_path, [generation()], results(figures)))
    assert [one.name for one in plan.aggregates] == ["acc,none"]
    assert plan.not_compared == {
        "special,none": "the log does not say how it is aggregated",
        "brier_score,none": "lm-eval aggregates it as brier_score, not as a mean",
    }
    assert plan.run.lower_is_better == {"brier_score"}


@pytest.mark.parametrize("how", [["mean"], {"mean": 1}, 7])
def test_an_aggregation_that_is_no_text(tmp_path: Path, how: Any) -> None:
    config = {"metric_list": [{"metric": "exact_match", "aggregation": how}]}
    plan = lm_eval.plan(
        write_log(tmp_path, [generation()], results({"exact_match,none": 0.5}, config=config))
    )
    assert list(plan.not_compared) == ["exact_match,none"]


def test_lower_is_better_under_every_filter(tmp_path: Path) -> None:
    figures = {"wer,a": 0.5, "wer,b": 0.5, "exact_match,a": 0.5}
    better = {"task": {"wer": False, "exact_match": True}}
    plan = lm_eval.plan(
        write_log(tmp_path, [generation()], results(figures, higher_is_better=better))
    )
    assert plan.run.lower_is_better == {"wer", "wer:a", "wer:b"}


@pytest.mark.parametrize(
    ("fields", "figures", "expected"),
    [
        ({}, {}, None),
        ({"n-samples": {"task": {"original": 9, "effective": 2}}}, {}, 2),
        ({"n-samples": {"task": {"original": 9, "effective": 9}}}, {"sample_len": 2}, 2),
        ({}, {"samples": 3}, 3),
        (
            {"n-samples": {"task": {"original": 9, "effective": 0}}},
            {"sample_len": 0},
            None,
        ),  # --predict_only
        ({"n-samples": {"task": None}}, {}, None),
        ({"n-samples": None}, {}, None),
    ],
)
def test_the_number_of_samples(
    tmp_path: Path, fields: Any, figures: Any, expected: int | None
) -> None:
    rows = [generation(n) for n in range(2)]
    assert (
        lm_eval.plan(write_log(tmp_path, rows, results(EM | figures, **fields))).expected_samples
        == expected
    )


def test_the_number_of_chosen_samples(tmp_path: Path) -> None:
    """A run with --samples states the size of the whole set.

    The hash proves that the samples are complete.
    """
    rows = [generation(n) for n in (3, 7)]
    counts = {"task": {"original": 9, "effective": 9}}
    document = results(EM, **{"n-samples": counts, "task_hashes": {"task": task_hash(rows)}})
    plan = lm_eval.plan(write_log(tmp_path, rows, document))
    assert (plan.expected_samples, plan.notes) == (2, ["the run evaluated 2 chosen documents of 9"])
    log = write_log(tmp_path, rows[:1], document)
    assert lm_eval.plan(log).expected_samples == 9
