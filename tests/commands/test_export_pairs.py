"""`export --format pairs`: aggregates that are valid and agree with their rows, and rows that give
the same corpus.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import fastrec
from fastrec.commands.export.pairs import _portable
from fastrec.errors import UsageError
from tests.docs.reference import ROOT
from tests.running import run_command
from tests.samples import sample_of

DETAILS = """
retrieved_timestamp = "1763337600"
[source_metadata]
source_organization_name = "Acme"
evaluator_relationship = "first_party"
[eval_library]
name = "mine"
version = "7"
[metrics."*"]
lower_is_better = false
[models."solo"]
developer = "us"
[models."*".additional_details]
deployment_type = "self_deployed"
model_availability = "open_weights"
[evaluations."sums".source_data]
dataset_name = "sums"
source_type = "hf_dataset"
hf_repo = "org/sums"
"""
SCHEMA = ROOT / "fastrec" / "schemas" / "files" / "aggregate_0.3.0.schema.json"


def record(number: int, score: float, **fields: Any) -> dict[str, Any]:
    made = sample_of(
        "0.3.0", sample_id=f"q{number}", evaluation={"score": score, "is_correct": score == 1}
    )
    made |= {
        "evaluation_name": "sums",
        "model_id": "org/m",
        "evaluation_id": "sums/org/m/2026-11-16",
    }
    made["input"] = {"raw": f"question {number} \u2028\u2029\x85 é", "reference": ["4"]}
    del made["sample_hash"], made["error"]
    return made | fields


def corpus_of(folder: Path, records: list[dict[str, Any]]) -> Path:
    (folder / "in.jsonl").write_text(
        "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)
    )
    fastrec.normalize(folder / "in.jsonl", folder / "corpus", schema="0.3.0")
    return folder / "corpus"


def exported(
    corpus: Path, folder: Path, details: str = DETAILS, **options: Any
) -> dict[str, dict[str, Any]]:
    """Export pairs, and return the aggregates by path."""
    (folder / "details.toml").write_text(details)
    fastrec.export(
        corpus, folder / "store", format="pairs", details=folder / "details.toml", **options
    )
    paths = sorted((folder / "store" / "data").rglob("*.json"))
    return {str(path.relative_to(folder / "store")): json.loads(path.read_text()) for path in paths}


def parts_of(corpus: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in corpus.glob("part-*.jsonl*")}


def test_scores_are_computed_from_the_rows(tmp_path: Path) -> None:
    """Rows with an error do not count; the standard error is that of the mean."""
    scores = [1.0, 0.0, 0.25, 1.0]
    records = [
        record(number, score, evaluation_result_id="f1") for number, score in enumerate(scores)
    ]
    records += [record(9, 0.0, evaluation_result_id="f1", error="timeout")]
    records += [record(number, 1.0, evaluation_result_id="em") for number in range(2)]
    [(path, found)] = exported(corpus_of(tmp_path, records), tmp_path).items()
    assert path.startswith("data/sums/org/m/")
    em, f1 = found["evaluation_results"]
    assert (em["evaluation_result_id"], f1["evaluation_result_id"]) == ("em", "f1")
    assert f1["score_details"]["score"] == statistics.fmean(scores)
    spread = f1["score_details"]["uncertainty"]
    assert spread["standard_error"]["value"] == pytest.approx(statistics.stdev(scores) / 2)
    assert (spread["num_samples"], f1["score_details"]["details"]) == (4, {"rows_with_error": "1"})
    assert (em["metric_config"]["score_type"], "score_type" in f1["metric_config"]) == (
        "binary",
        False,
    )
    assert found["detailed_evaluation_results"]["total_rows"] == 7
    assert found["evaluation_timestamp"] == "2026-11-16"
    assert found["eval_library"] == {"name": "mine", "version": "7"}
    assert f1["source_data"]["hf_repo"] == "org/sums"
    details = {"deployment_type": "self_deployed", "model_availability": "open_weights"}
    assert found["model_info"]["additional_details"] == details


@pytest.mark.parametrize(
    ("end", "time"),
    [
        ("2026-11-16T10:00:00+00:00/task", "2026-11-16T10:00:00+00:00"),
        ("1735000000.5", "1735000000.5"),
        ("f7957b19df0b9a66", None),
        ("judge/baseline", None),
        ("12345678901234567890", None),
    ],
)
def test_only_a_time_is_a_time(tmp_path: Path, end: str, time: str | None) -> None:
    """Logs without a time have something else at the end of their ids."""
    run = {"evaluation_id": f"sums/org/m/{end}", "evaluation_result_id": "em"}
    corpus = corpus_of(tmp_path, [record(1, 1.0, **run)])
    [document] = exported(corpus, tmp_path).values()
    assert document.get("evaluation_timestamp") == time


def test_metadata_say_that_lower_is_better(tmp_path: Path) -> None:
    """Then some records are correct, too. Otherwise, a correct one says that higher is better."""
    records = []
    for number in range(4):
        lower = {"metadata": {"lower_is_better": "true"}, "evaluation_result_id": "wer"}
        records.append(record(number, float(number < 2), **lower))
        records.append(record(number, float(number < 2), evaluation_result_id="acc"))
    details = DETAILS.replace("lower_is_better = false", "")
    [document] = exported(corpus_of(tmp_path, records), tmp_path, details).values()
    directions = {
        result["evaluation_result_id"]: result["metric_config"]["lower_is_better"]
        for result in document["evaluation_results"]
    }
    assert directions == {"acc": False, "wer": True}


def test_rows_give_the_same_corpus_and_pass_the_check(tmp_path: Path) -> None:
    """Pairs of many runs, models and names: valid by the schema and by `check-pairs`, and no byte
    of a part is lost.
    """
    fastrec.generate(tmp_path / "in", records=150, seed=4, shards=1, schema="0.3.0")
    strange = [
        ("solo", "sums"),
        ("org/a/b", "data"),
        ("org/CON", "../x:y"),
        ("org/.h", "é" * 90),
        ("..", "sums"),
    ]
    lines = [record(0, 1.0, model_id=model, evaluation_name=name) for model, name in strange]
    (tmp_path / "in" / "more.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    fastrec.normalize(tmp_path / "in", tmp_path / "corpus", schema="0.3.0")
    details = DETAILS.replace('[models."solo"]', '[models."[s.]*"]')
    found = exported(tmp_path / "corpus", tmp_path, details)
    runs = {
        (one.evaluation_name, one.model_id, one.evaluation_id)
        for one in fastrec.read(tmp_path / "corpus")
    }
    assert len(found) == len(runs)
    schema = json.loads(SCHEMA.read_text())
    for document in found.values():
        jsonschema.validate(document, schema)
    checked = fastrec.check_pairs(tmp_path / "store")
    assert checked.codes == {"pair.model_folder": 3}, checked.groups
    assert (checked.pairs, checked.reproduced) == (len(runs), checked.results)
    fastrec.normalize(tmp_path / "store", tmp_path / "again", schema="0.3.0")
    assert parts_of(tmp_path / "again") == parts_of(tmp_path / "corpus")
    for samples in (tmp_path / "store").rglob("*_samples.jsonl"):
        text = samples.read_text()
        assert len(text.splitlines()) == text.count("\n")  # some readers split lines like this


def test_only_scores_with_bounds_are_continuous(tmp_path: Path) -> None:
    """The data store refuses the type without them, and no record says them."""
    details = f'{DETAILS}[metrics."f?"]\nmin_score = 0\nmax_score = "Infinity"\n'
    records = [record(0, 0.5, evaluation_result_id=name) for name in ("f1", "other")]
    [found] = exported(corpus_of(tmp_path, records), tmp_path, details).values()
    f1, other = (one["metric_config"] for one in found["evaluation_results"])
    assert (f1["score_type"], f1["min_score"], f1["max_score"]) == ("continuous", 0, "Infinity")
    assert other.keys().isdisjoint(("score_type", "min_score", "max_score"))


def test_names_and_bytes_do_not_depend_on_the_day(tmp_path: Path) -> None:
    corpus = corpus_of(
        tmp_path,
        [
            record(
                0,
                1.0,
                metadata={
                    "harness": "h",
                    "harness_version": "1",
                    "temperature": "0.5",
                    "split": "test",
                },
            )
        ],
    )
    first = exported(corpus, tmp_path)
    assert exported(corpus, tmp_path, overwrite=True) == first
    [document] = first.values()
    assert document["eval_library"] == {"name": "h", "version": "1"}
    settings = document["evaluation_results"][0]["generation_config"]
    assert settings == {
        "generation_args": {"temperature": 0.5},
        "additional_details": {"split": "test"},
    }


def test_all_that_is_missing_is_listed_at_once(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [record(0, 0.5), record(1, 0.5, model_id="solo")])
    result = run_command("export", corpus, "-o", tmp_path / "store", "--format", "pairs")
    assert result.returncode == 2
    message = result.stderr.decode()
    wanted = [
        "source_organization_name",
        "evaluator_relationship",
        "eval_library.name",
        "eval_library.version",
        "lower_is_better",
        "developer",
    ]
    assert [word for word in wanted if word not in message] == []
    assert "(2 runs)" in message
    # The paths above are those of aggregates, not of the file.
    assert '[metrics."NAME"] and [models."NAME"]; docs/sharing.md has an example.\n' in message
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("details", "options", "message"),
    [
        ("[source]\n", {}, "unknown field"),
        ("x", {}, "details.toml"),
        (DETAILS.replace("first_party", "friends"), {}, "evaluator_relationship"),
        (DETAILS, {"model": "nobody"}, "nobody"),
    ],
)
def test_wrong_details_are_errors(
    tmp_path: Path, details: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        exported(corpus_of(tmp_path, [record(0, 1.0)]), tmp_path, details, **options)
    assert not (tmp_path / "store").exists()


def test_pairs_need_the_newest_version_and_tables_no_details(tmp_path: Path) -> None:
    fastrec.generate(tmp_path / "in", records=5, seed=4, shards=1)
    fastrec.normalize(tmp_path / "in", tmp_path / "corpus")
    with pytest.raises(UsageError, match=r"normalize with --schema 0\.3\.0"):
        exported(tmp_path / "corpus", tmp_path)
    with pytest.raises(UsageError, match="an option of pairs"):
        fastrec.export(
            tmp_path / "corpus", tmp_path / "out", format="csv", details=tmp_path / "details.toml"
        )


def test_records_without_a_metric_and_with_an_empty_one_are_two_results(tmp_path: Path) -> None:
    records = [record(number, 1.0) for number in range(2)]
    for without in records:
        del without["evaluation_result_id"]
    records.append(record(2, 0.0, evaluation_result_id=""))
    [document] = exported(corpus_of(tmp_path, records), tmp_path).values()
    found = [
        (result.get("evaluation_result_id"), result["score_details"]["score"])
        for result in document["evaluation_results"]
    ]
    assert sorted(found, key=str) == [("", 0.0), (None, 1.0)]
    assert fastrec.check_pairs(tmp_path / "store").errors == 0


def test_rows_have_the_label_of_their_version(tmp_path: Path) -> None:
    """A corpus keeps wrong labels, but readers of the data store judge rows by them, and refuse
    such rows.
    """
    note = {"schema_version": "0.2.1"}
    labels = ["0.2.1", "instance_level_eval_0.2.0", "0.3.0", "0.2.2", "my own"]
    records = [
        record(number, 1.0, schema_version=label, metadata=note)
        for number, label in enumerate(labels)
    ]
    corpus = corpus_of(tmp_path, records)
    (tmp_path / "details.toml").write_text(DETAILS)
    details = {"format": "pairs", "details": tmp_path / "details.toml"}
    done = fastrec.export(corpus, tmp_path / "store", **details)
    assert [notice for notice in done.notices if "2 rows" in notice and "schema_version" in notice]
    checked = fastrec.check_pairs(tmp_path / "store")
    assert checked.ok, checked.groups
    [samples] = (tmp_path / "store").rglob("*_samples.jsonl")
    rows = sorted(
        map(json.loads, samples.read_text().splitlines()), key=lambda row: row["sample_id"]
    )
    assert [row["schema_version"] for row in rows] == ["0.3.0", "0.3.0", "0.3.0", "0.2.2", "my own"]
    assert all(row["metadata"] == note for row in rows)
    (tmp_path / "right").mkdir()
    done = fastrec.export(
        corpus_of(tmp_path / "right", [record(0, 1.0)]), tmp_path / "other", **details
    )
    assert done.notices == []


def test_runs_with_records_with_and_without_a_metric(tmp_path: Path) -> None:
    records = [record(number, 1.0, evaluation_result_id="f1") for number in range(2)]
    for number in (2, 3, 4):
        records.append(record(number, 0.0))
        records[-1].pop("evaluation_result_id", None)
    exported(corpus_of(tmp_path, records), tmp_path)
    checked = fastrec.check_pairs(tmp_path / "store")
    assert checked.ok, checked.groups
    assert (checked.results, checked.reproduced) == (2, 2)


def test_a_mean_is_within_the_bounds_of_its_scores(tmp_path: Path) -> None:
    """The sum of 20 times 2.97 / 20 is 2.9700000000000006."""
    details = f'{DETAILS}[metrics."grade"]\nmin_score = 0\nmax_score = 2.97\n'
    records = [record(number, 2.97, evaluation_result_id="grade") for number in range(20)]
    [found] = exported(corpus_of(tmp_path, records), tmp_path, details).values()
    assert found["evaluation_results"][0]["score_details"]["score"] == 2.97
    assert fastrec.check_pairs(tmp_path / "store").ok


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("tiiuae/falcon", "tiiuae/falcon"),
        ("org/metadata", "org/metadata"),
        ("org/data", "org/data_"),
        ("org/con", "org/con_"),
        ("org/Con.v2", "org/Con_.v2"),
        ("../../x", "__/_._x"),
        ("a/../../../x", "a/_._.._.._x"),
        ("org/a\0b\nc", "org/a_b_c"),
        ("org/..", "org/__"),
        ("org/C:\\x", "org/C__x"),
        ("org/" + "x" * 5_000, "org/" + "x" * 240),
        ("org/" + "é" * 300, "org/" + "é" * 120),
        ("org/a" + "\U0001f600" * 300, "org/a" + "\U0001f600" * 59),
    ],
)
def test_names_of_folders(model: str, folder: str) -> None:
    """None leads out of the output, and a name that every system allows is kept."""
    assert "/".join(map(_portable, model.split("/", 1))) == folder


def test_names_that_differ_in_what_folders_cannot_say(tmp_path: Path) -> None:
    """Such runs share a folder on some systems; their files have different names."""
    models = [
        "org/M",
        "org/m",
        "org/a:b",
        "org/a?b",
        "org/" + "x" * 300,
        "org/" + "x" * 301,
        "/etc/x",
        "../../../x",
    ]
    records = [record(0, 1.0, model_id=model, evaluation_name="../../sums") for model in models]
    found = exported(
        corpus_of(tmp_path, records), tmp_path, f'{DETAILS}[models."/*"]\ndeveloper = "/etc"\n'
    )
    assert len({path.lower() for path in found}) == len(models)
    assert {path.name for path in tmp_path.iterdir()} == {
        "corpus",
        "details.toml",
        "in.jsonl",
        "store",
    }
    checked = fastrec.check_pairs(tmp_path / "store")
    assert checked.codes.keys() == {"pair.model_folder"}
    assert checked.pairs == len(models)


def test_the_developer_does_not_move_a_model(tmp_path: Path) -> None:
    """The folder follows from the id of a model; who developed it may be named otherwise."""
    details = f'{DETAILS}[models."org/*"]\ndeveloper = "Org Inc."\n'
    [(path, document)] = exported(corpus_of(tmp_path, [record(0, 1.0)]), tmp_path, details).items()
    assert path.startswith("data/sums/org/m/")
    assert document["model_info"]["developer"] == "Org Inc."
    assert fastrec.check_pairs(tmp_path / "store").ok


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[metrics."f1"]\nmin_score = 2\nmax_score = 3\n', "f1.score_details.score: expected"),
        ('[metrics."f1"]\nmin_score = "one"\nmax_score = 3\n', '"Infinity" or "-Infinity"'),
        ('[metrics."f1"]\nscore_type = "continuous"\n', "f1.metric_config.max_score"),
        ('[metrics."f1".llm_scoring]\ninput_prompt = "?"\n', "f1.metric_config.llm_scoring.judges"),
        ('[evaluations."s*".source_data]\nsource_type = "url"\n', "at least one url"),
        ('[models."org/m".additional_details]\nnote = 7\n', "model_info.additional_details.note"),
    ],
)
def test_what_the_data_store_refuses_is_not_exported(
    tmp_path: Path, more: str, message: str
) -> None:
    """The aggregates are judged as `check-pairs` judges them."""
    corpus = corpus_of(tmp_path, [record(0, 1.0, evaluation_result_id="f1")])
    with pytest.raises(UsageError) as caught:
        exported(corpus, tmp_path, DETAILS + more)
    assert message in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_what_the_data_store_warns_of_is_a_notice(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [record(0, 1.0, evaluation_result_id="score")])
    details = DETAILS.replace("self_deployed", "unknown")
    (tmp_path / "details.toml").write_text(details)
    done = fastrec.export(
        corpus, tmp_path / "store", format="pairs", details=tmp_path / "details.toml"
    )
    [notice] = done.notices
    assert notice.startswith("the data store may warn of pair.generic_metric (1 run), pair.unknown")
    checked = fastrec.check_pairs(tmp_path / "store")
    assert checked.codes == {"pair.generic_metric": 1, "pair.unknown_deployment": 1}


def test_the_validator_of_the_data_store_agrees(tmp_path: Path) -> None:
    """Its own `validate` takes what `export` writes: exit 0, without a warning."""
    program = os.environ.get("EVERY_EVAL_EVER")
    if not program:
        pytest.skip("EVERY_EVAL_EVER does not name the program every_eval_ever")
    fastrec.generate(tmp_path / "in", records=150, seed=4, shards=1, schema="0.3.0")
    fastrec.normalize(tmp_path / "in", tmp_path / "corpus", schema="0.3.0")
    exported(tmp_path / "corpus", tmp_path)
    files = ["data/*/*/*/*.json", "data/*/*/*/*.jsonl"]
    done = subprocess.run(
        [program, "validate", "--format", "github", *files],
        cwd=tmp_path / "store",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
