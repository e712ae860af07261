"""lighteval: details in Parquet of both layouts, with the results of their run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.commands.import_logs import import_logs
from fastrec.commands.import_logs.discover import logs_among
from fastrec.errors import LogError, ShardError
from fastrec.harnesses import lighteval
from fastrec.harnesses.choices import Choices
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.lighteval.sample import rule_of, rules_of
from fastrec.harnesses.log import HEAD_BYTES, FoundFile, Grouped, LogPlan
from fastrec.harnesses.recognise import role_in
from fastrec.harnesses.values import value_of
from fastrec.sources import parquet
from tests.harnesses.converting import lines_of
from tests.lazily import Library

pa: Any = Library("pyarrow")
pq: Any = Library("pyarrow.parquet")

REAL = Path(fastrec.__file__).parents[2] / "shared" / "logs" / "lighteval"
DATE = "2026-08-10T17-22-11.385681"
TASK = "arc:easy|0"


def doc(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "query": f"Question {number}?",
        "choices": [" A", " Bee", " C"],
        "gold_index": 1,
        "id": str(number),
        "task_name": TASK,
        "sampling_methods": ["LOGPROBS"],
        "original_query": None,
        "specific": None,
        **changes,
    }


def response(**changes: Any) -> dict[str, Any]:
    return {
        "input": None,
        "text": [],
        "text_post_processed": None,
        "reasonings": [],
        "logprobs": [],
        "input_tokens": [],
        "output_tokens": [],
        **changes,
    }


def generated(
    number: int, text: list[str], metric: dict[str, Any], **changes: Any
) -> dict[str, Any]:
    """A row of a task whose answers are texts."""
    asked = doc(number, choices=["4"], gold_index=0, sampling_methods=["GENERATIVE"])
    return {"doc": asked, "model_response": response(text=text, **changes), "metric": metric}


def chosen(
    number: int, logprobs: list[float], metric: dict[str, Any], **changes: Any
) -> dict[str, Any]:
    """A row of a task with choices."""
    return {
        "doc": doc(number, **changes),
        "model_response": response(logprobs=logprobs),
        "metric": metric,
    }


def write_details(
    directory: Path, rows: list[dict[str, Any]], name: str = f"details_{TASK}_{DATE}.parquet"
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_results(
    directory: Path, stated: dict[str, Any], name: str = f"results_{DATE}.json", **changes: Any
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    general = {
        "lighteval_sha": "?",
        "start_time": 208188.2,
        "model_name": "org/model",
        **changes.pop("general", {}),
    }
    document = {
        "config_general": general,
        "results": {TASK: stated, "all": stated},
        "versions": {},
        "config_tasks": {TASK: {"metrics": [], "evaluation_splits": ["test"], "version": 3}},
        "summary_tasks": {},
        **changes,
    }
    path = directory / name
    path.write_text(json.dumps(document, indent=2))
    return path


def metric_config(name: Any, function: str = "", **changes: Any) -> dict[str, Any]:
    config = {
        "metric_name": name,
        "higher_is_better": True,
        "category": "LOGPROBS",
        "corpus_level_fn": "mean",
    }
    return {
        "config_tasks": {TASK: {"metrics": [{**config, "sample_level_fn": function, **changes}]}}
    }


def grouped(*paths: Path) -> Grouped:
    files = []
    for path in paths:
        role = role_in(str(path), path.read_bytes()[:HEAD_BYTES], ["lighteval"])
        assert role is not None
        files.append(FoundFile(str(path), path.stat().st_size, role[1]))
    return logs_among("lighteval", files)


def read(*paths: Path) -> tuple[LogPlan, list[dict[str, Any]]]:
    """Read the one log of some files; all its records are valid."""
    found = grouped(*paths)
    assert not found.bad
    (log,) = found.logs
    plan = lighteval.plan(log)
    converter = Converter("lighteval", plan.run)
    lines = [
        line
        for piece in plan.slices
        for sample in lighteval.samples(log, plan.run, piece)
        for _, line in lines_of(converter, sample)
    ]
    for line in lines:
        assert fastrec.judge(line, schema="0.3.0").valid, line
    return plan, [json.loads(line) for line in lines]


def records_of(tmp_path: Path, rows: list[dict[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    return read(write_details(tmp_path, rows), write_results(tmp_path, {}, **changes))[1]


# Rows of the layout up to 0.10.
GENERATIVE: dict[str, Any] = {
    "example": "Question?",
    "instruction": "",
    "full_prompt": "Shots. Question?",
    "predictions": ["four", "4"],
    "choices": [],
    "gold": ["4"],
    "gold_index": [],
    "metrics": {"em": 1.0},
    "input_tokens": [[1, 2, 3], [1, 2, 3]],
    "cont_tokens": [[4], [5, 6]],
    "specifics": None,
}
CHOICES: dict[str, Any] = {
    **GENERATIVE,
    "predictions": [-1.0, -1.2, -9.0],
    "choices": [" A", " Bee", " C"],
    "gold": [],
    "gold_index": [1],
    "metrics": {"acc": 0.0, "acc_norm": 1.0},
}


class TestGeneration:
    def test_a_row_becomes_one_record_per_metric(self, tmp_path: Path):
        """Everything of the row is where it belongs."""
        row = generated(
            7,
            ["<think>hm</think>4", "5"],
            {"em": 1, "f1": 0.5},
            input="Solve: Question 7?",
            text_post_processed=["4", "5"],
            reasonings=["hm", None],
            input_tokens=[1, 2, 3],
            output_tokens=[[1, 2], [3]],
        )
        first, second = records_of(tmp_path, [row], general={"lighteval_sha": "abc123"})
        assert first["evaluation_id"] == f"{TASK}/org/model/2026-08-10T17:22:11.385681"
        assert (first["evaluation_name"], first["model_id"], first["sample_id"]) == (
            TASK,
            "org/model",
            "7",
        )
        assert [first["evaluation_result_id"], second["evaluation_result_id"]] == ["em", "f1"]
        assert first["input"] == {
            "raw": "Question 7?",
            "formatted": "Solve: Question 7?",
            "reference": ["4"],
        }
        assert first["output"] == {
            "raw": ["<think>hm</think>4", "5"],
            "reasoning_trace": ["hm", ""],
        }
        assert [answer["extracted_value"] for answer in first["answer_attribution"]] == ["4", "5"]
        assert {answer["extraction_method"] for answer in first["answer_attribution"]} == {
            "text_post_processed"
        }
        assert first["evaluation"] == {"score": 1.0, "is_correct": True}
        assert second["evaluation"] == {"score": 0.5, "is_correct": False}
        assert first["token_usage"] == {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}
        assert first["metadata"] == {
            "harness": "lighteval",
            "harness_version": "abc123",
            "split": "test",
            "task_version": "3",
            "num_fewshot": "0",
        }

    def test_the_original_query_is_the_question(self, tmp_path: Path):
        row = generated(1, ["4"], {"em": 1})
        row["doc"]["original_query"] = "What is 2 + 2?"
        assert records_of(tmp_path, [row])[0]["input"]["raw"] == "What is 2 + 2?"

    def test_messages_are_a_prompt_as_json(self, tmp_path: Path):
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 2 — ?"},
        ]
        (record,) = records_of(tmp_path, [generated(1, ["4"], {"em": 1}, input=messages)])
        assert json.loads(record["input"]["formatted"]) == messages

    def test_what_a_metric_extracts_is_attributed(self, tmp_path: Path):
        row = generated(1, [r"It is \boxed{4}."], {"extractive_match": 1.0})
        row["doc"]["specific"] = {
            "extracted_predictions": ["4"],
            "extracted_golds": ["4"],
            "other": 1,
        }
        (record,) = records_of(tmp_path, [row])
        assert record["output"]["raw"] == [r"It is \boxed{4}."]
        (answer,) = record["answer_attribution"]
        assert (answer["extracted_value"], answer["extraction_method"]) == (
            "4",
            "extracted_predictions",
        )

    def test_text_that_was_not_changed_is_not_attributed(self, tmp_path: Path):
        (record,) = records_of(
            tmp_path, [generated(1, ["4"], {"em": 1}, text_post_processed=["4"])]
        )
        assert record["answer_attribution"] == []

    def test_several_references(self, tmp_path: Path):
        row = generated(1, ["4"], {"em": 1})
        row["doc"] |= {"choices": ["4", "four", "5"], "gold_index": [0, 1]}
        (record,) = records_of(tmp_path, [row])
        assert record["input"]["reference"] == ["4", "four"]
        assert "choices" not in record["input"]
        assert "reference_index" not in record["metadata"]


def pick(choices: Choices, metric: str, rule: Any, score: float) -> int | None:
    return choices.pick(rules_of(metric, rule), score, is_accuracy=metric.startswith("acc"))


class TestChoices:
    def test_choices_are_texts_and_indices_are_metadata(self, tmp_path: Path):
        (record,) = records_of(tmp_path, [chosen(1, [-2.0, -1.0, -3.0], {"acc": 1})])
        assert record["input"] == {
            "raw": "Question 1?",
            "reference": [" Bee"],
            "choices": [" A", " Bee", " C"],
        }
        assert record["output"] == {"raw": [" Bee"]}
        assert record["metadata"]["reference_index"] == "1"
        assert record["metadata"]["choice_index"] == "1"
        assert json.loads(record["metadata"]["log_likelihoods"]) == [-2.0, -1.0, -3.0]

    def test_each_metric_has_its_own_choice(self, tmp_path: Path):
        """The shortest choice has the highest log-probability, but not the highest per character."""
        acc, norm = records_of(tmp_path, [chosen(1, [-1.0, -1.2, -9.0], {"acc": 0, "acc_norm": 1})])
        assert (acc["output"]["raw"], acc["metadata"]["choice_index"]) == ([" A"], "0")
        assert (norm["output"]["raw"], norm["metadata"]["choice_index"]) == ([" Bee"], "1")

    def test_the_configuration_says_how_a_metric_normalizes(self, tmp_path: Path):
        function = "LoglikelihoodAcc(logprob_normalization=None)"
        (record,) = records_of(
            tmp_path,
            [chosen(1, [-1.0, -1.2, -9.0], {"acc_norm": 0})],
            **metric_config("acc_norm", function),
        )
        assert record["output"]["raw"] == [" A"]

    def test_several_correct_choices(self, tmp_path: Path):
        (record,) = records_of(
            tmp_path, [chosen(1, [-1.0, -2.0, -3.0], {"acc": 1}, gold_index=[0, 2])]
        )
        assert record["input"]["reference"] == [" A", " C"]
        assert record["metadata"]["reference_index"] == "0,2"

    def test_log_probabilities_of_no_choices_are_no_answer(self, tmp_path: Path):
        (record,) = records_of(tmp_path, [chosen(1, [-42.0], {"ppl": 3.5})])
        assert record["output"] == {"raw": []}
        assert "choice_index" not in record["metadata"]
        assert record["metadata"]["log_likelihood"] == "-42.0"

    @pytest.mark.parametrize("index", [-1, 3, None])
    def test_an_index_of_no_choice_is_no_reference(self, tmp_path: Path, index: int | None):
        (record,) = records_of(
            tmp_path, [chosen(1, [-1.0, -2.0, -3.0], {"acc": 0}, gold_index=index)]
        )
        assert record["input"]["reference"] == []

    @pytest.mark.parametrize(
        ("metric", "rule", "score", "picked"),
        [
            ("acc", None, 0, 0),
            ("acc_norm", None, 1, 2),  # by characters, -5 / 6 is greatest
            ("acc_norm", None, 0, None),  # no way to normalize picks a wrong one
            ("acc_norm_token", None, 0, 1),
            ("mrr", None, 1, 0),
            ("acc", None, 1, None),
            ("acc_norm_pmi", None, 0, 1),
            ("acc", "pmi", 0, 1),
        ],
    )
    def test_pick(self, metric: str, rule: Any, score: float, picked: int | None):
        choices = Choices(
            texts=[" A", "Be", "Centre"],
            likelihoods=[-2.0, -3.0, -5.0],
            correct=[2],
            unconditional=[-1.0, -9.0, -5.0],
            tokens=[1, 3, 2],
        )
        assert pick(choices, metric, rule, score) == picked

    def test_a_first_space_may_not_count(self):
        """Two metrics are called acc_norm; the score tells which one it was."""
        choices = Choices(texts=[" A", "Be"], likelihoods=[-1.9, -2.0], correct=[1])
        assert pick(choices, "acc_norm", None, 0) == 0
        assert pick(choices, "acc_norm", None, 1) == 1

    def test_numpy_picks_a_value_that_is_no_number(self):
        assert pick(Choices(texts=["a", "b"], likelihoods=[-1.0, math.nan]), "acc", None, 0) == 1

    def test_nothing_to_pick_from(self):
        assert pick(Choices(texts=["a"], likelihoods=[-1.0, -2.0]), "acc", None, 0) is None
        assert pick(Choices(texts=["", "b"], likelihoods=[-1.0, -2.0]), "acc_norm", None, 0) is None
        assert (
            pick(Choices(texts=["a", "b"], likelihoods=[-1.0, -2.0]), "acc_norm_pmi", None, 0)
            is None
        )

    @pytest.mark.parametrize(
        ("function", "rule"),
        [
            (
                (
                    "LoglikelihoodAcc(logprob_normalization=LogProbCharNorm(name='norm', "
                    "ignore_first_space=False))"
                ),
                "characters",
            ),
            (
                "LoglikelihoodAcc(logprob_normalization=LogProbTokenNorm(name='norm_token'))",
                "tokens",
            ),
            ("LoglikelihoodAcc(logprob_normalization=LogProbPMINorm(name='norm_pmi'))", "pmi"),
            ("compute", None),
        ],
    )
    def test_normalization(self, function: str, rule: str | None):
        assert rule_of(function) == rule


class TestScores:
    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (math.nan, "the value of m is not a number: NaN"),
            (None, "the log has no value of m"),
            ("good", "the value of m is not a number: good"),
            ([1.0, 0.0], "the value of m is not a number: [1.0,0.0]"),
            ({"golds": ["4"], "preds": ["5"]}, "m has a value for all samples only, not for each"),
            ({"golds": [1], "preds": 1}, "m has a value for all samples only, not for each"),
        ],
    )
    def test_no_number_is_an_error(self, tmp_path: Path, value: Any, error: str):
        (record,) = records_of(tmp_path, [generated(1, ["4"], {"m": value})])
        assert record["error"] == error
        assert record["evaluation"] == {"score": 0.0, "is_correct": False}

    def test_a_dict_is_a_metric_per_key(self, tmp_path: Path):
        records = records_of(
            tmp_path, [generated(1, ["4"], {"judge": {"style": 0.5, "truth": 1.0}})]
        )
        assert {r["evaluation_result_id"]: r["evaluation"]["score"] for r in records} == {
            "judge:style": 0.5,
            "judge:truth": 1.0,
        }

    def test_a_row_has_the_metrics_of_its_requests(self, tmp_path: Path):
        """A task with both kinds of requests has two rows per question, and each row has columns of
        the other kind.
        """
        both = ["GENERATIVE", "LOGPROBS"]
        rows = [
            generated(1, ["4"], {"em": 1, "acc": None}),
            chosen(1, [-1.0, -2.0, -3.0], {"em": None, "acc": 0}),
        ]
        rows[0]["doc"]["sampling_methods"] = rows[1]["doc"]["sampling_methods"] = both
        config = metric_config("acc")
        config["config_tasks"][TASK]["metrics"].append(
            {"metric_name": "em", "category": "GENERATIVE"}
        )
        records = records_of(tmp_path, rows, **config)
        assert [record["evaluation_result_id"] for record in records] == ["em", "acc"]
        assert [record["output"]["raw"] for record in records] == [["4"], [" A"]]

    def test_lower_is_better(self, tmp_path: Path):
        config = metric_config(
            ["wer", "em"], higher_is_better={"wer": False, "em": True}, category="GENERATIVE"
        )
        records = records_of(tmp_path, [generated(1, ["4"], {"wer": 1, "em": 1})], **config)
        assert [record["evaluation"]["is_correct"] for record in records] == [False, True]


class TestAggregates:
    def test_means_are_compared_and_others_are_not(self, tmp_path: Path):
        config = metric_config(["em", "best", "bleu", "gone"], category="GENERATIVE")
        config["config_tasks"][TASK]["metrics"][0]["corpus_level_fn"] = {
            "em": "mean",
            "best": "max",
            "gone": "mean",
        }
        stated = {"em": 0.5, "em_stderr": 0.1, "best": 1.0, "bleu": math.nan, "gone": 3.0}
        rows = [
            generated(1, ["4"], {"em": 1, "best": 1, "bleu": 0}),
            generated(2, ["5"], {"em": 0, "best": 0, "bleu": 0}),
        ]
        plan, _ = read(write_details(tmp_path, rows), write_results(tmp_path, stated, **config))
        assert [(one.metric, one.value) for one in plan.aggregates] == [("em", 0.5)]
        assert plan.not_compared == {
            "em_stderr": "a standard error, not a mean",
            "best": "not a mean but max",
            "bleu": "not a number",
            "gone": "the details have no metric of this name",
        }

    def test_the_rows_add_up(self, tmp_path: Path):
        rows = [generated(number, ["4"], {"em": int(number % 3 == 0)}) for number in range(9)]
        write_details(tmp_path / "logs", rows)
        write_results(tmp_path / "logs", {"em": 3 / 9, "em_stderr": 0.1})
        result = import_logs(tmp_path / "logs", tmp_path / "out", from_="lighteval")
        (log,) = result.logs
        assert (log.samples, log.records, log.disagreements) == (9, 9, [])
        assert [one.recomputed for one in log.comparisons] == [3 / 9]
        lines = (
            zstandard.ZstdDecompressor()
            .decompressobj()
            .decompress((tmp_path / "out" / log.file).read_bytes())
            .splitlines()
        )
        assert [json.loads(line)["sample_id"] for line in lines] == [
            str(number) for number in range(9)
        ]


class TestFlatLayout:
    """Versions up to 0.10."""

    def test_generation(self, tmp_path: Path):
        (record,) = records_of(tmp_path, [GENERATIVE])
        assert record["input"] == {
            "raw": "Question?",
            "formatted": "Shots. Question?",
            "reference": ["4"],
        }
        assert record["output"] == {"raw": ["four", "4"]}
        assert record["sample_id"] == "0"
        assert record["token_usage"] == {"input_tokens": 6, "output_tokens": 3, "total_tokens": 9}

    @pytest.mark.parametrize(
        "predictions",
        [CHOICES["predictions"], [[-1.0, 0.0], [-1.2, 1.0], [-9.0, 0.0]]],
        ids=["numbers", "pairs"],
    )
    def test_choices(self, tmp_path: Path, predictions: Any):
        acc, norm = records_of(tmp_path, [{**CHOICES, "predictions": predictions}])
        assert acc["input"]["reference"] == [" Bee"]
        assert (acc["output"]["raw"], norm["output"]["raw"]) == ([" A"], [" Bee"])

    @pytest.mark.parametrize("row", [GENERATIVE, CHOICES], ids=["generation", "choices"])
    def test_all_values_as_text_give_the_same(self, tmp_path: Path, row: dict[str, Any]):
        """Some versions write every value with `str`; then tokens are not counted."""
        plain = records_of(tmp_path / "plain", [row])
        spelled = records_of(
            tmp_path / "spelled", [{key: str(value) for key, value in row.items()}]
        )
        for record in plain:
            record.pop("token_usage")
        assert plain == spelled

    def test_pairs_as_text(self, tmp_path: Path):
        row = {key: str(value) for key, value in CHOICES.items()}
        row["predictions"] = "[(-1.0, False), (-1.2, True), (-inf, False)]"
        row["metrics"] = "{'acc': 0, 'acc_norm': np.float64(1.0), 'em': nan}"
        records = records_of(tmp_path, [row])
        assert [record["evaluation"]["score"] for record in records] == [0.0, 1.0, 0.0]
        assert [record["output"]["raw"] for record in records] == [[" A"], [" Bee"], [" A"]]
        assert records[2]["error"] == "the value of em is not a number: NaN"

    def test_log_probabilities_without_the_question_follow(self, tmp_path: Path):
        row = {
            **CHOICES,
            "predictions": [-1.0, -1.2, -9.0, -0.1, -0.2, -9.5],
            "metrics": {"acc_norm_pmi": 0.0},
        }
        (record,) = records_of(tmp_path, [row])
        assert record["output"]["raw"] == [" C"]
        assert json.loads(record["metadata"]["log_likelihoods"]) == [-1.0, -1.2, -9.0]

    def test_the_questions_tell_the_task(self, tmp_path: Path):
        """The rows do not name it, and the files were renamed.

        The results have a hash of all questions.
        """
        rows = [{**GENERATIVE, "example": text} for text in ("b", "a")]
        hashes = "".join(sorted(xxhash.xxh64(text.encode()).hexdigest() for text in ("a", "b")))
        summary = {
            "harness|arc|25": {
                "hashes": {"hash_examples": xxhash.xxh64(hashes.encode()).hexdigest()}
            }
        }
        results = {
            "harness|gsm8k|5": {"em": 0.2},
            "harness|arc|25": {"em": 1.0},
            "all": {"em": 0.6},
        }
        plan, records = read(
            write_details(tmp_path, rows, "renamed.parquet"),
            write_results(tmp_path, {}, results=results, summary_tasks=summary),
        )
        assert plan.run.task == "harness|arc|25"
        assert plan.run.metadata["num_fewshot"] == "25"
        assert [record["sample_id"] for record in records] == ["0", "1"]

    def test_the_name_tells_the_task_otherwise(self, tmp_path: Path):
        details = write_details(tmp_path, [GENERATIVE], f"details_harness_arc_25_{DATE}.parquet")
        results = write_results(tmp_path, {}, results={"harness|gsm8k|5": {}, "harness|arc|25": {}})
        assert read(details, results)[0].run.task == "harness|arc|25"

    def test_a_task_that_nothing_tells(self, tmp_path: Path):
        (log,) = grouped(
            write_details(tmp_path, [GENERATIVE], "x.parquet"), write_results(tmp_path, {})
        ).logs
        with pytest.raises(LogError, match="do not name their task"):
            lighteval.plan(log)


class TestLiterals:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("[1, -2.5, None, True]", [1, -2.5, None, True]),
            ("{'a': (1, [2])}", {"a": [1, [2]]}),
            ("[array([0.5, 1.0]), tensor(3, dtype=torch.int64)]", [[0.5, 1.0], 3]),
            ("[Question] plain text", "[Question] plain text"),
            ("__import__('os').getcwd()", "__import__('os').getcwd()"),
            ("[open]", "[open]"),
            ("", ""),
            (3, 3),
        ],
    )
    def test_value_of(self, text: Any, value: Any):
        assert value_of(text) == value

    @pytest.mark.parametrize(
        "text",
        ["[" * 10_000, "-" * 10_000 + "1", "9" * 10_000, "[1]+" * 10_000 + "[1]", "{**{}}", "'\0'"],
    )
    def test_hostile_text_is_text(self, text: str):
        assert value_of(text) == text

    @given(st.text("[](){}'\"-,:.0123456789naifTruNoe \\\n", max_size=40))
    def test_any_text(self, text: str):
        value_of(text)


class TestPairing:
    def test_trees_of_several_runs(self, tmp_path: Path):
        """Results and details are in different directories; the date in the names joins them."""
        pairs = {}
        for model, date in [
            ("one", "2026-01-01T00-00-00.1"),
            ("one", "2026-01-02T00-00-00.1"),
            ("two", DATE),
        ]:
            details = tmp_path / "details" / "org" / model / date
            results = tmp_path / "results" / "org" / model
            path = write_details(
                details, [generated(1, ["4"], {"em": 1})], f"details_{TASK}_{date}.parquet"
            )
            pairs[str(path)] = str(write_results(results, {"em": 1.0}, f"results_{date}.json"))
        found = grouped(*map(Path, pairs), *map(Path, pairs.values()))
        assert {log.path: log.files[1].path for log in found.logs} == pairs
        assert not found.bad

    def test_nearest_results_with_the_task(self, tmp_path: Path):
        details = write_details(
            tmp_path / "a" / "details", [generated(1, ["4"], {"em": 1})], "x.parquet"
        )
        near = write_results(tmp_path / "a", {"em": 1.0}, "results.json")
        write_results(tmp_path / "b", {"em": 0.0}, "results.json")
        other = write_results(
            tmp_path / "a", {}, "results_2.json", results={"gsm8k|0": {"em": 1.0}}
        )
        found = grouped(details, tmp_path / "b" / "results.json", other, near)
        assert [file.path for file in found.logs[0].files] == [str(details), str(near)]
        assert len(found.others) == 2

    def test_copies_of_results_are_no_problem(self, tmp_path: Path):
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})])
        results = write_results(tmp_path, {"em": 1.0})
        copy = write_results(tmp_path, {"em": 1.0}, f"results_copy_{DATE}.json")
        assert len(grouped(details, copy, results).logs) == 1

    @pytest.mark.parametrize(
        ("name", "stated", "reason"),
        [
            (
                "results_2025-01-01T00-00-00.json",
                TASK,
                "the results found are of other runs than 2026-08-10T17:22:11",
            ),
            (f"results_{DATE}.json", "gsm8k|0", "no results found here have its task arc:easy|0"),
        ],
    )
    def test_results_of_other_runs(self, tmp_path: Path, name: str, stated: str, reason: str):
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})])
        found = grouped(details, write_results(tmp_path, {}, name, results={stated: {}}))
        assert not found.logs
        assert reason in found.bad[0].reason

    def test_details_alone(self, tmp_path: Path):
        found = grouped(write_details(tmp_path, [generated(1, ["4"], {"em": 1})]))
        assert "give the results_<date>.json of its run, too" in found.bad[0].reason

    def test_results_alone(self, tmp_path: Path):
        assert "--save-details" in grouped(write_results(tmp_path, {})).bad[0].reason

    def test_two_runs_without_dates(self, tmp_path: Path):
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})], "x.parquet")
        paths = [
            write_results(tmp_path, {}, f"{name}.json", general={"model_name": name})
            for name in "ab"
        ]
        assert (
            grouped(details, *paths)
            .bad[0]
            .reason.startswith("a.json and b.json could both be its results")
        )

    @pytest.mark.parametrize(
        ("name", "clock", "started"),
        [
            ("results.json", 1_700_000_000.5, "2023-11-14T22:13:20.500000+00:00"),
            (f"results_{DATE}.json", 12.5, "2026-08-10T17:22:11.385681"),
            ("results_2026-08-10T17:22:11.385681.json", 12.5, "2026-08-10T17:22:11.385681"),
            ("results.json", 12.5, "12.5"),
        ],
    )
    def test_start(self, tmp_path: Path, name: str, clock: float, started: str):
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})], "x.parquet")
        assert (
            read(details, write_results(tmp_path, {}, name, general={"start_time": clock}))[
                0
            ].run.started
            == started
        )

    def test_the_model_of_the_configuration(self, tmp_path: Path):
        general = {"model_name": None, "model_config": {"model_name": "org/other"}}
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})])
        assert (
            read(details, write_results(tmp_path, {}, general=general))[0].run.model == "org/other"
        )

    @pytest.mark.parametrize(
        ("general", "reason"),
        [({"model_name": None}, "do not name the model"), ({"start_time": None}, "have no date")],
    )
    def test_what_no_run_can_lack(self, tmp_path: Path, general: dict[str, Any], reason: str):
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})], "x.parquet")
        (log,) = grouped(details, write_results(tmp_path, {}, "results.json", general=general)).logs
        with pytest.raises(LogError, match=reason):
            lighteval.plan(log)

    def test_damaged_results_are_named(self, tmp_path: Path):
        path = tmp_path / "results.json"
        path.write_text('{"config_general": {"model_name": "m"}, "results": ')
        assert "damaged" in grouped(path).bad[0].reason


class TestRoles:
    def test_other_parquet_and_json_are_not_ours(self, tmp_path: Path):
        write_details(tmp_path, [{"a": 1, "doc": "x"}], "a.parquet")
        head = b'{"results": {"a": {}}, "configs": {"a": {}}, "lm_eval_version": "0.4.9"}'
        table = tmp_path / "a.parquet"
        for path, text in ((str(table), table.read_bytes()), ("x.json", head), ("empty", b"")):
            assert role_in(path, text, ["lighteval"]) is None

    def test_results_as_a_table_are_not_needed(self, tmp_path: Path):
        table = write_details(
            tmp_path,
            [{"config_general": "{}", "results": "{}", "versions": "{}"}],
            "results.parquet",
        )
        details = write_details(tmp_path, [generated(1, ["4"], {"em": 1})])
        assert grouped(table, details, write_results(tmp_path, {})).others == [str(table)]

    # A process that imports pyarrow itself can do without a fork: only long runs try it.
    @pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.long_only), 2])
    def test_only_workers_import_pyarrow(self, tmp_path: Path, jobs: int):
        """A process with threads must not fork. With one job, this process is the worker."""
        write_details(
            tmp_path / "logs", [generated(number, ["4"], {"em": 1}) for number in range(3)]
        )
        write_results(tmp_path / "logs", {"em": 1.0})
        write_details(tmp_path / "logs", [{"a": 1}], "other.parquet")
        code = (
            "import sys, fastrec; from fastrec.limits import Limits, use_limits\n"
            "imported = use_limits(Limits(small_input=0))(fastrec.import_logs)\n"
            f"done = imported({str(tmp_path / 'logs')!r}, {str(tmp_path / 'out')!r}, jobs={jobs})\n"
            "print(len(done.logs), done.bad_logs, done.other_files, 'pyarrow' in sys.modules)"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert printed == f"1 [] 1 {jobs == 1}\n"

    def test_a_hint_does_not_import_pyarrow(self, tmp_path: Path):
        path = write_details(tmp_path, [generated(1, ["4"], {"em": 1})])
        code = (
            "import sys; from fastrec.harnesses.recognise import harness_of\n"
            f"print(harness_of({str(path)!r}), 'pyarrow' in sys.modules)"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert printed == "lighteval False\n"

    def test_the_footer_of_many_columns_and_groups(self, tmp_path: Path):
        path = tmp_path / "wide.parquet"
        table = pa.table({f"column {number}": ["same"] * 40 for number in range(40)})
        pq.write_table(table, path, row_group_size=1)
        survey = parquet.survey(str(path))
        assert list(survey.columns) == table.column_names
        assert survey.rows == 40
        assert parquet.first_task(str(path)) == ""


class TestDamage:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        rows = [
            generated(number, ["four " * 50, str(number)], {"em": number % 2})
            for number in range(40)
        ]
        write_details(tmp_path / "logs", rows)
        write_results(tmp_path / "logs", {"em": 0.5})
        return tmp_path / "logs"

    def test_without_pyarrow(self, logs: Path, monkeypatch: pytest.MonkeyPatch):
        """The magic bytes are enough to say which package is missing."""
        monkeypatch.setattr("fastrec.errors.find_spec", lambda _: None)
        (bad,) = grouped(*logs.iterdir()).bad
        assert bad.path == str(next(logs.glob("*.parquet")))
        assert bad.reason.endswith("pip install pyarrow")

    def test_a_cut_file_is_named(self, logs: Path):
        path = next(logs.glob("*.parquet"))
        data = path.read_bytes()
        for size in (4, 11, 12, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            (bad,) = grouped(*logs.iterdir()).bad
            assert bad.path == str(path)
            assert "cut or damaged" in bad.reason

    def test_no_rows(self, logs: Path):
        path = next(logs.glob("*.parquet"))
        pq.write_table(pq.read_table(path).slice(0, 0), path)
        (log,) = grouped(*logs.iterdir()).logs
        with pytest.raises(LogError, match="no rows"):
            lighteval.plan(log)

    def test_rows_of_another_task(self, tmp_path: Path):
        rows = [generated(1, ["4"], {"em": 1}), generated(2, ["4"], {"em": 1})]
        rows[1]["doc"]["task_name"] = "gsm8k|0"
        with pytest.raises(
            LogError, match=r"row 2 is of task 'gsm8k\|0', the first one of 'arc:easy\|0'"
        ):
            read(write_details(tmp_path, rows), write_results(tmp_path, {}))

    @pytest.mark.parametrize("layout", ["structs", "flat"])
    def test_columns_of_other_types(self, tmp_path: Path, layout: str):
        """Whatever the types, there is a record or a LogError."""
        rows: list[dict[str, Any]] = [
            {"doc": 1, "model_response": 2, "metric": 3},
            {
                "doc": {"query": 1, "choices": 2, "gold_index": "x"},
                "model_response": {"text": 3},
                "metric": {"em": "x"},
            },
            {
                "doc": {"query": [1], "choices": [[1]], "gold_index": [0]},
                "model_response": {"logprobs": "x"},
                "metric": 1,
            },
        ]
        if layout == "flat":
            rows = [
                {"example": 1, "metrics": 2, "predictions": 3},
                {"example": None, "metrics": {"em": None}, "predictions": [[None]]},
                {"example": "a", "metrics": "{'em': [1", "predictions": "[(1,"},
            ]
        for number, row in enumerate(rows):
            directory = tmp_path / str(number)
            read(write_details(directory, [row]), write_results(directory, {}))

    def test_bytes_that_are_no_text(self, tmp_path: Path):
        row = generated(1, ["Xyzzy"], {"em": 1})
        path = write_details(tmp_path, [row])
        data = path.read_bytes()
        assert b"Xyzzy" in data
        path.write_bytes(data.replace(b"Xyzzy", b"X\xff\xfezy"))
        with pytest.raises(ShardError, match="this Parquet file is damaged"):
            read(path, write_results(tmp_path, {}))

    @given(data=st.data())
    def test_changed_bytes(self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory):
        """A changed byte gives records or an error of ours, or a file that is not ours."""
        directory = tmp_path_factory.mktemp("changed")
        rows = [generated(number, ["four", "4"], {"em": 1}) for number in range(3)]
        path = write_details(directory, rows)
        results = write_results(directory, {})
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        if (
            lighteval.role_of(bytes(content[:HEAD_BYTES]), str(path)) == "details"
            and not grouped(path, results).bad
        ):
            with suppress(LogError, ShardError):
                read(path, results)

    @given(tail=st.binary(max_size=200))
    def test_random_footers(self, tail: bytes, tmp_path_factory: pytest.TempPathFactory):
        path = tmp_path_factory.mktemp("random") / "x.parquet"
        path.write_bytes(b"PAR1" + tail + len(tail).to_bytes(4, "little") + b"PAR1")
        with suppress(ShardError):
            parquet.survey(str(path))


class TestSlices:
    def test_slices_are_row_groups_and_batches_are_small(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """How a file is cut changes no record; rows are numbered across slices."""
        rows = [{**GENERATIVE, "example": f"q{number}"} for number in range(50)]
        path = tmp_path / f"details_{TASK}_{DATE}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
        results = write_results(tmp_path, {})
        whole = read(path, results)
        monkeypatch.setattr("fastrec.sources.parquet._SLICE_BYTES", 1)
        monkeypatch.setattr("fastrec.sources.parquet._BATCH_BYTES", 1)
        plan, records = read(path, results)
        assert (len(whole[0].slices), len(plan.slices)) == (1, 8)
        assert records == whole[1]
        assert [record["sample_id"] for record in records] == [str(number) for number in range(50)]

    def test_two_jobs_give_the_same_shards(self, tmp_path: Path):
        for number in range(3):
            directory = tmp_path / "logs" / str(number)
            write_details(directory, [generated(row, ["4"], {"em": row % 2}) for row in range(20)])
            write_results(directory, {"em": 0.5}, general={"model_name": f"org/{number}"})
        shards = []
        for jobs in (1, 2):
            out = tmp_path / f"out{jobs}"
            import_logs(tmp_path / "logs", out, from_="lighteval", jobs=jobs)
            shards.append({path.name: path.read_bytes() for path in out.glob("*.zst")})
        assert len(shards[0]) == 3
        assert shards[0] == shards[1]


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not beside the checkout")
class TestReal:
    def test_anli(self):
        """The files were renamed; the details have no date, but name their task."""
        plan, records = read(*sorted(REAL.iterdir()))
        assert (
            plan.run.evaluation_id == "anli:r1|0/eee-smoke/dummy-model/2026-08-10T17:22:11.385681"
        )
        assert [(record["sample_id"], record["output"]["raw"]) for record in records] == [
            ("776", [" Neither"]),
            ("507", [" True"]),
        ]
        assert all(record["input"]["reference"] == [" False"] for record in records)

    def test_import(self, tmp_path: Path):
        (log,) = import_logs(REAL, tmp_path / "out", from_="lighteval").logs
        assert (log.samples, log.records, log.errors, log.disagreements) == (2, 2, 0, [])
        assert [one.name for one in log.comparisons] == ["acc"]


def test_ids_of_several_splits_count_from_0_in_each(tmp_path: Path) -> None:
    """So the number of the row is the id."""
    rows = []
    for split in ("validation", "test"):
        for number in range(2):
            row = generated(number, ["4"], {"em": 1.0})
            row["doc"] |= {"id": str(number), "query": f"Question {number} of {split}?"}
            rows.append(row)
    details = write_details(tmp_path, rows)
    task = {"metrics": [], "evaluation_splits": ["validation", "test"], "version": 0}
    written = write_results(tmp_path, {"em": 1.0, "em_stderr": 0.0}, config_tasks={TASK: task})
    _, records = read(details, written)
    assert [record["sample_id"] for record in records] == ["0", "1", "2", "3"]
