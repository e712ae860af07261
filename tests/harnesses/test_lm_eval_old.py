"""lm-eval: logs from before November 2024, which do not name filters and metrics, and arrays from
before May 2024.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastrec.errors import LogError
from fastrec.harnesses import lm_eval
from fastrec.harnesses.log import Log
from tests.harnesses.lm_eval_logs import (
    choice,
    generation,
    old,
    only_log,
    records_of,
    results,
    write_lines,
    write_log,
)

TWO = {"exact_match,strict-match": 0.5, "exact_match,flexible-extract": 1.0}


def old_results(figures: dict[str, Any], **more: Any) -> dict[str, Any]:
    document = results(figures, **more)
    return {key: document[key] for key in document if key not in ("date", "lm_eval_version")}


def write_array(directory: Path, rows: list[dict[str, Any]], document: dict[str, Any]) -> Log:
    """Write a log as versions 0.4.0 to 0.4.2 did: samples are one indented array, under the model's
    arguments.
    """
    directory.mkdir(exist_ok=True)
    (directory / "results.json").write_text(json.dumps(document, indent=2))
    (directory / "pretrained__org__model,dtype__float16_task.jsonl").write_text(
        json.dumps(rows, indent=2)
    )
    return only_log(directory)


@pytest.fixture(params=["lines", "array"])
def write(request: pytest.FixtureRequest) -> Any:
    return write_log if request.param == "lines" else write_array


def test_choices(tmp_path: Path, write: Any) -> None:
    """Likelihoods are numbers there, and arguments are lists."""
    row = old(choice(target=1))
    row["filtered_resps"] = [[-4.0, False], [-3.0, True], [-9.0, False]]
    row["resps"] = [[one] for one in row["filtered_resps"]]
    log = write(tmp_path, [row], old_results({"acc,none": 1.0, "acc_norm,none": 0.0}))
    accuracy, normalised = records_of(log)
    assert (accuracy["evaluation_result_id"], accuracy["output"]["raw"]) == ("acc", ["no"])
    assert (normalised["evaluation_result_id"], normalised["output"]["raw"]) == (
        "acc_norm",
        ["not at all"],
    )
    assert accuracy["input"]["reference"] == ["no"]
    assert "harness_version" not in accuracy["metadata"]


def test_the_only_filter_is_that_of_the_results(tmp_path: Path, write: Any) -> None:
    log = write(tmp_path, [old(generation())], old_results({"exact_match,get-answer": 1.0}))
    (record,) = records_of(log)
    assert record["evaluation_result_id"] == "exact_match:get-answer"
    assert record["answer_attribution"][0]["extraction_method"] == "get-answer"


@pytest.mark.parametrize("order", [["strict", "flexible"], ["ranks", "of", "a", "cluster"]])
def test_several_filters_follow_from_the_order(
    tmp_path: Path, write: Any, order: list[str]
) -> None:
    """A document has one sample per filter, in the order of the filters.

    Ranks of a cluster are written one by one.
    """
    docs = [[0, 1, 0, 1], [1, 0], [0, 1]][:1] if len(order) == 2 else [[0, 0], [1, 1]]
    flat = [number for some in docs for number in some]
    seen: list[int] = []
    rows = []
    for number in flat:
        is_second = number in seen
        seen.append(number)
        rows.append(old(generation(number, exact_match=1.0 if is_second else float(number))))
    config = {"filter_list": [{"name": "strict-match"}, {"name": "flexible-extract"}]}
    figures = dict(reversed(TWO.items()))
    log = write(tmp_path, rows, old_results(figures, config=config))
    found = {
        (one["sample_id"], one["evaluation_result_id"]): one["evaluation"]["score"]
        for one in records_of(log)
    }
    assert found == {
        ("0", "exact_match:strict-match"): 0.0,
        ("1", "exact_match:strict-match"): 1.0,
        ("0", "exact_match:flexible-extract"): 1.0,
        ("1", "exact_match:flexible-extract"): 1.0,
    }


def test_unknown_filters_are_not_named(tmp_path: Path) -> None:
    """A third sample of a document with two filters belongs to neither."""
    rows = [old(generation(0)) for _ in range(3)]
    ids = [
        record["evaluation_result_id"]
        for record in records_of(write_log(tmp_path, rows, old_results(TWO)))
    ]
    assert ids == ["exact_match:strict-match", "exact_match:flexible-extract", "exact_match"]


def test_other_texts_are_no_metrics(tmp_path: Path) -> None:
    row = old(generation()) | {"task_name": "task", "exact_match": "True", "new_metric": 0.5}
    records = records_of(write_log(tmp_path, [row], old_results({"exact_match,none": 1.0})))
    assert [record["evaluation_result_id"] for record in records] == ["exact_match", "new_metric"]


def test_bare_nan_in_an_array(tmp_path: Path) -> None:
    rows = [
        old(generation(0)),
        old(generation(1, exact_match=float("nan"), doc={"x": float("inf")})),
        old(generation(2)),
    ]
    records = records_of(
        write_array(tmp_path, rows, old_results({"exact_match,none": float("nan")}))
    )
    assert [record.get("error") for record in records] == [None, "the score is NaN", None]


def test_the_start_without_a_date(tmp_path: Path) -> None:
    """It comes from the names of the files, or else stands for the content of the results."""
    document = old_results({"exact_match,none": 1.0})
    dated = lm_eval.plan(write_log(tmp_path / "a", [old(generation())], document)).run.started
    assert dated == "2025-03-01T10:00:00.123456"
    logs = [write_array(tmp_path / name, [old(generation())], document) for name in "bc"]
    first, second = (lm_eval.plan(log).run.started for log in logs)
    assert first == second
    assert first.startswith("undated-")


def test_indented_names_of_tasks(tmp_path: Path) -> None:
    """Version 0.4.0 indented the tasks of a group."""
    document = old_results({"exact_match,none": 1.0})
    document["results"] = {
        "group": {"exact_match,none": 1.0},
        " - task": document["results"]["task"],
    }
    plan = lm_eval.plan(write_array(tmp_path, [old(generation())], document))
    assert [one.metric for one in plan.aggregates] == ["exact_match"]


def test_a_document_that_is_a_text(tmp_path: Path) -> None:
    rows = [
        old(generation(0, doc="a text")),
        old(generation(1, doc=["a", 1])),
        old(generation(2, doc=None)),
    ]
    document = old_results({"exact_match,none": 1.0}, config={"doc_to_text": "{{question}}"})
    assert len(records_of(write_log(tmp_path, rows, document))) == 3


def test_an_array_that_is_cut(tmp_path: Path) -> None:
    log = write_array(
        tmp_path, [old(generation(n)) for n in range(3)], old_results({"exact_match,none": 1.0})
    )
    path = Path(log.path)
    text = path.read_text()
    plan = lm_eval.plan(log)
    for end in (len(text) - 2, len(text) // 2):
        path.write_text(text[:end])
        with pytest.raises(LogError, match="cut off"):
            records_of(log, plan)


def test_lines_in_an_array_file_are_told_apart(tmp_path: Path) -> None:
    """A `.jsonl` of an old version has one array, and a `.json` of the Hub has lines: the content
    decides.
    """
    write_log(tmp_path, [generation()], results({"exact_match,strict-match": 1.0}))
    (path,) = tmp_path.glob("samples_*")
    path.rename(path.with_suffix(".json"))
    assert len(records_of(only_log(tmp_path))) == 1
    write_lines(path.with_suffix(".json"), [generation()])
