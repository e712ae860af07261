"""Harnesses of agents and code: tau-bench, tau2-bench and others; what becomes of hostile logs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.import_logs.discover import logs_among
from fastrec.errors import LogError, UsageError
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.log import HEAD_BYTES, FoundFile, with_every_metric
from fastrec.harnesses.recognise import role_in
from fastrec.harnesses.registry import harness_named
from tests.harnesses.converting import imported
from tests.sizes import few_of

SHARED = Path(__file__).parents[3] / "shared" / "logs"


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = document if path.suffix == ".jsonl" else [document]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scores(records: list[dict[str, Any]], metric: str) -> list[tuple[float, bool]]:
    return [
        (record["evaluation"]["score"], record["evaluation"]["is_correct"])
        for record in records
        if record["evaluation_result_id"] == metric
    ]


TAU_TASK = {"instruction": "Cancel it.", "outputs": ["54"], "actions": [{"name": "cancel"}]}
TAU_CHAT = [
    {"role": "system", "content": "# Airline Agent Policy\n…"},
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "cancel", "arguments": '{"id":7}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "done"},
]


def tau_trial(trial: int, reward: float, **info: Any) -> dict[str, Any]:
    judged = {"reward_info": {"reward": reward, "info": {"r_actions": reward}}}
    described = {"task": TAU_TASK, "user_cost": 0.25, **judged, **info}
    return {"task_id": 3, "reward": reward, "info": described, "traj": TAU_CHAT, "trial": trial}


TAU = [
    tau_trial(0, 1.0),
    tau_trial(1, 0.0),
    {"task_id": 3, "reward": 0.0, "info": {"error": "crash"}, "traj": [], "trial": 2},
]


def test_tau_bench(tmp_path: Path) -> None:
    """A trial that crashed has an error, and the question of the other trials."""
    result, records = imported(tmp_path, write(tmp_path / "gpt-x-airline.json", TAU))
    (log,) = result.logs
    assert log.evaluation_id.startswith("tau_bench_airline/gpt-x/")
    assert (log.samples, log.errors) == (3, 2)  # of the crash: an error for both metrics
    assert scores(records, "reward") == [(1.0, True), (0.0, False), (0.0, False)]
    first = records[0]
    assert first["input"] == {"raw": "Cancel it.", "reference": ["54"]}
    call = {"id": "c1", "name": "cancel", "arguments": {"id": "7"}}
    assert first["messages"][2]["tool_calls"] == [call]
    assert first["messages"][3]["tool_call_id"] == ["c1"]
    assert first["evaluation"] | {"num_turns": 4, "tool_calls_count": 1} == first["evaluation"]
    assert first["metadata"]["trial"] == "0"
    assert records[-1]["input"] == first["input"]
    assert records[-1]["error"].startswith("crash")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0124000000.json", "gpt-4o"),
        ("react-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0124000000.json", "react-gpt-4o"),
        ("sonnet-35-new-retail.json", "sonnet-35-new"),
        ("act-ive.json", "act-ive"),
    ],
)
def test_the_name_of_a_tau_bench_file_has_the_model(tmp_path: Path, name: str, model: str) -> None:
    (log,) = imported(tmp_path, write(tmp_path / name, TAU))[0].logs
    assert log.model_id == model


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real logs are not beside the checkout")
def test_real_trials_of_tau_bench(tmp_path: Path) -> None:
    result, records = imported(tmp_path, SHARED / "tau_bench" / "gpt-4o-airline.json")
    rewards = [score for score, _ in scores(records, "reward")]
    assert (len(rewards), sum(rewards)) == (40, 5)
    assert result.logs[0].evaluation_id.startswith("tau_bench_airline/gpt-4o/")
    fastrec.normalize(tmp_path / "records", tmp_path / "corpus")
    (summary,) = fastrec.stats(tmp_path / "corpus", metric="reward").evaluations
    assert summary.by_model[0].mean_score == 5 / 40


def simulation(trial: int, reason: str, reward: float, **others: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    chat = [
        {"role": "user", "content": "Hi", "usage": usage},
        {
            "role": "assistant",
            "content": "",
            "usage": usage,
            "tool_calls": [{"id": "c1", "name": "get", "arguments": {"id": "7"}}],
        },
        {"role": "tool", "id": "c1", "content": "{}", "requestor": "assistant"},
    ]
    return {
        "id": f"s{trial}",
        "task_id": "0",
        "duration": 1.5,
        "termination_reason": reason,
        "agent_cost": 0.5,
        "reward_info": {"reward": reward, "reward_breakdown": {"DB": reward}},
        "messages": chat,
        "trial": trial,
        **others,
    }


def tau2(*simulations: dict[str, Any], **others: Any) -> dict[str, Any]:
    task = {
        "id": "0",
        "user_scenario": {"instructions": {"reason_for_call": "Cancel.", "unknown_info": None}},
        "evaluation_criteria": {"actions": [{"name": "get"}], "communicate_info": ["54"]},
    }
    info = {
        "git_commit": "abc",
        "num_trials": 2,
        "user_info": {"implementation": "user_simulator", "llm": "gpt-u"},
        "agent_info": {"implementation": "llm_agent", "llm": "gpt-x", "llm_args": {"api_key": "k"}},
        "environment_info": {"domain_name": "airline"},
    }
    run = {"timestamp": "2026-01-02", "info": info, "tasks": [task]}
    return run | {"simulations": list(simulations), **others}


TAU2 = tau2(simulation(0, "user_stop", 1.0), simulation(1, "timeout", 0.0))


def test_tau2_bench(tmp_path: Path) -> None:
    """A timeout is an error; keys of providers do not get into records."""
    result, records = imported(tmp_path, write(tmp_path / "results.json", TAU2))
    (log,) = result.logs
    assert (log.evaluation_id, log.errors) == ("tau2_bench_airline/gpt-x/2026-01-02", 2)
    assert [(one.name, one.agrees) for one in log.comparisons] == [("number of samples", True)]
    assert scores(records, "reward:DB") == [(1.0, True), (0.0, False)]
    first = records[0]
    assert first["input"] == {"raw": "reason_for_call: Cancel.", "reference": ["54"]}
    assert first["token_usage"]["total_tokens"] == 12
    assert first["performance"] == {"latency_ms": 1500.0}
    wanted = {
        "stop_reason": "user_stop",
        "agent": "llm_agent",
        "user_model": "gpt-u",
        "cost": "0.5",
    }
    assert first["metadata"].items() >= wanted.items()
    assert first["messages"][2]["tool_call_id"] == ["c1"]
    assert [record.get("error") for record in records] == [None, None, "timeout", "timeout"]
    assert "api_key" not in json.dumps(records)


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        ({"implementation": "llm_agent_solo", "llm": "gpt-x"}, "llm_agent_solo/gpt-x"),
        ({"implementation": "mine", "llm": None}, "mine"),
        ({"llm": "acme/gpt-x"}, "acme/gpt-x"),
    ],
)
def test_other_agents_of_tau2_bench_are_other_models(
    tmp_path: Path, agent: dict[str, Any], model: str
) -> None:
    run = TAU2 | {"info": TAU2["info"] | {"agent_info": agent, "num_trials": 2}}
    _, records = imported(tmp_path, write(tmp_path / "results.json", run))
    assert {record["model_id"] for record in records} == {model}


def test_conditions_of_tau2_bench_are_metadata(tmp_path: Path) -> None:
    """Models are not comparable under different ones."""
    run = copy.deepcopy(TAU2)
    run["info"] |= {"speech_complexity": "regular", "retrieval_config": None}
    _, records = imported(tmp_path, write(tmp_path / "results.json", run))
    assert {record["metadata"]["speech_complexity"] for record in records} == {"regular"}
    assert not any("retrieval_config" in record["metadata"] for record in records)


def test_simulations_of_tau2_bench_in_files(tmp_path: Path) -> None:
    rewards = [{"id": "s0", "reward": 1.0}, {"id": "s1", "reward": 0.0}]
    run = tmp_path / "run"
    results = write(run / "results.json", tau2(simulation_index=rewards))
    for row in TAU2["simulations"]:
        write(run / "simulations" / f"{row['id']}.json", row)
    (log,) = imported(tmp_path, run)[0].logs
    assert (log.samples, len(log.comparisons), log.disagreements) == (2, 3, [])
    results.unlink()
    (bad,) = imported(tmp_path, run)[0].bad_logs
    assert "give the results.json of the run" in bad.reason


def terminal_trial(task: str, attempt: int, resolved: bool | None, **others: Any) -> dict[str, Any]:
    return {
        "id": f"{task}{attempt}",
        "trial_name": f"{task}.{attempt}-of-2.run",
        "task_id": task,
        "instruction": f"Do {task}.",
        "is_resolved": resolved,
        "failure_mode": "unset",
        "parser_results": {"test_a": "passed"},
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "trial_started_at": f"2026-01-0{attempt}T00:00:00+00:00",
        "agent_started_at": "2026-01-02T00:00:00+00:00",
        "agent_ended_at": "2026-01-02T00:00:02.500000+00:00",
        **others,
    }


TERMINAL_TRIALS = [
    terminal_trial("a", 1, True, total_input_tokens=7, total_output_tokens=3),
    terminal_trial("a", 2, False, failure_mode="agent_timeout"),
    terminal_trial("b", 1, None, failure_mode="test_timeout", parser_results=None),
    terminal_trial("b", 2, True),
]
TERMINAL_RUN = {
    "id": "r",
    "results": TERMINAL_TRIALS,
    "pass_at_k": {"2": 1.0},
    "n_resolved": 2,
    "accuracy": 0.5,
}
TERMINAL_METADATA = {
    "run_id": "run",
    "dataset_name": "terminal-bench-core",
    "dataset_version": "0.1.1",
    "agent_name": "terminus",
    "model_name": "acme/m",
    "start_time": "2026-01-01",
}


def test_terminal_bench(tmp_path: Path) -> None:
    """A trial without a verdict is an error; one that timed out has the verdict of its tests."""
    run = tmp_path / "run"
    write(run / "results.json", TERMINAL_RUN)
    write(run / "run_metadata.json", TERMINAL_METADATA)
    for row in TERMINAL_TRIALS:
        write(run / row["task_id"] / row["trial_name"] / "results.json", row)
    result, records = imported(tmp_path, run)
    (log,) = result.logs
    assert log.evaluation_id == "terminal-bench-core/terminus/acme/m/2026-01-01"
    assert [(one.name, one.agrees) for one in log.comparisons] == [
        ("pass@2", True),
        ("accuracy", True),
        ("accuracy: number of scores", True),
    ]
    assert [verdict for _, verdict in scores(records, "resolved")] == [True, False, False, True]
    found = [(one["metadata"].get("stop_reason"), one.get("error")) for one in records]
    assert found == [
        (None, None),
        ("agent_timeout", None),
        ("test_timeout", "the trial has no verdict: test_timeout"),
        (None, None),
    ]
    assert [one["metadata"]["trial"] for one in records] == ["1", "2", "1", "2"]
    assert records[0]["token_usage"]["total_tokens"] == 10
    assert "token_usage" not in records[1]
    assert records[0]["performance"] == {"latency_ms": 2500.0}


def test_terminal_bench_without_metadata(tmp_path: Path) -> None:
    """The folder of the leaderboard names agent and model; a run without results has its trials."""
    run = tmp_path / "logs" / "20250923_droid_claude-4" / "run1"
    for row in TERMINAL_TRIALS:
        write(run / row["task_id"] / row["trial_name"] / "results.json", row)
    (log,) = imported(tmp_path, tmp_path / "logs")[0].logs
    started = "2026-01-01T00:00:00+00:00"
    assert log.evaluation_id == f"terminal-bench/droid/claude-4/{started}"
    assert (log.samples, log.comparisons) == (4, [])
    path = write(tmp_path / "other" / "results.json", TERMINAL_RUN)
    (bad,) = imported(tmp_path, path)[0].bad_logs
    assert "give run_metadata.json, too" in bad.reason


def test_two_runs_of_terminal_bench_need_two_folders(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write(run / "a_results.json", TERMINAL_RUN)
    write(run / "b_results.json", TERMINAL_RUN)
    result, records = imported(tmp_path, run)
    assert not records
    (bad,) = result.bad_logs
    assert bad.reason == "it has several runs: give each a folder"


def test_metadata_of_terminal_bench_without_the_name_of_the_dataset(tmp_path: Path) -> None:
    """The first versions named its path."""
    run = tmp_path / "run"
    write(run / "results.json", TERMINAL_RUN)
    metadata = {key: value for key, value in TERMINAL_METADATA.items() if "dataset" not in key}
    write(run / "run_metadata.json", metadata | {"dataset_path": "tasks"})
    assert imported(tmp_path, run)[0].logs[0].model_id == "terminus/acme/m"


def test_runs_of_terminal_bench_without_ids_and_times(tmp_path: Path) -> None:
    """Those of the first versions: no answer of one run may pass for one of another."""
    row = {"trial_name": "a.1-of-1.run", "task_id": "a", "task_description": "Do a."}
    for number, resolved in enumerate([True, False, True]):
        rows = [{**row, "is_resolved": resolved, "recording_path": f"{number}.cast"}]
        folder = tmp_path / "logs" / "20250430_Codex_o3" / str(number)
        write(folder / "results.json", {"results": rows, "accuracy": float(resolved)})
    result, records = imported(tmp_path, tmp_path / "logs")
    assert all(each.agrees for log in result.logs for each in log.comparisons)
    assert {record["model_id"] for record in records} == {"Codex/o3"}
    assert {record["input"]["raw"] for record in records} == {"Do a."}
    assert len({record["evaluation_id"] for record in records}) == 3


def attempt(base: str | None, plus: str | None) -> dict[str, Any]:
    tests = {"base_fail_tests": [], "plus_fail_tests": [[1]]}
    return {"solution": "pass", "base_status": base, "plus_status": plus, **tests}


EVALPLUS = {
    "date": "2026-01-02 03:04",
    "hash": "h",
    "eval": {
        "HumanEval/0": [attempt("pass", "pass"), attempt("pass", "fail")],
        "HumanEval/1": [attempt("fail", "pass"), attempt("pass", "timeout")],
    },
    "pass_at_k": {"base": {"pass@1": 0.75}, "plus": {"pass@1": 0.25, "pass@2": 0.5}},
}
BIGCODEBENCH = {
    "date": "2026-01-02 03:04",
    "eval": {
        "BigCodeBench/0": [{"solution": "pass", "status": "pass", "details": {}}],
        "BigCodeBench/1": [{"solution": "pass", "status": "timeout", "details": {"t": "slow"}}],
    },
}
BIGCODEBENCH_NAME = "acme--m--bigcodebench-hard-instruct--vllm-0-1-sanitized_calibrated"


def test_evalplus(tmp_path: Path) -> None:
    """Plus tests count only if base tests pass, too."""
    path = write(tmp_path / "acme--m_x_vllm_temp_0.0_eval_results.json", EVALPLUS)
    result, records = imported(tmp_path, path)
    (log,) = result.logs
    assert log.evaluation_id == "humaneval/acme/m_x/2026-01-02 03:04"
    assert [(one.name, one.agrees) for one in log.comparisons] == [
        ("base pass@1", True),
        ("plus pass@1", True),
        ("plus pass@2", True),
    ]
    assert [score for score, _ in scores(records, "plus")] == [1, 0, 0, 0]
    assert [score for score, _ in scores(records, "base")] == [1, 1, 0, 1]
    first = records[0]
    assert (first["input"]["raw"], first["output"]["raw"]) == ("HumanEval/0", ["pass"])
    assert first["metadata"].items() >= {"trial": "0", "plus_status": "pass"}.items()
    assert first["metadata"]["primary_metric"] == "true"


def test_evalplus_of_early_versions_and_without_plus_tests(tmp_path: Path) -> None:
    old = {"nfiles": 1, "base": [["success", [True]]], "plus": [["fail", [False]]]}
    bare = {"nfiles": 1, "base": [["success", []]], "plus": []}
    document = {"date": "d", "hash": "h", "eval": {"HumanEval/0": old, "HumanEval/1": bare}}
    result, records = imported(tmp_path, write(tmp_path / "m_temp_0.8/eval_results.json", document))
    assert result.logs[0].model_id == "m"
    assert [score for score, _ in scores(records, "base")] == [1, 1]
    assert [score for score, _ in scores(records, "plus")] == [0]


def test_bigcodebench(tmp_path: Path) -> None:
    write(tmp_path / "logs" / f"{BIGCODEBENCH_NAME}_eval_results.json", BIGCODEBENCH)
    stated = {"pass@1": 0.5, "model": "acme--m", "gt_pass_rate": 1.0}
    write(tmp_path / "logs" / f"{BIGCODEBENCH_NAME}_pass_at_k.json", stated)
    result, records = imported(tmp_path, tmp_path / "logs")
    (log,) = result.logs
    assert log.evaluation_id == "bigcodebench-hard-instruct/acme/m/2026-01-02 03:04"
    assert [(one.name, one.agrees) for one in log.comparisons] == [("pass@1", True)]
    assert [score for score, _ in scores(records, "pass")] == [1, 0]
    assert records[1]["metadata"]["status"] == "timeout"


@pytest.mark.parametrize("is_stated", [True, False])
def test_the_revision_of_bigcodebench_is_no_part_of_the_model(
    tmp_path: Path, is_stated: bool
) -> None:
    """BigCodeBench names it since 0.2."""
    name = BIGCODEBENCH_NAME.replace("acme--m--", "acme--m--main--")
    write(tmp_path / "logs" / f"{name}_eval_results.json", BIGCODEBENCH)
    if is_stated:
        stated = {"pass@1": 0.5, "model": "acme--m--main"}
        write(tmp_path / "logs" / f"{name}_pass_at_k.json", stated)
    result, _ = imported(tmp_path, tmp_path / "logs")
    assert result.logs[0].model_id == "acme/m"


LIVEBENCH = {
    "question.jsonl": [
        {
            "question_id": number,
            "category": "math",
            "ground_truth": "2",
            "turns": [f"{number}: 1+1?"],
            "task": "olympiad",
            "livebench_release_date": "2024-06-24",
        }
        for number in ("a", "b", "c")
    ],
    "model_judgment/ground_truth_judgment.jsonl": [
        {
            "question_id": number,
            "task": "olympiad",
            "model": "m",
            "score": score,
            "turn": 1,
            "tstamp": 17.5,
            "category": "math",
        }
        for number, score in (("a", 0), ("a", 0.5), ("b", -1), ("c", 0), ("d", 1))
    ],
    "model_answer/m.jsonl": [
        {
            "question_id": number,
            "answer_id": "x",
            "model_id": "m",
            "choices": [{"index": 0, "turns": [text]}],
            "tstamp": 17.0,
        }
        for number, text in (("a", "2"), ("b", "3"), ("c", "$ERROR$"), ("d", "4"))
    ],
}


def test_livebench(tmp_path: Path) -> None:
    """Each task has its own questions; the last judgement of a question counts."""
    for task in ("one", "two"):
        for path, rows in LIVEBENCH.items():
            write(tmp_path / "live_bench" / task / path, rows)
    write(tmp_path / "live_bench" / "two" / "model_answer" / "n.jsonl", [{"question_id": 1}])
    result, records = imported(tmp_path, tmp_path / "live_bench")
    assert [log.evaluation_id for log in result.logs] == ["livebench_olympiad/m/17.5"]
    (log,) = result.logs  # the other is an exact copy
    assert log.left_out == {"a judgement has no question": 1}
    found = [(one["sample_id"], one["evaluation"]["score"], one.get("error")) for one in records]
    unscored = "the log states no score"
    assert found == [("a", 0.5, None), ("b", 0, unscored), ("c", 0, "the call failed")]
    assert records[0]["input"] == {"raw": "a: 1+1?", "reference": ["2"]}
    assert records[0]["output"] == {"raw": ["2"]}


def test_livebench_without_its_answers_is_refused(tmp_path: Path) -> None:
    name = "model_judgment/ground_truth_judgment.jsonl"
    path = write(tmp_path / "task" / name, LIVEBENCH[name])
    (bad,) = imported(tmp_path, path)[0].bad_logs
    assert "give question.jsonl and the model_answer of m, too" in bad.reason


def harbor_trial(task: str, rewards: Any, **others: Any) -> dict[str, Any]:
    return {
        "id": task,
        "task_name": task,
        "trial_name": f"{task}__x",
        "source": "bench",
        "task_checksum": "c",
        "config": {"agent": {"env": {"API_KEY": "secret"}}},
        "agent_info": {
            "name": "terminus-2",
            "version": "2.0",
            "model_info": {"name": "m", "provider": "acme"},
        },
        "agent_result": {"n_input_tokens": 7, "n_output_tokens": 3, "cost_usd": 0.5},
        "verifier_result": {"rewards": rewards} if rewards else None,
        "exception_info": None,
        "started_at": "2026-01-02",
        "agent_execution": {
            "started_at": "2026-01-02T00:00:00Z",
            "finished_at": "2026-01-02T00:00:01Z",
        },
        **others,
    }


HARBOR_FAILURE = {"exception_type": "AgentTimeoutError", "exception_message": "after 9 s"}
HARBOR = {
    "result.json": {
        "id": "j",
        "started_at": "2026-01-01",
        "n_total_trials": 3,
        "stats": {
            "evals": {
                "terminus-2__m__bench": {"metrics": [{"mean": 1 / 3}], "pass_at_k": {"1": 1 / 3}}
            }
        },
    },
    "a__x/result.json": harbor_trial("a", {"reward": 1.0}, exception_info=HARBOR_FAILURE),
    "a__x/agent/trajectory.json": {
        "schema_version": "ATIF-v1.6",
        "agent": {"name": "terminus-2"},
        "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Do a."}]},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}
                ],
                "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            },
        ],
    },
    "b__x/result.json": harbor_trial("b", {"reward": 0.0}),
    "c__x/result.json": harbor_trial("c", None, exception_info=HARBOR_FAILURE),
}


def test_harbor(tmp_path: Path) -> None:
    """A trial without rewards is an error; one that timed out has the score of its verifier."""
    for path, document in HARBOR.items():
        write(tmp_path / "job" / path, document)
    result, records = imported(tmp_path, tmp_path / "job")
    (log,) = result.logs
    assert log.evaluation_id == "bench/terminus-2/m/2026-01-01"
    assert [(one.name, one.agrees) for one in log.comparisons] == [("pass@1", True), ("mean", True)]
    assert scores(records, "reward") == [(1.0, True), (0.0, False), (0.0, False)]
    first, _, last = records
    assert first["messages"] == [
        {"turn_idx": 0, "role": "user", "content": "Do a."},
        {
            "turn_idx": 1,
            "role": "assistant",
            "content": "",
            "reasoning_trace": "Hm.",
            "tool_calls": [{"id": "c1", "name": "bash", "arguments": {"cmd": "ls"}}],
        },
        {"turn_idx": 2, "role": "tool", "content": "a.txt", "tool_call_id": ["c1"]},
    ]
    assert "output" not in first
    assert first["performance"] == {"latency_ms": 1000.0}
    assert first["token_usage"]["total_tokens"] == 10
    assert first["metadata"].items() >= {"stop_reason": "AgentTimeoutError", "cost": "0.5"}.items()
    assert (first.get("error"), last["error"]) == (None, "AgentTimeoutError: after 9 s")
    assert "secret" not in json.dumps(records)


def test_a_single_reward_of_harbor_may_have_any_name(tmp_path: Path) -> None:
    job = tmp_path / "job"
    for path, document in HARBOR.items():
        write(job / path, document)
    write(job / "a__x/result.json", harbor_trial("a", {"accuracy": 1.0}))
    write(job / "b__x/result.json", harbor_trial("b", {"accuracy": 0.0}))
    result, records = imported(tmp_path, job)
    (log,) = result.logs
    assert [(one.name, one.agrees) for one in log.comparisons] == [("pass@1", True), ("mean", True)]
    assert scores(records, "accuracy") == [(1.0, True), (0.0, False), (0.0, False)]
    assert len(records) == 3


def test_a_trial_of_harbor_in_steps_has_the_tokens_of_all(tmp_path: Path) -> None:
    """The trial itself has none; a step that failed may have none, too."""
    steps = [
        {"step_name": "one", "agent_result": {"n_input_tokens": 8, "n_output_tokens": 2}},
        {"step_name": "two", "agent_result": None},
        {
            "step_name": "three",
            "agent_result": {"n_input_tokens": 1, "n_output_tokens": 1, "cost_usd": 0.5},
        },
    ]
    trial = harbor_trial("a", {"reward": 1.0}, agent_result=None, step_results=steps)
    write(tmp_path / "job/a__x/result.json", trial)
    _, (record,) = imported(tmp_path, tmp_path / "job")
    assert record["token_usage"] == {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
    assert record["metadata"]["cost"] == "0.5"


HOSTILE = [
    ("tau-bench", {"m-airline.json": TAU}),
    ("tau2-bench", {"results.json": TAU2}),
    (
        "terminal-bench",
        {"results.json": TERMINAL_RUN, "run_metadata.json": TERMINAL_METADATA},
    ),
    ("livebench", LIVEBENCH),
    ("harbor", HARBOR),
    ("evalplus", {"m_eval_results.json": EVALPLUS}),
    ("evalplus", {f"{BIGCODEBENCH_NAME}_eval_results.json": BIGCODEBENCH}),
]


def variants(value: Any) -> Iterator[Any]:
    """A document with one value, at any depth, replaced by one of another type, or left out."""
    keys = range(len(value)) if isinstance(value, list) else value
    for key in list(keys) if isinstance(value, dict | list) else ():
        inner = value[key]
        for other in (None, 7, -1.5, "x", [], [[1]], {}, {"a": {"b": 1}}, True, 1e308, 10**40):
            changed = copy.copy(value)
            changed[key] = other
            yield changed
        for other in variants(inner):
            changed = copy.copy(value)
            changed[key] = other
            yield changed


@pytest.mark.parametrize(("name", "files"), HOSTILE)
def test_hostile_logs_are_converted_or_refused(
    tmp_path: Path, name: str, files: dict[str, Any]
) -> None:
    """Every sample is a record or has a reason; a log that makes no sense is a LogError."""
    read = harness_named(name).read
    for file, whole in files.items():
        for number, changed in enumerate(few_of(variants(whole), 30, f"{name} {file}")):
            root = tmp_path / f"{file.replace('/', '-')}{number}"
            found = []
            for path, document in (files | {file: changed}).items():
                written = write(root / path, document)
                head = written.read_bytes()[:HEAD_BYTES]
                if role := role_in(str(written), head, [name]):
                    found.append(FoundFile(str(written), len(head), role[1]))
            for log in logs_among(name, found).logs:
                with suppress(LogError):
                    plan, samples = read(log)
                    run = plan.run
                    converter = Converter(name, run)
                    for sample in with_every_metric(samples):
                        if not isinstance(sample, str):  # why a sample is left out
                            converter.bundle(sample)
                    assert {type(run.task), type(run.model), type(run.started)} == {str}


@pytest.mark.parametrize(("name", "files"), HOSTILE)
def test_cut_logs_are_named(tmp_path: Path, name: str, files: dict[str, Any]) -> None:
    for file, document in files.items():
        written = write(tmp_path / "logs" / file, document)
        text = written.read_bytes()
        written.write_bytes(text[: len(text) * 3 // 4])
    try:
        result = imported(tmp_path, tmp_path / "logs", from_=name)[0]
    except UsageError:
        return  # so little is left that it is no log
    assert result.bad_logs
    assert not result.logs


def test_no_harness_takes_the_logs_of_another(tmp_path: Path) -> None:
    """Logs of all harnesses in one tree are found; their records are valid, and no logs."""
    logs = tmp_path / "logs"
    for number, (name, files) in enumerate(HOSTILE):
        for file, document in files.items():
            write(logs / f"{number}-{name}" / file, document)
    result, records = imported(tmp_path, logs)
    assert not result.bad_logs
    assert sorted(log.harness for log in result.logs) == sorted(name for name, _ in HOSTILE)
    counts = fastrec.normalize(tmp_path / "records", tmp_path / "corpus").line_counts
    assert (counts.kept, counts.rejected) == (len(records), 0)
    with pytest.raises(UsageError, match="but 7 shards of records"):
        imported(tmp_path / "again", tmp_path / "records")
