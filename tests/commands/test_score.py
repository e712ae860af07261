"""`fastrec score`: new verdicts on stored answers, as a metric or in place of the old ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.score import score
from fastrec.errors import UsageError
from fastrec.scoring.rules import SHIPPED, Scorer
from tests.answers.small import Record, answer, conversation, make_corpus
from tests.running import run_here

TEXTS = ["it is 4", "A: 5", "\\boxed{4}", "4 apples, not 5", "no idea", ""]
MODELS = ("org/a", "org/b")


def _records(**more: Any) -> Iterator[Record]:
    for number, text in enumerate(TEXTS):
        for model in MODELS:
            yield answer("sums", f"question {number}", model, number % 2, **more) | {
                "input": {"raw": f"question {number}", "reference": ["4"]},
                "output": {"raw": [text]},
            }


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path, _records())


def _lines(corpus: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in fastrec.cat(corpus)]


def test_a_metric_is_added_beside_the_old_records(corpus: Path, tmp_path: Path) -> None:
    """Old records stay as they are, and each has one new record with the verdict of the rule."""
    scored = score(corpus, tmp_path / "new", rule="number")
    old = [record for record in _lines(tmp_path / "new") if "evaluation_result_id" not in record]
    new = [record for record in _lines(tmp_path / "new") if "evaluation_result_id" in record]
    assert [record["evaluation"] for record in old] == [
        record["evaluation"] for record in _lines(corpus)
    ]
    assert len(new) == len(old) == 12
    scorer = Scorer(SHIPPED["number"])
    for record in new:
        verdict = scorer.score(record["output"]["raw"][0], ["4"], [])
        assert record["evaluation_result_id"] == "number"
        assert record["evaluation"]["is_correct"] is verdict.is_right
        values = [found["extracted_value"] for found in record["answer_attribution"]]
        assert values == ([] if verdict.extracted is None else [verdict.extracted])
    assert fastrec.verify(tmp_path / "new").problems == []
    assert [model.model_id for model in scored.models] == list(MODELS)


def test_a_new_metric_has_nothing_of_the_one_that_was_scored(tmp_path: Path) -> None:
    """Of that metric, lower is better; it is primary, and no judgement."""
    metadata = {
        "lower_is_better": "true",
        "primary_metric": "true",
        "metric_kind": "bookkeeping",
        "graded": "true",
        "split": "test",
    }
    corpus = make_corpus(tmp_path, _records(evaluation_result_id="distance", metadata=metadata))
    score(corpus, tmp_path / "new", rule="number")
    new = [one for one in _lines(tmp_path / "new") if one["evaluation_result_id"] == "number"]
    assert {tuple(record["metadata"]) for record in new} == {("split",)}


def test_an_answer_of_a_conversation_names_its_turn(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "It is 4"}]
    corpus = make_corpus(tmp_path, [conversation("sums", "2+2?", "org/a", 0, messages)])
    score(corpus, tmp_path / "new", rule="number")
    [new] = [one for one in _lines(tmp_path / "new") if "evaluation_result_id" in one]
    [found] = new["answer_attribution"]
    assert (found["turn_idx"], found["source"], found["extracted_value"]) == (1, "messages", "4")


def test_the_table_counts_flips(corpus: Path) -> None:
    """Verdicts were wrong, right, wrong, right, wrong, right; by the rule right, wrong, right,
    wrong.
    """
    (first, second) = score(corpus, rule="number", dry_run=True).models
    for model in (first, second):
        assert (model.records, model.old_right, model.new_right) == (6, 3, 2)
        assert (model.to_right, model.to_wrong, model.missing) == (2, 3, 2)
        assert (model.old, model.new) == (0.5, 2 / 6)


def test_a_dry_run_shows_examples_and_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    examples = score(corpus, rule="number", dry_run=True).examples
    assert {example.kind for example in examples} == {"to right", "to wrong", "nothing extracted"}
    assert all(example.references == ["4"] for example in examples)
    assert sorted(tmp_path.rglob("*")) == before


def test_replace_keeps_the_old_verdict_in_metadata(corpus: Path, tmp_path: Path) -> None:
    score(corpus, tmp_path / "new", rule="number", replace=True)
    records = _lines(tmp_path / "new")
    assert len(records) == 12
    for record in records:
        metadata = record["metadata"]
        number = int(record["input"]["raw"].split()[1])
        is_right = number in (0, 2)
        assert record["evaluation"]["is_correct"] is is_right
        assert metadata["scored_by"] == "number"
        changed = bool(number % 2) != is_right
        assert ("original_is_correct" in metadata) is changed
        if changed:
            assert json.loads(metadata["original_score"]) == number % 2


def test_an_answer_with_several_metrics_is_scored_once(tmp_path: Path) -> None:
    records = [*_records(evaluation_result_id="f1"), *_records(evaluation_result_id="match")]
    corpus = make_corpus(tmp_path, records)
    score(corpus, tmp_path / "new", rule="number")
    names = [record["evaluation_result_id"] for record in _lines(tmp_path / "new")]
    assert sorted(names) == ["f1"] * 12 + ["match"] * 12 + ["number"] * 12


def test_the_same_bytes_with_any_number_of_jobs(corpus: Path, tmp_path: Path) -> None:
    texts = []
    for jobs in (1, 2):
        score(corpus, tmp_path / f"new-{jobs}", rule=["number", "exact"], jobs=jobs)
        texts.append(list(fastrec.cat(tmp_path / f"new-{jobs}")))
    assert texts[0] == texts[1]


def test_references_come_from_a_file(corpus: Path, tmp_path: Path) -> None:
    record = _lines(corpus)[0]
    keys = tmp_path / "keys.jsonl"
    keys.write_text(json.dumps({"hash": record["sample_hash"], "reference": ["5", "no idea"]}))
    plain = score(corpus, rule="number", dry_run=True).models[0].new_right
    number = int(record["input"]["raw"].split()[1])
    with_keys = score(corpus, rule="number", references=keys, dry_run=True).models[0].new_right
    expected = {0: plain - 1, 1: plain + 1, 2: plain - 1, 3: plain + 1, 4: plain, 5: plain}
    assert with_keys == expected[number]


def test_references_of_no_question_are_counted(corpus: Path, tmp_path: Path) -> None:
    used = _lines(corpus)[0]["sample_hash"]
    keys = tmp_path / "keys.jsonl"
    names = [{"hash": used}, {"hash": used.upper()}, {"hash": used, "evaluation": "no"}]
    lines = [json.dumps({**name, "reference": "5"}) + "\n" for name in names]
    for count, notices in (
        (1, []),
        (2, ["1 reference left out: no scored answer has the question"]),
        (3, ["2 references left out: no scored answer has the question"]),
    ):
        keys.write_text("".join(lines[:count]))
        assert score(corpus, rule="number", references=keys, dry_run=True).notices == notices


def test_errors_stay_errors_unless_only_the_score_was_missing(tmp_path: Path) -> None:
    records = [
        answer("sums", "a", "org/a", 0, error="timeout"),
        answer("sums", "b", "org/a", 0, error="the log has no score for this sample"),
    ]
    for record in records:
        record["output"] = {"raw": ["4"]}
        record["input"]["reference"] = ["4"]
    corpus = make_corpus(tmp_path, records)
    (model,) = score(corpus, tmp_path / "new", rule="number").models
    assert (model.records, model.new_right, model.errors, model.old) == (1, 1, 1, None)
    new = [record for record in _lines(tmp_path / "new") if "evaluation_result_id" in record]
    assert sorted(record.get("error", "") for record in new) == ["", "timeout"]


def test_nothing_extracted_may_be_an_error(corpus: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "n"\nextract = "number"\nmissing = "error"\n')
    (first, _) = score(corpus, rules=rules, dry_run=True).models
    assert (first.records, first.errors, first.missing) == (4, 2, 2)


def test_of_rules_with_one_name_the_first_that_matches_decides(
    corpus: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nname = "n"\nmodel = "org/a"\ncompare = "contains"\n'
        '[[rule]]\nname = "n"\nextract = "boxed"\n'
    )
    first, second = score(corpus, rules=rules, dry_run=True).models
    assert (first.new_right, second.new_right) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "score needs a rule"),
        ({"rule": "nubmer"}, "there is no rule 'nubmer'; the rules are exact, number"),
        ({"rule": "number", "references": "missing.jsonl"}, "cannot be read"),
        ({"rule": "number", "jobs": 0}, "at least one job"),
        ({"rules": "missing.toml"}, "cannot be read"),
    ],
)
def test_wrong_arguments_are_refused(corpus: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score(corpus, dry_run=True, **arguments)


def test_a_metric_that_is_there_is_not_added_again(corpus: Path, tmp_path: Path) -> None:
    score(corpus, tmp_path / "new", rule="number")
    with pytest.raises(UsageError, match="has the metric 'number' already"):
        score(tmp_path / "new", tmp_path / "newer", rule="number")


def test_an_output_is_needed_unless_it_is_a_dry_run(corpus: Path) -> None:
    with pytest.raises(UsageError, match="either an output or dry_run"):
        score(corpus, rule="number")


def test_the_manifest_is_the_same_every_time(corpus: Path, tmp_path: Path) -> None:
    """Temporary files have fixed names, and are removed."""
    manifests = []
    for _ in range(2):
        score(corpus, tmp_path / "new", rule="number", overwrite=True)
        manifests.append((tmp_path / "new" / "manifest.json").read_bytes())
    assert manifests[0] == manifests[1]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("fastrec-scored")]


def test_the_command_prints_a_table_and_examples(corpus: Path, tmp_path: Path) -> None:
    done = run_here("score", corpus, "--rule", "number", "--dry-run")
    assert done.returncode == 0
    text = done.stdout.decode()
    assert "sums · number: 2 models, 12 answers" in text
    assert "to wrong: org/a" in text
    assert "extracted: 5" in text
    written = run_here(
        "score", corpus, "--rule", "number", "-o", tmp_path / "new", "--format", "json"
    )
    models = json.loads(written.stdout)["models"]
    assert [(model["model_id"], model["old"]) for model in models] == [(m, 0.5) for m in MODELS]
    neither = run_here("score", corpus, "--rule", "number")
    assert neither.returncode == 2
    assert b"give either --output or --dry-run" in neither.stderr
    csv_text = run_here("score", corpus, "--rule", "number", "--dry-run", "--format", "csv").stdout
    assert csv_text.startswith(b"evaluation_name,rule,model_id,records")
