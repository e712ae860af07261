"""AlpacaEval, MT-Bench, OpenAI evals and promptfoo: what becomes of their logs, and which figures
are reproduced.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import statistics
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.import_logs import import_logs
from fastrec.errors import UsageError
from tests.harnesses.converting import imported

ALPACA = Path(__file__).parents[3] / "shared" / "logs" / "alpaca_eval"


def write_lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judgement(instruction: str, preference: float | None, **others: Any) -> dict[str, Any]:
    return {
        "instruction": instruction, "output_1": f"Base: {instruction}", "generator_1": "base", "dataset": "koala",
        "output_2": f"Mine: {instruction}", "generator_2": "mine", "annotator": "judge", "preference": preference,
        **others,
    }  # fmt: skip


def write_annotations(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "logs" / "results" / "mine" / "judge" / "annotations.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(rows, indent=1))
    return path


def test_alpaca_eval(tmp_path: Path) -> None:
    rows = [
        judgement("a", 1.25),
        judgement("b", 2),
        judgement("c", 1.5),
        judgement("d", 0),
        judgement("e", None),
    ]
    write_annotations(tmp_path, *rows)
    board = (
        ",win_rate,standard_error,n_total,discrete_win_rate\nmine,56.25,1.0,4,50.0\nother,1,1,1,1\n"
    )
    (tmp_path / "logs" / "leaderboard.csv").write_text(board)
    (tmp_path / "logs" / "model_outputs.json").write_text(
        '[{"instruction": "a", "output": "x", "generator": "mine"}]'
    )
    result, records = imported(tmp_path, tmp_path / "logs")
    (log,) = result.logs
    assert result.other_files == 1
    scores = {
        name: [r["evaluation"]["score"] for r in records if r["evaluation_result_id"] == name]
        for name in log.metrics
    }
    assert scores == {
        "win_rate": [0.25, 1.0, 0.5, 0.5, 0.0],
        "discrete_win_rate": [0.0, 1.0, 0.5, 0.5, 0.0],
    }
    assert len(log.comparisons) == 4
    assert not log.disagreements
    assert "standard_error" in log.not_compared
    assert ["error" in record for record in records] == [False] * 8 + [True] * 2
    first = records[0]
    assert (first["model_id"], first["input"], first["output"]) == (
        "mine",
        {"raw": "a", "reference": []},
        {"raw": ["Mine: a"]},
    )
    assert (
        first["metadata"].items()
        >= {"output_1": "Base: a", "generator_1": "base", "annotator": "judge"}.items()
    )
    assert len({record["sample_id"] for record in records}) == 5


def test_alpaca_eval_of_several_models(tmp_path: Path) -> None:
    """Each model of a file is a log; a model without a name is an error."""
    path = write_annotations(
        tmp_path, judgement("a", 1), judgement("b", 2, generator_2="other", output_2=None)
    )
    result, records = imported(tmp_path, path)
    assert [(log.model_id, log.records) for log in result.logs] == [("mine", 2), ("other", 2)]
    assert [record["output"]["raw"] for record in records] == [["Mine: a"]] * 2 + [[]] * 2
    path.write_text(json.dumps([judgement("a", 1, generator_2=None)]))
    (bad,) = import_logs(path, tmp_path / "more").bad_logs
    assert "item 1 does not name the instruction and the model" in bad.reason


def test_runs_of_alpaca_eval_against_two_baselines_differ(tmp_path: Path) -> None:
    """Each is compared with the leaderboard of its judge."""
    folder = tmp_path / "logs"
    for judge, preference in (("kind", 2), ("strict", 1)):
        for baseline in "xy":
            path = folder / baseline / "mine" / judge / "annotations.json"
            path.parent.mkdir(parents=True)
            path.write_text(
                json.dumps(
                    [judgement("a", preference, annotator=judge, generator_1=baseline)], indent=1
                )
            )
        board = f",win_rate,standard_error,n_total\nmine,{100 * (preference - 1)},0,1\n"
        (folder / f"{judge}_leaderboard.csv").write_text(board)
    result, records = imported(tmp_path, folder)
    assert len({record["evaluation_id"] for record in records}) == 4
    assert all(log.comparisons and not log.disagreements for log in result.logs)


@pytest.mark.skipif(not ALPACA.is_dir(), reason="the real logs are not beside the checkout")
def test_the_published_leaderboard_is_reproduced(tmp_path: Path) -> None:
    """`stats` gives the win rates and standard errors of the leaderboard of AlpacaEval 2."""
    result, records = imported(tmp_path, ALPACA)
    assert [len(log.disagreements) for log in result.logs] == [0, 0]
    fastrec.normalize(tmp_path / "records", tmp_path / "corpus")
    summary = fastrec.stats(tmp_path / "corpus")
    with (ALPACA / "leaderboard_rows.csv").open() as file:
        published = {row[""]: row for row in csv.DictReader(file)}
    found = {one.metric: one.by_model for one in summary.evaluations}
    for model, row in published.items():
        for metric in ("win_rate", "discrete_win_rate"):
            scores = [
                record["evaluation"]["score"]
                for record in records
                if (record["model_id"], record["evaluation_result_id"]) == (model, metric)
            ]
            assert 100 * statistics.fmean(scores) == pytest.approx(float(row[metric]), abs=1e-9)
            (shown,) = (one for one in found[metric] if one.model_id == model)
            assert 100 * shown.mean_score == pytest.approx(float(row[metric]), abs=1e-9)
        (shown,) = (one for one in found["win_rate"] if one.model_id == model)
        assert 100 * shown.score_standard_error == pytest.approx(
            float(row["standard_error"]), abs=1e-9
        )


def write_mt_bench(tmp_path: Path, *judged: dict[str, Any]) -> Path:
    root = tmp_path / "logs" / "mt_bench"
    write_lines(
        root / "question.jsonl",
        {
            "question_id": 81,
            "category": "math",
            "turns": ["1+1?", "Twice?"],
            "reference": ["2", "4"],
        },
    )
    answer = {
        "question_id": 81,
        "answer_id": "x",
        "model_id": "m",
        "choices": [{"index": 0, "turns": ["2", "4"]}],
        "tstamp": 1.0,
    }
    write_lines(root / "model_answer" / "m.jsonl", answer)
    write_lines(root / "model_judgment" / "gpt-4_single.jsonl", *judged)
    return root


def verdict(turn: int, score: float, **others: Any) -> dict[str, Any]:
    return {
        "question_id": 81, "model": "m", "judge": ["gpt-4", "single-v1"], "user_prompt": "…", "judgment": "Good. [[9]]",
        "score": score, "turn": turn, "tstamp": 1687222222.5, **others,
    }  # fmt: skip


def test_mt_bench(tmp_path: Path) -> None:
    """Each turn is a sample; a score of 1 is not correct, and -1 is none."""
    root = write_mt_bench(tmp_path, verdict(1, 1), verdict(2, -1))
    result, (first, second) = imported(tmp_path, root)
    assert (first["sample_id"], first["input"], first["output"]) == (
        "81-1",
        {"raw": "1+1?", "reference": ["2"]},
        {"raw": ["2"]},
    )
    assert first["evaluation"] == {"score": 1.0, "is_correct": False}
    assert (
        first["metadata"].items()
        >= {"judge": "gpt-4", "category": "math", "turn": "1", "judgment": "Good. [[9]]"}.items()
    )
    assert (second["input"], second["error"]) == (
        {"raw": "Twice?", "reference": ["4"]},
        "the judge stated no score",
    )
    assert [(one["role"], one["content"]) for one in second["messages"]] == [
        ("user", "1+1?"), ("assistant", "2"), ("user", "Twice?"), ("assistant", "4"),
    ]  # fmt: skip
    assert result.logs[0].fields_left_out == {"user_prompt": {"a record has no place for it": 2}}


def mt_bench_with(root: Path, models: dict[str, str], *judged: dict[str, Any]) -> Path:
    """Write a benchmark in which models, by the name of their file, say a word."""
    question = {"question_id": 81, "category": "math", "turns": [f"{root.name}?"]}
    write_lines(root / "question.jsonl", question)
    for name, word in models.items():
        answer = {
            "question_id": 81,
            "answer_id": "x",
            "model_id": "copied",
            "choices": [{"index": 0, "turns": [word]}],
            "tstamp": 1.0,
        }
        write_lines(root / "model_answer" / f"{name}.jsonl", answer)
    write_lines(root / "model_judgment" / "gpt-4_single.jsonl", *judged)
    return root


def test_two_benchmarks_of_fastchat_do_not_mix(tmp_path: Path) -> None:
    """Both have a question 81 and a model `m`."""
    for name in ("mt_bench", "japanese_mt_bench"):
        mt_bench_with(tmp_path / "logs" / "data" / name, {"m": f"by {name}"}, verdict(1, 5))
    _, records = imported(tmp_path, tmp_path / "logs")
    said = {
        one["evaluation_name"]: (one["input"]["raw"], one["output"]["raw"][0]) for one in records
    }
    assert said == {name: (f"{name}?", f"by {name}") for name in ("mt_bench", "japanese_mt_bench")}


def test_answers_of_mt_bench_are_found_by_the_name_of_their_file(tmp_path: Path) -> None:
    """As FastChat and LiveBench do: rows of copied files name another model.

    A reference answer of the judge is not its own answer.
    """
    judged = [verdict(1, 5, model=name) for name in ("a", "A", "b-temp1", "gpt-4")]
    models = {"a": "small a", "A": "large A", "B-Temp1": "warm"}
    root = mt_bench_with(tmp_path / "logs" / "mt_bench", models, *judged)
    source = (root / "model_answer" / "a.jsonl").read_text()
    (root / "reference_answer").mkdir()
    (root / "reference_answer" / "gpt-4.jsonl").write_text(source)
    result, records = imported(tmp_path, root)
    said = {one["model_id"]: one["output"]["raw"][0] for one in records}
    assert said == {"a": "small a", "A": "large A", "b-temp1": "warm"}
    (bad,) = result.bad_logs
    assert "the model_answer of gpt-4" in bad.reason


def test_a_damaged_answer_of_mt_bench_costs_no_other_model(tmp_path: Path) -> None:
    judged = [verdict(1, 5, model=name) for name in ("a", "b")]
    root = mt_bench_with(tmp_path / "logs" / "mt_bench", {"a": "yes", "b": "no"}, *judged)
    damaged = root / "model_answer" / "b.jsonl"
    damaged.write_text(damaged.read_text() + '{"question_id": 8')
    result, records = imported(tmp_path, root)
    assert [one["model_id"] for one in records] == ["a"]
    (bad,) = result.bad_logs
    assert "b.jsonl: line 2" in bad.reason


def test_mt_bench_without_its_answers_and_of_pairs_is_refused(tmp_path: Path) -> None:
    root = write_mt_bench(tmp_path, verdict(1, 5, model="other"))
    pair = {
        "question_id": 81,
        "model_1": "a",
        "model_2": "b",
        "g1_winner": "tie",
        "judge": ["gpt-4", "pair-v2"],
    }
    write_lines(root / "model_judgment" / "gpt-4_pair.jsonl", pair)
    reasons = [bad.reason for bad in imported(tmp_path, root)[0].bad_logs]
    assert "preferences between two models" in reasons[0]
    assert "the model_answer of other" in reasons[1]


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    return {
        "run_id": "r",
        "event_id": number,
        "sample_id": f"t.s1.{number // 2}",
        "type": kind,
        "data": data,
    }


SPEC = {
    "spec": {
        "completion_fns": ["gpt-x"],
        "eval_name": "t.s1",
        "split": "s1",
        "run_id": "r",
        "created_at": "2026-01-02",
    }
}


def test_openai_evals(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "2+2?"}]
    path = write_lines(
        tmp_path / "run.jsonl",
        SPEC,
        event(0, "sampling", prompt=chat, sampled=["4"]),
        event(1, "match", correct=True, expected="4", picked="4", sampled="4", options=["4", "5"]),
        event(2, "sampling", prompt="3+3?", sampled=["7"]),
        event(3, "match", correct=False, expected=["6", "six"], picked=None),
        {"final_report": {"accuracy": 0.5, "boostrap_std": 0.1}},
    )
    result, (first, second) = imported(tmp_path, path)
    (log,) = result.logs
    assert (log.evaluation_id, log.harness) == ("t.s1/gpt-x/2026-01-02", "openai-evals")
    assert [(one.name, one.agrees) for one in log.comparisons] == [("accuracy", True)]
    assert list(log.not_compared) == ["boostrap_std"]
    assert (first["input"]["raw"], json.loads(first["input"]["formatted"])) == ("2+2?", chat)
    assert (first["output"]["raw"], first["input"]["reference"]) == (["4"], ["4"])
    assert first["metadata"]["options"] == '["4","5"]'
    assert (second["input"]["reference"], second["answer_attribution"]) == (["6", "six"], [])
    assert [one["evaluation"]["is_correct"] for one in (first, second)] == [True, False]


def test_openai_evals_with_usage_and_several_matches(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    path = write_lines(
        tmp_path / "run.jsonl",
        SPEC,
        event(0, "sampling", prompt="2+2?", sampled=["4"], model="gpt-x-1", usage=usage),
        event(0, "match", correct=True, expected="4", picked="4"),
        event(1, "match", correct=False, expected="four", picked="4"),
        {"final_report": {"accuracy": 1.0}},
    )
    result, (record,) = imported(tmp_path, path)
    assert record["metadata"]["model"] == "gpt-x-1"
    assert record["token_usage"]["total_tokens"] == 9
    reason = {"a record has no place for it": 1}
    assert result.logs[0].fields_left_out == {"further match": reason}


def test_an_error_of_openai_evals_is_that_of_its_sample(tmp_path: Path) -> None:
    """If the sample has a score after all, it was tried again, and the error does not count."""
    failed = {"type": "RateLimitError", "message": "too many requests"}
    path = write_lines(
        tmp_path / "run.jsonl",
        SPEC,
        event(0, "sampling", prompt="2+2?", sampled=["4"]),
        event(1, "error", **failed),
        event(2, "error", **failed),
        event(2, "sampling", prompt="3+3?", sampled=["6"]),
        event(3, "match", correct=True, expected="6", picked="6"),
    )
    _, records = imported(tmp_path, path)
    found = [
        (one["input"]["raw"], one.get("error"), one["evaluation"]["is_correct"]) for one in records
    ]
    said = "too many requests; the log has no score for this sample"
    assert found == [("2+2?", said, False), ("3+3?", None, True)]


def test_an_error_of_openai_evals_belongs_to_every_metric_of_the_run(tmp_path: Path) -> None:
    """Sample 0 failed before the first score of the run, sample 2 after it: both count for each
    metric.
    """
    path = write_lines(
        tmp_path / "run.jsonl",
        SPEC,
        event(0, "error", type="Timeout", message="no answer"),
        event(2, "sampling", prompt="3+3?", sampled=["6"]),
        event(2, "match", correct=True, expected="6", picked="6"),
        event(3, "metrics", f1=0.5),
        event(4, "sampling", prompt="4+4?", sampled=["?"]),
        event(5, "error", type="Timeout", message="no grade"),
        {"final_report": {"accuracy": 1.0, "f1": 0.5}},
    )
    result, records = imported(tmp_path, path)
    (log,) = result.logs
    assert {name: (metric.records, metric.scored) for name, metric in log.metrics.items()} == {
        "match": (3, 1),
        "f1": (3, 1),
    }
    assert (log.samples, log.records, log.errors, log.disagreements) == (3, 6, 4, [])
    errors = [
        (one["sample_id"], one["evaluation_result_id"], one["error"])
        for one in records
        if one.get("error")
    ]
    unscored = "the log has no score for this sample"
    assert errors == [
        (sample, metric, f"{message}; {unscored}")
        for sample, message in (("t.s1.0", "no answer"), ("t.s1.2", "no grade"))
        for metric in ("match", "f1")
    ]


def test_an_unfinished_run_of_openai_evals(tmp_path: Path) -> None:
    twice = [event(0, "sampling", prompt="2+2?", sampled=[text]) for text in ("4", "grade: A")]
    path = write_lines(
        tmp_path / "run.jsonl",
        SPEC,
        event(0, "metrics", f1=0.25, note="x"),
        event(1, "embedding", v=1),
        *twice,
    )
    result, (record,) = imported(tmp_path, path)
    assert result.logs[0].notes == ["the log has no final report: the run did not finish"]
    assert (
        record["evaluation_result_id"],
        record["evaluation"]["score"],
        record["metadata"]["note"],
    ) == (
        "f1",
        0.25,
        "x",
    )
    assert record["output"]["raw"] == ["4"]
    reason = {"a record has no place for it": 1}
    assert result.logs[0].fields_left_out == {"embedding": reason, "further sampling": reason}


def promptfoo_row(test: int, **others: Any) -> dict[str, Any]:
    return {
        "promptIdx": 0, "testIdx": test, "provider": {"id": "openai:gpt-x"}, "failureReason": 0,
        "prompt": {"raw": "Translate hello", "label": "t"}, "vars": {"text": "hello"}, "latencyMs": 540, "cost": 0.1,
        "response": {"output": "Bonjour", "tokenUsage": {"total": 12, "prompt": 10, "completion": 2}}, "success": True,
        "score": 1, "namedScores": {"tone": 0.5}, "gradingResult": {"pass": True, "score": 1, "reason": "ok"},
        "testCase": {"vars": {"text": "hello"}, "metadata": {"topic": "words"}}, **others,
    }  # fmt: skip


def test_promptfoo(tmp_path: Path) -> None:
    """Each provider and prompt is a log.

    A failed call is an error, a failed assertion is a score.
    """
    failed = {"success": False, "score": 0, "failureReason": 1, "error": "expected Salut"}
    broken = {
        "success": False,
        "score": 0,
        "failureReason": 2,
        "error": "HTTP 500",
        "response": None,
        "gradingResult": None,
    }
    rows = [
        promptfoo_row(0), promptfoo_row(1, **failed), promptfoo_row(2, **broken),
        promptfoo_row(0, promptIdx=1, provider={"id": "echo"}),
    ]  # fmt: skip
    metrics = {"testPassCount": 1, "testFailCount": 1, "testErrorCount": 1}
    document = {
        "evalId": "eval-1", "config": {"description": "words"}, "metadata": {"promptfooVersion": "0.117.4"},
        "results": {
            "version": 3, "timestamp": "2026-06-01T12:00:00Z", "prompts": [{"metrics": metrics}, {}], "results": rows,
        },
    }  # fmt: skip
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document, indent=2))  # as promptfoo writes it
    result, records = imported(tmp_path, path)
    assert [(log.model_id, log.samples, len(log.disagreements)) for log in result.logs] == [
        ("openai:gpt-x", 3, 0),
        ("echo", 1, 0),
    ]
    assert len(result.logs[0].comparisons) == 3
    scores = [r for r in records if r["model_id"] == "openai:gpt-x"]
    assert [(r["evaluation"]["score"], r.get("error")) for r in scores if r["evaluation_result_id"] == "pass"] == [
        (1.0, None), (0.0, None), (0.0, "HTTP 500; the call failed"),
    ]  # fmt: skip
    first = scores[0]
    assert first["token_usage"] == {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    assert (
        first["metadata"].items()
        >= {"text": "hello", "topic": "words", "explanation": "ok"}.items()
    )


@pytest.mark.parametrize("others", [{}, {"promptIdx": None, "testIdx": None}])
def test_labels_tell_providers_of_promptfoo_apart(tmp_path: Path, others: dict[str, Any]) -> None:
    """Two settings of one model are two systems, also before version 3, without numbers."""
    rows = []
    for label, success in (("cold", True), ("warm", False)):
        row = promptfoo_row(0, provider={"id": "openai:gpt-x", "label": label}, success=success)
        rows.append({key: value for key, value in row.items() if key not in others})
    path = tmp_path / "results.json"
    results = {"version": 3, "timestamp": "t", "results": rows}
    path.write_text(json.dumps({"evalId": "eval-1", "results": results}))
    result, records = imported(tmp_path, path)
    assert [log.model_id for log in result.logs] == ["cold", "warm"]
    assert {one["metadata"]["provider_id"] for one in records} == {"openai:gpt-x"}
    assert [
        (one["model_id"], one["evaluation"]["score"])
        for one in records
        if one["evaluation_result_id"] == "pass"
    ] == [("cold", 1.0), ("warm", 0.0)]


def test_a_failed_call_of_promptfoo_has_an_error_for_each_named_score(tmp_path: Path) -> None:
    """Named scores are those of the same provider and prompt: others are other runs."""
    broken = {
        "failureReason": 2,
        "error": "HTTP 500",
        "response": None,
        "gradingResult": None,
        "namedScores": {},
    }
    rows = [promptfoo_row(0, **broken), promptfoo_row(1), promptfoo_row(2, namedScores={})]
    rows += [promptfoo_row(0, promptIdx=1, namedScores={"length": 1})]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"version": 3, "timestamp": "t", "results": rows}))
    result, records = imported(tmp_path, path)
    counts = [
        {name: (one.records, one.scored) for name, one in log.metrics.items()}
        for log in result.logs
    ]
    assert counts == [
        {"pass": (3, 2), "score": (3, 2), "score:tone": (2, 1)},
        {"pass": (1, 1), "score": (1, 1), "score:length": (1, 1)},
    ]
    assert {one["error"].partition(";")[0] for one in records if one.get("error")} == {"HTTP 500"}


def test_promptfoo_without_an_envelope(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"version": 3, "timestamp": "t", "results": [promptfoo_row(0)]}))
    assert imported(tmp_path, path)[0].logs[0].evaluation_id == "promptfoo/openai:gpt-x/t/0"


def test_promptfoo_as_json_lines(tmp_path: Path) -> None:
    """Each line is a result as it is stored: the variables are those of the test."""
    rows = []
    for number, success in enumerate([True, False]):
        row = promptfoo_row(number, success=success)
        del row["vars"]
        rows.append({"id": f"r{number}", "evalId": "eval-1-2026-05-09T06:29:36", **row})
    result, records = imported(tmp_path, write_lines(tmp_path / "results.jsonl", *rows))
    (log,) = result.logs
    assert log.evaluation_id == "promptfoo/openai:gpt-x/eval-1-2026-05-09T06:29:36/0"
    passed = [one for one in records if one["evaluation_result_id"] == "pass"]
    assert [one["evaluation"]["score"] for one in passed] == [1.0, 0.0]
    assert {one["metadata"]["text"] for one in records} == {"hello"}


def test_promptfoo_before_version_3(tmp_path: Path) -> None:
    """Rows have no numbers of prompts and tests; the oldest prompts have `display`."""
    rows = []
    for name in ("label", "display"):
        for word in ("hello", "world"):
            prompt = {"raw": f"Say {word}", name: f"by {name}"}
            row = promptfoo_row(0, prompt=prompt, vars={"text": word})
            rows.append({key: row[key] for key in row if not key.endswith("Idx")})
    path = tmp_path / "results.json"
    results = {"version": 2, "timestamp": "t", "results": rows}
    path.write_text(json.dumps({"evalId": "eval-1", "results": results}))
    result, records = imported(tmp_path, path)
    assert [log.evaluation_id.rpartition("/")[2] for log in result.logs] == [
        "by label",
        "by display",
    ]
    assert {one["sample_id"] for one in records} == {'{"text":"hello"}', '{"text":"world"}'}


def test_variables_of_promptfoo_are_not_replaced(tmp_path: Path) -> None:
    """They have the names of other fields, which keep theirs with a prefix."""
    given = {"description": "red shoe", "cost": "9.99", "topic": "mine"}
    path = tmp_path / "results.json"
    row = promptfoo_row(0, vars=given)
    path.write_text(json.dumps({"version": 3, "timestamp": "t", "results": [row]}))
    _, (first, *_) = imported(tmp_path, path)
    others = {"score_cost": "0.1", "score_topic": "words"}
    assert first["metadata"].items() >= (given | others).items()


@pytest.mark.parametrize(
    "text",
    [
        '{"spec": {"eval_name": 1, "run_id": 2}}\n{"a"',
        '[{"instruction":1,"output_1":2,"output_2":3,',
        '{"evalId": 1',
    ],
)
def test_damaged_logs_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    (bad,) = imported(tmp_path, path)[0].bad_logs
    assert "damaged" in bad.reason


def test_damaged_compressed_logs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "annotations.json.gz"
    rows = [
        judgement(f"{number} {'x' * 50_000}", 1, dataset=os.urandom(999).hex())
        for number in range(9)
    ]
    path.write_bytes(gzip.compress(json.dumps(rows).encode())[:-500])
    (bad,) = imported(tmp_path, path)[0].bad_logs
    assert "ends inside the gzip member" in bad.reason


def test_foreign_files_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"instruction": "a", "output": "b"}]')
    (tmp_path / "b.csv").write_text("name,win_rate\n")
    write_lines(tmp_path / "c.jsonl", {"question_id": 1, "text": "x"})
    with pytest.raises(UsageError, match="no logs"):
        import_logs(tmp_path, tmp_path / "out")
